//! Bad input ends with exit code 2 and a message that names file, line, field
//! and remedy, before any work starts.
use std::fs;
use std::path::Path;
use std::process::Output;

use crate::schemas::Validator;
use crate::support::{epochcost, program};

use tempfile::TempDir;

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

/// The directory, holding `bad.yaml`: the good experiment with one text replaced.
fn with(replaced: &str, by: &str) -> TempDir {
    assert!(GOOD.contains(replaced), "{replaced}");
    let directory = tempfile::tempdir().unwrap();
    fs::write(
        directory.path().join("bad.yaml"),
        GOOD.replacen(replaced, by, 1),
    )
    .unwrap();
    directory
}

#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in:\n{message}");
    }
    assert!(message.contains("help: "), "no remedy in:\n{message}");
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// `check`, `run` and the schema refuse it, and `run` leaves nothing behind.
#[track_caller]
fn refused(replaced: &str, by: &str, words: &[&str]) {
    refused_by_program(replaced, by, words);
    let text = GOOD.replacen(replaced, by, 1);
    let refusal = Validator::of(&["experiment"]).refusal("experiment", &text);
    assert!(refusal.is_some(), "the schema takes:\n{text}");
}

/// `check` and `run` refuse what a schema cannot know: a rule between fields, of the platform, or of
/// what is on disk.
#[track_caller]
fn refused_between_fields(replaced: &str, by: &str, words: &[&str]) {
    refused_by_program(replaced, by, words);
    let text = GOOD.replacen(replaced, by, 1);
    let refusal = Validator::of(&["experiment"]).refusal("experiment", &text);
    assert_eq!(refusal, None, "the schema can know it");
}

#[track_caller]
fn refused_by_program(replaced: &str, by: &str, words: &[&str]) {
    let directory = with(replaced, by);
    for verb in ["check", "run"] {
        let output = epochcost(directory.path(), &[verb, "bad.yaml"]);
        assert_refused(&output, &["bad.yaml"]);
        assert_refused(&output, words);
    }
    assert!(!directory.path().join("results").exists());
}
