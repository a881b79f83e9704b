//! `epochcost dev validate` compares the simulator with measurements, and its targets can fail.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Ended, Scene, cases, files_of, items, root, shipped};

/// A copy of a shipped validation with its data.
fn clients() -> Scene {
    let shipped = |name: &str| shipped(&format!("experiments/validation/{name}"));
    let [file, data] = ["s3-put-clients.yaml", "data/s3-put-clients.csv"];
    Scene::of(file, &shipped(file)).with(data, &shipped(data))
}

fn validate(scene: &Scene, arguments: &str) -> Ended {
    // Half a minute of two quiet cores for each.
    epochcost_testing::watch_for(600);
    scene.run(&format!("dev validate {arguments}"))
}

#[test]
fn a_target_that_is_not_as_expected_fails() {
    let scene = clients();
    let file = "s3-put-clients.yaml";
    validate(&scene, &format!("{file} --draws 60")).ends(0);
    for [from, to] in [["holds", "other"], ["fails", "holds"], ["other", "fails"]] {
        scene.edit(file, &format!("expect: {from}"), &format!("expect: {to}"));
    }
    validate(&scene, &format!("{file} --draws 60")).ends(3);
    // On another profile targets are shown and expected of nobody.
    let on_other = format!("{file} --profile aws-us-east-1 --draws 60");
    validate(&scene, &on_other).ends(0);
}

#[test]
fn the_same_draws_give_the_same_bytes_and_series_of_a_fit_are_not_judged() {
    let scene = clients();
    let [first, again] =
        [(); 2].map(|()| validate(&scene, "s3-put-clients.yaml --draws 60 --json").ends(0));
    assert_eq!(first.text(), again.text());
    let set = &first.json()["sets"][0];
    let cells = items(set, "cells").iter();
    let (fitted, judged): (Vec<&Value>, Vec<&Value>) =
        cells.partition(|cell| cell["is_fitted"].as_bool().unwrap());
    assert!(!fitted.is_empty());
    for cell in fitted {
        assert!(cell["series"].as_str().unwrap().starts_with("rust_sdk"));
    }
    assert_eq!(set["judged"]["cells"], judged.len());
    assert!(!items(set, "without").is_empty());
}

/// The file by which plans and reports say what a profile misses by is what `validate` writes.
#[test]
fn the_recorded_scores_are_those_of_today() {
    let recorded = shipped("harness/profiles/validation/scores.json");
    let recorded: Value = recorded.parse().unwrap();
    assert_eq!(items(&recorded, "profiles").len(), 2);
    let scene = Scene::empty();
    let scores = scene.file("scores.json");
    for known in items(&recorded, "profiles") {
        let profile = known["profile"].as_str().unwrap();
        let record = format!("--profile {profile} --record '{}'", scores.display());
        let mut validate = scene.command(&format!("dev validate {record}"));
        scene.end(validate.current_dir(root())).ends(0);
    }
    let flat = |scores: &Value| -> Vec<(String, String, Vec<f64>)> {
        let of = |known: &Value| {
            let profile = known["profile"].as_str().unwrap().to_owned();
            let lines = ["headlines", "sets"].map(|kind| items(known, kind).to_vec());
            lines.concat().into_iter().map(move |line| {
                let figures = ["cells", "median_error", "bias", "coverage", "width"];
                let figures = figures.map(|name| line[name].as_f64().unwrap_or(-1.0));
                let of = ["name", "scope", "gave_a_constant"].map(|name| line[name].to_string());
                (profile.clone(), of.join(" "), figures.into())
            })
        };
        items(scores, "profiles").iter().flat_map(of).collect()
    };
    let remedy = "run `epochcost dev validate --profile NAME --record harness/profiles/validation/scores.json`";
    let (recorded, written) = (flat(&recorded), flat(&scene.value("scores.json")));
    assert_eq!(recorded.len(), written.len(), "{remedy}");
    for (old, new) in recorded.iter().zip(&written) {
        assert_eq!((&old.0, &old.1), (&new.0, &new.1));
        for (old_figure, new_figure) in old.2.iter().zip(&new.2) {
            // Logarithms may differ in their last digit between machines.
            let is_close = (old_figure - new_figure).abs() <= 1e-6 * old_figure.abs();
            assert!(is_close, "{old:?} {new:?}: {remedy}");
        }
    }
}

/// Judged cells are in one line each, by what they are of and by whether their author gave a constant.
#[test]
fn headlines_hold_every_judged_cell_once() {
    let sets = "s3-put-clients s3-large-objects compute-spread judges/sebs-init";
    let options = "--draws 60 --json --profile aws-us-east-1-2024";
    let ended = validate(&Scene::empty(), &format!("{sets} {options}"));
    let json = ended.ends(0).json();
    let found = items(&json, "headlines").iter().map(|line| {
        let parts = ["scope", "gave_a_constant", "sets", "cells"];
        let parts = parts.map(|part| line[part].to_string());
        parts.join(" ").replace('"', "")
    });
    let expected =
        "whole false 1 18|whole true 1 10|small true 1 10|spread false 1 12|spread true 1 2";
    assert!(found.eq(expected.split('|')), "{:#}", json["headlines"]);
}

/// A judge is predicted from the other authors, and changes nothing for them.
#[test]
fn every_author_is_left_out_in_turn() {
    let authors = |judges: &str| {
        let sets = format!("s3-put-clients s3-clients {judges}");
        let arguments = format!("{sets} --draws 40 --leave-one-out --json");
        let json = validate(&Scene::empty(), &arguments).ends(0).json();
        items(&json, "authors").to_vec()
    };
    let (without, with) = (authors(""), authors("judges/sebs-model"));
    let lines = with.iter();
    let found = lines.map(|line| format!("{} {}", line["author"], line["cells"]));
    let expected = [r#""blacha" 54"#, r#""mbwilding" 20"#, r#""spcl" 5"#];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(with[..2], without[..]);
}

#[test]
fn mistakes_in_a_file_are_named() {
    for ([old, new], expected) in cases(&[
        "rust_sdk-arm64 | no_such | no series `no_such`",
        "schema: 1 | schema: 2 | version 1",
        "rounds: 501 | rounds: 0 | give 1 or more",
        "profile: aws-us-east-1-2024 | profile: aws | no platform profile `aws`",
    ]) {
        let scene = clients();
        scene.edit("s3-put-clients.yaml", old, new);
        let refused = validate(&scene, "s3-put-clients.yaml");
        refused.ends(2).says(&expected);
    }
}

/// The shipped predictions with the data lines that begin like that.
fn predictions(begin: &str) -> Scene {
    let shipped = |name: &str| shipped(&format!("experiments/validation/predictions/{name}"));
    let data = shipped("gradssharding.csv");
    let mut lines = data.lines();
    let header = lines.next().unwrap();
    let kept = lines.filter(|line| line.starts_with(begin));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    Scene::of("gradssharding.csv", &format!("{header}\n{kept}"))
        .with("gradssharding.yaml", &shipped("gradssharding.yaml"))
}

const PREDICT: &str = "gradssharding.yaml --draws 60 --predict out.csv";

/// A line for each of the data; a round costs its functions, and lasts as long as one of them.
#[test]
fn predictions_of_rounds_are_consistent_and_the_same_twice() {
    let scene = predictions("cross-resnet18");
    let [text, again] = [(); 2].map(|()| {
        validate(&scene, PREDICT).ends(0);
        scene.read("out.csv")
    });
    assert_eq!(text, again);
    let figures: BTreeMap<String, [f64; 3]> = (text.lines().skip(1))
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let id = cells[0].strip_prefix("cross-resnet18-").unwrap();
            let name = format!("{id} {} {}", cells[1], cells[2]);
            (name, [3, 4, 5].map(|index| cells[index].parse().unwrap()))
        })
        .collect();
    assert_eq!(figures.len(), 15, "{text}");
    for [value, low, high] in figures.values() {
        assert!(0.0 < *low && low <= high && *value > 0.0, "{text}");
    }
    let stated = |name: &str| figures[name][0];
    let seconds = |role: &str| -> f64 {
        let part = |part| stated(&format!("{role} {part}"));
        ["read_s", "compute_s", "write_s"].map(part).iter().sum()
    };
    let (shard, leaf) = (seconds("gradssharding shard"), seconds("lambda_fl leaf"));
    let root = seconds("lambda_fl root");
    let usd = |seconds: f64, memory_mb: f64, functions: f64| {
        seconds * memory_mb / 1024.0 * 1.66667e-5 + functions * 2e-7
    };
    for (round, least_s, cost) in [
        ("gradssharding", shard, usd(4.0 * shard, 472.0, 4.0)),
        ("lambda_fl", leaf + root, usd(4.0 * leaf + root, 536.0, 5.0)),
    ] {
        let found = stated(&format!("{round} round cost_usd"));
        let is_near = (found / cost - 1.0).abs() < 0.03;
        assert!(is_near, "{round}: {found}, {cost}");
        let wall_s = stated(&format!("{round} round wall_s"));
        assert!(wall_s > 0.98 * least_s, "{round}: {wall_s}, {least_s}");
    }
}

/// The recorded predictions answer every line, in its order.
#[test]
fn the_recorded_predictions_are_of_the_shipped_lines() {
    let lines = |file: &Path, columns: [usize; 3]| -> Vec<String> {
        let text = fs::read_to_string(file).unwrap();
        let line = |line: &str| {
            let cells: Vec<&str> = line.split(',').collect();
            columns.map(|column| cells[column]).join(",")
        };
        text.lines().map(line).collect()
    };
    let shipped = root().join("experiments/validation/predictions/gradssharding.csv");
    let mut recorded = files_of(&root().join("results/records"), "csv");
    let end = "gradssharding-predictions.csv";
    recorded.retain(|file| file.to_str().unwrap().ends_with(end));
    assert!(!recorded.is_empty());
    for file in recorded {
        assert_eq!(lines(&file, [0, 1, 2]), lines(&shipped, [0, 2, 8]));
    }
}

#[test]
fn lines_that_name_no_quantity_are_refused_with_their_place() {
    for ([from, to], column) in cases(&[
        "grads_sharding | tree | architecture",
        ",shard, | ,leaf, | role",
        "read_s | wall_s | quantity",
        ",20,4, | ,0,4, | clients",
    ]) {
        let scene = predictions("cross-resnet18-gradssharding,");
        scene.edit("gradssharding.csv", from, to);
        let place = format!("gradssharding.csv:2:{}", column[0]);
        validate(&scene, PREDICT).ends(2).says(&[&place]);
    }
}
