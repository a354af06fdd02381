//! Derivatives of samples with respect to the shape of their distribution.
use super::supported;
use crate::{
    Result,
    formula::{X, formula},
};
use tpu_hlo::{Builder, DType, Value};

type B = Builder;

/// A polynomial by Horner's rule, lowest coefficient first.
fn polynomial<'f>(x: X<'f>, coefficients: &[f64]) -> X<'f> {
    let (last, rest) = coefficients.split_last().unwrap_or((&0.0, &[]));
    rest.iter().rev().fold(x.full(*last), |sum, c| sum * x + *c)
}

/// `d sample / d alpha` of a gamma number, by implicit differentiation: a Taylor series for small
/// samples, Rice's saddle point for large shapes, a rational fit between (as in PyTorch's
/// `standard_gamma_grad_one`)
pub(super) fn standard_gamma(b: &mut B, alpha: Value, sample: Value) -> Result<Value> {
    let dtype = b.dtype(alpha);
    supported(
        "_standard_gamma_grad_cpu",
        dtype,
        matches!(dtype, DType::F32 | DType::F64),
    )?;
    let y = formula(b, [alpha, sample], |[alpha, x]| {
        let large = alpha
            .gt(8.0)
            .pick(gamma_large(alpha, x), gamma_middle(alpha, x));
        x.lt(0.8).pick(gamma_small(alpha, x), large)
    })?;
    Ok(y)
}

fn zero_if_nan<'f>(x: X<'f>) -> X<'f> {
    x.is_nan().pick(x.full(0.0), x)
}

fn gamma_small<'f>(alpha: X<'f>, x: X<'f>) -> X<'f> {
    let (mut numer, mut denom) = (x.full(1.0), alpha);
    let (mut series1, mut series2) = (numer / denom, numer / (denom * denom));
    for i in 1..=5 {
        numer = numer * (-x / f64::from(i));
        denom = denom + 1.0;
        series1 = series1 + numer / denom;
        series2 = series2 + numer / (denom * denom);
    }
    let power = x.pow(alpha);
    let pdf = x.pow(alpha - 1.0) * (-x).exp();
    let cdf = power * series1;
    zero_if_nan(-((x.log() - alpha.digamma()) * cdf - power * series2) / pdf)
}

fn gamma_large<'f>(alpha: X<'f>, x: X<'f>) -> X<'f> {
    let square = alpha * alpha;
    let numer1 = alpha * 24.0 * (alpha * 12.0 + 1.0) + 1.0;
    let numer2 = square * 1440.0 + x * 6.0 * (x * -120.0 + 53.0) - x * x * 65.0 / alpha
        + alpha * (x * 3600.0 + 107.0);
    let near = numer1 * numer2 / (square * square * 1244160.0);
    let root = (alpha * 8.0).sqrt();
    let term2 = root / (alpha - x);
    let term3 = (x - alpha - alpha * (x / alpha).log()).pow(-1.5);
    let term23 = x.lt(alpha).pick(term2 - term3, term2 + term3);
    let term1 = (x / alpha).log() * term23
        - (2.0 / alpha).sqrt() * (alpha + x) / ((alpha - x) * (alpha - x));
    let inverse = 1.0 / alpha;
    let stirling = inverse / 12.0 * (inverse / 24.0 + 1.0) + 1.0;
    let far = -stirling * (x * term1) / root;
    let is_near = x.ge(alpha * 0.9) & x.le(alpha * 1.1);
    is_near.pick(near, far)
}

#[rustfmt::skip]
const GAMMA: [[f64; 8]; 3] = [
    [0.16009398, -0.094634809, 0.025146376, -0.0030648343,
     1.0, 0.32668115, 0.10406089, 0.0014179084],
    [0.53487893, 0.1298071, 0.065735949, -0.0015649758,
     0.16639465, 0.020070113, -0.0035938915, -0.00058392623],
    [0.040121004, -0.0065914022, -0.0026286047, -0.0013441777,
     0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07],
];

fn gamma_middle<'f>(alpha: X<'f>, x: X<'f>) -> X<'f> {
    let (u, v) = ((x / alpha).log(), alpha.log());
    let coefficient = |i: usize| polynomial(u, &[GAMMA[0][i], GAMMA[1][i], GAMMA[2][i]]);
    let cubic = |i: usize| {
        let top = coefficient(i + 2) + v * coefficient(i + 3);
        coefficient(i) + v * (coefficient(i + 1) + v * top)
    };
    (cubic(0) / cubic(4)).exp()
}

/// `d sample / d alpha` of a Dirichlet number, as PyTorch's `dirichlet_grad_one`: expansions at
/// both ends, a saddle point for large shapes, a rational fit between
pub(super) fn dirichlet(b: &mut B, x: Value, alpha: Value, total: Value) -> Result<Value> {
    let dtype = b.dtype(x);
    supported(
        "_dirichlet_grad_cpu",
        dtype,
        matches!(dtype, DType::F32 | DType::F64),
    )?;
    let y = formula(b, [x, alpha, total], |[x, alpha, total]| {
        let beta = total - alpha;
        let boundary = total * x * (1.0 - x);
        let both_large = alpha.gt(6.0) & beta.gt(6.0);
        let inner = both_large.pick(beta_large(x, alpha, beta), beta_middle(x, alpha, total));
        let one_side = x.ge(0.5) & boundary.lt(0.75);
        let right = one_side.pick(-beta_near_one(1.0 - x, beta, alpha), inner);
        let zero_side = x.le(0.5) & boundary.lt(2.5);
        zero_side.pick(beta_near_zero(x, alpha, beta), right)
    })?;
    Ok(y)
}

/// With respect to `alpha`, for `x` close to 0.
fn beta_near_zero<'f>(x: X<'f>, alpha: X<'f>, beta: X<'f>) -> X<'f> {
    let factor = alpha.digamma() - (alpha + beta).digamma() - x.log();
    let one = x.full(1.0);
    let mut numer = one;
    let mut series = (factor + one / alpha) / alpha;
    for i in 1..=10 {
        let i = f64::from(i);
        numer = numer * (-beta + i) * x / i;
        let denom = alpha + i;
        series = series + numer / denom * (factor + one / denom);
    }
    zero_if_nan(x * (1.0 - x).pow(-beta) * series)
}

/// With respect to `beta`, for `x` close to 0.
fn beta_near_one<'f>(x: X<'f>, alpha: X<'f>, beta: X<'f>) -> X<'f> {
    let factor = (alpha + beta).digamma() - beta.digamma();
    let (mut numer, mut betas, mut dbetas) = (x.full(1.0), x.full(1.0), x.full(0.0));
    let mut series = factor / alpha;
    for i in 1..=8 {
        let i = f64::from(i);
        numer = numer * -x / i;
        dbetas = dbetas * (beta - i) + betas;
        betas = betas * (beta - i);
        series = series + numer / (alpha + i) * (dbetas + factor * betas);
    }
    zero_if_nan(-((1.0 - x).pow(-beta + 1.0) * series))
}

/// With respect to `alpha`, for large `alpha` and `beta`.
fn beta_large<'f>(x: X<'f>, alpha: X<'f>, beta: X<'f>) -> X<'f> {
    let total = alpha + beta;
    let mean = alpha / total;
    let std = (alpha * beta / (total + 1.0)).sqrt() / total;
    let is_mean = x.ge(mean - std * 0.1) & x.le(mean + std * 0.1);
    is_mean.pick(beta_at_mean(x, alpha, beta), beta_off_mean(x, alpha, beta))
}

fn beta_at_mean<'f>(x: X<'f>, alpha: X<'f>, beta: X<'f>) -> X<'f> {
    let (total, rest) = (alpha + beta, -x + 1.0);
    let (beta2, beta3) = (beta * beta, beta * beta * beta);
    let c1 = ((beta * 27.0 + 16.0) * x * 20.0 + 43.0) * beta3;
    let c2 = (beta * 180.0 - x * 90.0 + 59.0) * beta2 * 3.0;
    let c3 = (rest * beta * 1620.0 - x * 455.0 + 453.0) * beta;
    let c4 = rest * (beta * 135.0 - 11.0) * 8.0;
    let poly = x * beta2 * beta2 * 47.0 + alpha * (c1 + alpha * (c2 + alpha * (c3 + alpha * c4)));
    let numer = (alpha * 12.0 + 1.0) * (beta * 12.0 + 1.0) / (total * total);
    let denom = alpha * alpha * alpha * beta2 * (total * 12.0 + 1.0) * 12960.0;
    numer / rest * poly / denom
}

fn beta_off_mean<'f>(x: X<'f>, alpha: X<'f>, beta: X<'f>) -> X<'f> {
    let (total, rest) = (alpha + beta, -x + 1.0);
    let gamma = |z: X<'f>| {
        let inverse = 1.0 / z;
        inverse * (inverse / 288.0 + 1.0 / 12.0) + 1.0
    };
    let stirling = gamma(alpha) * gamma(beta) / gamma(total);
    let prefactor = -x / (alpha * beta * 2.0 / total).sqrt();
    let axbx = beta * x - alpha * rest;
    let numer1 = -(alpha * alpha * rest * 2.0 + alpha * beta * rest + x * beta * beta);
    let denom1 = (alpha * 2.0 / beta).sqrt() * total.pow(1.5) * axbx * axbx;
    let term2 = (alpha / (total * x)).log() * 0.5;
    let term3 = (alpha * beta * 8.0 / total).sqrt() / axbx;
    let base = beta * (beta / (total * rest)).log() + alpha * (alpha / (total * x)).log();
    let term4 = base.pow(-1.5);
    let signed = x.lt(alpha / total).pick(term4, -term4);
    stirling * prefactor * (numer1 / denom1 + term2 * (term3 + signed))
}

#[rustfmt::skip]
const DIRICHLET: [[[[f64; 4]; 3]; 3]; 2] = [
    [[[1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
      [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
      [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013]],
     [[0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
      [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
      [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05]],
     [[-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
      [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
      [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05]]],
    [[[1.0, -0.02924021934, -0.04438342661, 0.007285809825],
      [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
      [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149]],
     [[0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
      [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
      [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05]],
     [[0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
      [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
      [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06]]],
];

fn beta_middle<'f>(x: X<'f>, alpha: X<'f>, total: X<'f>) -> X<'f> {
    let u = x.log();
    let a = alpha.log() - u;
    let b = total.log() - a;
    let fit = |table: &[[[f64; 4]; 3]; 3]| {
        let quadratic = |x: X<'f>, c: [X<'f>; 3]| c[0] + x * (c[1] + x * c[2]);
        quadratic(
            u,
            table
                .each_ref()
                .map(|row| quadratic(a, row.each_ref().map(|c| polynomial(b, c)))),
        )
    };
    let approx = x * (total.digamma() - alpha.digamma()) / (total - alpha);
    fit(&DIRICHLET[0]) / fit(&DIRICHLET[1]) * approx
}
