//! Whole graphs: what `torch.compile` traced, lowered to one program by the rows that serve eager
//! execution.
//!
//! `python/torch_tpu/_graph` writes an FX graph as JSON ([`Graph::parse`] gives the form). A
//! [`Graph`] is a [`tpu_ops::Lower`], so that it is launched like an operator: its parameters are
//! the numbers and the tensors that it is called with, its results the new tensors, then the
//! values of the tensors that it writes.
mod artifact;
mod control;
mod lower;
mod parse;
mod signature;
mod symbols;

pub use artifact::Artifact;
pub use parse::{Argument, Extent, Graph, Node, Output, Place, servant};
pub use signature::{Program, Signature, TensorType};

/// Why a graph cannot be lowered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no graph.
    #[error("TPU4001: not a graph: {0}")]
    Json(#[from] serde_json::Error),
    /// A node that no row serves.
    #[error("TPU4002: {op} cannot be part of a graph: {why}; hint: it runs eagerly between graphs")]
    Node {
        /// ATen name.
        op: String,
        /// What is missing.
        why: &'static str,
    },
    /// A node that its row refuses.
    #[error("{message}")]
    Refused {
        /// Its position in the graph; `None` where it is about a result.
        node: Option<usize>,
        /// What the row says.
        message: String,
    },
    /// Text or description of an exported program do not belong together.
    #[error("TPU4010: not an exported program: {0}; hint: export it again")]
    Artifact(&'static str),
}

/// Result of reading a graph.
pub type Result<T> = std::result::Result<T, Error>;
