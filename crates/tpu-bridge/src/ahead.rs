//! Compiling for devices that are not here.
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;
use tpu_eager::{DType, Precision, Settings};
use tpu_graph::{Error, Graph, Signature};
use tpu_pjrt::{CompileOptions, OptionValue, Plugin, Topology};

/// Lowers a graph (as `add_graph` takes it) for tensors of the types in `signature`. The text, and
/// what has to be known to call it, as JSON.
///
/// Raises `NotImplementedError` with a message and the position of the node that has no lowering,
/// None where it is not about one.
#[pyfunction]
pub(crate) fn lower_graph(
    graph: &str,
    signature: &str,
    tpu: bool,
    default_dtype: &str,
    precision: &str,
) -> PyResult<(String, String)> {
    let malformed = |error: serde_json::Error| PyValueError::new_err(error.to_string());
    let signature: Signature = serde_json::from_str(signature).map_err(malformed)?;
    let known = DType::ALL.into_iter().find(|t| t.python() == default_dtype);
    let settings = Settings {
        precision: match precision {
            "medium" => Precision::Default,
            "high" => Precision::High,
            _ => Precision::Highest,
        },
        default_dtype: known.unwrap_or(DType::F32),
        deterministic: false,
        tpu,
    };
    let lowered = Graph::parse(graph).and_then(|graph| graph.program(&signature, settings));
    let program = lowered.map_err(|error| match error {
        Error::Refused { node, message } => PyNotImplementedError::new_err((message, node)),
        other => PyNotImplementedError::new_err((other.to_string(), None::<usize>)),
    })?;
    let description = serde_json::to_string(&program).map_err(malformed)?;
    Ok((program.text, description))
}

/// Compiles a module for a device of `topology` with the plugin `library`, which takes hold of the
/// process: it must have been started for this alone, with `compiler_environment`. What came of
/// it, as JSON: `seconds` and, unless there is an `error`, `memory` in bytes.
#[pyfunction]
pub(crate) fn compile_ahead(
    py: Python<'_>,
    library: PathBuf,
    topology: &str,
    module: &str,
    flags: Vec<(String, String)>,
    least_effort: bool,
) -> PyResult<String> {
    py.detach(|| {
        let options = CompileOptions {
            least_effort,
            overrides: flags.into_iter().map(flag).collect(),
            ..CompileOptions::default()
        };
        let plugin = Plugin::load(&library)?;
        let topology = Topology::new(&plugin, topology)?;
        let begin = Instant::now();
        let compiled = topology.compile(module, &options);
        let outcome = compiled.and_then(|compiled| compiled.memory_stats());
        let seconds = begin.elapsed().as_secs_f64();
        Ok::<_, tpu_pjrt::Error>(match outcome {
            Ok(memory) => json!({"seconds": seconds, "memory": {
                "arguments": memory.arguments,
                "outputs": memory.outputs,
                "aliased": memory.aliased,
                "temporary": memory.temporary,
                "peak": memory.peak,
            }}),
            Err(error) => json!({"seconds": seconds, "error": error.message()}),
        })
    })
    .map(|outcome: Value| outcome.to_string())
    .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

fn flag((name, value): (String, String)) -> (String, OptionValue) {
    let value = match value.as_str() {
        "true" | "false" => OptionValue::Bool(value == "true"),
        text => text
            .parse()
            .map_or_else(|_| OptionValue::from(text), OptionValue::Int),
    };
    (name, value)
}

/// The variables that the process of `compile_ahead` needs from its start.
#[pyfunction]
pub(crate) fn compiler_environment() -> Vec<(&'static str, &'static str)> {
    Topology::environment().to_vec()
}
