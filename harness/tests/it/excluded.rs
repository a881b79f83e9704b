//! Claims that options of the command exclude: they are counted on one line, have no
//! verdict, and fail nothing. README's own commands are among those that once ended
//! with exit code 3.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::program;

fn experiments() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments"))
}

#[track_caller]
fn ends(arguments: &[&str], code: i32) -> Output {
    let output = program().args(arguments).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn summary(directory: &Path) -> Value {
    serde_json::from_slice(&fs::read(directory.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn options_exclude_claims_and_fail_nothing() {
    let smoke = experiments().join("smoke.yaml");
    let smoke = smoke.to_str().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let cases: [(&[&str], usize, usize); 2] = [
        (&["--platform", "sim"], 12, 2),
        (&["--platform", "sim", "--set", "systems=[allreduce]"], 1, 2),
    ];
    for (place, (options, judged, excluded)) in cases.into_iter().enumerate() {
        // `check` says it beforehand.
        let checked = text(&ends(&[&["check", smoke], options].concat(), 0));
        let line = format!("excluded by {}", shown(options));
        let claims = format!("{} claims: ", 1 + excluded);
        assert!(checked.contains(&claims), "{checked}");
        assert!(checked.contains(&line), "{checked}");

        let out = directory.path().join(place.to_string());
        let run = ["run", smoke, "--out", out.to_str().unwrap()];
        let printed = text(&ends(&[&run[..], options].concat(), 0));
        let line = format!("{excluded} claims of the experiment are {line}.");
        assert_eq!(printed.matches("excluded").count(), 1, "{printed}");
        assert!(printed.contains(&line), "{printed}");
        let summary = summary(&out);
        assert_eq!(summary["verdicts"].as_array().unwrap().len(), judged);
        assert_eq!(summary["excluded"].as_array().unwrap().len(), excluded);
        assert_eq!(summary["counts"]["checks"]["holds"], judged);
        assert_eq!(summary["counts"]["unexpected"], 0);
        assert!(
            fs::read_to_string(out.join("report.html"))
                .unwrap()
                .contains(&line)
        );
        ends(&["report", out.to_str().unwrap()], 0);
    }
}

/// The options as the line gives them: assignments first.
fn shown(options: &[&str]) -> String {
    let mut pairs: Vec<String> = options.chunks(2).map(|pair| pair.join(" ")).collect();
    pairs.sort_by_key(|pair| pair.starts_with("--platform"));
    pairs.join(" ")
}

/// An experiment of two systems, up to its claims.
const TWO: &str = "\
schema: 1
name: e
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 64
batches_per_worker: 3
epochs: 1
evaluate: never
simulation: {compute: [stated-flops], limits: false}
systems: [allreduce, scatterreduce]
";

/// They were judged all the same, over 300 draws of every row.
#[test]
fn findings_that_options_take_away_are_neither_drawn_nor_judged() {
    let directory = tempfile::tempdir().unwrap();
    let finding =
        "{says: one is faster, formula: \"synchronise[allreduce] < synchronise[scatterreduce]\"}";
    let file = directory.path().join("e.yaml");
    fs::write(&file, format!("{TWO}findings: [{finding}]\n")).unwrap();
    let run = |out: &str, options: &[&str]| {
        let out = directory.path().join(out);
        let run = [
            "run",
            file.to_str().unwrap(),
            "--out",
            out.to_str().unwrap(),
        ];
        let output = program().args(run).args(options).output().unwrap();
        assert!(output.status.success() || options.is_empty(), "{output:?}");
        out
    };
    let whole = run("whole", &[]);
    assert!(whole.join("draws.jsonl").is_file());
    let without = run("without", &["--set", "findings=[]"]);
    assert!(!without.join("draws.jsonl").exists());
    let summary = summary(&without);
    assert_eq!(summary["verdicts"].as_array().unwrap().len(), 0);
    let reason = summary["excluded"][0]["why"].to_string();
    assert!(reason.contains("findings=[]"), "{summary}");
}

/// A check of a row that the file itself does not have is the file's fault.
#[test]
fn a_file_excludes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("e.yaml");
    fs::write(&file, format!("{TWO}checks: [\"puts[spirt] >= 1\"]\n")).unwrap();
    let file = file.to_str().unwrap();
    let refused = ends(&["check", file], 2);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("no row `spirt`"), "{message}");
    let out = directory.path().join("b");
    let run = [
        "run",
        file,
        "--out",
        out.to_str().unwrap(),
        "--set",
        "workers=2",
    ];
    ends(&run, 3);
    let summary = summary(&out);
    assert_eq!(summary["verdicts"][0]["verdict"], "not_run");
    assert_eq!(summary["excluded"].as_array().unwrap().len(), 0);
}
