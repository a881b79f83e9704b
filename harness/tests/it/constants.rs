//! Constants of a row's own, by the program itself.
use std::fs;
use std::process::Output;

use crate::support::program;

use tempfile::TempDir;

/// Simulated, with sizes only.
const EXPERIMENT: &str = "\
schema: 1
name: gap
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 64
batches_per_worker: 3
epochs: 1
evaluate: never
simulation: {compute: [stated-flops], limits: false}
systems:
  - {system: allreduce, name: plain}
  - {system: allreduce, name: log, settings: {rewrites_log: true}}
  - {system: allreduce, name: slow, constants: {function.arithmetic_bytes_per_s: {value: 1.0e7, assumed: slow sums}}}
";

fn epochcost(experiment: &str, arguments: &[&str]) -> (TempDir, Output) {
    let scene = tempfile::tempdir().unwrap();
    fs::write(scene.path().join("gap.yaml"), experiment).unwrap();
    let output = program()
        .args(arguments)
        .current_dir(scene.path())
        .output()
        .unwrap();
    (scene, output)
}

#[track_caller]
fn refused(experiment: &str, words: &[&str]) {
    let (_scene, output) = epochcost(experiment, &["check", "gap.yaml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
}

#[test]
fn constants_of_a_row_are_of_the_profile_and_of_simulations() {
    refused(
        &EXPERIMENT.replace("function.arithmetic_bytes", "function.arithmetics_bytes"),
        &["gap.yaml:", "function.arithmetic_bytes_per_s"],
    );
    refused(
        &EXPERIMENT.replace("value: 1.0e7", "value: -1"),
        &["-1 is outside 0 to 1e18"],
    );
    for stated in ["1.0e7", "{value: 1.0e7, assumed: \"\"}"] {
        refused(
            &EXPERIMENT.replace("{value: 1.0e7, assumed: slow sums}", stated),
            &["does not say what its value rests on", "assumed: REASON"],
        );
    }
    refused(
        &EXPERIMENT.replace("assumed: slow sums", "assumed: a, stated_by: b"),
        &["one of `fitted_to`"],
    );
    refused(
        &EXPERIMENT
            .replace("platform: sim", "platform: local")
            .replace("cifar10", "synthetic-cifar10"),
        &["systems.2.constants", "--platform sim"],
    );
}
