//! One process: programs in memory, shared while they are on their way, interrupted, refused.

mod support;

use std::cell::Cell;
use std::sync::{Arc, LazyLock};
use std::thread;
use support::{check_double, client, double, plugin_path};
use tpu_exec::{Error, Module, Options, Origin, Program, Programs, Request, Tier};
use tpu_obs::counters::Miss;
use tpu_obs::settings::CacheMode;
use tpu_pjrt::{Client, Code, ElementType, OptionValue, Shape};

static CLIENT: LazyLock<Arc<Client>> = LazyLock::new(|| client(&plugin_path()));

fn options() -> Options {
    Options {
        cache: CacheMode::Off,
        cache_dir: None,
        cache_size: 1 << 30,
        compile_threads: 2,
        xla_options: Vec::new(),
        device: 0,
    }
}

fn programs() -> Programs {
    Programs::new(Arc::clone(&CLIENT), options())
}

fn get(programs: &Programs, module: &Module, tier: Tier) -> Arc<Program> {
    programs
        .get(&Request::new(module, tier))
        .expect("a program")
}

/// A module that takes long to compile: `length` different operations in a row.
fn slow(length: usize) -> Module {
    let ty = "tensor<64xf32>";
    let mut text = format!("module @slow {{\n  func.func public @main(%v0: {ty}) -> {ty} {{\n");
    for index in 0..length {
        let op = ["sine", "exponential", "tanh", "logistic"][index % 4];
        text += &format!("    %v{} = stablehlo.{op} %v{index} : {ty}\n", index + 1);
    }
    text += &format!("    return %v{length} : {ty}\n  }}\n}}\n");
    let shape = Shape::new(ElementType::F32, &[64]);
    Module {
        text,
        inputs: vec![shape.clone()],
        spares: 0,
        outputs: vec![shape],
    }
}

#[test]
fn a_program_is_compiled_once_per_tier() {
    let programs = programs();
    let quick = get(&programs, &double(3), Tier::Quick);
    assert!(Arc::ptr_eq(
        &quick,
        &get(&programs, &double(3), Tier::Quick)
    ));
    let full = get(&programs, &double(3), Tier::Full);
    assert_ne!(quick.key(), full.key());
    assert_eq!(
        (quick.tier(), full.tier(), programs.len()),
        (Tier::Quick, Tier::Full, 2)
    );
    assert_eq!(quick.origin(), Origin::Compiled(Miss::Cold));
    check_double(&CLIENT, &quick, 3);
    check_double(&CLIENT, &full, 3);
}

#[test]
fn who_asks_together_gets_the_same_program() {
    let (programs, module) = (programs(), slow(100));
    let found: Vec<Arc<Program>> = thread::scope(|scope| {
        let ask = || scope.spawn(|| get(&programs, &module, Tier::Full));
        let asked: Vec<_> = (0..4).map(|_| ask()).collect();
        asked
            .into_iter()
            .map(|thread| thread.join().expect("a program"))
            .collect()
    });
    assert!(found.iter().all(|program| Arc::ptr_eq(program, &found[0])));
    assert_eq!(found[0].id(), 1);
    assert_eq!(
        get(&programs, &double(1), Tier::Quick).id(),
        2,
        "nothing was compiled besides"
    );
}

#[test]
fn an_interrupted_compile_goes_on_and_is_kept() {
    let (programs, module) = (programs(), slow(300));
    let asked = Cell::new(0);
    let give_up = || {
        asked.set(asked.get() + 1);
        asked.get() == 2
    };
    let error = programs
        .get(&Request {
            interrupted: &give_up,
            ..Request::new(&module, Tier::Full)
        })
        .expect_err("interrupted");
    assert!(matches!(error, Error::Interrupted { .. }), "{error}");
    assert_eq!((asked.get(), programs.len()), (2, 1));
    programs.flush();
    let program = get(&programs, &module, Tier::Full);
    assert_eq!((program.id(), programs.len()), (1, 1));
}

#[test]
fn a_refused_module_is_refused_again_and_harms_nobody() {
    let programs = programs();
    let mut module = double(2);
    module.text = module.text.replace("stablehlo.add", "stablehlo.madd");
    for _ in 0..2 {
        let error = programs
            .get(&Request::new(&module, Tier::Quick))
            .expect_err("no such op");
        assert!(matches!(error, Error::Compile { .. }), "{error}");
        assert!(error.to_string().contains("madd"), "{error}");
        assert!(error.device().is_some());
    }
    assert!(programs.is_empty());
    check_double(&CLIENT, &get(&programs, &double(2), Tier::Quick), 2);
}

#[test]
fn a_module_that_lies_about_its_results_is_refused() {
    let mut module = double(2);
    module.outputs = vec![Shape::new(ElementType::F32, &[3])];
    let error = programs()
        .get(&Request::new(&module, Tier::Quick))
        .expect_err("another shape");
    assert_eq!(
        error.device().map(tpu_pjrt::Error::code),
        Some(Code::Signature),
        "{error}"
    );
}

#[test]
fn a_wrong_argument_does_not_reach_the_device() {
    let program = get(&programs(), &double(4), Tier::Quick);
    let shape = Shape::new(ElementType::S32, &[4]);
    let buffer = CLIENT
        .buffer_from_host(&[0; 16], &shape, 0)
        .expect("copied");
    let mut args = tpu_pjrt::arguments([buffer.into()]);
    let error = program.launch(&mut args).expect_err("another type");
    assert_eq!(
        error.device().map(tpu_pjrt::Error::code),
        Some(Code::Signature),
        "{error}"
    );
    assert_eq!(args.len(), 1);
}

#[test]
fn xla_options_make_another_program() {
    let flag = (
        "xla_cpu_enable_fast_math".to_owned(),
        OptionValue::Bool(true),
    );
    let fast = Options {
        xla_options: vec![flag],
        ..options()
    };
    let fast = Programs::new(Arc::clone(&CLIENT), fast);
    let program = get(&fast, &double(5), Tier::Full);
    assert_ne!(
        program.key(),
        get(&programs(), &double(5), Tier::Full).key()
    );
    check_double(&CLIENT, &program, 5);

    let flag = ("xla_no_such_flag".to_owned(), OptionValue::Int(1));
    let wrong = Options {
        xla_options: vec![flag],
        ..options()
    };
    let wrong = Programs::new(Arc::clone(&CLIENT), wrong);
    let error = wrong
        .get(&Request::new(&double(5), Tier::Full))
        .expect_err("no such flag");
    assert!(error.to_string().contains("xla_no_such_flag"), "{error}");
}

#[test]
fn programs_of_one_process_share_the_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let on_disk = Options {
        cache: CacheMode::On,
        cache_dir: Some(dir.path().to_owned()),
        ..options()
    };
    let first = Programs::new(Arc::clone(&CLIENT), on_disk.clone());
    let compiled = get(&first, &double(6), Tier::Quick);
    first.flush();
    first.clear();
    assert_eq!(compiled.origin(), Origin::Compiled(Miss::Cold));
    let again = get(&first, &double(6), Tier::Quick);
    assert_eq!(
        (again.origin(), again.key()),
        (Origin::Loaded, compiled.key())
    );
    let second = Programs::new(Arc::clone(&CLIENT), on_disk);
    let loaded = get(&second, &double(6), Tier::Quick);
    assert_eq!(loaded.origin(), Origin::Loaded);
    check_double(&CLIENT, &loaded, 6);
    check_double(&CLIENT, &compiled, 6);
}
