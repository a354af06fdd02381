//! Windows that slide over dimensions, and back.
use crate::{
    Op, Result, check, error::ensure, index::take_slices, op::op, reduce::position_dtype,
    scatter::add_slices,
};
use tpu_hlo::{Builder, Dims, Value};

type B = Builder;

#[rustfmt::skip]
pub(crate) const OPS: &[Op] = &[
    op!("col2im",          col2im),
    op!("im2col",          im2col),
    op!("unfold_backward", unfold_backward),
];

/// A window that slides along one dimension.
#[derive(Clone, Copy, Debug)]
struct Slide {
    size: i64,
    dilation: i64,
    padding: i64,
    stride: i64,
}

impl Slide {
    /// How many places the window takes in a dimension of size `n`.
    fn places(self, n: i64) -> i64 {
        (n + 2 * self.padding - self.dilation * (self.size - 1) - 1).div_euclid(self.stride) + 1
    }

    /// The position in the padded dimension of each window element at each place, `[size, places]`.
    fn positions(self, b: &mut B, places: i64) -> Result<Value> {
        let dims = [self.size, places];
        let at = position_dtype((places * self.stride + self.size * self.dilation).max(1));
        let (element, place) = (b.iota(at, &dims, 0), b.iota(at, &dims, 1));
        let (dilation, stride) = (
            b.full(self.dilation, at, &dims),
            b.full(self.stride, at, &dims),
        );
        let (element, place) = (b.multiply(element, dilation)?, b.multiply(place, stride)?);
        Ok(b.add(element, place)?)
    }
}

/// Height and width.
fn slides(kernel: &Dims, dilation: &Dims, padding: &Dims, stride: &Dims) -> Result<[Slide; 2]> {
    for (name, list, least) in [
        ("kernel_size", kernel, 1),
        ("dilation", dilation, 1),
        ("padding", padding, 0),
        ("stride", stride, 1),
    ] {
        ensure!(
            list.len() == 2,
            "It is expected {name} equals to 2, but got size {}",
            list.len()
        );
        let bound = if least == 1 {
            "greater than zero"
        } else {
            "non-negative"
        };
        ensure!(
            list.iter().all(|v| *v >= least),
            "{name} should be {bound}, but got {name}_height: {} {name}_width: {}",
            list[0],
            list[1]
        );
    }
    let slide = |i: usize| Slide {
        size: kernel[i],
        dilation: dilation[i],
        padding: padding[i],
        stride: stride[i],
    };
    Ok([slide(0), slide(1)])
}

/// `[N, C, H, W]` to `[N, C * kH * kW, places]`, `N` optional.
fn im2col(
    b: &mut B,
    x: Value,
    kernel: Dims,
    dilation: Dims,
    padding: Dims,
    stride: Dims,
) -> Result<Value> {
    let slides = slides(&kernel, &dilation, &padding, &stride)?;
    let dims = b.dims(x);
    let rank = dims.len();
    let valid = matches!(rank, 3 | 4) && dims[rank - 3..].iter().all(|d| *d != 0);
    ensure!(
        valid,
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero \
         dimensions for input, but got: {:?}",
        dims.as_slice()
    );
    let (n, c) = (if rank == 4 { dims[0] } else { 1 }, dims[rank - 3]);
    let mut x = b.reshape(x, &[n, c, dims[rank - 2], dims[rank - 1]])?;
    let mut places = [0; 2];
    for (i, slide) in slides.iter().enumerate() {
        places[i] = slide.places(dims[rank - 2 + i]);
        ensure!(
            places[i] > 0,
            "Given input with spatial size ({}, {}), kernel_size=({}, {}), dilation=({}, {}), \
             padding=({}, {}), calculated shape of the array of sliding blocks as ({}, {}), but \
             its components must be at least one.",
            dims[rank - 2],
            dims[rank - 1],
            kernel[0],
            kernel[1],
            dilation[0],
            dilation[1],
            padding[0],
            padding[1],
            slides[0].places(dims[rank - 2]),
            slides[1].places(dims[rank - 1])
        );
    }
    let edge: Dims = Dims::from_slice(&[0, 0, padding[0], padding[1]]);
    let zero = b.scalar(0, b.dtype(x));
    x = b.pad(x, zero, &edge, &edge, &[0; 4])?;
    let rows = slides[0].positions(b, places[0])?;
    x = take_slices(b, x, 2, rows)?;
    let columns = slides[1].positions(b, places[1])?;
    x = take_slices(b, x, 4, columns)?;
    let x = b.transpose(x, &[0, 1, 2, 4, 3, 5])?;
    let out = [n, c * kernel[0] * kernel[1], places[0] * places[1]];
    Ok(b.reshape(x, if rank == 4 { &out } else { &out[1..] })?)
}

/// The inverse of [`im2col`], where windows overlap the sum.
fn col2im(
    b: &mut B,
    x: Value,
    output: Dims,
    kernel: Dims,
    dilation: Dims,
    padding: Dims,
    stride: Dims,
) -> Result<Value> {
    let slides = slides(&kernel, &dilation, &padding, &stride)?;
    ensure!(
        output.len() == 2,
        "It is expected output_size equals to 2, but got size {}",
        output.len()
    );
    let dims = b.dims(x);
    let rank = dims.len();
    ensure!(
        matches!(rank, 2 | 3) && dims[rank - 2..].iter().all(|d| *d != 0),
        "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero \
         dimensions for input, but got: {:?}",
        dims.as_slice()
    );
    let (window, n) = (kernel[0] * kernel[1], if rank == 3 { dims[0] } else { 1 });
    ensure!(
        dims[rank - 2] % window == 0,
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but \
         got input.size(1)={} and kernel_size=({}, {}).",
        dims[rank - 2],
        kernel[0],
        kernel[1]
    );
    let places = [slides[0].places(output[0]), slides[1].places(output[1])];
    ensure!(
        places[0] * places[1] == dims[rank - 1],
        "Given output_size=({}, {}), kernel_size=({}, {}), dilation=({}, {}), padding=({}, {}), \
         stride=({}, {}), expected size of input's dimension 2 to match the calculated number of \
         sliding blocks {} * {} = {}, but got input.size(2)={}.",
        output[0],
        output[1],
        kernel[0],
        kernel[1],
        dilation[0],
        dilation[1],
        padding[0],
        padding[1],
        stride[0],
        stride[1],
        places[0],
        places[1],
        places[0] * places[1],
        dims[rank - 1]
    );
    let c = dims[rank - 2] / window;
    let x = b.reshape(x, &[n, c, kernel[0], kernel[1], places[0], places[1]])?;
    let x = b.transpose(x, &[0, 1, 2, 4, 3, 5])?;
    let x = fold(b, x, 4, slides[1], output[1])?;
    let x = fold(b, x, 2, slides[0], output[0])?;
    let out = [n, c, output[0], output[1]];
    Ok(b.reshape(x, if rank == 3 { &out } else { &out[1..] })?)
}

/// Dimensions `axis` and `axis + 1`, window element and place, become one of size `n`.
fn fold(b: &mut B, x: Value, axis: usize, slide: Slide, n: i64) -> Result<Value> {
    let mut dims = b.dims(x);
    let places = dims.remove(axis + 1);
    dims[axis] = slide.size * places;
    let x = b.reshape(x, &dims)?;
    let index = slide.positions(b, places)?;
    let index = b.reshape(index, &[slide.size * places])?;
    dims[axis] = n + 2 * slide.padding;
    let zeros = b.full(0, b.dtype(x), &dims);
    let y = add_slices(b, zeros, axis as i64, index, x)?;
    Ok(b.slice_dim(y, axis as i64, slide.padding, slide.padding + n)?)
}

/// The gradient of the view `unfold`: what its windows share is summed up.
fn unfold_backward(
    b: &mut B,
    grad: Value,
    sizes: Dims,
    dim: i64,
    size: i64,
    step: i64,
) -> Result<Value> {
    let axis = check::dim(dim, sizes.len())?;
    if sizes.is_empty() {
        return Ok(b.reshape(grad, &[])?);
    }
    let (places, last) = (b.dims(grad)[axis as usize], b.rank(grad) as i64 - 1);
    let mut order: Dims = (0..last).collect();
    order.insert(axis as usize, last);
    let grad = b.transpose(grad, &order)?;
    let mut dims = sizes.clone();
    dims[axis as usize] = size * places;
    let grad = b.reshape(grad, &dims)?;
    let slide = Slide {
        size,
        dilation: 1,
        padding: 0,
        stride: step,
    };
    let index = slide.positions(b, places)?;
    let index = b.reshape(index, &[size * places])?;
    let zeros = b.full(0, b.dtype(grad), &sizes);
    add_slices(b, zeros, axis, index, grad)
}

#[cfg(test)]
mod tests;
