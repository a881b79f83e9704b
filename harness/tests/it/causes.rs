//! Causes of a gap and constants of a row's own, by the program itself.
use std::fs;
use std::process::Output;

use crate::support::program;

use serde_json::Value;
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
claims:
  - kind: published
    claim: it takes 500 s
    source: a paper, Table 1
    cell: \"t.csv:2:seconds\"
    select: {row: plain}
    metric: seconds_per_epoch
    published: 500
    tolerance: 0.1
    expect: not_reproduced
    causes:
      - {cause: log objects rewritten, select: {row: log}}
      - {cause: slow sums, select: {row: slow}}
";

fn epochcost(experiment: &str, arguments: &[&str]) -> (TempDir, Output) {
    let scene = tempfile::tempdir().unwrap();
    fs::create_dir(scene.path().join("published")).unwrap();
    fs::write(scene.path().join("published/t.csv"), "seconds\n500\n").unwrap();
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
fn a_verdict_says_what_each_cause_changes() {
    let (scene, output) = epochcost(EXPERIMENT, &["run", "gap.yaml", "--out", "run", "--json"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let seconds = |id: &str| {
        let rows = summary["rows"].as_array().unwrap().iter();
        let row = rows.filter(|row| row["id"] == id).collect::<Vec<_>>()[0];
        row["figures"]["seconds_per_epoch"]["mean"]
            .as_f64()
            .unwrap()
    };
    let causes = summary["verdicts"][0]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2);
    for (cause, row) in causes.iter().zip(["log", "slow"]) {
        let change = seconds(row) - seconds("plain");
        assert!(change > 0.0, "{row}");
        assert_eq!(cause["row"], row);
        assert_eq!(cause["observed"].as_f64().unwrap(), seconds(row));
        assert!((cause["change"].as_f64().unwrap() - change).abs() < 1e-9);
        let share = change / (500.0 - seconds("plain"));
        assert!((cause["share"].as_f64().unwrap() - share).abs() < 1e-9);
    }
    for page in ["report.html", "report.md"] {
        let page = fs::read_to_string(scene.path().join("run").join(page)).unwrap();
        assert!(page.contains("slow sums: ") && page.contains("of the gap"));
    }
}

#[test]
fn a_cause_is_exactly_one_row() {
    refused(
        &EXPERIMENT.replace("select: {row: slow}", "select: {row: slwo}"),
        &["gap.yaml:", "claims.0.causes.1", "0 rows are \"slow sums\""],
    );
    refused(
        &EXPERIMENT.replace("select: {row: slow}", "select: {system: allreduce}"),
        &["3 rows are \"slow sums\" beside the row `plain`"],
    );
}

#[test]
fn constants_of_a_row_are_of_the_profile_and_of_simulations() {
    refused(
        &EXPERIMENT.replace("function.arithmetic_bytes", "function.arithmetics_bytes"),
        &["gap.yaml:", "function.arithmetic_bytes_per_s"],
    );
    refused(
        &EXPERIMENT.replace("value: 1.0e7", "value: -1"),
        &["-1 is no value of a constant"],
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
