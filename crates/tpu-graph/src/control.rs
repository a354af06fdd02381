//! Control flow: the higher-order operators `cond`, `while_loop`, `scan` and `map`, whose bodies
//! are graphs of their own.
use crate::lower::{Item, Run, malformed};
use crate::{Argument, Graph, Node};
use std::cell::Cell;
use tpu_hlo::{Builder, DType, Direction, Type, Value};
use tpu_ops::{Arg, Error, Lower, Outs, Result};

type B = Builder;

/// Whether a node is one of these.
pub(crate) fn is_control(op: &str) -> bool {
    matches!(op, "cond" | "while_loop" | "scan" | "map")
}

impl Run<'_> {
    /// The results of a node of control flow, as a list.
    pub(crate) fn control(&self, b: &mut B, node: &Node) -> Result<Item> {
        let lists = |args: &[Argument]| {
            args.iter()
                .map(|list| self.operands(list))
                .collect::<Result<Vec<_>>>()
        };
        let (outs, bad) = match (
            node.op.as_str(),
            node.graphs.as_slice(),
            node.args.as_slice(),
        ) {
            ("cond", [on_true, on_false], [pred, operands]) => {
                let pred = self.value(pred)?;
                cond(b, pred, [on_true, on_false], &self.operands(operands)?)?
            }
            ("while_loop", [condition, body], args @ [_, _]) => {
                let lists = lists(args)?;
                while_loop(b, condition, body, &lists[0], &lists[1])?
            }
            ("scan", [combine], args @ [_, _, _]) => {
                let lists = lists(args)?;
                scan(b, combine, &lists[0], &lists[1], &lists[2])?
            }
            ("map", [body], args @ [_, _]) => {
                let lists = lists(args)?;
                scan(b, body, &[], &lists[0], &lists[1])?
            }
            (op, ..) => return Err(malformed(&format!("`{op}` without its graphs"))),
        };
        if let Some(bad) = bad {
            let op = &node.op;
            b.check(
                bad,
                format!("IndexError: index {{}} is out of range inside `{op}`"),
            );
        }
        Ok(Item::Tensors(outs))
    }

    fn operands(&self, list: &Argument) -> Result<Vec<Value>> {
        let tensors = self.list(list)?.into_iter();
        tensors
            .map(|v| v.ok_or_else(|| malformed("an operand is missing")))
            .collect()
    }
}

/// Results, and what [`Builder::check`] takes where something in a body is checked.
type Checked = (Outs, Option<Value>);

/// `pred ? on_true(operands) : on_false(operands)`
fn cond(b: &mut B, pred: Value, branches: [&Graph; 2], operands: &[Value]) -> Result<Checked> {
    let pred = scalar(b, pred)?;
    let checks = Cell::new(false);
    let [on_true, on_false] = branches;
    let outs = b.if_else(
        pred,
        |b| call(b, on_true, operands, &checks),
        |b| call(b, on_false, operands, &checks),
    )?;
    Ok(split(outs, checks.get()))
}

/// `while condition(state, constants): state = body(state, constants)`
fn while_loop(
    b: &mut B,
    condition: &Graph,
    body: &Graph,
    state: &[Value],
    constants: &[Value],
) -> Result<Checked> {
    let checks = Cell::new(false);
    let drawn = b.drawn();
    let none = b.scalar(i64::MIN, DType::I64);
    let start: Vec<Value> = state.iter().copied().chain([none]).collect();
    let count = state.len();
    let outs = b.while_loop(
        &start,
        |b, s| {
            let outs = call(b, condition, &with(&s[..count], constants), &checks)?;
            let [go_on, _] = outs[..] else {
                return Err(malformed("a condition with other than one result"));
            };
            scalar(b, go_on)
        },
        |b, s| {
            let mut outs = call(b, body, &with(&s[..count], constants), &checks)?;
            keep_first(b, s[count], &mut outs)?;
            Ok(outs)
        },
    )?;
    unrolled(b, drawn)?;
    Ok(split(outs, checks.get()))
}

/// `for i: carry, y[i] = combine(carry, x[i], constants)` along the first dimension of every `x`;
/// gives the last `carry` and the stacks of `y`.
fn scan(
    b: &mut B,
    combine: &Graph,
    carry: &[Value],
    xs: &[Value],
    constants: &[Value],
) -> Result<Checked> {
    let length = xs.first().and_then(|x| b.dims(*x).first().copied());
    let n = length.ok_or_else(|| malformed("a loop over nothing"))?;
    let checks = Cell::new(false);
    let drawn = b.drawn();
    let made = made_by(b, combine, carry, xs, constants)?;
    let zero = b.scalar(0, DType::I64);
    let none = b.scalar(i64::MIN, DType::I64);
    let mut state = vec![zero, none];
    state.extend_from_slice(carry);
    for ty in made.iter().skip(carry.len()) {
        let dims: Vec<i64> = [n].iter().chain(&ty.dims).copied().collect();
        state.push(b.full(0, ty.dtype, &dims));
    }
    let last = 2 + carry.len();
    let outs = b.while_loop(
        &state,
        |b, s| {
            let n = b.scalar(n, DType::I64);
            Ok::<_, Error>(b.compare(s[0], Direction::LT, n)?)
        },
        |b, s| {
            let slices = at(b, xs, s[0])?;
            let operands = with(&with(&s[2..last], &slices), constants);
            let mut outs = call(b, combine, &operands, &checks)?;
            keep_first(b, s[1], &mut outs)?;
            let one = b.scalar(1, DType::I64);
            let bad = outs.pop().unwrap_or(s[1]);
            let mut next = Outs::from_slice(&[b.add(s[0], one)?, bad]);
            next.extend_from_slice(&outs[..carry.len()]);
            for (stack, y) in s[last..].iter().zip(&outs[carry.len()..]) {
                next.push(put(b, *stack, *y, s[0])?);
            }
            Ok(next)
        },
    )?;
    unrolled(b, drawn)?;
    let bad = checks.get().then_some(outs[1]);
    Ok((outs[2..].into(), bad))
}

/// The types of what `combine` gives, found by lowering it into a region that is dropped.
fn made_by(
    b: &mut B,
    combine: &Graph,
    carry: &[Value],
    xs: &[Value],
    constants: &[Value],
) -> Result<Vec<Type>> {
    let mut types = Vec::new();
    let checks = Cell::new(false);
    b.region(&[], |b, _| {
        let zero = b.scalar(0, DType::I64);
        let slices = at(b, xs, zero)?;
        let mut outs = call(b, combine, &with(&with(carry, &slices), constants), &checks)?;
        outs.pop();
        types = outs.iter().map(|v| b.ty(*v).clone()).collect();
        Ok::<_, Error>(outs)
    })?;
    Ok(types)
}

/// Element `i` of every tensor's first dimension.
fn at(b: &mut B, xs: &[Value], i: Value) -> Result<Vec<Value>> {
    let zero = b.scalar(0, DType::I64);
    let mut slices = Vec::with_capacity(xs.len());
    for &x in xs {
        let dims = b.dims(x);
        let mut start = vec![zero; dims.len()];
        start[0] = i;
        let sizes: Vec<i64> = [1].iter().chain(&dims[1..]).copied().collect();
        let slice = b.dynamic_slice(x, &start, &sizes)?;
        slices.push(b.reshape(slice, &dims[1..])?);
    }
    Ok(slices)
}

/// `stack` with `y` in place `i` of its first dimension.
fn put(b: &mut B, stack: Value, y: Value, i: Value) -> Result<Value> {
    let zero = b.scalar(0, DType::I64);
    let mut start = vec![zero; b.rank(stack)];
    start[0] = i;
    let sizes: Vec<i64> = [1].iter().chain(&b.dims(y)).copied().collect();
    let row = b.reshape(y, &sizes)?;
    Ok(b.dynamic_update_slice(stack, row, &start)?)
}

/// The results of `graph`, then the offending value of the first of its checks that fails, or
/// `i64::MIN`: values of a body cannot be looked at outside of it, unless it returns them.
fn call(b: &mut B, graph: &Graph, operands: &[Value], checks: &Cell<bool>) -> Result<Outs> {
    let before = b.take_checks();
    let tensors = operands.iter().copied().map(Some).collect();
    let mut outs = graph.call(b, &[Arg::Ints(Default::default()), Arg::Tensors(tensors)])?;
    let inside = b.take_checks();
    for (bad, message) in before {
        b.check(bad, message);
    }
    checks.set(checks.get() || !inside.is_empty());
    let mut found = b.scalar(i64::MIN, DType::I64);
    for (bad, _) in inside {
        found = first_of(b, found, bad)?;
    }
    outs.push(found);
    Ok(outs)
}

/// `before` unless nothing was found by then, else `now`.
fn first_of(b: &mut B, before: Value, now: Value) -> Result<Value> {
    let none = b.scalar(i64::MIN, DType::I64);
    let fine = b.compare(before, Direction::EQ, none)?;
    Ok(b.select(fine, now, before)?)
}

/// Makes the last of `outs` what an earlier turn has found, if it has.
fn keep_first(b: &mut B, before: Value, outs: &mut Outs) -> Result<()> {
    if let Some(now) = outs.pop() {
        let first = first_of(b, before, now)?;
        outs.push(first);
    }
    Ok(())
}

fn split(mut outs: Outs, checks: bool) -> Checked {
    let bad = outs.pop();
    (outs, bad.filter(|_| checks))
}

/// Every turn of a loop would draw the same random numbers.
fn unrolled(b: &B, drawn: u64) -> Result<()> {
    match b.drawn() == drawn {
        true => Ok(()),
        false => Err(Error::runtime(
            "TPU4002: random numbers cannot be drawn inside a loop of a graph",
        )),
    }
}

/// A 0-dimensional condition.
fn scalar(b: &mut B, x: Value) -> Result<Value> {
    let x = b.reshape(x, &[])?;
    if b.dtype(x) == DType::Bool {
        return Ok(x);
    }
    let zero = b.full_like(x, 0);
    Ok(b.compare(x, Direction::NE, zero)?)
}

fn with(one: &[Value], other: &[Value]) -> Vec<Value> {
    [one, other].concat()
}
