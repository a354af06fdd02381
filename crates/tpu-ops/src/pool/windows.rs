//! The windows of a pooling op, and PyTorch's checks of its parameters.
use crate::{Result, error::ensure};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

/// Windows over the trailing dimensions of a tensor, one entry per dimension.
pub(super) struct Windows {
    /// Leading dimensions: batch, if there is one, and channels.
    pub(super) lead: Dims,
    pub(super) input: Dims,
    pub(super) kernel: Dims,
    pub(super) stride: Dims,
    pub(super) padding: Dims,
    pub(super) dilation: Dims,
    /// How many windows there are.
    pub(super) out: Dims,
}

/// How many windows fit.
fn count(input: i64, kernel: i64, stride: i64, padding: i64, dilation: i64, ceil: bool) -> i64 {
    let room =
        input + 2 * padding - dilation * (kernel - 1) - 1 + if ceil { stride - 1 } else { 0 };
    let out = room.div_euclid(stride) + 1;
    // The last window has to start inside the input or its left padding.
    if ceil && (out - 1) * stride >= input + padding {
        out - 1
    } else {
        out
    }
}

/// `3x5x5`
fn by(sizes: &[i64]) -> String {
    sizes
        .iter()
        .map(i64::to_string)
        .collect::<Vec<_>>()
        .join("x")
}

fn per_dimension<const N: usize>(op: &str, name: &str, given: &Dims) -> Result<Dims> {
    let tuple = ["", "one int", "two ints", "three ints"][N];
    let omitted = if name == "stride" { "omitted, " } else { "" };
    ensure!(
        given.len() == 1 || given.len() == N,
        "{op}: {name} must either be {omitted}a single int, or a tuple of {tuple}"
    );
    Ok((0..N)
        .map(|i| given[if given.len() == 1 { 0 } else { i }])
        .collect())
}

impl Windows {
    /// Windows over the last `N` dimensions of `x`; an empty stride means the kernel's size.
    ///
    /// # Errors
    /// PyTorch's, for parameters and sizes that make no windows.
    pub(super) fn new<const N: usize>(
        b: &B,
        op: &str,
        x: Value,
        parameters: [Dims; 4],
        ceil: bool,
    ) -> Result<Self> {
        let [kernel, stride, padding, dilation] = parameters;
        let kernel = per_dimension::<N>(op, "kernel_size", &kernel)?;
        let stride = if stride.is_empty() {
            kernel.clone()
        } else {
            per_dimension::<N>(op, "stride", &stride)?
        };
        let padding = per_dimension::<N>(op, "padding", &padding)?;
        let dilation = per_dimension::<N>(op, "dilation", &dilation)?;
        check_values(&kernel, &stride, &padding, &dilation)?;
        if N == 3 {
            not_empty(b, op, x)?;
        }
        let (lead, input) = split::<N>(b, x)?;
        let out: Dims = (0..N)
            .map(|i| {
                count(
                    input[i],
                    kernel[i],
                    stride[i],
                    padding[i],
                    dilation[i],
                    ceil,
                )
            })
            .collect();
        let channels = lead.last().copied().unwrap_or(1);
        ensure!(
            out.iter().all(|n| *n >= 1),
            "Given input size: ({channels}x{}). Calculated output size: ({channels}x{}). Output \
             size is too small",
            by(&input),
            by(&out)
        );
        Ok(Self {
            lead,
            input,
            kernel,
            stride,
            padding,
            dilation,
            out,
        })
    }

    /// The windows of a backward pass, whose gradient must have the forward's sizes.
    pub(super) fn backward<const N: usize>(
        b: &B,
        op: &str,
        (grad, x): (Value, Value),
        parameters: [Dims; 4],
        ceil: bool,
    ) -> Result<Self> {
        let windows = Self::new::<N>(b, op, x, parameters, ceil)?;
        let (got, want) = (b.dims(grad), windows.outer(&windows.out));
        ensure!(
            got == want,
            "{op}_backward: expected grad_output of size {:?}, but got {:?}",
            want.as_slice(),
            got.as_slice()
        );
        Ok(windows)
    }

    /// The leading dimensions as one, then `spatial`.
    pub(super) fn flat(&self, spatial: &[i64]) -> Dims {
        let mut dims: Dims = [self.lead.iter().product()].as_slice().into();
        dims.extend_from_slice(spatial);
        dims
    }

    /// The leading dimensions, then `spatial`.
    pub(super) fn outer(&self, spatial: &[i64]) -> Dims {
        let mut dims = self.lead.clone();
        dims.extend_from_slice(spatial);
        dims
    }

    /// Where window `o` of dimension `i` starts; before 0 it is in the padding.
    pub(super) fn start(&self, i: usize, o: i64) -> i64 {
        o * self.stride[i] - self.padding[i]
    }
}

fn check_values(kernel: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64]) -> Result<()> {
    ensure!(
        kernel.iter().all(|k| *k > 0),
        "kernel size should be greater than zero, but got {kernel:?}"
    );
    ensure!(stride.iter().all(|s| *s != 0), "stride should not be zero");
    ensure!(
        stride.iter().all(|s| *s > 0),
        "stride should be greater than zero, but got {stride:?}"
    );
    ensure!(
        dilation.iter().all(|d| *d > 0),
        "dilation should be greater than zero, but got {dilation:?}"
    );
    for (i, pad) in padding.iter().enumerate() {
        ensure!(*pad >= 0, "pad must be non-negative, but got pad: {pad}");
        let (kernel, dilation) = (kernel[i], dilation[i]);
        ensure!(
            *pad <= ((kernel - 1) * dilation + 1) / 2,
            "pad should be at most half of effective kernel size, but got pad={pad}, \
             kernel_size={kernel} and dilation={dilation}"
        );
    }
    Ok(())
}

/// What volumes say of an empty dimension that is not the batch; of another rank, [`split`] does.
fn not_empty(b: &B, op: &str, x: Value) -> Result<()> {
    let dims = b.dims(x);
    if !matches!(dims.len(), 4 | 5) {
        return Ok(());
    }
    let op = match op {
        "max_pool3d" => "max_pool3d_with_indices_out_cpu_template",
        other => other,
    };
    ensure!(
        !dims[dims.len() - 4..].contains(&0),
        "{op}(): Expected input's non-batch dimensions to have positive length, but input has a \
         shape of {:?} and non-batch dimension 0 has length zero!",
        dims.as_slice()
    );
    Ok(())
}

/// Leading dimensions and the last `N`.
///
/// # Errors
/// Unless there are one or two leading dimensions and only the first of two is empty.
pub(super) fn split<const N: usize>(b: &B, x: Value) -> Result<(Dims, Dims)> {
    let dims = b.dims(x);
    let rank = dims.len();
    let (few, many) = (N + 1, N + 2);
    ensure!(
        rank == few || rank == many,
        "non-empty {few}D or {many}D (batch mode) tensor expected for input"
    );
    let batch = rank - few;
    ensure!(
        dims[batch..].iter().all(|n| *n > 0),
        "Expected {few}D or {many}D (batch mode) tensor with optional 0 dim batch size for input, \
         but got:{:?}",
        dims.as_slice()
    );
    Ok((dims[..=batch].into(), dims[batch + 1..].into()))
}

/// # Errors
/// For a `Bool` tensor.
pub(super) fn not_bool(b: &B, x: Value, op: &str) -> Result<()> {
    ensure!(
        b.dtype(x) != DType::Bool,
        NotImplemented,
        "\"{op}\" not implemented for 'Bool'"
    );
    Ok(())
}
