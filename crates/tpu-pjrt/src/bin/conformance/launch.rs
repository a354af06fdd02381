//! Launches: arguments and their checks, donation, threads, errors.

use crate::program::{ALIASED, add, f32s, filled, get, module, product, put, run, tensor};
use crate::{Check, Outcome, client};
use std::sync::Arc;
use tpu_obs::memory::{reset_peak, stats};
use tpu_pjrt::{
    Arg, Args, Buffer, Client, Code, CompileOptions, ElementType, OptionValue, Plugin, Shape,
    Signature, arguments,
};

pub(crate) const CHECKS: &[Check] = &[
    ("launch.adds", adds),
    ("launch.any_number_of_results", any_number_of_results),
    ("launch.many_arguments", many_arguments),
    ("launch.empty_arrays", empty_arrays),
    ("launch.checks_arguments", checks_arguments),
    ("launch.donates", donates),
    (
        "launch.writes_into_retired_memory",
        writes_into_retired_memory,
    ),
    ("launch.keeps", keeps),
    ("launch.counts_memory", counts_memory),
    ("launch.from_many_threads", from_many_threads),
    ("launch.drops_in_flight", drops_in_flight),
    ("launch.any_device", any_device),
    ("launch.out_of_memory", out_of_memory),
];

fn adds(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[2, 2]), "")?;
    let x = put(&client, &[1.0, 2.0, 3.0, 4.0], &[2, 2])?;
    let y = put(&client, &[10.0, 20.0, 30.0, 40.0], &[2, 2])?;
    let mut args = arguments([x.into(), y.into()]);
    let outputs = program.execute(&mut args, 0)?;
    ensure!(
        args.is_empty() && outputs.len() == 1,
        "{args:?} {outputs:?}"
    );
    ensure!(outputs[0].shape() == &f32s(&[2, 2]), "{:?}", outputs[0]);
    ensure!(
        get(&outputs[0])? == [11.0, 22.0, 33.0, 44.0],
        "{:?}",
        get(&outputs[0])?
    );
    Ok(())
}

fn any_number_of_results(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    for count in [0, 1, 5, 40] {
        let list = |text: &str| vec![text; count].join(", ");
        let text = format!(
            "module @m {{ func.func public @main(%x: tensor<2xf32>) -> ({}) {{\n\
             return {} {} }} }}",
            list("tensor<2xf32>"),
            list("%x"),
            if count == 0 {
                String::new()
            } else {
                format!(": {}", list("tensor<2xf32>"))
            }
        );
        let signature = Signature {
            inputs: vec![f32s(&[2])],
            outputs: vec![f32s(&[2]); count],
        };
        let program = client.compile(&text, &signature, &CompileOptions::quick())?;
        let outputs = program.execute(&mut arguments([filled(&client, 7.0, 2)?.into()]), 0)?;
        ensure!(
            outputs.len() == count,
            "{} of {count} results",
            outputs.len()
        );
        for output in &outputs {
            ensure!(get(output)? == [7.0, 7.0], "{:?}", get(output)?);
        }
    }
    Ok(())
}

fn many_arguments(plugin: &Arc<Plugin>) -> Outcome {
    const COUNT: usize = 200;
    let client = client(plugin)?;
    let parameters: Vec<String> = (0..COUNT).map(|i| format!("%a{i}: tensor<f32>")).collect();
    let step = |i: usize| {
        let sum = if i + 1 == COUNT {
            "r".to_owned()
        } else {
            format!("s{i}")
        };
        let last = if i == 1 {
            "a0".to_owned()
        } else {
            format!("s{}", i - 1)
        };
        format!("%{sum} = stablehlo.add %{last}, %a{i} : tensor<f32>\n")
    };
    let body: String = (1..COUNT).map(step).collect();
    let text = module(&parameters.join(", "), &f32s(&[]), &body);
    let signature = Signature {
        inputs: vec![f32s(&[]); COUNT],
        outputs: vec![f32s(&[])],
    };
    let program = client.compile(&text, &signature, &CompileOptions::quick())?;
    let mut args = Args::new();
    for index in 0..COUNT {
        args.push(put(&client, &[index as f32], &[])?.into());
    }
    let sum = get(&run(&program, args)?)?;
    ensure!(sum == [(COUNT * (COUNT - 1) / 2) as f32], "{sum:?}");
    Ok(())
}

fn empty_arrays(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[0, 3]), ALIASED)?;
    let x = Arc::new(put(&client, &[], &[0, 3])?);
    for _ in 0..2 {
        let args = arguments([Arg::Keep(Arc::clone(&x)), Arg::Keep(Arc::clone(&x))]);
        let sum = run(&program, args)?;
        ensure!(
            get(&sum)?.is_empty() && sum.host_slice() == Some(&[]),
            "{sum:?}"
        );
    }
    Ok(())
}

fn checks_arguments(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let other = crate::client(plugin)?;
    let program = add(&client, &f32s(&[2, 2]), "")?;
    let good = || put(&client, &[1.0; 4], &[2, 2]);
    let ints = client.buffer_from_host(&[0; 16], &Shape::new(ElementType::S32, &[2, 2]), 0)?;
    let wrong: [(&str, Buffer); 5] = [
        ("rank", put(&client, &[1.0; 4], &[4])?),
        ("order", put(&client, &[1.0; 4], &[1, 4])?),
        ("size", put(&client, &[1.0; 6], &[2, 3])?),
        ("type", ints),
        ("client", put(&other, &[1.0; 4], &[2, 2])?),
    ];
    for (what, buffer) in wrong {
        let mut args = arguments([good()?.into(), buffer.into()]);
        let code = program.execute(&mut args, 0).map_err(|error| error.code());
        ensure!(
            code.err() == Some(Code::Signature),
            "another {what} was taken"
        );
        args[1] = good()?.into();
        ensure!(
            get(&run(&program, args)?)? == [2.0; 4],
            "unusable after another {what}"
        );
    }
    for count in [0, 1, 3] {
        let mut args = Args::new();
        for _ in 0..count {
            args.push(good()?.into());
        }
        let code = program.execute(&mut args, 0).map_err(|error| error.code());
        ensure!(
            code.err() == Some(Code::Signature) && args.len() == count,
            "{count} arguments"
        );
    }
    let mut args = arguments([good()?.into(), good()?.into()]);
    ensure!(
        program.execute(&mut args, 9).is_err(),
        "device 9 does not exist"
    );
    let held = Arc::new(good()?);
    let mut args = arguments([Arg::Donate(Arc::clone(&held)), good()?.into()]);
    let code = program.execute(&mut args, 0).map_err(|error| error.code());
    ensure!(
        code.err() == Some(Code::Signature) && get(&held)? == [1.0; 4],
        "a buffer was donated that is held elsewhere"
    );
    Ok(())
}

fn address(buffer: &Buffer) -> Result<*const u8, tpu_pjrt::Error> {
    Ok(buffer
        .host_bytes()?
        .map_or(std::ptr::null(), <[u8]>::as_ptr))
}

fn donates(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[1000]), ALIASED)?;
    let one = Arc::new(filled(&client, 1.0, 1000)?);
    let mut x = filled(&client, 0.0, 1000)?;
    let start = address(&x)?;
    for _ in 0..1000 {
        x = run(&program, arguments([x.into(), Arg::Keep(Arc::clone(&one))]))?;
    }
    ensure!(address(&x)? == start, "memory was not reused");
    ensure!(get(&x)? == [1000.0; 1000], "{:?}", &get(&x)?[..3]);
    let plain = add(&client, &f32s(&[1000]), "")?;
    let sum = run(&plain, arguments([x.into(), Arg::Keep(one)]))?;
    ensure!(get(&sum)? == [1001.0; 1000], "{:?}", &get(&sum)?[..3]);
    Ok(())
}

fn writes_into_retired_memory(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[1000]), ALIASED)?;
    let one = Arc::new(filled(&client, 1.0, 1000)?);
    let mut dead = filled(&client, 4.0, 1000)?;
    let before = stats(0);
    ensure!(dead.retire() && dead.retire(), "the plugin's own memory");
    ensure!(
        stats(0).buffers == before.buffers - 1 && stats(0).allocated == before.allocated - 4000,
        "retired memory is counted: {:?}",
        stats(0)
    );
    let start = address(&dead)?;
    let sum = run(
        &program,
        arguments([dead.into(), Arg::Keep(Arc::clone(&one))]),
    )?;
    ensure!(address(&sum)? == start, "memory was not reused");
    ensure!(get(&sum)? == [5.0; 1000], "{:?}", &get(&sum)?[..3]);
    ensure!(stats(0).buffers == before.buffers, "{:?}", stats(0));
    Ok(())
}

fn keeps(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[1000]), ALIASED)?;
    let x = Arc::new(filled(&client, 1.0, 1000)?);
    let keep = || Arg::Keep(Arc::clone(&x));
    let sum = run(&program, arguments([keep(), keep()]))?;
    ensure!(
        address(&sum)? != address(&x)?,
        "a kept argument was overwritten"
    );
    ensure!(
        get(&sum)? == [2.0; 1000] && get(&x)? == [1.0; 1000],
        "{:?}",
        &get(&x)?[..3]
    );
    let sum = run(&program, arguments([sum.into(), keep()]))?;
    ensure!(get(&sum)? == [3.0; 1000], "one program does not serve both");
    Ok(())
}

fn counts_memory(plugin: &Arc<Plugin>) -> Outcome {
    const SIZE: u64 = 4000;
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[1000]), ALIASED)?;
    let one = Arc::new(filled(&client, 1.0, 1000)?);
    let mut x = filled(&client, 0.0, 1000)?;
    ensure!(
        stats(0).allocated == 2 * SIZE && stats(0).buffers == 2,
        "{:?}",
        stats(0)
    );
    reset_peak(0);
    for _ in 0..10 {
        x = run(&program, arguments([x.into(), Arg::Keep(Arc::clone(&one))]))?;
    }
    ensure!(
        stats(0).peak == 2 * SIZE,
        "donated memory is counted twice: {:?}",
        stats(0)
    );
    let kept = run(
        &program,
        arguments([Arg::Keep(Arc::new(x)), Arg::Keep(one)]),
    )?;
    ensure!(
        stats(0).allocated == SIZE && stats(0).peak == 3 * SIZE,
        "{:?}",
        stats(0)
    );
    drop(kept);
    ensure!(
        stats(0).allocated == 0 && stats(0).buffers == 0,
        "{:?}",
        stats(0)
    );
    ensure!(stats(0).limit > SIZE, "{:?}", stats(0));
    Ok(())
}

fn from_many_threads(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let program = add(&client, &f32s(&[100]), "")?;
    let work = |thread: usize| -> tpu_pjrt::Result<bool> {
        let x = Arc::new(filled(&client, thread as f32, 100)?);
        let y = Arc::new(filled(&client, 1.0, 100)?);
        let mut right = true;
        for _ in 0..1000 {
            let args = arguments([Arg::Keep(Arc::clone(&x)), Arg::Keep(Arc::clone(&y))]);
            right &= get(&run(&program, args)?)? == [thread as f32 + 1.0; 100];
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

/// A client whose launches return before the program has run.
fn asynchronous(plugin: &Arc<Plugin>) -> tpu_pjrt::Result<Arc<Client>> {
    Client::new(plugin, &[("cpu_device_count", OptionValue::Int(1))])
}

fn drops_in_flight(plugin: &Arc<Plugin>) -> Outcome {
    const SIZE: usize = 512;
    let client = asynchronous(plugin)?;
    let dims = [SIZE as i64, SIZE as i64];
    let program = product(&client, SIZE as i64)?;
    let x = Arc::new(put(&client, &vec![1.0; SIZE * SIZE], &dims)?);
    let mut outputs = Vec::new();
    for _ in 0..8 {
        let y = put(&client, &vec![2.0; SIZE * SIZE], &dims)?;
        outputs.push(run(
            &program,
            arguments([Arg::Keep(Arc::clone(&x)), y.into()]),
        )?);
    }
    let last = outputs.pop().ok_or("no results")?;
    drop((program, x, outputs, client));
    last.wait()?;
    ensure!(last.is_ready(), "not ready after a wait");
    let expected = 2.0 * SIZE as f32;
    ensure!(
        get(&last)?.iter().all(|&value| value == expected),
        "{:?}",
        &get(&last)?[..3]
    );
    Ok(())
}

fn any_device(plugin: &Arc<Plugin>) -> Outcome {
    let client = Client::new(plugin, &[("cpu_device_count", OptionValue::Int(3))])?;
    ensure!(client.devices().len() == 3, "{:?}", client.devices());
    let compiled = add(&client, &f32s(&[2]), "")?;
    let (_, signature) = crate::program::addition(&f32s(&[2]), "");
    let loaded = client.deserialize(&compiled.serialize()?, &signature)?;
    for program in [compiled, loaded] {
        for device in 0..3 {
            let x = client.buffer_from_host(
                &crate::program::bytes(&[1.0, 2.0]),
                &f32s(&[2]),
                device,
            )?;
            let x = Arc::new(x);
            let mut args = arguments([Arg::Keep(Arc::clone(&x)), Arg::Keep(x)]);
            let wrong = program.execute(&mut args, (device + 1) % 3);
            ensure!(
                wrong.is_err(),
                "arguments of device {device} were taken elsewhere"
            );
            let outputs = program.execute(&mut args, device)?;
            ensure!(outputs[0].device() == device, "{outputs:?}");
            ensure!(get(&outputs[0])? == [2.0, 4.0], "{:?}", get(&outputs[0])?);
        }
    }
    Ok(())
}

fn out_of_memory(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let huge = f32s(&[1 << 40]);
    let ty = tensor(&huge);
    let body = format!("%r = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> {ty}");
    let text = module("%x: tensor<f32>", &huge, &body);
    let signature = Signature {
        inputs: vec![f32s(&[])],
        outputs: vec![huge],
    };
    let program = client.compile(&text, &signature, &CompileOptions::quick())?;
    let mut args = arguments([put(&client, &[1.0], &[])?.into()]);
    match program.execute(&mut args, 0) {
        Ok(_) => return Err("4 TiB were allocated".into()),
        Err(error) => ensure!(error.is_oom(), "{error:?}"),
    }
    ensure!(args.len() == 1, "the arguments are gone");
    let program = add(&client, &f32s(&[2]), "")?;
    let args = arguments([
        filled(&client, 1.0, 2)?.into(),
        filled(&client, 1.0, 2)?.into(),
    ]);
    ensure!(get(&run(&program, args)?)? == [2.0, 2.0], "unusable after");
    Ok(())
}
