use crate::{DType, Error, Number, Result, Type};
use smallvec::SmallVec;
use std::fmt::Write;

/// An SSA value of the [`Builder`] that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Value(u32);

/// What the launcher binds to a parameter of the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// The buffer of the n-th tensor of the call.
    Buffer(u32),
    /// The n-th number of the call, converted on the host to the parameter's dtype.
    Number(u32),
    /// Memory for the n-th result, with nothing in it.
    Spare(u32),
    /// The n-th of [`Builder::atoms`], a size that only the launch knows.
    Size(u32),
}

impl Slot {
    /// The generator's seed, a `U64` scalar.
    pub const SEED: Self = Self::Number(u32::MAX - 1);
    /// How many 128-bit blocks the generator gave out before this launch, a `U64` scalar.
    pub const OFFSET: Self = Self::Number(u32::MAX);
}

/// A parameter that the finished program reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Where the launcher finds the value.
    pub slot: Slot,
    /// Type of the parameter.
    pub ty: Type,
}

/// A finished program: text, and the types that a launch has to match.
#[derive(Clone, Debug)]
pub struct Module {
    /// StableHLO in MLIR's generic form; the public function is `main`.
    pub text: String,
    /// Parameters in order; those that nothing reads are gone.
    pub inputs: Vec<Input>,
    /// Result types in order.
    pub outputs: Vec<Type>,
    /// For each output the input whose buffer it may take over, if that is donated.
    pub aliases: Vec<Option<usize>>,
}

impl Module {
    /// Whether [`Settings::precision`] is part of what it computes.
    pub fn multiplies(&self) -> bool {
        self.text.contains("precision_config")
    }
}

#[derive(Clone, Copy)]
enum Name {
    Param,
    Result(u32),
    Part(u32, u32),
}

struct Info {
    ty: Type,
    name: Name,
    slot: Option<Slot>,
    weak: bool,
    undefined: bool,
    strided: bool,
    /// Dimensions from the slowest to the fastest in memory; row-major if none is asked for.
    order: Option<crate::Dims>,
    /// What the value is a transpose of.
    transposed: Option<(Value, crate::Dims)>,
    /// What a parameter is called, for people.
    label: Option<String>,
    used: bool,
}

/// What decides a program's numbers besides its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Settings {
    /// Precision of float32 products on hardware that computes them in bf16 passes.
    pub precision: crate::Precision,
    /// PyTorch's default dtype, `F32` unless `torch.set_default_dtype` said otherwise.
    pub default_dtype: DType,
    /// Whether duplicate scatter indices have to be summed in a fixed order.
    pub deterministic: bool,
    /// Whether the program is for a TPU rather than the CPU plugin.
    pub tpu: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let precision = crate::Precision::Highest;
        Self {
            precision,
            default_dtype: DType::F32,
            deterministic: false,
            tpu: false,
        }
    }
}

/// Appends ops to a module's body and infers their result types.
#[derive(Default)]
pub struct Builder {
    /// What decides numbers besides the arguments.
    pub settings: Settings,
    body: String,
    values: Vec<Info>,
    params: Vec<Value>,
    depth: usize,
    checks: Vec<(Value, String)>,
    random: u64,
    /// ` loc(...)` of what is appended; empty where nobody asks.
    location: String,
    functions: String,
    pub(crate) padding: crate::padding::Padding,
}

impl Builder {
    /// An empty module.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Type of a value.
    pub fn ty(&self, v: Value) -> &Type {
        &self.values[v.0 as usize].ty
    }

    /// Element type of a value.
    pub fn dtype(&self, v: Value) -> DType {
        self.ty(v).dtype
    }

    /// Sizes of a value.
    pub fn dims(&self, v: Value) -> crate::Dims {
        self.ty(v).dims.clone()
    }

    /// Number of dimensions of a value.
    pub fn rank(&self, v: Value) -> usize {
        self.ty(v).rank()
    }

    /// A parameter of type `ty` bound to `slot`.
    pub fn param(&mut self, slot: Slot, ty: Type) -> Value {
        let known = self.params.iter().copied().find(|v| {
            let info = &self.values[v.0 as usize];
            info.slot == Some(slot) && info.ty == ty && !info.weak
        });
        known.unwrap_or_else(|| self.push_param(ty, slot, false))
    }

    /// A parameter that nothing reads and whose buffer result `output` takes over.
    pub fn spare(&mut self, output: usize, ty: Type) -> Value {
        let v = self.push_param(ty, Slot::Spare(output as u32), false);
        self.values[v.0 as usize].used = true;
        v
    }

    /// A run-time number: a 0-dimensional parameter whose dtype gives way in type promotion
    /// (PyTorch's wrapped number, JAX's weak type).
    pub fn number(&mut self, slot: u32, dtype: DType) -> Value {
        self.push_param(Type::scalar(dtype), Slot::Number(slot), true)
    }

    fn push_param(&mut self, ty: Type, slot: Slot, weak: bool) -> Value {
        let v = self.push(ty, Name::Param);
        let info = &mut self.values[v.0 as usize];
        (info.slot, info.weak) = (Some(slot), weak);
        self.params.push(v);
        v
    }

    /// A number known now whose dtype gives way in type promotion, like [`Builder::number`]'s.
    pub fn weak(&mut self, n: Number) -> Value {
        let v = self.constant(n, n.dtype(), &[]);
        self.values[v.0 as usize].weak = true;
        v
    }

    /// `v`, a scalar, as a value whose dtype gives way in type promotion.
    pub fn weakened(&mut self, v: Value) -> Value {
        let ty = self.ty(v).clone();
        let v = self.emit("stablehlo.reshape", &[v], "", ty);
        self.values[v.0 as usize].weak = true;
        v
    }

    /// Whether the value is a number made by [`Builder::number`] or [`Builder::weak`].
    pub fn is_weak(&self, v: Value) -> bool {
        self.values[v.0 as usize].weak
    }

    /// Says where the ops that follow come from: what they are part of, and a line of source. It
    /// reaches the compiler's diagnostics and costs, not its code; programs that are kept by their
    /// text go without.
    pub fn set_location(&mut self, name: &str, file: &str, line: u32) {
        self.location = if file.is_empty() {
            format!(" loc(\"{}\")", escaped(name))
        } else {
            let (name, file) = (escaped(name), escaped(file));
            format!(" loc(\"{name}\"(\"{file}\":{line}:0))")
        };
    }

    /// Says what people call a parameter.
    pub fn set_label(&mut self, v: Value, label: &str) {
        self.values[v.0 as usize].label = Some(escaped(label));
    }

    /// Adds the text of a function, indented by two, which [`Builder::call`] may name.
    pub fn add_function(&mut self, text: &str) {
        self.functions.push_str(text);
    }

    /// `func.call` of a function that [`Builder::add_function`] added.
    pub fn call(&mut self, name: &str, operands: &[Value], types: &[Type]) -> SmallVec<[Value; 2]> {
        self.emit_n(
            "func.call",
            operands,
            &format!(" <{{callee = @{name}}}>"),
            types,
        )
    }

    pub(crate) fn set_transposed(&mut self, v: Value, of: Value, permutation: &[i64]) {
        self.values[v.0 as usize].transposed = Some((of, permutation.into()));
    }

    /// What `v` was transposed from, and how.
    pub(crate) fn transposed(&self, v: Value) -> Option<(Value, crate::Dims)> {
        self.values[v.0 as usize].transposed.clone()
    }

    /// The value, or for a run-time number the same number converted to `dtype` by the launcher:
    /// the conversion costs no op and keeps 64-bit types out of the program.
    pub(crate) fn renumber(&mut self, v: Value, dtype: DType) -> Option<Value> {
        match self.values[v.0 as usize].slot {
            Some(slot @ Slot::Number(_)) => Some(self.param(slot, Type::scalar(dtype))),
            _ => None,
        }
    }

    fn push(&mut self, ty: Type, name: Name) -> Value {
        self.values.push(Info {
            ty,
            name,
            slot: None,
            weak: false,
            undefined: false,
            strided: false,
            order: None,
            transposed: None,
            label: None,
            used: false,
        });
        Value(self.values.len() as u32 - 1)
    }

    pub(crate) fn same(&self, op: &'static str, x: Value, y: Value) -> Result<Type> {
        let (lhs, rhs) = (self.ty(x), self.ty(y));
        if lhs == rhs {
            return Ok(lhs.clone());
        }
        Err(Error::Mismatch {
            op,
            types: Box::new((lhs.clone(), rhs.clone())),
        })
    }

    pub(crate) fn misfit(&self, op: &'static str, x: Value, attr: &[i64]) -> Error {
        Error::Shape {
            op,
            ty: Box::new(self.ty(x).clone()),
            attr: attr.into(),
        }
    }

    fn write_name(&mut self, v: Value) {
        let info = &mut self.values[v.0 as usize];
        info.used = true;
        let _ = match info.name {
            Name::Param => write!(self.body, "%p{}", v.0),
            Name::Result(n) => write!(self.body, "%{n}"),
            Name::Part(n, i) => write!(self.body, "%{n}#{i}"),
        };
    }

    fn write_list(&mut self, operands: &[Value]) {
        for (i, o) in operands.iter().enumerate() {
            if i > 0 {
                self.body.push_str(", ");
            }
            self.write_name(*o);
        }
    }

    fn write_types(&mut self, operands: &[Value]) {
        for (i, o) in operands.iter().enumerate() {
            let sep = if i > 0 { ", " } else { "" };
            let ty = self.physical(&self.values[o.0 as usize].ty);
            let _ = write!(self.body, "{sep}{ty}");
        }
    }

    fn indent(&mut self) {
        for _ in 0..self.depth + 2 {
            self.body.push_str("  ");
        }
    }

    /// Bytes of text so far; `None` inside a region.
    pub(crate) fn body_len(&self) -> Option<usize> {
        (self.depth == 0).then_some(self.body.len())
    }

    /// The body's text so far.
    pub fn text(&self) -> &str {
        &self.body
    }

    /// Appends one op with one result. `attrs` is printed between operands and types: properties
    /// in `<{...}>`, regions in `({...})`.
    pub fn emit(&mut self, op: &str, operands: &[Value], attrs: &str, ty: Type) -> Value {
        self.emit_n(op, operands, attrs, &[ty])[0]
    }

    /// Appends one op with any number of results.
    pub fn emit_n(
        &mut self,
        op: &str,
        operands: &[Value],
        attrs: &str,
        types: &[Type],
    ) -> SmallVec<[Value; 2]> {
        self.expect_exact(op, operands, types);
        let id = self.values.len() as u32;
        let outs: SmallVec<[Value; 2]> = match types {
            [ty] => smallvec::smallvec![self.push(ty.clone(), Name::Result(id))],
            _ => (0..types.len())
                .map(|i| self.push(types[i].clone(), Name::Part(id, i as u32)))
                .collect(),
        };
        self.indent();
        let _ = match types.len() {
            0 => Ok(()),
            1 => write!(self.body, "%{id} = "),
            n => write!(self.body, "%{id}:{n} = "),
        };
        let _ = write!(self.body, "\"{op}\"(");
        self.write_list(operands);
        self.body.push(')');
        self.body.push_str(attrs);
        self.body.push_str(" : (");
        self.write_types(operands);
        self.body.push_str(") -> ");
        let shown = |ty: &Type| self.physical(ty).to_string();
        if let [ty] = types {
            let ty = shown(ty);
            let _ = writeln!(self.body, "{ty}{}", self.location);
        } else {
            let list: Vec<String> = types.iter().map(shown).collect();
            let _ = writeln!(self.body, "({}){}", list.join(", "), self.location);
        }
        outs
    }

    /// Text of a region whose block takes `args` and returns what `f` returns; to be placed in the
    /// `attrs` of the op that owns it.
    pub fn region<E>(
        &mut self,
        args: &[Type],
        f: impl FnOnce(&mut Self, &[Value]) -> Result<SmallVec<[Value; 2]>, E>,
    ) -> Result<String, E> {
        let outer = std::mem::take(&mut self.body);
        self.depth += 1;
        let result = self.region_body(args, f);
        self.depth -= 1;
        let inner = std::mem::replace(&mut self.body, outer);
        result.map(|()| inner)
    }

    fn region_body<E>(
        &mut self,
        args: &[Type],
        f: impl FnOnce(&mut Self, &[Value]) -> Result<SmallVec<[Value; 2]>, E>,
    ) -> Result<(), E> {
        self.body.push_str("{\n");
        self.indent();
        let mut values = SmallVec::<[Value; 4]>::new();
        for (i, ty) in args.iter().enumerate() {
            let id = self.values.len() as u32;
            values.push(self.push(ty.clone(), Name::Result(id)));
            let sep = if i == 0 { "^bb0(" } else { ", " };
            let ty = self.physical(ty);
            let _ = write!(self.body, "{sep}%{id}: {ty}");
        }
        self.body
            .push_str(if args.is_empty() { "^bb0:\n" } else { "):\n" });
        let outs = f(self, &values)?;
        self.emit_n("stablehlo.return", &outs, "", &[]);
        self.depth -= 1;
        self.indent();
        self.depth += 1;
        self.body.push('}');
        Ok(())
    }

    /// A constant of shape `dims`, every element `x` converted to `dtype`.
    pub fn constant(&mut self, x: Number, dtype: DType, dims: &[i64]) -> Value {
        let ty = Type::new(dtype, dims);
        let shown = self.physical(&ty);
        let attrs = format!(" <{{value = dense<{}> : {shown}}}>", x.literal(dtype));
        self.emit("stablehlo.constant", &[], &attrs, ty)
    }

    /// A constant vector of 64-bit integers.
    pub fn constant_ints(&mut self, xs: &[i64], dtype: DType) -> Value {
        let ty = Type::new(dtype, &[xs.len() as i64]);
        let list: Vec<String> = xs.iter().map(|&x| Number::Int(x).literal(dtype)).collect();
        let attrs = format!(" <{{value = dense<[{}]> : {ty}}}>", list.join(", "));
        self.emit("stablehlo.constant", &[], &attrs, ty)
    }

    /// A constant vector of floats, each rounded to `dtype`.
    pub fn constant_floats(&mut self, xs: &[f64], dtype: DType) -> Value {
        let ty = Type::new(dtype, &[xs.len() as i64]);
        let list: Vec<String> = xs
            .iter()
            .map(|&x| Number::Float(x).literal(dtype))
            .collect();
        let attrs = format!(" <{{value = dense<[{}]> : {ty}}}>", list.join(", "));
        self.emit("stablehlo.constant", &[], &attrs, ty)
    }

    /// A result that the caller did not ask for (`output_mask`): PyTorch's undefined tensor. In the
    /// program it is an empty constant.
    pub fn undefined(&mut self) -> Value {
        let v = self.constant(Number::Bool(false), DType::Bool, &[0]);
        self.values[v.0 as usize].undefined = true;
        v
    }

    /// Whether the value was made by [`Builder::undefined`].
    pub fn is_undefined(&self, v: Value) -> bool {
        self.values[v.0 as usize].undefined
    }

    /// Says that the value is a tensor of the call which PyTorch does not hold contiguously; a few
    /// rows have to know, because their derivatives ask (`_linalg_det`).
    pub fn mark_strided(&mut self, v: Value) {
        self.values[v.0 as usize].strided = true;
    }

    /// Whether the value was marked by [`Builder::mark_strided`].
    pub fn is_strided(&self, v: Value) -> bool {
        self.values[v.0 as usize].strided
    }

    /// Asks for a result's memory to have its dimensions in this order, the fastest moving last.
    pub fn set_order(&mut self, v: Value, order: &[i64]) {
        self.values[v.0 as usize].order = Some(order.into());
    }

    /// What [`Builder::set_order`] asked for.
    pub fn order(&self, v: Value) -> Option<&[i64]> {
        self.values[v.0 as usize].order.as_deref()
    }

    /// Demands that a run-time condition holds. `bad` is a 0-dimensional `I64`: the offending
    /// value, or `i64::MIN` when all is well. The launcher raises `message` with `{}` replaced by
    /// the value; a message starts with the Python class, as in `IndexError: index {} is ...`.
    pub fn check(&mut self, bad: Value, message: impl Into<String>) {
        self.checks.push((bad, message.into()));
    }

    /// The checks demanded so far.
    pub fn take_checks(&mut self) -> Vec<(Value, String)> {
        std::mem::take(&mut self.checks)
    }

    /// Says that the program draws `blocks` more 128-bit blocks from the generator; returns the
    /// blocks drawn before.
    pub fn draw(&mut self, blocks: u64) -> u64 {
        let before = self.random;
        self.random += blocks;
        before
    }

    /// 128-bit random blocks that the program draws.
    pub fn drawn(&self) -> u64 {
        self.random
    }

    /// Prints the module. `aliases` pairs an output with the parameter whose buffer it may reuse.
    pub fn finish(mut self, outs: &[Value], aliases: &[(usize, Value)]) -> Module {
        for v in outs {
            self.values[v.0 as usize].used = true;
        }
        let params: Vec<Value> = self
            .params
            .iter()
            .copied()
            .filter(|v| self.values[v.0 as usize].used)
            .collect();
        let mut aliased = vec![None; outs.len()];
        for (o, v) in aliases {
            let n = params.iter().position(|p| p == v);
            let taken = n.is_some() && aliased.contains(&n);
            if !taken && self.ty(*v) == self.ty(outs[*o]) {
                aliased[*o] = n;
            }
        }
        self.print(&params, outs, aliased)
    }

    fn print(mut self, params: &[Value], outs: &[Value], aliases: Vec<Option<usize>>) -> Module {
        let body = std::mem::replace(&mut self.body, "module {\n  func.func public @main(".into());
        for (n, v) in params.iter().enumerate() {
            let sep = if n > 0 { ", " } else { "" };
            let ty = self.physical(self.ty(*v)).into_owned();
            let _ = write!(self.body, "{sep}%p{}: {ty}", v.0);
            if let Some(o) = aliases.iter().position(|a| *a == Some(n)) {
                let _ = write!(self.body, " {{tf.aliasing_output = {o} : i32}}");
            }
            if let Some(label) = &self.values[v.0 as usize].label {
                let _ = write!(self.body, " loc(\"{label}\")");
            }
        }
        self.body.push_str(") -> (");
        self.write_types(outs);
        let _ = write!(self.body, ") {{\n{body}    return ");
        self.write_list(outs);
        self.body.push_str(if outs.is_empty() { "" } else { " : " });
        self.write_types(outs);
        let _ = write!(self.body, "\n  }}\n{}}}\n", self.functions);
        let slot = |v: &Value| {
            self.values[v.0 as usize]
                .slot
                .unwrap_or(Slot::Buffer(u32::MAX))
        };
        let inputs = params.iter().map(|v| Input {
            slot: slot(v),
            ty: self.physical(self.ty(*v)).into_owned(),
        });
        let inputs = inputs.collect();
        let outputs = outs.iter().map(|v| self.physical(self.ty(*v)).into_owned());
        let outputs = outputs.collect();
        Module {
            text: self.body,
            inputs,
            outputs,
            aliases,
        }
    }
}

/// A text as MLIR has it between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
