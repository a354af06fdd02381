//! Ops that act element by element.
use crate::{Builder, DType, Number, Result, Type, Value};

/// Comparison direction of [`Builder::compare`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Direction {
    EQ,
    NE,
    GE,
    GT,
    LE,
    LT,
}

macro_rules! unary {
    ($($name:ident $op:literal)*) => { $(
        #[doc = concat!("`", $op, "`")]
        pub fn $name(&mut self, x: Value) -> Value {
            let ty = self.ty(x).clone();
            self.emit($op, &[x], "", ty)
        }
    )* };
}

macro_rules! binary {
    ($($name:ident $op:literal)*) => { $(
        #[doc = concat!("`", $op, "`; both operands have one type (C1)")]
        pub fn $name(&mut self, x: Value, y: Value) -> Result<Value> {
            let ty = self.same($op, x, y)?;
            Ok(self.emit($op, &[x, y], "", ty))
        }
    )* };
}

impl Builder {
    unary! {
        cbrt "stablehlo.cbrt"
        ceil "stablehlo.ceil"
        cosine "stablehlo.cosine"
        count_leading_zeros "stablehlo.count_leading_zeros"
        exponential "stablehlo.exponential"
        exponential_minus_one "stablehlo.exponential_minus_one"
        floor "stablehlo.floor"
        log "stablehlo.log"
        log_plus_one "stablehlo.log_plus_one"
        logistic "stablehlo.logistic"
        negate "stablehlo.negate"
        not "stablehlo.not"
        popcnt "stablehlo.popcnt"
        round_nearest_afz "stablehlo.round_nearest_afz"
        round_nearest_even "stablehlo.round_nearest_even"
        rsqrt "stablehlo.rsqrt"
        sign "stablehlo.sign"
        sine "stablehlo.sine"
        sqrt "stablehlo.sqrt"
        tan "stablehlo.tan"
        tanh "stablehlo.tanh"
        acos "chlo.acos"
        acosh "chlo.acosh"
        asin "chlo.asin"
        asinh "chlo.asinh"
        atan "chlo.atan"
        atanh "chlo.atanh"
        bessel_i1e "chlo.bessel_i1e"
        cosh "chlo.cosh"
        digamma "chlo.digamma"
        erf "chlo.erf"
        erf_inv "chlo.erf_inv"
        erfc "chlo.erfc"
        lgamma "chlo.lgamma"
        sinh "chlo.sinh"
    }
    binary! {
        add "stablehlo.add"
        and "stablehlo.and"
        atan2 "stablehlo.atan2"
        divide "stablehlo.divide"
        maximum "stablehlo.maximum"
        minimum "stablehlo.minimum"
        multiply "stablehlo.multiply"
        next_after "chlo.next_after"
        or "stablehlo.or"
        polygamma "chlo.polygamma"
        power "stablehlo.power"
        remainder "stablehlo.remainder"
        shift_left "stablehlo.shift_left"
        shift_right_arithmetic "stablehlo.shift_right_arithmetic"
        shift_right_logical "stablehlo.shift_right_logical"
        subtract "stablehlo.subtract"
        xor "stablehlo.xor"
        zeta "chlo.zeta"
    }

    /// `stablehlo.divide`, rounded once. XLA multiplies by the reciprocal of a divisor that is a
    /// broadcast or a constant, and then 21 / 7 is more than 3; where this hides the divisor behind
    /// a choice that never matters, it divides.
    pub fn divide_exactly(&mut self, x: Value, y: Value) -> Result<Value> {
        if !self.dtype(x).is_float() {
            return self.divide(x, y);
        }
        let plain = self.compare(x, Direction::EQ, x)?;
        let nan = self.full_like(y, f64::NAN);
        let y = self.select(plain, y, nan)?;
        self.divide(x, y)
    }

    /// `stablehlo.abs`; the magnitude of a complex operand is real.
    pub fn abs(&mut self, x: Value) -> Value {
        self.part("stablehlo.abs", x)
    }

    /// `stablehlo.real`
    pub fn real(&mut self, x: Value) -> Value {
        self.part("stablehlo.real", x)
    }

    /// `stablehlo.imag`
    pub fn imag(&mut self, x: Value) -> Value {
        self.part("stablehlo.imag", x)
    }

    fn part(&mut self, op: &str, x: Value) -> Value {
        let ty = self.ty(x).with_dtype(self.dtype(x).real());
        self.emit(op, &[x], "", ty)
    }

    /// `stablehlo.complex`; operands `F32` or `F64` of one type (C1).
    pub fn complex(&mut self, re: Value, im: Value) -> Result<Value> {
        let ty = self.same("stablehlo.complex", re, im)?;
        let ty = ty.with_dtype(ty.dtype.complex());
        Ok(self.emit("stablehlo.complex", &[re, im], "", ty))
    }

    /// `stablehlo.is_finite`
    pub fn is_finite(&mut self, x: Value) -> Value {
        let ty = self.ty(x).with_dtype(DType::Bool);
        self.emit("stablehlo.is_finite", &[x], "", ty)
    }

    /// `stablehlo.compare`: floats by IEEE order (NaN compares unequal), integers by value.
    pub fn compare(&mut self, x: Value, direction: Direction, y: Value) -> Result<Value> {
        let ty = self.same("stablehlo.compare", x, y)?;
        let kind = match ty.dtype {
            d if d.is_float() || d.is_complex() => "FLOAT",
            d if d.is_signed() => "SIGNED",
            _ => "UNSIGNED",
        };
        let attrs = format!(
            " <{{comparison_direction = #stablehlo<comparison_direction {direction:?}>, \
             compare_type = #stablehlo<comparison_type {kind}>}}>"
        );
        Ok(self.emit(
            "stablehlo.compare",
            &[x, y],
            &attrs,
            ty.with_dtype(DType::Bool),
        ))
    }

    /// `stablehlo.select`; `pred` is `Bool` of the operands' shape or a scalar (C1).
    pub fn select(&mut self, pred: Value, on_true: Value, on_false: Value) -> Result<Value> {
        let ty = self.same("stablehlo.select", on_true, on_false)?;
        if self.rank(pred) != 0 && self.ty(pred).dims != ty.dims {
            return Err(self.misfit("stablehlo.select", pred, &ty.dims));
        }
        Ok(self.emit("stablehlo.select", &[pred, on_true, on_false], "", ty))
    }

    /// `stablehlo.convert`, with StableHLO's semantics (float to integer saturates); the same
    /// value when the type fits, and for a run-time number a parameter of the wanted type.
    pub fn convert(&mut self, x: Value, dtype: DType) -> Value {
        if self.dtype(x) == dtype {
            return x;
        }
        if let Some(v) = self.renumber(x, dtype) {
            return v;
        }
        let ty = self.ty(x).with_dtype(dtype);
        self.emit("stablehlo.convert", &[x], "", ty)
    }

    /// `stablehlo.bitcast_convert` between types of one width.
    pub fn bitcast_convert(&mut self, x: Value, dtype: DType) -> Value {
        if self.dtype(x) == dtype {
            return x;
        }
        let ty = self.ty(x).with_dtype(dtype);
        self.emit("stablehlo.bitcast_convert", &[x], "", ty)
    }

    /// `stablehlo.bitcast_convert` between types of different widths: a trailing dimension
    /// appears when `dtype` is narrower and disappears when it is wider (C1).
    pub fn bitcast_resize(&mut self, x: Value, dtype: DType) -> Result<Value> {
        let (from, to) = (self.dtype(x).size(), dtype.size());
        let mut dims = self.dims(x);
        if from > to {
            dims.push((from / to) as i64);
        } else if from < to && dims.pop() != Some((to / from) as i64) {
            return Err(self.misfit("stablehlo.bitcast_convert", x, &[to as i64]));
        }
        Ok(self.emit(
            "stablehlo.bitcast_convert",
            &[x],
            "",
            Type::new(dtype, &dims),
        ))
    }

    /// A constant of `x`'s type, every element `n`.
    pub fn full_like(&mut self, x: Value, n: impl Into<Number>) -> Value {
        let Type { dtype, dims } = self.ty(x).clone();
        self.full(n, dtype, &dims)
    }

    /// A constant of shape `dims`: a scalar constant, broadcast.
    pub fn full(&mut self, n: impl Into<Number>, dtype: DType, dims: &[i64]) -> Value {
        self.constant(n.into(), dtype, dims)
    }

    /// A 0-dimensional constant.
    pub fn scalar(&mut self, n: impl Into<Number>, dtype: DType) -> Value {
        self.constant(n.into(), dtype, &[])
    }

    /// The smallest value of `dtype`: minus infinity for floats.
    pub fn lowest(&mut self, dtype: DType) -> Value {
        self.scalar(lowest(dtype), dtype)
    }

    /// The largest value of `dtype`: infinity for floats.
    pub fn highest(&mut self, dtype: DType) -> Value {
        self.scalar(highest(dtype), dtype)
    }
}

fn lowest(dtype: DType) -> Number {
    match dtype {
        DType::F8E4M3FN | DType::F8E4M3FNUZ => Number::Float(-240.0),
        d if d.is_float() => Number::Float(f64::NEG_INFINITY),
        DType::I8 => Number::Int(i8::MIN.into()),
        DType::I16 => Number::Int(i16::MIN.into()),
        DType::I32 => Number::Int(i32::MIN.into()),
        DType::I64 => Number::Int(i64::MIN),
        _ => Number::Int(0),
    }
}

fn highest(dtype: DType) -> Number {
    match dtype {
        DType::F8E4M3FN | DType::F8E4M3FNUZ => Number::Float(240.0),
        d if d.is_float() => Number::Float(f64::INFINITY),
        DType::I8 => Number::Int(i8::MAX.into()),
        DType::I16 => Number::Int(i16::MAX.into()),
        DType::I32 => Number::Int(i32::MAX.into()),
        DType::I64 => Number::Int(i64::MAX),
        DType::Bool => Number::Bool(true),
        // All bits set, in every unsigned width.
        _ => Number::Int(-1),
    }
}

macro_rules! into_number { ($($t:ty, $v:ident;)*) => { $(
    impl From<$t> for Number { fn from(x: $t) -> Self { Self::$v(x) } }
)* }; }
into_number! { bool, Bool; i64, Int; f64, Float; }
impl From<i32> for Number {
    fn from(x: i32) -> Self {
        Self::Int(x.into())
    }
}
