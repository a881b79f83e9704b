//! Kernels and file systems that answer otherwise, by a library that the loader puts before C's.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost_record::RunDirectory;
use epochcost_testing::or_skip;

use crate::reliability::SIZES;
use crate::support::{LENET5, Scene, lines_of, until};

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
systems:
  - allreduce
  - {system: scatterreduce, faults: [{rank: 1, epoch: 0, batch: 1, kind: {straggler_ms: 3000}}]}
  - spirt
";

/// A directory with an experiment and the library. Sandboxes have a `/tmp` of their own.
fn scene(experiment: &str) -> Option<Scene> {
    let scene = Scene(or_skip(tempfile::tempdir_in("/var/tmp"))?);
    scene.write("a.yaml", experiment);
    scene.write("a.c", LIBRARY);
    let compiled = scene.shell("cc -shared -fPIC -o a.so a.c");
    let is_there = compiled.output.status.code() != Some(127);
    or_skip(is_there.then_some(()).ok_or("there is no cc"))?;
    compiled.ends(0);
    Some(scene)
}

fn run(scene: &Scene) -> Command {
    let mut run = scene.command("run a.yaml --out run");
    run.env("LD_PRELOAD", scene.file("a.so"));
    run
}

/// The clocks of the harness and of its workers are set back by an hour in the second trial.
#[test]
fn a_clock_that_is_set_during_a_run_changes_no_figure() {
    let experiment = format!("{LENET5}{TRAINED}");
    let Some(scene) = scene(&experiment) else {
        return;
    };
    let [clock, worker, script, library] =
        ["clock", "bootstrap", "worker", "a.so"].map(|name| scene.file(name));
    fs::write(&clock, 0_i64.to_ne_bytes()).unwrap();
    fs::copy(find_or_build().unwrap().path, &worker).unwrap();
    // Workers have an environment of their own.
    let [at, preloaded, started] = [&clock, &library, &worker].map(|path| path.display());
    let text = format!(
        "#!/bin/sh\nexport TEST_CLOCK={at} LD_PRELOAD={preloaded}\nexec {started} \"$@\"\n"
    );
    scene.write("worker", &text);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let set = |seconds: i64| {
        let file: File = OpenOptions::new().write(true).open(&clock).unwrap();
        let ahead = (seconds * 1_000_000_000).to_ne_bytes();
        file.write_all_at(&ahead, 0).unwrap();
    };
    let mut command = run(&scene);
    command
        .env("TEST_CLOCK", &clock)
        .env(WORKER_VARIABLE, &script);
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let trials = scene.file("run/trials.jsonl");
    until(|| lines_of(&trials) > 0);
    // The second trial has begun by then, and has not ended.
    sleep(Duration::from_secs(1));
    set(-3_600);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let run = RunDirectory::open_whole(&scene.file("run")).unwrap();
    let trials = run.trials().unwrap();
    assert_eq!(trials.len(), 3);
    // An hour would be in any duration of which one end was read before, and one after.
    let is_short = |seconds: f64| (0.0..1_800.0).contains(&seconds);
    for trial in &trials {
        assert!(is_short(trial.wall_s), "{}: {} s", trial.id, trial.wall_s);
        for step in run.steps(trial).unwrap() {
            let since = step.started_s - trial.started_s;
            let are_short = is_short(since) && is_short(step.seconds.total());
            assert!(are_short, "{step:?}");
        }
    }
    let warning = "moved back by 3600";
    assert!(trials[1].warnings.iter().any(|text| text.contains(warning)));
    for call in run.invocations().unwrap() {
        assert!(is_short(call.invocation.duration_ms / 1e3), "{call:?}");
    }
    scene.text("report run");
}

#[test]
fn a_file_system_without_locks_is_warned_of() {
    let Some(scene) = scene(SIZES) else { return };
    let ended = scene.end(run(&scene).env("TEST_NO_LOCKS", "1")).ends(0);
    ended.says(&["cannot be locked", "--out on a local disk"]);
}
