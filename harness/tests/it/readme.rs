//! README's answer: the findings of its record, which is what a simulation gives today.

use std::fs;
use std::path::Path;

use epochcost_judge::analysis::answer::told;
use epochcost_judge::analysis::summary::Summary;
use serde_json::Value;

use crate::support::{Scene, files_of, items, root, shipped};

const RECORD: &str = "results/records/2026-11-30-2-answer.json";
const EXPERIMENT: &str = "experiments/cost-performance/answer.yaml";

fn record() -> Value {
    serde_json::from_str(&shipped(RECORD)).unwrap()
}

/// The section of README from its heading to the first picture, links without their targets.
fn answer() -> String {
    let readme = shipped("README.md");
    let (_, section) = readme.split_once("## The answer so far\n").unwrap();
    let (section, _) = section.split_once("\n![").unwrap();
    let mut parts = section.split("](");
    let first = parts.next().unwrap().to_owned() + " ";
    parts.fold(first, |text, part| {
        text + part.split_once(')').unwrap().1 + " "
    })
}

/// Parameters, in millions, of the largest model that the map's first panel places on functions.
fn largest_model_cheapest_on_functions() -> String {
    let map = shipped("docs/figures/map.svg");
    let cells = map.split("<title>").filter_map(|title| {
        let (parameters, rest) = title.split_once(" parameters, ")?;
        let (amount, scale) = parameters.split_once(' ')?;
        let scale = match scale {
            "k" => 1e-3,
            "M" => 1.0,
            "G" => 1e3,
            _ => return None,
        };
        let amount: f64 = amount.parse().ok()?;
        let functions = [" on lambda", " on cloud-run", " function ("];
        let is_on_functions = functions.iter().any(|words| rest.contains(words));
        Some((amount * scale, is_on_functions))
    });
    let cheapest: Vec<(f64, bool)> = cells.take(81).collect();
    assert_eq!(cheapest.len(), 81);
    let largest = cheapest.iter().filter(|cell| cell.1).map(|cell| cell.0);
    largest.fold(0.0, f64::max).to_string()
}

/// Percent of whole runs that the ranges of the record's profile hold, by authors who gave it no constant.
fn held_of_other_authors() -> String {
    let scores = shipped("harness/profiles/validation/scores.json");
    let scores: Value = serde_json::from_str(&scores).unwrap();
    let own = |known: &&Value| known["profile"] == record()["profile"];
    let known = items(&scores, "profiles").iter().find(own).unwrap();
    let whole = |line: &&Value| line["scope"] == "whole" && line["gave_a_constant"] == false;
    let line = items(known, "headlines").iter().find(whole).unwrap();
    format!("{:.0}", 100.0 * line["coverage"].as_f64().unwrap())
}

/// The findings of the record, as the front page of a reproduction says them, are README's sentences;
/// beside them it has no figure but those of the map.
#[test]
fn the_answer_is_the_findings_of_its_record() {
    let (mut answer, record) = (answer(), record());
    let summary: Summary = serde_json::from_value(record).unwrap();
    let told = told(summary.verdicts.iter());
    assert!(told.len() >= 8, "{told:?}");
    for sentence in told {
        let line = format!("\n- {sentence}");
        assert!(answer.contains(&line), "README lacks: {sentence}");
        answer = answer.replacen(&line, "", 1);
    }
    let mut known = vec![largest_model_cheapest_on_functions()];
    // What is stated: Table 2, draws of the constants, ResNet-18.
    known.extend(["2", "300", "18"].map(str::to_owned));
    known.push(held_of_other_authors());
    let numbers = answer
        .split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .map(|text| text.trim_matches('.'))
        .filter(|text| !text.is_empty());
    for number in numbers {
        let is_known = known.iter().any(|figure| figure == number);
        assert!(is_known, "{number} is in no record");
    }
    let words = answer.split_whitespace().count();
    assert!(words <= 100, "{words} words");
}

#[test]
fn the_record_of_the_answer_is_what_a_simulation_gives() {
    let scene = Scene::empty();
    let experiment = root().join(EXPERIMENT).display().to_string();
    // Without claims nothing is drawn.
    scene.text(&format!("run {experiment} --set findings=[] --out run"));
    let (fresh, recorded) = (scene.value("run/summary.json"), record());
    let (fresh, recorded) = (items(&fresh, "rows"), items(&recorded, "rows"));
    assert_eq!(fresh.len(), recorded.len());
    let row = |id: &str| {
        let mut rows = recorded.iter();
        rows.find(|row| row["id"] == id).unwrap()
    };
    for now in fresh {
        let row = row(now["id"].as_str().unwrap());
        assert!(now["infeasible"].is_null(), "{now}");
        for name in ["seconds_per_epoch", "cost_paper_usd", "cost_full_usd"] {
            let value = |row: &Value| row["figures"][name]["mean"].as_f64().unwrap();
            let (before, after) = (value(row), value(now));
            assert!(
                (after / before - 1.0).abs() < 1e-9,
                "{} {name}: {before} in {RECORD}, {after} now: write it again with \
                 `epochcost run {EXPERIMENT} --out DIR` (its summary.json), and then README",
                row["id"]
            );
        }
    }
}

/// Words that readers had to translate, and what is said in their place.
const WORDS: [(&str, &str); 15] = [
    ("dearer", "costlier"),
    ("held against", "compared with"),
    ("seconds an epoch", "seconds per epoch"),
    ("seconds a batch", "seconds per batch"),
    ("bytes a worker", "bytes per worker"),
    ("times the price of", "costs x times as much as"),
    ("No statement of a paper", "tests no published statement"),
    ("What this stands on", "Sources"),
    ("need not be", "by design"),
    ("nobody", "no one, or the thing itself"),
    ("not had", "not available"),
    ("put away", "tear down"),
    ("cannot be told", "undecided"),
    ("carried to", "scaled to"),
    ("beyond the axis", "off the scale"),
];

/// What a file says: of Rust, the texts in quotation marks; names that were given up stay aliases.
fn said(file: &Path, line: &str) -> String {
    if file.extension().is_none_or(|end| end != "rs") {
        return line.to_owned();
    }
    if line.trim_start().starts_with("//") || line.contains("alias = ") {
        return String::new();
    }
    line.split('"').skip(1).step_by(2).collect()
}

#[test]
fn documents_pages_and_output_use_the_words_of_the_field() {
    let folder = |name: &str| {
        let entries = fs::read_dir(root().join(name)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.is_file())
    };
    let mut code = files_of(&root().join("harness"), "rs");
    // Names of AWS's resources have other readers.
    let aws = root().join("harness/aws");
    code.retain(|path| {
        let is_source = path.iter().any(|part| part == "src") && !path.starts_with(&aws);
        is_source && !path.to_str().unwrap().ends_with("tests.rs")
    });
    let files = folder("docs").chain(folder("templates")).chain(code);
    let readmes = ["README.md", "experiments/README.md"].map(|file| root().join(file));
    for file in files.chain(readmes) {
        let text = fs::read_to_string(&file).unwrap();
        for (word, better) in WORDS {
            let mut lines = text.lines();
            let line = lines.position(|line| said(&file, line).contains(word));
            let at = line.map(|line| line + 1);
            assert_eq!(at, None, "{}: `{word}`: say `{better}`", file.display());
        }
    }
}
