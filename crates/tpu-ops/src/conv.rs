//! Convolutions and their gradients, of one to three spatial dimensions (and any other number).
//! Half-width floats accumulate in float32 and are rounded once.
mod geometry;
mod slow;

use crate::{Op, Result, error::ensure, op::op, promote};
use geometry::Geometry;
use tpu_hlo::{Builder, Convolution, DType, Dims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_slow_conv2d_backward.grad_input",    slow::backward_all),
    op!("_slow_conv2d_backward.output_mask",   slow::backward),
    op!("_slow_conv2d_forward",                slow::forward),
    op!("conv_tbc",                            conv_tbc),
    op!("convolution",                         convolution).keeps_format(),
    op!("convolution_backward",                convolution_backward).keeps_format(),
    op!("convolution_backward_overrideable",   backward_overrideable).keeps_format(),
    op!("convolution_overrideable",            convolution).keeps_format(),
    op!("slow_conv3d_forward",                 slow::forward),
    op!("slow_conv_dilated2d",                 slow::dilated),
    op!("slow_conv_dilated3d",                 slow::dilated),
    op!("slow_conv_transpose2d",               slow::transposed),
    op!("slow_conv_transpose3d",               slow::transposed),
];

/// Letters for what the dimensions of input, kernel and result are: `first` and `second`, then
/// the spatial ones.
fn numbers(spatial: usize, letters: [[&str; 2]; 3]) -> String {
    let side = |[first, second]: [&str; 2]| {
        let all = [first.to_owned(), second.to_owned()].into_iter();
        let all: Vec<String> = all.chain((0..spatial).map(|i| i.to_string())).collect();
        format!("[{}]", all.join(", "))
    };
    let [input, kernel, result] = letters.map(side);
    format!("{input}x{kernel}->{result}")
}

fn ones(n: usize) -> Dims {
    (0..n).map(|_| 1).collect()
}

/// A convolution in the accumulation type; zeros when there is nothing to add up.
fn emit(b: &mut B, x: Value, kernel: Value, conv: &Convolution, out: &[i64]) -> Result<Value> {
    let dtype = promote::opmath(b.dtype(x));
    ensure!(
        !(b.settings.tpu && dtype == DType::I64),
        NotImplemented,
        "a TPU's compiler convolves no 64-bit integers"
    );
    if b.ty(x).numel() == 0 || b.ty(kernel).numel() == 0 || out.contains(&0) {
        return Ok(b.full(0, dtype, out));
    }
    Ok(b.convolution(x, kernel, conv, out, dtype))
}

/// The kernel slides over the input.
fn slide(b: &mut B, x: Value, kernel: Value, geometry: &Geometry, out: &[i64]) -> Result<Value> {
    let n = geometry.stride.len();
    let (from, window) = (b.dims(x), b.dims(kernel));
    let padding = (0..n).map(|i| {
        let low = geometry.padding[i];
        let reach = geometry.dilation[i] * (window[i + 2] - 1) + 1;
        let needed = (out[i + 2] - 1) * geometry.stride[i] + reach - from[i + 2] - low;
        // Elements that no window reaches do no harm, unless they make room for another window.
        let spare = low - needed;
        (
            low,
            if (0..geometry.stride[i]).contains(&spare) {
                low
            } else {
                needed
            },
        )
    });
    let padding = padding.collect();
    let conv = Convolution {
        window_strides: geometry.stride.clone(),
        padding,
        lhs_dilation: ones(n),
        rhs_dilation: geometry.dilation.clone(),
        window_reversal: false,
        feature_group_count: geometry.groups,
        batch_group_count: 1,
        dimension_numbers: numbers(n, [["b", "f"], ["o", "i"], ["b", "f"]]),
    };
    emit(b, x, kernel, &conv, out)
}

/// The transpose of [`slide`]: every element of the input spreads the kernel over the result. It
/// is a convolution of the input, its elements `stride` apart, with the kernel turned round.
fn spread(b: &mut B, x: Value, kernel: Value, geometry: &Geometry, out: &[i64]) -> Result<Value> {
    let n = geometry.stride.len();
    let (from, window) = (b.dims(x), b.dims(kernel));
    let padding = (0..n).map(|i| {
        let reach = geometry.dilation[i] * (window[i + 2] - 1);
        let low = reach - geometry.padding[i];
        let spaced = (from[i + 2] - 1) * geometry.stride[i] + 1;
        (low, out[i + 2] + reach - spaced - low)
    });
    let padding = padding.collect();
    let axes: Dims = (2..n as i64 + 2).collect();
    let kernel = swap_features(b, kernel, geometry.groups)?;
    let kernel = b.reverse(kernel, &axes);
    let conv = Convolution {
        window_strides: ones(n),
        padding,
        lhs_dilation: geometry.stride.clone(),
        rhs_dilation: geometry.dilation.clone(),
        window_reversal: false,
        feature_group_count: geometry.groups,
        batch_group_count: 1,
        dimension_numbers: numbers(n, [["b", "f"], ["o", "i"], ["b", "f"]]),
    };
    emit(b, x, kernel, &conv, out)
}

/// `[groups * a, c, ...]` as `[groups * c, a, ...]`: what went out of a group's kernels goes in.
fn swap_features(b: &mut B, kernel: Value, groups: i64) -> Result<Value> {
    let dims = b.dims(kernel);
    let (a, c) = (dims[0] / groups, dims[1]);
    let mut split: Dims = [groups, a, c].as_slice().into();
    split.extend_from_slice(&dims[2..]);
    let mut order: Dims = (0..split.len() as i64).collect();
    order.swap(1, 2);
    let kernel = b.reshape(kernel, &split)?;
    let kernel = b.transpose(kernel, &order)?;
    let mut joined: Dims = [groups * c, a].as_slice().into();
    joined.extend_from_slice(&dims[2..]);
    Ok(b.reshape(kernel, &joined)?)
}

/// The gradient of [`slide`] for the kernel: the input is convolved with the gradient, batch and
/// features in each other's place, and groups of features become groups of the batch.
fn kernel_gradient(
    b: &mut B,
    x: Value,
    grad: Value,
    geometry: &Geometry,
    out: &[i64],
) -> Result<Value> {
    let n = geometry.stride.len();
    let (from, window) = (b.dims(x), b.dims(grad));
    let padding = (0..n).map(|i| {
        let reach = (window[i + 2] - 1) * geometry.stride[i] + 1;
        let wanted = (out[i + 2] - 1) * geometry.dilation[i] + reach;
        (
            geometry.padding[i],
            wanted - from[i + 2] - geometry.padding[i],
        )
    });
    let conv = Convolution {
        window_strides: geometry.dilation.clone(),
        padding: padding.collect(),
        lhs_dilation: ones(n),
        rhs_dilation: geometry.stride.clone(),
        window_reversal: false,
        feature_group_count: 1,
        batch_group_count: geometry.groups,
        dimension_numbers: numbers(n, [["f", "b"], ["i", "o"], ["f", "b"]]),
    };
    emit(b, x, grad, &conv, out)
}

/// `x + bias`, the bias being one number per channel.
fn add_bias(b: &mut B, x: Value, bias: Option<Value>) -> Result<Value> {
    let Some(bias) = bias else { return Ok(x) };
    let bias = b.convert(bias, b.dtype(x));
    let bias = b.broadcast_in_dim(bias, &b.dims(x), &[1])?;
    Ok(b.add(x, bias)?)
}

fn same_dtype(b: &B, x: Value, kernel: Value) -> Result<()> {
    let (t, other) = (b.dtype(x), b.dtype(kernel));
    ensure!(
        t == other,
        "expected scalar type {} but found {}",
        t.torch(),
        other.torch()
    );
    ensure!(
        t != DType::Bool,
        NotImplemented,
        "\"convolution\" not implemented for 'Bool'"
    );
    Ok(())
}

/// Input `[N, C, ...]`, weight `[O, C / groups, ...]` or, transposed, `[C, O / groups, ...]`, bias
/// `[O]`; result `[N, O, ...]`.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
fn convolution(
    b: &mut B,
    input: Value,
    weight: Value,
    bias: Option<Value>,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    transposed: bool,
    output_padding: Dims,
    groups: i64,
) -> Result<Value> {
    let (x, w) = (b.dims(input), b.dims(weight));
    let bias_dims = bias.map(|v| b.dims(v));
    let geometry = Geometry::new(
        &w,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )?;
    geometry.check(&x, &w, bias_dims.as_deref())?;
    same_dtype(b, input, weight)?;
    let dims = geometry.output(&x, &w);
    let out = if transposed {
        spread(b, input, weight, &geometry, &dims)?
    } else {
        slide(b, input, weight, &geometry, &dims)?
    };
    let out = add_bias(b, out, bias)?;
    Ok(b.convert(out, b.dtype(input)))
}

/// Gradients of [`convolution`] for input, weight and bias.
#[allow(clippy::too_many_arguments, reason = "the schema's")]
fn convolution_backward(
    b: &mut B,
    grad_output: Value,
    input: Value,
    weight: Value,
    _bias_sizes: Option<Dims>,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    transposed: bool,
    output_padding: Dims,
    groups: i64,
    output_mask: Vec<bool>,
) -> Result<(Value, Value, Value)> {
    backward_overrideable(
        b,
        grad_output,
        input,
        weight,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    )
}

/// As [`convolution_backward`].
#[allow(clippy::too_many_arguments, reason = "the schema's")]
fn backward_overrideable(
    b: &mut B,
    grad_output: Value,
    input: Value,
    weight: Value,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    transposed: bool,
    output_padding: Dims,
    groups: i64,
    output_mask: Vec<bool>,
) -> Result<(Value, Value, Value)> {
    let (x, w) = (b.dims(input), b.dims(weight));
    let geometry = Geometry::new(
        &w,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )?;
    geometry.check(&x, &w, None)?;
    same_dtype(b, input, weight)?;
    let dtype = b.dtype(input);
    let grad_input = if !output_mask[0] {
        b.undefined()
    } else if transposed {
        slide(b, grad_output, weight, &geometry, &x)?
    } else {
        spread(b, grad_output, weight, &geometry, &x)?
    };
    let grad_weight = if !output_mask[1] {
        b.undefined()
    } else if transposed {
        kernel_gradient(b, grad_output, input, &geometry, &w)?
    } else {
        kernel_gradient(b, input, grad_output, &geometry, &w)?
    };
    let grad_bias = if output_mask[2] {
        channel_sums(b, grad_output)?
    } else {
        b.undefined()
    };
    let narrow = |b: &mut B, v| {
        if b.is_undefined(v) {
            v
        } else {
            b.convert(v, dtype)
        }
    };
    Ok((
        narrow(b, grad_input),
        narrow(b, grad_weight),
        narrow(b, grad_bias),
    ))
}

/// Sums over all dimensions but the channels', accumulated in float32 for half-width floats.
fn channel_sums(b: &mut B, x: Value) -> Result<Value> {
    let axes: Dims = (0..b.rank(x) as i64).filter(|i| *i != 1).collect();
    let x = promote::widen(b, x);
    Ok(b.sum(x, &axes)?)
}

/// Input `[time, N, C]`, weight `[width, C, O]`, bias `[O]`; `pad` zeros on both ends of time.
fn conv_tbc(b: &mut B, input: Value, weight: Value, bias: Value, pad: i64) -> Result<Value> {
    let (x, w, v) = (b.dims(input), b.dims(weight), b.dims(bias));
    ensure!(
        x.len() == 3,
        "Input must have 3 dims: time, batch, in_channel"
    );
    ensure!(
        w.len() == 3,
        "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
    );
    ensure!(v.len() == 1, "Bias must be 1-D");
    ensure!(
        x[2] == w[1],
        "Input dim 2 (input channels) is not == dim 1 in the weight tensor"
    );
    ensure!(
        w[2] == v[0],
        "Bias size must equal dim 2 in the weight tensor (output channels)."
    );
    same_dtype(b, input, weight)?;
    let time = x[0] + 2 * pad - w[0] + 1;
    ensure!(time > 0, "conv_tbc: the input is shorter than the kernel");
    let conv = Convolution {
        window_strides: ones(1),
        padding: vec![(pad, pad)],
        lhs_dilation: ones(1),
        rhs_dilation: ones(1),
        window_reversal: false,
        feature_group_count: 1,
        batch_group_count: 1,
        dimension_numbers: "[0, b, f]x[0, i, o]->[0, b, f]".into(),
    };
    let dims = [time, x[1], w[2]];
    let out = emit(b, input, weight, &conv, &dims)?;
    let bias = b.convert(bias, b.dtype(out));
    let bias = b.broadcast(bias, &dims)?;
    let out = b.add(out, bias)?;
    Ok(b.convert(out, b.dtype(input)))
}

#[cfg(test)]
mod tests;
