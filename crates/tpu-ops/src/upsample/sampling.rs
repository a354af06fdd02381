//! Sampling between the elements of one dimension, at coordinates that are known at run time.
use crate::Result;
use tpu_hlo::{Builder, Direction, Value};

type B = Builder;

/// Sharpness of the cubic kernel.
const A: f64 = -0.75;

/// How `grid_sampler` samples; the integers are PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Interpolation {
    Linear,
    Nearest,
    Cubic,
}

/// What lies outside of the image; the integers are PyTorch's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// A dimension of the image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) size: i64,
    pub(super) align_corners: bool,
    pub(super) outside: Outside,
}

/// One of the elements that a sample is made of.
pub(super) struct Tap {
    /// Its coordinate: a whole number, in a floating-point type.
    pub(super) at: Value,
    pub(super) weight: Value,
    /// The derivative of the weight by the sample's coordinate.
    pub(super) slope: Value,
}

/// The elements along one dimension, and the derivative of the sample's coordinate by the number
/// in the grid.
pub(super) struct Taps {
    pub(super) taps: Vec<Tap>,
    pub(super) stretch: Value,
}

/// `a * x + c`
fn linear(b: &mut B, x: Value, a: f64, c: f64) -> Result<Value> {
    let (a, c) = (b.full_like(x, a), b.full_like(x, c));
    let scaled = b.multiply(x, a)?;
    Ok(b.add(scaled, c)?)
}

/// `((c[0] * x + c[1]) * x + c[2]) * x + c[3]`
fn polynomial(b: &mut B, x: Value, c: [f64; 4]) -> Result<Value> {
    let mut sum = b.full_like(x, c[0]);
    for c in &c[1..] {
        let product = b.multiply(sum, x)?;
        let c = b.full_like(x, *c);
        sum = b.add(product, c)?;
    }
    Ok(sum)
}

impl Axis {
    /// Elements, weights and slopes for the numbers `x` of a grid, which span `-1..1`.
    pub(super) fn taps(&self, b: &mut B, x: Value, interpolation: Interpolation) -> Result<Taps> {
        let (source, stretch) = self.unnormalize(b, x)?;
        if interpolation == Interpolation::Cubic {
            return Ok(Taps {
                taps: self.cubic(b, source)?,
                stretch,
            });
        }
        let (source, turn) = self.bring_inside(b, source)?;
        let stretch = b.multiply(stretch, turn)?;
        let taps = match interpolation {
            Interpolation::Nearest => vec![Tap {
                at: b.round_nearest_even(source),
                weight: b.full_like(source, 1),
                slope: b.full_like(source, 0),
            }],
            _ => neighbours(b, source)?,
        };
        Ok(Taps { taps, stretch })
    }

    /// The coordinate in elements, and its derivative.
    fn unnormalize(&self, b: &mut B, x: Value) -> Result<(Value, Value)> {
        let size = self.size as f64;
        let one = b.full_like(x, 1);
        let x = b.add(x, one)?;
        if self.align_corners {
            let half = b.full_like(x, 0.5);
            let x = b.multiply(x, half)?;
            return Ok((
                linear(b, x, size - 1.0, 0.0)?,
                b.full_like(x, (size - 1.0) / 2.0),
            ));
        }
        let x = linear(b, x, size, -1.0)?;
        let half = b.full_like(x, 0.5);
        Ok((b.multiply(x, half)?, b.full_like(x, size / 2.0)))
    }

    /// The coordinate inside the image, unless zeros lie outside, and the derivative.
    fn bring_inside(&self, b: &mut B, x: Value) -> Result<(Value, Value)> {
        match self.outside {
            Outside::Zeros => Ok((x, b.full_like(x, 1))),
            Outside::Border => self.clip(b, x),
            Outside::Reflection => {
                let (x, turn) = self.reflect(b, x)?;
                let (x, inside) = self.clip(b, x)?;
                Ok((x, b.multiply(turn, inside)?))
            }
        }
    }

    fn clip(&self, b: &mut B, x: Value) -> Result<(Value, Value)> {
        let (low, high) = (b.full_like(x, 0), b.full_like(x, (self.size - 1) as f64));
        let above = b.compare(x, Direction::GT, low)?;
        let below = b.compare(x, Direction::LT, high)?;
        let inside = b.and(above, below)?;
        let (one, zero) = (b.full_like(x, 1), b.full_like(x, 0));
        let slope = b.select(inside, one, zero)?;
        let clipped = b.maximum(x, low)?;
        Ok((b.minimum(clipped, high)?, slope))
    }

    /// Mirrors at the centres of the outermost elements, or at their outer edges.
    fn reflect(&self, b: &mut B, x: Value) -> Result<(Value, Value)> {
        let (low, span) = if self.align_corners {
            (0.0, (self.size - 1) as f64)
        } else {
            (-0.5, self.size as f64)
        };
        if span == 0.0 {
            let zero = b.full_like(x, 0);
            return Ok((zero, zero));
        }
        let moved = linear(b, x, 1.0, -low)?;
        let away = b.abs(moved);
        let (spans, zero) = (b.full_like(x, span), b.full_like(x, 0));
        let turns = b.divide(away, spans)?;
        let turns = b.floor(turns);
        let rest = b.remainder(away, spans)?;
        let parity = linear(b, turns, 0.5, 0.0)?;
        let whole = b.floor(parity);
        let even = b.compare(whole, Direction::EQ, parity)?;
        let there = linear(b, rest, 1.0, low)?;
        let back = linear(b, rest, -1.0, span + low)?;
        let reflected = b.select(even, there, back)?;
        let negative = b.compare(moved, Direction::LT, zero)?;
        let odd = b.not(even);
        let turned = b.xor(negative, odd)?;
        let (plus, minus) = (b.full_like(x, 1), b.full_like(x, -1));
        Ok((reflected, b.select(turned, minus, plus)?))
    }

    fn cubic(&self, b: &mut B, source: Value) -> Result<Vec<Tap>> {
        let first = b.floor(source);
        let t = b.subtract(source, first)?;
        let (near, far) = (
            [A + 2.0, -(A + 3.0), 0.0, 1.0],
            [A, -5.0 * A, 8.0 * A, -4.0 * A],
        );
        let mut taps = Vec::new();
        for (k, kernel) in [far, near, near, far].into_iter().enumerate() {
            // The distance from the sample, growing or shrinking with its coordinate.
            let grows = if k < 2 { 1.0 } else { -1.0 };
            let x = linear(b, t, grows, [1.0, 0.0, 1.0, 2.0][k])?;
            let weight = polynomial(b, x, kernel)?;
            let slope = [0.0, 3.0 * kernel[0], 2.0 * kernel[1], kernel[2]].map(|c| c * grows);
            let slope = polynomial(b, x, slope)?;
            let at = linear(b, first, 1.0, k as f64 - 1.0)?;
            let (at, _) = self.bring_inside(b, at)?;
            taps.push(Tap { at, weight, slope });
        }
        Ok(taps)
    }

    /// Whether the image has an element `at`.
    pub(super) fn contains(&self, b: &mut B, at: Value) -> Result<Value> {
        let (low, high) = (b.full_like(at, 0), b.full_like(at, (self.size - 1) as f64));
        let after = b.compare(at, Direction::GE, low)?;
        let before = b.compare(at, Direction::LE, high)?;
        Ok(b.and(after, before)?)
    }
}

fn neighbours(b: &mut B, source: Value) -> Result<Vec<Tap>> {
    let first = b.floor(source);
    let second = linear(b, first, 1.0, 1.0)?;
    let rest = b.subtract(second, source)?;
    let behind = b.subtract(source, first)?;
    let (minus, plus) = (b.full_like(source, -1), b.full_like(source, 1));
    let before = Tap {
        at: first,
        weight: rest,
        slope: minus,
    };
    Ok(vec![
        before,
        Tap {
            at: second,
            weight: behind,
            slope: plus,
        },
    ])
}
