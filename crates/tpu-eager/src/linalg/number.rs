//! Real and complex numbers in double precision.
use std::ops::{Add, Div, Mul, Neg, Sub};

/// What the algorithms need of a number.
pub(super) trait Number:
    Copy
    + PartialEq
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// From its parts; a real number drops the imaginary one.
    fn new(re: f64, im: f64) -> Self;
    /// The real part.
    fn re(self) -> f64;
    /// The imaginary part.
    fn im(self) -> f64;

    /// 0
    fn zero() -> Self {
        Self::new(0.0, 0.0)
    }

    /// 1
    fn one() -> Self {
        Self::new(1.0, 0.0)
    }

    /// The complex conjugate.
    fn conj(self) -> Self {
        Self::new(self.re(), -self.im())
    }

    /// Multiplied by a real number.
    fn scale(self, by: f64) -> Self {
        Self::new(self.re() * by, self.im() * by)
    }

    /// The magnitude.
    fn abs(self) -> f64 {
        self.re().hypot(self.im())
    }

    /// The sum of the parts' magnitudes, by which LAPACK chooses pivots.
    fn abs1(self) -> f64 {
        self.re().abs() + self.im().abs()
    }

    /// The squared magnitude.
    fn norm2(self) -> f64 {
        self.re() * self.re() + self.im() * self.im()
    }
}

impl Number for f64 {
    fn new(re: f64, _: f64) -> Self {
        re
    }
    fn re(self) -> f64 {
        self
    }
    fn im(self) -> f64 {
        0.0
    }
    fn abs(self) -> f64 {
        self.abs()
    }
}

/// A complex number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Complex {
    re: f64,
    im: f64,
}

impl Number for Complex {
    fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }
    fn re(self) -> f64 {
        self.re
    }
    fn im(self) -> f64 {
        self.im
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, y: Self) -> Self {
        Self::new(self.re + y.re, self.im + y.im)
    }
}
impl Sub for Complex {
    type Output = Self;
    fn sub(self, y: Self) -> Self {
        Self::new(self.re - y.re, self.im - y.im)
    }
}
impl Mul for Complex {
    type Output = Self;
    fn mul(self, y: Self) -> Self {
        Self::new(
            self.re * y.re - self.im * y.im,
            self.re * y.im + self.im * y.re,
        )
    }
}
impl Div for Complex {
    type Output = Self;
    /// Smith's division, which does not overflow on the way.
    fn div(self, y: Self) -> Self {
        if y.re.abs() >= y.im.abs() {
            let ratio = y.im / y.re;
            let scale = y.re + y.im * ratio;
            Self::new(
                (self.re + self.im * ratio) / scale,
                (self.im - self.re * ratio) / scale,
            )
        } else {
            let ratio = y.re / y.im;
            let scale = y.re * ratio + y.im;
            Self::new(
                (self.re * ratio + self.im) / scale,
                (self.im * ratio - self.re) / scale,
            )
        }
    }
}
impl Neg for Complex {
    type Output = Self;
    fn neg(self) -> Self {
        Self::new(-self.re, -self.im)
    }
}
