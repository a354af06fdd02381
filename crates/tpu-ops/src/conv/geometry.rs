//! What a convolution's integers mean, and PyTorch's checks of them.
use crate::{Result, error::ensure};
use tpu_hlo::Dims;

/// The parameters of a convolution, one entry per spatial dimension.
pub(super) struct Geometry {
    pub(super) stride: Dims,
    pub(super) padding: Dims,
    pub(super) dilation: Dims,
    output_padding: Dims,
    transposed: bool,
    pub(super) groups: i64,
}

/// One entry per spatial dimension, a single one standing for all.
fn per_dimension(name: &str, given: Dims, n: usize) -> Result<Dims> {
    if given.len() == 1 {
        return Ok((0..n).map(|_| given[0]).collect());
    }
    ensure!(
        given.len() == n,
        "expected {name} to be a single integer value or a list of {n} values to match the \
         convolution dimensions, but got {name}={:?}",
        given.as_slice()
    );
    Ok(given)
}

/// `5 x 7`
fn by(sizes: impl Iterator<Item = i64>) -> String {
    sizes.map(|n| n.to_string()).collect::<Vec<_>>().join(" x ")
}

impl Geometry {
    /// # Errors
    /// PyTorch's, where a parameter has the wrong length or a value that is not allowed.
    pub(super) fn new(
        weight: &[i64],
        stride: Dims,
        padding: Dims,
        dilation: Dims,
        transposed: bool,
        output_padding: Dims,
        groups: i64,
    ) -> Result<Self> {
        ensure!(
            weight.len() > 2,
            "weight should have at least three dimensions"
        );
        ensure!(groups > 0, "non-positive groups is not supported");
        let n = weight.len() - 2;
        let new = Self {
            stride: per_dimension("stride", stride, n)?,
            padding: per_dimension("padding", padding, n)?,
            dilation: per_dimension("dilation", dilation, n)?,
            output_padding: per_dimension("output_padding", output_padding, n)?,
            transposed,
            groups,
        };
        new.check_signs()?;
        Ok(new)
    }

    fn check_signs(&self) -> Result<()> {
        ensure!(
            self.padding.iter().all(|p| *p >= 0),
            "negative padding is not supported"
        );
        ensure!(
            self.output_padding.iter().all(|p| *p >= 0),
            "negative output_padding is not supported"
        );
        ensure!(
            self.stride.iter().all(|s| *s > 0),
            "non-positive stride is not supported"
        );
        ensure!(
            self.dilation.iter().all(|d| *d > 0),
            "dilation should be greater than zero, but got {:?}",
            self.dilation.as_slice()
        );
        let fits = |i: usize| {
            let most = self.stride[i].max(self.dilation[i]);
            !self.transposed || self.output_padding[i] < most
        };
        ensure!(
            (0..self.stride.len()).all(fits),
            "output padding must be smaller than either stride or dilation, but got \
             output_padding: {:?} stride: {:?} dilation: {:?}",
            self.output_padding.as_slice(),
            self.stride.as_slice(),
            self.dilation.as_slice()
        );
        Ok(())
    }

    /// # Errors
    /// PyTorch's, where the sizes of input, weight and bias do not fit together.
    pub(super) fn check(&self, input: &[i64], weight: &[i64], bias: Option<&[i64]>) -> Result<()> {
        let (n, groups) = (weight.len(), self.groups);
        ensure!(
            input.len() == n,
            "Expected {n}-dimensional input for {n}-dimensional weight {weight:?}, but got \
             {}-dimensional input of size {input:?} instead",
            input.len()
        );
        ensure!(
            weight[0] >= groups,
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but \
             got weight of size {weight:?} instead"
        );
        ensure!(
            weight[0] % groups == 0,
            "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, \
             but got weight of size [{weight:?}] instead"
        );
        let (given, channels, out) = if self.transposed {
            (
                format!("transposed={}", i32::from(self.transposed)),
                weight[0],
                weight[1] * groups,
            )
        } else {
            (format!("groups={groups}"), weight[1] * groups, weight[0])
        };
        ensure!(
            input[1] == channels,
            "Given {given}, weight of size {weight:?}, expected input{input:?} to have {channels} \
             channels, but got {} channels instead",
            input[1]
        );
        let bias_fits = bias.is_none_or(|b| b == [out]);
        let (what, bias) = (
            if self.transposed {
                given + ", "
            } else {
                String::new()
            },
            bias,
        );
        ensure!(
            bias_fits,
            "Given {what}weight of size {weight:?}, expected bias to be 1-dimensional with {out} \
             elements, but got bias of size {:?} instead",
            bias.unwrap_or_default()
        );
        self.check_window(input, weight)
    }

    fn check_window(&self, input: &[i64], weight: &[i64]) -> Result<()> {
        if self.transposed {
            return Ok(());
        }
        let padded = |i: usize| input[i + 2] + 2 * self.padding[i];
        let window = |i: usize| self.dilation[i] * (weight[i + 2] - 1) + 1;
        let all = 0..self.stride.len();
        ensure!(
            all.clone().all(|i| padded(i) >= window(i)),
            "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't \
             be greater than actual input size",
            by(all.clone().map(padded)),
            by(all.map(window))
        );
        Ok(())
    }

    /// Sizes of the result.
    pub(super) fn output(&self, input: &[i64], weight: &[i64]) -> Dims {
        let channels = if self.transposed {
            weight[1] * self.groups
        } else {
            weight[0]
        };
        let mut out: Dims = [input[0], channels].as_slice().into();
        out.extend((0..self.stride.len()).map(|i| {
            let reach = self.dilation[i] * (weight[i + 2] - 1);
            if self.transposed {
                (input[i + 2] - 1) * self.stride[i] - 2 * self.padding[i]
                    + reach
                    + self.output_padding[i]
                    + 1
            } else {
                (input[i + 2] + 2 * self.padding[i] - reach - 1) / self.stride[i] + 1
            }
        }));
        out
    }
}
