//! Scaled dot-product attention as one program, and its derivative as another.
use crate::{
    Ignored, Outs, Result, Scalar, check,
    error::ensure,
    formula::formula,
    matmul::{dims, product},
    pointwise::largest,
    promote::{opmath, scalar_like},
    reduce::{Fold, MAX},
    rng::Stream,
};
use tpu_hlo::{Builder, DType, Dims, Direction, Type, Value};

type B = Builder;

/// Sizes of one call. Queries may have several heads for each head of keys and values: their
/// `group`.
struct Sizes {
    batch: i64,
    heads: i64,
    group: i64,
    queries: i64,
    keys: i64,
}

impl Sizes {
    fn of(b: &B, query: Value, key: Value, value: Value) -> Result<Self> {
        let (q, k, v) = (b.dims(query), b.dims(key), b.dims(value));
        let ranks = q.len() == 4 && k.len() == 4 && v.len() == 4;
        ensure!(
            ranks,
            "scaled_dot_product_attention: query, key and value must have 4 dimensions"
        );
        let heads = k[1].max(1);
        let fits = q[0] == k[0] && q[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3];
        ensure!(
            fits && q[1] % heads == 0,
            "scaled_dot_product_attention: query {q:?}, key {k:?} and value {v:?} do not fit"
        );
        Ok(Self {
            batch: q[0],
            heads,
            group: q[1] / heads,
            queries: q[2],
            keys: k[2],
        })
    }

    /// Shape of what there is one of per query: `[batch, heads, group, queries, last]`; without
    /// the group where that is one, or XLA's CPU compiler does not fuse the softmax with the
    /// products around it.
    fn grouped(&self, last: i64) -> Dims {
        match self.group {
            1 => Dims::from_slice(&[self.batch, self.heads, self.queries, last]),
            group => Dims::from_slice(&[self.batch, self.heads, group, self.queries, last]),
        }
    }

    /// The last dimension of that shape.
    fn last(&self) -> i64 {
        if self.group == 1 { 3 } else { 4 }
    }

    /// The dimensions of that shape that share keys and values.
    fn shared(&self) -> &'static [(i64, i64)] {
        if self.group == 1 {
            &[(2, 2)]
        } else {
            &[(2, 2), (3, 3)]
        }
    }

    /// The grouped value with the heads of queries side by side again.
    fn ungroup(&self, b: &mut B, x: Value) -> Result<Value> {
        let last = b.dims(x)[self.last() as usize];
        let dims = [self.batch, self.heads * self.group, self.queries, last];
        Ok(b.reshape(x, &dims)?)
    }
}

/// What the masks and the scale of a call are.
struct Rules {
    bias: Option<Value>,
    causal: bool,
    scale: Option<Scalar>,
}

/// `scale`, by default the inverse root of the embedding's size, as a value like `x`.
fn scale_like(b: &mut B, rules: &Rules, embedding: i64, x: Value) -> Result<Value> {
    match rules.scale {
        Some(Scalar(scale)) => scalar_like(b, scale, x),
        None if b.depends(embedding) => {
            let size = b.size_like(x, embedding)?;
            Ok(b.rsqrt(size))
        }
        None => Ok(b.full_like(x, 1.0 / (embedding as f64).sqrt())),
    }
}

/// `scale * query @ key^T + bias`, grouped, minus infinity where the causal rule (aligned to the
/// top left) forbids.
fn scores(b: &mut B, n: &Sizes, query: Value, key: Value, rules: &Rules) -> Result<Value> {
    let embedding = b.dims(query)[3];
    let query = b.reshape(query, &n.grouped(embedding))?;
    let s = product(b, query, key, &dims(&[(0, 0), (1, 1)], &[(n.last(), 3)]))?;
    let scale = scale_like(b, rules, embedding, s)?;
    let mut s = b.multiply(s, scale)?;
    if let Some(bias) = rules.bias {
        let full = [n.batch, n.heads * n.group, n.queries, n.keys];
        check::expand(&b.dims(bias), &full)?;
        let bias = b.convert(bias, b.dtype(s));
        let bias = b.broadcast(bias, &full)?;
        let bias = b.reshape(bias, &n.grouped(n.keys))?;
        s = b.add(s, bias)?;
    }
    if rules.causal {
        let plane = [n.queries, n.keys];
        let (row, column) = (b.iota(DType::I32, &plane, 0), b.iota(DType::I32, &plane, 1));
        let seen = b.compare(row, Direction::GE, column)?;
        let seen = b.broadcast(seen, &n.grouped(n.keys))?;
        let hidden = b.full_like(s, f64::NEG_INFINITY);
        s = b.select(seen, s, hidden)?;
    }
    Ok(s)
}

/// Which weights dropout keeps, divided by the probability of keeping: `0` or `1 / (1 - p)`.
fn kept(b: &mut B, n: &Sizes, stream: &Stream, p: f64) -> Result<Value> {
    let round = b.scalar(0, DType::U64);
    let u = stream.uniform(b, round)?;
    let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
    let kept = formula(b, [u], |[u]| u.lt(1.0 - p).pick(u.full(scale), 0.0))?;
    Ok(b.reshape(kept, &n.grouped(n.keys))?)
}

/// Attention with mask, causal rule, dropout, scale and grouped heads: the output, and the
/// logarithm of the softmax's denominator with the place in the random stream, from which
/// [`backward`] computes the weights again. Rows without any key give zeros.
pub(super) fn forward(
    b: &mut B,
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Option<Value>,
    dropout_p: f64,
    is_causal: bool,
    _return_debug_mask: bool,
    scale: Option<Scalar>,
) -> Result<Outs> {
    let n = Sizes::of(b, query, key, value)?;
    let (dtype, embedding) = (b.dtype(query), b.dims(value)[3]);
    let rules = Rules {
        bias: attn_bias,
        causal: is_causal,
        scale,
    };
    let s = scores(b, &n, query, key, &rules)?;
    let fold = Fold::one(b, s, n.last(), true)?;
    let max = fold.extreme(b, s, &MAX)?;
    // Not by a comparison: XLA's CPU compiler fuses a softmax with the products around it only
    // where nothing but plain arithmetic lies between.
    let floor = b.full_like(max, -largest(b.dtype(max)));
    let max = b.maximum(max, floor)?;
    let spread = fold.spread(b, max, s)?;
    let weight = formula(b, [s, spread], |[s, max]| (s - max).exp())?;
    let sum = fold.sum(b, weight)?;
    let lse = formula(b, [sum, max], |[sum, max]| max + sum.log())?;
    // The largest weight is 1, unless there is none.
    let least = b.full_like(sum, f64::from(f32::MIN_POSITIVE));
    let sum = b.maximum(sum, least)?;
    let mut weight = weight;
    let mut origin = None;
    if dropout_p > 0.0 {
        let stream = Stream::new(b, opmath(dtype), &n.grouped(n.keys))?;
        let factor = kept(b, &n, &stream, dropout_p)?;
        weight = b.multiply(weight, factor)?;
        origin = Some(stream.origin());
    }
    let weight = b.convert(weight, dtype);
    let out = product(b, weight, value, &dims(&[(0, 0), (1, 1)], &[(n.last(), 2)]))?;
    let sum = b.broadcast(sum, &n.grouped(embedding))?;
    let out = b.divide(out, sum)?;
    let out = b.convert(out, dtype);
    let out = n.ungroup(b, out)?;
    let lse = b.reshape(lse, &[n.batch, n.heads * n.group, n.queries])?;
    let none = b.undefined();
    let (seed, offset) = match origin {
        Some((seed, offset)) => (
            b.bitcast_convert(seed, DType::I64),
            b.bitcast_convert(offset, DType::I64),
        ),
        None => (none, none),
    };
    Ok([out, lse, none, none, seed, offset, none].as_slice().into())
}

/// Sums a gradient over the dimensions that `from` was broadcast along.
fn unbroadcast(b: &mut B, grad: Value, from: &Type) -> Result<Value> {
    let dims = b.dims(grad);
    let shift = dims.len() - from.rank();
    let stretched = |i: usize| i < shift || (from.dims[i - shift] == 1 && dims[i] != 1);
    let axes: Dims = (0..dims.len())
        .filter(|i| stretched(*i))
        .map(|i| i as i64)
        .collect();
    let sum = b.sum(grad, &axes)?;
    let sum = b.reshape(sum, &from.dims)?;
    Ok(b.convert(sum, from.dtype))
}

/// Gradients of query, key, value and bias, as far as `grad_input_mask` asks for them.
pub(super) fn backward(
    b: &mut B,
    grad_out: Option<Value>,
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Option<Value>,
    grad_input_mask: Vec<bool>,
    out: Value,
    logsumexp: Value,
    _cum_seq_q: Ignored,
    _cum_seq_k: Ignored,
    _max_q: Ignored,
    _max_k: Ignored,
    dropout_p: f64,
    is_causal: bool,
    philox_seed: Option<Value>,
    philox_offset: Option<Value>,
    scale: Option<Scalar>,
) -> Result<Outs> {
    // An undefined gradient is zero, and so are its derivatives: undefined as well.
    let Some(grad_out) = grad_out else {
        let none = b.undefined();
        return Ok([none; 4].as_slice().into());
    };
    let n = Sizes::of(b, query, key, value)?;
    let rules = Rules {
        bias: attn_bias,
        causal: is_causal,
        scale,
    };
    let s = scores(b, &n, query, key, &rules)?;
    let lse = b.reshape(logsumexp, &n.grouped(1))?;
    let lse = b.broadcast(lse, &n.grouped(n.keys))?;
    let mut weight = formula(b, [s, lse], |[s, lse]| {
        let lse = lse.eq(f64::NEG_INFINITY).pick(lse.full(0.0), lse);
        (s - lse).exp()
    })?;
    let embedding = b.dims(value)[3];
    let grad_out = b.reshape(grad_out, &n.grouped(embedding))?;
    let mut dropped = weight;
    let mut grad_weight = product(
        b,
        grad_out,
        value,
        &dims(&[(0, 0), (1, 1)], &[(n.last(), 3)]),
    )?;
    if let (Some(seed), Some(offset)) = (philox_seed, philox_offset)
        && dropout_p > 0.0
    {
        let stream = Stream::at(b, (seed, offset), b.dtype(s), &n.grouped(n.keys))?;
        let factor = kept(b, &n, &stream, dropout_p)?;
        dropped = b.multiply(weight, factor)?;
        grad_weight = b.multiply(grad_weight, factor)?;
    }
    let delta = row_products(b, &n, grad_out, out)?;
    weight = formula(b, [weight, grad_weight, delta], |[w, g, delta]| {
        w * (g - delta)
    })?;
    gradients(
        b,
        &n,
        (query, key, value),
        &rules,
        (grad_out, dropped, weight),
        &grad_input_mask,
    )
}

/// `sum(grad_out * out)` of every query, spread over the keys.
fn row_products(b: &mut B, n: &Sizes, grad_out: Value, out: Value) -> Result<Value> {
    let embedding = b.dims(grad_out)[n.last() as usize];
    let out = b.reshape(out, &n.grouped(embedding))?;
    let wide = opmath(b.dtype(out));
    let (out, grad) = (b.convert(out, wide), b.convert(grad_out, wide));
    let both = b.multiply(out, grad)?;
    let sum = b.sum(both, &[n.last()])?;
    let sum = b.reshape(sum, &n.grouped(1))?;
    Ok(b.broadcast(sum, &n.grouped(n.keys))?)
}

fn gradients(
    b: &mut B,
    n: &Sizes,
    (query, key, value): (Value, Value, Value),
    rules: &Rules,
    (grad_out, dropped, grad_scores): (Value, Value, Value),
    wanted: &[bool],
) -> Result<Outs> {
    let (dtype, embedding) = (b.dtype(query), b.dims(query)[3]);
    let wanted = |i: usize| wanted.get(i).copied().unwrap_or(false);
    let narrow = b.convert(grad_scores, dtype);
    let mut outs = Outs::new();
    for (i, x) in [query, key, value].into_iter().enumerate() {
        if !wanted(i) {
            outs.push(b.undefined());
            continue;
        }
        let over_queries = dims(&[(0, 0), (1, 1)], n.shared());
        let grad = match i {
            0 => product(b, narrow, key, &dims(&[(0, 0), (1, 1)], &[(n.last(), 2)]))?,
            1 => {
                let query = b.reshape(query, &n.grouped(embedding))?;
                product(b, narrow, query, &over_queries)?
            }
            _ => {
                let dropped = b.convert(dropped, dtype);
                product(b, dropped, grad_out, &over_queries)?
            }
        };
        let grad = if i == 2 {
            grad
        } else {
            let scale = scale_like(b, rules, embedding, grad)?;
            b.multiply(grad, scale)?
        };
        let grad = b.convert(grad, dtype);
        outs.push(b.reshape(grad, &b.dims(x))?);
    }
    outs.push(match rules.bias {
        Some(bias) if wanted(3) => {
            let grad = n.ungroup(b, grad_scores)?;
            let from = b.ty(bias).clone();
            unbroadcast(b, grad, &from)?
        }
        _ => b.undefined(),
    });
    Ok(outs)
}
