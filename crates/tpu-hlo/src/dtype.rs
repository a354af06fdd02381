/// Element types, named as PyTorch's; the StableHLO spelling is [`DType::mlir`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "names speak")]
pub enum DType {
    Bool,
    U8,
    I8,
    I16,
    I32,
    I64,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    F8E4M3FN,
    F8E5M2,
    F8E4M3FNUZ,
    F8E5M2FNUZ,
}

impl DType {
    /// Every element type.
    pub const ALL: [Self; 19] = [
        Self::Bool,
        Self::U8,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
        Self::C64,
        Self::C128,
        Self::F8E4M3FN,
        Self::F8E5M2,
        Self::F8E4M3FNUZ,
        Self::F8E5M2FNUZ,
    ];

    /// The element type in StableHLO's textual form.
    pub const fn mlir(self) -> &'static str {
        match self {
            Self::Bool => "i1",
            Self::U8 => "ui8",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U16 => "ui16",
            Self::U32 => "ui32",
            Self::U64 => "ui64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::C64 => "complex<f32>",
            Self::C128 => "complex<f64>",
            Self::F8E4M3FN => "f8E4M3FN",
            Self::F8E5M2 => "f8E5M2",
            Self::F8E4M3FNUZ => "f8E4M3FNUZ",
            Self::F8E5M2FNUZ => "f8E5M2FNUZ",
        }
    }

    /// The name in Python, as `float32` in `torch.float32`.
    pub const fn python(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::C64 => "complex64",
            Self::C128 => "complex128",
            Self::F8E4M3FN => "float8_e4m3fn",
            Self::F8E5M2 => "float8_e5m2",
            Self::F8E4M3FNUZ => "float8_e4m3fnuz",
            Self::F8E5M2FNUZ => "float8_e5m2fnuz",
        }
    }

    /// The name that PyTorch prints in error messages, as `Float` in `expected Float`.
    pub const fn torch(self) -> &'static str {
        match self {
            Self::Bool => "Bool",
            Self::U8 => "Byte",
            Self::I8 => "Char",
            Self::I16 => "Short",
            Self::I32 => "Int",
            Self::I64 => "Long",
            Self::U16 => "UInt16",
            Self::U32 => "UInt32",
            Self::U64 => "UInt64",
            Self::F16 => "Half",
            Self::BF16 => "BFloat16",
            Self::F32 => "Float",
            Self::F64 => "Double",
            Self::C64 => "ComplexFloat",
            Self::C128 => "ComplexDouble",
            Self::F8E4M3FN => "Float8_e4m3fn",
            Self::F8E5M2 => "Float8_e5m2",
            Self::F8E4M3FNUZ => "Float8_e4m3fnuz",
            Self::F8E5M2FNUZ => "Float8_e5m2fnuz",
        }
    }

    /// The C++ name that PyTorch prints in other error messages, as `float`.
    pub const fn cpp(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::U8 => "unsigned char",
            Self::I8 => "signed char",
            Self::I16 => "short int",
            Self::I32 => "int",
            Self::I64 => "long int",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::F16 => "c10::Half",
            Self::BF16 => "c10::BFloat16",
            Self::C64 => "c10::complex<float>",
            Self::C128 => "c10::complex<double>",
            other => other.torch(),
        }
    }

    /// Bytes of one element in memory (`Bool` takes one).
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::F8E4M3FN | Self::F8E5M2 | Self::F8E4M3FNUZ | Self::F8E5M2FNUZ => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    /// Bits of one element's value; 1 for `Bool`.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bool => 1,
            other => other.size() as u32 * 8,
        }
    }

    /// A real floating-point type, the 8-bit ones included.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::BF16 | Self::F32 | Self::F64) || self.is_float8()
    }

    /// One of the 8-bit floating-point types.
    pub const fn is_float8(self) -> bool {
        matches!(
            self,
            Self::F8E4M3FN | Self::F8E5M2 | Self::F8E4M3FNUZ | Self::F8E5M2FNUZ
        )
    }

    /// A complex type.
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::C64 | Self::C128)
    }

    /// An integer type; `Bool` is none.
    pub const fn is_int(self) -> bool {
        !matches!(self, Self::Bool) && !self.is_float() && !self.is_complex()
    }

    /// A signed integer, a float or a complex type.
    pub const fn is_signed(self) -> bool {
        !matches!(
            self,
            Self::Bool | Self::U8 | Self::U16 | Self::U32 | Self::U64
        )
    }

    /// The type of the real and imaginary parts; the type itself when it is real.
    pub const fn real(self) -> Self {
        match self {
            Self::C64 => Self::F32,
            Self::C128 => Self::F64,
            other => other,
        }
    }

    /// The complex type with parts of this type: `C128` for `F64`, else `C64`.
    pub const fn complex(self) -> Self {
        match self {
            Self::F64 | Self::C128 => Self::C128,
            _ => Self::C64,
        }
    }
}
