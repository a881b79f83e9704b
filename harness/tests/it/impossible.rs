//! A row that cannot be run does not keep others from being planned or simulated.
use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::epochcost;

/// KubeML's functions would share one document of 64 samples.
const EXPERIMENT: &str = "\
schema: 1
name: planned
platform: sim
dataset: {name: cifar10}
model: mobilenet
batch_size: 4
batches_per_worker: 3
epochs: 1
memory_mb: 3008
systems: [allreduce, kubeml, gpu_baseline]
sweep: {workers: [2, 4]}
";

fn directory(experiment: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x.yaml"), experiment).unwrap();
    directory
}

#[track_caller]
fn ended_well(directory: &Path, arguments: &[&str]) -> String {
    let output = epochcost(directory, arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

/// Ids of rows, and whether each has figures.
fn planned(plan: &str) -> Vec<(String, bool)> {
    let plan: Value = serde_json::from_str(plan).unwrap();
    let rows = plan["rows"].as_array().unwrap();
    let planned = rows.iter().map(|row| {
        assert_eq!(row["impossible"].is_null(), row["estimate"].is_object());
        (
            row["id"].as_str().unwrap().to_owned(),
            row["estimate"].is_object(),
        )
    });
    planned.collect()
}

#[test]
fn a_row_that_its_system_refuses_is_listed_and_the_others_are_planned() {
    let directory = directory(EXPERIMENT);
    let limits = ["--limits", "--up-to", "6", "--cheapest-memory"];
    let plan = [&["plan", "x.yaml", "--json"][..], &limits].concat();
    let expected = ["allreduce", "kubeml", "gpu-baseline"]
        .into_iter()
        .flat_map(|system| {
            [2, 4].map(|workers| {
                let id = format!("{system}-mobilenet-paper-workers-{workers}");
                (id, system != "kubeml")
            })
        });
    let expected: Vec<(String, bool)> = expected.collect();
    assert_eq!(planned(&ended_well(directory.path(), &plan)), expected);
    let text = ended_well(directory.path(), &["plan", "x.yaml"]);
    let line = "kubeml-mobilenet-paper-workers-2: infeasible: the system cannot run this row";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("2 functions share 1 documents"), "{text}");
    // Checked or run, the file is refused at its place.
    let output = epochcost(directory.path(), &["check", "x.yaml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("x.yaml:"), "{message}");
}

#[test]
fn a_plan_without_a_possible_row_is_refused() {
    let directory = directory(&EXPERIMENT.replace("allreduce, kubeml, gpu_baseline", "kubeml"));
    let output = epochcost(directory.path(), &["plan", "x.yaml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("help: "), "{message}");
}

/// No compute profile says what a step costs on a GPU: the row has no simulation.
#[test]
fn a_row_without_a_compute_time_is_listed_and_the_others_are_planned_and_simulated() {
    let experiment = EXPERIMENT
        .replace(
            "kubeml, gpu_baseline",
            "{system: gpu_baseline, device: {kind: cuda}}",
        )
        .replace("[2, 4]", "[2]");
    let directory = directory(&experiment);
    let plan = ["plan", "x.yaml", "--compute", "laptop", "--json"];
    let expected = [
        ("allreduce-mobilenet-paper-workers-2".to_owned(), true),
        ("gpu-baseline-mobilenet-paper-workers-2".to_owned(), false),
    ];
    assert_eq!(planned(&ended_well(directory.path(), &plan)), expected);
    let text = ended_well(directory.path(), &["plan", "x.yaml", "--compute", "laptop"]);
    assert!(
        text.contains("profile --model mobilenet --device cuda"),
        "{text}"
    );
    let run = [
        "run",
        "x.yaml",
        "--set",
        "simulation.compute=[laptop]",
        "--json",
    ];
    let run: Value = serde_json::from_str(&ended_well(directory.path(), &run)).unwrap();
    let rows = run["rows"].as_array().unwrap();
    assert_eq!(rows[0]["infeasible"], Value::Null);
    assert!(
        rows[0]["figures"]["cost_full_usd"]["mean"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    let reason = rows[1]["infeasible"].as_str().unwrap();
    assert!(
        reason.contains("what a step of mobilenet costs"),
        "{reason}"
    );
}

/// A million steps, whose records would fill a memory.
const TOO_MUCH: &str = "{system: gpu_baseline, batch_size: 1, batches_per_worker: 250000}";

#[test]
fn a_setting_of_too_many_steps_is_refused_before_any_is_run() {
    let directory = directory(EXPERIMENT);
    let run = |name: &str, systems: &str| {
        let systems = format!("systems=[{systems}]");
        let set = ["--set", &systems, "--set", "sweep={workers: [4]}"];
        epochcost(
            directory.path(),
            &[&["run", "x.yaml", "--out", name][..], &set].concat(),
        )
    };
    let reason = "gpu_baseline takes 1000000 steps of the workers that are simulated, and 500000 are the most; use \
                  fewer epochs";
    // Alone, a usage error. Beside others, one of the rows, and they run.
    let alone = run("alone", TOO_MUCH);
    let message = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(2), "{message}");
    assert!(message.contains(&format!("error: {reason}")), "{message}");
    let beside = run("beside", &format!("{TOO_MUCH}, allreduce"));
    let message = String::from_utf8_lossy(&beside.stderr);
    assert_eq!(beside.status.code(), Some(0), "{message}");
    let table = String::from_utf8_lossy(&beside.stdout);
    let told = format!("GPU baseline: infeasible: {reason}");
    assert!(table.contains(&told), "{table}");
}
