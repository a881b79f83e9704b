//! A figure that stands beside a range lies in it.
use std::fs;
use std::path::{Path, PathBuf};

use epochcost_experiment::yaml_files;
use serde_json::Value;

use crate::support::{Scene, items, root};

fn experiments() -> PathBuf {
    root().join("experiments")
}

/// Counts the figures of a plan that have a range, and names those that lie outside of it.
fn outside(file: &Path, samples: u8) -> Option<(usize, Vec<String>)> {
    let plan = format!("plan '{}' --uncertainty {samples} --json", file.display());
    let ended = Scene::empty().run(&plan);
    if !ended.output.status.success() {
        return None;
    }
    let plan = ended.json();
    let rows = items(&plan, "rows");
    let (mut figures, mut outside) = (0, Vec::new());
    for ranges in items(&plan["uncertainty"], "rows") {
        let row = rows.iter().find(|row| row["id"] == ranges["id"]).unwrap();
        let estimate = &row["estimate"];
        for (name, range) in ranges.as_object().unwrap() {
            let figure = [&estimate[name], &estimate["stage_seconds"][name]];
            let figure = figure.into_iter().find_map(Value::as_f64);
            let ends = range["p5"].as_f64().zip(range["p95"].as_f64());
            if let Some((figure, (low, high))) = figure.zip(ends) {
                figures += 1;
                if !(low..=high).contains(&figure) {
                    let row = &row["id"];
                    outside.push(format!("{row} {name}: {figure}, {low} to {high}"));
                }
            }
        }
    }
    Some((figures, outside))
}

/// Fails unless all figures lie in their ranges, and there are more than some.
fn lie_in_ranges(files: impl IntoIterator<Item = PathBuf>, samples: u8, least: usize) {
    let (mut all, mut wrong) = (0, Vec::new());
    for file in files {
        if let Some((figures, outside)) = outside(&file, samples) {
            println!("{}: {figures} figures", file.display());
            all += figures;
            wrong.extend(outside);
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(all > least, "{all}");
}

/// Rows whose simulation without draws is the furthest outside: workers that wait for each other, and a
/// profile whose stated rates lie at the best end of their ranges.
#[test]
fn every_figure_lies_in_its_range() {
    let names = "fidelity robustness/faults/dead-worker p2p/table1 kubeml/figure4".split(' ');
    let files = names.map(|name| experiments().join(format!("{name}.yaml")));
    lie_in_ranges(files, 20, 150);
}

#[test]
#[ignore = "takes minutes: every shipped experiment"]
fn every_figure_of_every_experiment_lies_in_its_range() {
    let mut files = yaml_files(&experiments()).unwrap();
    // Ten thousand workers in every sample take an hour.
    files.retain(|file| !fs::read_to_string(file).unwrap().contains("workers: 10000"));
    lie_in_ranges(files, 10, 3_000);
}
