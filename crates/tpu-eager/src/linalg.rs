//! Linear algebra on the host: the functions that programs call as `tpu_linalg_*`.
//!
//! XLA's CPU plugin has no factorisations. These follow LAPACK in what they return (packed
//! factors, signs, exchanges counted from 1, which pivot failed) and compute in double precision.
//! Matrices are the last two dimensions of an operand, those before are a batch.
mod cholesky;
mod eig;
mod eigh;
mod ldl;
mod lu;
mod matrix;
mod number;
mod qr;
mod svd;
mod triangular;

#[cfg(test)]
mod tests;

use matrix::Matrix;
use number::{Complex, Number};
use tpu_pjrt::{Code, CustomCall, ElementType, Error, Plugin, Result, Shape, View, ViewMut};

/// A function for every kind of number.
macro_rules! handlers { ($plugin:ident, $($name:ident)*) => { $(
    let known = $plugin.register_ffi(concat!("tpu_linalg_", stringify!($name)), |call| {
        any(call, $name::<f64>, $name::<Complex>)
    });
    once(known)?;
)* }; }

/// Makes the functions known to a plugin whose programs run on the host.
///
/// # Errors
/// What the plugin says.
pub(crate) fn register(plugin: &Plugin) -> Result<()> {
    handlers! { plugin,
        cholesky eig eigh geqrf householder ldl ldl_solve lu lu_solve svd triangular
    }
    once(plugin.register_ffi("tpu_linalg_permutation", permutation))
}

/// A plugin that is opened again knows the functions already.
fn once(known: Result<()>) -> Result<()> {
    match known {
        Err(error) if error.code() == Code::AlreadyExists => Ok(()),
        other => other,
    }
}

type Handler = fn(&mut CustomCall<'_>) -> Result<()>;

/// Calls the handler for the kind of number that the first operand holds.
fn any(call: &mut CustomCall<'_>, real: Handler, complex: Handler) -> Result<()> {
    match input(call, 0)?.shape().ty {
        ElementType::C64 | ElementType::C128 => complex(call),
        _ => real(call),
    }
}

fn input<'c, 'a>(call: &'c CustomCall<'a>, index: usize) -> Result<&'c View<'a>> {
    call.inputs
        .get(index)
        .ok_or_else(|| wrong("an operand is missing"))
}

fn output<'c, 'a>(call: &'c mut CustomCall<'a>, index: usize) -> Result<&'c mut ViewMut<'a>> {
    call.outputs
        .get_mut(index)
        .ok_or_else(|| wrong("a result is missing"))
}

#[cold]
fn wrong(message: &str) -> Error {
    Error::new(Code::InvalidArgument, message)
}

/// Sizes of the trailing dimension and of the one before it; missing ones count as 1.
fn tail(shape: &Shape) -> (usize, usize) {
    let size = |back: usize| {
        let index = shape.dims.len().checked_sub(back)?;
        usize::try_from(shape.dims[index]).ok()
    };
    (size(2).unwrap_or(1), size(1).unwrap_or(1))
}

/// How many matrices an operand holds.
fn batch(shape: &Shape) -> usize {
    let leading = shape.dims.len().saturating_sub(2);
    let sizes = shape.dims[..leading].iter();
    sizes.map(|d| usize::try_from(*d).unwrap_or(0)).product()
}

/// The `index`-th matrix of an operand.
fn load<T: Number>(view: &View<'_>, index: usize) -> Result<Matrix<T>> {
    let (rows, columns) = tail(view.shape());
    load_as(view, index, rows, columns)
}

/// The `index`-th vector of an operand, as a matrix of one column.
fn load_vector<T: Number>(view: &View<'_>, index: usize) -> Result<Matrix<T>> {
    load_as(view, index, tail(view.shape()).1, 1)
}

fn load_as<T: Number>(
    view: &View<'_>,
    index: usize,
    rows: usize,
    columns: usize,
) -> Result<Matrix<T>> {
    let range = index * rows * columns..(index + 1) * rows * columns;
    let short = || wrong("an operand is too small");
    Ok(match view.shape().ty {
        ElementType::F32 => {
            let part = view.as_slice::<f32>()?.get(range).ok_or_else(short)?;
            Matrix::from_rows(rows, columns, part, |x| T::new(f64::from(x), 0.0))
        }
        ElementType::F64 => {
            let part = view.as_slice::<f64>()?.get(range).ok_or_else(short)?;
            Matrix::from_rows(rows, columns, part, |x| T::new(x, 0.0))
        }
        ElementType::C64 => {
            let part = view.as_slice::<[f32; 2]>()?.get(range).ok_or_else(short)?;
            Matrix::from_rows(rows, columns, part, |[re, im]| T::new(re.into(), im.into()))
        }
        _ => {
            let part = view.as_slice::<[f64; 2]>()?.get(range).ok_or_else(short)?;
            Matrix::from_rows(rows, columns, part, |[re, im]| T::new(re, im))
        }
    })
}

/// Writes the `index`-th matrix of a result.
fn store<T: Number>(view: &mut ViewMut<'_>, index: usize, a: &Matrix<T>) -> Result<()> {
    let size = a.rows() * a.columns();
    let range = index * size..(index + 1) * size;
    let short = || wrong("a result is too small");
    match view.shape().ty {
        ElementType::F32 => {
            let part = view
                .as_mut_slice::<f32>()?
                .get_mut(range)
                .ok_or_else(short)?;
            a.to_rows(part, |x| x.re() as f32);
        }
        ElementType::F64 => {
            let part = view
                .as_mut_slice::<f64>()?
                .get_mut(range)
                .ok_or_else(short)?;
            a.to_rows(part, Number::re);
        }
        ElementType::C64 => {
            let part = view
                .as_mut_slice::<[f32; 2]>()?
                .get_mut(range)
                .ok_or_else(short)?;
            a.to_rows(part, |x| [x.re() as f32, x.im() as f32]);
        }
        _ => {
            let part = view
                .as_mut_slice::<[f64; 2]>()?
                .get_mut(range)
                .ok_or_else(short)?;
            a.to_rows(part, |x| [x.re(), x.im()]);
        }
    }
    Ok(())
}

/// Writes the `index`-th group of integers of a result.
fn store_ints(view: &mut ViewMut<'_>, index: usize, ints: &[i32]) -> Result<()> {
    let range = index * ints.len()..(index + 1) * ints.len();
    let part = view.as_mut_slice::<i32>()?.get_mut(range);
    part.ok_or_else(|| wrong("a result is too small"))?
        .copy_from_slice(ints);
    Ok(())
}

/// The `index`-th group of integers of an operand.
fn ints<'c>(view: &'c View<'_>, index: usize) -> Result<&'c [i32]> {
    let count = tail(view.shape()).1;
    let part = view
        .as_slice::<i32>()?
        .get(index * count..(index + 1) * count);
    part.ok_or_else(|| wrong("an operand is too small"))
}

fn cholesky<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let upper = call.attributes.bool("upper")?;
    for i in 0..batch(input(call, 0)?.shape()) {
        let mut a = load::<T>(input(call, 0)?, i)?;
        let info = cholesky::factor(&mut a, upper);
        store(output(call, 0)?, i, &a)?;
        store_ints(output(call, 1)?, i, &[info])?;
    }
    Ok(())
}

fn triangular<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let rule = triangular::Rule {
        upper: call.attributes.bool("upper")?,
        unit: call.attributes.bool("unit")?,
        adjoint: call.attributes.bool("adjoint")?,
    };
    for i in 0..batch(input(call, 0)?.shape()) {
        let a = load::<T>(input(call, 0)?, i)?;
        let mut x = load::<T>(input(call, 1)?, i)?;
        rule.solve(&a, &mut x);
        store(output(call, 0)?, i, &x)?;
    }
    Ok(())
}

fn lu<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let pivot = call.attributes.bool("pivot")?;
    for i in 0..batch(input(call, 0)?.shape()) {
        let mut a = load::<T>(input(call, 0)?, i)?;
        let (pivots, info) = lu::factor(&mut a, pivot);
        store(output(call, 0)?, i, &a)?;
        store_ints(output(call, 1)?, i, &pivots)?;
        store_ints(output(call, 2)?, i, &[info])?;
    }
    Ok(())
}

fn lu_solve<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let adjoint = call.attributes.bool("adjoint")?;
    for i in 0..batch(input(call, 0)?.shape()) {
        let a = load::<T>(input(call, 0)?, i)?;
        let mut x = load::<T>(input(call, 2)?, i)?;
        lu::solve(&a, ints(input(call, 1)?, i)?, &mut x, adjoint);
        store(output(call, 0)?, i, &x)?;
    }
    Ok(())
}

/// Exchanges as the order of rows that they lead to.
fn permutation(call: &mut CustomCall<'_>) -> Result<()> {
    let rows = tail(output(call, 0)?.shape()).1;
    let pivots = input(call, 0)?.shape();
    let leading = pivots.dims.len().saturating_sub(1);
    let sizes = pivots.dims[..leading].iter();
    let count: usize = sizes.map(|d| usize::try_from(*d).unwrap_or(0)).product();
    for i in 0..count {
        let order = lu::order(ints(input(call, 0)?, i)?, rows);
        store_ints(output(call, 0)?, i, &order)?;
    }
    Ok(())
}

fn geqrf<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    for i in 0..batch(input(call, 0)?.shape()) {
        let mut a = load::<T>(input(call, 0)?, i)?;
        let tau = qr::factor(&mut a);
        store(output(call, 0)?, i, &a)?;
        store(output(call, 1)?, i, &Matrix::column_of(tau))?;
    }
    Ok(())
}

fn householder<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let columns = tail(output(call, 0)?.shape()).1;
    for i in 0..batch(input(call, 0)?.shape()) {
        let a = load::<T>(input(call, 0)?, i)?;
        let tau = load_vector::<T>(input(call, 1)?, i)?;
        let q = qr::product(&a, tau.column(0), columns);
        store(output(call, 0)?, i, &q)?;
    }
    Ok(())
}

fn ldl<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let hermitian = call.attributes.bool("hermitian")?;
    for i in 0..batch(input(call, 0)?.shape()) {
        let mut a = load::<T>(input(call, 0)?, i)?;
        let (pivots, info) = ldl::factor(&mut a, hermitian);
        store(output(call, 0)?, i, &a)?;
        store_ints(output(call, 1)?, i, &pivots)?;
        store_ints(output(call, 2)?, i, &[info])?;
    }
    Ok(())
}

fn ldl_solve<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let hermitian = call.attributes.bool("hermitian")?;
    for i in 0..batch(input(call, 0)?.shape()) {
        let a = load::<T>(input(call, 0)?, i)?;
        let mut x = load::<T>(input(call, 2)?, i)?;
        ldl::solve(&a, ints(input(call, 1)?, i)?, &mut x, hermitian);
        store(output(call, 0)?, i, &x)?;
    }
    Ok(())
}

fn eigh<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let upper = call.attributes.bool("upper")?;
    for i in 0..batch(input(call, 0)?.shape()) {
        let a = load::<T>(input(call, 0)?, i)?;
        let (values, vectors) = eigh::decompose(a, upper);
        store(output(call, 0)?, i, &Matrix::column_of(values))?;
        store(output(call, 1)?, i, &vectors)?;
    }
    Ok(())
}

fn svd<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    let (rows, left) = tail(output(call, 0)?.shape());
    for i in 0..batch(input(call, 0)?.shape()) {
        let a = load::<T>(input(call, 0)?, i)?;
        let full = left == rows && tail(output(call, 2)?.shape()).0 == a.columns();
        let (u, s, vh) = svd::decompose(a, full);
        store(output(call, 0)?, i, &u)?;
        store(output(call, 1)?, i, &Matrix::column_of(s))?;
        store(output(call, 2)?, i, &vh)?;
    }
    Ok(())
}

fn eig<T: Number>(call: &mut CustomCall<'_>) -> Result<()> {
    for i in 0..batch(input(call, 0)?.shape()) {
        let a = load::<T>(input(call, 0)?, i)?;
        let (values, vectors) = eig::decompose(&a);
        store(output(call, 0)?, i, &Matrix::column_of(values))?;
        store(output(call, 1)?, i, &vectors)?;
    }
    Ok(())
}
