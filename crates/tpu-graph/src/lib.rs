//! Whole graphs: what `torch.compile` traced, lowered to one program by the rows that serve eager
//! execution.
//!
//! `python/torch_tpu/_graph` writes an FX graph as JSON ([`Graph::parse`] gives the form). A
//! [`Graph`] is a [`tpu_ops::Lower`], so that it is launched like an operator: its parameters are
//! the numbers and the tensors that it is called with, its results the new tensors, then the
//! values of the tensors that it writes.
mod control;
mod lower;
mod parse;

pub use parse::{Argument, Graph, Node, Output, servant};

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
}

/// Result of reading a graph.
pub type Result<T> = std::result::Result<T, Error>;
