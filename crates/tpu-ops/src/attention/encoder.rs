//! The transformer encoder's inference path: `_transformer_encoder_layer_fwd` and its parts.
use crate::{
    Result, Scalar,
    error::ensure,
    formula::formula,
    matmul::{dims, product},
    promote::{cast, scalar_like, widen},
    reduce::Fold,
    softmax::softmax,
};
use tpu_hlo::{Builder, DType, Value};

type B = Builder;

/// The mask's meaning in `mask_type`: for queries and keys, for keys, or for every score.
fn spread_mask(b: &mut B, mask: Value, mask_type: i64, like: Value) -> Result<Value> {
    let (to, from) = (b.dims(like), b.dims(mask));
    match mask_type {
        0 => {
            ensure!(
                to.len() == 4 && from.as_slice() == &to[2..],
                "For mask_type == 0 mask shape should be (L, L)"
            );
        }
        1 => {
            ensure!(
                to.len() == 4 && from.len() == 2 && from[0] == to[0] && from[1] == to[2],
                "For mask_type == 1 mask shape should be (B, L)"
            );
            return Ok(b.broadcast_in_dim(mask, &to, &[0, 3])?);
        }
        2 => ensure!(
            from == to,
            "For mask_type == 2 mask shape should match input shape"
        ),
        _ => ensure!(
            false,
            "Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)"
        ),
    }
    Ok(b.broadcast(mask, &to)?)
}

/// Softmax along `dim` (the last by default) without the elements where `mask` holds; NaN where it
/// holds for all
pub(super) fn masked_softmax(
    b: &mut B,
    x: Value,
    mask: Value,
    dim: Option<i64>,
    mask_type: Option<i64>,
) -> Result<Value> {
    ensure!(
        b.dtype(mask) == DType::Bool,
        "Mask should be a boolean tensor"
    );
    let Some(mask_type) = mask_type else {
        return Err(crate::Error::runtime("Mask Type should be defined"));
    };
    let dtype = b.dtype(x);
    let mask = spread_mask(b, mask, mask_type, x)?;
    let x = widen(b, x);
    let hidden = b.full_like(x, f64::NEG_INFINITY);
    let x = b.select(mask, hidden, x)?;
    let y = softmax(b, x, dim.unwrap_or(b.rank(x) as i64 - 1))?;
    Ok(cast(b, y, dtype))
}

/// `(grad - sum(grad * y)) * y`, 0 where a mask of the same shape holds
pub(super) fn masked_softmax_backward(
    b: &mut B,
    grad: Value,
    y: Value,
    mask: Value,
    dim: Option<i64>,
) -> Result<Value> {
    let dtype = b.dtype(y);
    let (grad, y) = (widen(b, grad), widen(b, y));
    let fold = Fold::one(b, y, dim.unwrap_or(b.rank(y) as i64 - 1), true)?;
    let both = b.multiply(grad, y)?;
    let sum = fold.sum(b, both)?;
    let sum = fold.spread(b, sum, y)?;
    let mut x = formula(b, [grad, y, sum], |[grad, y, sum]| (grad - sum) * y)?;
    if b.dims(mask) == b.dims(x) {
        let zero = b.full_like(x, 0);
        x = b.select(mask, zero, x)?;
    }
    Ok(cast(b, x, dtype))
}

/// `[batch, length, 3 * embed]` with its bias as queries (divided by the root of the head's size),
/// keys and values of shape `[batch, heads, length, head]`
pub(super) fn transform_bias_rescale_qkv(
    b: &mut B,
    qkv: Value,
    qkv_bias: Value,
    num_heads: i64,
) -> Result<(Value, Value, Value)> {
    let (dtype, sizes) = (b.dtype(qkv), b.dims(qkv));
    ensure!(
        sizes.len() == 3 && sizes[2] % 3 == 0,
        "expected 3-D `qkv` of 3 * embed_dim features"
    );
    let embed = sizes[2] / 3;
    ensure!(
        embed % num_heads == 0,
        "`embed_dim` must divide evenly by `num_heads`"
    );
    let qkv = widen(b, qkv);
    let bias = b.convert(qkv_bias, b.dtype(qkv));
    let bias = b.broadcast_in_dim(bias, &sizes, &[2])?;
    let qkv = b.add(qkv, bias)?;
    let head = embed / num_heads;
    let mut parts = [qkv; 3];
    for (i, part) in parts.iter_mut().enumerate() {
        let x = b.slice_dim(qkv, 2, i as i64 * embed, (i as i64 + 1) * embed)?;
        let x = b.reshape(x, &[sizes[0], sizes[1], num_heads, head])?;
        let mut x = b.transpose(x, &[0, 2, 1, 3])?;
        if i == 0 {
            x = formula(b, [x], |[x]| x * (1.0 / (head as f64).sqrt()))?;
        }
        *part = b.convert(x, dtype);
    }
    Ok(parts.into())
}

/// `x @ weight^T + bias`, of `x`'s dtype
fn linear(b: &mut B, x: Value, weight: Value, bias: Option<Value>) -> Result<Value> {
    let (dtype, last) = (b.dtype(x), b.rank(x) as i64 - 1);
    let y = product(b, x, weight, &dims(&[], &[(last, 1)]))?;
    let Some(bias) = bias else {
        return Ok(b.convert(y, dtype));
    };
    let bias = b.convert(bias, b.dtype(y));
    let bias = b.broadcast_in_dim(bias, &b.dims(y), &[last])?;
    let y = b.add(y, bias)?;
    Ok(b.convert(y, dtype))
}

fn check_projection(b: &B, qkv: [Value; 3], embed: i64, weight: Value, bias: Value) -> Result<()> {
    for (x, name) in qkv.into_iter().zip(["query", "key", "value"]) {
        let rank = b.rank(x);
        ensure!(rank == 3, "expected 3-D `{name}`, got {rank}-D tensor");
    }
    let (x, w, v) = (b.dims(qkv[0]), b.dims(weight), b.dims(bias));
    ensure!(
        x[2] == embed,
        "passed-in embed_dim {embed} didn't match last dim of query {}",
        x[2]
    );
    let same = b.dims(qkv[1]) == x && b.dims(qkv[2]) == x;
    ensure!(same, "expected `query`/`key`/`value` shapes to match");
    ensure!(
        w.len() == 2,
        "expected 2-D `qkv_weight`, got {}-D tensor",
        w.len()
    );
    ensure!(
        w[0] == 3 * embed,
        "expected `qkv_weight` first dim to be 3x embed_dim"
    );
    ensure!(
        w[1] == embed,
        "expected `qkv_weight` second dim to be embed_Dim"
    );
    ensure!(
        v.len() == 1,
        "expected 1-D `qkv_bias`, got {}-D tensor",
        v.len()
    );
    ensure!(
        v[0] == 3 * embed,
        "expected `qkv_bias` first dim and first dim of query to be equal"
    );
    Ok(())
}

/// Projections of queries, keys and values side by side; one product when they are one tensor.
fn project(b: &mut B, [query, key, value]: [Value; 3], weight: Value) -> Result<Value> {
    if query == key && key == value {
        return linear(b, query, weight, None);
    }
    let embed = b.dims(weight)[1];
    let mut parts = [query, key, value];
    for (i, part) in parts.iter_mut().enumerate() {
        let rows = b.slice_dim(weight, 0, i as i64 * embed, (i as i64 + 1) * embed)?;
        *part = linear(b, *part, rows, None)?;
    }
    Ok(b.concatenate(&parts, 2)?)
}

/// Attention over projected inputs: the projected output, and the weights of every head or their
/// mean
pub(super) fn multi_head_attention(
    b: &mut B,
    query: Value,
    key: Value,
    value: Value,
    embed_dim: i64,
    num_head: i64,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    mask: Option<Value>,
    need_weights: bool,
    average_attn_weights: bool,
    mask_type: Option<i64>,
) -> Result<(Value, Value)> {
    let inputs = [query, key, value];
    check_projection(b, inputs, embed_dim, qkv_weight, qkv_bias)?;
    ensure!(
        num_head > 0 && embed_dim % num_head == 0,
        "`embed_dim` must divide evenly by `num_heads`"
    );
    let (dtype, sizes) = (b.dtype(query), b.dims(query));
    let qkv = project(b, inputs, qkv_weight)?;
    let (q, k, v) = transform_bias_rescale_qkv(b, qkv, qkv_bias, num_head)?;
    let scores = product(b, q, k, &dims(&[(0, 0), (1, 1)], &[(3, 3)]))?;
    let weights = match mask {
        Some(mask) => {
            let mask = cast(b, mask, DType::Bool);
            masked_softmax(b, scores, mask, Some(3), mask_type)?
        }
        None => softmax(b, scores, 3)?,
    };
    let narrow = b.convert(weights, dtype);
    let heads = product(b, narrow, v, &dims(&[(0, 0), (1, 1)], &[(3, 2)]))?;
    let heads = b.convert(heads, dtype);
    let heads = b.transpose(heads, &[0, 2, 1, 3])?;
    let joined = b.reshape(heads, &sizes)?;
    let out = linear(b, joined, proj_weight, Some(proj_bias))?;
    let weights = match (need_weights, average_attn_weights) {
        (false, _) => b.undefined(),
        (true, false) => narrow,
        (true, true) => {
            let mean = Fold::one(b, weights, 1, false)?.mean(b, weights)?;
            b.convert(mean, dtype)
        }
    };
    Ok((out, weights))
}

/// Layer normalisation over the last dimension.
fn normalized(b: &mut B, x: Value, eps: Scalar, weight: Value, bias: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    let x = widen(b, x);
    let (last, to) = (b.rank(x) as i64 - 1, b.dims(x));
    let fold = Fold::one(b, x, last, true)?;
    let mean = fold.mean(b, x)?;
    let mean = fold.spread(b, mean, x)?;
    let centred = b.subtract(x, mean)?;
    let square = b.multiply(centred, centred)?;
    let variance = fold.mean(b, square)?;
    let eps = scalar_like(b, eps.0, variance)?;
    let scale = formula(b, [variance, eps], |[variance, eps]| {
        (variance + eps).rsqrt()
    })?;
    let scale = fold.spread(b, scale, x)?;
    let (weight, bias) = (b.convert(weight, b.dtype(x)), b.convert(bias, b.dtype(x)));
    let weight = b.broadcast_in_dim(weight, &to, &[last])?;
    let bias = b.broadcast_in_dim(bias, &to, &[last])?;
    let args = [centred, scale, weight, bias];
    let y = formula(b, args, |[x, scale, weight, bias]| {
        x * scale * weight + bias
    })?;
    Ok(b.convert(y, dtype))
}

/// Two linear maps with a rectifier, or Gauss's error unit, between.
fn feed_forward(b: &mut B, x: Value, maps: [(Value, Value); 2], use_gelu: bool) -> Result<Value> {
    let [(w1, b1), (w2, b2)] = maps;
    let h = linear(b, x, w1, Some(b1))?;
    let dtype = b.dtype(h);
    let h = widen(b, h);
    let h = formula(b, [h], |[h]| {
        if use_gelu {
            0.5 * h * (1.0 + (h * std::f64::consts::FRAC_1_SQRT_2).erf())
        } else {
            h.maximum(0.0)
        }
    })?;
    let h = b.convert(h, dtype);
    linear(b, h, w2, Some(b2))
}

/// A transformer encoder layer at inference: attention and feed-forward with residuals, normalised
/// before or after
pub(super) fn layer(
    b: &mut B,
    src: Value,
    embed_dim: i64,
    num_heads: i64,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: Scalar,
    norm_weight_1: Value,
    norm_bias_1: Value,
    norm_weight_2: Value,
    norm_bias_2: Value,
    ffn_weight_1: Value,
    ffn_bias_1: Value,
    ffn_weight_2: Value,
    ffn_bias_2: Value,
    mask: Option<Value>,
    mask_type: Option<i64>,
) -> Result<Value> {
    let first = |b: &mut B, x| normalized(b, x, eps, norm_weight_1, norm_bias_1);
    let second = |b: &mut B, x| normalized(b, x, eps, norm_weight_2, norm_bias_2);
    let x = if norm_first { first(b, src)? } else { src };
    let (projection, output) = ((qkv_weight, qkv_bias), (proj_weight, proj_bias));
    let (attended, _) = multi_head_attention(
        b,
        x,
        x,
        x,
        embed_dim,
        num_heads,
        projection.0,
        projection.1,
        output.0,
        output.1,
        mask,
        false,
        true,
        mask_type,
    )?;
    let mut x = b.add(attended, src)?;
    if !norm_first {
        x = first(b, x)?;
    }
    let h = if norm_first { second(b, x)? } else { x };
    let maps = [(ffn_weight_1, ffn_bias_1), (ffn_weight_2, ffn_bias_2)];
    let h = feed_forward(b, h, maps, use_gelu)?;
    let y = b.add(h, x)?;
    if norm_first { Ok(y) } else { second(b, y) }
}
