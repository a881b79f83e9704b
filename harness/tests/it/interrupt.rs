//! Interrupting the program keeps finished trials, exits 7 and leaves no
//! process behind; resuming runs what is missing.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};

use crate::support::{Scene, trained};

/// Two trials; the second waits for a worker that is ten minutes late.
const EXPERIMENT: &str = "\
batches_per_worker: 2
systems:
  - system: allreduce
  - system: scatterreduce
    faults: [{rank: 1, epoch: 0, batch: 1, kind: {straggler_ms: 600000}}]
";

/// Three trials, the second of which takes three seconds and more.
const WHOLE: &str = "--set 'systems=[allreduce, {system: scatterreduce, faults: [{rank: 1, epoch: 0, batch: 1, \
                     kind: {straggler_ms: 3000}}]}, spirt]'";

/// How long anything here may take before it counts as stuck.
const BOUND: Duration = Duration::from_secs(120);

/// The experiment beside a worker binary of its own, by which its processes are known.
struct Trials {
    scene: Scene,
    worker: PathBuf,
}

impl Trials {
    fn new() -> Self {
        let scene = Scene::of("interrupted.yaml", &trained(EXPERIMENT));
        let worker = scene.file("bootstrap");
        fs::copy(find_or_build().unwrap().path, &worker).unwrap();
        let worker = worker.canonicalize().unwrap();
        Self { scene, worker }
    }

    fn command(&self, arguments: &str) -> Command {
        let run = format!("run interrupted.yaml --out run {arguments}");
        let mut command = self.scene.command(&run);
        command.env(WORKER_VARIABLE, &self.worker);
        command
    }

    fn run(&self, arguments: &str) -> Child {
        let mut command = self.command(arguments);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn finished_trials(&self) -> usize {
        let rows = self.scene.file("run/trials.jsonl");
        fs::read_to_string(rows).map_or(0, |rows| rows.lines().count())
    }

    fn processes(&self) -> usize {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let executables = all.filter_map(|entry| fs::read_link(entry.path().join("exe")).ok());
        executables.filter(|own| *own == self.worker).count()
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
    let sent = Command::new("kill").args(arguments).status();
    assert!(sent.unwrap().success());
}

/// Whether these tests run under `nohup`, which programs that they start inherit.
fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:\t"));
    let ignored = u64::from_str_radix(ignored.unwrap(), 16).unwrap();
    ignored & 1 == 1
}

#[test]
fn an_interrupt_keeps_finished_trials_and_ends_the_workers() {
    for name in ["INT", "TERM", "HUP"] {
        if name == "HUP" && ignores_hang_up() {
            continue;
        }
        let trials = Trials::new();
        let mut child = trials.run("");
        trials.until_in_the_second_trial();
        signal(name, &child);
        assert_eq!(child.wait().unwrap().code(), Some(7), "SIG{name}");
        assert_eq!(trials.finished_trials(), 1);
        until(|| trials.processes() == 0);
        for kept in ["run/report.html", "run/summary.json"] {
            assert!(trials.scene.has(kept), "{kept}");
        }
    }
}

#[test]
fn killing_the_program_ends_the_workers_and_the_run_can_be_resumed() {
    let trials = Trials::new();
    let mut child = trials.run("");
    trials.until_in_the_second_trial();
    signal("KILL", &child);
    child.wait().unwrap();
    until(|| trials.processes() == 0);
    assert_eq!(trials.finished_trials(), 1);

    let mut again = trials.run("--resume");
    until(|| trials.processes() == 2);
    // A second program is refused, and leaves what the first has begun.
    let second = trials.scene.end(&mut trials.command("--resume"));
    let holder = format!("process {}", again.id());
    second.ends(2).says(&[&holder]);
    // The first trial is not run again.
    assert_eq!(trials.finished_trials(), 1);
    signal("INT", &again);
    assert_eq!(again.wait().unwrap().code(), Some(7));
    until(|| trials.processes() == 0);
}

/// Another build of the worker that comes meanwhile is not what later trials start.
#[test]
fn a_worker_that_is_replaced_during_a_run_still_runs_as_it_was() {
    let trials = Trials::new();
    // A sandbox has a `/tmp` of its own.
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let ran = outside.path().join("ran");
    let new = trials.worker.with_extension("new");
    let worker = find_or_build().unwrap().path;
    let [touched, worker] = [&ran, &worker].map(|path| path.display());
    let script = format!("#!/bin/sh\ntouch {touched}\nexec {worker} \"$@\"\n");
    fs::write(&new, script).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    let mut child = trials.run(WHOLE);
    until(|| trials.finished_trials() == 1);
    fs::rename(&new, &trials.worker).unwrap();
    assert_eq!(trials.finished_trials(), 1, "it was replaced too late");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(trials.finished_trials(), 3);
    assert!(!ran.exists(), "the new worker was started");
}
