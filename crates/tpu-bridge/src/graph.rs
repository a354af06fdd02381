//! Graphs of `torch.compile`, by id.
use parking_lot::RwLock;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use tpu_eager::{Kernel, OptionValue, Symbols, runtime};
use tpu_graph::{Artifact, Graph, servant};
use tpu_ops::{Lower, Op};

/// Live as long as the process, like the code that Dynamo made for them.
static GRAPHS: RwLock<Vec<&Kernel>> = RwLock::new(Vec::new());

pub(crate) fn find(id: i64) -> Option<&'static Kernel> {
    GRAPHS.read().get(usize::try_from(id).ok()?).copied()
}

/// Options of the compiler from Python: a name with a bool, an int, a float or a str.
type Options<'py> = Vec<(String, Bound<'py, PyAny>)>;

/// Takes a graph in the form of [`Graph`], to be compiled with these options; the id that
/// `torch.ops.torch_tpu.run_graph` wants.
#[pyfunction]
pub(crate) fn add_graph(json: &str, options: Options<'_>) -> PyResult<usize> {
    let options = options.into_iter().map(option).collect::<PyResult<_>>()?;
    let graph = Graph::parse(json).map_err(|e| PyNotImplementedError::new_err(e.to_string()))?;
    let (fresh, open) = (graph.outputs.len(), graph.open_sizes());
    Ok(keep("graph", graph, fresh, options, open))
}

/// Takes a program in the form of [`Artifact`], and gives an id as `add_graph` does.
#[pyfunction]
pub(crate) fn add_program(description: &str, text: &str) -> PyResult<usize> {
    let program = Artifact::parse(description, text);
    let program = program.map_err(|e| PyValueError::new_err(e.to_string()))?;
    let fresh = program.fresh();
    Ok(keep("exported", program, fresh, Vec::new(), None))
}

fn keep(
    kind: &str,
    lower: impl Lower + 'static,
    fresh: usize,
    options: Vec<(String, OptionValue)>,
    open: Option<Result<Symbols, String>>,
) -> usize {
    let mut graphs = GRAPHS.write();
    let id = graphs.len();
    let name = Box::leak(format!("{kind} {id}").into_boxed_str());
    let op: &'static Op = Box::leak(Box::new(Op::new(name, Box::leak(Box::new(lower)))));
    graphs.push(Box::leak(Box::new(Kernel::graph(op, fresh, options, open))));
    id
}

/// What became of a graph's open sizes, if it has some: why each has a program of its own, if that
/// is so, and the capacities of each program for a bucket.
#[pyfunction]
pub(crate) fn graph_sizes(id: i64) -> Option<(Option<String>, Vec<Vec<i64>>)> {
    let told = find(id)?.told()?;
    Some((told.exact, told.capacities))
}

/// Asks the compiler whether it takes these options; opens the device. Raises `ValueError` with
/// what it says of one that it does not take.
#[pyfunction]
pub(crate) fn check_options(py: Python<'_>, options: Options<'_>) -> PyResult<()> {
    let options: Vec<_> = options.into_iter().map(option).collect::<PyResult<_>>()?;
    py.detach(|| runtime::get()?.check_options(&options))
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

fn option((name, value): (String, Bound<'_, PyAny>)) -> PyResult<(String, OptionValue)> {
    // A bool is an int as well.
    let value = if let Ok(flag) = value.extract::<bool>() {
        OptionValue::Bool(flag)
    } else if let Ok(number) = value.extract::<i64>() {
        OptionValue::Int(number)
    } else if let Ok(number) = value.extract::<f32>() {
        OptionValue::Float(number)
    } else if let Ok(text) = value.extract::<String>() {
        OptionValue::Str(text)
    } else {
        let message = format!("option `{name}` is neither a bool nor an int, a float or a str");
        return Err(PyTypeError::new_err(message));
    };
    Ok((name, value))
}

/// Empty, or why an operator (ATen name with overload) cannot be part of a graph.
#[pyfunction]
pub(crate) fn graph_refusal(op: &str) -> String {
    servant(op)
        .err()
        .map_or_else(String::new, |e| e.to_string())
}
