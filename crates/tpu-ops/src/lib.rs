//! ATen operators as StableHLO: the table.
//!
//! One operator is one row, and at most one short function whose parameters are the operator's
//! own, in the schema's order. Rows exist only for functional names: [`schema::plan`] derives the
//! in-place and `out=` forms. Nothing here knows a device, a plugin or PyTorch's library.
pub mod check;
mod error;
mod formula;
mod op;
pub mod promote;
pub mod schema;

mod activation;
mod attention;
mod bessel;
mod binary;
mod compare;
mod conv;
mod copy;
mod counting;
mod distance;
mod embedding;
mod factory;
mod foreach;
mod histogram;
mod igamma;
mod index;
mod jagged;
mod linalg;
mod loss;
mod matmul;
mod norm;
mod optim;
mod pad;
mod patches;
mod pointwise;
mod polynomial;
mod pool;
mod put;
mod quantize;
mod reduce;
mod rng;
mod rnn;
mod scan;
mod scatter;
mod segment;
mod shape;
mod softmax;
mod sort;
mod special;
mod spectral;
mod statistics;
mod structure;
mod upsample;

pub use error::{Class, Error, Result};
pub use op::{
    Arg, Bound, Counts, Exponent, Factor, Generator, Guard, Ignored, Layout, Lower, Op, OutDtype,
    Outs, Param, Scalar, Size, Threshold,
};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// The families, in the order of docs/ops.md.
pub const FAMILIES: &[(&str, &[Op])] = &[
    ("activation", activation::OPS),
    ("attention", attention::OPS),
    ("bessel", bessel::OPS),
    ("binary", binary::OPS),
    ("compare", compare::OPS),
    ("conv", conv::OPS),
    ("copy", copy::OPS),
    ("counting", counting::OPS),
    ("distance", distance::OPS),
    ("embedding", embedding::OPS),
    ("factory", factory::OPS),
    ("foreach", foreach::OPS),
    ("histogram", histogram::OPS),
    ("igamma", igamma::OPS),
    ("index", index::OPS),
    ("jagged", jagged::OPS),
    ("linalg", linalg::OPS),
    ("loss", loss::OPS),
    ("matmul", matmul::OPS),
    ("norm", norm::OPS),
    ("optim", optim::OPS),
    ("pad", pad::OPS),
    ("patches", patches::OPS),
    ("pointwise", pointwise::OPS),
    ("polynomial", polynomial::OPS),
    ("pool", pool::OPS),
    ("put", put::OPS),
    ("quantize", quantize::OPS),
    ("reduce", reduce::OPS),
    ("rng", rng::OPS),
    ("rnn", rnn::OPS),
    ("scan", scan::OPS),
    ("scatter", scatter::OPS),
    ("segment", segment::OPS),
    ("shape", shape::OPS),
    ("softmax", softmax::OPS),
    ("sort", sort::OPS),
    ("special", special::OPS),
    ("spectral", spectral::OPS),
    ("statistics", statistics::OPS),
    ("upsample", upsample::OPS),
];

static INDEX: LazyLock<FxHashMap<&str, &Op>> =
    LazyLock::new(|| all().map(|o| (o.name, o)).collect());

/// Every row.
pub fn all() -> impl Iterator<Item = &'static Op> {
    FAMILIES.iter().flat_map(|(_, rows)| rows.iter())
}

/// The family of the row called `name`.
pub fn family(name: &str) -> Option<&'static str> {
    let mut families = FAMILIES.iter();
    let found = families.find(|(_, rows)| rows.iter().any(|row| row.name == name));
    found.map(|(family, _)| *family)
}

/// The row of a functional operator, as `add.Tensor` or `relu`.
pub fn get(name: &str) -> Option<&'static Op> {
    INDEX.get(name).copied()
}

/// The row of an operator in a graph: one of [`get`]'s, or a view.
pub fn get_in_graph(name: &str) -> Option<&'static Op> {
    get(name).or_else(|| structure::OPS.iter().find(|row| row.name == name))
}

#[cfg(test)]
pub(crate) mod golden;
