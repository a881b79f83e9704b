//! `epochcost replay` on a tiny run of the local platform. Nothing here depends
//! on how long anything takes.
use std::fs;
use std::process::Output;
use std::sync::OnceLock;

use crate::fixture;
use crate::support::epochcost;

use serde_json::Value;
use tempfile::TempDir;

/// MLLess sends what its filter lets through: sizes alone do not tell how much.
const EXPERIMENT: &str = "\
schema: 1
name: tiny
dataset: {name: synthetic-mnist, train: 256, test: 32}
model: lenet5
workers: 2
batch_size: 8
batches_per_worker: 1
epochs: 1
systems: [allreduce, spirt, gpu_baseline, mlless]
";

/// Counts that do not depend on timing.
const UNTIMED: [&str; 7] = [
    "puts",
    "gets",
    "messages",
    "deliveries",
    "in_store",
    "bytes_up",
    "bytes_down",
];

#[track_caller]
fn exits(output: &Output, code: i32) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{message}");
    message
}

/// A directory with a finished run of the experiment in `run`.
pub fn scene() -> &'static TempDir {
    static SCENE: OnceLock<TempDir> = OnceLock::new();
    SCENE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("tiny.yaml"), EXPERIMENT).unwrap();
        let output = epochcost(directory.path(), &["run", "tiny.yaml", "--out", "run"]);
        exits(&output, 0);
        directory
    })
}

fn replay(arguments: &[&str]) -> Output {
    let arguments = [&["replay"], arguments].concat();
    epochcost(scene().path(), &arguments)
}

/// What `--json` prints.
#[track_caller]
fn compared(arguments: &[&str]) -> Value {
    let output = replay(&[&["run", "--json"], arguments].concat());
    exits(&output, 0);
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in rows(&comparison) {
        let (id, why) = (&row["id"], &row["note"]);
        assert!(
            row["simulated"].is_object(),
            "{id} was not simulated: {why}"
        );
    }
    comparison
}

fn rows(comparison: &Value) -> &[Value] {
    comparison["rows"].as_array().unwrap()
}

#[track_caller]
fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap();
    assert!(number > 0.0 && number.is_finite(), "{number}");
    number
}

/// A directory like the finished run with one of its files changed.
fn changed(file: &str, change: impl Fn(&str) -> String) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let run = scene().path().join("run");
    fs::create_dir(copy.path().join("events")).unwrap();
    for part in ["", "events"] {
        for entry in fs::read_dir(run.join(part)).unwrap().flatten() {
            if entry.path().is_file() {
                let to = copy.path().join(part).join(entry.file_name());
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let path = copy.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert_ne!(change(&text), text, "{file}");
    fs::write(&path, change(&text)).unwrap();
    fixture::reseal(copy.path());
    copy
}

#[test]
fn a_run_is_simulated_with_the_traffic_that_it_had() {
    let comparison = compared(&[]);
    assert_eq!(rows(&comparison).len(), 4);
    assert_eq!(comparison["replay"]["profile"], "laptop");
    assert_eq!(comparison["replay"]["is_same_machine"], true);
    for row in rows(&comparison) {
        let (recorded, simulated) = (&row["recorded"], &row["simulated"]);
        for figures in [recorded, simulated] {
            positive(&figures["wall_s"]["mean"]);
            positive(&figures["billed_ms"]);
            positive(&figures["cost_paper_usd"]);
            positive(&figures["cost_full_usd"]);
            positive(&figures["stage_seconds"]["compute_gradients"]);
        }
        let walls = positive(&simulated["wall_s"]["mean"]) / positive(&recorded["wall_s"]["mean"]);
        assert!((positive(&row["ratio"]) / walls - 1.0).abs() < 1e-9);
        for count in UNTIMED {
            let of = |figures: &Value| figures["traffic"][count].as_u64().unwrap();
            assert_eq!(of(simulated), of(recorded), "{} {count}", row["id"]);
        }
        // The others are sizes alone.
        assert_eq!(row["real_compute"], row["system"] == "mlless");
        positive(&row["cost"]["sample_s"]);
    }
}

#[test]
fn the_record_holds_what_is_printed_and_is_not_overwritten() {
    let arguments = ["run", "--out", "kept/record.json", "--json"];
    let output = replay(&arguments);
    exits(&output, 0);
    let written = fs::read(scene().path().join("kept/record.json")).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(
        written,
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    );
    let manifest = fs::read(scene().path().join("run/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(written["run"]["run_id"], manifest["run_id"]);
    let constants = written["replay"]["constants"].as_array().unwrap();
    let cores = constants.iter().find(|c| c["path"] == "instance.vcpus");
    assert_eq!(
        cores.unwrap()["value"].as_f64(),
        written["run"]["machine"]["cores"].as_f64()
    );

    let message = exits(&replay(&arguments), 2);
    assert!(message.contains("--force"), "{message}");
    exits(&replay(&[&arguments[..], &["--force"]].concat()), 0);
}

#[test]
fn other_settings_are_replayed_too() {
    let comparison = compared(&["--workers", "3", "--memory", "1024"]);
    let same = compared(&[]);
    for (row, same) in rows(&comparison).iter().zip(rows(&same)) {
        let simulated = &row["simulated"];
        assert_eq!(row["recorded"], same["recorded"]);
        assert_eq!(simulated["workers"], 3);
        let puts = |row: &Value| row["simulated"]["traffic"]["puts"].as_u64();
        assert!(puts(row) > puts(same), "{}", row["id"]);
        if row["system"] == "gpu_baseline" {
            assert!(simulated["memory_mb"].is_null());
        } else {
            assert_eq!(simulated["memory_mb"], 1024);
        }
    }
    let far = compared(&["--profile", "aws-us-east-1"]);
    assert_eq!(far["replay"]["is_same_machine"], false);
    for (row, same) in rows(&far).iter().zip(rows(&same)) {
        let wall = |row: &Value| positive(&row["simulated"]["wall_s"]["mean"]);
        // A function starts in hundreds of milliseconds there.
        assert!(wall(row) > wall(same), "{}", row["id"]);
    }
}

#[test]
fn simulated_figures_are_labelled_and_tolerances_judged() {
    let output = replay(&["run", "--within", "1e9"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for word in ["recorded", "simulated", "ratio", "allreduce-lenet5-paper"] {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
    // No clock agrees to nine digits.
    exits(&replay(&["run", "--within", "1e-9"]), 3);
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let message = exits(&replay(arguments), 2);
        for word in words {
            assert!(message.contains(word), "no {word:?} in:\n{message}");
        }
    };
    refused(&["tiny.yaml"], &["tiny.yaml", "not a run directory"]);
    refused(
        &["run", "--profile", "lap-top"],
        &["`lap-top`", "did you mean `laptop`"],
    );
    refused(
        &["run", "--compute", "./none.yaml"],
        &["./none.yaml", "help: "],
    );
    refused(&["run", "--within", "0"], &["--within"]);
    refused(
        &["run", "--within", "0.25", "--workers", "3"],
        &["--workers"],
    );
    refused(&["run", "--profile", "serverless-gpu"], &["--compute"]);

    let simulated = changed("manifest.json", |text| text.replace("\"local\"", "\"sim\""));
    let path = simulated.path().display().to_string();
    refused(&[&path], &[&path, "`sim`", "help: "]);

    let last_trial_missing = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        lines[..lines.len() - 1].join("\n") + "\n"
    };
    let unfinished = changed("trials.jsonl", last_trial_missing);
    let path = unfinished.path().display().to_string();
    refused(&[&path], &[&path, "3 of its 4 trials", "--resume"]);
}
