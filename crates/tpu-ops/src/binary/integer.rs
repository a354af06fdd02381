//! Integer powers.
use crate::{
    Error, Result,
    formula::{formula, formula_list},
    promote::together_as,
};
use tpu_hlo::{Builder, DType, Dims, Value};

type B = Builder;

/// `x ^ exponent`, wrapping, by squaring: XLA's own looks at the exponent's lower six bits alone.
/// Negative exponents give 0, but for a base of 1 or -1.
pub(super) fn power(b: &mut B, dtype: DType, x: Value, exponent: Value) -> Result<Value> {
    let xs = together_as(b, &[x, exponent], dtype)?;
    let (x, exponent) = (xs[0], xs[1]);
    let axes: Dims = (0..b.rank(x) as i64).collect();
    let one = b.full_like(x, 1);
    let positive = formula(b, [exponent], |[n]| n.maximum(0.0))?;
    let outs = b.while_loop::<Error>(
        &[x, positive, one],
        |b, s| {
            let left = formula(b, [s[1]], |[n]| n.ne(0.0))?;
            Ok(b.any(left, &axes)?)
        },
        |b, s| {
            let new = formula_list(b, s, |s| {
                let (base, n, product) = (s[0], s[1], s[2]);
                let odd = n.and(n.full(1)).ne(0.0);
                vec![
                    base * base,
                    n.shift_right_logical(n.full(1)),
                    odd.pick(product * base, product),
                ]
            })?;
            Ok(new.into())
        },
    )?;
    if !dtype.is_signed() {
        return Ok(outs[2]);
    }
    formula(b, [x, exponent, outs[2]], |[x, n, product]| {
        let odd = n.and(n.full(1)).ne(0.0);
        let sign = odd.pick(x, x.full(1));
        let whole = x.eq(1.0).or(x.eq(-1.0));
        n.lt(0.0).pick(whole.pick(sign, 0.0), product)
    })
}
