//! Compiling, its options and errors, and programs stored as bytes.

use crate::program::{addition, f32s, filled, get, module, put, run, tensor};
use crate::{Check, Outcome, client};
use std::sync::Arc;
use tpu_pjrt::{
    Arg, CompileOptions, ElementType, OptionValue, Plugin, Shape, Signature, Topology, arguments,
};

pub(crate) const CHECKS: &[Check] = &[
    ("compile.describes_itself", describes_itself),
    ("compile.quick_and_full_agree", quick_and_full_agree),
    ("compile.rounds_bf16", rounds_bf16),
    ("compile.knows_our_flags", knows_our_flags),
    ("compile.refuses_flags", refuses_flags),
    ("compile.refuses_bad_modules", refuses_bad_modules),
    ("compile.compares_signature", compares_signature),
    ("compile.serializes", serializes),
    ("compile.refuses_damaged_bytes", refuses_damaged_bytes),
    ("compile.counts_memory", counts_memory),
    ("compile.from_many_threads", from_many_threads),
    ("compile.refuses_unknown_topology", refuses_unknown_topology),
];

/// Plugins for one machine know no topologies; none may end the process over it.
fn refuses_unknown_topology(plugin: &Arc<Plugin>) -> Outcome {
    for name in ["", "no such topology"] {
        let topology = Topology::new(plugin, name);
        ensure!(topology.is_err(), "`{name}` gave {topology:?}");
    }
    Ok(())
}

fn describes_itself(plugin: &Arc<Plugin>) -> Outcome {
    let (major, minor) = plugin.api_version();
    ensure!(
        major == 0 && minor >= 81,
        "PJRT API `{major}.{minor}` is older than 0.81"
    );
    let version = (
        "stablehlo_current_version",
        OptionValue::Ints(vec![1, 13, 0]),
    );
    let reads = |(name, value): &(String, OptionValue)| match (value, &version.1) {
        (OptionValue::Ints(own), OptionValue::Ints(needed)) => name == version.0 && own >= needed,
        _ => false,
    };
    ensure!(
        plugin.attributes().iter().any(reads),
        "{:?}",
        plugin.attributes()
    );
    let client = client(plugin)?;
    ensure!(
        client.platform_name() == "cpu",
        "platform `{}`",
        client.platform_name()
    );
    ensure!(client.has_host_memory(), "device memory is not host memory");
    ensure!(
        client.devices().len() == 1,
        "devices: {:?}",
        client.devices()
    );
    let device = &client.devices()[0];
    ensure!(device.kind() == "cpu", "device kind `{}`", device.kind());
    ensure!(
        client.memory_limit(0).is_some_and(|bytes| bytes > 1 << 20),
        "no memory limit"
    );
    Ok(())
}

/// A softmax: reductions, broadcasts and transcendental functions in one program.
fn softmax(shape: &Shape) -> (String, Signature) {
    let (ty, row) = (tensor(shape), tensor(&f32s(&shape.dims[..1])));
    let reduce = |result: &str, operand: &str, init: &str, op: &str| {
        format!(
            "%{result}_ = stablehlo.reduce(%{operand} init: %{init}) applies stablehlo.{op} across \
             dimensions = [1] : ({ty}, tensor<f32>) -> {row}
             %{result} = stablehlo.broadcast_in_dim %{result}_, dims = [0] : ({row}) -> {ty}\n"
        )
    };
    let body = [
        "%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
         %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
            .to_owned(),
        reduce("max", "x", "low", "maximum"),
        format!("%s = stablehlo.subtract %x, %max : {ty}\n"),
        format!("%e = stablehlo.exponential %s : {ty}\n"),
        reduce("sum", "e", "zero", "add"),
        format!("%r = stablehlo.divide %e, %sum : {ty}"),
    ];
    let text = module(&format!("%x: {ty}"), shape, &body.concat());
    (
        text,
        Signature {
            inputs: vec![shape.clone()],
            outputs: vec![shape.clone()],
        },
    )
}

fn quick_and_full_agree(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let shape = f32s(&[2, 3]);
    let (text, signature) = softmax(&shape);
    let x = [1.0, 2.0, 3.0, -1.0, 0.0, 1.0];
    let expected = [0.090_030_57, 0.244_728_48, 0.665_240_94];
    for options in [CompileOptions::quick(), CompileOptions::default()] {
        let program = client.compile(&text, &signature, &options)?;
        let y = get(&run(
            &program,
            arguments([put(&client, &x, &[2, 3])?.into()]),
        )?)?;
        for (index, value) in y.iter().enumerate() {
            let error = (value - expected[index % 3]).abs();
            ensure!(error < 1e-6, "quick {}: {y:?}", options.quick);
        }
    }
    Ok(())
}

/// A product of `bf16` numbers, then widened. Left alone, XLA never rounds it.
fn rounds_bf16(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let (input, output) = (Shape::new(ElementType::Bf16, &[1, 2]), f32s(&[1, 1]));
    let (narrow, row) = ("tensor<1x1xbf16>", tensor(&input));
    let body = format!(
        "%d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] :
              ({row}, {row}) -> {narrow}
         %r = stablehlo.convert %d : ({narrow}) -> tensor<1x1xf32>"
    );
    let text = module(&format!("%x: {row}"), &output, &body);
    let signature = Signature {
        inputs: vec![input.clone()],
        outputs: vec![output],
    };
    let flag = (
        "xla_allow_excess_precision".to_owned(),
        OptionValue::Bool(true),
    );
    let allowed = CompileOptions {
        overrides: vec![flag],
        ..CompileOptions::default()
    };
    // The squares of 1 and 1/16 add up to 1 + 1/256, which `bf16` does not have.
    let x: Vec<u8> = [0x3f80_u16, 0x3d80]
        .iter()
        .flat_map(|bits| bits.to_ne_bytes())
        .collect();
    let mut results = Vec::new();
    for options in [CompileOptions::quick(), CompileOptions::default(), allowed] {
        let program = client.compile(&text, &signature, &options)?;
        let x = client.buffer_from_host(&x, &input, 0)?;
        results.extend(get(&run(&program, arguments([x.into()]))?)?);
    }
    ensure!(results[..2] == [1.0, 1.0], "not rounded: {results:?}");
    ensure!(
        results[2] == 1.0 + 1.0 / 256.0,
        "the flag makes no difference any more: {results:?}"
    );
    Ok(())
}

fn knows_our_flags(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let (text, signature) = addition(&f32s(&[3]), "");
    client.compile(&text, &signature, &CompileOptions::quick())?;
    ensure!(
        client.unknown_flags().is_empty(),
        "unknown: {:?}",
        client.unknown_flags()
    );
    Ok(())
}

fn refuses_flags(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let (text, signature) = addition(&f32s(&[3]), "");
    let flags: [(&str, OptionValue); 5] = [
        ("xla_no_such_flag", true.into()),
        ("xla_backend_optimization_level", "abc".into()),
        ("xla_allow_excess_precision", 3.into()),
        ("xla_disable_hlo_passes", true.into()),
        ("xla_dump_to", OptionValue::Float(1.0)),
    ];
    for (name, value) in flags {
        let flag = (name.to_owned(), value);
        let options = CompileOptions {
            overrides: vec![flag],
            ..CompileOptions::quick()
        };
        match client.compile(&text, &signature, &options) {
            Ok(_) => return Err(format!("`{name}` was taken").into()),
            Err(error) => ensure!(error.message().contains(name), "{error}"),
        }
    }
    ensure!(
        client
            .compile(&text, &signature, &CompileOptions::quick())
            .is_ok(),
        "unusable after"
    );
    Ok(())
}

fn refuses_bad_modules(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let shape = f32s(&[3]);
    let (good, signature) = addition(&shape, "");
    let unbounded = "module @m { func.func public @main(%x: tensor<?xf32>) -> tensor<?xf32> {
                     return %x : tensor<?xf32> } }";
    let bad = [
        String::new(),
        "this is not MLIR".to_owned(),
        good.replace("stablehlo.add %x, %y", "stablehlo.add %x, %z"),
        good.replace("-> tensor<3xf32>", "-> tensor<4xf32>"),
        good.replace("@main", "@other"),
        good.replace("stablehlo.add", "stablehlo.no_such_op"),
        unbounded.to_owned(),
    ];
    for text in &bad {
        let result = client.compile(text, &signature, &CompileOptions::quick());
        ensure!(result.is_err(), "compiled: {text}");
    }
    ensure!(
        client
            .compile(&good, &signature, &CompileOptions::quick())
            .is_ok(),
        "unusable after"
    );
    Ok(())
}

fn compares_signature(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let shape = f32s(&[3]);
    let (text, good) = addition(&shape, "");
    let wrong: [Vec<Shape>; 4] = [
        vec![],
        vec![f32s(&[4])],
        vec![Shape::new(ElementType::S32, &[3])],
        vec![shape; 2],
    ];
    for outputs in wrong {
        let signature = Signature {
            inputs: good.inputs.clone(),
            outputs,
        };
        let result = client.compile(&text, &signature, &CompileOptions::quick());
        let code = result.as_ref().err().map(tpu_pjrt::Error::code);
        ensure!(code == Some(tpu_pjrt::Code::Signature), "{result:?}");
    }
    Ok(())
}

fn serializes(plugin: &Arc<Plugin>) -> Outcome {
    const SIZE: usize = 1000;
    let shape = f32s(&[SIZE as i64]);
    let (text, signature) = addition(&shape, crate::program::ALIASED);
    let compiled = client(plugin)?.compile(&text, &signature, &CompileOptions::default())?;
    let client = client(plugin)?;
    let bytes = compiled.serialize()?;
    let program = client.deserialize(&bytes, &signature)?;
    let x = filled(&client, 1.0, SIZE)?;
    let before = x.host_slice().map(<[u8]>::as_ptr);
    let sum = run(
        &program,
        arguments([x.into(), filled(&client, 2.0, SIZE)?.into()]),
    )?;
    ensure!(get(&sum)? == [3.0; SIZE], "{:?}", &get(&sum)?[..3]);
    let after = sum.host_bytes()?.map(<[u8]>::as_ptr);
    ensure!(before.is_some() && before == after, "aliasing is lost");
    ensure!(program.serialize().is_err(), "bytes that would not run");
    let wrong = Signature {
        outputs: vec![f32s(&[4])],
        ..signature
    };
    let code = client
        .deserialize(&bytes, &wrong)
        .map_err(|error| error.code());
    ensure!(
        code.err() == Some(tpu_pjrt::Code::Signature),
        "the signature is not compared"
    );
    Ok(())
}

fn refuses_damaged_bytes(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let (text, signature) = addition(&f32s(&[3]), "");
    let bytes = client
        .compile(&text, &signature, &CompileOptions::quick())?
        .serialize()?;
    for damaged in [
        &bytes[..bytes.len() / 2],
        &bytes[..1],
        b"",
        b"not a program",
    ] {
        let result = client.deserialize(damaged, &signature);
        ensure!(
            result.is_err(),
            "{} of {} bytes were loaded",
            damaged.len(),
            bytes.len()
        );
    }
    ensure!(
        client.deserialize(&bytes, &signature).is_ok(),
        "unusable after"
    );
    Ok(())
}

fn counts_memory(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    for (attribute, aliased) in [("", 0), (crate::program::ALIASED, 4000)] {
        let (text, signature) = addition(&f32s(&[1000]), attribute);
        let program = client.compile(&text, &signature, &CompileOptions::quick())?;
        let stats = program.memory_stats()?;
        let counted = (stats.arguments, stats.outputs, stats.aliased);
        ensure!(counted == (8000, 4000, aliased), "{stats:?}");
    }
    Ok(())
}

fn from_many_threads(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let work = |thread: i64| -> tpu_pjrt::Result<bool> {
        let mut right = true;
        for size in (1..=5).map(|index| thread * 10 + index) {
            let (text, signature) = addition(&f32s(&[size]), "");
            let program = client.compile(&text, &signature, &CompileOptions::quick())?;
            let x = Arg::Keep(Arc::new(filled(&client, size as f32, size as usize)?));
            let y = filled(&client, 1.0, size as usize)?.into();
            let sum = get(&run(&program, arguments([x, y]))?)?;
            right &= sum == vec![size as f32 + 1.0; size as usize];
        }
        Ok(right)
    };
    let work = &work;
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect()
    });
    let right = |result| matches!(result, Ok(Ok(true)));
    ensure!(results.into_iter().all(right), "a result was wrong");
    Ok(())
}
