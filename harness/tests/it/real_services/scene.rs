//! A directory with experiments, and runs in it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost_platform::local::{object_server, redis_module, requirements};
use epochcost_servers::{Redis, RedisSettings};
use epochcost_testing::{or_skip, watch};

use super::processes::{is_gone, named};
use crate::support::{self, LENET5, lines_of};

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
/// The second worker is ten minutes late.
const FAULT: &str = "faults: [{rank: 1, epoch: 0, batch: 1, kind: {straggler_ms: 600000}}]";

/// Redis with the module.
pub fn redis() -> Redis {
    let module = Some(module());
    let settings = RedisSettings {
        module,
        ..RedisSettings::default()
    };
    Redis::start(&settings).unwrap()
}

pub fn module() -> PathBuf {
    redis_module().unwrap()
}

/// The S3-compatible server.
pub fn s3() -> PathBuf {
    object_server().unwrap()
}

pub struct Scene {
    directory: support::Scene,
    worker: PathBuf,
}

/// Addresses of servers that run already, by their variables.
type Given<'a> = &'a [(&'a str, String)];

impl Scene {
    /// Where everything is there, with the programs built; a message if not.
    pub fn ready() -> Option<Self> {
        let met = requirements().into_iter().try_for_each(|requirement| {
            let remedy = requirement.remedy;
            remedy.map_or(Ok(()), |remedy| {
                Err(format!("{}: {remedy}", requirement.found))
            })
        });
        or_skip(met)?;
        module();
        s3();
        watch();
        let directory = support::Scene::empty();
        let write = |name, systems: String| directory.write(name, &format!("{LENET5}{systems}"));
        write("waiting.yaml", SYSTEMS.replace("FAULT", FAULT));
        write("hanging.yaml", HANGING.replace("FAULT", FAULT));
        write("late.yaml", LATE.to_owned());
        write("signed.yaml", SIGNED.to_owned());
        write("calm.yaml", SYSTEMS.replace(", FAULT", ""));
        let worker = find_or_build().unwrap().path;
        Some(Self { directory, worker })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.file(name)
    }

    /// Runs an experiment, which succeeds.
    #[track_caller]
    pub fn run(&self, out: &str, arguments: &str, given: Given<'_>) {
        let mut command = self.command(out, arguments, given);
        self.directory.end(&mut command).ends(0);
    }

    /// Starts a run.
    pub fn start(&self, out: &str, arguments: &str, given: Given<'_>) -> Child {
        let mut command = self.command(out, arguments, given);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    fn command(&self, out: &str, arguments: &str, given: Given<'_>) -> Command {
        let run = format!("run {arguments} --out {out}");
        let mut command = self.directory.command(&run);
        command.env(WORKER_VARIABLE, &self.worker);
        command.envs(given.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn finished_trials(&self, out: &str) -> usize {
        lines_of(&self.path(out).join("trials.jsonl"))
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
