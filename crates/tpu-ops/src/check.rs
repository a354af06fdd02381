//! Argument checks in PyTorch's words, once.
use crate::{Result, error::ensure};
use tpu_hlo::{Builder, DType, Dims, Direction, Value};

/// `dim` counted from the front, for a tensor of `rank` dimensions (0-dimensional ones count as
/// one-dimensional).
///
/// # Errors
/// `IndexError: Dimension out of range (expected to be in range of [-r, r-1], but got d)`.
pub fn dim(dim: i64, rank: usize) -> Result<i64> {
    let n = rank.max(1) as i64;
    ensure!(
        -n <= dim && dim < n,
        Index,
        "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
        -n,
        n - 1
    );
    Ok(if dim < 0 { dim + n } else { dim })
}

/// Dimensions counted from the front, each once; all of them when none is given. Empty for a
/// 0-dimensional tensor, which has no axis to fold.
///
/// # Errors
/// As [`dim`], and `dim 0 appears multiple times in the list of dims`.
pub fn dims(given: Option<&[i64]>, rank: usize) -> Result<Dims> {
    ensure!(rank <= 64, "only tensors with up to 64 dims are supported");
    let Some(given) = given.filter(|d| !d.is_empty()) else {
        return Ok((0..rank as i64).collect());
    };
    let mut out = Dims::new();
    for &d in given {
        let d = dim(d, rank)?;
        ensure!(
            !out.contains(&d),
            "dim {d} appears multiple times in the list of dims"
        );
        out.push(d);
    }
    if rank == 0 {
        out.clear();
    }
    Ok(out)
}

/// Whether a tensor of sizes `from` can be expanded to `to`.
///
/// # Errors
/// PyTorch's `The expanded size of the tensor (..) must match the existing size (..)`.
pub fn expand(from: &[i64], to: &[i64]) -> Result<()> {
    ensure!(
        from.len() <= to.len(),
        "expand(size={to:?}): the number of sizes provided ({}) must be greater or equal to the \
         number of dimensions in the tensor ({})",
        to.len(),
        from.len()
    );
    let shift = to.len() - from.len();
    for (i, &n) in from.iter().enumerate() {
        ensure!(
            n == 1 || n == to[shift + i],
            "The expanded size of the tensor ({}) must match the existing size ({n}) at \
             non-singleton dimension {}.  Target sizes: {to:?}.  Tensor sizes: {from:?}",
            to[shift + i],
            shift + i
        );
    }
    Ok(())
}

/// Demands at run time that every element of the integers `index` lies in `low..high`. `message`
/// is raised with `{}` replaced by an element that does not, and starts with the Python class.
pub fn bounds(
    b: &mut Builder,
    index: Value,
    range: (i64, i64),
    message: impl Into<String>,
) -> Result<()> {
    bounds_where(b, index, None, range, message)
}

/// [`bounds`] of the elements for which the `Bool` value `counts` holds.
pub fn bounds_where(
    b: &mut Builder,
    index: Value,
    counts: Option<Value>,
    (low, high): (i64, i64),
    message: impl Into<String>,
) -> Result<()> {
    let index = b.convert(index, DType::I64);
    let (first, end) = (b.size_like(index, low)?, b.size_like(index, high)?);
    let below = b.compare(index, Direction::LT, first)?;
    let above = b.compare(index, Direction::GE, end)?;
    let mut outside = b.or(below, above)?;
    if let Some(counts) = counts {
        outside = b.and(outside, counts)?;
    }
    let fine = b.full_like(index, i64::MIN);
    let bad = b.select(outside, index, fine)?;
    let none = b.scalar(i64::MIN, DType::I64);
    let axes: Dims = (0..b.rank(bad) as i64).collect();
    let worst = b.reduce(bad, none, &axes, Builder::maximum)?;
    b.check(worst, message);
    Ok(())
}

/// Demands that no element of the `Bool` value `bad` holds when the program runs; `message` starts
/// with the Python class, as in `RuntimeError: ZeroDivisionError`.
pub fn nowhere(b: &mut Builder, bad: Value, message: impl Into<String>) -> Result<()> {
    let axes: Dims = (0..b.rank(bad) as i64).collect();
    let any = b.any(bad, &axes)?;
    let (found, fine) = (b.scalar(0, DType::I64), b.scalar(i64::MIN, DType::I64));
    let flag = b.select(any, found, fine)?;
    b.check(flag, message);
    Ok(())
}
