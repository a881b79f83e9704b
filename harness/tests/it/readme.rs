//! README's answer: the findings of its record, which is what a simulation gives today.

use std::fs;
use std::path::{Path, PathBuf};

use epochcost_judge::analysis::answer::told;
use epochcost_judge::analysis::summary::Summary;
use serde_json::Value;

use crate::support::epochcost;

const RECORD: &str = "results/records/2026-11-29-answer.json";
const EXPERIMENT: &str = "experiments/cost-performance/answer.yaml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn record() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join(RECORD)).unwrap()).unwrap()
}

/// The section of README from its heading to the first picture, links without their targets.
fn answer() -> String {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, section) = readme.split_once("## The answer so far\n").unwrap();
    let (section, _) = section.split_once("\n![").unwrap();
    let mut text = String::new();
    for (place, part) in section.split("](").enumerate() {
        let shown = if place == 0 {
            part
        } else {
            part.split_once(')').unwrap().1
        };
        text.push_str(shown);
        text.push(' ');
    }
    text
}

/// Parameters, in millions, of the largest model that the map's first panel places on functions.
fn largest_model_cheapest_on_functions() -> String {
    let map = fs::read_to_string(root().join("docs/figures/map.svg")).unwrap();
    let cells = map.split("<title>").filter_map(|title| {
        let (parameters, rest) = title.split_once(" parameters, ")?;
        let (amount, scale) = parameters.split_once(' ')?;
        let scale = match scale {
            "k" => 1e-3,
            "M" => 1.0,
            "G" => 1e3,
            _ => return None,
        };
        Some((
            amount.parse::<f64>().ok()? * scale,
            rest.contains(" on lambda"),
        ))
    });
    let cheapest: Vec<(f64, bool)> = cells.take(81).collect();
    assert_eq!(cheapest.len(), 81);
    let largest = cheapest.iter().filter(|cell| cell.1).map(|cell| cell.0);
    largest.fold(0.0, f64::max).to_string()
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
    // What is stated: Table 2, draws of the constants.
    known.extend(["2", "300"].map(str::to_owned));
    let numbers = answer
        .split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .map(|text| text.trim_matches('.'))
        .filter(|text| !text.is_empty());
    for number in numbers {
        assert!(
            known.iter().any(|figure| figure == number),
            "{number} is in no record"
        );
    }
    let words = answer.split_whitespace().count();
    assert!(words <= 100, "{words} words");
}

#[test]
fn the_record_of_the_answer_is_what_a_simulation_gives() {
    let directory = tempfile::tempdir().unwrap();
    let experiment = root().join(EXPERIMENT);
    let experiment = experiment.to_str().unwrap();
    // Without claims nothing is drawn. Rows of 50 epochs are held to the line through 1 and 4, below.
    let few = "--set findings=[] --set sweep.epochs=[1,4] --out run";
    let arguments: Vec<&str> = ["run", experiment]
        .into_iter()
        .chain(few.split(' '))
        .collect();
    let output = epochcost(directory.path(), &arguments);
    assert!(output.status.success(), "{output:?}");
    let summary = fs::read_to_string(directory.path().join("run/summary.json")).unwrap();
    let fresh: Value = serde_json::from_str(&summary).unwrap();
    let recorded = record();
    let fresh = fresh["rows"].as_array().unwrap();
    assert_eq!(
        fresh.len(),
        2 * recorded["rows"].as_array().unwrap().len() / 3
    );
    for now in fresh {
        let mut rows = recorded["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["id"] == now["id"]).unwrap();
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
    // The line through 1 and 4 epochs, which the findings draw, leads to 50.
    let cost = |id: &str, epochs: u32| {
        let id = format!("{id}{epochs}");
        let mut rows = recorded["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["id"] == id.as_str()).unwrap();
        row["figures"]["cost_full_usd"]["mean"].as_f64().unwrap()
    };
    for row in recorded["rows"].as_array().unwrap() {
        if let Some(id) = row["id"].as_str().unwrap().strip_suffix("50") {
            let line = cost(id, 1) + 49.0 * (cost(id, 4) - cost(id, 1)) / 3.0;
            assert!((line / cost(id, 50) - 1.0).abs() < 0.02, "{id}: {line}");
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

/// Files of Rust below a folder, without tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

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
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
    };
    let mut code = Vec::new();
    sources(&root().join("harness"), &mut code);
    // Names of AWS's resources have other readers.
    let aws = root().join("harness/aws");
    code.retain(|path| path.iter().any(|part| part == "src") && !path.starts_with(&aws));
    let files = folder("docs").chain(folder("templates")).chain(code);
    for file in files.chain([
        root().join("README.md"),
        root().join("experiments/README.md"),
    ]) {
        let text = fs::read_to_string(&file).unwrap();
        for (word, better) in WORDS {
            let line = text
                .lines()
                .position(|line| said(&file, line).contains(word));
            let at = line.map(|line| line + 1);
            assert_eq!(at, None, "{}: `{word}`: say `{better}`", file.display());
        }
    }
}
