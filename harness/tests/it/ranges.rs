//! A figure that stands beside a range lies in it.
use std::fs;
use std::path::{Path, PathBuf};

use epochcost_experiment::yaml_files;
use serde_json::Value;

use crate::support::epochcost;

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

/// Counts the figures of a plan that have a range, and names those that lie outside of it.
fn outside(file: &Path, samples: &str) -> Option<(usize, Vec<String>)> {
    let arguments = [
        "plan",
        file.to_str().unwrap(),
        "--uncertainty",
        samples,
        "--json",
    ];
    let output = epochcost(&experiments(), &arguments);
    if !output.status.success() {
        return None;
    }
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = plan["rows"].as_array().unwrap();
    let (mut figures, mut outside) = (0, Vec::new());
    for ranges in plan["uncertainty"]["rows"].as_array().unwrap() {
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

/// Rows whose simulation without draws is the furthest outside: workers that wait for each other, and a
/// profile whose stated rates lie at the best end of their ranges.
#[test]
fn every_figure_lies_in_its_range() {
    let mut all = 0;
    for name in [
        "fidelity",
        "robustness/faults/dead-worker",
        "p2p/table1",
        "kubeml/figure4",
    ] {
        let (figures, outside) = outside(Path::new(&format!("{name}.yaml")), "20").unwrap();
        assert_eq!(outside, [""; 0], "{name}");
        all += figures;
    }
    assert!(all > 150, "{all}");
}

#[test]
#[ignore = "takes minutes: every shipped experiment"]
fn every_figure_of_every_experiment_lies_in_its_range() {
    let (mut all, mut wrong) = (0, Vec::new());
    for file in yaml_files(&experiments()).unwrap() {
        // Ten thousand workers in every sample take an hour.
        if fs::read_to_string(&file)
            .unwrap()
            .contains("workers: 10000")
        {
            continue;
        }
        if let Some((figures, outside)) = outside(&file, "10") {
            println!("{}: {figures} figures", file.display());
            all += figures;
            wrong.extend(outside);
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert!(all > 3_000, "{all}");
}
