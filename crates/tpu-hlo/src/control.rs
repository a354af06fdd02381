//! Loops, random bits, custom calls and library transforms.
use crate::{Builder, DType, Error, Result, Type, Value, shape::array};
use smallvec::SmallVec;

impl Builder {
    /// `stablehlo.while` over `state`: runs `body` as long as `condition` gives true.
    pub fn while_loop<E: From<Error>>(
        &mut self,
        state: &[Value],
        condition: impl FnOnce(&mut Self, &[Value]) -> Result<Value, E>,
        body: impl FnOnce(&mut Self, &[Value]) -> Result<SmallVec<[Value; 2]>, E>,
    ) -> Result<SmallVec<[Value; 2]>, E> {
        let types: Vec<Type> = state.iter().map(|v| self.ty(*v).clone()).collect();
        let condition = self.region(&types, |b, v| {
            let go_on = condition(b, v)?;
            Ok::<SmallVec<[Value; 2]>, E>(smallvec::smallvec![go_on])
        })?;
        let body = self.region(&types, body)?;
        Ok(self.emit_n(
            "stablehlo.while",
            state,
            &format!(" ({condition}, {body})"),
            &types,
        ))
    }

    /// `stablehlo.if`: what the branch gives that `pred`, a 0-dimensional `Bool`, chooses.
    ///
    /// # Errors
    /// Those of the branches, and [`Error::Mismatch`] where one gives other types than the other.
    pub fn if_else<E: From<Error>>(
        &mut self,
        pred: Value,
        on_true: impl FnOnce(&mut Self) -> Result<SmallVec<[Value; 2]>, E>,
        on_false: impl FnOnce(&mut Self) -> Result<SmallVec<[Value; 2]>, E>,
    ) -> Result<SmallVec<[Value; 2]>, E> {
        let mut made = SmallVec::<[Value; 2]>::new();
        let on_true = self.region(&[], |b, _| {
            made = on_true(b)?;
            Ok::<_, E>(made.clone())
        })?;
        let on_false = self.region(&[], |b, _| {
            let outs = on_false(b)?;
            for (one, other) in made.iter().zip(&outs) {
                b.same("stablehlo.if", *one, *other)?;
            }
            Ok::<_, E>(outs)
        })?;
        let types: Vec<Type> = made.iter().map(|v| self.ty(*v).clone()).collect();
        let regions = format!(" ({on_true}, {on_false})");
        Ok(self.emit_n("stablehlo.if", &[pred], &regions, &types))
    }

    /// `stablehlo.rng_bit_generator` with the Philox algorithm: bits of type `ty` (unsigned) that
    /// are a pure function of `state`, a `U64` vector of key and 128-bit counter.
    pub fn rng_bit_generator(&mut self, state: Value, ty: Type) -> Value {
        let types = [self.ty(state).clone(), ty];
        let attrs = " <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}>";
        self.emit_n("stablehlo.rng_bit_generator", &[state], attrs, &types)[1]
    }

    /// `stablehlo.optimization_barrier`: the value is computed before whatever reads it.
    pub fn optimization_barrier(&mut self, x: Value) -> Value {
        let ty = self.ty(x).clone();
        self.emit("stablehlo.optimization_barrier", &[x], "", ty)
    }

    /// `stablehlo.custom_call` of a typed FFI handler (API version 4). `attributes` is an MLIR
    /// dictionary body, as `lower = true, n = 3 : i64`.
    pub fn custom_call(
        &mut self,
        target: &str,
        operands: &[Value],
        attributes: &str,
        types: &[Type],
    ) -> SmallVec<[Value; 2]> {
        let attrs = format!(
            " <{{call_target_name = \"{target}\", api_version = 4 : i32, \
             backend_config = {{{attributes}}}}}>"
        );
        self.emit_n("stablehlo.custom_call", operands, &attrs, types)
    }

    /// `stablehlo.custom_call` of what a compiler itself replaces by a program; `config` is a text.
    pub fn compiler_call(
        &mut self,
        target: &str,
        operands: &[Value],
        config: &str,
        types: &[Type],
    ) -> SmallVec<[Value; 2]> {
        let attrs =
            format!(" <{{call_target_name = \"{target}\", backend_config = \"{config}\"}}>");
        self.emit_n("stablehlo.custom_call", operands, &attrs, types)
    }

    /// `stablehlo.fft`; `kind` is `FFT`, `IFFT`, `RFFT` or `IRFFT`, `length` the transformed
    /// innermost dimensions, `ty` the result.
    pub fn fft(&mut self, x: Value, kind: &str, length: &[i64], ty: Type) -> Value {
        let attrs = format!(
            " <{{fft_length = {}, fft_type = #stablehlo<fft_type {kind}>}}>",
            array(length)
        );
        self.emit("stablehlo.fft", &[x], &attrs, ty)
    }

    /// `stablehlo.cholesky` of a batch of matrices; the other triangle is unspecified.
    pub fn cholesky(&mut self, x: Value, lower: bool) -> Value {
        let ty = self.ty(x).clone();
        self.emit(
            "stablehlo.cholesky",
            &[x],
            &format!(" <{{lower = {lower}}}>"),
            ty,
        )
    }

    /// `stablehlo.triangular_solve`: solves `op(a) x = b`, or `x op(a) = b` unless `left_side`;
    /// `transpose_a` is `NO_TRANSPOSE`, `TRANSPOSE` or `ADJOINT`.
    pub fn triangular_solve(
        &mut self,
        a: Value,
        b: Value,
        left_side: bool,
        lower: bool,
        unit_diagonal: bool,
        transpose_a: &str,
    ) -> Value {
        let ty = self.ty(b).clone();
        let attrs = format!(
            " <{{left_side = {left_side}, lower = {lower}, transpose_a = \
             #stablehlo<transpose {transpose_a}>, unit_diagonal = {unit_diagonal}}}>"
        );
        self.emit("stablehlo.triangular_solve", &[a, b], &attrs, ty)
    }

    /// `stablehlo.reduce_precision`: rounds `F32` or `F64` to the given exponent and mantissa.
    pub fn reduce_precision(&mut self, x: Value, exponent: i64, mantissa: i64) -> Value {
        let ty = self.ty(x).clone();
        let attrs =
            format!(" <{{exponent_bits = {exponent} : i32, mantissa_bits = {mantissa} : i32}}>");
        self.emit("stablehlo.reduce_precision", &[x], &attrs, ty)
    }

    /// `chlo.top_k`: the `k` largest of the last dimension in order, and their `I32` positions.
    pub fn top_k(&mut self, x: Value, k: i64) -> (Value, Value) {
        let mut ty = self.ty(x).clone();
        if let Some(last) = ty.dims.last_mut() {
            *last = k;
        }
        let types = [ty.clone(), ty.with_dtype(DType::I32)];
        let outs = self.emit_n("chlo.top_k", &[x], &format!(" <{{k = {k} : i64}}>"), &types);
        (outs[0], outs[1])
    }
}
