//! Processes that fork or end while a client is open.

use crate::program::{add, f32s, filled, get, product, put, run};
use crate::{Check, Outcome, client};
use std::sync::Arc;
use tpu_pjrt::{Client, Code, CompileOptions, OptionValue, Plugin, arguments, is_forked};

pub(crate) const CHECKS: &[Check] = &[
    ("process.refuses_after_fork", refuses_after_fork),
    ("process.opens_in_child", opens_in_child),
    ("process.ends_with_open_client", ends_with_open_client),
    ("process.checks_client_options", checks_client_options),
    ("process.loads_once", loads_once),
];

/// Runs `child` in a fork of this process, and fails where it does not return 0.
#[expect(unsafe_code, reason = "fork and friends")]
fn fork(child: impl FnOnce() -> Outcome) -> Outcome {
    // SAFETY: the child runs `child` only, then leaves without destructors or exit handlers.
    let id = unsafe { libc::fork() };
    if id == 0 {
        let result = child();
        if let Err(error) = &result {
            eprintln!("{error}");
        }
        // SAFETY: nothing is needed for it.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let waited = unsafe { libc::waitpid(id, &raw mut status, 0) };
    ensure!(
        waited == id && status == 0,
        "the child ended with status {status:#x}"
    );
    Ok(())
}

/// Does everything once and tells whether each attempt says that the process was forked.
fn refuses_after_fork(plugin: &Arc<Plugin>) -> Outcome {
    let client = client(plugin)?;
    let shape = f32s(&[64, 64]);
    let program = product(&client, 64)?;
    let x = Arc::new(put(&client, &[1.0; 4096], &[64, 64])?);
    fork(move || {
        let mut args = arguments([Arc::clone(&x).into(), Arc::clone(&x).into()]);
        ensure!(is_forked(), "not noticed");
        let (text, signature) = crate::program::addition(&shape, "");
        let refusals = [
            program.execute(&mut args, 0).err(),
            program.serialize().err(),
            client.buffer_from_host(&[0; 4], &f32s(&[]), 0).err(),
            client
                .compile(&text, &signature, &CompileOptions::quick())
                .err(),
            client.deserialize(&[], &signature).err(),
            x.to_host(&mut [0; 16384]).err(),
            Client::new(plugin, &[]).err(),
        ];
        for (index, refusal) in refusals.iter().enumerate() {
            let code = refusal.as_ref().map(tpu_pjrt::Error::code);
            ensure!(code == Some(Code::Forked), "attempt {index}: {refusal:?}");
        }
        ensure!(
            x.host_slice().is_none(),
            "memory of a parent's buffer was lent"
        );
        drop((args, program, x, client));
        Ok(())
    })?;
    Ok(())
}

/// A plugin that is only loaded does not hinder a child.
fn opens_in_child(plugin: &Arc<Plugin>) -> Outcome {
    fork(|| {
        let client = client(plugin)?;
        let program = add(&client, &f32s(&[2]), "")?;
        let args = arguments([
            filled(&client, 1.0, 2)?.into(),
            filled(&client, 2.0, 2)?.into(),
        ]);
        ensure!(
            get(&run(&program, args)?)? == [3.0, 3.0],
            "wrong in the child"
        );
        Ok(())
    })?;
    ensure!(!is_forked(), "the parent is no child");
    ensure!(
        get(&filled(&client(plugin)?, 1.0, 2)?)? == [1.0, 1.0],
        "wrong in the parent"
    );
    Ok(())
}

/// The process ends right after this, with work in flight: it must not crash or hang.
fn ends_with_open_client(plugin: &Arc<Plugin>) -> Outcome {
    const SIZE: usize = 512;
    let client = Client::new(plugin, &[("cpu_device_count", OptionValue::Int(1))])?;
    let program = product(&client, SIZE as i64)?;
    let dims = [SIZE as i64, SIZE as i64];
    for _ in 0..4 {
        let x = put(&client, &vec![1.0; SIZE * SIZE], &dims)?;
        let y = put(&client, &vec![1.0; SIZE * SIZE], &dims)?;
        std::mem::forget(run(&program, arguments([x.into(), y.into()]))?);
    }
    std::mem::forget((client, program));
    Ok(())
}

/// Values that would end the process inside the plugin never reach it.
fn checks_client_options(plugin: &Arc<Plugin>) -> Outcome {
    let options: [(&str, OptionValue); 7] = [
        ("cpu_device_count", (-1).into()),
        ("cpu_device_count", 0.into()),
        ("cpu_device_count", true.into()),
        ("cpu_device_count", "1".into()),
        ("asynchronous", 0.into()),
        ("process_id", (-1).into()),
        ("no_such_option", 1.into()),
    ];
    for option in options {
        let result = Client::new(plugin, std::slice::from_ref(&option));
        let code = result.as_ref().err().map(tpu_pjrt::Error::code);
        ensure!(
            code == Some(Code::InvalidArgument),
            "{option:?}: {result:?}"
        );
    }
    ensure!(!is_forked() && client(plugin).is_ok(), "unusable after");
    Ok(())
}

fn loads_once(plugin: &Arc<Plugin>) -> Outcome {
    ensure!(
        Arc::ptr_eq(plugin, &Plugin::load(plugin.path())?),
        "loaded twice"
    );
    let missing = Plugin::load("/nonexistent/plugin.so".as_ref()).map_err(|error| error.code());
    ensure!(
        missing.err() == Some(Code::Plugin),
        "a missing file was loaded"
    );
    let other = std::env::current_exe()?;
    let no_plugin = Plugin::load(&other).map_err(|error| error.code());
    ensure!(
        no_plugin.err() == Some(Code::Plugin),
        "`{}` was loaded",
        other.display()
    );
    Ok(())
}
