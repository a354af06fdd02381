use crate::DType;
use smallvec::SmallVec;
use std::fmt;

/// Dimension sizes, or anything else that there is one of per dimension.
pub type Dims = SmallVec<[i64; 6]>;

/// A ranked tensor type with static dimensions.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first; empty for a scalar.
    pub dims: Dims,
}

impl Type {
    /// `dims` elements of `dtype`.
    pub fn new(dtype: DType, dims: &[i64]) -> Self {
        Self {
            dtype,
            dims: dims.into(),
        }
    }

    /// A 0-dimensional tensor.
    pub fn scalar(dtype: DType) -> Self {
        Self {
            dtype,
            dims: Dims::new(),
        }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn numel(&self) -> i64 {
        self.dims.iter().product()
    }

    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self {
            dtype,
            dims: self.dims.clone(),
        }
    }

    /// The same element type with another shape.
    pub fn with_dims(&self, dims: &[i64]) -> Self {
        Self::new(self.dtype, dims)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for d in &self.dims {
            write!(f, "{d}x")?;
        }
        write!(f, "{}>", self.dtype.mlir())
    }
}
