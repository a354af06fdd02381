//! Fake quantization: values rounded to what an integer type could hold, in floats.
mod observe;

use crate::{
    Op, Outs, Result, Scalar, check,
    error::ensure,
    formula::{X, formulas},
    op::{op, pointwise},
    pointwise::implemented,
    promote::{cast, opmath},
};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    pointwise!("_fake_quantize_learnable_per_channel_affine", learnable_channels),
    pointwise!("_fake_quantize_learnable_per_channel_affine_backward", learnable_channels_backward),
    op!("_fake_quantize_learnable_per_tensor_affine", learnable).follows_inputs(),
    pointwise!("_fake_quantize_learnable_per_tensor_affine_backward", learnable_backward),
    pointwise!("_fused_moving_avg_obs_fq_helper_functional", observe::moving_average),
    pointwise!("fake_quantize_per_channel_affine_cachemask", channels),
    op!("fake_quantize_per_tensor_affine_cachemask", tensor).follows_inputs(),
    pointwise!("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", tensor_parameters),
];

/// A grid of integers `low..=high`, and the operands that say where it lies, all of one shape
/// and in the opmath type.
struct Grid {
    x: Value,
    scale: Value,
    zero_point: Value,
    low: f64,
    high: f64,
    /// Whether the zero point is itself off the integers.
    fractional: bool,
    dtype: DType,
}

impl Grid {
    /// `axis` is the dimension that `scale` and `zero_point` run along; they are single numbers
    /// without one.
    fn new(
        b: &mut B,
        [x, scale, zero_point]: [Value; 3],
        axis: Option<i64>,
        low: i64,
        high: i64,
    ) -> Result<Self> {
        let dtype = b.dtype(x);
        implemented(dtype.is_float(), "fake_quantize", dtype)?;
        ensure!(
            low <= high,
            "`quant_min` should be less than or equal to `quant_max`."
        );
        let wide = opmath(dtype);
        let dims = b.dims(x);
        let fractional = b.dtype(zero_point).is_float();
        let place = |b: &mut B, v| {
            let v = cast(b, v, wide);
            let Some(axis) = axis else {
                let v = b.reshape(v, &[])?;
                return Ok(b.broadcast(v, &dims)?);
            };
            let axis = check::dim(axis, dims.len())?;
            ensure!(
                b.dims(v).as_slice() == [dims[axis as usize]],
                "dimensions of scale and zero-point are not consistent with input tensor"
            );
            Ok(b.broadcast_in_dim(v, &dims, &[axis])?)
        };
        let (scale, zero_point) = (place(b, scale)?, place(b, zero_point)?);
        let x = cast(b, x, wide);
        Ok(Self {
            x,
            scale,
            zero_point,
            low: low as f64,
            high: high as f64,
            fractional,
            dtype,
        })
    }

    /// With the zero point rounded into the grid, as the learnable ones are.
    fn rounded(mut self, b: &mut B) -> Result<Self> {
        [self.zero_point] = formulas(b, [self.zero_point], |[z]| {
            [z.round().maximum(self.low).minimum(self.high)]
        })?;
        Ok(self)
    }

    fn values(&self) -> [Value; 3] {
        [self.x, self.scale, self.zero_point]
    }

    /// The nearest point of the infinite grid; NaN goes below.
    fn point<'s>(&self, x: X<'s>, scale: X<'s>, zero_point: X<'s>) -> X<'s> {
        let steps = x * (1.0 / scale);
        let point = if self.fractional {
            (steps + zero_point).round()
        } else {
            steps.round() + zero_point
        };
        x.is_nan().pick(x.full(f64::NEG_INFINITY), point)
    }

    /// The value of the nearest point, and whether that was within the grid.
    fn quantize(&self, b: &mut B) -> Result<(Value, Value)> {
        let [y, inside] = formulas(b, self.values(), |[x, scale, zero]| {
            let point = self.point(x, scale, zero);
            let held = point.maximum(self.low).minimum(self.high);
            [
                (held - zero) * scale,
                point.ge(self.low).and(point.le(self.high)),
            ]
        })?;
        Ok((cast(b, y, self.dtype), inside))
    }

    /// Gradients of the input, and of scale and zero point for each element.
    fn gradients(&self, b: &mut B, grad: Value, factor: Scalar) -> Result<[Value; 3]> {
        let grad = cast(b, grad, opmath(self.dtype));
        let factor = cast(b, factor.0, opmath(self.dtype));
        let [x, scale, zero] = self.values();
        formulas(
            b,
            [x, scale, zero, grad, factor],
            |[x, scale, zero, grad, factor]| {
                let point = self.point(x, scale, zero);
                let (below, above) = (point.lt(self.low), point.gt(self.high));
                let outside = below.or(above);
                let value = (point - zero) * scale;
                let inner = (value - x) / scale;
                let edge = below.pick(self.low - zero, self.high - zero);
                let none = grad.full(0.0);
                [
                    outside.pick(none, grad),
                    grad * outside.pick(edge, inner) * factor,
                    outside.pick(-grad * scale * factor, none),
                ]
            },
        )
    }
}

/// Quantized to `scale · (n - zero_point)`, and where that was within the grid.
fn tensor(
    b: &mut B,
    x: Value,
    scale: Scalar,
    zero_point: Scalar,
    low: i64,
    high: i64,
) -> Result<(Value, Value)> {
    Grid::new(b, [x, scale.0, zero_point.0], None, low, high)?.quantize(b)
}

/// [`tensor`], or nothing done where `enabled` is 0.
fn tensor_parameters(
    b: &mut B,
    x: Value,
    scale: Value,
    zero_point: Value,
    enabled: Value,
    low: i64,
    high: i64,
) -> Result<(Value, Value)> {
    let (y, mask) = Grid::new(b, [x, scale, zero_point], None, low, high)?.quantize(b)?;
    let on = cast(b, enabled, DType::Bool);
    let on = b.reshape(on, &[])?;
    let all = b.full_like(mask, true);
    Ok((b.select(on, y, x)?, b.select(on, mask, all)?))
}

fn channels(
    b: &mut B,
    x: Value,
    scale: Value,
    zero_point: Value,
    axis: i64,
    low: i64,
    high: i64,
) -> Result<(Value, Value)> {
    Grid::new(b, [x, scale, zero_point], Some(axis), low, high)?.quantize(b)
}

/// The gradients of scale and zero point come from the derivatives alone: forward is [`tensor`].
fn learnable(
    b: &mut B,
    x: Value,
    scale: Value,
    zero_point: Value,
    low: i64,
    high: i64,
    _grad_factor: Scalar,
) -> Result<Value> {
    let grid = Grid::new(b, [x, scale, zero_point], None, low, high)?.rounded(b)?;
    Ok(grid.quantize(b)?.0)
}

fn learnable_channels(
    b: &mut B,
    x: Value,
    scale: Value,
    zero_point: Value,
    axis: i64,
    low: i64,
    high: i64,
    _grad_factor: Scalar,
) -> Result<Value> {
    let grid = Grid::new(b, [x, scale, zero_point], Some(axis), low, high)?.rounded(b)?;
    Ok(grid.quantize(b)?.0)
}

fn learnable_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    scale: Value,
    zero_point: Value,
    low: i64,
    high: i64,
    grad_factor: Scalar,
) -> Result<Outs> {
    let grid = Grid::new(b, [x, scale, zero_point], None, low, high)?.rounded(b)?;
    let gradients = grid.gradients(b, grad, grad_factor)?;
    let axes: Dims = (0..b.rank(x) as i64).collect();
    folded(b, gradients, &axes, [x, scale, zero_point], Some(&[1]))
}

fn learnable_channels_backward(
    b: &mut B,
    grad: Value,
    x: Value,
    scale: Value,
    zero_point: Value,
    axis: i64,
    low: i64,
    high: i64,
    grad_factor: Scalar,
) -> Result<Outs> {
    let grid = Grid::new(b, [x, scale, zero_point], Some(axis), low, high)?.rounded(b)?;
    let gradients = grid.gradients(b, grad, grad_factor)?;
    let axis = check::dim(axis, b.rank(x))?;
    let axes: Dims = (0..b.rank(x) as i64).filter(|i| *i != axis).collect();
    folded(b, gradients, &axes, [x, scale, zero_point], None)
}

/// The first gradient as it is, the others summed over `axes`; each in its operand's dtype.
fn folded(
    b: &mut B,
    gradients: [Value; 3],
    axes: &[i64],
    operands: [Value; 3],
    shape: Option<&[i64]>,
) -> Result<Outs> {
    let mut outs = Outs::new();
    for (i, (gradient, operand)) in gradients.into_iter().zip(operands).enumerate() {
        let mut y = gradient;
        if i > 0 {
            y = b.sum(y, axes)?;
            y = b.reshape(y, shape.unwrap_or(&b.dims(y)))?;
        }
        outs.push(cast(b, y, b.dtype(operand)));
    }
    Ok(outs)
}

#[cfg(test)]
mod tests;
