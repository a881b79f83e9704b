//! A directory in which runs of a campaign happen, and what they leave outside of it.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use std::{fs, thread};

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};

use crate::support;

/// Time-out of an invocation, seconds: far above what one takes here, and what a hang costs.
const TIMEOUT_S: usize = 10;
/// The same in virtual time, where instances boot first.
const SIMULATED_TIMEOUT_S: usize = 900;

fn timeout_s(platform: &str) -> usize {
    match platform {
        "sim" => SIMULATED_TIMEOUT_S,
        _ => TIMEOUT_S,
    }
}

/// Returns the declared time of a trial, seconds: after it the platform ends a trial, and needs
/// no more than one time-out for it.
pub fn declared_s(platform: &str, epochs: usize, functions: usize) -> f64 {
    (timeout_s(platform) * (epochs * functions + 2)) as f64
}

/// An experiment with these entries of systems.
pub fn experiment(platform: &str, entries: &str) -> String {
    let timeout_s = timeout_s(platform);
    format!(
        "schema: 1\nname: campaign\nplatform: {platform}\n\
         dataset: {{name: synthetic-mnist, train: 96, test: 16}}\n\
         model: lenet5\nworkers: 3\nbatch_size: 8\nbatches_per_worker: 2\n\
         epochs: 1\nmemory_mb: 1769\ntimeout_s: {timeout_s}\n\
         simulation: {{real_compute: true}}\nsystems:\n{entries}"
    )
}

/// Everything of one run.
pub struct Scene {
    pub directory: support::Scene,
    worker: PathBuf,
}

/// What a run left.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    processes: usize,
    groups: usize,
    files: usize,
}

impl Scene {
    /// A directory with a worker of its own, by which its processes are known, and a
    /// directory of its own for temporary files.
    pub fn new() -> Self {
        let directory = support::Scene::empty();
        fs::create_dir(directory.file("tmp")).unwrap();
        let worker = directory.file("bootstrap");
        fs::copy(find_or_build().unwrap().path, &worker).unwrap();
        let worker = worker.canonicalize().unwrap();
        Self { directory, worker }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.file(name)
    }

    /// Runs `rows` into the directory `run`; says what is left after it.
    pub fn run(&self, platform: &str, rows: &str) -> (Output, Option<String>) {
        self.directory
            .write("campaign.yaml", &experiment(platform, rows));
        let mut run = self.command("run campaign.yaml --out run");
        let run = run.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = run.spawn().unwrap();
        let harness = child.id();
        let output = child.wait_with_output().unwrap();
        (output, self.left(harness))
    }

    /// Reports again on the directory `run`.
    pub fn report(&self) -> Output {
        self.command("report run").output().unwrap()
    }

    pub fn command(&self, arguments: &str) -> Command {
        let mut command = self.directory.command(arguments);
        command.env("TMPDIR", self.path("tmp"));
        command.env(WORKER_VARIABLE, &self.worker);
        command
    }

    /// Says what outlives a run; nothing if nothing does. The kernel may take a moment to reap.
    /// A port is held by a process, so that none is left without one.
    fn left(&self, harness: u32) -> Option<String> {
        let (mut left, own) = (Left::default(), format!("epochcost-{harness}-"));
        for _ in 0..100 {
            let files = fs::read_dir(self.path("tmp")).unwrap();
            left = Left {
                processes: self.processes(),
                groups: groups(Path::new("/sys/fs/cgroup"), &own),
                files: files.count(),
            };
            if left == Left::default() {
                return None;
            }
            thread::sleep(Duration::from_millis(50));
        }
        Some(format!("left over: {left:?}"))
    }

    /// Processes that run this worker, or have this run's directory for temporary files.
    fn processes(&self) -> usize {
        let tmp = self.path("tmp");
        let tmp = tmp.as_os_str().as_bytes();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let is_own = |process: &Path| {
            let program = fs::read_link(process.join("exe"));
            program.is_ok_and(|own| own == self.worker) || has_in_environment(process, tmp)
        };
        processes.filter(|entry| is_own(&entry.path())).count()
    }
}

fn has_in_environment(process: &Path, text: &[u8]) -> bool {
    let mut environment = Vec::new();
    // A process that is gone, or another user's, has none.
    let read = fs::File::open(process.join("environ"))
        .and_then(|mut file| file.read_to_end(&mut environment));
    read.is_ok() && environment.windows(text.len()).any(|part| part == text)
}

/// Control groups below `directory` whose name begins with `prefix`.
fn groups(directory: &Path, prefix: &str) -> usize {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let counts = below.map(|entry| {
        let is_own = entry.file_name().to_string_lossy().starts_with(prefix);
        usize::from(is_own) + groups(&entry.path(), prefix)
    });
    counts.sum()
}
