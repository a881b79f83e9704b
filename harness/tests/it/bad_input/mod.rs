//! Bad input ends with exit code 2 and a message that names file, line, field
//! and remedy, before any work starts.
use std::fs;

use insta::assert_snapshot;

use crate::schemas::Validator;
use crate::support::{Ended, Scene, cases};

mod data;
mod fields;
mod lacking;

const GOOD: &str = "\
schema: 1
name: bad-input
dataset: {name: synthetic-cifar10, train: 600, test: 100}
model: mobilenet
workers: 4
batch_size: 8
batches_per_worker: 3
epochs: 2
memory_mb: 2048
timeout_s: 900
systems:
  - system: allreduce
  - system: spirt
    settings: {poll_interval_ms: 50}
";

/// The good experiment as `bad.yaml`, with one text replaced.
#[track_caller]
fn with(replaced: &str, by: &str) -> Scene {
    let scene = Scene::of("bad.yaml", GOOD);
    scene.edit("bad.yaml", replaced, by);
    scene
}

/// Exit code 2, nothing on standard output, and a remedy.
#[track_caller]
fn refusal(ended: Ended) -> String {
    let ended = ended.says(&["help: "]);
    assert_eq!(ended.text(), "");
    ended.refusal()
}

/// What is said of each change to the good experiment (`TEXT | BY`), by `check` and `run` alike, and whether its
/// schema refuses it: no schema knows a rule between fields, of the platform, or of what is on disk.
#[track_caller]
fn refused(changes: &[&str]) -> String {
    let schema = Validator::of(&["experiment"]);
    let mut said = String::new();
    for ([replaced, by], _) in cases(changes) {
        let scene = with(replaced, by);
        let message = refusal(scene.run("check bad.yaml"));
        assert_eq!(message, refusal(scene.run("run bad.yaml")));
        assert!(!scene.has("results"));
        let knows = schema.refusal("experiment", &scene.read("bad.yaml"));
        let knows = if knows.is_some() { "refuses" } else { "takes" };
        said += &format!("{by:?} for {replaced:?}, which the schema {knows}:\n{message}");
    }
    said
}
