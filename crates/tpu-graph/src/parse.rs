//! The form of a graph on its way from Python.
use crate::{Error, Result};
use serde::Deserialize;
use tpu_ops::{Op, get_in_graph};

/// A functional graph: every node is a call, in an order in which they can run.
#[derive(Debug, Deserialize)]
pub struct Graph {
    /// The calls.
    pub nodes: Vec<Node>,
    /// New tensors; `None` where PyTorch has no tensor.
    pub outputs: Vec<Option<Output>>,
    /// Nodes whose values are written into the tensors of the call's second list, in its order.
    pub written: Vec<usize>,
    /// How many symbols occur in sizes.
    #[serde(default)]
    pub symbols: usize,
    /// Why sizes cannot be left open when the graph is compiled, if they cannot.
    #[serde(default)]
    pub exact: Option<String>,
}

/// A call.
#[derive(Debug, Deserialize)]
pub struct Node {
    /// ATen name with overload, as `add.Tensor`, or one of `tensor`, `number` (an input, by
    /// position), `getitem`, `python.*` (arithmetic on sizes), and `cond`, `while_loop`, `scan` and
    /// `map`.
    pub op: String,
    /// Arguments in the order of the schema, defaults included.
    pub args: Vec<Argument>,
    /// Dtype of the result, for rows that are told it (`arange.start_out`), as `float32`.
    #[serde(default)]
    pub dtype: Option<String>,
    /// Where it comes from, for programs whose compiler shall say so.
    #[serde(default)]
    pub at: Option<Place>,
    /// The bodies of control flow, whose inputs are the operands in their order.
    #[serde(default)]
    pub graphs: Vec<Graph>,
    /// In a graph with symbols the sizes of the tensor that it gives.
    #[serde(default)]
    pub sizes: Option<Vec<Extent>>,
    /// In a graph with symbols the number that it gives.
    #[serde(default)]
    pub size: Option<Extent>,
    #[serde(skip)]
    pub(crate) row: Option<&'static Op>,
}

/// A size.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Extent {
    /// `3`
    Known(i64),
    /// `{"factor": 2, "atoms": [[1, [0, 1]]]}`: twice what symbol 0 and 1 make together.
    Open {
        /// What is known.
        factor: i64,
        /// For each factor that is not the constant, and symbols with their coefficients.
        atoms: Vec<(i64, Vec<(u32, i64)>)>,
    },
}

/// Where a call comes from.
#[derive(Clone, Debug, Deserialize)]
pub struct Place {
    /// The part of the model, as `layers.0.attention`, and the operator.
    pub name: String,
    /// Path of the source; empty where it is not known.
    pub file: String,
    /// Its line.
    pub line: u32,
}

/// An argument of a call.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// Nothing given.
    None,
    /// `true`
    Bool(bool),
    /// `2`
    Int(i64),
    /// `2.0`
    Float(f64),
    /// `[..]`
    List(Vec<Self>),
    /// `{"node": 3}`: the value of an earlier node.
    Node {
        /// Its position.
        node: usize,
    },
    /// `{"str": "none"}`
    Str {
        /// The text.
        str: String,
    },
    /// `{"dtype": "float32"}`
    Dtype {
        /// Its name.
        dtype: String,
    },
    /// `{"float": "nan"}`: a float that JSON has no number for.
    Odd {
        /// `nan`, `inf` or `-inf`.
        float: String,
    },
    /// `{"complex": [1.0, 2.0]}`
    Complex {
        /// Real and imaginary part.
        complex: (f64, f64),
    },
}

/// A result.
#[derive(Debug, Deserialize)]
pub struct Output {
    /// The node whose value it is.
    pub node: usize,
    /// Its dimensions from the slowest to the fastest in memory; absent: row-major.
    #[serde(default)]
    pub order: Option<Vec<i64>>,
}

impl Graph {
    /// Reads a graph and finds the row of every node.
    ///
    /// # Errors
    /// [`Error::Json`], or [`Error::Node`] for a node that has no row or none that can be part of
    /// a graph.
    pub fn parse(json: &str) -> Result<Self> {
        let mut graph: Self = serde_json::from_str(json)?;
        graph.find_rows()?;
        Ok(graph)
    }

    fn find_rows(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.graphs.iter_mut().try_for_each(Self::find_rows)?;
            if !crate::lower::is_structural(&node.op) {
                node.row = Some(servant(&node.op)?);
            }
        }
        Ok(())
    }
}

/// The row that serves an operator in a graph.
///
/// # Errors
/// [`Error::Node`]
pub fn servant(op: &str) -> Result<&'static Op> {
    let refuse = |why| Error::Node { op: op.into(), why };
    get_in_graph(op).ok_or_else(|| refuse("no row serves it"))
}
