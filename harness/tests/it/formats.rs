//! Run directories of other versions, cut off or edited by hand: read, or
//! refused with the place. Nothing here runs a trial.
use crate::fixture;

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::program;

use epochcost_record::SCHEMA_VERSION;
use serde_json::{Value, json};
use tempfile::TempDir;

fn report(run: &Path) -> Output {
    program()
        .args(["report", "--json"])
        .arg(run)
        .output()
        .unwrap()
}

/// A whole run: ten trials, one of which failed, so that its report ends with 3.
fn scene() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fixture::finished(directory.path(), "[]");
    directory
}

/// Changes a file of a run as JSON.
fn edit(run: &Path, file: &str, change: impl Fn(&mut Value)) {
    let path = run.join(file);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(&path, serde_json::to_vec_pretty(&value).unwrap()).unwrap();
    fixture::reseal(run);
}

/// Changes one line of a file of a run; lines count from 1.
fn edit_line(run: &Path, file: &str, line: usize, before: &str, after: &str) {
    let path = run.join(file);
    let text = fs::read_to_string(&path).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert!(lines[line - 1].contains(before), "{}", lines[line - 1]);
    lines[line - 1] = lines[line - 1].replacen(before, after, 1);
    fs::write(&path, lines.join("\n") + "\n").unwrap();
    fixture::reseal(run);
}

fn cut(run: &Path, file: &str, bytes: usize) {
    let path = run.join(file);
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - bytes]).unwrap();
}

/// The message with which a run is refused.
#[track_caller]
fn refused(run: &Path) -> String {
    let output = report(run);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fields: Vec<&String> = printed.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["error"], "a refused run has no figures");
    message
}

fn with_version(major: u32, minor: u32) -> TempDir {
    let run = scene();
    edit(run.path(), "manifest.json", |manifest| {
        manifest["schema_version"] = json!({"major": major, "minor": minor});
    });
    run
}

#[test]
fn a_newer_version_is_refused_with_both_named() {
    let own = format!("{}.{}", SCHEMA_VERSION.major, SCHEMA_VERSION.minor);
    let (major, minor) = (SCHEMA_VERSION.major, SCHEMA_VERSION.minor);
    for (major, minor) in [(major, minor + 1), (major + 1, 0)] {
        let run = with_version(major, minor);
        let message = refused(run.path());
        assert!(
            message.contains(&format!("its format is {major}.{minor}"))
                && message.contains(&format!("up to {own}")),
            "{message}"
        );
        assert!(message.contains("newer epochcost"), "{message}");
    }
    let older = with_version(0, 9);
    let message = refused(older.path());
    assert!(
        message.contains("0.9") && message.contains("1.x"),
        "{message}"
    );
}

#[test]
fn a_line_cut_off_is_refused_with_its_number() {
    for (file, line) in [("trials.jsonl", 10), ("invocations.jsonl", 36)] {
        let run = scene();
        cut(run.path(), file, 20);
        let message = refused(run.path());
        let place = format!("{file}, line {line}");
        assert!(message.contains(&place), "{message}");
        assert!(message.contains("--resume"), "{message}");
    }
}

#[test]
fn a_file_cut_off_is_refused_with_its_line() {
    for file in ["manifest.json", "machine.json", "plan.json", "claims.json"] {
        let run = scene();
        cut(run.path(), file, 2);
        assert!(refused(run.path()).contains(file));
        fixture::reseal(run.path());
        let message = refused(run.path());
        assert!(
            message.contains(file) && message.contains("line"),
            "{message}"
        );
    }
    let run = scene();
    // The last price without its source.
    cut(run.path(), "prices.yaml", 52);
    fixture::reseal(run.path());
    let message = refused(run.path());
    assert!(message.contains("prices.yaml:154:"), "{message}");
    let run = scene();
    cut(run.path(), "events/spirt-paper.1.parquet", 100);
    let message = refused(run.path());
    assert!(message.contains("spirt-paper.1.parquet"), "{message}");
}

#[test]
fn lines_that_no_longer_parse_are_refused_with_their_number() {
    let edits = [
        ("trials.jsonl", 3, r#""wall_s":"#, r#""wall_s":x"#),
        ("trials.jsonl", 4, r#""wall_s":"#, r#""wall":"#),
        ("trials.jsonl", 5, r#""seed":"#, r#""seed":-"#),
        (
            "invocations.jsonl",
            7,
            r#""billed_ms":"#,
            r#""billed_ms":"many""#,
        ),
        ("invocations.jsonl", 8, r#""rank":"#, r#""extra":1,"rank":"#),
    ];
    for (file, line, before, after) in edits {
        let run = scene();
        edit_line(run.path(), file, line, before, after);
        let message = refused(run.path());
        assert!(
            message.contains(&format!("{file}, line {line}")),
            "{message}"
        );
        assert!(message.contains("damaged or was edited"), "{message}");
    }
}

#[test]
fn lines_that_do_not_belong_are_refused_with_their_number() {
    let edits = [
        (
            2,
            r#""row":"mlless-paper""#,
            r#""row":"other""#,
            "has no other",
        ),
        (
            6,
            r#""trial":1"#,
            r#""trial":2"#,
            "has no spirt-paper trial 2",
        ),
        (6, r#""trial":1"#, r#""trial":0"#, "line 1 already"),
        (1, r#""seed":100"#, r#""seed":7"#, "seed"),
        (1, r#""wall_s":20.0"#, r#""wall_s":-20.0"#, "-20 s"),
        (
            1,
            r#""invocations":4"#,
            r#""invocations":3"#,
            "3 invocations",
        ),
    ];
    for (line, before, after, why) in edits {
        let run = scene();
        edit_line(run.path(), "trials.jsonl", line, before, after);
        let message = refused(run.path());
        assert!(
            message.contains(&format!("trials.jsonl, line {line}")),
            "{message}"
        );
        assert!(message.contains(why), "{message}");
    }
    let run = scene();
    edit_line(
        run.path(),
        "invocations.jsonl",
        5,
        r#""row":""#,
        r#""row":"not-"#,
    );
    assert!(refused(run.path()).contains("trials.jsonl, line"));
}
