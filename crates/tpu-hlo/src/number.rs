use crate::DType;
use half::{bf16, f16};
use std::fmt::Write;

/// A Python number: PyTorch's `Scalar`.
///
/// Equality and hashing are by kind and bits: `1`, `1.0` and `True` differ, `0.0` and `-0.0` too.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "names speak")]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    /// The element type that PyTorch gives a tensor made from this number with 64-bit defaults.
    pub const fn dtype(self) -> DType {
        match self {
            Self::Bool(_) => DType::Bool,
            Self::Int(_) => DType::I64,
            Self::Float(_) => DType::F64,
            Self::Complex(..) => DType::C128,
        }
    }

    /// Real part as a float.
    pub const fn to_f64(self) -> f64 {
        match self {
            Self::Bool(b) => b as u8 as f64,
            Self::Int(i) => i as f64,
            Self::Float(f) => f,
            Self::Complex(re, _) => re,
        }
    }

    /// Real part as an integer, fractions cut off.
    pub const fn to_i64(self) -> i64 {
        match self {
            Self::Bool(b) => b as i64,
            Self::Int(i) => i,
            Self::Float(f) | Self::Complex(f, _) => f as i64,
        }
    }

    /// Whether the number differs from zero; NaN does.
    pub const fn to_bool(self) -> bool {
        match self {
            Self::Bool(b) => b,
            Self::Int(i) => i != 0,
            Self::Float(f) => f != 0.0,
            Self::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }

    /// Whether kind and value are those of `other`, NaN being itself.
    pub fn same(self, other: Self) -> bool {
        self.dtype() == other.dtype() && self.bits() == other.bits()
    }

    /// The value as 16 bytes that identify it among numbers of its kind.
    pub const fn bits(self) -> (u64, u64) {
        match self {
            Self::Bool(b) => (b as u64, 0),
            Self::Int(i) => (i as u64, 0),
            Self::Float(f) => (f.to_bits(), 0),
            Self::Complex(re, im) => (re.to_bits(), im.to_bits()),
        }
    }

    /// Little-endian bytes of this number as one element of `dtype`, converted as PyTorch does:
    /// integers wrap, floats round to nearest even.
    pub fn bytes(self, dtype: DType) -> smallvec::SmallVec<[u8; 16]> {
        let (x, i) = (self.to_f64(), self.to_i64());
        let parts = |re: f64, im: f64| (re, im);
        let (re, im) = match self {
            Self::Complex(re, im) => parts(re, im),
            _ => parts(x, 0.0),
        };
        match dtype {
            DType::Bool => [u8::from(self.to_bool())].as_slice().into(),
            DType::U8 | DType::I8 => [i as u8].as_slice().into(),
            DType::I16 | DType::U16 => (i as u16).to_le_bytes().as_slice().into(),
            DType::I32 | DType::U32 => (i as u32).to_le_bytes().as_slice().into(),
            DType::I64 | DType::U64 => (i as u64).to_le_bytes().as_slice().into(),
            DType::F16 => f16::from_f64(x).to_le_bytes().as_slice().into(),
            DType::BF16 => bf16::from_f32(x as f32).to_le_bytes().as_slice().into(),
            DType::F32 => (x as f32).to_le_bytes().as_slice().into(),
            DType::F64 => x.to_le_bytes().as_slice().into(),
            DType::C64 => [(re as f32).to_le_bytes(), (im as f32).to_le_bytes()]
                .concat()
                .as_slice()
                .into(),
            DType::C128 => [re.to_le_bytes(), im.to_le_bytes()]
                .concat()
                .as_slice()
                .into(),
            // Only reached for operands of 8-bit floats, which the lowerings compute in f32.
            _ => (x as f32).to_le_bytes().as_slice().into(),
        }
    }

    /// The number as an MLIR literal of `dtype`, exact to the bit.
    pub fn literal(self, dtype: DType) -> String {
        match (dtype, self) {
            (DType::Bool, _) => self.to_bool().to_string(),
            (DType::C64 | DType::C128, Self::Complex(re, im)) => {
                format!(
                    "({}, {})",
                    float_literal(re, dtype.real()),
                    float_literal(im, dtype.real())
                )
            }
            (DType::C64 | DType::C128, _) => {
                let (re, im) = (self.to_f64(), 0.0);
                format!(
                    "({}, {})",
                    float_literal(re, dtype.real()),
                    float_literal(im, dtype.real())
                )
            }
            _ if dtype.is_float() => float_literal(self.to_f64(), dtype),
            _ => int_literal(self.to_i64(), dtype),
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.same(*other)
    }
}
impl Eq for Number {}

impl std::hash::Hash for Number {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.dtype().hash(state);
        self.bits().hash(state);
    }
}

fn int_literal(i: i64, dtype: DType) -> String {
    match dtype {
        DType::U8 => (i as u8).to_string(),
        DType::I8 => (i as i8).to_string(),
        DType::I16 => (i as i16).to_string(),
        DType::U16 => (i as u16).to_string(),
        DType::I32 => (i as i32).to_string(),
        DType::U32 => (i as u32).to_string(),
        DType::U64 => (i as u64).to_string(),
        _ => i.to_string(),
    }
}

fn float_literal(x: f64, dtype: DType) -> String {
    if x.is_finite() {
        let mut s = format!("{x:?}");
        if let Some(e) = s.find('e')
            && !s[..e].contains('.')
        {
            s.insert_str(e, ".0");
        }
        return s;
    }
    let mut s = String::from("0x");
    let _ = match dtype {
        DType::F64 => write!(s, "{:016X}", x.to_bits()),
        DType::F32 => write!(s, "{:08X}", (x as f32).to_bits()),
        DType::F16 => write!(s, "{:04X}", f16::from_f64(x).to_bits()),
        DType::BF16 => write!(s, "{:04X}", bf16::from_f64(x).to_bits()),
        DType::F8E5M2 => write!(
            s,
            "{}",
            if x.is_nan() {
                "7F"
            } else if x > 0.0 {
                "7C"
            } else {
                "FC"
            }
        ),
        DType::F8E4M3FN => write!(s, "7F"),
        _ => write!(s, "80"),
    };
    s
}
