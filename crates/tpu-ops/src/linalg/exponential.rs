//! The matrix exponential.
use super::{identity, multiply, square};
use crate::{Error, Result, formula::formula, promote};
use smallvec::smallvec;
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

type B = Builder;

/// Degree of the Taylor polynomial.
const DEGREE: usize = 18;

/// The largest 1-norm for which the polynomial's error is below the type's precision.
fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1.090_863_719_290_036,
        _ => 3.010_066_362_817_634,
    }
}

/// `exp(a)` by scaling and squaring: a Taylor polynomial of `a / 2^s`, squared `s` times, where
/// `s` makes the norm small enough
pub(super) fn matrix_exp(b: &mut B, a: Value) -> Result<Value> {
    if matches!(b.dtype(a), DType::F16 | DType::BF16) {
        let wide = promote::widen(b, a);
        let y = matrix_exp(b, wide)?;
        return Ok(b.convert(y, b.dtype(a)));
    }
    let m = square(b, a, "linalg.matrix_exp", "linalg_matrix_exp_cpu")?;
    if b.ty(a).numel() == 0 {
        return Ok(a);
    }
    let squarings = squarings(b, a)?;
    let spread = |b: &mut B, x: Value| -> Result<Value> {
        let axes: Dims = (0..m.batch.len() as i64).collect();
        Ok(b.broadcast_in_dim(x, &b.dims(a), &axes)?)
    };
    let scale = formula(b, [squarings], |[s]| s.full(0.5).pow(s))?;
    let scale = spread(b, scale)?;
    let scale = b.convert(scale, m.dtype);
    let scaled = b.multiply(a, scale)?;
    let y = taylor(b, scaled)?;
    let squarings = spread(b, squarings)?;
    square_times(b, y, squarings)
}

/// How often each matrix has to be halved.
fn squarings(b: &mut B, a: Value) -> Result<Value> {
    let size = b.abs(a);
    let n = b.rank(size) as i64;
    let columns = b.sum(size, &[n - 2])?;
    let zero = b.scalar(0, b.dtype(columns));
    let norm = b.reduce(columns, zero, &[n - 2], B::maximum)?;
    let limit = limit(b.dtype(norm));
    formula(b, [norm], |[norm]| {
        let s = ((norm / limit).log() / std::f64::consts::LN_2)
            .ceil()
            .maximum(0.0);
        // Not a number when the norm is none: the polynomial then says so too.
        norm.is_finite().pick(s, 0.0)
    })
}

/// The Taylor polynomial by Paterson and Stockmeyer: blocks of three powers.
fn taylor(b: &mut B, a: Value) -> Result<Value> {
    let eye = identity(b, &b.ty(a).clone())?;
    let a2 = multiply(b, a, a)?;
    let a3 = multiply(b, a2, a)?;
    let coefficient = |k: usize| 1.0 / (1..=k).map(|i| i as f64).product::<f64>();
    let block = |b: &mut B, k: usize| {
        formula(b, [eye, a, a2], |[eye, a, a2]| {
            eye * coefficient(k) + a * coefficient(k + 1) + a2 * coefficient(k + 2)
        })
    };
    let last = b.full_like(a3, coefficient(DEGREE));
    let mut sum = b.multiply(a3, last)?;
    for k in (0..DEGREE).step_by(3).rev() {
        if k + 3 < DEGREE {
            sum = multiply(b, sum, a3)?;
        }
        let terms = block(b, k)?;
        sum = b.add(sum, terms)?;
    }
    Ok(sum)
}

/// Squares each matrix as often as `times` says.
fn square_times(b: &mut B, y: Value, times: Value) -> Result<Value> {
    let done = b.scalar(0, b.dtype(times));
    let axes: Dims = (0..b.rank(times) as i64).collect();
    let zero = b.scalar(0, b.dtype(times));
    let most = b.reduce(times, zero, &axes, B::maximum)?;
    let outs = b.while_loop(
        &[done, y],
        |b, v| Ok::<_, Error>(b.compare(v[0], Direction::LT, most)?),
        |b, v| {
            let square = multiply(b, v[1], v[1])?;
            let done = b.broadcast(v[0], &b.dims(times))?;
            let open = b.compare(done, Direction::LT, times)?;
            let y = b.select(open, square, v[1])?;
            let one = b.full_like(v[0], 1);
            Ok::<_, Error>(smallvec![b.add(v[0], one)?, y])
        },
    )?;
    Ok(outs[1])
}
