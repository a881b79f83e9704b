//! Run directories of other versions, cut off or edited by hand: read, or
//! refused with the place. Nothing here runs a trial.

use std::fs;

use epochcost_record::SCHEMA_VERSION;
use serde_json::json;

use crate::fixture;
use crate::support::{Scene, cases, holds};

/// A whole run in `run`: ten trials, one of which failed, so that its report ends with 3.
fn scene() -> Scene {
    let scene = Scene::empty();
    fixture::finished(&scene.file("run"), "[]");
    scene
}

/// Changes one line of a file of the run; lines count from 1.
fn edit_line(scene: &Scene, file: &str, line: usize, before: &str, after: &str) {
    let name = format!("run/{file}");
    let text = scene.read(&name);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    holds(&lines[line - 1], &[before]);
    lines[line - 1] = lines[line - 1].replacen(before, after, 1);
    scene.write(&name, &(lines.join("\n") + "\n"));
    fixture::reseal(&scene.file("run"));
}

fn cut(scene: &Scene, file: &str, bytes: usize) {
    let path = scene.file("run").join(file);
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() - bytes]).unwrap();
}

/// Fails unless the run is refused with these words.
#[track_caller]
fn refused(scene: &Scene, words: &[&str]) {
    let ended = scene.run("report --json run").ends(2);
    holds(ended.message(), words);
    let printed = ended.json();
    let fields: Vec<&String> = printed.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["error"], "a refused run has no figures");
}

#[test]
fn a_newer_version_is_refused_with_both_named() {
    let (major, minor) = (SCHEMA_VERSION.major, SCHEMA_VERSION.minor);
    let newer = [&format!("up to {major}.{minor}")[..], "newer epochcost"];
    for (major, minor, words) in [
        (major, minor + 1, &newer[..]),
        (major + 1, 0, &newer),
        (0, 9, &["1.x"]),
    ] {
        let scene = scene();
        let mut manifest = scene.value("run/manifest.json");
        manifest["schema_version"] = json!({"major": major, "minor": minor});
        scene.write("run/manifest.json", &manifest.to_string());
        fixture::reseal(&scene.file("run"));
        let its = format!("its format is {major}.{minor}");
        refused(&scene, &[&[&*its], words].concat());
    }
}

#[test]
fn a_line_cut_off_is_refused_with_its_number() {
    for (file, line) in [("trials.jsonl", 10), ("invocations.jsonl", 36)] {
        let scene = scene();
        cut(&scene, file, 20);
        refused(&scene, &[&format!("{file}, line {line}"), "--resume"]);
    }
}

#[test]
fn a_file_cut_off_is_refused_with_its_line() {
    for file in ["manifest.json", "machine.json", "plan.json", "claims.json"] {
        let scene = scene();
        cut(&scene, file, 2);
        refused(&scene, &[file]);
        fixture::reseal(&scene.file("run"));
        refused(&scene, &[file, "line"]);
    }
    let priced = scene();
    // The last price without its source.
    cut(&priced, "prices.yaml", 52);
    fixture::reseal(&priced.file("run"));
    refused(&priced, &["prices.yaml:154:"]);
    let scene = scene();
    cut(&scene, "events/spirt-paper.1.parquet", 100);
    refused(&scene, &["spirt-paper.1.parquet"]);
}

#[test]
fn lines_that_no_longer_parse_are_refused_with_their_number() {
    for ([file, line, before, after], _) in cases(&[
        r#"trials.jsonl | 3 | "wall_s": | "wall_s":x"#,
        r#"trials.jsonl | 4 | "wall_s": | "wall":"#,
        r#"trials.jsonl | 5 | "seed": | "seed":-"#,
        r#"invocations.jsonl | 7 | "billed_ms": | "billed_ms":"many""#,
        r#"invocations.jsonl | 8 | "rank": | "extra":1,"rank":"#,
    ]) {
        let scene = scene();
        edit_line(&scene, file, line.parse().unwrap(), before, after);
        let place = format!("{file}, line {line}");
        refused(&scene, &[&place, "damaged or was edited"]);
    }
}

#[test]
fn lines_that_do_not_belong_are_refused_with_their_number() {
    for ([line, before, after], why) in cases(&[
        r#"2 | "row":"mlless-paper" | "row":"other" | has no other"#,
        r#"6 | "trial":1 | "trial":2 | has no spirt-paper trial 2"#,
        r#"6 | "trial":1 | "trial":0 | line 1 already"#,
        r#"1 | "seed":100 | "seed":7 | seed"#,
        r#"1 | "wall_s":20.0 | "wall_s":-20.0 | -20 s"#,
        r#"1 | "invocations":4 | "invocations":3 | 3 invocations"#,
    ]) {
        let scene = scene();
        edit_line(&scene, "trials.jsonl", line.parse().unwrap(), before, after);
        refused(&scene, &[&format!("trials.jsonl, line {line}"), why[0]]);
    }
    let scene = scene();
    let own = r#""row":""#;
    edit_line(&scene, "invocations.jsonl", 5, own, r#""row":"not-"#);
    refused(&scene, &["trials.jsonl, line"]);
}
