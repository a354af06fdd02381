//! Graphs of `torch.compile`, by id.
use parking_lot::RwLock;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use tpu_eager::Kernel;
use tpu_graph::{Graph, servant};
use tpu_ops::Op;

/// Live as long as the process, like the code that Dynamo made for them.
static GRAPHS: RwLock<Vec<&Kernel>> = RwLock::new(Vec::new());

pub(crate) fn find(id: i64) -> Option<&'static Kernel> {
    GRAPHS.read().get(usize::try_from(id).ok()?).copied()
}

/// Takes a graph in the form of [`Graph`]; the id that `torch.ops.torch_tpu.run_graph` wants.
#[pyfunction]
pub(crate) fn add_graph(json: &str) -> PyResult<usize> {
    let graph = Graph::parse(json).map_err(|e| PyNotImplementedError::new_err(e.to_string()))?;
    let fresh = graph.outputs.len();
    let op: &'static Op = Box::leak(Box::new(Op::new("graph", Box::leak(Box::new(graph)))));
    let mut graphs = GRAPHS.write();
    graphs.push(Box::leak(Box::new(Kernel::graph(op, fresh))));
    Ok(graphs.len() - 1)
}

/// Empty, or why an operator (ATen name with overload) cannot be part of a graph.
#[pyfunction]
pub(crate) fn graph_refusal(op: &str) -> String {
    servant(op)
        .err()
        .map_or_else(String::new, |e| e.to_string())
}
