//! Eigenvalues and eigenvectors of any matrices: balancing, Hessenberg's form, shifted QR steps in
//! complex arithmetic, and back substitution.
use super::matrix::{Matrix, norm};
use super::number::{Complex, Number};
use super::qr::{reflect, reflection};

/// QR steps per eigenvalue before giving up; three are usual.
const MOST_STEPS: usize = 90;

/// Eigenvalues, and the eigenvectors of norm 1 as columns; NaN where the iteration does not
/// converge. Those of a real matrix are real or come in conjugate pairs.
pub(super) fn decompose<T: Number>(a: &Matrix<T>) -> (Vec<Complex>, Matrix<Complex>) {
    let n = a.columns();
    let mut h = Matrix::zeros(n, n);
    let mut is_real = true;
    for j in 0..n {
        for i in 0..n {
            let x = a[(i, j)];
            is_real &= x.im() == 0.0;
            h[(i, j)] = Complex::new(x.re(), x.im());
        }
    }
    let scales = balance(&mut h);
    let mut z = hessenberg(&mut h);
    if !triangularize(&mut h, &mut z) {
        let nan = Complex::new(f64::NAN, f64::NAN);
        z.map(|_| nan);
        return (vec![nan; n], z);
    }
    let mut values: Vec<Complex> = (0..n).map(|i| h[(i, i)]).collect();
    let mut vectors = z.multiply(&substitute(&h));
    for j in 0..n {
        let column = vectors.column_mut(j);
        for (x, scale) in column.iter_mut().zip(&scales) {
            *x = x.scale(*scale);
        }
        normalize(column);
    }
    if is_real {
        pair_up(&mut values, &mut vectors, h.largest());
    }
    (values, vectors)
}

/// Scales rows and columns by powers of two until their norms are alike; returns the scales.
fn balance(a: &mut Matrix<Complex>) -> Vec<f64> {
    let n = a.columns();
    let mut scales = vec![1.0; n];
    for _ in 0..MOST_STEPS {
        let mut settled = true;
        for i in 0..n {
            let others = (0..n).filter(|j| *j != i);
            let (mut column, mut row) = (0.0, 0.0);
            for j in others {
                column += a[(j, i)].abs1();
                row += a[(i, j)].abs1();
            }
            if column == 0.0 || row == 0.0 || !(column + row).is_finite() {
                continue;
            }
            let factor = ((row / column).log2() * 0.5)
                .round()
                .clamp(-500.0, 500.0)
                .exp2();
            if (column * factor + row / factor) < 0.95 * (column + row) {
                settled = false;
                scales[i] *= factor;
                for j in 0..n {
                    a[(i, j)] = a[(i, j)].scale(1.0 / factor);
                }
                a.column_mut(i)
                    .iter_mut()
                    .for_each(|x| *x = x.scale(factor));
            }
        }
        if settled {
            break;
        }
    }
    scales
}

/// Makes `a` zero below its subdiagonal by a unitary similarity, which is returned.
fn hessenberg(a: &mut Matrix<Complex>) -> Matrix<Complex> {
    let n = a.columns();
    let mut kept = Vec::new();
    for k in 0..n.saturating_sub(2) {
        let tau = reflection(&mut a.column_mut(k)[k + 1..]);
        let tail: Vec<Complex> = a.column(k)[k + 2..].to_vec();
        a.column_mut(k)[k + 2..].fill(Complex::zero());
        for j in k + 1..n {
            reflect(&mut a.column_mut(j)[k + 1..], &tail, tau.conj());
        }
        reflect_rows(a, k + 1, &tail, tau);
        kept.push((tail, tau));
    }
    let mut q = Matrix::identity(n, n);
    for (k, (tail, tau)) in kept.iter().enumerate().rev() {
        for j in k + 1..n {
            reflect(&mut q.column_mut(j)[k + 1..], tail, *tau);
        }
    }
    q
}

/// `a -= tau * (a @ v) @ v^H` for a `v` that starts at `first` with 1.
fn reflect_rows(a: &mut Matrix<Complex>, first: usize, tail: &[Complex], tau: Complex) {
    for i in 0..a.rows() {
        let mut share = a[(i, first)];
        for (j, v) in tail.iter().enumerate() {
            share = share + a[(i, first + 1 + j)] * *v;
        }
        let share = share * tau;
        a[(i, first)] = a[(i, first)] - share;
        for (j, v) in tail.iter().enumerate() {
            a[(i, first + 1 + j)] = a[(i, first + 1 + j)] - share * v.conj();
        }
    }
}

/// QR steps until `h` is triangular, gathered in `z`; false when they do not converge.
fn triangularize(h: &mut Matrix<Complex>, z: &mut Matrix<Complex>) -> bool {
    let n = h.columns();
    let size = h.largest();
    let (mut end, mut steps) = (n, 0);
    while end > 1 {
        let hi = end - 1;
        let mut lo = hi;
        while lo > 0 && !is_small(h, lo, size) {
            lo -= 1;
        }
        if lo > 0 {
            h[(lo, lo - 1)] = Complex::zero();
        }
        if lo == hi {
            (end, steps) = (end - 1, 0);
            continue;
        }
        steps += 1;
        if steps > MOST_STEPS || !h[(hi, hi)].abs().is_finite() {
            return false;
        }
        let shift = if steps % 10 == 0 {
            // An unrelated shift breaks cycles.
            h[(hi, hi)] + Complex::new(h[(hi, hi - 1)].abs1(), 0.0)
        } else {
            wilkinson(h, hi)
        };
        chase(h, z, lo, hi, shift);
    }
    true
}

/// Whether the element left of the diagonal in row `i` is too small to matter.
fn is_small(h: &Matrix<Complex>, i: usize, size: f64) -> bool {
    let near = h[(i, i)].abs1() + h[(i - 1, i - 1)].abs1();
    let near = if near == 0.0 { size } else { near };
    h[(i, i - 1)].abs1() <= f64::EPSILON * near
}

/// The eigenvalue of the last two rows that is nearer to the last diagonal element.
fn wilkinson(h: &Matrix<Complex>, hi: usize) -> Complex {
    let (a, b) = (h[(hi - 1, hi - 1)], h[(hi - 1, hi)]);
    let (c, d) = (h[(hi, hi - 1)], h[(hi, hi)]);
    let half = (a - d).scale(0.5);
    let root = square_root(half * half + b * c);
    let sum = if (half + root).abs() >= (half - root).abs() {
        half + root
    } else {
        half - root
    };
    if sum == Complex::zero() {
        d
    } else {
        d - b * c / sum
    }
}

fn square_root(x: Complex) -> Complex {
    let size = x.abs();
    let re = ((size + x.re()) * 0.5).max(0.0).sqrt();
    let im = ((size - x.re()) * 0.5).max(0.0).sqrt();
    Complex::new(re, im.copysign(x.im()))
}

/// One QR step on rows `lo..=hi`: a bulge is made by the shift and chased down.
fn chase(h: &mut Matrix<Complex>, z: &mut Matrix<Complex>, lo: usize, hi: usize, shift: Complex) {
    let n = h.columns();
    let (mut x, mut y) = (h[(lo, lo)] - shift, h[(lo + 1, lo)]);
    for k in lo..hi {
        let (c, s) = givens(x, y);
        for j in k.saturating_sub(usize::from(k > lo))..n {
            let (p, q) = (h[(k, j)], h[(k + 1, j)]);
            h[(k, j)] = p.scale(c) + s * q;
            h[(k + 1, j)] = q.scale(c) - s.conj() * p;
        }
        let rows = (k + 3).min(hi + 1);
        turn_columns(h, k, rows, c, s);
        turn_columns(z, k, n, c, s);
        if k + 1 < hi {
            (x, y) = (h[(k + 1, k)], h[(k + 2, k)]);
        }
    }
}

/// Applies the adjoint of a rotation to columns `k` and `k + 1` from the right.
fn turn_columns(a: &mut Matrix<Complex>, k: usize, rows: usize, c: f64, s: Complex) {
    let (p, q) = a.columns_mut(k, k + 1);
    for (p, q) in p[..rows].iter_mut().zip(q) {
        (*p, *q) = (p.scale(c) + s.conj() * *q, q.scale(c) - s * *p);
    }
}

/// `(c, s)` with `[c, s; -conj(s), c] @ [x; y] = [r; 0]`.
fn givens(x: Complex, y: Complex) -> (f64, Complex) {
    let (first, second) = (x.abs(), y.abs());
    let r = first.hypot(second);
    if r == 0.0 {
        return (1.0, Complex::zero());
    }
    if first == 0.0 {
        return (0.0, y.conj().scale(1.0 / second));
    }
    let phase = x.scale(1.0 / first);
    (first / r, phase * y.conj().scale(1.0 / r))
}

/// Eigenvectors of a triangular matrix, as columns of a triangular one.
fn substitute(t: &Matrix<Complex>) -> Matrix<Complex> {
    let n = t.columns();
    let least = (f64::EPSILON * t.largest()).max(f64::MIN_POSITIVE);
    let mut y = Matrix::zeros(n, n);
    for k in 0..n {
        y[(k, k)] = Complex::one();
        for i in (0..k).rev() {
            let sum = (i + 1..=k).fold(Complex::zero(), |sum, j| sum + t[(i, j)] * y[(j, k)]);
            let mut gap = t[(k, k)] - t[(i, i)];
            if gap.abs1() < least {
                gap = Complex::new(least, 0.0);
            }
            y[(i, k)] = sum / gap;
        }
        let size = norm(&y.column(k)[..=k]);
        y.column_mut(k)
            .iter_mut()
            .for_each(|x| *x = x.scale(1.0 / size));
    }
    y
}

/// Norm 1, and the largest element real.
fn normalize(x: &mut [Complex]) {
    let size = norm(x);
    let mut best = Complex::one();
    let mut most = 0.0;
    for x in x.iter() {
        if x.norm2() > most {
            (most, best) = (x.norm2(), *x);
        }
    }
    let turn = best.conj().scale(1.0 / (best.abs() * size));
    x.iter_mut().for_each(|x| *x = *x * turn);
}

/// Takes rounding off the eigenvalues of a real matrix: real ones lose their imaginary part, the
/// others become conjugates of each other.
fn pair_up(values: &mut [Complex], vectors: &mut Matrix<Complex>, size: f64) {
    let n = values.len();
    let noise = f64::EPSILON * size * n as f64;
    let mut paired = vec![false; n];
    for i in 0..n {
        if values[i].im().abs() <= noise {
            paired[i] = true;
            values[i] = Complex::new(values[i].re(), 0.0);
            vectors
                .column_mut(i)
                .iter_mut()
                .for_each(|x| *x = Complex::new(x.re(), 0.0));
        }
    }
    for i in 0..n {
        if paired[i] {
            continue;
        }
        paired[i] = true;
        let other = values[i].conj();
        let gap = |j: &usize| (values[*j] - other).abs();
        let free = (0..n).filter(|j| !paired[*j]);
        let Some(j) = free.min_by(|p, q| gap(p).total_cmp(&gap(q))) else {
            continue;
        };
        paired[j] = true;
        values[j] = other;
        let (from, to) = vectors.two_columns(i, j);
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.conj();
        }
    }
}
