//! `epochcost compare` on made-up runs, and on a real one against itself.
//! Nothing here depends on how long anything takes.
use crate::fixture;

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::OnceLock;

use crate::support::program;

use epochcost_record::RunDirectory;
use serde_json::Value;
use tempfile::TempDir;

const TRIALS: usize = 5;

/// Noise of about one percent, the same in every run.
const NOISE: [f64; TRIALS] = [1.0, 1.01, 0.99, 1.005, 0.995];

fn compare(before: &Path, after: &Path, arguments: &[&str]) -> Output {
    program()
        .arg("compare")
        .args([before, after])
        .args(arguments)
        .output()
        .unwrap()
}

/// A run of that many trials, its times multiplied by `slower`.
fn made_up(trials: usize, slower: f64) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let new = fixture::new_run("[]", trials);
    let run = RunDirectory::create(Some(directory.path()), new).unwrap();
    for (trial, noise) in NOISE.iter().enumerate().take(trials) {
        for system in fixture::SYSTEMS {
            let plan = fixture::plan(system, trial);
            let outcome = fixture::outcome(&plan, slower * noise);
            run.append_trial(&plan, &outcome).unwrap();
        }
    }
    directory
}

/// A run of five trials, and the same with times 1.3 times as long.
fn scene() -> &'static [TempDir; 2] {
    static SCENE: OnceLock<[TempDir; 2]> = OnceLock::new();
    SCENE.get_or_init(|| [made_up(TRIALS, 1.0), made_up(TRIALS, 1.3)])
}

fn usual() -> &'static Path {
    scene()[0].path()
}

fn slow() -> &'static Path {
    scene()[1].path()
}

/// A copy of a run, to be edited.
fn copied(run: &Path) -> TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let target = to.join(path.file_name().unwrap());
            if path.is_dir() {
                copy(&path, &target);
            } else {
                fs::copy(&path, target).unwrap();
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    copy(run, directory.path());
    directory
}

#[track_caller]
fn compared(before: &Path, after: &Path) -> Value {
    let output = compare(before, after, &["--json"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The words of a metric, row by row.
fn words(compared: &Value, metric: &str) -> Vec<String> {
    let rows = compared["comparison"]["rows"].as_array().unwrap();
    let of_row = |row: &Value| {
        let metrics = row["metrics"].as_array().unwrap();
        let found = metrics.iter().find(|own| own["metric"] == metric).unwrap();
        found["word"].as_str().unwrap().to_owned()
    };
    rows.iter().map(of_row).collect()
}

/// The network of one row alone is another one.
#[test]
fn a_shaped_network_is_not_compared_with_one_that_is_left_as_it_is() {
    let shaped = copied(usual());
    let path = shaped.path().join("plan.json");
    let mut plan: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    plan[0]["row"]["sandbox"] = serde_json::json!({
        "account": {"concurrency_limit": 1000, "scaling_per_10_s": 1000},
        "ephemeral_storage_mb": 512,
        "environment": {},
        "network": {
            "shape": {
                "bandwidth_mbit_s": 600.0,
                "latency_ms": {"objects": 94.0, "tensors": 1.0, "queue": 2.0},
            },
            "profile": null,
        },
    });
    fs::write(&path, plan.to_string()).unwrap();
    fixture::reseal(shaped.path());
    let compared = compared(usual(), shaped.path());
    let (other, same) = ("not comparable", "same");
    assert_eq!(
        words(&compared, "seconds_per_epoch"),
        [other, same, same, same, same]
    );
    assert_eq!(words(&compared, "bytes"), [same; 5]);
    let row = &compared["comparison"]["rows"][0];
    let settings = row["settings"].to_string();
    assert!(settings.contains("network"), "{settings}");
    let metrics = row["metrics"].to_string();
    assert!(
        metrics.contains("600 Mbit/s") && metrics.contains("left as it is"),
        "{metrics}"
    );
}

fn edit(run: &Path, file: &str, before: &str, after: &str) {
    let path = run.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(before), "{before} in {file}");
    fs::write(&path, text.replace(before, after)).unwrap();
    fixture::reseal(run);
}

#[test]
fn what_is_alike_is_the_same_and_what_is_slower_is_slower() {
    let alike = compared(usual(), copied(usual()).path());
    let slower = compared(usual(), slow());
    assert_eq!(words(&alike, "seconds_per_epoch"), ["same"; 5]);
    assert_eq!(words(&slower, "seconds_per_epoch"), ["slower"; 5]);
    assert_eq!(words(&slower, "cost_paper_usd"), ["costlier"; 5]);
    for untimed in ["bytes", "puts", "gets", "accuracy"] {
        assert_eq!(words(&slower, untimed), ["same"; 5], "{untimed}");
    }
    let faster = compared(slow(), usual());
    assert_eq!(words(&faster, "seconds_per_epoch"), ["faster"; 5]);
    let row = &slower["comparison"]["rows"][3];
    assert_eq!(row["id"], "allreduce-paper");
    let time = &row["metrics"][0];
    let [low, high] = [0, 1].map(|end| time["interval"][end].as_f64().unwrap());
    let ratio = time["ratio"].as_f64().unwrap();
    assert!(
        1.05 < low && low < ratio && ratio < high && high < 1.4,
        "{time}"
    );
    assert_eq!(time["trials"], serde_json::json!([TRIALS, TRIALS]));
}

#[test]
fn a_program_may_fail_on_words() {
    let exit = |arguments: &[&str]| compare(usual(), slow(), arguments).status.code();
    assert_eq!(exit(&["--fail-on", "slower"]), Some(3));
    assert_eq!(exit(&["--fail-on", "faster,cheaper"]), Some(0));
    assert_eq!(exit(&["--fail-on", "slower", "--threshold", "50"]), Some(0));
    assert_eq!(exit(&["--fail-on", "quicker"]), Some(2));
    assert_eq!(exit(&["--threshold", "-1"]), Some(2));
    // A gate that one trial can never close is no gate.
    let one = made_up(1, 1.3);
    let gate = |words| compare(usual(), one.path(), &["--fail-on", words]);
    let refused = gate("slower,dearer");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("--trials 5"), "{said}");
    assert_eq!(gate("higher").status.code(), Some(0));
    assert_eq!(gate("undecided").status.code(), Some(3));
}

#[test]
fn one_trial_is_undecided_and_says_what_to_do() {
    let one = made_up(1, 1.0);
    let found = compared(one.path(), slow());
    assert_eq!(words(&found, "seconds_per_epoch"), ["undecided"; 5]);
    assert_eq!(
        words(&found, "bytes"),
        ["same"; 5],
        "counts need no repetition"
    );
    let text = compare(one.path(), slow(), &[]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("--trials 5"), "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{text}");
}

#[test]
fn platforms_and_machines_are_never_mixed() {
    let reason = |found: &Value| {
        let time = &found["comparison"]["rows"][0]["metrics"][0];
        assert_eq!(time["metric"], "seconds_per_epoch");
        time["reason"].as_str().unwrap().to_owned()
    };
    let simulated = copied(slow());
    edit(
        simulated.path(),
        "manifest.json",
        r#""platform": "local""#,
        r#""platform": "sim""#,
    );
    let found = compared(usual(), simulated.path());
    for timed in ["seconds_per_epoch", "cost_full_usd", "peak_memory_mb"] {
        assert_eq!(words(&found, timed), ["not comparable"; 5], "{timed}");
    }
    assert_eq!(words(&found, "bytes"), ["same"; 5]);
    let why = reason(&found);
    assert!(why.contains("local") && why.contains("simulated"), "{why}");
    let elsewhere = copied(slow());
    edit(
        elsewhere.path(),
        "machine.json",
        r#""cores": "#,
        r#""cores": 1"#,
    );
    let found = compared(usual(), elsewhere.path());
    assert_eq!(words(&found, "seconds_per_epoch"), ["not comparable"; 5]);
    assert!(
        reason(&found).contains("other machines"),
        "{}",
        reason(&found)
    );
    let unlimited = copied(usual());
    edit(
        unlimited.path(),
        "machine.json",
        r#""enforced": true"#,
        r#""enforced": false"#,
    );
    let found = compared(usual(), unlimited.path());
    assert!(reason(&found).contains("limits"), "{}", reason(&found));
    let other_data = copied(usual());
    edit(other_data.path(), "manifest.json", "abab", "cdcd");
    let found = compared(usual(), other_data.path());
    assert_eq!(words(&found, "accuracy"), ["not comparable"; 5]);
}

#[test]
fn settings_that_differ_are_named_and_rows_are_paired_by_id() {
    let other = copied(usual());
    edit(
        other.path(),
        "plan.json",
        r#""batch_size": 32"#,
        r#""batch_size": 16"#,
    );
    let found = compared(usual(), other.path());
    let settings = &found["comparison"]["rows"][0]["settings"];
    assert_eq!(settings[0], "job.batch_size: 32 -> 16");
    let renamed = copied(usual());
    for file in ["plan.json", "trials.jsonl", "invocations.jsonl"] {
        edit(renamed.path(), file, "\"spirt-paper\"", "\"spirt-renamed\"");
    }
    let found = compared(usual(), renamed.path());
    assert_eq!(found["comparison"]["only_before"][0], "spirt-paper");
    assert_eq!(found["comparison"]["only_after"][0], "spirt-renamed");
    for file in ["plan.json", "trials.jsonl", "invocations.jsonl"] {
        edit(renamed.path(), file, "-paper\"", "-other\"");
    }
    let nothing = compare(usual(), renamed.path(), &[]);
    assert_eq!(nothing.status.code(), Some(4));
}

const TINY: &str = "\
schema: 1
name: tiny
dataset: {name: synthetic-mnist, train: 256, test: 32}
model: lenet5
workers: 2
batch_size: 8
batches_per_worker: 1
epochs: 1
trials: 3
systems: [allreduce, gpu_baseline]
";

#[test]
fn real_trials_take_turns_and_a_run_is_the_same_as_itself() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("tiny.yaml"), TINY).unwrap();
    let output = program()
        .args(["run", "tiny.yaml", "--out", "run"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    let run = directory.path().join("run");
    let trials = RunDirectory::open(&run).unwrap().trials().unwrap();
    let order: Vec<(&str, usize)> = trials
        .iter()
        .map(|trial| (&trial.id.row[..3], trial.id.trial))
        .collect();
    let turns = [
        ("all", 0),
        ("gpu", 0),
        ("all", 1),
        ("gpu", 1),
        ("all", 2),
        ("gpu", 2),
    ];
    assert_eq!(order, turns);
    assert!(trials.is_sorted_by(|a, b| a.started_s <= b.started_s));
    let found = compared(&run, &run);
    for change in ["faster", "slower", "more", "less"] {
        assert!(!words(&found, "seconds_per_epoch").contains(&change.to_owned()));
    }
    assert_eq!(words(&found, "bytes"), ["same"; 2]);
    assert_eq!(words(&found, "train_loss"), ["same"; 2]);
}
