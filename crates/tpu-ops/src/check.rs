//! Argument checks in PyTorch's words, once.
use crate::{Result, error::ensure};
use tpu_hlo::Dims;

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
