//! From a graph to one program.
use crate::{Argument, Graph, Node, Output, symbols};
use tpu_hlo::{Builder, DType, Dims, Number, Value};
use tpu_ops::{Arg, Error, Lower, Outs, Param, Result};

type B = Builder;

/// What a node gives.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Tensor(Value),
    Tensors(Outs),
    Number(Number),
    /// A number that follows from sizes which only a launch knows.
    Scalar(Value),
}

/// Names of nodes that are no operators.
pub(crate) fn is_structural(op: &str) -> bool {
    matches!(
        op,
        "tensor" | "number" | "constant" | "getitem" | "sym_size.int" | "sym_numel"
    ) || op.starts_with("python.")
        || crate::control::is_control(op)
}

impl Lower for Graph {
    fn call(&self, b: &mut B, args: &[Arg]) -> Result<Outs> {
        self.lower(b, args).map_err(|(_, error)| error)
    }

    fn params(&self) -> Vec<Param> {
        vec![Param::STATIC_INTS, Param::TENSORS]
    }
}

impl Graph {
    /// As [`Lower::call`]; an error comes with the position of the node that it is about.
    pub(crate) fn lower(
        &self,
        b: &mut B,
        args: &[Arg],
    ) -> std::result::Result<Outs, (Option<usize>, Error)> {
        let mut run = Run {
            numbers: args.first(),
            tensors: args.get(1),
            items: Vec::with_capacity(self.nodes.len()),
        };
        for (i, node) in self.nodes.iter().enumerate() {
            if let Some(at) = &node.at {
                b.set_location(&at.name, &at.file, at.line);
            }
            if b.is_padded() {
                b.mark(i as u32);
            }
            let item = run.node(b, node);
            let item = item.map_err(|error| (Some(i), symbols::named(b, node, error)))?;
            if b.is_padded() {
                symbols::agree(b, node, &item).map_err(|error| (Some(i), error))?;
            }
            run.items.push(item);
        }
        self.results(b, &run).map_err(|error| (None, error))
    }

    fn results(&self, b: &mut B, run: &Run<'_>) -> Result<Outs> {
        let fresh = self.outputs.iter().map(|out| match out {
            None => Ok(b.undefined()),
            Some(out) => run.output(b, out),
        });
        let mut outs: Outs = fresh.collect::<Result<_>>()?;
        for &node in &self.written {
            outs.push(run.tensor(node)?);
        }
        Ok(outs)
    }
}

/// A walk over the nodes.
pub(crate) struct Run<'a> {
    numbers: Option<&'a Arg>,
    tensors: Option<&'a Arg>,
    items: Vec<Item>,
}

pub(crate) fn malformed(what: &str) -> Error {
    Error::runtime(format!("TPU4001: not a graph: {what}"))
}

impl Run<'_> {
    fn node(&self, b: &mut B, node: &Node) -> Result<Item> {
        if let Some(row) = node.row {
            return self.row(b, row, node);
        }
        if crate::control::is_control(&node.op) {
            return self.control(b, node);
        }
        match (node.op.as_str(), node.args.as_slice()) {
            ("tensor", [Argument::Int(i)]) => self.input(*i as usize),
            ("number", [Argument::Int(i)]) => match self.numbers {
                Some(Arg::Ints(list)) if (*i as usize) < list.len() => {
                    Ok(Item::Number(Number::Int(list[*i as usize])))
                }
                _ => Err(malformed("a number that is not given")),
            },
            ("getitem", [Argument::Node { node }, Argument::Int(i)]) => {
                match self.items.get(*node) {
                    Some(Item::Tensors(list)) if (*i as usize) < list.len() => {
                        Ok(Item::Tensor(list[*i as usize]))
                    }
                    Some(Item::Tensor(x)) if *i == 0 => Ok(Item::Tensor(*x)),
                    _ => Err(malformed("an item of what is no list")),
                }
            }
            ("constant", [x]) => self.number(x).map(Item::Number),
            ("sym_size.int", [x, dim]) => {
                let (dims, dim) = (b.dims(self.value(x)?), self.number(dim)?.to_i64());
                let size = dims.get(tpu_ops::check::dim(dim, dims.len())? as usize);
                Ok(Item::Number(Number::Int(size.copied().unwrap_or(1))))
            }
            ("sym_numel", [x]) => Ok(Item::Number(Number::Int(b.ty(self.value(x)?).numel()))),
            (_, _) if b.is_padded() && node.size.is_some() => {
                let size = node.size.as_ref().map(|size| b.number_of(&size.size()));
                Ok(Item::Number(Number::Int(size.unwrap_or_default())))
            }
            (op, args) if b.is_padded() => symbols::arithmetic(b, self, op, args),
            (op, args) => {
                let numbers = args.iter().map(|a| self.number(a));
                arithmetic(op, &numbers.collect::<Result<Vec<_>>>()?).map(Item::Number)
            }
        }
    }

    fn input(&self, i: usize) -> Result<Item> {
        match self.tensors {
            Some(Arg::Tensors(list)) => match list.get(i) {
                Some(Some(v)) => Ok(Item::Tensor(*v)),
                _ => Err(malformed("a tensor that is not given")),
            },
            _ => Err(malformed("no tensors are given")),
        }
    }

    fn row(&self, b: &mut B, row: &tpu_ops::Op, node: &Node) -> Result<Item> {
        let params = row.params();
        let none = Argument::None;
        let mut args = Vec::with_capacity(params.len());
        for (i, param) in params.iter().enumerate().take(node.args.len()) {
            args.push(self.argument(b, param, node.args.get(i).unwrap_or(&none))?);
        }
        if let Some(dtype) = &node.dtype {
            args.push(Arg::DType(dtype_of(dtype)?));
        }
        row.check(&self.own(&params, node)?)?;
        if let Some(count) = row.count()
            && !count.call(b, &args)?.is_empty()
        {
            let op = &node.op;
            return Err(Error::runtime(format!(
                "TPU4002: {op} cannot be part of a graph: the size of its result depends on data"
            )));
        }
        if let Some(size) = row.size() {
            let n = size(&self.on_host(node)?)?;
            args.push(Arg::Number(Number::Int(n)));
        }
        let mut outs = row.lower(b, &args)?;
        Ok(match outs.len() {
            1 if !node.gives_list() => Item::Tensor(outs.remove(0)),
            _ => Item::Tensors(outs),
        })
    }

    /// The numbers that a launch of the row alone would bind.
    fn own(&self, params: &[Param], node: &Node) -> Result<Vec<Number>> {
        let scalars = params.iter().zip(&node.args);
        let scalars = scalars.filter(|(p, a)| p.ty == "Scalar" && !matches!(a, Argument::None));
        let mut own = Vec::new();
        for (param, arg) in scalars.filter(|(_, a)| self.scalar(a).is_none()) {
            let n = self.number(arg)?;
            if !param.bound.fixes(n) {
                own.push(n);
            }
        }
        Ok(own)
    }

    /// Numbers and dtypes of the call, for a row that computes a size of them.
    fn on_host(&self, node: &Node) -> Result<Vec<Arg>> {
        let mut known = Vec::with_capacity(node.args.len() + 1);
        for arg in &node.args {
            known.push(match arg {
                Argument::Dtype { dtype } => Arg::DType(dtype_of(dtype)?),
                other => self.number(other).map_or(Arg::None, Arg::Number),
            });
        }
        if let Some(dtype) = &node.dtype {
            known.push(Arg::DType(dtype_of(dtype)?));
        }
        Ok(known)
    }

    fn argument(&self, b: &mut B, param: &Param, arg: &Argument) -> Result<Arg> {
        if matches!(arg, Argument::None) || matches!(param.ty, "*" | "Generator") {
            return Ok(Arg::None);
        }
        Ok(match param.ty {
            "Tensor" => Arg::Tensor(self.tensor_or_number(b, arg)?),
            "Tensor[]" | "Tensor?[]" => Arg::Tensors(self.list(arg)?),
            "str" => Arg::Str(text(arg)?.into()),
            "ScalarType" => Arg::DType(dtype_of(text(arg)?)?),
            "int[]" => Arg::Ints(self.numbers(arg)?.iter().map(|n| n.to_i64()).collect()),
            "float[]" => Arg::Floats(self.numbers(arg)?.iter().map(|n| n.to_f64()).collect()),
            "bool[]" => Arg::Bools(self.numbers(arg)?.iter().map(|n| n.to_bool()).collect()),
            "Scalar[]" => {
                let list = self.numbers(arg)?;
                Arg::Scalars(list.into_iter().map(|n| b.weak(n)).collect())
            }
            _ if self.scalar(arg).is_some() => self.scalar(arg).map_or(Arg::None, Arg::Scalar),
            _ => match self.number(arg)? {
                n if param.bound.fixes(n) => Arg::Number(n),
                Number::Int(n) if b.depends(n) => Arg::Scalar(b.weak_size(n)?),
                n => Arg::Scalar(b.weak(n)),
            },
        })
    }

    /// A number that only a launch knows.
    pub(crate) fn scalar(&self, arg: &Argument) -> Option<Value> {
        match arg {
            Argument::Node { node } => match self.items.get(*node) {
                Some(Item::Scalar(v)) => Some(*v),
                _ => None,
            },
            _ => None,
        }
    }

    fn tensor_or_number(&self, b: &mut B, arg: &Argument) -> Result<Value> {
        if let Some(v) = self.scalar(arg) {
            return Ok(v);
        }
        match self.value(arg) {
            Ok(v) => Ok(v),
            Err(_) => match self.number(arg)? {
                Number::Int(n) if b.depends(n) => Ok(b.weak_size(n)?),
                n => Ok(b.weak(n)),
            },
        }
    }

    pub(crate) fn value(&self, arg: &Argument) -> Result<Value> {
        match arg {
            Argument::Node { node } => self.tensor(*node),
            _ => Err(malformed("a tensor is missing")),
        }
    }

    fn tensor(&self, node: usize) -> Result<Value> {
        match self.items.get(node) {
            Some(Item::Tensor(v)) => Ok(*v),
            Some(Item::Tensors(list)) if list.len() == 1 => Ok(list[0]),
            _ => Err(malformed("a node that is no tensor")),
        }
    }

    pub(crate) fn list(&self, arg: &Argument) -> Result<Vec<Option<Value>>> {
        match arg {
            Argument::List(list) => {
                let member = |a: &Argument| match a {
                    Argument::None => Ok(None),
                    other => self.value(other).map(Some),
                };
                list.iter().map(member).collect()
            }
            Argument::Node { node } => match self.items.get(*node) {
                Some(Item::Tensors(list)) => Ok(list.iter().copied().map(Some).collect()),
                _ => Err(malformed("a list is missing")),
            },
            _ => Err(malformed("a list is missing")),
        }
    }

    pub(crate) fn number(&self, arg: &Argument) -> Result<Number> {
        Ok(match arg {
            Argument::Bool(x) => Number::Bool(*x),
            Argument::Int(x) => Number::Int(*x),
            Argument::Float(x) => Number::Float(*x),
            Argument::Odd { float } => {
                Number::Float(float.parse().map_err(|_| malformed("a float is missing"))?)
            }
            Argument::Complex { complex } => Number::Complex(complex.0, complex.1),
            Argument::Node { node } => match self.items.get(*node) {
                Some(Item::Number(n)) => *n,
                _ => return Err(malformed("a number is missing")),
            },
            _ => return Err(malformed("a number is missing")),
        })
    }

    /// A list of numbers; one number is a list of it.
    fn numbers(&self, arg: &Argument) -> Result<Vec<Number>> {
        match arg {
            Argument::List(list) => list.iter().map(|a| self.number(a)).collect(),
            one => Ok(vec![self.number(one)?]),
        }
    }

    fn output(&self, b: &mut B, out: &Output) -> Result<Value> {
        let v = self.tensor(out.node)?;
        if b.is_undefined(v) {
            // A result that nothing reads, as the sequence lengths of dense attention.
            return Ok(b.full(0, DType::I64, &[0]));
        }
        if let Some(order) = &out.order {
            let order: Dims = order.iter().copied().collect();
            b.set_order(v, &order);
        }
        Ok(v)
    }
}

impl Node {
    /// Whether the overload returns a list, which `getitem` takes apart even if it has one member.
    fn gives_list(&self) -> bool {
        let list = ["split.Tensor", "split_with_sizes", "unbind.int"];
        list.contains(&self.op.as_str()) || self.op.starts_with("_foreach_")
    }
}

fn text(arg: &Argument) -> Result<&str> {
    match arg {
        Argument::Str { str: text } | Argument::Dtype { dtype: text } => Ok(text),
        _ => Err(malformed("a name is missing")),
    }
}

pub(crate) fn dtype_of(name: &str) -> Result<DType> {
    let known = DType::ALL.into_iter().find(|t| t.python() == name);
    known.ok_or_else(|| malformed("an unknown dtype"))
}

/// Python's arithmetic on floats that follow from sizes.
fn of_floats(op: &str, numbers: &[Number]) -> Result<Number> {
    let floats: Vec<f64> = numbers.iter().map(|n| n.to_f64()).collect();
    let x = match (op, floats.as_slice()) {
        ("python.add", [x, y]) => x + y,
        ("python.sub", [x, y]) => x - y,
        ("python.mul", [x, y]) => x * y,
        ("python.truediv", [x, y]) => x / y,
        ("python.pow", [x, y]) => x.powf(*y),
        ("python.neg", [x]) => -x,
        ("python.float", [x]) => *x,
        ("python.max", [x, y]) => x.max(*y),
        ("python.min", [x, y]) => x.min(*y),
        _ => return Err(malformed(&format!("`{op}` on numbers"))),
    };
    Ok(Number::Float(x))
}

/// Python's arithmetic on sizes.
fn arithmetic(op: &str, numbers: &[Number]) -> Result<Number> {
    let float = |n: &Number| matches!(n, Number::Float(_));
    if matches!(op, "python.truediv" | "python.float") || numbers.iter().any(float) {
        return of_floats(op, numbers);
    }
    let ints: Vec<i64> = numbers.iter().map(|n| n.to_i64()).collect();
    let div = |x: i64, y: i64| {
        let q = x.checked_div(y)?;
        Some(q - i64::from(x % y != 0 && (x < 0) != (y < 0)))
    };
    let result = match (op, ints.as_slice()) {
        ("python.add", [x, y]) => x.checked_add(*y),
        ("python.sub", [x, y]) => x.checked_sub(*y),
        ("python.mul", [x, y]) => x.checked_mul(*y),
        ("python.floordiv", [x, y]) => div(*x, *y),
        ("python.mod", [x, y]) => div(*x, *y).map(|q| x - q * y),
        ("python.pow", [x, y]) => u32::try_from(*y).ok().and_then(|y| x.checked_pow(y)),
        ("python.neg", [x]) => x.checked_neg(),
        ("python.max", [x, y]) => Some(*x.max(y)),
        ("python.min", [x, y]) => Some(*x.min(y)),
        _ => return Err(malformed(&format!("`{op}` on numbers"))),
    };
    result
        .map(Number::Int)
        .ok_or_else(|| malformed(&format!("`{op}` overflows")))
}
