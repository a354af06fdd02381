//! Random bits, and the two distributions that all others are made from.
use crate::{
    Result,
    formula::{formula, formulas},
};
use tpu_hlo::{Builder, DType, Dims, Slot, Type, Value};

type B = Builder;

/// Random numbers that a program has reserved: for every round another set of them, so that a
/// loop that rejects candidates never reads beyond what the launcher advances the generator by.
/// Philox counts in 128 bits; the generator's offset is the lower half, the round the upper one.
pub(crate) struct Stream {
    seed: Value,
    offset: Value,
    words: i64,
    dtype: DType,
    dims: Dims,
}

/// Uniform bits of `U32` or `U64`, `dims` of them.
pub(crate) fn bits(b: &mut B, dtype: DType, dims: &[i64]) -> Result<Value> {
    let stream = Stream::new(b, dtype, dims)?;
    let round = b.scalar(0, DType::U64);
    let flat = stream.words(b, round)?;
    stream.fit(b, flat)
}

/// Uniform numbers in `[0, 1)` of `F32` (24 bits) or `F64` (53 bits).
pub(crate) fn uniform(b: &mut B, dtype: DType, dims: &[i64]) -> Result<Value> {
    let stream = Stream::new(b, dtype, dims)?;
    let round = b.scalar(0, DType::U64);
    stream.uniform(b, round)
}

/// Uniform numbers in `(0, 1)`, finer towards 0 than [`uniform`]'s: what logarithms want.
pub(crate) fn open_uniform(b: &mut B, dtype: DType, dims: &[i64]) -> Result<Value> {
    let stream = Stream::new(b, dtype, dims)?;
    let round = b.scalar(0, DType::U64);
    stream.open_uniform(b, round)
}

/// Standard normal numbers of `F32` or `F64`.
pub(crate) fn normal(b: &mut B, dtype: DType, dims: &[i64]) -> Result<Value> {
    let stream = Stream::new(b, dtype, dims)?;
    let round = b.scalar(0, DType::U64);
    stream.normal(b, round)
}

impl Stream {
    /// Reserves one number per element of `dims` for every round; `dtype` is what they are wanted
    /// in: `F32` or `U32`, `F64` or `U64`.
    pub(crate) fn new(b: &mut B, dtype: DType, dims: &[i64]) -> Result<Self> {
        let words = word_count(dtype, dims);
        let before = b.draw(words.unsigned_abs().div_ceil(4));
        let seed = b.param(Slot::SEED, Type::scalar(DType::U64));
        let mut offset = b.param(Slot::OFFSET, Type::scalar(DType::U64));
        if before > 0 {
            let before = b.scalar(before as i64, DType::U64);
            offset = b.add(offset, before)?;
        }
        Ok(Self {
            seed,
            offset,
            words,
            dtype,
            dims: dims.into(),
        })
    }

    /// Numbers that an earlier program reserved, from the place that [`Stream::origin`] told.
    pub(crate) fn at(
        b: &mut B,
        (seed, offset): (Value, Value),
        dtype: DType,
        dims: &[i64],
    ) -> Result<Self> {
        let mut place = [seed, offset];
        for part in &mut place {
            *part = b.reshape(*part, &[])?;
            *part = b.bitcast_convert(*part, DType::U64);
        }
        let [seed, offset] = place;
        Ok(Self {
            seed,
            offset,
            words: word_count(dtype, dims),
            dtype,
            dims: dims.into(),
        })
    }

    /// Seed and offset, both `U64` scalars.
    pub(crate) fn origin(&self) -> (Value, Value) {
        (self.seed, self.offset)
    }

    fn words(&self, b: &mut B, round: Value) -> Result<Value> {
        let wide = self.dtype.size() == 8;
        if self.words == 0 {
            return Ok(b.full(0, if wide { DType::U64 } else { DType::U32 }, &[0]));
        }
        let mut state = [self.seed, self.offset, round];
        for part in &mut state {
            *part = b.reshape(*part, &[1])?;
        }
        let state = b.concatenate(&state, 0)?;
        let count = (self.words + 3) / 4 * 4;
        let ty = Type::new(DType::U32, &[count]);
        // On the CPU the same bits come from a function of ours, registered by tpu-eager: XLA's
        // own takes three times as long to compile.
        let words = if b.settings.tpu {
            b.rng_bit_generator(state, ty)
        } else {
            b.custom_call("tpu_random_bits", &[state], "", &[ty])[0]
        };
        let words = b.slice_dim(words, 0, 0, self.words)?;
        if !wide {
            return Ok(words);
        }
        let pairs = b.reshape(words, &[self.words / 2, 2])?;
        Ok(b.bitcast_resize(pairs, DType::U64)?)
    }

    fn fit(&self, b: &mut B, flat: Value) -> Result<Value> {
        let flat = b.slice_dim(flat, 0, 0, self.dims.iter().product())?;
        Ok(b.reshape(flat, &self.dims)?)
    }

    /// Uniform numbers in `[0, 1)`: 24 bits of them in `F32`, 53 in `F64`.
    pub(crate) fn uniform(&self, b: &mut B, round: Value) -> Result<Value> {
        let words = self.words(b, round)?;
        let x = unit(b, words)?;
        self.fit(b, x)
    }

    /// Uniform numbers in `(0, 1)` that reach down to 2^-33 in `F32`, to 2^-54 in `F64`.
    pub(crate) fn open_uniform(&self, b: &mut B, round: Value) -> Result<Value> {
        let words = self.words(b, round)?;
        let x = open_unit(b, words)?;
        self.fit(b, x)
    }

    /// Standard normal numbers, by Box and Muller's transform of pairs.
    pub(crate) fn normal(&self, b: &mut B, round: Value) -> Result<Value> {
        let words = self.words(b, round)?;
        let half = b.dims(words)[0] / 2;
        let (near, turn) = (
            b.slice_dim(words, 0, 0, half)?,
            b.slice_dim(words, 0, half, 2 * half)?,
        );
        let (near, turn) = (open_unit(b, near)?, unit(b, turn)?);
        let pair = formulas(b, [near, turn], |[near, turn]| {
            let radius = (near.log() * -2.0).sqrt();
            let angle = turn * std::f64::consts::TAU;
            [radius * angle.cos(), radius * angle.sin()]
        })?;
        let both = b.concatenate(&pair, 0)?;
        self.fit(b, both)
    }
}

/// 32-bit words for a number per element: normal numbers come in pairs.
fn word_count(dtype: DType, dims: &[i64]) -> i64 {
    let numbers: i64 = dims.iter().product();
    (numbers + numbers % 2) * (dtype.size() as i64 / 4)
}

/// The upper bits of `U32` or `U64` as a multiple of 2^-24 (`F32`) or 2^-53 (`F64`) below 1.
fn unit(b: &mut B, words: Value) -> Result<Value> {
    let (drop, signed, float, step) = match b.dtype(words) {
        DType::U32 => (8, DType::I32, DType::F32, (-24f64).exp2()),
        _ => (11, DType::I64, DType::F64, (-53f64).exp2()),
    };
    let drop = b.full_like(words, drop);
    let top = b.shift_right_logical(words, drop)?;
    // Signed integers convert faster, and these have no sign bit.
    let top = b.bitcast_convert(top, signed);
    let top = b.convert(top, float);
    let x = formula(b, [top], |[top]| top * step)?;
    Ok(x)
}

/// `U32` or `U64` as a float in `(0, 1)`, the lower end with full precision.
fn open_unit(b: &mut B, words: Value) -> Result<Value> {
    let (float, step, below_one) = match b.dtype(words) {
        DType::U32 => (DType::F32, (-32f64).exp2(), 1.0 - (-24f64).exp2()),
        _ => (DType::F64, (-64f64).exp2(), 1.0 - (-53f64).exp2()),
    };
    let x = b.convert(words, float);
    let x = formula(b, [x], |[x]| ((x + 0.5) * step).minimum(below_one))?;
    Ok(x)
}
