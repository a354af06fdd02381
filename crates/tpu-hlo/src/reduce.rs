//! Ops that fold many elements into one, and sorting.
use crate::{Builder, DType, Dims, Error, Result, Type, Value, shape::array};
use smallvec::SmallVec;

/// The window of [`Builder::reduce_window`], one entry per dimension of the operand.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub struct Window {
    pub dimensions: Dims,
    pub strides: Dims,
    pub base_dilations: Dims,
    pub dilations: Dims,
    pub padding: Vec<(i64, i64)>,
}

impl Window {
    /// A window of size one everywhere, which changes nothing.
    pub fn ones(rank: usize) -> Self {
        let ones: Dims = (0..rank).map(|_| 1).collect();
        Self {
            dimensions: ones.clone(),
            strides: ones.clone(),
            base_dilations: ones.clone(),
            dilations: ones,
            padding: vec![(0, 0); rank],
        }
    }

    fn output(&self, dims: &[i64]) -> Dims {
        let at = |i: usize| {
            let base = if dims[i] == 0 {
                0
            } else {
                (dims[i] - 1) * self.base_dilations[i] + 1
            };
            let padded = base + self.padding[i].0 + self.padding[i].1;
            let reach = (self.dimensions[i] - 1) * self.dilations[i] + 1;
            if padded < reach {
                0
            } else {
                (padded - reach) / self.strides[i] + 1
            }
        };
        (0..dims.len()).map(at).collect()
    }

    pub(crate) fn padding_attr(&self) -> String {
        let pairs: Vec<String> = self
            .padding
            .iter()
            .map(|(l, h)| format!("[{l}, {h}]"))
            .collect();
        if pairs.is_empty() {
            return "dense<> : tensor<0x2xi64>".into();
        }
        format!(
            "dense<[{}]> : tensor<{}x2xi64>",
            pairs.join(", "),
            pairs.len()
        )
    }
}

impl Builder {
    /// Several operands of one shape folded together over `axes`. `body` gets the accumulators,
    /// then the elements, all scalars, and returns the new accumulators.
    pub fn reduce_n<E: From<Error>>(
        &mut self,
        xs: &[Value],
        inits: &[Value],
        axes: &[i64],
        body: impl FnOnce(&mut Self, &[Value], &[Value]) -> Result<SmallVec<[Value; 2]>, E>,
    ) -> Result<SmallVec<[Value; 2]>, E> {
        let mut xs: SmallVec<[Value; 2]> = xs.into();
        for (x, init) in xs.iter_mut().zip(inits) {
            *x = self.fill_behind(*x, axes, *init)?;
        }
        let (region, types) = self.fold_region(&xs, inits, body)?;
        let kept: Dims = self
            .ty(xs[0])
            .dims
            .iter()
            .enumerate()
            .filter(|(i, _)| !axes.contains(&(*i as i64)))
            .map(|(_, d)| *d)
            .collect();
        let outs: Vec<Type> = types.iter().map(|t| t.with_dims(&kept)).collect();
        let attrs = format!(" <{{dimensions = {}}}> ({region})", array(axes));
        let operands = [&xs, inits].concat();
        Ok(self.emit_n("stablehlo.reduce", &operands, &attrs, &outs))
    }

    /// `stablehlo.reduce` with an op of two scalars, as `Builder::add`.
    pub fn reduce(
        &mut self,
        x: Value,
        init: Value,
        axes: &[i64],
        op: fn(&mut Self, Value, Value) -> Result<Value>,
    ) -> Result<Value> {
        let body = |b: &mut Self, acc: &[Value], el: &[Value]| {
            Ok::<_, Error>(smallvec::smallvec![op(b, acc[0], el[0])?])
        };
        Ok(self.reduce_n(&[x], &[init], axes, body)?[0])
    }

    fn fold_region<E: From<Error>>(
        &mut self,
        xs: &[Value],
        inits: &[Value],
        body: impl FnOnce(&mut Self, &[Value], &[Value]) -> Result<SmallVec<[Value; 2]>, E>,
    ) -> Result<(String, Vec<Type>), E> {
        let types: Vec<Type> = xs.iter().map(|x| Type::scalar(self.dtype(*x))).collect();
        for (x, init) in xs.iter().zip(inits) {
            if self.dtype(*x) != self.dtype(*init) || self.rank(*init) != 0 {
                return Err(self.misfit("stablehlo.reduce", *init, &[]).into());
            }
        }
        let n = xs.len();
        let args = [types.as_slice(), types.as_slice()].concat();
        let region = self.region(&args, |b, v| body(b, &v[..n], &v[n..]))?;
        Ok((region, types))
    }

    /// `stablehlo.reduce_window` of several operands of one shape.
    pub fn reduce_window_n<E: From<Error>>(
        &mut self,
        xs: &[Value],
        inits: &[Value],
        window: &Window,
        body: impl FnOnce(&mut Self, &[Value], &[Value]) -> Result<SmallVec<[Value; 2]>, E>,
    ) -> Result<SmallVec<[Value; 2]>, E> {
        if self.is_padded() {
            self.expect_still(window, &self.dims(xs[0]));
        }
        let (region, types) = self.fold_region(xs, inits, body)?;
        let dims = window.output(&self.dims(xs[0]));
        let outs: Vec<Type> = types.iter().map(|t| t.with_dims(&dims)).collect();
        let attrs = format!(
            " <{{window_dimensions = {}, window_strides = {}, base_dilations = {}, \
             window_dilations = {}, padding = {}}}> ({region})",
            array(&window.dimensions),
            array(&window.strides),
            array(&window.base_dilations),
            array(&window.dilations),
            window.padding_attr()
        );
        let operands = [xs, inits].concat();
        Ok(self.emit_n("stablehlo.reduce_window", &operands, &attrs, &outs))
    }

    /// A window may not move over a padded dimension.
    fn expect_still(&mut self, window: &Window, dims: &[i64]) {
        let moves = |i: usize| {
            (window.dimensions[i], window.padding[i]) != (1, (0, 0))
                || (window.strides[i], window.base_dilations[i]) != (1, 1)
        };
        if (0..dims.len()).any(|i| self.is_growing(dims[i]) && moves(i)) {
            self.refuse_padding("a window over a padded dimension");
        }
    }

    /// `stablehlo.reduce_window` with an op of two scalars, as `Builder::maximum`.
    pub fn reduce_window(
        &mut self,
        x: Value,
        init: Value,
        window: &Window,
        op: fn(&mut Self, Value, Value) -> Result<Value>,
    ) -> Result<Value> {
        let body = |b: &mut Self, acc: &[Value], el: &[Value]| {
            Ok::<_, Error>(smallvec::smallvec![op(b, acc[0], el[0])?])
        };
        Ok(self.reduce_window_n(&[x], &[init], window, body)?[0])
    }

    /// `stablehlo.select_and_scatter`: `source` elements go to the operand element that `select`
    /// prefers in their window (true keeps the first) and are added up there.
    pub fn select_and_scatter(
        &mut self,
        x: Value,
        source: Value,
        window: &Window,
        direction: crate::Direction,
    ) -> Result<Value> {
        let ty = self.ty(x).clone();
        let scalar = Type::scalar(ty.dtype);
        let pair = [scalar.clone(), scalar];
        let select = self.region(&pair, |b, v| {
            Ok::<_, Error>(smallvec::smallvec![b.compare(v[0], direction, v[1])?])
        })?;
        let scatter = self.region(&pair, |b, v| {
            Ok::<_, Error>(smallvec::smallvec![b.add(v[0], v[1])?])
        })?;
        let zero = self.scalar(0, ty.dtype);
        let attrs = format!(
            " <{{window_dimensions = {}, window_strides = {}, padding = {}}}> ({select}, {scatter})",
            array(&window.dimensions),
            array(&window.strides),
            window.padding_attr()
        );
        Ok(self.emit(
            "stablehlo.select_and_scatter",
            &[x, source, zero],
            &attrs,
            ty,
        ))
    }

    /// `stablehlo.sort` of several operands of one shape along `dim`. `before` gets the left and
    /// the right element of every operand, all scalars, and says whether left comes first.
    pub fn sort<E: From<Error>>(
        &mut self,
        xs: &[Value],
        dim: i64,
        is_stable: bool,
        before: impl FnOnce(&mut Self, &[Value], &[Value]) -> Result<Value, E>,
    ) -> Result<SmallVec<[Value; 2]>, E> {
        let n = xs.len();
        let types: Vec<Type> = xs.iter().map(|x| self.ty(*x).clone()).collect();
        if self.is_growing(types[0].dims[dim as usize]) {
            self.refuse_padding("`sort` along a padded dimension");
        }
        let args: Vec<Type> = xs
            .iter()
            .flat_map(|x| [Type::scalar(self.dtype(*x)), Type::scalar(self.dtype(*x))])
            .collect();
        let region = self.region(&args, |b, v| {
            let lhs: SmallVec<[Value; 4]> = (0..n).map(|i| v[2 * i]).collect();
            let rhs: SmallVec<[Value; 4]> = (0..n).map(|i| v[2 * i + 1]).collect();
            let first = before(b, &lhs, &rhs)?;
            Ok::<_, E>(smallvec::smallvec![first])
        })?;
        let attrs = format!(" <{{dimension = {dim} : i64, is_stable = {is_stable}}}> ({region})");
        Ok(self.emit_n("stablehlo.sort", xs, &attrs, &types))
    }

    /// Sum over `axes` in `x`'s own dtype.
    pub fn sum(&mut self, x: Value, axes: &[i64]) -> Result<Value> {
        let zero = self.scalar(0, self.dtype(x));
        self.reduce(x, zero, axes, Self::add)
    }

    /// Whether any (`or`) element of a `Bool` operand is true over `axes`.
    pub fn any(&mut self, x: Value, axes: &[i64]) -> Result<Value> {
        let no = self.scalar(false, DType::Bool);
        self.reduce(x, no, axes, Self::or)
    }

    /// Whether all elements of a `Bool` operand are true over `axes`.
    pub fn all(&mut self, x: Value, axes: &[i64]) -> Result<Value> {
        let yes = self.scalar(true, DType::Bool);
        self.reduce(x, yes, axes, Self::and)
    }
}
