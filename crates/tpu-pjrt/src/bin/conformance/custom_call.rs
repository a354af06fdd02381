//! Programs that call Rust functions.

use crate::program::{f32s, get, module, put, run, tensor};
use crate::{Check, Outcome, client};
use std::sync::Arc;
use tpu_pjrt::{
    Client, Code, CompileOptions, CustomCall, ElementType, Error, Executable, Plugin, Shape,
    Signature, arguments,
};

pub(crate) const CHECKS: &[Check] = &[
    ("custom_call.runs", runs),
    ("custom_call.reads_attributes", reads_attributes),
    ("custom_call.several_results", several_results),
    ("custom_call.every_type", every_type),
    ("custom_call.reports_errors", reports_errors),
    ("custom_call.serializes", serializes),
    ("custom_call.refuses_aliasing", refuses_aliasing),
];

/// A program of one call on one array, with a result of the same shape.
fn program(
    client: &Arc<Client>,
    target: &str,
    config: &str,
    shape: &Shape,
) -> tpu_pjrt::Result<Executable> {
    let ty = tensor(shape);
    let body = format!(
        "%r = stablehlo.custom_call @{target}(%x) {{api_version = 4 : i32, \
         backend_config = {{{config}}}}} : ({ty}) -> {ty}"
    );
    let signature = Signature {
        inputs: vec![shape.clone()],
        outputs: vec![shape.clone()],
    };
    let text = module(&format!("%x: {ty}"), shape, &body);
    client.compile(&text, &signature, &CompileOptions::quick())
}

fn reverse(call: &mut CustomCall<'_>) -> tpu_pjrt::Result<()> {
    let x = call.inputs[0].as_slice::<f32>()?;
    let y = call.outputs[0].as_mut_slice::<f32>()?;
    for (to, from) in y.iter_mut().zip(x.iter().rev()) {
        *to = *from;
    }
    Ok(())
}

fn runs(plugin: &Arc<Plugin>) -> Outcome {
    plugin.register_ffi("test.reverse", reverse)?;
    let client = client(plugin)?;
    let program = program(&client, "test.reverse", "", &f32s(&[2, 2]))?;
    let x = put(&client, &[1.0, 2.0, 3.0, 4.0], &[2, 2])?;
    let y = get(&run(&program, arguments([x.into()]))?)?;
    ensure!(y == [4.0, 3.0, 2.0, 1.0], "{y:?}");
    let unknown = self::program(&client, "test.unknown", "", &f32s(&[2]));
    let code = unknown.as_ref().err().map(Error::code);
    ensure!(code == Some(Code::NotFound), "{unknown:?}");
    Ok(())
}

fn reads_attributes(plugin: &Arc<Plugin>) -> Outcome {
    plugin.register_ffi("test.attributes", |call: &mut CustomCall<'_>| {
        let attributes = call.attributes;
        let y = call.outputs[0].as_mut_slice::<f32>()?;
        y[0] = attributes.int("int")? as f32;
        y[1] = attributes.float("float")? as f32;
        y[2] = attributes.float("double")? as f32;
        y[3] = f32::from(attributes.bool("bool")?);
        y[4] = attributes.text("text")?.len() as f32;
        let missing = [
            attributes.int("none").is_err(),
            attributes.int("float").is_err(),
            attributes.float("int").is_err(),
            attributes.text("int").is_err(),
            attributes.bool("int").is_err(),
        ];
        y[5] = f32::from(missing.iter().all(|&missing| missing));
        Ok(())
    })?;
    let client = client(plugin)?;
    let config = "int = -3 : i64, float = 1.5 : f32, double = 2.5 : f64, bool = true, \
                  text = \"four\"";
    let program = program(&client, "test.attributes", config, &f32s(&[6]))?;
    let y = get(&run(
        &program,
        arguments([put(&client, &[0.0; 6], &[6])?.into()]),
    )?)?;
    ensure!(y == [-3.0, 1.5, 2.5, 1.0, 4.0, 1.0], "{y:?}");
    Ok(())
}

fn several_results(plugin: &Arc<Plugin>) -> Outcome {
    plugin.register_ffi("test.extremes", |call: &mut CustomCall<'_>| {
        let x = call.inputs[0].as_slice::<f32>()?;
        let [low, at] = &mut call.outputs[..] else {
            return Err(Error::new(Code::InvalidArgument, "two results are needed"));
        };
        let (low, at) = (low.as_mut_slice::<f32>()?, at.as_mut_slice::<i32>()?);
        for (index, &value) in x.iter().enumerate() {
            if index == 0 || value < low[0] {
                (low[0], at[0]) = (value, index as i32);
            }
        }
        Ok(())
    })?;
    let client = client(plugin)?;
    let text = "module @m { func.func public @main(%x: tensor<4xf32>) ->
                (tensor<f32>, tensor<i32>) {
                %r:2 = stablehlo.custom_call @test.extremes(%x) {api_version = 4 : i32} :
                (tensor<4xf32>) -> (tensor<f32>, tensor<i32>)
                return %r#0, %r#1 : tensor<f32>, tensor<i32> } }";
    let outputs = vec![f32s(&[]), Shape::new(ElementType::S32, &[])];
    let signature = Signature {
        inputs: vec![f32s(&[4])],
        outputs,
    };
    let program = client.compile(text, &signature, &CompileOptions::quick())?;
    let x = put(&client, &[3.0, 1.0, -2.0, 5.0], &[4])?;
    let outputs = program.execute(&mut arguments([x.into()]), 0)?;
    ensure!(get(&outputs[0])? == [-2.0], "{:?}", get(&outputs[0])?);
    ensure!(
        outputs[1].host_bytes()? == Some(&2_i32.to_ne_bytes()),
        "{:?}",
        outputs[1]
    );
    Ok(())
}

/// Copies whatever it is given, by the Rust type that stands for it.
fn copy(call: &mut CustomCall<'_>) -> tpu_pjrt::Result<()> {
    fn as_type<T: tpu_pjrt::Element>(call: &mut CustomCall<'_>) -> tpu_pjrt::Result<()> {
        call.outputs[0]
            .as_mut_slice::<T>()?
            .copy_from_slice(call.inputs[0].as_slice::<T>()?);
        Ok(())
    }
    let copies = [
        as_type::<i8>,
        as_type::<i16>,
        as_type::<i32>,
        as_type::<i64>,
        as_type::<u8>,
        as_type::<u16>,
        as_type::<u32>,
        as_type::<u64>,
        as_type::<f32>,
        as_type::<f64>,
        as_type::<[f32; 2]>,
        as_type::<[f64; 2]>,
    ];
    let matching = copies.iter().filter(|copy| copy(call).is_ok()).count();
    let message = || format!("{} Rust types for `{}`", matching, call.inputs[0].shape());
    if matching == 1 {
        Ok(())
    } else {
        Err(Error::new(Code::InvalidArgument, message()))
    }
}

fn every_type(plugin: &Arc<Plugin>) -> Outcome {
    plugin.register_ffi("test.copy", copy)?;
    let client = client(plugin)?;
    for &ty in &ElementType::ALL[..15] {
        let shape = Shape::new(ty, &[2, 3]);
        let mask = if ty == ElementType::Pred { 1 } else { 0x3f };
        let sent: Vec<u8> = (0..shape.size_bytes())
            .map(|index| index as u8 & mask)
            .collect();
        let program = program(&client, "test.copy", "", &shape)?;
        let buffer = client.buffer_from_host(&sent, &shape, 0)?;
        let copied = run(&program, arguments([buffer.into()]))?;
        ensure!(
            copied.host_bytes()? == Some(&sent[..]),
            "{shape}: {:?}",
            copied.host_bytes()?
        );
    }
    Ok(())
}

fn reports_errors(plugin: &Arc<Plugin>) -> Outcome {
    plugin.register_ffi("test.fails", |call: &mut CustomCall<'_>| {
        match call.attributes.int("how")? {
            0 => Err(Error::new(Code::OutOfRange, "an error on purpose")),
            1 => panic!("a panic on purpose"),
            2 => call.inputs[0].as_slice::<i32>().map(|_| ()),
            _ => Ok(()),
        }
    })?;
    let client = client(plugin)?;
    let expected = [
        (0, Code::OutOfRange, "an error on purpose"),
        (1, Code::Internal, "a panic on purpose"),
        (
            2,
            Code::InvalidArgument,
            "does not hold elements of type `i32`",
        ),
    ];
    for (how, code, message) in expected {
        let program = program(
            &client,
            "test.fails",
            &format!("how = {how} : i64"),
            &f32s(&[2]),
        )?;
        let x = put(&client, &[0.0; 2], &[2])?;
        let error = run(&program, arguments([x.into()]))
            .and_then(|buffer| buffer.wait())
            .err();
        let fits = |error: &Error| error.code() == code && error.message().contains(message);
        ensure!(error.as_ref().is_some_and(fits), "{how}: {error:?}");
    }
    let program = program(&client, "test.fails", "how = 3 : i64", &f32s(&[2]))?;
    run(&program, arguments([put(&client, &[0.0; 2], &[2])?.into()]))?.wait()?;
    Ok(())
}

fn serializes(plugin: &Arc<Plugin>) -> Outcome {
    plugin.register_ffi("test.reverse", reverse)?;
    let shape = f32s(&[3]);
    let bytes = program(&client(plugin)?, "test.reverse", "", &shape)?.serialize()?;
    let client = client(plugin)?;
    let signature = Signature {
        inputs: vec![shape.clone()],
        outputs: vec![shape],
    };
    let program = client.deserialize(&bytes, &signature)?;
    let y = get(&run(
        &program,
        arguments([put(&client, &[1.0, 2.0, 3.0], &[3])?.into()]),
    )?)?;
    ensure!(y == [3.0, 2.0, 1.0], "{y:?}");
    Ok(())
}

fn refuses_aliasing(plugin: &Arc<Plugin>) -> Outcome {
    plugin.register_ffi("test.reverse", reverse)?;
    let client = client(plugin)?;
    let body = "%s = stablehlo.add %x, %x : tensor<2xf32>
        %r = stablehlo.custom_call @test.reverse(%s) {api_version = 4 : i32,
        output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [],
        operand_index = 0, operand_tuple_indices = []>]} : (tensor<2xf32>) -> tensor<2xf32>";
    let text = module("%x: tensor<2xf32>", &f32s(&[2]), body);
    let signature = Signature {
        inputs: vec![f32s(&[2])],
        outputs: vec![f32s(&[2])],
    };
    let program = client.compile(&text, &signature, &CompileOptions::quick())?;
    let x = put(&client, &[1.0, 2.0], &[2])?;
    let error = run(&program, arguments([x.into()]))
        .and_then(|buffer| buffer.wait())
        .err();
    let fits = |error: &Error| error.message().contains("aliased");
    ensure!(error.as_ref().is_some_and(fits), "{error:?}");
    Ok(())
}
