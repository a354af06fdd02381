//! Formulas written as formulas: values with arithmetic operators.
use crate::{
    Error, Result, Scalar,
    promote::{broadcast_shapes, cast, float_of, opmath, result_type},
};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

/// A value inside [`formula`]. Operands of an operator have one type, but a 0-dimensional one is
/// broadcast to the other's shape, and a number becomes a constant of the other's type.
#[derive(Clone, Copy)]
pub(crate) struct X<'s> {
    sheet: &'s RefCell<Sheet>,
    v: Value,
}

/// The builder that a formula appends to, and the first fault.
struct Sheet {
    b: Builder,
    fault: Option<Error>,
}

/// A right-hand side: a value, or a number that becomes a constant.
pub(crate) trait Term<'s>: Copy {
    /// As a value of `like`'s type.
    fn of(self, like: X<'s>) -> X<'s>;
}

impl<'s> Term<'s> for X<'s> {
    fn of(self, _: Self) -> Self {
        self
    }
}

impl<'s> Term<'s> for f64 {
    fn of(self, like: X<'s>) -> X<'s> {
        like.full(self)
    }
}

/// A formula of one operand.
pub(crate) type Unary = for<'s> fn(X<'s>) -> X<'s>;
/// A formula of two operands.
pub(crate) type Binary = for<'s> fn(X<'s>, X<'s>) -> X<'s>;

/// Appends the formula `f` of `xs` to `b`.
///
/// # Errors
/// Operands of different types meet in one operator.
pub(crate) fn formula<const N: usize>(
    b: &mut Builder,
    xs: [Value; N],
    f: impl for<'s> FnOnce([X<'s>; N]) -> X<'s>,
) -> Result<Value> {
    Ok(formulas(b, xs, |xs| [f(xs)])?[0])
}

/// [`formula`] with several results.
pub(crate) fn formulas<const N: usize, const M: usize>(
    b: &mut Builder,
    xs: [Value; N],
    f: impl for<'s> FnOnce([X<'s>; N]) -> [X<'s>; M],
) -> Result<[Value; M]> {
    let sheet = Sheet::open(b);
    let outs = f(xs.map(|v| X { sheet: &sheet, v })).map(|x| x.v);
    Sheet::close(sheet, b, outs)
}

/// [`formula`] of any number of operands, with any number of results.
pub(crate) fn formula_list(
    b: &mut Builder,
    xs: &[Value],
    f: impl for<'s> FnOnce(&[X<'s>]) -> Vec<X<'s>>,
) -> Result<Vec<Value>> {
    let sheet = Sheet::open(b);
    let xs: Vec<X<'_>> = xs
        .iter()
        .map(|v| X {
            sheet: &sheet,
            v: *v,
        })
        .collect();
    let outs = f(&xs).into_iter().map(|x| x.v).collect();
    Sheet::close(sheet, b, outs)
}

impl Sheet {
    fn open(b: &mut Builder) -> RefCell<Self> {
        let b = std::mem::take(b);
        RefCell::new(Self { b, fault: None })
    }

    fn close<T>(sheet: RefCell<Self>, b: &mut Builder, out: T) -> Result<T> {
        let Self { b: back, fault } = sheet.into_inner();
        *b = back;
        fault.map_or(Ok(out), Err)
    }
}

/// Casts to the opmath type of `dtype`, broadcasts to the common shape, computes `f` and rounds
/// once, to `dtype`. Numbers are cast like the tensors.
pub(crate) fn compute<const N: usize, const M: usize>(
    b: &mut Builder,
    dtype: DType,
    tensors: [Value; N],
    numbers: [Scalar; M],
    f: impl for<'s> FnOnce([X<'s>; N], [X<'s>; M]) -> X<'s>,
) -> Result<Value> {
    let out = unrounded(b, dtype, tensors, numbers, f)?;
    Ok(cast(b, out, dtype))
}

/// [`compute`] with the result left in the opmath type, for a reduction to follow.
pub(crate) fn unrounded<const N: usize, const M: usize>(
    b: &mut Builder,
    dtype: DType,
    tensors: [Value; N],
    numbers: [Scalar; M],
    f: impl for<'s> FnOnce([X<'s>; N], [X<'s>; M]) -> X<'s>,
) -> Result<Value> {
    let wide = opmath(dtype);
    let mut tensors = tensors;
    broadcast_all(b, &mut tensors, wide)?;
    let numbers = numbers.map(|n| cast(b, n.0, wide));
    let sheet = Sheet::open(b);
    let x = |v| X { sheet: &sheet, v };
    let out = f(tensors.map(x), numbers.map(x)).v;
    Sheet::close(sheet, b, out)
}

fn broadcast_all(b: &mut Builder, xs: &mut [Value], dtype: DType) -> Result<()> {
    let shapes: Vec<Dims> = xs.iter().map(|x| b.dims(*x)).collect();
    let refs: Vec<&[i64]> = shapes.iter().map(Dims::as_slice).collect();
    let dims = broadcast_shapes(&refs)?;
    for x in xs {
        let v = cast(b, *x, dtype);
        *x = b.broadcast(v, &dims)?;
    }
    Ok(())
}

/// The dtype that an op on floats gives for these operands: integers become the default dtype.
pub(crate) fn float_type(b: &Builder, xs: &[Value]) -> Result<DType> {
    Ok(float_of(b, result_type(b, xs)?))
}

macro_rules! unary { ($($name:ident $op:ident)*) => { $(
    pub(crate) fn $name(self) -> Self { self.map(|b| b.$op(self.v)) }
)* }; }
macro_rules! binary { ($($name:ident $op:ident)*) => { $(
    pub(crate) fn $name(self, y: impl Term<'s>) -> Self { self.meet(y, Builder::$op) }
)* }; }
macro_rules! compare { ($($name:ident $direction:ident)*) => { $(
    pub(crate) fn $name(self, y: impl Term<'s>) -> Self {
        self.meet(y, |b, x, y| b.compare(x, Direction::$direction, y))
    }
)* }; }

impl<'s> X<'s> {
    unary! {
        abs abs acos acos acosh acosh asin asin asinh asinh atan atan atanh atanh
        ceil ceil cos cosine cosh cosh digamma digamma erf erf erfc erfc
        erfinv erf_inv exp exponential expm1 exponential_minus_one floor floor
        imag imag is_finite is_finite lgamma lgamma log log log1p log_plus_one not not
        real real round round_nearest_even rsqrt rsqrt sigmoid logistic
        sin sine sinh sinh sqrt sqrt tan tan tanh tanh
    }
    binary! {
        and and atan2 atan2 maximum maximum minimum minimum or or pow power rem remainder
        shift_left shift_left shift_right shift_right_arithmetic
        shift_right_logical shift_right_logical xor xor
    }
    compare! { eq EQ ne NE ge GE gt GT le LE lt LT }

    fn map(self, f: impl FnOnce(&mut Builder) -> Value) -> Self {
        let v = f(&mut self.sheet.borrow_mut().b);
        Self { v, ..self }
    }

    fn meet(
        self,
        y: impl Term<'s>,
        f: impl FnOnce(&mut Builder, Value, Value) -> tpu_hlo::Result<Value>,
    ) -> Self {
        let y = y.of(self);
        let (x, y) = (self.beside(y), y.beside(self));
        self.attempt(|b| f(b, x.v, y.v))
    }

    /// Broadcast to `other`'s shape if 0-dimensional.
    fn beside(self, other: Self) -> Self {
        self.attempt(|b| match b.rank(self.v) {
            0 => b.broadcast(self.v, &b.dims(other.v)),
            _ => Ok(self.v),
        })
    }

    /// Another value of the same builder.
    pub(crate) fn with(self, v: Value) -> Self {
        Self { v, ..self }
    }

    fn attempt(self, f: impl FnOnce(&mut Builder) -> tpu_hlo::Result<Value>) -> Self {
        let mut sheet = self.sheet.borrow_mut();
        let v = f(&mut sheet.b).unwrap_or_else(|e| {
            sheet.fault.get_or_insert(e.into());
            self.v
        });
        Self { v, ..self }
    }

    /// The element type.
    pub(crate) fn dtype(self) -> DType {
        self.sheet.borrow().b.dtype(self.v)
    }

    /// A constant of this value's type.
    pub(crate) fn full(self, n: impl Into<tpu_hlo::Number>) -> Self {
        self.map(|b| b.full_like(self.v, n))
    }

    /// With PyTorch's conversion semantics.
    pub(crate) fn to(self, dtype: DType) -> Self {
        self.map(|b| cast(b, self.v, dtype))
    }

    /// The same bits as another type of one width.
    pub(crate) fn bits(self, dtype: DType) -> Self {
        self.map(|b| b.bitcast_convert(self.v, dtype))
    }

    /// A complex value of two real parts.
    pub(crate) fn complex(self, im: impl Term<'s>) -> Self {
        self.meet(im, Builder::complex)
    }

    /// `x` where this `Bool` holds, else `y`.
    pub(crate) fn pick(self, x: Self, y: impl Term<'s>) -> Self {
        let y = y.of(x);
        let (x, y) = (x.beside(y), y.beside(x));
        let (x, y) = (x.beside(self), y.beside(self));
        self.attempt(|b| b.select(self.v, x.v, y.v))
    }

    /// Whether the element is NaN.
    pub(crate) fn is_nan(self) -> Self {
        self.ne(self)
    }

    /// Whether a real element has its sign bit set, as -0.0 and some NaNs have.
    pub(crate) fn sign_bit(self) -> Self {
        let bits = match self.dtype() {
            DType::F64 => DType::I64,
            DType::F32 => DType::I32,
            DType::F16 | DType::BF16 => DType::I16,
            t if t.is_float8() => DType::I8,
            _ => return self.lt(0.0),
        };
        self.bits(bits).lt(0.0)
    }

    /// The quotient, rounded once: [`Builder::divide_exactly`].
    pub(crate) fn over(self, y: impl Term<'s>) -> Self {
        self.meet(y, Builder::divide_exactly)
    }

    /// `self²`
    pub(crate) fn square(self) -> Self {
        self * self
    }

    /// The polynomial with these coefficients, highest power first, by Horner's rule.
    pub(crate) fn polynomial(self, coefficients: &[f64]) -> Self {
        let Some((first, rest)) = coefficients.split_first() else {
            return self.full(0.0);
        };
        rest.iter()
            .fold(self.full(*first), |sum, c| sum * self + *c)
    }

    /// The Chebyshev series with these coefficients, highest order first and constant term last
    /// (halved by the rule), by Clenshaw's recurrence as in Cephes' `chbevl`.
    pub(crate) fn chebyshev(self, coefficients: &[f64]) -> Self {
        let zero = self.full(0.0);
        let (mut b0, mut b1, mut b2) = (zero, zero, zero);
        for c in coefficients {
            (b2, b1) = (b1, b0);
            b0 = self * b1 - b2 + *c;
        }
        (b0 - b2) * 0.5
    }
}

macro_rules! operator { ($($trait:ident $name:ident $op:ident)*) => { $(
    impl<'s, Y: Term<'s>> $trait<Y> for X<'s> {
        type Output = Self;
        fn $name(self, y: Y) -> Self { self.meet(y, Builder::$op) }
    }
    impl<'s> $trait<X<'s>> for f64 {
        type Output = X<'s>;
        fn $name(self, y: X<'s>) -> X<'s> { y.full(self).meet(y, Builder::$op) }
    }
)* }; }
operator! { Add add add Sub sub subtract Mul mul multiply Div div divide }

impl Neg for X<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.map(|b| b.negate(self.v))
    }
}
impl Not for X<'_> {
    type Output = Self;
    fn not(self) -> Self {
        X::not(self)
    }
}
impl BitAnd for X<'_> {
    type Output = Self;
    fn bitand(self, y: Self) -> Self {
        self.and(y)
    }
}
impl BitOr for X<'_> {
    type Output = Self;
    fn bitor(self, y: Self) -> Self {
        self.or(y)
    }
}

#[cfg(test)]
mod tests;
