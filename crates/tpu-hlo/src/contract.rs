//! Matrix products and convolutions.
use crate::{Builder, DType, Dims, Result, Type, Value, shape::array};

/// How many bf16 passes a float32 product may be computed with on a TPU; on a CPU they are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// One pass.
    Default,
    /// Three passes.
    High,
    /// Six passes: float32.
    #[default]
    Highest,
}

impl Precision {
    fn attr(self) -> String {
        let p = match self {
            Self::Default => "DEFAULT",
            Self::High => "HIGH",
            Self::Highest => "HIGHEST",
        };
        let one = format!("#stablehlo<precision {p}>");
        format!("precision_config = [{one}, {one}]")
    }
}

/// Dimension numbers of [`Builder::dot_general`].
#[derive(Clone, Debug, Default)]
pub struct DotDims {
    /// Batching dimensions of both sides, pairwise of one size.
    pub batch: (Dims, Dims),
    /// Contracting dimensions of both sides, pairwise of one size.
    pub contract: (Dims, Dims),
}

/// Attributes of [`Builder::convolution`]: input `[N, C, spatial...]`, kernel
/// `[O, I / groups, spatial...]`, result `[N, O, spatial...]`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub struct Convolution {
    pub window_strides: Dims,
    pub padding: Vec<(i64, i64)>,
    pub lhs_dilation: Dims,
    pub rhs_dilation: Dims,
    pub window_reversal: bool,
    pub feature_group_count: i64,
    pub batch_group_count: i64,
    /// Which dimension is what, as `[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`.
    pub dimension_numbers: String,
}

impl Builder {
    /// `stablehlo.dot_general`; the result has `dtype`, which may be wider than the operands'
    /// (bf16 products accumulate in f32).
    pub fn dot_general(
        &mut self,
        x: Value,
        y: Value,
        dims: &DotDims,
        dtype: DType,
    ) -> Result<Value> {
        let (x, y, dims) = self.untransposed(x, y, dims);
        let (a, b) = (self.dims(x), self.dims(y));
        let agree = |l: &Dims, r: &Dims| {
            l.len() == r.len()
                && l.iter()
                    .zip(r)
                    .all(|(i, j)| a[*i as usize] == b[*j as usize])
        };
        if !agree(&dims.batch.0, &dims.batch.1) || !agree(&dims.contract.0, &dims.contract.1) {
            return Err(self.misfit("stablehlo.dot_general", x, &b));
        }
        let free = |all: &Dims, batch: &Dims, contract: &Dims| -> Vec<i64> {
            (0..all.len() as i64)
                .filter(|i| !batch.contains(i) && !contract.contains(i))
                .map(|i| all[i as usize])
                .collect()
        };
        let mut out: Dims = dims.batch.0.iter().map(|i| a[*i as usize]).collect();
        out.extend(free(&a, &dims.batch.0, &dims.contract.0));
        out.extend(free(&b, &dims.batch.1, &dims.contract.1));
        let x = self.zero_behind(x, &dims.contract.0)?;
        let y = self.zero_behind(y, &dims.contract.1)?;
        if self.settings.tpu && matches!(dtype, DType::I64 | DType::U64) {
            return self.sum_of_products(x, y, &dims, dtype, out);
        }
        let attrs = format!(
            " <{{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {:?}, \
             rhs_batching_dimensions = {:?}, lhs_contracting_dimensions = {:?}, \
             rhs_contracting_dimensions = {:?}>, {}}}>",
            dims.batch.0.as_slice(),
            dims.batch.1.as_slice(),
            dims.contract.0.as_slice(),
            dims.contract.1.as_slice(),
            self.settings.precision.attr()
        );
        Ok(self.emit(
            "stablehlo.dot_general",
            &[x, y],
            &attrs,
            Type::new(dtype, &out),
        ))
    }

    /// A product of 64-bit integers, which a TPU's compiler cannot contract: every pair of elements
    /// is multiplied and summed, which it fuses.
    fn sum_of_products(
        &mut self,
        x: Value,
        y: Value,
        dims: &DotDims,
        dtype: DType,
        out: Dims,
    ) -> Result<Value> {
        let (mut all, kept) = (out, self.rank(x) - dims.contract.0.len());
        let results = all.len();
        let inner = dims.contract.0.iter().map(|i| self.dims(x)[*i as usize]);
        all.extend(inner.collect::<Dims>());
        let sides = [
            (x, &dims.batch.0, &dims.contract.0, dims.batch.0.len()),
            (y, &dims.batch.1, &dims.contract.1, kept),
        ];
        let mut factors = Vec::with_capacity(2);
        for (side, batch, contract, mut free) in sides {
            let at = |list: &Dims, i| list.iter().position(|j| *j == i);
            let mut axes = Dims::new();
            for i in 0..self.rank(side) as i64 {
                let axis = match (at(batch, i), at(contract, i)) {
                    (Some(j), _) => j,
                    (None, Some(j)) => results + j,
                    (None, None) => {
                        free += 1;
                        free - 1
                    }
                };
                axes.push(axis as i64);
            }
            let side = self.convert(side, dtype);
            factors.push(self.broadcast_in_dim(side, &all, &axes)?);
        }
        let products = self.multiply(factors[0], factors[1])?;
        let axes: Dims = (results as i64..all.len() as i64).collect();
        self.sum(products, &axes)
    }

    /// Operands without their transposes, where the dimension numbers can say the same: XLA's CPU
    /// compiler would carry out the transpose of a matrix that is multiplied with a vector.
    fn untransposed(&self, x: Value, y: Value, dims: &DotDims) -> (Value, Value, DotDims) {
        let mut dims = dims.clone();
        let mut sides = [x, y];
        let DotDims { batch, contract } = &mut dims;
        let numbers = [
            (&mut batch.0, &mut contract.0),
            (&mut batch.1, &mut contract.1),
        ];
        for (side, (batch, contract)) in sides.iter_mut().zip(numbers) {
            let Some((of, permutation)) = self.transposed(*side) else {
                continue;
            };
            // Two free dimensions could come out in another order.
            if permutation.len() - batch.len() - contract.len() > 1 {
                continue;
            }
            *side = of;
            for d in batch.iter_mut().chain(contract.iter_mut()) {
                *d = permutation[*d as usize];
            }
        }
        (sides[0], sides[1], dims)
    }

    /// `stablehlo.convolution`; `out` is the result's shape, which the caller knows from the
    /// dimension numbers.
    pub fn convolution(
        &mut self,
        x: Value,
        kernel: Value,
        conv: &Convolution,
        out: &[i64],
        dtype: DType,
    ) -> Value {
        let pairs: Vec<String> = conv
            .padding
            .iter()
            .map(|(l, h)| format!("[{l}, {h}]"))
            .collect();
        let n = pairs.len();
        let padding = if n == 0 {
            String::new()
        } else {
            format!("[{}]", pairs.join(", "))
        };
        let reversal = vec![conv.window_reversal.to_string(); n].join(", ");
        let reversal = if n == 0 {
            "array<i1>".into()
        } else {
            format!("array<i1: {reversal}>")
        };
        let attrs = format!(
            " <{{batch_group_count = {} : i64, dimension_numbers = #stablehlo.conv<{}>, \
             feature_group_count = {} : i64, lhs_dilation = {}, \
             padding = dense<{padding}> : tensor<{n}x2xi64>, {}, rhs_dilation = {}, \
             window_reversal = {reversal}, window_strides = {}}}>",
            conv.batch_group_count,
            conv.dimension_numbers,
            conv.feature_group_count,
            array(&conv.lhs_dilation),
            self.settings.precision.attr(),
            array(&conv.rhs_dilation),
            array(&conv.window_strides)
        );
        self.emit(
            "stablehlo.convolution",
            &[x, kernel],
            &attrs,
            Type::new(dtype, out),
        )
    }
}
