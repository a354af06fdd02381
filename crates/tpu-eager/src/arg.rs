//! Arguments of a call, borrowed from the caller.
use crate::Cell;
use smallvec::SmallVec;
use tpu_hlo::{DType, Dims, Number};

/// A tensor: a storage and how its elements lie in it.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// The storage.
    pub cell: &'a Cell,
    /// Element type, which may differ from what the storage was written with.
    pub dtype: DType,
    /// Sizes.
    pub sizes: &'a [i64],
    /// Strides, in elements.
    pub strides: &'a [i64],
    /// First element, in elements.
    pub offset: i64,
    /// Elements read are the conjugates of those stored.
    pub conj: bool,
    /// Elements read are the negatives of those stored.
    pub neg: bool,
}

impl Tensor<'_> {
    /// Number of elements.
    pub fn numel(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// Whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (size, stride) in self.sizes.iter().zip(self.strides).rev() {
            if *size != 1 {
                if *stride != expected {
                    return false;
                }
                expected *= size;
            }
        }
        true
    }

    /// Elements of the tensor's type in the storage.
    pub fn storage_numel(&self) -> i64 {
        (self.cell.nbytes() / self.dtype.size()) as i64
    }
}

/// One argument.
#[derive(Clone, Debug)]
pub enum Arg<'a> {
    /// Nothing given.
    None,
    /// `Tensor`
    Tensor(Tensor<'a>),
    /// A 0-dimensional tensor on the host: a run-time number. `wrapped` when it came from a
    /// Python number.
    Host {
        /// Its value.
        number: Number,
        /// Its element type.
        dtype: DType,
        /// Whether type promotion treats it as a number.
        wrapped: bool,
    },
    /// `Tensor[]` and `Tensor?[]`
    Tensors(Vec<Option<Tensor<'a>>>),
    /// `int`, `float`, `bool`, `Scalar`
    Number(Number),
    /// `Scalar[]`
    Numbers(SmallVec<[Number; 4]>),
    /// `int[]`
    Ints(Dims),
    /// `float[]`
    Floats(SmallVec<[f64; 4]>),
    /// `bool[]`
    Bools(SmallVec<[bool; 4]>),
    /// `str`
    Str(&'a str),
    /// `ScalarType`
    DType(DType),
}
