//! Kernels and file systems that answer otherwise, by a library that the loader puts before C's.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost_record::RunDirectory;
use epochcost_testing::or_skip;

use crate::support::{epochcost, program};

/// Adds a file's nanoseconds to the system's time, and refuses locks.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long *ahead;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *there = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (there != MAP_FAILED) ahead = there;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int ended = syscall(SYS_clock_gettime, clock, now);
    if (ended == 0 && clock == CLOCK_REALTIME && ahead) now->tv_sec += *ahead / 1000000000;
    return ended;
}

int flock(int file, int operation) {
    if (getenv("TEST_NO_LOCKS")) {
        errno = ENOLCK;
        return -1;
    }
    return syscall(SYS_flock, file, operation);
}
"#;

/// The second of three trials takes three seconds and more.
const TRAINED: &str = "\
schema: 1
name: trained
dataset: {name: synthetic-mnist, train: 256, test: 32}
model: lenet5
workers: 2
batch_size: 8
batches_per_worker: 2
epochs: 1
systems:
  - allreduce
  - {system: scatterreduce, faults: [{rank: 1, epoch: 0, batch: 1, kind: {straggler_ms: 3000}}]}
  - spirt
";

const SIMULATED: &str = "\
schema: 1
name: simulated
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 2
batch_size: 64
batches_per_worker: 2
epochs: 1
evaluate: never
systems: [allreduce]
";

/// A directory with an experiment and the library. Sandboxes have a `/tmp` of their own.
fn scene(experiment: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let directory = or_skip(tempfile::tempdir_in("/var/tmp"))?;
    let [file, source, library] = ["a.yaml", "a.c", "a.so"].map(|name| directory.path().join(name));
    fs::write(file, experiment).unwrap();
    fs::write(&source, LIBRARY).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]);
    let compiled = compiler.args([&library, &source]).output();
    let compiled = or_skip(compiled.map_err(|error| format!("cc: {error}")))?;
    assert!(compiled.status.success(), "{compiled:?}");
    Some((directory, library))
}

fn run(directory: &Path, library: &Path) -> Command {
    let mut run = program();
    run.args(["run", "a.yaml", "--out", "run"]);
    run.current_dir(directory).env("LD_PRELOAD", library);
    run
}

#[track_caller]
fn ends_well(output: &Output) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    message
}

/// The clocks of the harness and of its workers are set back by an hour in the second trial.
#[test]
fn a_clock_that_is_set_during_a_run_changes_no_figure() {
    let Some((directory, library)) = scene(TRAINED) else {
        return;
    };
    let [clock, worker, script] =
        ["clock", "bootstrap", "worker"].map(|name| directory.path().join(name));
    fs::write(&clock, 0_i64.to_ne_bytes()).unwrap();
    fs::copy(find_or_build().unwrap().path, &worker).unwrap();
    // Workers have an environment of their own.
    let [at, preloaded, started] = [&clock, &library, &worker].map(|path| path.display());
    let text = format!(
        "#!/bin/sh\nexport TEST_CLOCK={at} LD_PRELOAD={preloaded}\nexec {started} \"$@\"\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let set = |seconds: i64| {
        let file: File = OpenOptions::new().write(true).open(&clock).unwrap();
        let ahead = (seconds * 1_000_000_000).to_ne_bytes();
        file.write_all_at(&ahead, 0).unwrap();
    };
    let mut command = run(directory.path(), &library);
    let command = command
        .env("TEST_CLOCK", &clock)
        .env(WORKER_VARIABLE, &script);
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let trials = directory.path().join("run/trials.jsonl");
    while fs::read_to_string(&trials).map_or(0, |text| text.lines().count()) == 0 {
        sleep(Duration::from_millis(20));
    }
    // The second trial has begun by then, and has not ended.
    sleep(Duration::from_secs(1));
    set(-3_600);
    ends_well(&child.wait_with_output().unwrap());

    let run = RunDirectory::open_whole(&directory.path().join("run")).unwrap();
    let trials = run.trials().unwrap();
    assert_eq!(trials.len(), 3);
    // An hour would be in any duration of which one end was read before, and one after.
    let is_short = |seconds: f64| (0.0..1_800.0).contains(&seconds);
    for trial in &trials {
        assert!(is_short(trial.wall_s), "{}: {} s", trial.id, trial.wall_s);
        for step in run.steps(trial).unwrap() {
            let since = step.started_s - trial.started_s;
            assert!(
                is_short(since) && is_short(step.seconds.total()),
                "{step:?}"
            );
        }
    }
    let warning = "moved back by 3600";
    assert!(trials[1].warnings.iter().any(|text| text.contains(warning)));
    for call in run.invocations().unwrap() {
        assert!(is_short(call.invocation.duration_ms / 1e3), "{call:?}");
    }
    ends_well(&epochcost(directory.path(), &["report", "run"]));
}

#[test]
fn a_file_system_without_locks_is_warned_of() {
    let Some((directory, library)) = scene(SIMULATED) else {
        return;
    };
    let mut command = run(directory.path(), &library);
    let output = command.env("TEST_NO_LOCKS", "1").output().unwrap();
    let message = ends_well(&output);
    for words in ["cannot be locked", "--out on a local disk"] {
        assert!(message.contains(words), "{message}");
    }
}
