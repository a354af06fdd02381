//! Graphs of `torch.compile`, by id.
use parking_lot::RwLock;
use pyo3::exceptions::{PyNotImplementedError, PyValueError};
use pyo3::prelude::*;
use tpu_eager::Kernel;
use tpu_graph::{Artifact, Graph, servant};
use tpu_ops::{Lower, Op};

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
    Ok(keep("graph", graph, fresh))
}

/// Takes a program in the form of [`Artifact`], and gives an id as `add_graph` does.
#[pyfunction]
pub(crate) fn add_program(description: &str, text: &str) -> PyResult<usize> {
    let program = Artifact::parse(description, text);
    let program = program.map_err(|e| PyValueError::new_err(e.to_string()))?;
    let fresh = program.fresh();
    Ok(keep("exported", program, fresh))
}

fn keep(name: &'static str, lower: impl Lower + 'static, fresh: usize) -> usize {
    let op: &'static Op = Box::leak(Box::new(Op::new(name, Box::leak(Box::new(lower)))));
    let mut graphs = GRAPHS.write();
    graphs.push(Box::leak(Box::new(Kernel::graph(op, fresh))));
    graphs.len() - 1
}

/// Empty, or why an operator (ATen name with overload) cannot be part of a graph.
#[pyfunction]
pub(crate) fn graph_refusal(op: &str) -> String {
    servant(op)
        .err()
        .map_or_else(String::new, |e| e.to_string())
}
