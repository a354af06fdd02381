//! Which input elements make up an output element, and with which weights. All arithmetic is
//! rounded as PyTorch's is, in float32 unless the image is of float64, since the last bit decides
//! which element is taken.
use super::Table;
use tpu_hlo::DType;

/// A way to resample along one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kernel {
    /// The element whose start is nearest.
    Nearest,
    /// The element whose centre is nearest.
    NearestExact,
    /// Two neighbours.
    Linear,
    /// Four neighbours.
    Cubic,
    /// As many neighbours as an output element covers: antialiased.
    Area(Filter),
}

/// The weight by distance of an antialiased kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filter {
    Linear,
    Cubic,
    Lanczos,
}

/// What a resampling along one dimension is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resampling {
    pub(super) input: i64,
    pub(super) output: i64,
    pub(super) align_corners: bool,
    /// The factor that the caller gave, which beats the ratio of the sizes.
    pub(super) factor: Option<f64>,
    /// Whether to compute in float64.
    pub(super) double: bool,
}

/// Sharpness of the cubic kernels: plain, antialiased.
const SHARPNESS: (f64, f64) = (-0.75, -0.5);

impl Resampling {
    pub(super) fn new(
        dtype: DType,
        (input, output): (i64, i64),
        align_corners: bool,
        factor: Option<f64>,
    ) -> Self {
        Self {
            input,
            output,
            align_corners,
            factor,
            double: dtype == DType::F64,
        }
    }

    /// Rounds to the type that is computed in.
    fn round(&self, x: f64) -> f64 {
        if self.double { x } else { f64::from(x as f32) }
    }

    /// Input elements per output element.
    fn scale(&self) -> f64 {
        if self.align_corners {
            let steps = self.output - 1;
            return if steps > 0 {
                self.round((self.input - 1) as f64 / steps as f64)
            } else {
                0.0
            };
        }
        match self.factor {
            Some(factor) if factor > 0.0 => self.round(1.0 / factor),
            _ => self.round(self.input as f64 / self.output as f64),
        }
    }

    pub(super) fn table(&self, kernel: Kernel) -> Table {
        let rows = (0..self.output).map(|o| match kernel {
            Kernel::Nearest | Kernel::NearestExact => vec![(self.nearest(kernel, o), 1.0)],
            Kernel::Linear => self.linear(o),
            Kernel::Cubic => self.cubic(o),
            Kernel::Area(filter) => self.area(filter, o),
        });
        Table::new(rows.collect(), self.input)
    }

    fn nearest(&self, kernel: Kernel, o: i64) -> i64 {
        let single = Self {
            double: false,
            align_corners: false,
            ..*self
        };
        let scale = single.scale();
        let source = if kernel == Kernel::NearestExact {
            single.round(single.round(o as f64 + 0.5) * scale)
        } else {
            single.round(o as f64 * scale)
        };
        (source.floor() as i64).clamp(0, self.input - 1)
    }

    /// Where output element `o` lies between the input elements, not before the first of them
    /// unless `unbounded`.
    fn source(&self, o: i64, unbounded: bool) -> f64 {
        let scale = self.scale();
        if self.align_corners {
            return self.round(scale * o as f64);
        }
        let centre = self.round(self.round(o as f64) + 0.5);
        let source = self.round(self.round(scale * centre) - 0.5);
        if unbounded { source } else { source.max(0.0) }
    }

    /// The element at or before `source`, and how far behind it that lies.
    fn guard(&self, source: f64) -> (i64, f64) {
        let first = (source.floor() as i64).min(self.input - 1);
        (first, self.round(source - first as f64).clamp(0.0, 1.0))
    }

    fn linear(&self, o: i64) -> Vec<(i64, f64)> {
        if self.input == self.output {
            return vec![(o, 1.0)];
        }
        let (first, behind) = self.guard(self.source(o, false));
        let second = (first + 1).min(self.input - 1);
        vec![(first, self.round(1.0 - behind)), (second, behind)]
    }

    fn cubic(&self, o: i64) -> Vec<(i64, f64)> {
        let (first, t) = self.guard(self.source(o, true));
        let weights = self.cubic_weights(t);
        let element = |k: i64| (first + k - 1).clamp(0, self.input - 1);
        (0..4).map(|k| (element(k), weights[k as usize])).collect()
    }

    fn cubic_weights(&self, t: f64) -> [f64; 4] {
        let a = SHARPNESS.0;
        let near = |x: f64| self.round(((a + 2.0) * x - (a + 3.0)) * x * x + 1.0);
        let far = |x: f64| self.round(((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a);
        let rest = self.round(1.0 - t);
        [far(t + 1.0), near(t), near(rest), far(rest + 1.0)]
    }

    fn area(&self, filter: Filter, o: i64) -> Vec<(i64, f64)> {
        let scale = self.scale();
        let reach = filter.reach();
        let support = if scale >= 1.0 {
            self.round(reach * scale)
        } else {
            reach
        };
        let most = support.ceil() as i64 * 2 + 1;
        let shrink = if scale >= 1.0 {
            self.round(1.0 / scale)
        } else {
            1.0
        };
        let centre = self.round(scale * (o as f64 + 0.5));
        let lower = self.round(self.round(centre - support) + 0.5);
        let upper = self.round(self.round(centre + support) + 0.5);
        let first = (lower as i64).max(0);
        let count = ((upper as i64).min(self.input) - first).clamp(0, most);
        let weight = |k: i64| {
            let away = self.round(self.round((k + first) as f64 - centre) + 0.5);
            self.round(filter.weight(self.round(away * shrink)))
        };
        let weights: Vec<f64> = (0..count).map(weight).collect();
        let total = weights.iter().fold(0.0, |sum, w| self.round(sum + w));
        let total = if total == 0.0 { 1.0 } else { total };
        weights
            .iter()
            .zip(first..)
            .map(|(w, i)| (i, self.round(w / total)))
            .collect()
    }
}

impl Filter {
    /// Half of the kernel's width in output elements.
    fn reach(self) -> f64 {
        match self {
            Self::Linear => 1.0,
            Self::Cubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        let x = x.abs();
        match self {
            _ if x >= self.reach() => 0.0,
            Self::Linear => 1.0 - x,
            Self::Cubic => {
                let a = SHARPNESS.1;
                if x < 1.0 {
                    ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
                } else {
                    ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
                }
            }
            Self::Lanczos => sinc(x) * sinc(x / 3.0),
        }
    }
}

fn sinc(x: f64) -> f64 {
    let x = x * std::f64::consts::PI;
    if x == 0.0 { 1.0 } else { x.sin() / x }
}
