//! Element types and static shapes.

use crate::ffi;
use smallvec::SmallVec;
use std::fmt;

/// The sizes of a shape, outermost first.
pub type Dims = SmallVec<[i64; 6]>;

macro_rules! element_types {
    ($($variant:ident $pjrt:ident $ffi:ident $mlir:literal $bytes:literal,)*) => {
        /// The type of a buffer's elements; the numbers are those of `PJRT_Buffer_Type`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum ElementType {
            $(
                #[doc = concat!("`", $mlir, "` in StableHLO.")]
                $variant = ffi::$pjrt,
            )*
        }

        impl ElementType {
            /// Every type, in the order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Bytes of one element on the host. Types of less than a byte take one there.
            pub const fn size_bytes(self) -> usize {
                match self { $(Self::$variant => $bytes,)* }
            }

            /// The type with this number of `XLA_FFI_DataType`, which are others.
            pub(crate) fn from_ffi_number(number: u32) -> Option<Self> {
                match number {
                    $(ffi::$ffi => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name in StableHLO text, `pred` being `i1`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $mlir,)* }
            }
        }
    };
}

element_types! {
    Pred PJRT_Buffer_Type_PRED XLA_FFI_DataType_PRED "i1" 1,
    S8 PJRT_Buffer_Type_S8 XLA_FFI_DataType_S8 "i8" 1,
    S16 PJRT_Buffer_Type_S16 XLA_FFI_DataType_S16 "i16" 2,
    S32 PJRT_Buffer_Type_S32 XLA_FFI_DataType_S32 "i32" 4,
    S64 PJRT_Buffer_Type_S64 XLA_FFI_DataType_S64 "i64" 8,
    U8 PJRT_Buffer_Type_U8 XLA_FFI_DataType_U8 "ui8" 1,
    U16 PJRT_Buffer_Type_U16 XLA_FFI_DataType_U16 "ui16" 2,
    U32 PJRT_Buffer_Type_U32 XLA_FFI_DataType_U32 "ui32" 4,
    U64 PJRT_Buffer_Type_U64 XLA_FFI_DataType_U64 "ui64" 8,
    F16 PJRT_Buffer_Type_F16 XLA_FFI_DataType_F16 "f16" 2,
    F32 PJRT_Buffer_Type_F32 XLA_FFI_DataType_F32 "f32" 4,
    F64 PJRT_Buffer_Type_F64 XLA_FFI_DataType_F64 "f64" 8,
    Bf16 PJRT_Buffer_Type_BF16 XLA_FFI_DataType_BF16 "bf16" 2,
    C64 PJRT_Buffer_Type_C64 XLA_FFI_DataType_C64 "complex<f32>" 8,
    C128 PJRT_Buffer_Type_C128 XLA_FFI_DataType_C128 "complex<f64>" 16,
    F8E5M2 PJRT_Buffer_Type_F8E5M2 XLA_FFI_DataType_F8E5M2 "f8E5M2" 1,
    F8E4M3Fn PJRT_Buffer_Type_F8E4M3FN XLA_FFI_DataType_F8E4M3FN "f8E4M3FN" 1,
    F8E4M3B11Fnuz PJRT_Buffer_Type_F8E4M3B11FNUZ XLA_FFI_DataType_F8E4M3B11FNUZ "f8E4M3B11FNUZ" 1,
    F8E5M2Fnuz PJRT_Buffer_Type_F8E5M2FNUZ XLA_FFI_DataType_F8E5M2FNUZ "f8E5M2FNUZ" 1,
    F8E4M3Fnuz PJRT_Buffer_Type_F8E4M3FNUZ XLA_FFI_DataType_F8E4M3FNUZ "f8E4M3FNUZ" 1,
    S4 PJRT_Buffer_Type_S4 XLA_FFI_DataType_S4 "i4" 1,
    U4 PJRT_Buffer_Type_U4 XLA_FFI_DataType_U4 "ui4" 1,
    S2 PJRT_Buffer_Type_S2 XLA_FFI_DataType_S2 "i2" 1,
    U2 PJRT_Buffer_Type_U2 XLA_FFI_DataType_U2 "ui2" 1,
    F8E4M3 PJRT_Buffer_Type_F8E4M3 XLA_FFI_DataType_F8E4M3 "f8E4M3" 1,
    F8E3M4 PJRT_Buffer_Type_F8E3M4 XLA_FFI_DataType_F8E3M4 "f8E3M4" 1,
    F8E8M0Fnu PJRT_Buffer_Type_F8E8M0FNU XLA_FFI_DataType_F8E8M0FNU "f8E8M0FNU" 1,
    F4E2M1Fn PJRT_Buffer_Type_F4E2M1FN XLA_FFI_DataType_F4E2M1FN "f4E2M1FN" 1,
}

impl ElementType {
    /// The type with this number of `PJRT_Buffer_Type`; `None` for tokens and unknown numbers.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.iter().copied().find(|ty| ty.number() == number)
    }

    /// The number in `PJRT_Buffer_Type`.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// True where a device packs several elements into a byte, unlike the host.
    pub const fn is_packed(self) -> bool {
        matches!(
            self,
            Self::S4 | Self::U4 | Self::S2 | Self::U2 | Self::F4E2M1Fn
        )
    }
}

/// A Rust type that stands for elements of some types in a custom call.
///
/// # Safety
/// Any bits are a value, and an element of each type in `TYPES` has the size of `Self`.
pub unsafe trait Element: Copy + 'static {
    /// The element types that it stands for.
    const TYPES: &'static [ElementType];
}

macro_rules! elements {
    ($($rust:ty: $($variant:ident)*,)*) => {$(
        const _: () = {
            $(assert!(ElementType::$variant.size_bytes() == size_of::<$rust>());)*
        };
        // SAFETY: integers, floats and pairs of floats are plain bits; the sizes are checked above.
        unsafe impl Element for $rust {
            const TYPES: &'static [ElementType] = &[$(ElementType::$variant,)*];
        }
    )*};
}

elements! {
    i8: S8,
    i16: S16,
    i32: S32,
    i64: S64,
    u8: U8 Pred,
    u16: U16 F16 Bf16,
    u32: U32,
    u64: U64,
    f32: F32,
    f64: F64,
    [f32; 2]: C64,
    [f64; 2]: C128,
}

/// An element type and sizes, dense and row-major.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The type of the elements.
    pub ty: ElementType,
    /// The sizes, outermost first; empty for a scalar.
    pub dims: Dims,
}

impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Self {
        Self::new(self.ty, &self.dims)
    }
}

impl Shape {
    /// A shape with these sizes.
    #[inline]
    pub fn new(ty: ElementType, dims: &[i64]) -> Self {
        Self {
            ty,
            dims: Dims::from_slice(dims),
        }
    }

    /// How many elements there are; `None` where a size is negative or the product overflows.
    #[inline]
    pub fn checked_elements(&self) -> Option<usize> {
        self.dims.iter().try_fold(1_usize, |product, &size| {
            usize::try_from(size)
                .ok()
                .and_then(|size| product.checked_mul(size))
        })
    }

    /// Bytes on the host; `None` where that is no number that a host could hold.
    #[inline]
    pub fn checked_bytes(&self) -> Option<usize> {
        let bytes = self.checked_elements()?.checked_mul(self.ty.size_bytes())?;
        (bytes <= isize::MAX as usize).then_some(bytes)
    }

    /// Bytes on the host, one per element for types of less than a byte. Saturates where a size
    /// is negative or too large, which no buffer can have.
    #[inline]
    pub fn size_bytes(&self) -> usize {
        self.checked_bytes().unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}[", self.ty.name())?;
        for (index, size) in self.dims.iter().enumerate() {
            write!(out, "{}{size}", if index == 0 { "" } else { "," })?;
        }
        write!(out, "]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        let bytes = |dims: &[i64]| Shape::new(ElementType::F64, dims).checked_bytes();
        assert_eq!(bytes(&[]), Some(8));
        assert_eq!(bytes(&[2, 3]), Some(48));
        assert_eq!(bytes(&[2, 0]), Some(0));
        assert_eq!(bytes(&[-1]), None);
        assert_eq!(bytes(&[i64::MAX, 4]), None);
        assert_eq!(bytes(&[i64::MAX / 8]), Some(isize::MAX as usize - 7));
        assert_eq!(bytes(&[i64::MAX / 8 + 1]), None);
        assert_eq!(Shape::new(ElementType::S8, &[-1]).size_bytes(), usize::MAX);
    }

    #[test]
    fn numbers_lead_back_to_their_type() {
        for &ty in ElementType::ALL {
            assert_eq!(ElementType::from_number(ty.number()), Some(ty));
        }
        for no_type in [0, ffi::PJRT_Buffer_Type_TOKEN, 1000] {
            assert_eq!(ElementType::from_number(no_type), None);
        }
        assert_eq!(ElementType::from_ffi_number(16), Some(ElementType::Bf16));
        assert_eq!(ElementType::from_number(13), Some(ElementType::Bf16));
    }

    #[test]
    fn shapes_print() {
        assert_eq!(
            Shape::new(ElementType::Bf16, &[2, 3]).to_string(),
            "bf16[2,3]"
        );
        assert_eq!(Shape::new(ElementType::Pred, &[]).to_string(), "i1[]");
    }
}
