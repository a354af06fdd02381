//! Memory layout of results: PyTorch's TensorIterator keeps the inputs' dimension order.
use smallvec::SmallVec;
use tpu_hlo::Dims;

/// Dimensions of the result from the slowest to the fastest, for pointwise operators on operands
/// of the given sizes and strides (`TensorIteratorBase::reorder_dimensions`).
pub(crate) fn order(out: &[i64], operands: &[(Dims, Dims)]) -> SmallVec<[usize; 6]> {
    let strides: Vec<Dims> = operands.iter().map(|(n, s)| expand(out, n, s)).collect();
    let mut fast_first: SmallVec<[usize; 6]> = (0..out.len()).rev().collect();
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
}
