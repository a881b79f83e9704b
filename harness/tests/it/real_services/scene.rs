//! A directory with experiments, and runs in it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::support::program;

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost_platform::local::{Programs, requirements};
use epochcost_servers::Redis;
use epochcost_testing::{or_skip, watch};

use super::processes::{is_gone, named};

/// Two peers on which a step never ends, three times: each is for one server
/// that dies. Then one without fault.
const SYSTEMS: &str = "\
systems:
  - {system: spirt, name: waiting-1, FAULT}
  - {system: spirt, name: waiting-2, FAULT}
  - {system: allreduce, name: waiting-3, FAULT}
  - {system: scatterreduce, name: calm}
";
/// A trial that ends by its functions' time-out, and two after it, all on the same Redis.
const HANGING: &str = "\
systems:
  - {system: spirt, name: hanging, timeout_s: 4, FAULT}
  - {system: spirt, name: calm-1}
  - {system: spirt, name: calm-2}
";
/// The third trial has one peer more, whose server begins then; the second takes three seconds.
const LATE: &str = "\
systems:
  - spirt
  - {system: scatterreduce, faults: [{rank: 1, epoch: 0, batch: 1, kind: {straggler_ms: 3000}}]}
  - {system: spirt, name: larger, workers: 3}
";
/// Peers that sign their averages, one with another key than the others trust.
const SIGNED: &str = "\
systems:
  - {system: spirt, name: signed, settings: {signatures: leave_out}}
  - {system: spirt, name: wrong-key, settings: {signatures: leave_out}, attack: {kind: wrong_key, workers: [1]}}
";
const HEAD: &str = "\
schema: 1
name: real
dataset: {name: synthetic-mnist, train: 64, test: 10}
model: lenet5
workers: 2
batch_size: 4
batches_per_worker: 2
epochs: 1
";
/// The second worker is ten minutes late.
const FAULT: &str = "faults: [{rank: 1, epoch: 0, batch: 1, kind: {straggler_ms: 600000}}]";

/// Whether everything is there, the programs built; a message if not.
pub fn is_ready() -> bool {
    let met = requirements().into_iter().try_for_each(|requirement| {
        let missing = requirement.state.err();
        missing.map_or(Ok(()), |missing| {
            Err(format!("{}: {}", missing.what, missing.remedy))
        })
    });
    if or_skip(met).is_none() {
        return false;
    }
    programs();
    watch();
    true
}

fn programs() -> Programs {
    Programs::find_or_build(true, true).unwrap()
}

/// The Redis module.
pub fn module() -> PathBuf {
    programs().module.unwrap()
}

/// The S3-compatible server.
pub fn s3() -> PathBuf {
    programs().object_server.unwrap()
}

pub struct Scene {
    directory: tempfile::TempDir,
    worker: PathBuf,
}

/// A run that has ended.
pub struct Ended(Output);

impl Ended {
    #[track_caller]
    pub fn succeed(self) {
        let messages = String::from_utf8_lossy(&self.0.stderr);
        assert!(self.0.status.success(), "{}: {messages}", self.0.status);
    }
}

impl Scene {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let write = |name, systems: String| {
            fs::write(directory.path().join(name), format!("{HEAD}{systems}")).unwrap();
        };
        write("waiting.yaml", SYSTEMS.replace("FAULT", FAULT));
        write("hanging.yaml", HANGING.replace("FAULT", FAULT));
        write("late.yaml", LATE.to_owned());
        write("signed.yaml", SIGNED.to_owned());
        write("calm.yaml", SYSTEMS.replace(", FAULT", ""));
        let worker = find_or_build().unwrap().path;
        Self { directory, worker }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs an experiment to its end.
    pub fn run(&self, out: &str, arguments: &[&str]) -> Ended {
        self.run_on(out, arguments, &[])
    }

    /// The same on servers that run already.
    pub fn run_on(&self, out: &str, arguments: &[&str], given: &[(&str, String)]) -> Ended {
        Ended(self.command(out, arguments, given).output().unwrap())
    }

    /// Starts a run.
    pub fn start(&self, out: &str, arguments: &[&str]) -> Child {
        self.start_on(out, arguments, &[])
    }

    /// The same on servers that run already.
    pub fn start_on(&self, out: &str, arguments: &[&str], given: &[(&str, String)]) -> Child {
        let mut command = self.command(out, arguments, given);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn command(&self, out: &str, arguments: &[&str], given: &[(&str, String)]) -> Command {
        let mut command = program();
        command
            .arg("run")
            .args(arguments)
            .args(["--out", out])
            .current_dir(self.directory.path())
            .env(WORKER_VARIABLE, &self.worker)
            .envs(given.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn finished_trials(&self, out: &str) -> usize {
        let rows = self.path(out).join("trials.jsonl");
        fs::read_to_string(rows).map_or(0, |rows| rows.lines().count())
    }

    /// Whether both workers of a trial run.
    pub fn has_workers(&self, run: u32) -> bool {
        let workers = named(run, "bootstrap");
        workers.iter().filter(|worker| !is_gone(**worker)).count() >= 2
    }

    /// How many keys a server holds.
    pub fn keys(&self, redis: &Redis) -> usize {
        let mut stream = TcpStream::connect(redis.address()).unwrap();
        write!(stream, "AUTH {}\r\nDBSIZE\r\nQUIT\r\n", redis.password()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let count = reply.lines().find_map(|line| line.strip_prefix(':'));
        count.unwrap().parse().unwrap()
    }

    /// Whether a text is in a file of a run.
    pub fn holds(&self, out: &str, text: impl AsRef<[u8]>) -> bool {
        holds(&self.path(out), text.as_ref())
    }
}

fn holds(directory: &Path, text: &[u8]) -> bool {
    fs::read_dir(directory).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = fs::read(&path).unwrap();
        bytes.windows(text.len()).any(|part| part == text)
    })
}
