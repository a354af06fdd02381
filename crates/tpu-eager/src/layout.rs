//! Memory layout of results: PyTorch's TensorIterator keeps the inputs' dimension order.
use smallvec::SmallVec;
use tpu_hlo::Dims;

/// Dimensions from the slowest to the fastest in memory.
pub(crate) type Order = SmallVec<[usize; 6]>;

/// Whether an operand of this rank, 4 or 5, is in channels-last memory format
/// (c10's `is_channels_last_strides_2d` and `_3d`).
pub(crate) fn is_channels_last(rank: usize, operands: &[(Dims, Dims)]) -> bool {
    let is = |(sizes, strides): &(Dims, Dims)| {
        let mut least = 0;
        let fast_first = channels_last(rank).into_iter().rev();
        sizes.len() == rank && strides[1] > 0 && {
            let mut dims = fast_first;
            dims.all(|d| {
                let ambiguous = d == 0 && least == strides[1];
                let fits = sizes[d] > 0 && strides[d] >= least && !ambiguous;
                least = strides[d] * sizes[d].max(1);
                fits
            })
        }
    };
    matches!(rank, 4 | 5) && operands.iter().any(is)
}

/// Batch, space, channels.
pub(crate) fn channels_last(rank: usize) -> Order {
    let space = 2..rank;
    std::iter::once(0).chain(space).chain([1]).collect()
}

/// Whether results of this rank are matrices ([`tpu_ops::Layout::ColumnMajor`]).
pub(crate) fn has_matrices(rank: usize, operands: &[(Dims, Dims)]) -> bool {
    let ranks = || operands.iter().map(|(sizes, _)| sizes.len());
    rank >= 2 && (ranks().next() == Some(rank) || ranks().max() == Some(rank))
}

/// The last but one dimension fastest.
pub(crate) fn column_major(rank: usize) -> Order {
    let mut order: Order = (0..rank).collect();
    if let [.., row, column] = &mut order[..] {
        std::mem::swap(row, column);
    }
    order
}

/// Dimensions of the result from the slowest to the fastest, for pointwise operators on operands
/// of the given sizes and strides (`TensorIteratorBase::reorder_dimensions`).
pub(crate) fn order(out: &[i64], operands: &[(Dims, Dims)]) -> Order {
    let strides: Vec<Dims> = operands.iter().map(|(n, s)| expand(out, n, s)).collect();
    let mut fast_first: Order = (0..out.len()).rev().collect();
    for i in 1..out.len() {
        let mut at = i;
        for before in (0..i).rev() {
            match compare(out, &strides, fast_first[before], fast_first[at]) {
                1 => {
                    fast_first.swap(before, at);
                    at = before;
                }
                -1 => break,
                _ => {}
            }
        }
    }
    fast_first.reverse();
    fast_first
}

/// Strides as seen at the result's shape: 0 where the operand is stretched.
fn expand(out: &[i64], sizes: &[i64], strides: &[i64]) -> Dims {
    let shift = out.len().saturating_sub(sizes.len());
    (0..out.len())
        .map(|d| match d.checked_sub(shift) {
            Some(i) if i < sizes.len() && (sizes[i] == out[d]) => strides[i],
            _ => 0,
        })
        .collect()
}

/// 1 when `a` moves slower than `b` and so has to come after it, -1 for the reverse, 0 when no
/// operand can tell.
fn compare(out: &[i64], operands: &[Dims], a: usize, b: usize) -> i32 {
    for strides in operands {
        let (sa, sb) = (strides[a], strides[b]);
        if sa == 0 || sb == 0 {
            continue;
        }
        if sa < sb {
            return -1;
        }
        if sa > sb || out[a] > out[b] {
            return 1;
        }
    }
    0
}

/// Strides of dense storage in the given order.
pub(crate) fn strides(out: &[i64], order: &[usize]) -> Dims {
    let mut strides: Dims = out.iter().map(|_| 1).collect();
    let mut step = 1;
    for &d in order.iter().rev() {
        strides[d] = step;
        step *= out[d].max(1);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(out: &[i64], operands: &[(&[i64], &[i64])]) -> Vec<i64> {
        let operands: Vec<(Dims, Dims)> = operands
            .iter()
            .map(|(n, s)| ((*n).into(), (*s).into()))
            .collect();
        strides(out, &order(out, &operands)).to_vec()
    }

    #[test]
    fn results_have_the_strides_that_torch_gives() {
        // Values of torch 2.14 on the CPU for `a + b`.
        assert_eq!(got(&[2, 3], &[(&[2, 3], &[1, 2])]), [1, 2]);
        assert_eq!(got(&[2, 3], &[(&[2, 3], &[3, 1])]), [3, 1]);
        assert_eq!(
            got(&[2, 3], &[(&[2, 3], &[1, 2]), (&[2, 3], &[3, 1])]),
            [1, 2]
        );
        let channels_last: (&[i64], &[i64]) = (&[2, 3, 4, 5], &[60, 1, 15, 3]);
        assert_eq!(got(&[2, 3, 4, 5], &[channels_last]), [60, 1, 15, 3]);
        assert_eq!(
            got(&[2, 3, 4, 5], &[channels_last, (&[5], &[1])]),
            [60, 1, 15, 3]
        );
        assert_eq!(got(&[2, 3], &[(&[1, 3], &[3, 1])]), [3, 1]);
    }

    #[test]
    fn channels_last_is_told_as_torch_does() {
        let is = |n: &[i64], s: &[i64]| is_channels_last(n.len(), &[(n.into(), s.into())]);
        assert!(is(&[2, 3, 4, 5], &[60, 1, 15, 3]));
        assert!(!is(&[2, 3, 4, 5], &[60, 20, 5, 1]));
        // Both formats: row-major wins.
        assert!(!is(&[2, 1, 4, 5], &[20, 20, 5, 1]));
        assert!(!is(&[1, 1, 1, 1], &[1, 1, 1, 1]));
        assert!(is(&[2, 3, 2, 4, 5], &[120, 1, 60, 15, 3]));
        assert!(!is(&[3, 4, 5], &[1, 15, 3]));
    }
}
