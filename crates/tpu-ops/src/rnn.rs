//! Recurrent cells: what `nn.LSTM` and `nn.GRU` call for every time step on a device that is not
//! the CPU. The rest of a recurrent layer is composed of other rows by PyTorch.
use crate::Op;
use crate::{Outs, Result, error::ensure, op::op, promote};
use tpu_hlo::{Builder, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("_thnn_fused_gru_cell",                gru_cell),
    op!("_thnn_fused_gru_cell_backward",       gru_cell_backward),
    op!("_thnn_fused_lstm_cell",               lstm_cell),
    op!("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward),
];

/// The `n` equal parts of `[batch, n * hidden]`, in the type that is computed in.
fn parts(b: &mut B, x: Value, n: i64) -> Result<Vec<Value>> {
    let dims = b.dims(x);
    ensure!(
        dims.len() == 2 && dims[1] % n == 0,
        "expected gates of shape [batch, {n} * hidden], but got {:?}",
        dims.as_slice()
    );
    let hidden = dims[1] / n;
    let x = promote::widen(b, x);
    (0..n)
        .map(|i| Ok(b.slice_dim(x, 1, i * hidden, (i + 1) * hidden)?))
        .collect()
}

/// `gates + bias`
fn biased(b: &mut B, gates: Value, bias: Option<Value>) -> Result<Value> {
    let gates = promote::widen(b, gates);
    let Some(bias) = bias else { return Ok(gates) };
    let bias = b.convert(bias, b.dtype(gates));
    let bias = b.broadcast(bias, &b.dims(gates))?;
    Ok(b.add(gates, bias)?)
}

/// `x * (1 - x)`, the slope of the logistic function by its value.
fn logistic_slope(b: &mut B, x: Value) -> Result<Value> {
    let one = b.full_like(x, 1);
    let rest = b.subtract(one, x)?;
    Ok(b.multiply(x, rest)?)
}

/// `1 - x * x`, the slope of `tanh` by its value.
fn tanh_slope(b: &mut B, x: Value) -> Result<Value> {
    let one = b.full_like(x, 1);
    let squared = b.multiply(x, x)?;
    Ok(b.subtract(one, squared)?)
}

/// The product of several values of one type.
fn product(b: &mut B, xs: &[Value]) -> Result<Value> {
    let mut out = xs[0];
    for x in &xs[1..] {
        out = b.multiply(out, *x)?;
    }
    Ok(out)
}

/// New hidden state, new cell state, and the gates after their activation (input, forget, cell,
/// output), which the gradient needs.
fn lstm_cell(
    b: &mut B,
    input_gates: Value,
    hidden_gates: Value,
    cx: Value,
    input_bias: Option<Value>,
    hidden_bias: Option<Value>,
) -> Result<(Value, Value, Value)> {
    let dtype = b.dtype(input_gates);
    let from_input = biased(b, input_gates, input_bias)?;
    let from_hidden = biased(b, hidden_gates, hidden_bias)?;
    let gates = b.add(from_input, from_hidden)?;
    let gates = parts(b, gates, 4)?;
    let (input, forget) = (b.logistic(gates[0]), b.logistic(gates[1]));
    let (cell, output) = (b.tanh(gates[2]), b.logistic(gates[3]));
    let cx = promote::widen(b, cx);
    let kept = b.multiply(forget, cx)?;
    let new = b.multiply(input, cell)?;
    let cy = b.add(kept, new)?;
    let shown = b.tanh(cy);
    let hy = b.multiply(output, shown)?;
    let workspace = b.concatenate(&[input, forget, cell, output], 1)?;
    Ok((
        b.convert(hy, dtype),
        b.convert(cy, dtype),
        b.convert(workspace, dtype),
    ))
}

/// An optional gradient like `x`.
fn or_zeros(b: &mut B, grad: Option<Value>, x: Value) -> Value {
    match grad {
        Some(grad) => promote::widen(b, grad),
        None => b.full_like(x, 0),
    }
}

/// Gradients of [`lstm_cell`] for the gates before their activation, the cell state, and either
/// bias.
fn lstm_cell_backward(
    b: &mut B,
    grad_hy: Option<Value>,
    grad_cy: Option<Value>,
    cx: Value,
    cy: Value,
    workspace: Value,
    has_bias: bool,
) -> Result<(Value, Value, Value)> {
    let dtype = b.dtype(workspace);
    let gates = parts(b, workspace, 4)?;
    let (input, forget, cell, output) = (gates[0], gates[1], gates[2], gates[3]);
    let (cx, cy) = (promote::widen(b, cx), promote::widen(b, cy));
    let (grad_hy, grad_cy) = (or_zeros(b, grad_hy, cy), or_zeros(b, grad_cy, cy));
    let shown = b.tanh(cy);
    let slope = tanh_slope(b, shown)?;
    let through = product(b, &[grad_hy, output, slope])?;
    let grad = b.add(through, grad_cy)?;
    let slope = logistic_slope(b, input)?;
    let grad_input = product(b, &[grad, cell, slope])?;
    let slope = logistic_slope(b, forget)?;
    let grad_forget = product(b, &[grad, cx, slope])?;
    let slope = tanh_slope(b, cell)?;
    let grad_cell = product(b, &[grad, input, slope])?;
    let slope = logistic_slope(b, output)?;
    let grad_output = product(b, &[grad_hy, shown, slope])?;
    let grad_gates = b.concatenate(&[grad_input, grad_forget, grad_cell, grad_output], 1)?;
    let grad_cx = b.multiply(grad, forget)?;
    let grad_bias = bias_gradient(b, grad_gates, has_bias)?;
    let narrow = |b: &mut B, v| b.convert(v, dtype);
    let grad_bias = if has_bias {
        narrow(b, grad_bias)
    } else {
        grad_bias
    };
    Ok((narrow(b, grad_gates), narrow(b, grad_cx), grad_bias))
}

/// The sum over the batch; undefined without bias.
fn bias_gradient(b: &mut B, grad_gates: Value, has_bias: bool) -> Result<Value> {
    if has_bias {
        Ok(b.sum(grad_gates, &[0])?)
    } else {
        Ok(b.undefined())
    }
}

/// New hidden state, and what the gradient needs: reset, update and new gate after their
/// activation, the old state, and the hidden part of the new gate.
fn gru_cell(
    b: &mut B,
    input_gates: Value,
    hidden_gates: Value,
    hx: Value,
    input_bias: Option<Value>,
    hidden_bias: Option<Value>,
) -> Result<(Value, Value)> {
    let dtype = b.dtype(input_gates);
    let from_input = biased(b, input_gates, input_bias)?;
    let from_hidden = biased(b, hidden_gates, hidden_bias)?;
    let (x, h) = (parts(b, from_input, 3)?, parts(b, from_hidden, 3)?);
    let reset = b.add(x[0], h[0])?;
    let reset = b.logistic(reset);
    let update = b.add(x[1], h[1])?;
    let update = b.logistic(update);
    let recalled = b.multiply(reset, h[2])?;
    let new = b.add(x[2], recalled)?;
    let new = b.tanh(new);
    let hx = promote::widen(b, hx);
    let away = b.subtract(hx, new)?;
    let kept = b.multiply(update, away)?;
    let hy = b.add(new, kept)?;
    let workspace = b.concatenate(&[reset, update, new, hx, h[2]], 1)?;
    Ok((b.convert(hy, dtype), b.convert(workspace, dtype)))
}

/// Gradients of [`gru_cell`] for the gates from the input and from the hidden state, the hidden
/// state, and the two biases.
fn gru_cell_backward(b: &mut B, grad_hy: Value, workspace: Value, has_bias: bool) -> Result<Outs> {
    let dtype = b.dtype(workspace);
    let saved = parts(b, workspace, 5)?;
    let (reset, update, new, hx, hidden) = (saved[0], saved[1], saved[2], saved[3], saved[4]);
    let grad = promote::widen(b, grad_hy);
    let away = b.subtract(hx, new)?;
    let slope = logistic_slope(b, update)?;
    let grad_update = product(b, &[grad, away, slope])?;
    let grad_hx = b.multiply(grad, update)?;
    let one = b.full_like(update, 1);
    let share = b.subtract(one, update)?;
    let slope = tanh_slope(b, new)?;
    let grad_new = product(b, &[grad, share, slope])?;
    let grad_hidden = b.multiply(grad_new, reset)?;
    let slope = logistic_slope(b, reset)?;
    let grad_reset = product(b, &[grad_new, hidden, slope])?;
    let to_input = b.concatenate(&[grad_reset, grad_update, grad_new], 1)?;
    let to_hidden = b.concatenate(&[grad_reset, grad_update, grad_hidden], 1)?;
    let mut outs = Outs::new();
    for grad in [to_input, to_hidden, grad_hx] {
        outs.push(b.convert(grad, dtype));
    }
    for grad in [to_input, to_hidden] {
        let sum = bias_gradient(b, grad, has_bias)?;
        outs.push(if has_bias { b.convert(sum, dtype) } else { sum });
    }
    Ok(outs)
}

#[cfg(test)]
mod tests {
    use crate::Arg;
    use crate::golden::{
        Given::{A, T},
        line,
    };
    use expect_test::expect;
    use tpu_hlo::{DType::*, Number};

    #[test]
    fn rows() {
        let (x, gates, bias) = (|| T(BF16, &[2, 3]), |n| T(BF16, n), || T(BF16, &[12]));
        let flag = |b| A(Arg::Number(Number::Bool(b)));
        let four: &[i64] = &[2, 12];
        let three: &[i64] = &[2, 9];
        let lines = [
            line(
                "_thnn_fused_lstm_cell",
                &[gates(four), gates(four), x(), bias(), bias()],
            ),
            line(
                "_thnn_fused_lstm_cell_backward_impl",
                &[x(), A(Arg::None), x(), x(), gates(four), flag(true)],
            ),
            line("_thnn_fused_gru_cell", &[gates(three), gates(three), x()]),
            line(
                "_thnn_fused_gru_cell_backward",
                &[x(), T(BF16, &[2, 15]), flag(false)],
            ),
            line(
                "_thnn_fused_gru_cell_backward",
                &[x(), T(BF16, &[2, 15]), flag(true)],
            ),
            line("_thnn_fused_lstm_cell", &[gates(three), gates(three), x()]),
        ];
        expect![[r#"
            _thnn_fused_lstm_cell: convert convert broadcast_in_dim add convert convert broadcast_in_dim add add slice slice slice slice logistic logistic tanh logistic convert multiply multiply add tanh multiply concatenate convert convert convert -> tensor<2x3xbf16> tensor<2x3xbf16> tensor<2x12xbf16>
            _thnn_fused_lstm_cell_backward_impl: convert slice slice slice slice convert convert convert tanh multiply subtract multiply multiply add subtract multiply multiply multiply subtract multiply multiply multiply multiply subtract multiply multiply subtract multiply multiply multiply concatenate multiply reduce add convert convert convert -> tensor<2x12xbf16> tensor<2x3xbf16> tensor<12xbf16>
            _thnn_fused_gru_cell: convert convert slice slice slice slice slice slice add logistic add logistic multiply add tanh convert subtract multiply add concatenate convert convert -> tensor<2x3xbf16> tensor<2x15xbf16>
            _thnn_fused_gru_cell_backward: convert slice slice slice slice slice convert subtract subtract multiply multiply multiply multiply subtract multiply subtract multiply multiply multiply subtract multiply multiply multiply concatenate concatenate convert convert convert -> tensor<2x9xbf16> tensor<2x9xbf16> tensor<2x3xbf16> tensor<0xi1> tensor<0xi1>
            _thnn_fused_gru_cell_backward: convert slice slice slice slice slice convert subtract subtract multiply multiply multiply multiply subtract multiply subtract multiply multiply multiply subtract multiply multiply multiply concatenate concatenate convert convert convert reduce add convert reduce add convert -> tensor<2x9xbf16> tensor<2x9xbf16> tensor<2x3xbf16> tensor<9xbf16> tensor<9xbf16>
            _thnn_fused_lstm_cell: Runtime: expected gates of shape [batch, 4 * hidden], but got [2, 9]
        "#]].assert_eq(&lines.concat());
    }
}
