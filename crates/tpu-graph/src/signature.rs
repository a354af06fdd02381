//! A graph lowered without tensors: only their types are known.
use crate::lower::dtype_of;
use crate::{Error, Graph, Result};
use serde::{Deserialize, Serialize};
use tpu_hlo::{Builder, Module, Settings, Slot, Type, Value};
use tpu_ops::Arg;

/// What a graph is called with.
#[derive(Clone, Debug, Deserialize)]
pub struct Signature {
    /// The numbers.
    pub numbers: Vec<i64>,
    /// The tensors that it reads.
    pub tensors: Vec<TensorType>,
    /// For each tensor that it writes its position among those that it reads, if it is.
    pub written: Vec<Option<usize>>,
    /// What people call the tensors that it reads.
    pub names: Vec<String>,
}

/// A tensor's type.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct TensorType {
    /// PyTorch's name, as `float32`.
    pub dtype: String,
    /// Sizes, outermost first.
    pub sizes: Vec<i64>,
    /// Dimensions from the slowest to the fastest in memory; absent: row-major.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<i64>>,
}

/// A program that can be written down: StableHLO and what has to be known to call it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Program {
    /// StableHLO; the public function is `main`. Kept apart when written down.
    #[serde(skip)]
    pub text: String,
    /// For each parameter the position of the tensor that it is, `seed` or `offset` (the random
    /// generator's state, 64-bit scalars).
    pub parameters: Vec<Parameter>,
    /// New tensors, in order; `None` where PyTorch has no tensor.
    pub outputs: Vec<Option<TensorType>>,
    /// The values that tensors take which the program writes.
    pub written: Vec<TensorType>,
    /// Messages of the trailing results, integers that say whether a bound was kept.
    pub checks: Vec<String>,
    /// 128-bit blocks of random bits that a run draws.
    pub drawn: u64,
}

/// What a parameter of the program is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Parameter {
    /// A tensor of the call.
    Tensor(usize),
    /// Seed of the generator.
    Seed,
    /// Blocks that the generator gave out before.
    Offset,
}

impl TensorType {
    pub(crate) fn ty(&self) -> Result<Type> {
        let dtype = dtype_of(&self.dtype).map_err(|_| Error::Artifact("a dtype is not known"))?;
        Ok(Type::new(dtype, &self.sizes))
    }

    fn of(b: &Builder, v: Value) -> Self {
        let ty = b.ty(v);
        Self {
            dtype: ty.dtype.python().to_owned(),
            sizes: ty.dims.to_vec(),
            order: b.order(v).map(<[i64]>::to_vec),
        }
    }
}

impl Graph {
    /// Lowers the graph for tensors of these types.
    ///
    /// # Errors
    /// [`Error::Refused`], with the node that cannot be lowered.
    pub fn program(&self, signature: &Signature, settings: Settings) -> Result<Program> {
        let mut b = Builder::new(settings);
        let mut tensors = Vec::new();
        for (i, tensor) in signature.tensors.iter().enumerate() {
            let v = b.param(Slot::Buffer(i as u32), tensor.ty()?);
            if let Some(name) = signature.names.get(i) {
                b.set_label(v, name);
            }
            tensors.push(v);
        }
        let args = [
            Arg::Ints(signature.numbers.iter().copied().collect()),
            Arg::Tensors(tensors.iter().copied().map(Some).collect()),
        ];
        let outs = self.lower(&mut b, &args).map_err(|(node, error)| {
            let message = error.to_string();
            Error::Refused { node, message }
        })?;
        Ok(self.finish(b, &outs, &tensors, signature))
    }

    fn finish(&self, mut b: Builder, outs: &[Value], tensors: &[Value], s: &Signature) -> Program {
        let (fresh, written) = outs.split_at(self.outputs.len());
        let mut values: Vec<Value> = Vec::new();
        let mut outputs = Vec::new();
        for v in fresh {
            let gone = b.is_undefined(*v);
            outputs.push((!gone).then(|| TensorType::of(&b, *v)));
            values.extend((!gone).then_some(*v));
        }
        let mut aliases = Vec::new();
        for (v, target) in written.iter().zip(&s.written) {
            aliases.extend(target.map(|i| (values.len(), tensors[i])));
            values.push(*v);
        }
        let written = written.iter().map(|v| TensorType::of(&b, *v)).collect();
        let (bad, checks): (Vec<_>, Vec<_>) = b.take_checks().into_iter().unzip();
        values.extend(bad);
        let drawn = b.drawn();
        let Module { text, inputs, .. } = b.finish(&values, &aliases);
        let parameter = |slot| match slot {
            Slot::SEED => Parameter::Seed,
            Slot::Buffer(i) => Parameter::Tensor(i as usize),
            // The one number that is left; only launches have spares, and sizes that are open.
            Slot::Number(_) | Slot::Spare(_) | Slot::Size(_) => Parameter::Offset,
        };
        Program {
            text,
            parameters: inputs.iter().map(|input| parameter(input.slot)).collect(),
            outputs,
            written,
            checks,
            drawn,
        }
    }
}
