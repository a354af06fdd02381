//! Numbers that a key alone decides: the stream of a Philox key, and keys made from keys.
//!
//! A key is `(seed, offset)` in `U64`; block `i` of its stream is Philox 4x32-10 of the counter
//! `offset + i` under `seed`.
use super::{B, is_float, supported};
use crate::{
    Result, Scalar,
    error::ensure,
    formula::{X, formulas},
    promote::{cast, opmath},
};
use tpu_hlo::{DType, Dims, Number, Value};

const MULTIPLIERS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const STEPS: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Keys as seeds and offsets, `[keys]` each.
struct Keys {
    seed: Value,
    offset: Value,
}

impl Keys {
    fn new(b: &mut B, name: &str, key: Value) -> Result<Self> {
        let dims = b.dims(key);
        ensure!(
            dims.last() == Some(&2),
            "{name}: key must have shape (*batch, 2), got shape {dims:?}"
        );
        let dtype = b.dtype(key);
        ensure!(
            dtype == DType::U64,
            "{name}: key must have dtype uint64, got {}",
            dtype.torch()
        );
        let n = b.ty(key).numel() / 2;
        let pairs = b.reshape(key, &[n, 2])?;
        let mut part = |i| {
            let part = b.slice_dim(pairs, 1, i, i + 1)?;
            b.reshape(part, &[n])
        };
        Ok(Self {
            seed: part(0)?,
            offset: part(1)?,
        })
    }

    /// Block `at` of every key, `[keys, blocks]` each of four words.
    fn blocks(&self, b: &mut B, at: Value) -> Result<[Value; 4]> {
        let (n, blocks) = (b.ty(self.seed).numel(), b.ty(at).numel());
        let dims = [n, blocks];
        let seed = b.broadcast_in_dim(self.seed, &dims, &[0])?;
        let offset = b.broadcast_in_dim(self.offset, &dims, &[0])?;
        let at = b.broadcast_in_dim(at, &dims, &[1])?;
        formulas(b, [seed, offset, at], |[seed, offset, at]| {
            philox(seed, offset + at)
        })
    }
}

fn low<'s>(x: X<'s>) -> X<'s> {
    x.and(x.full(Number::Int(0xFFFF_FFFF)))
}

fn high<'s>(x: X<'s>) -> X<'s> {
    x.shift_right_logical(x.full(32))
}

/// Four words of 32 bits, each in `U64`.
fn philox<'s>(seed: X<'s>, counter: X<'s>) -> [X<'s>; 4] {
    let zero = seed.full(0);
    let mut key = [low(seed), high(seed)];
    let mut words = [low(counter), high(counter), zero, zero];
    for _ in 0..ROUNDS {
        let product = |i: usize| words[2 * i] * seed.full(MULTIPLIERS[i]);
        let (first, second) = (product(0), product(1));
        words = [
            high(second).xor(words[1]).xor(key[0]),
            low(second),
            high(first).xor(words[3]).xor(key[1]),
            low(first),
        ];
        let next = |i: usize| low(key[i] + seed.full(STEPS[i]));
        key = [next(0), next(1)];
    }
    words
}

/// `high · 2^32 + low`
fn joined<'s>(high: X<'s>, low: X<'s>) -> X<'s> {
    high.shift_left(high.full(32)).or(low)
}

/// Keys from the blocks at `at`, `[keys, blocks, 2]`.
fn derived(b: &mut B, keys: &Keys, at: Value) -> Result<Value> {
    let words = keys.blocks(b, at)?;
    let pair = formulas(b, words, |[r, s, t, u]| [joined(s, r), joined(u, t)])?;
    together(b, &pair)
}

/// Values of `[keys, blocks]` side by side: `[keys, blocks, values]`.
fn together(b: &mut B, values: &[Value]) -> Result<Value> {
    let mut dims = b.dims(values[0]);
    dims.push(1);
    let mut columns = Vec::with_capacity(values.len());
    for value in values {
        columns.push(b.reshape(*value, &dims)?);
    }
    Ok(b.concatenate(&columns, 2)?)
}

/// `num_splits` keys from each key.
pub(super) fn split(b: &mut B, key: Value, num_splits: i64) -> Result<Value> {
    let name = "_philox_key_split";
    let keys = Keys::new(b, name, key)?;
    ensure!(
        num_splits > 0,
        "{name}: num_splits must be positive, got {num_splits}"
    );
    let at = b.iota(DType::U64, &[num_splits], 0);
    let all = derived(b, &keys, at)?;
    let all = b.transpose(all, &[1, 0, 2])?;
    let mut dims = b.dims(key);
    dims.insert(0, num_splits);
    Ok(b.reshape(all, &dims)?)
}

/// The key that `split` would give at `data`.
pub(super) fn fold_in(b: &mut B, key: Value, data: Scalar) -> Result<Value> {
    let data = b.convert(data.0, DType::U64);
    folded(b, key, data)
}

/// [`fold_in`] of a number in a tensor.
pub(super) fn fold_in_tensor(b: &mut B, key: Value, data: Value) -> Result<Value> {
    let (name, dtype, n) = (FOLD_IN, b.dtype(data), b.ty(data).numel());
    ensure!(
        dtype == DType::U64,
        "{name}: data must have dtype uint64, got {}",
        dtype.torch()
    );
    ensure!(
        n == 1,
        "{name}: data must be a single value, got {n} elements"
    );
    folded(b, key, data)
}

const FOLD_IN: &str = "_philox_key_fold_in";

fn folded(b: &mut B, key: Value, data: Value) -> Result<Value> {
    let keys = Keys::new(b, FOLD_IN, key)?;
    let at = b.reshape(data, &[1])?;
    let folded = derived(b, &keys, at)?;
    Ok(b.reshape(folded, &b.dims(key))?)
}

/// How a result is drawn from its keys: each key serves `each` elements.
struct Draw {
    keys: Keys,
    each: i64,
    dims: Dims,
}

impl Draw {
    fn new(b: &mut B, name: &str, like: Value, key: Value) -> Result<Self> {
        let (dims, given) = (b.dims(like), b.dims(key));
        supported(name, b.dtype(like), is_float(b.dtype(like)))?;
        let rank = dims.len();
        if given.len() <= 1 {
            let keys = Keys::new(b, name, key)?;
            let each = dims.iter().product();
            return Ok(Self { keys, each, dims });
        }
        ensure!(
            given.len() == rank + 1,
            "{name}: batched key must have ndim == output ndim + 1, got key shape {:?} with \
             output shape {:?}",
            given.as_slice(),
            dims.as_slice()
        );
        let batch = &given[..rank];
        ensure!(
            batch.iter().zip(&dims).all(|(k, n)| *k == 1 || k == n),
            "{name}: key batch shape {batch:?} is not broadcastable with output shape {:?}",
            dims.as_slice()
        );
        let shared = batch.iter().rev().take_while(|k| **k == 1).count();
        let mut wide: Dims = dims[..rank - shared].into();
        wide.extend((0..shared).map(|_| 1));
        wide.push(2);
        let key = b.broadcast(key, &wide)?;
        let keys = Keys::new(b, name, key)?;
        let each = dims[rank - shared..].iter().product();
        Ok(Self { keys, each, dims })
    }

    /// The result, of `N` values that each block gives.
    fn finish<const N: usize>(&self, b: &mut B, values: [Value; N]) -> Result<Value> {
        let all = together(b, &values)?;
        let dims = b.dims(all);
        let all = b.reshape(all, &[dims[0], dims[1] * dims[2]])?;
        let all = b.slice_dim(all, 1, 0, self.each)?;
        Ok(b.reshape(all, &self.dims)?)
    }

    /// As many blocks as it takes, each for `each` elements.
    fn blocks(&self, b: &mut B, each: i64) -> Result<[Value; 4]> {
        let count = (self.each + each - 1) / each;
        let at = b.iota(DType::U64, &[count], 0);
        self.keys.blocks(b, at)
    }
}

/// The last bits as a multiple of 2^-n in `[0, 1)`, where `dtype` has `n` digits.
fn unit(bits: X<'_>, dtype: DType) -> X<'_> {
    let digits = match dtype {
        DType::F64 => 53,
        DType::F16 => 11,
        DType::BF16 => 8,
        _ => 24,
    };
    let bits = bits.and(bits.full((1_i64 << digits) - 1));
    bits.to(opmath(dtype)) * (-f64::from(digits)).exp2()
}

/// `low + (high - low) * u` for `u` in `[0, 1)` with as many bits as the type has digits.
pub(super) fn uniform(b: &mut B, x: Value, key: Value, from: Scalar, to: Scalar) -> Result<Value> {
    let dtype = b.dtype(x);
    let draw = Draw::new(b, "_philox_uniform_", x, key)?;
    let u = if dtype == DType::F64 {
        let words = draw.blocks(b, 2)?;
        let pair = formulas(b, words, |[r, s, t, u]| {
            [joined(r, s), joined(t, u)].map(|w| unit(w, dtype))
        })?;
        draw.finish(b, pair)?
    } else {
        let words = draw.blocks(b, 4)?;
        let all = formulas(b, words, |words| words.map(|w| unit(w, dtype)))?;
        draw.finish(b, all)?
    };
    let mut ends = [from.0, to.0];
    for end in &mut ends {
        let narrow = cast(b, *end, dtype);
        *end = cast(b, narrow, b.dtype(u));
    }
    let [y] = formulas(b, [u, ends[0], ends[1]], |[u, from, to]| {
        [u * (to - from) + from]
    })?;
    Ok(cast(b, y, dtype))
}

/// Two normal numbers of two in `(0, 1)`, by Box and Muller's transform.
fn normal_pair<'s>(near: X<'s>, turn: X<'s>) -> [X<'s>; 2] {
    let radius = (near.log() * -2.0).sqrt();
    let angle = turn * std::f64::consts::TAU;
    [radius * angle.cos(), radius * angle.sin()]
}

/// `mean + std * z`
pub(super) fn normal(b: &mut B, x: Value, key: Value, mean: Scalar, std: Scalar) -> Result<Value> {
    let dtype = b.dtype(x);
    let draw = Draw::new(b, "_philox_normal_", x, key)?;
    let step = (-32_f64).exp2();
    let z = if dtype == DType::F64 {
        let words = draw.blocks(b, 2)?;
        let pair = formulas(b, words, |words| {
            let [r, s, t, u] = words.map(|w| w.to(DType::F64));
            let rest = step * step;
            normal_pair(
                r * step + (s * rest + rest * 0.5),
                t * step + (u * rest + rest * 0.5),
            )
        })?;
        draw.finish(b, pair)?
    } else {
        let words = draw.blocks(b, 4)?;
        let all = formulas(b, words, |words| {
            let [r, s, t, u] = words.map(|w| w.to(DType::F32) * step + step * 0.5);
            let ([a, c], [d, e]) = (normal_pair(r, s), normal_pair(t, u));
            [a, c, d, e]
        })?;
        draw.finish(b, all)?
    };
    let (mean, std) = (cast(b, mean.0, b.dtype(z)), cast(b, std.0, b.dtype(z)));
    let [y] = formulas(b, [z, mean, std], |[z, mean, std]| [z * std + mean])?;
    Ok(cast(b, y, dtype))
}
