//! Interrupting the program keeps finished trials, exits 7 and leaves no
//! process behind; resuming runs what is missing.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::program;

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};

/// Two trials; the second waits for a worker that is ten minutes late.
const EXPERIMENT: &str = "\
schema: 1
name: interrupted
dataset: {name: synthetic-mnist, train: 256, test: 32}
model: lenet5
workers: 2
batch_size: 8
batches_per_worker: 2
epochs: 1
systems:
  - system: allreduce
  - system: scatterreduce
    faults: [{rank: 1, epoch: 0, batch: 1, kind: {straggler_ms: 600000}}]
";

/// Three trials, the second of which takes three seconds and more.
const WHOLE: [&str; 2] = [
    "--set",
    "systems=[allreduce, {system: scatterreduce, faults: [{rank: 1, epoch: 0, batch: 1, \
     kind: {straggler_ms: 3000}}]}, spirt]",
];

/// How long anything here may take before it counts as stuck.
const BOUND: Duration = Duration::from_secs(120);

struct Scene {
    directory: tempfile::TempDir,
    worker: PathBuf,
}

impl Scene {
    /// A directory with the experiment and a worker binary of its own, by
    /// which its processes are known.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("interrupted.yaml"), EXPERIMENT).unwrap();
        let worker = directory.path().join("bootstrap");
        fs::copy(find_or_build().unwrap().path, &worker).unwrap();
        let worker = worker.canonicalize().unwrap();
        Self { directory, worker }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command
            .args(["run", "interrupted.yaml", "--out", "run"])
            .args(arguments)
            .current_dir(self.directory.path())
            .env(WORKER_VARIABLE, &self.worker);
        command
    }

    fn run(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn finished_trials(&self) -> usize {
        let rows = self.directory.path().join("run/trials.jsonl");
        fs::read_to_string(rows).map_or(0, |rows| rows.lines().count())
    }

    fn processes(&self) -> usize {
        let executables = fs::read_dir("/proc").unwrap().flatten();
        executables
            .filter_map(|entry| fs::read_link(entry.path().join("exe")).ok())
            .filter(|executable| *executable == self.worker)
            .count()
    }

    /// The first trial is done, the second has both its workers.
    fn until_in_the_second_trial(&self) {
        until(|| self.finished_trials() == 1 && self.processes() == 2);
    }
}

fn until(condition: impl Fn() -> bool) {
    let since = Instant::now();
    while !condition() {
        assert!(since.elapsed() < BOUND, "the condition comes true");
        sleep(Duration::from_millis(20));
    }
}

fn signal(name: &str, child: &Child) {
    let arguments = [format!("-{name}"), child.id().to_string()];
    assert!(
        Command::new("kill")
            .args(arguments)
            .status()
            .unwrap()
            .success()
    );
}

/// Whether these tests run under `nohup`, which programs that they start inherit.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:\t"));
    let ignored = u64::from_str_radix(ignored.unwrap(), 16).unwrap();
    ignored & 1 == 1
}

fn kept(directory: &Path, file: &str) -> bool {
    directory.join("run").join(file).is_file()
}

#[test]
fn an_interrupt_keeps_finished_trials_and_ends_the_workers() {
    for name in ["INT", "TERM", "HUP"] {
        if name == "HUP" && ignores_hang_up() {
            continue;
        }
        let scene = Scene::new();
        let mut child = scene.run(&[]);
        scene.until_in_the_second_trial();
        signal(name, &child);
        assert_eq!(child.wait().unwrap().code(), Some(7), "SIG{name}");
        assert_eq!(scene.finished_trials(), 1);
        until(|| scene.processes() == 0);
        let path = scene.directory.path();
        assert!(kept(path, "report.html") && kept(path, "summary.json"));
    }
}

#[test]
fn killing_the_program_ends_the_workers_and_the_run_can_be_resumed() {
    let scene = Scene::new();
    let mut child = scene.run(&[]);
    scene.until_in_the_second_trial();
    signal("KILL", &child);
    child.wait().unwrap();
    until(|| scene.processes() == 0);
    assert_eq!(scene.finished_trials(), 1);

    let mut again = scene.run(&["--resume"]);
    until(|| scene.processes() == 2);
    // A second program is refused, and leaves what the first has begun.
    let second = scene.command(&["--resume"]).output().unwrap();
    let message = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(2), "{message}");
    let holder = format!("process {}", again.id());
    assert!(message.contains(&holder), "{message}");
    assert_eq!(
        scene.finished_trials(),
        1,
        "the first trial is not run again"
    );
    signal("INT", &again);
    assert_eq!(again.wait().unwrap().code(), Some(7));
    until(|| scene.processes() == 0);
}

/// Another build of the worker that comes meanwhile is not what later trials start.
#[test]
fn a_worker_that_is_replaced_during_a_run_still_runs_as_it_was() {
    let scene = Scene::new();
    // A sandbox has a `/tmp` of its own.
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (ran, new) = (
        outside.path().join("ran"),
        scene.worker.with_extension("new"),
    );
    let worker = find_or_build().unwrap().path;
    let [touched, worker] = [&ran, &worker].map(|path| path.display());
    let script = format!("#!/bin/sh\ntouch {touched}\nexec {worker} \"$@\"\n");
    fs::write(&new, script).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = scene.run(&WHOLE);
    until(|| scene.finished_trials() == 1);
    fs::rename(&new, &scene.worker).unwrap();
    assert_eq!(scene.finished_trials(), 1, "it was replaced too late");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(scene.finished_trials(), 3);
    assert!(!ran.exists(), "the new worker was started");
}
