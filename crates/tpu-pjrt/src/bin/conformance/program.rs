//! Modules to compile, and arrays of `f32` to feed them.

use std::sync::Arc;
use tpu_pjrt::{
    Args, Buffer, Client, Code, CompileOptions, ElementType, Error, Executable, Result, Shape,
    Signature,
};

/// A shape of `f32`.
pub(crate) fn f32s(dims: &[i64]) -> Shape {
    Shape::new(ElementType::F32, dims)
}

/// The StableHLO type of a shape.
pub(crate) fn tensor(shape: &Shape) -> String {
    let dims: String = shape.dims.iter().map(|size| format!("{size}x")).collect();
    format!("tensor<{dims}{}>", shape.ty.name())
}

/// A module with one function of one result.
pub(crate) fn module(parameters: &str, result: &Shape, body: &str) -> String {
    let ty = tensor(result);
    format!(
        "module @m {{ func.func public @main({parameters}) -> {ty} {{\n{body}\n\
         return %r : {ty} }} }}"
    )
}

/// `x + y`, where `attribute` is that of `x`.
pub(crate) fn addition(shape: &Shape, attribute: &str) -> (String, Signature) {
    let ty = tensor(shape);
    let parameters = format!("%x: {ty} {attribute}, %y: {ty}");
    let text = module(
        &parameters,
        shape,
        &format!("%r = stablehlo.add %x, %y : {ty}"),
    );
    let inputs = vec![shape.clone(), shape.clone()];
    (
        text,
        Signature {
            inputs,
            outputs: vec![shape.clone()],
        },
    )
}

/// The attribute that gives a parameter's memory to the first result.
pub(crate) const ALIASED: &str = "{tf.aliasing_output = 0 : i32}";

/// `x + y`, compiled quickly.
pub(crate) fn add(client: &Arc<Client>, shape: &Shape, attribute: &str) -> Result<Executable> {
    let (text, signature) = addition(shape, attribute);
    client.compile(&text, &signature, &CompileOptions::quick())
}

/// A product of square matrices: work that takes a while.
pub(crate) fn product(client: &Arc<Client>, size: i64) -> Result<Executable> {
    let shape = f32s(&[size, size]);
    let ty = tensor(&shape);
    let body = format!(
        "%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}"
    );
    let text = module(&format!("%x: {ty}, %y: {ty}"), &shape, &body);
    let inputs = vec![shape.clone(), shape.clone()];
    let signature = Signature {
        inputs,
        outputs: vec![shape],
    };
    client.compile(&text, &signature, &CompileOptions::default())
}

/// The bytes of `f32` values.
pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

/// A buffer of `f32` values on device 0.
pub(crate) fn put(client: &Arc<Client>, values: &[f32], dims: &[i64]) -> Result<Buffer> {
    client.buffer_from_host(&bytes(values), &f32s(dims), 0)
}

/// A buffer with `len` times the same value.
pub(crate) fn filled(client: &Arc<Client>, value: f32, len: usize) -> Result<Buffer> {
    put(client, &vec![value; len], &[len as i64])
}

/// The `f32` values of a buffer.
pub(crate) fn get(buffer: &Buffer) -> Result<Vec<f32>> {
    let mut bytes = vec![0; buffer.size_bytes()];
    buffer.to_host(&mut bytes)?;
    let value = |chunk: &[u8]| f32::from_ne_bytes(chunk.try_into().unwrap_or_default());
    Ok(bytes.chunks_exact(4).map(value).collect())
}

/// The only result of a launch on device 0.
pub(crate) fn run(program: &Executable, mut args: Args) -> Result<Buffer> {
    let mut outputs = program.execute(&mut args, 0)?;
    Arc::into_inner(outputs.remove(0))
        .ok_or_else(|| Error::new(Code::Internal, "a new result is held elsewhere"))
}
