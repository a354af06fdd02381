//! The operators that PyTorch's own convolutions are made of: [`convolution`] under other names.
use super::{B, backward_overrideable, convolution, ones};
use crate::{Result, error::ensure};
use tpu_hlo::{DType, Dims, Value};

/// The weight as a kernel of `kernel_size`: 2-dimensional ones have a row for each output channel.
fn kernel(b: &mut B, input: Value, weight: Value, kernel_size: &[i64]) -> Result<Value> {
    let (x, w) = (b.dims(input), b.dims(weight));
    ensure!(
        x.len() == kernel_size.len() + 2,
        "Expected {}D input tensor, but got: {:?}",
        kernel_size.len() + 2,
        x.as_slice()
    );
    if w.len() == 2 {
        let mut dims: Dims = [w[0], x[1]].as_slice().into();
        dims.extend_from_slice(kernel_size);
        return Ok(b.reshape(weight, &dims)?);
    }
    ensure!(
        w.get(2..) == Some(kernel_size),
        "weight[2:] shape {:?} must be equal to kernel_size {kernel_size:?}",
        w.get(2..).unwrap_or_default()
    );
    Ok(weight)
}

/// [`convolution`] without dilation.
pub(super) fn forward(
    b: &mut B,
    input: Value,
    weight: Value,
    kernel_size: Dims,
    bias: Option<Value>,
    stride: Dims,
    padding: Dims,
) -> Result<Value> {
    let weight = kernel(b, input, weight, &kernel_size)?;
    let dilation = ones(kernel_size.len());
    dilated(
        b,
        input,
        weight,
        kernel_size,
        bias,
        stride,
        padding,
        dilation,
    )
}

/// [`convolution`]; the batch may be missing.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn dilated(
    b: &mut B,
    input: Value,
    weight: Value,
    kernel_size: Dims,
    bias: Option<Value>,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
) -> Result<Value> {
    batched(b, input, kernel_size.len(), |b, input| {
        let weight = kernel(b, input, weight, &kernel_size)?;
        let none = kernel_size.iter().map(|_| 0).collect();
        convolution(
            b, input, weight, bias, stride, padding, dilation, false, none, 1,
        )
    })
}

/// The transposed [`convolution`]; the batch may be missing.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn transposed(
    b: &mut B,
    input: Value,
    weight: Value,
    kernel_size: Dims,
    bias: Option<Value>,
    stride: Dims,
    padding: Dims,
    output_padding: Dims,
    dilation: Dims,
) -> Result<Value> {
    batched(b, input, kernel_size.len(), |b, input| {
        let weight = kernel(b, input, weight, &kernel_size)?;
        convolution(
            b,
            input,
            weight,
            bias,
            stride,
            padding,
            dilation,
            true,
            output_padding,
            1,
        )
    })
}

/// `f` of `input` with a batch of one, where it has none.
fn batched(
    b: &mut B,
    input: Value,
    spatial: usize,
    f: impl FnOnce(&mut B, Value) -> Result<Value>,
) -> Result<Value> {
    let mut dims = b.dims(input);
    if dims.len() != spatial + 1 {
        return f(b, input);
    }
    dims.insert(0, 1);
    let input = b.reshape(input, &dims)?;
    let y = f(b, input)?;
    Ok(b.reshape(y, &b.dims(y)[1..])?)
}

/// The gradients of [`forward`] that `output_mask` asks for.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn backward(
    b: &mut B,
    grad_output: Value,
    input: Value,
    weight: Value,
    kernel_size: Dims,
    stride: Dims,
    padding: Dims,
    output_mask: Vec<bool>,
) -> Result<(Value, Value, Value)> {
    let shape = b.dims(weight);
    let weight = kernel(b, input, weight, &kernel_size)?;
    let n = kernel_size.len();
    let none = kernel_size.iter().map(|_| 0).collect();
    let (input, kernel, bias) = backward_overrideable(
        b,
        grad_output,
        input,
        weight,
        stride,
        padding,
        ones(n),
        false,
        none,
        1,
        output_mask,
    )?;
    if b.is_undefined(kernel) {
        return Ok((input, kernel, bias));
    }
    Ok((input, b.reshape(kernel, &shape)?, bias))
}

/// All gradients of [`forward`].
#[allow(clippy::too_many_arguments, reason = "the schema's")]
pub(super) fn backward_all(
    b: &mut B,
    grad_output: Value,
    input: Value,
    weight: Value,
    kernel_size: Dims,
    stride: Dims,
    padding: Dims,
    _out: DType,
) -> Result<(Value, Value, Value)> {
    let all = vec![true; 3];
    backward(
        b,
        grad_output,
        input,
        weight,
        kernel_size,
        stride,
        padding,
        all,
    )
}
