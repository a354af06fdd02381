//! Memory that a call would read at other places than it writes.
use crate::{Arg, Kernel, Result, Tensor};
use std::ops::Range;
use tpu_ops::Error as OpError;

/// Refuses a call that writes into a tensor which its row reads elsewhere ([`tpu_ops::Op::apart`]).
/// PyTorch refuses tensors that overlap in part for every operator, before the call arrives here.
///
/// # Errors
/// PyTorch's `unsupported operation: ...`.
pub(crate) fn check(kernel: &Kernel, args: &[Arg<'_>]) -> Result<()> {
    let plan = &kernel.plan;
    let tensor = |i: &usize| match args.get(*i) {
        Some(Arg::Tensor(t)) => Some(t),
        _ => None,
    };
    for target in plan.mutated.iter().filter_map(tensor) {
        for read in plan.op.apart.iter().map(|p| args.get(plan.args[*p])) {
            match read {
                Some(Arg::Tensor(t)) => apart(target, t)?,
                Some(Arg::Tensors(list)) => {
                    list.iter().flatten().try_for_each(|t| apart(target, t))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

impl Tensor<'_> {
    /// Demands that no two elements share a place, before the tensor is written. What a schema
    /// marks as written has been looked at before the call arrives here.
    ///
    /// # Errors
    /// PyTorch's `unsupported operation: ...`.
    pub(crate) fn expect_apart(&self) -> Result<()> {
        let mut moving = self.sizes.iter().zip(self.strides);
        if moving.any(|(n, stride)| *n > 1 && *stride == 0) {
            return Err(OpError::runtime(
                "unsupported operation: more than one element of the written-to tensor refers to \
                 a single memory location. Please clone() the tensor before performing the \
                 operation.",
            )
            .into());
        }
        Ok(())
    }
}

fn apart(target: &Tensor<'_>, read: &Tensor<'_>) -> Result<()> {
    if shares(target, read) {
        return Err(OpError::runtime(
            "unsupported operation: some elements of the input tensor and the written-to tensor \
             refer to a single memory location. Please clone() the tensor before performing the \
             operation.",
        )
        .into());
    }
    Ok(())
}

/// Whether two dense tensors have a byte in common; of others PyTorch does not ask.
fn shares(a: &Tensor<'_>, b: &Tensor<'_>) -> bool {
    let (Some(first), Some(second)) = (bytes(a), bytes(b)) else {
        return false;
    };
    std::ptr::eq(a.cell, b.cell) && first.start < second.end && second.start < first.end
}

/// The bytes of a tensor that has no gaps.
fn bytes(t: &Tensor<'_>) -> Option<Range<i64>> {
    let reach = t.sizes.iter().zip(t.strides).map(|(n, s)| (n - 1) * s);
    let (count, size) = (t.numel(), t.dtype.size() as i64);
    let start = t.offset * size;
    (count > 0 && count == 1 + reach.sum::<i64>()).then(|| start..start + count * size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;
    use tpu_hlo::DType;

    #[test]
    fn only_dense_tensors_of_one_storage_share_bytes() {
        let (cell, other) = (Cell::undefined(64), Cell::undefined(64));
        let at = |cell, offset, sizes, strides| Tensor {
            cell,
            dtype: DType::F32,
            sizes,
            strides,
            offset,
            conj: false,
            neg: false,
        };
        let x = at(&cell, 0, &[2, 4], &[4, 1]);
        assert!(shares(&x, &at(&cell, 7, &[4], &[1])));
        assert!(shares(&x, &at(&cell, 0, &[4, 2], &[1, 4])));
        assert!(!shares(&x, &at(&cell, 8, &[4], &[1])));
        assert!(!shares(&x, &at(&other, 0, &[2, 4], &[4, 1])));
        assert!(!shares(&x, &at(&cell, 0, &[4], &[2])));
        assert!(!shares(&x, &at(&cell, 0, &[0], &[1])));
    }
}
