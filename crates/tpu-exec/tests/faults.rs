//! Processes that share a directory, and everything that can go wrong in it. Each case ends in
//! right numbers, is counted by cause, and gives at most one warning.
//!
//! A case runs this test binary again as another process: `a_process_that_runs_programs`.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use support::{check_double, client, double, plugin_path};
use tempfile::TempDir;
use tpu_exec::{Options, Programs, Request, Tier};

const PROCESS: &str = "a_process_that_runs_programs";
const PLUGIN: &str = "TEST_PROCESS_PLUGIN";
const COUNT: &str = "TEST_PROCESS_COUNT";
const REPORT: &str = "report: ";

#[test]
#[ignore = "run by the other tests as a process of its own"]
fn a_process_that_runs_programs() {
    let plugin = std::env::var_os(PLUGIN).expect("the test that starts this process sets it");
    let count: usize = std::env::var(COUNT)
        .expect("set")
        .parse()
        .expect("a number");
    let client = client(Path::new(&plugin));
    let programs = Programs::new(client.clone(), Options::from_settings());
    for size in 1..=count {
        let program = programs
            .get(&Request::new(&double(size), Tier::Quick))
            .expect("a program");
        check_double(&client, &program, size);
    }
    programs.flush();
    let counters = serde_json::to_string(&tpu_obs::counters::snapshot()).expect("plain data");
    println!("\n{REPORT}{counters}");
}

/// How a process is started.
struct Process {
    count: usize,
    plugin: PathBuf,
    settings: Vec<(&'static str, String)>,
    /// Shell commands before the process itself.
    limits: &'static str,
}

/// What a process did.
struct Report {
    counters: Value,
    warnings: Vec<String>,
}

impl Process {
    /// One that runs `count` programs and keeps them in `dir`.
    fn new(dir: &Path, count: usize) -> Process {
        let settings = vec![("TORCH_TPU_CACHE_DIR", dir.display().to_string())];
        Process {
            count,
            plugin: plugin_path(),
            settings,
            limits: "",
        }
    }

    fn set(mut self, name: &'static str, value: &str) -> Process {
        self.settings.push((name, value.to_owned()));
        self
    }

    fn start(&self) -> Child {
        Command::new("sh")
            .args(["-c", &format!("{} exec \"$0\" \"$@\"", self.limits)])
            .arg(std::env::current_exe().expect("own path"))
            .args(["--exact", PROCESS, "--ignored", "--nocapture"])
            .env(PLUGIN, &self.plugin)
            .env(COUNT, self.count.to_string())
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell")
    }

    fn run(&self) -> Report {
        Report::of(self.start().wait_with_output().expect("ran"))
    }
}

impl Report {
    fn of(output: Output) -> Report {
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.success(),
            "{}\n{stdout}\n{stderr}",
            output.status
        );
        let report = stdout
            .lines()
            .find_map(|line| line.strip_prefix(REPORT))
            .expect("a report");
        let warnings = stderr.lines().filter(|line| line.contains("warning"));
        Report {
            counters: serde_json::from_str(report).expect("counters"),
            warnings: warnings.map(str::to_owned).collect(),
        }
    }

    fn count(&self, pointer: &str) -> u64 {
        self.counters
            .pointer(pointer)
            .and_then(Value::as_u64)
            .expect(pointer)
    }

    /// Compiles and disk hits.
    fn work(&self) -> (u64, u64) {
        (
            self.count("/compiles/quick"),
            self.count("/cache/disk_hits"),
        )
    }

    fn miss(&self, cause: &str) -> u64 {
        self.count(&format!("/cache/misses/{cause}"))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn cache() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// The files of the cache that end in `extension`.
fn files(dir: &TempDir, extension: &str) -> Vec<PathBuf> {
    let programs = fs::read_dir(dir.path().join("programs"))
        .into_iter()
        .flatten();
    let paths: BTreeSet<PathBuf> = programs.map(|file| file.expect("read").path()).collect();
    paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .collect()
}

#[test]
fn the_next_process_compiles_nothing() {
    let dir = cache();
    let first = Process::new(dir.path(), 3).run();
    assert_eq!(
        (
            first.work(),
            first.miss("cold"),
            first.count("/cache/stores")
        ),
        ((3, 0), 3, 3)
    );
    assert_eq!(
        (files(&dir, "program").len(), files(&dir, "lock").len()),
        (3, 0)
    );
    let second = Process::new(dir.path(), 3).run();
    assert_eq!(
        (
            second.work(),
            second.miss("cold"),
            second.count("/launches")
        ),
        ((0, 3), 0, 3)
    );
    assert_eq!(second.warnings, Vec::<String>::new());
}

#[test]
fn processes_at_once_compile_each_program_once() {
    let dir = cache();
    let process = Process::new(dir.path(), 5);
    let running: Vec<Child> = (0..3).map(|_| process.start()).collect();
    let outputs = running
        .into_iter()
        .map(|child| child.wait_with_output().expect("ran"));
    let work: Vec<(u64, u64)> = outputs.map(|output| Report::of(output).work()).collect();
    let compiled: u64 = work.iter().map(|(compiles, _)| compiles).sum();
    assert_eq!(compiled, 5, "{work:?}");
    assert!(
        work.iter().all(|(compiles, hits)| compiles + hits == 5),
        "{work:?}"
    );
}

#[test]
fn who_waits_for_a_process_that_dies_compiles_itself() {
    let dir = cache();
    Process::new(dir.path(), 1).run();
    let entry = files(&dir, "program").pop().expect("stored");
    fs::remove_file(&entry).expect("removed");
    let lock = File::create(entry.with_extension("lock")).expect("made");
    lock.lock().expect("free");
    let mut waiting = Process::new(dir.path(), 1).start();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(
        waiting.try_wait().expect("ours").is_none(),
        "it does not wait"
    );
    assert_eq!(files(&dir, "program").len(), 0);
    // What the system does when a process dies.
    drop(lock);
    let report = Report::of(waiting.wait_with_output().expect("ran"));
    assert_eq!((report.work(), report.warnings.len()), ((1, 0), 0));
}

#[test]
fn a_killed_writer_leaves_nothing_to_stumble_over() {
    const SIGXFSZ: i32 = 25;
    let dir = cache();
    let mut process = Process::new(dir.path(), 1);
    // The system kills it in the middle of writing its first entry.
    process.limits = "ulimit -c 0; ulimit -f 1;";
    let output = process.start().wait_with_output().expect("ran");
    assert_eq!(
        output.status.signal(),
        Some(SIGXFSZ),
        "{}",
        text(&output.stderr)
    );
    let part = files(&dir, "part").pop().expect("part of an entry");
    assert!(fs::metadata(part).expect("there").len() > 0);
    assert_eq!(
        (files(&dir, "lock").len(), files(&dir, "program").len()),
        (1, 0)
    );

    let next = Process::new(dir.path(), 1).run();
    assert_eq!(
        (next.work(), next.miss("cold"), next.warnings.len()),
        ((1, 0), 1, 0)
    );
    assert_eq!(Process::new(dir.path(), 1).run().work(), (0, 1));
}

/// Damages the one entry, expects the next process to count `cause` and the one after it to find
/// the entry healed.
fn check_damage(cause: &str, damage: impl Fn(&Path)) {
    let dir = cache();
    Process::new(dir.path(), 1).run();
    damage(&files(&dir, "program").pop().expect("stored"));
    let next = Process::new(dir.path(), 1).run();
    assert_eq!(
        (next.work(), next.miss(cause), next.warnings.len()),
        ((1, 0), 1, 0),
        "{cause}"
    );
    assert_eq!(Process::new(dir.path(), 1).run().work(), (0, 1), "{cause}");
}

#[test]
fn a_corrupted_entry_is_compiled_anew() {
    check_damage("corrupt", |entry| {
        let mut file = File::options().write(true).open(entry).expect("writable");
        let middle = file.metadata().expect("there").len() / 2;
        file.seek(SeekFrom::Start(middle)).expect("within");
        file.write_all(&[0x5a; 16]).expect("written");
    });
}

#[test]
fn a_truncated_entry_is_compiled_anew() {
    check_damage("truncated", |entry| {
        let file = File::options().write(true).open(entry).expect("writable");
        file.set_len(file.metadata().expect("there").len() - 1)
            .expect("cut");
    });
    check_damage("truncated", |entry| {
        drop(File::create(entry).expect("emptied"))
    });
}

#[test]
fn an_entry_of_another_program_is_compiled_anew() {
    let dir = cache();
    Process::new(dir.path(), 2).run();
    let entries = files(&dir, "program");
    let aside = entries[0].with_extension("aside");
    fs::rename(&entries[0], &aside).expect("moved");
    fs::rename(&entries[1], &entries[0]).expect("moved");
    fs::rename(&aside, &entries[1]).expect("moved");
    let next = Process::new(dir.path(), 2).run();
    assert_eq!(
        (next.work(), next.miss("foreign"), next.warnings.len()),
        ((2, 0), 2, 0)
    );
    assert_eq!(Process::new(dir.path(), 2).run().work(), (0, 2));
}

#[test]
fn programs_belong_to_the_bytes_of_the_plugin() {
    let dir = cache();
    Process::new(dir.path(), 1).run();
    let mut process = Process::new(dir.path(), 1);
    let copy = dir.path().join("plugin.so");
    fs::copy(&process.plugin, &copy).expect("copied");
    process.plugin = copy.clone();
    assert_eq!(
        process.run().work(),
        (0, 1),
        "the same plugin in another place"
    );

    // Bytes after the end of a library do no harm, but it is another file.
    let mut file = File::options().append(true).open(&copy).expect("writable");
    file.write_all(b"another build").expect("written");
    let other = process.run();
    assert_eq!(
        (other.work(), other.miss("cold")),
        ((1, 0), 1),
        "another plugin"
    );
    assert_eq!(
        Process::new(dir.path(), 1).run().work(),
        (0, 1),
        "the first one"
    );
}

#[test]
fn a_full_disk_is_told_once() {
    let dir = cache();
    let mut process = Process::new(dir.path(), 3);
    // Writes beyond 512 or 1024 bytes (shells differ) fail instead of killing.
    process.limits = "trap '' XFSZ; ulimit -f 1;";
    let report = process.run();
    assert_eq!(
        (report.work(), report.count("/cache/store_failures")),
        ((3, 0), 3)
    );
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    assert!(
        report.warnings[0].contains("File too large"),
        "{:?}",
        report.warnings
    );
    assert_eq!(
        files(&dir, "part"),
        Vec::<PathBuf>::new(),
        "room is given back"
    );
    assert_eq!(Process::new(dir.path(), 3).run().work(), (3, 0));
}

#[test]
fn a_directory_that_cannot_be_used_is_told_once() {
    let dir = cache();
    let file = dir.path().join("file");
    fs::write(&file, "no directory").expect("written");
    let report = Process::new(&file.join("below"), 3).run();
    assert_eq!((report.work(), report.miss("io")), ((3, 0), 3));
    assert_eq!(report.count("/cache/store_failures"), 3);
    assert_eq!(report.warnings.len(), 1, "{:?}", report.warnings);
    assert!(
        report.warnings[0].contains("TORCH_TPU_CACHE_DIR"),
        "{:?}",
        report.warnings
    );
}

#[test]
fn a_cache_that_is_only_read_is_used_and_not_written() {
    let dir = cache();
    Process::new(dir.path(), 1).run();
    let report = Process::new(dir.path(), 2)
        .set("TORCH_TPU_CACHE", "readonly")
        .run();
    assert_eq!((report.work(), report.count("/cache/stores")), ((1, 1), 0));
    assert_eq!(
        (report.count("/cache/store_failures"), report.warnings.len()),
        (0, 0)
    );
    assert_eq!(files(&dir, "program").len(), 1);
}

#[test]
fn a_cache_that_is_off_is_not_touched() {
    let dir = cache();
    let report = Process::new(dir.path(), 2)
        .set("TORCH_TPU_CACHE", "off")
        .run();
    assert_eq!((report.work(), report.miss("cold")), ((2, 0), 2));
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0);
}

#[test]
fn options_for_the_compiler_come_from_the_settings() {
    let dir = cache();
    let options = "xla_backend_optimization_level=1 --xla_cpu_enable_fast_math=false";
    let process = |dir| Process::new(dir, 1).set("TORCH_TPU_XLA_OPTIONS", options);
    assert_eq!(process(dir.path()).run().work(), (1, 0));
    assert_eq!(process(dir.path()).run().work(), (0, 1));
    assert_eq!(Process::new(dir.path(), 1).run().work(), (1, 0));
}

#[test]
fn the_size_is_kept() {
    let dir = cache();
    Process::new(dir.path(), 1).run();
    let one = fs::metadata(files(&dir, "program").pop().expect("stored"))
        .expect("there")
        .len();
    let limit = 3 * one + one / 2;
    let process = Process::new(dir.path(), 8).set("TORCH_TPU_CACHE_SIZE", &limit.to_string());
    let report = process.run();
    let sizes = files(&dir, "program")
        .into_iter()
        .map(|p| fs::metadata(p).expect("there").len());
    let total: u64 = sizes.sum();
    assert!(total <= limit, "{total} of {limit}");
    assert_eq!(report.work(), (7, 1));
    assert!(report.count("/cache/evictions") >= 4, "{}", report.counters);
    assert_eq!(report.warnings, Vec::<String>::new());
}
