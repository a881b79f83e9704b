//! `epochcost dev validate` compares the simulator with measurements, and its targets can fail.
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::epochcost;

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

/// A copy of a shipped validation with its data.
fn copy(name: &str, edit: impl Fn(String) -> String) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let from = experiments().join("validation");
    fs::create_dir(directory.path().join("data")).unwrap();
    let data = format!("data/{name}.csv");
    fs::copy(from.join(&data), directory.path().join(&data)).unwrap();
    let text = fs::read_to_string(from.join(format!("{name}.yaml"))).unwrap();
    fs::write(directory.path().join(format!("{name}.yaml")), edit(text)).unwrap();
    directory
}

#[track_caller]
fn ends(directory: &Path, arguments: &[&str], code: i32) -> (String, String) {
    // Half a minute of two quiet cores for each.
    epochcost_testing::watch_for(600);
    let output = epochcost(directory, &[&["dev", "validate"], arguments].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (out, err)
}

#[test]
fn a_target_that_is_not_as_expected_fails() {
    let name = "s3-put-clients";
    let other = |text: String| {
        let text = text.replace("expect: holds", "expect: other");
        let text = text.replace("expect: fails", "expect: holds");
        text.replace("expect: other", "expect: fails")
    };
    let file = format!("{name}.yaml");
    let same = copy(name, |text| text);
    ends(same.path(), &[&file, "--draws", "60"], 0);
    let turned = copy(name, other);
    ends(turned.path(), &[&file, "--draws", "60"], 3);
    // On another profile targets are shown and expected of nobody.
    let on_other = ["--profile", "aws-us-east-1", "--draws", "60"];
    ends(
        turned.path(),
        &[&[file.as_str()], &on_other[..]].concat(),
        0,
    );
}

#[test]
fn the_same_draws_give_the_same_bytes_and_series_of_a_fit_are_not_judged() {
    let directory = copy("s3-put-clients", |text| text);
    let arguments = ["s3-put-clients.yaml", "--draws", "60", "--json"];
    let (first, _) = ends(directory.path(), &arguments, 0);
    assert_eq!(first, ends(directory.path(), &arguments, 0).0);
    let json: Value = serde_json::from_str(&first).unwrap();
    let set = &json["sets"][0];
    let cells = set["cells"].as_array().unwrap();
    let fitted = cells.iter().filter(|cell| cell["is_fitted"] == true);
    assert!(fitted.clone().count() > 0);
    for cell in fitted {
        assert!(cell["series"].as_str().unwrap().starts_with("rust_sdk"));
    }
    let judged = cells.iter().filter(|cell| cell["is_fitted"] == false);
    assert_eq!(set["judged"]["cells"], judged.count());
    assert!(!set["without"].as_array().unwrap().is_empty());
}

/// The file by which plans and reports say what a profile misses by is what `validate` writes.
#[test]
fn the_recorded_scores_are_those_of_today() {
    let directory = tempfile::tempdir().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/validation/scores.json");
    let recorded: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let recorded = recorded["profiles"].as_array().unwrap();
    assert_eq!(recorded.len(), 2);
    for known in recorded {
        let profile = known["profile"].as_str().unwrap();
        let output = epochcost(
            &experiments().join(".."),
            &[
                "dev",
                "validate",
                "--profile",
                profile,
                "--record",
                directory.path().join("scores.json").to_str().unwrap(),
            ],
        );
        assert!(output.status.success(), "{profile}: {output:?}");
    }
    let written = fs::read_to_string(directory.path().join("scores.json")).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    let flat = |profiles: &[Value]| -> Vec<(String, String, Vec<f64>)> {
        let of = |known: &Value| {
            let profile = known["profile"].as_str().unwrap().to_owned();
            let lines = ["headlines", "sets"].map(|kind| known[kind].as_array().unwrap().clone());
            lines.concat().into_iter().map(move |line| {
                let figures = ["cells", "median_error", "bias", "coverage", "width"];
                let figures = figures.map(|name| line[name].as_f64().unwrap_or(-1.0));
                let of = ["name", "scope", "gave_a_constant"].map(|name| line[name].to_string());
                (profile.clone(), of.join(" "), figures.into())
            })
        };
        profiles.iter().flat_map(of).collect()
    };
    let remedy = "run `epochcost dev validate --profile NAME --record harness/profiles/validation/scores.json`";
    let (recorded, written) = (
        flat(recorded),
        flat(written["profiles"].as_array().unwrap()),
    );
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
    let directory = tempfile::tempdir().unwrap();
    let validation = experiments().join("validation");
    let file = |name: &str| validation.join(format!("{name}.yaml"));
    let files = [
        "s3-put-clients",
        "s3-large-objects",
        "compute-spread",
        "judges/sebs-init",
    ]
    .map(file);
    let files = files.each_ref().map(|file| file.to_str().unwrap());
    let options = ["--draws", "60", "--json", "--profile", "aws-us-east-1-2024"];
    let (json, _) = ends(directory.path(), &[&files[..], &options[..]].concat(), 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    let found = json["headlines"].as_array().unwrap().iter().map(|line| {
        let count = |name: &str| line[name].as_u64().unwrap();
        let scope = line["scope"].as_str().unwrap();
        (
            scope,
            line["gave_a_constant"].as_bool().unwrap(),
            count("sets"),
            count("cells"),
        )
    });
    let expected = [
        ("whole", false, 1, 18),
        ("whole", true, 1, 10),
        ("small", true, 1, 10),
        ("spread", false, 1, 12),
        ("spread", true, 1, 2),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

/// A judge is predicted from the other authors, and changes nothing for them.
#[test]
fn every_author_is_left_out_in_turn() {
    let directory = tempfile::tempdir().unwrap();
    let validation = experiments().join("validation");
    let authors = |names: &[&str]| -> Vec<Value> {
        let files = names
            .iter()
            .map(|name| validation.join(format!("{name}.yaml")));
        let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
        let files = files.iter().map(String::as_str);
        let options = ["--draws", "40", "--leave-one-out", "--json"];
        let arguments: Vec<&str> = files.chain(options).collect();
        let json: Value = serde_json::from_str(&ends(directory.path(), &arguments, 0).0).unwrap();
        json["authors"].as_array().unwrap().clone()
    };
    let without = authors(&["s3-put-clients", "s3-clients"]);
    let with = authors(&["s3-put-clients", "s3-clients", "judges/sebs-model"]);
    let found = with.iter().map(|line| {
        (
            line["author"].as_str().unwrap(),
            line["cells"].as_u64().unwrap(),
        )
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [("blacha", 54), ("mbwilding", 20), ("spcl", 5)]
    );
    assert_eq!(with[..2], without[..]);
}

#[test]
fn mistakes_in_a_file_are_named() {
    let cases = [
        ("rust_sdk-arm64", "no_such", "no series `no_such`"),
        ("schema: 1", "schema: 2", "version 1"),
        ("rounds: 501", "rounds: 0", "give 1 or more"),
        (
            "profile: aws-us-east-1-2024",
            "profile: aws",
            "no platform profile `aws`",
        ),
    ];
    for (old, new, expected) in cases {
        let directory = copy("s3-put-clients", |text| text.replace(old, new));
        let (_, error) = ends(directory.path(), &["s3-put-clients.yaml"], 2);
        assert!(error.contains(expected), "{error}");
    }
}

/// The shipped predictions with the data lines that `is_kept` accepts, changed by `edit`.
fn predictions(
    is_kept: impl Fn(&str) -> bool,
    edit: impl Fn(String) -> String,
) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let from = experiments().join("validation/predictions");
    let read = |name: &str| fs::read_to_string(from.join(name)).unwrap();
    let data = read("gradssharding.csv");
    let kept = data.lines().enumerate();
    let kept = kept.filter(|(number, line)| *number == 0 || is_kept(line));
    let kept: String = kept.map(|(_, line)| format!("{line}\n")).collect();
    fs::write(directory.path().join("gradssharding.csv"), edit(kept)).unwrap();
    let file = directory.path().join("gradssharding.yaml");
    fs::write(file, read("gradssharding.yaml")).unwrap();
    directory
}

const PREDICT: [&str; 5] = [
    "gradssharding.yaml",
    "--draws",
    "60",
    "--predict",
    "out.csv",
];

/// A line for each of the data; a round costs its functions, and lasts as long as one of them.
#[test]
fn predictions_of_rounds_are_consistent_and_the_same_twice() {
    let directory = predictions(|line| line.starts_with("cross-resnet18"), |data| data);
    let predicted = || {
        ends(directory.path(), &PREDICT, 0);
        fs::read_to_string(directory.path().join("out.csv")).unwrap()
    };
    let text = predicted();
    assert_eq!(text, predicted());
    let figures: std::collections::BTreeMap<String, [f64; 3]> = (text.lines().skip(1))
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let figure = |index: usize| cells[index].parse::<f64>().unwrap();
            let id = cells[0].strip_prefix("cross-resnet18-").unwrap();
            let name = format!("{id} {} {}", cells[1], cells[2]);
            (name, [figure(3), figure(4), figure(5)])
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
        assert!(
            (found / cost - 1.0).abs() < 0.03,
            "{round}: {found}, {cost}"
        );
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
    let shipped = experiments().join("validation/predictions/gradssharding.csv");
    let records = experiments().join("../results/records");
    let recorded = fs::read_dir(records).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let is_one = path.to_str()?.ends_with("gradssharding-predictions.csv");
        is_one.then_some(path)
    });
    let recorded: Vec<PathBuf> = recorded.collect();
    assert!(!recorded.is_empty());
    for file in recorded {
        assert_eq!(lines(&file, [0, 1, 2]), lines(&shipped, [0, 2, 8]));
    }
}

#[test]
fn lines_that_name_no_quantity_are_refused_with_their_place() {
    for (from, to, column) in [
        ("grads_sharding", "tree", "architecture"),
        (",shard,", ",leaf,", "role"),
        ("read_s", "wall_s", "quantity"),
        (",20,4,", ",0,4,", "clients"),
    ] {
        let is_kept = |line: &str| line.starts_with("cross-resnet18-gradssharding,");
        let directory = predictions(is_kept, |data| data.replace(from, to));
        let (_, err) = ends(directory.path(), &PREDICT, 2);
        let place = format!("gradssharding.csv:2:{column}");
        assert!(err.contains(&place), "{err}");
    }
}
