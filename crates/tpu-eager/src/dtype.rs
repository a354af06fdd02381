//! Element types between PyTorch's numbering, StableHLO and PJRT.
use tpu_hlo::DType;
use tpu_pjrt::ElementType;

/// PyTorch's `c10::ScalarType` numbers of the types that devices hold.
const SCALAR_TYPES: [(i8, DType); 19] = [
    (0, DType::U8),
    (1, DType::I8),
    (2, DType::I16),
    (3, DType::I32),
    (4, DType::I64),
    (5, DType::F16),
    (6, DType::F32),
    (7, DType::F64),
    (9, DType::C64),
    (10, DType::C128),
    (11, DType::Bool),
    (15, DType::BF16),
    (23, DType::F8E5M2),
    (24, DType::F8E4M3FN),
    (25, DType::F8E5M2FNUZ),
    (26, DType::F8E4M3FNUZ),
    (27, DType::U16),
    (28, DType::U32),
    (29, DType::U64),
];

/// The type that a `c10::ScalarType` number names; `None` for quantised and other types that no
/// device here holds.
pub fn from_scalar_type(number: i8) -> Option<DType> {
    // Most numbers are few steps from their place in the table.
    SCALAR_TYPES
        .iter()
        .find(|(n, _)| *n == number)
        .map(|(_, t)| *t)
}

/// The `c10::ScalarType` number of a type.
pub fn scalar_type(dtype: DType) -> i8 {
    SCALAR_TYPES
        .iter()
        .find(|(_, t)| *t == dtype)
        .map_or(-1, |(n, _)| *n)
}

/// The PJRT type of a StableHLO type.
pub const fn element_type(dtype: DType) -> ElementType {
    match dtype {
        DType::Bool => ElementType::Pred,
        DType::U8 => ElementType::U8,
        DType::I8 => ElementType::S8,
        DType::I16 => ElementType::S16,
        DType::I32 => ElementType::S32,
        DType::I64 => ElementType::S64,
        DType::U16 => ElementType::U16,
        DType::U32 => ElementType::U32,
        DType::U64 => ElementType::U64,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::Bf16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::C64 => ElementType::C64,
        DType::C128 => ElementType::C128,
        DType::F8E4M3FN => ElementType::F8E4M3Fn,
        DType::F8E5M2 => ElementType::F8E5M2,
        DType::F8E4M3FNUZ => ElementType::F8E4M3Fnuz,
        DType::F8E5M2FNUZ => ElementType::F8E5M2Fnuz,
    }
}

/// The StableHLO type of a buffer's PJRT type.
pub const fn dtype_of(ty: ElementType) -> DType {
    match ty {
        ElementType::Pred => DType::Bool,
        ElementType::S8 => DType::I8,
        ElementType::S16 => DType::I16,
        ElementType::S32 => DType::I32,
        ElementType::S64 => DType::I64,
        ElementType::U16 => DType::U16,
        ElementType::U32 => DType::U32,
        ElementType::U64 => DType::U64,
        ElementType::F16 => DType::F16,
        ElementType::Bf16 => DType::BF16,
        ElementType::F32 => DType::F32,
        ElementType::F64 => DType::F64,
        ElementType::C64 => DType::C64,
        ElementType::C128 => DType::C128,
        ElementType::F8E4M3Fn => DType::F8E4M3FN,
        ElementType::F8E5M2 => DType::F8E5M2,
        ElementType::F8E4M3Fnuz => DType::F8E4M3FNUZ,
        ElementType::F8E5M2Fnuz => DType::F8E5M2FNUZ,
        // Programs of this crate make no other types; bytes are what is left of them.
        _ => DType::U8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_goes_there_and_back() {
        for dtype in DType::ALL {
            assert_eq!(dtype_of(element_type(dtype)), dtype);
            assert_eq!(from_scalar_type(scalar_type(dtype)), Some(dtype));
            assert_eq!(element_type(dtype).size_bytes(), dtype.size());
        }
        assert_eq!(from_scalar_type(12), None);
    }
}
