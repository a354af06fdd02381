//! Choosing: permutations and categories.
use super::{bits, open_uniform};
use crate::{
    Error, Generator, Result, check,
    error::ensure,
    formula::{formula, formulas},
    promote::{cast, opmath},
};
use smallvec::smallvec;
use tpu_hlo::{Builder, DType, Dims, Direction, GatherDims, Value};

type B = Builder;

/// Numbers `0..n` in random order, of the dtype of `out`
pub(super) fn randperm(b: &mut B, n: i64, _: Generator, dtype: Option<DType>) -> Result<Value> {
    let dtype = dtype.unwrap_or(DType::I64);
    ensure!(n >= 0, "n must be non-negative, got{n}");
    let most = match dtype {
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        DType::F32 => 1 << 24,
        DType::F64 => 1 << 53,
        d if d.is_int() && d.bits() < 64 => i64::MAX >> (63 - d.bits() + i64_sign(d)),
        _ => i64::MAX,
    };
    let known =
        super::is_float(dtype) || (dtype.is_int() && dtype.bits() < 16 || dtype.is_signed());
    super::supported("randperm", dtype, known && !dtype.is_complex())?;
    ensure!(
        n <= most.saturating_add(1),
        "n cannot be greater than {} for {} type.",
        most.saturating_add(1),
        dtype.torch()
    );
    // 64 random bits: two equal keys are too unlikely to bend the distribution.
    let keys = bits(b, DType::U64, &[n])?;
    let index = if n <= i32::MAX.into() {
        DType::I32
    } else {
        DType::I64
    };
    let order = b.iota(index, &[n], 0);
    let sorted = b.sort(&[keys, order], 0, true, |b, l, r| {
        Ok::<_, Error>(b.compare(l[0], Direction::LT, r[0])?)
    })?;
    Ok(cast(b, sorted[1], dtype))
}

/// 1 for a signed type: its sign takes a bit.
fn i64_sign(dtype: DType) -> u32 {
    u32::from(dtype.is_signed())
}

/// Categories drawn with the weights in the rows of `weights`
pub(super) fn multinomial(
    b: &mut B,
    weights: Value,
    samples: i64,
    replacement: bool,
    _: Generator,
) -> Result<Value> {
    let (dtype, dims) = (b.dtype(weights), b.dims(weights));
    ensure!(matches!(dims.len(), 1 | 2), "prob_dist must be 1 or 2 dim");
    ensure!(
        dtype.is_float(),
        "multinomial only supports floating-point dtypes for input, got: {}",
        dtype.torch()
    );
    ensure!(samples > 0, "cannot sample n_sample <= 0 samples");
    let categories = dims[dims.len() - 1];
    ensure!(
        replacement || samples <= categories,
        "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    );
    ensure!(
        categories <= 1 << 24,
        "number of categories cannot exceed 2^24"
    );
    let rows = if dims.len() == 2 { dims[0] } else { 1 };
    let p = b.convert(weights, opmath(dtype));
    let p = b.reshape(p, &[rows, categories])?;
    let mut out = dims;
    let last = out.len() - 1;
    out[last] = samples;
    if rows == 0 {
        return Ok(b.full(0, DType::I64, &out));
    }
    check_weights(b, p, !replacement || samples == 1)?;
    ensure!(
        categories > 0,
        "invalid multinomial distribution (sum of probabilities <= 0)"
    );
    let drawn = if replacement && samples > 1 {
        with_replacement(b, p, samples)?
    } else {
        without_replacement(b, p, samples)?
    };
    let drawn = b.convert(drawn, DType::I64);
    Ok(b.reshape(drawn, &out)?)
}

fn check_weights(b: &mut B, p: Value, race: bool) -> Result<()> {
    let [negative, unbounded] = formulas(b, [p], |[p]| [p.lt(0.0), !p.abs().lt(f64::INFINITY)])?;
    if race {
        let bad = b.or(negative, unbounded)?;
        let message =
            "RuntimeError: probability tensor contains either `inf`, `nan` or element < 0";
        check::nowhere(b, bad, message)?;
    } else {
        let what = "RuntimeError: invalid multinomial distribution";
        check::nowhere(
            b,
            negative,
            format!("{what} (encountering probability entry < 0)"),
        )?;
        let message = format!("{what} (encountering probability entry = infinity or NaN)");
        check::nowhere(b, unbounded, message)?;
    }
    let zero = b.full_like(p, 0);
    let positive = b.compare(p, Direction::GT, zero)?;
    let some = b.any(positive, &[1])?;
    let none = b.not(some);
    let message = "RuntimeError: invalid multinomial distribution (sum of probabilities <= 0)";
    check::nowhere(b, none, message)
}

/// An exponential race: the categories that finish first have the largest `p / -log(u)`.
fn without_replacement(b: &mut B, p: Value, samples: i64) -> Result<Value> {
    let u = open_uniform(b, b.dtype(p), &b.dims(p))?;
    // Ranked by logarithm: the quotient could overflow or underflow.
    let rank = formula(b, [p, u], |[p, u]| p.log() - (-u.log()).log())?;
    let (_, order) = b.top_k(rank, samples);
    Ok(order)
}

/// For every sample the first category whose cumulative weight exceeds a uniform share of the sum.
fn with_replacement(b: &mut B, p: Value, samples: i64) -> Result<Value> {
    let (dtype, dims) = (b.dtype(p), b.dims(p));
    let (rows, categories) = (dims[0], dims[1]);
    let sums = running(b, p, 0.0, B::add)?;
    // Rounding must not give a weightless category a share: it has none when its sum is below
    // that of an earlier one, and the running maximum makes it so.
    let sums = formula(b, [p, sums], |[p, sums]| {
        p.gt(0.0).pick(sums, p.full(f64::NEG_INFINITY))
    })?;
    let sums = running(b, sums, f64::NEG_INFINITY, B::maximum)?;
    let total = b.slice_dim(sums, 1, categories - 1, categories)?;
    let total = b.broadcast(total, &[rows, samples])?;
    let u = super::uniform(b, dtype, &[rows, samples])?;
    let below = match dtype {
        DType::F64 => 1.0 - f64::EPSILON / 2.0,
        _ => 1.0 - f64::from(f32::EPSILON) / 2.0,
    };
    let share = formula(b, [u, total], |[u, total]| {
        (u * total).minimum(total * below)
    })?;
    first_above(b, sums, share)
}

/// Running `op` of the second dimension, by doubling steps.
fn running(
    b: &mut B,
    x: Value,
    neutral: f64,
    op: fn(&mut B, Value, Value) -> tpu_hlo::Result<Value>,
) -> Result<Value> {
    let n = b.dims(x)[1];
    let neutral = b.scalar(neutral, b.dtype(x));
    let (mut x, mut step) = (x, 1);
    while step < n {
        let earlier = b.pad(x, neutral, &[0, step], &[0, -step], &[0, 0])?;
        x = op(b, earlier, x)?;
        step *= 2;
    }
    Ok(x)
}

/// For each `target` the first position of its row of ascending `sums` that exceeds it: halving
/// in a loop.
fn first_above(b: &mut B, sums: Value, target: Value) -> Result<Value> {
    let (n, dims) = (b.dims(sums)[1], b.dims(target));
    let low = b.full(0, DType::I32, &dims);
    let high = b.full(n - 1, DType::I32, &dims);
    let apart = |b: &mut B, v: &[Value]| {
        let apart = b.compare(v[0], Direction::LT, v[1])?;
        Ok::<_, Error>(b.any(apart, &[0, 1])?)
    };
    let found = b.while_loop(&[low, high], apart, |b, v| {
        let sum = b.add(v[0], v[1])?;
        let one = b.full_like(sum, 1);
        let middle = b.shift_right_logical(sum, one)?;
        let at = pick(b, sums, middle)?;
        let above = b.compare(at, Direction::GT, target)?;
        let after = b.add(middle, one)?;
        let settled = b.compare(v[0], Direction::GE, v[1])?;
        let low = b.select(above, v[0], after)?;
        let high = b.select(above, middle, v[1])?;
        Ok::<_, Error>(smallvec![
            b.select(settled, v[0], low)?,
            b.select(settled, v[1], high)?
        ])
    })?;
    Ok(found[0])
}

/// `x[i, index[i, j]]`
fn pick(b: &mut B, x: Value, index: Value) -> Result<Value> {
    let mut dims: Dims = b.dims(index);
    dims.push(1);
    let index = b.reshape(index, &dims)?;
    let gather = GatherDims {
        collapsed_slice_dims: smallvec![1],
        operand_batching_dims: smallvec![0],
        start_indices_batching_dims: smallvec![0],
        start_index_map: smallvec![1],
        index_vector_dim: 2,
        ..GatherDims::default()
    };
    Ok(b.gather(x, index, &gather, &[1, 1])?)
}
