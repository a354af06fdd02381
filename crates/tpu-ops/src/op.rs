//! A row, and how a plain function becomes one.
use crate::{Error, Result};
use smallvec::SmallVec;
use std::{marker::PhantomData, sync::Arc};
use tpu_hlo::{Builder, DType, Dims, Number, Value};

/// Results of a row, lists flattened in the schema's order.
pub type Outs = SmallVec<[Value; 2]>;

/// An argument as a lowering sees it.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Nothing given.
    None,
    /// `Tensor`
    Tensor(Value),
    /// `Tensor[]` and `Tensor?[]`
    Tensors(Vec<Option<Value>>),
    /// `Scalar`, `float` or `int` bound at launch: a run-time number.
    Scalar(Value),
    /// `Scalar[]` bound at launch.
    Scalars(Vec<Value>),
    /// `int`, `float`, `bool` or `Scalar` that the program is specialised on.
    Number(Number),
    /// `int[]`
    Ints(Dims),
    /// `float[]`
    Floats(Vec<f64>),
    /// `bool[]`
    Bools(Vec<bool>),
    /// `str`
    Str(Arc<str>),
    /// `ScalarType`
    DType(DType),
}

/// What a row's parameter wants, in schema notation, and when its value is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Param {
    /// Schema notation without sizes, `Sym` and `?`: `Tensor`, `int[]`, `Scalar`...
    pub ty: &'static str,
    /// Whether `None` is accepted.
    pub optional: bool,
    /// When the value is bound.
    pub bound: Bound,
}

impl Param {
    /// `int[]`, bound at lowering.
    pub const STATIC_INTS: Self = <Dims as FromArg>::PARAM;
    /// `Tensor[]`
    pub const TENSORS: Self = <Vec<Value> as FromArg>::PARAM;
}

/// When a parameter's value is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// At lowering: the value is part of the program's key.
    Static,
    /// At launch: a run-time operand.
    Launch,
    /// At lowering if the number equals 1, else at launch.
    UnlessOne,
    /// At lowering if the number is negative, NaN or larger than what every float dtype wider than
    /// a byte holds, else at launch.
    UnlessExtreme,
    /// At lowering if the number is one of 0, 0.5, 1, 2, 3 or their negatives, else at launch.
    UnlessSimple,
}

impl Bound {
    /// Whether a parameter of this kind binds the number `n` at lowering.
    pub fn fixes(self, n: Number) -> bool {
        let x = match n {
            Number::Complex(re, 0.0) => re,
            Number::Complex(..) => f64::NAN,
            other => other.to_f64(),
        };
        match self {
            Self::Static => true,
            Self::Launch => false,
            Self::UnlessOne => x == 1.0,
            Self::UnlessExtreme => !(0.0..=65504.0).contains(&x),
            Self::UnlessSimple => [0.0, 0.5, 1.0, 2.0, 3.0].contains(&x.abs()),
        }
    }
}

/// A number bound at launch: changing it compiles nothing. Its dtype (`I64`, `F64`, `Bool`,
/// `C128`) tells the Python type.
#[derive(Clone, Copy, Debug)]
pub struct Scalar(pub Value);

/// A factor, mostly 1 (`alpha`, `beta`): specialised when 1, else bound at launch.
#[derive(Clone, Copy, Debug)]
pub enum Factor {
    /// Exactly 1, `1.0` or `True`.
    One,
    /// Any other number.
    Times(Value),
}

/// A threshold whose range depends on the dtype: those known at lowering can be refused there.
#[derive(Clone, Copy, Debug)]
pub enum Threshold {
    /// One that [`Bound::UnlessExtreme`] fixes.
    Fixed(Number),
    /// Any other number.
    Free(Value),
}

/// An exponent: the ones that have a cheaper form than a power are known at lowering.
#[derive(Clone, Copy, Debug)]
pub enum Exponent {
    /// One that [`Bound::UnlessSimple`] fixes.
    Fixed(Number),
    /// Any other number.
    Free(Value),
}

/// The `generator` parameter: the launcher feeds its seed and offset.
#[derive(Clone, Copy, Debug)]
pub struct Generator;

/// A parameter that does not concern the program (layout, device, pin_memory, memory format).
#[derive(Clone, Copy, Debug)]
pub struct Ignored;

/// One operator: its functional name and its lowering.
pub struct Op {
    /// ATen name with overload, as `add.Tensor`.
    pub name: &'static str,
    lower: &'static dyn Lower,
    /// How results lie in memory.
    pub layout: Layout,
    /// What `out=` may be.
    pub out_dtype: OutDtype,
    /// Parameters that may share no memory with what the call writes, as they are read at other
    /// places than are written: PyTorch refuses it, where elementwise operators may.
    pub apart: &'static [usize],
    count: Option<&'static dyn Lower>,
    guard: Option<Guard>,
    size: Option<Size>,
}

/// How the results of a row lie in memory, unless the row asks otherwise
/// ([`Builder::set_order`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Row-major.
    Contiguous,
    /// In the inputs' order of dimensions, as PyTorch's TensorIterator decides it.
    Inputs,
    /// Channels last if an input of the result's rank is.
    MemoryFormat,
    /// Matrices column by column: results of the rank that the first input or the one of the
    /// highest rank has.
    ColumnMajor,
}

/// Which dtypes an `out=` may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutDtype {
    /// The result's, as for PyTorch's structured kernels and those it generates. The refusal's
    /// words, where `{result}` and `{out}` stand for dtypes as PyTorch names them and `{result++}`
    /// and `{out++}` as C++ does.
    Exact(&'static str),
    /// Whatever the result can be cast to: TensorIterator converts while it writes.
    Cast,
}

impl OutDtype {
    /// What structured kernels say.
    pub const STRUCTURED: Self =
        Self::Exact("Expected out tensor to have dtype {result++}, but got {out++} instead");
    /// What TensorIterator says where it does not convert.
    pub const ITERATED: Self = Self::Exact("Found dtype {out} but expected {result}");

    /// Whether a result of dtype `result` can be written to one of dtype `out`.
    ///
    /// # Errors
    /// PyTorch's refusal.
    pub fn check(self, result: DType, out: DType) -> Result<()> {
        match self {
            Self::Exact(words) if result != out => Err(Error::runtime(
                words
                    .replace("{result}", result.torch())
                    .replace("{out}", out.torch())
                    .replace("{result++}", result.cpp())
                    .replace("{out++}", out.cpp()),
            )),
            _ => Ok(()),
        }
    }
}

/// A size that follows from numbers bound at launch, as the length of `arange`. Gets the call's
/// arguments as they are on the host: numbers and dtypes, [`Arg::None`] for all else.
pub type Size = fn(&[Arg]) -> Result<i64>;

/// Refuses values of the numbers that are bound at launch (in the order of the parameters, absent
/// ones left out), which no lowering sees.
pub type Guard = fn(&[Number]) -> Result<()>;

impl std::fmt::Debug for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Op({})", self.name)
    }
}

impl Op {
    /// A row whose results are contiguous, and written to their own dtype only.
    pub const fn new(name: &'static str, lower: &'static dyn Lower) -> Self {
        Self {
            name,
            lower,
            layout: Layout::Contiguous,
            out_dtype: OutDtype::STRUCTURED,
            apart: &[],
            count: None,
            guard: None,
            size: None,
        }
    }

    /// The row with results in the order of dimensions that the inputs have.
    pub const fn follows_inputs(self) -> Self {
        Self {
            layout: Layout::Inputs,
            ..self
        }
    }

    /// The row with another rule for the dtype of `out=`.
    pub const fn out(self, out_dtype: OutDtype) -> Self {
        Self { out_dtype, ..self }
    }

    /// The row with parameters that share no memory with its results.
    pub const fn apart(self, apart: &'static [usize]) -> Self {
        Self { apart, ..self }
    }

    /// The row with results that keep the memory format of its inputs.
    pub const fn keeps_format(self) -> Self {
        Self {
            layout: Layout::MemoryFormat,
            ..self
        }
    }

    /// The row with matrices as LAPACK stores them.
    pub const fn column_major(self) -> Self {
        Self {
            layout: Layout::ColumnMajor,
            ..self
        }
    }

    /// A row whose result sizes depend on the data, as `nonzero`: `count` has the row's leading
    /// parameters and gives `I64` scalars; the launcher reads them and calls the row with them as
    /// trailing `int` arguments. A count of no scalars needs no launch.
    pub const fn counted(self, count: &'static dyn Lower) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    /// The row's count, when its result sizes depend on the data.
    pub fn count(&self) -> Option<&'static dyn Lower> {
        self.count
    }

    /// A row one of whose sizes follows from run-time numbers: the launcher calls it with `size`
    /// as a last `int` argument, so that only another size compiles another program.
    pub const fn sized(self, size: Size) -> Self {
        Self {
            size: Some(size),
            ..self
        }
    }

    /// How the row's last argument follows from the numbers of the call.
    pub fn size(&self) -> Option<Size> {
        self.size
    }

    /// The row with a check of its run-time numbers.
    pub const fn guarded(self, guard: Guard) -> Self {
        Self {
            guard: Some(guard),
            ..self
        }
    }

    /// Checks the call's run-time numbers; due before every launch, cached or not.
    pub fn check(&self, numbers: &[Number]) -> Result<()> {
        self.guard.map_or(Ok(()), |guard| guard(numbers))
    }

    /// Appends the operator to `b`.
    pub fn lower(&self, b: &mut Builder, args: &[Arg]) -> Result<Outs> {
        self.lower.call(b, args)
    }

    /// What the parameters want; a test compares them with the dispatcher's schema.
    pub fn params(&self) -> Vec<Param> {
        self.lower.params()
    }
}

/// `op!("amax", amax)`
macro_rules! op {
    ($name:literal, $f:expr) => {
        $crate::op::Op::new($name, &$crate::op::Plain($f, std::marker::PhantomData))
    };
}
/// `pointwise!("abs", B::abs)`: what TensorIterator serves. Results take the layout of the inputs
/// and are converted to the dtype of `out=`.
macro_rules! pointwise {
    ($name:literal, $f:expr) => {
        $crate::op::op!($name, $f)
            .follows_inputs()
            .out($crate::op::OutDtype::Cast)
    };
}
pub(crate) use {op, pointwise};

/// A function that can be a row.
pub trait Lower: Sync {
    /// Extracts the parameters and appends the operator.
    fn call(&self, b: &mut Builder, args: &[Arg]) -> Result<Outs>;
    /// What the parameters want.
    fn params(&self) -> Vec<Param>;
}

/// A plain function as a row; `M` is its signature.
pub(crate) struct Plain<F, M>(pub(crate) F, pub(crate) PhantomData<fn(M)>);

/// A parameter type of row functions.
pub(crate) trait FromArg: Sized {
    /// What it wants.
    const PARAM: Param;
    /// Extraction; `None` when the argument is of another kind.
    fn from_arg(arg: &Arg) -> Option<Self>;
    /// Extraction of the parameter at `index`.
    fn from_args(args: &[Arg], index: usize) -> Option<Self> {
        Self::from_arg(args.get(index).unwrap_or(&Arg::None))
    }
}

/// All counts that the launcher appends to the arguments of a [`Op::counted`] row.
#[derive(Clone, Debug)]
pub struct Counts(pub Dims);

impl FromArg for Counts {
    const PARAM: Param = param("int[]", Bound::Static);
    fn from_arg(_: &Arg) -> Option<Self> {
        None
    }
    fn from_args(args: &[Arg], index: usize) -> Option<Self> {
        let rest = args.get(index..).unwrap_or_default();
        rest.iter()
            .map(i64::from_arg)
            .collect::<Option<_>>()
            .map(Self)
    }
}

const fn param(ty: &'static str, bound: Bound) -> Param {
    Param {
        ty,
        optional: false,
        bound,
    }
}

macro_rules! from_arg { ($($t:ty, $name:literal, $bound:ident: $p:pat => $e:expr;)*) => { $(
    impl FromArg for $t {
        const PARAM: Param = param($name, Bound::$bound);
        fn from_arg(arg: &Arg) -> Option<Self> { match arg { $p => $e, _ => None } }
    }
)* }; }
from_arg! {
    Value, "Tensor", Launch: Arg::Tensor(v) => Some(*v);
    Vec<Value>, "Tensor[]", Launch: Arg::Tensors(v) => v.iter().copied().collect();
    Vec<Option<Value>>, "Tensor?[]", Launch: Arg::Tensors(v) => Some(v.clone());
    Scalar, "Scalar", Launch: Arg::Scalar(v) => Some(Self(*v));
    Vec<Scalar>, "Scalar[]", Launch: Arg::Scalars(v) => Some(v.iter().map(|v| Scalar(*v)).collect());
    Number, "Scalar", Static: Arg::Number(n) => Some(*n);
    i64, "int", Static: Arg::Number(Number::Int(i)) => Some(*i);
    f64, "float", Static: Arg::Number(n) => Some(n.to_f64());
    bool, "bool", Static: Arg::Number(n) => Some(n.to_bool());
    Dims, "int[]", Static: Arg::Ints(v) => Some(v.clone());
    Vec<f64>, "float[]", Static: Arg::Floats(v) => Some(v.clone());
    Vec<bool>, "bool[]", Static: Arg::Bools(v) => Some(v.clone());
    Arc<str>, "str", Static: Arg::Str(s) => Some(s.clone());
    DType, "ScalarType", Static: Arg::DType(t) => Some(*t);
}

impl FromArg for Factor {
    const PARAM: Param = param("Scalar", Bound::UnlessOne);
    fn from_arg(arg: &Arg) -> Option<Self> {
        match arg {
            Arg::Scalar(v) => Some(Self::Times(*v)),
            Arg::Number(_) => Some(Self::One),
            _ => None,
        }
    }
}

impl FromArg for Threshold {
    const PARAM: Param = param("Scalar", Bound::UnlessExtreme);
    fn from_arg(arg: &Arg) -> Option<Self> {
        match arg {
            Arg::Scalar(v) => Some(Self::Free(*v)),
            Arg::Number(n) => Some(Self::Fixed(*n)),
            _ => None,
        }
    }
}

impl FromArg for Exponent {
    const PARAM: Param = param("Scalar", Bound::UnlessSimple);
    fn from_arg(arg: &Arg) -> Option<Self> {
        match arg {
            Arg::Scalar(v) => Some(Self::Free(*v)),
            Arg::Number(n) => Some(Self::Fixed(*n)),
            _ => None,
        }
    }
}

impl FromArg for Generator {
    const PARAM: Param = Param {
        ty: "Generator",
        optional: true,
        bound: Bound::Launch,
    };
    fn from_arg(_: &Arg) -> Option<Self> {
        Some(Self)
    }
}

impl FromArg for Ignored {
    const PARAM: Param = Param {
        ty: "*",
        optional: true,
        bound: Bound::Launch,
    };
    fn from_arg(_: &Arg) -> Option<Self> {
        Some(Self)
    }
}

impl<T: FromArg> FromArg for Option<T> {
    const PARAM: Param = Param {
        optional: true,
        ..T::PARAM
    };
    fn from_arg(arg: &Arg) -> Option<Self> {
        if matches!(arg, Arg::None) {
            Some(None)
        } else {
            T::from_arg(arg).map(Some)
        }
    }
}

/// A result type of row functions.
pub(crate) trait IntoOuts {
    /// Results in order.
    fn outs(self) -> Result<Outs>;
}
impl IntoOuts for Value {
    fn outs(self) -> Result<Outs> {
        Ok(smallvec::smallvec![self])
    }
}
impl IntoOuts for Outs {
    fn outs(self) -> Result<Outs> {
        Ok(self)
    }
}
impl IntoOuts for Vec<Value> {
    fn outs(self) -> Result<Outs> {
        Ok(self.into())
    }
}
impl IntoOuts for (Value, Value) {
    fn outs(self) -> Result<Outs> {
        Ok(smallvec::smallvec![self.0, self.1])
    }
}
impl IntoOuts for (Value, Value, Value) {
    fn outs(self) -> Result<Outs> {
        Ok([self.0, self.1, self.2].as_slice().into())
    }
}
impl IntoOuts for (Value, Value, Value, Value) {
    fn outs(self) -> Result<Outs> {
        Ok([self.0, self.1, self.2, self.3].as_slice().into())
    }
}
impl<T: IntoOuts, E: Into<Error>> IntoOuts for Result<T, E> {
    fn outs(self) -> Result<Outs> {
        self.map_err(Into::into)?.outs()
    }
}

fn extract<T: FromArg>(args: &[Arg], index: usize) -> Result<T> {
    T::from_args(args, index).ok_or_else(|| Error::Arg {
        index,
        want: T::PARAM.ty,
        got: format!("{:?}", args.get(index).unwrap_or(&Arg::None)),
    })
}

macro_rules! arity { ($($t:ident $i:tt),*) => {
    impl<F, R, $($t),*> Lower for Plain<F, (R, $($t,)*)>
    where F: Fn(&mut Builder, $($t),*) -> R + Sync, R: IntoOuts, $($t: FromArg),* {
        fn call(&self, b: &mut Builder, args: &[Arg]) -> Result<Outs> {
            (self.0)(b, $(extract::<$t>(args, $i)?),*).outs()
        }
        fn params(&self) -> Vec<Param> { vec![$($t::PARAM),*] }
    }
}; }
arity!(A 0);
arity!(A 0, B 1);
arity!(A 0, B 1, C 2);
arity!(A 0, B 1, C 2, D 3);
arity!(A 0, B 1, C 2, D 3, E 4);
arity!(A 0, B 1, C 2, D 3, E 4, G 5);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11, N 12);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11, N 12, O 13);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11, N 12, O 13, P 14);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11, N 12, O 13, P 14, Q 15);
arity!(A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11, N 12, O 13, P 14, Q 15, S 16);
arity!(
    A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11, N 12, O 13, P 14, Q 15, S 16,
    T 17
);
arity!(
    A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11, N 12, O 13, P 14, Q 15, S 16,
    T 17, U 18
);
arity!(
    A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11, N 12, O 13, P 14, Q 15, S 16,
    T 17, U 18, V 19
);
