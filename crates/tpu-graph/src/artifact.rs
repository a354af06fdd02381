//! Programs that were written down, run like an operator again.
use crate::signature::{Parameter, Program, TensorType};
use crate::{Error, Result};
use tpu_hlo::{Builder, DType, Slot, Type, Value};
use tpu_ops::{Arg, Lower, Outs, Param};

/// A program read back from its text.
#[derive(Debug)]
pub struct Artifact {
    program: Program,
    /// The module's functions, with `main` renamed.
    functions: String,
    /// Types of all results of the function.
    results: Vec<Type>,
}

const NAME: &str = "exported";
const MAIN: &str = "func.func public @main(";

impl Artifact {
    /// Reads a program: its description as JSON, and its text.
    ///
    /// # Errors
    /// [`Error::Json`], [`Error::Artifact`].
    pub fn parse(description: &str, text: &str) -> Result<Self> {
        let program: Program = serde_json::from_str(description)?;
        let inner = text.trim().strip_prefix("module {\n");
        let inner = inner.and_then(|text| text.strip_suffix('}'));
        let inner = inner.ok_or(Error::Artifact("its text is no module"))?;
        if inner.matches(MAIN).count() != 1 {
            return Err(Error::Artifact("its text has no function `main`"));
        }
        let functions = inner.replace(MAIN, &format!("func.func private @{NAME}("));
        let tensors = program.outputs.iter().flatten().chain(&program.written);
        let mut results: Vec<Type> = tensors.map(TensorType::ty).collect::<Result<_>>()?;
        results.extend(program.checks.iter().map(|_| Type::scalar(DType::I64)));
        Ok(Self {
            functions: without_aliases(&functions),
            results,
            program,
        })
    }

    /// How many new tensors a run gives.
    pub fn fresh(&self) -> usize {
        self.program.outputs.len()
    }
}

/// Only an entry function may donate its parameters.
fn without_aliases(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once(" {tf.aliasing_output = ") {
        kept.push_str(before);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    kept + rest
}

impl Lower for Artifact {
    fn call(&self, b: &mut Builder, args: &[Arg]) -> tpu_ops::Result<Outs> {
        let given = |i: usize| match args.get(1) {
            Some(Arg::Tensors(list)) => list.get(i).copied().flatten(),
            _ => None,
        };
        let mut operands = Vec::with_capacity(self.program.parameters.len());
        for parameter in &self.program.parameters {
            let state = Type::scalar(DType::U64);
            operands.push(match parameter {
                Parameter::Seed => b.param(Slot::SEED, state),
                Parameter::Offset => b.param(Slot::OFFSET, state),
                Parameter::Tensor(i) => given(*i).ok_or_else(|| {
                    tpu_ops::Error::runtime(format!("the program has no tensor {i}"))
                })?,
            });
        }
        b.draw(self.program.drawn);
        b.add_function(&self.functions);
        let results = b.call(NAME, &operands, &self.results);
        Ok(self.sort(b, &results))
    }

    fn params(&self) -> Vec<Param> {
        vec![Param::STATIC_INTS, Param::TENSORS]
    }
}

impl Artifact {
    /// New tensors with their order in memory, written ones, and checks.
    fn sort(&self, b: &mut Builder, results: &[Value]) -> Outs {
        let mut left = results.iter().copied();
        let mut outs = Outs::new();
        for output in &self.program.outputs {
            let v = match output {
                Some(_) => left.next(),
                None => None,
            };
            let v = v.unwrap_or_else(|| b.undefined());
            if let Some(order) = output.as_ref().and_then(|ty| ty.order.as_deref()) {
                b.set_order(v, order);
            }
            outs.push(v);
        }
        outs.extend(left.by_ref().take(self.program.written.len()));
        for (bad, message) in left.zip(&self.program.checks) {
            b.check(bad, message.as_str());
        }
        outs
    }
}
