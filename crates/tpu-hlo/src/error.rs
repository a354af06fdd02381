use crate::{Dims, Type};

/// A StableHLO constraint that the caller broke, with the types that broke it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Two operands that must have one type.
    #[error("`{op}` wants operands of one type, got {} and {}", .types.0, .types.1)]
    Mismatch {
        /// StableHLO name of the op.
        op: &'static str,
        /// The two types.
        types: Box<(Type, Type)>,
    },
    /// A shape that does not fit the op's attributes.
    #[error("`{op}` cannot take {ty} with {attr:?}")]
    Shape {
        /// StableHLO name of the op.
        op: &'static str,
        /// The operand's type.
        ty: Box<Type>,
        /// The attribute that does not fit.
        attr: Dims,
    },
    /// What would show elements behind a logical size.
    #[error("`{op}`: {why}")]
    Padded {
        /// StableHLO name of the op.
        op: &'static str,
        /// What it would do.
        why: &'static str,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
