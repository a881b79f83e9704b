//! What the papers describe is in `docs/coverage.md`, line by line: every setting and every
//! experiment that it names exists, and what is not here has a reason.
use std::collections::BTreeSet;
use std::path::PathBuf;

use epochcost_systems::{Fidelity, find};
use serde_json::Map;

use crate::support::{load, root, shipped};

/// The lines of the tables: what it is, its setting, the experiments with it, and why it is not here.
fn lines() -> Vec<[String; 4]> {
    let text = shipped("docs/coverage.md");
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells = line.trim_matches('|').split('|');
        let cells: Vec<String> = cells.map(|cell| cell.trim().to_owned()).collect();
        let cells = <[String; 4]>::try_from(cells);
        let cells = cells.unwrap_or_else(|_| panic!("not four columns: {line}"));
        if cells[1] != "setting" && !cells[1].starts_with("---") {
            lines.push(cells);
        }
    }
    assert!(lines.len() > 50, "{} lines", lines.len());
    lines
}

/// The files that a cell links to.
fn links(cell: &str) -> Vec<PathBuf> {
    let ends = cell.split("](").skip(1);
    let links = ends.map(|end| end.split(')').next().unwrap());
    links.map(|link| root().join("docs").join(link)).collect()
}

#[test]
fn every_line_has_an_experiment_or_a_reason() {
    for [what, _, experiments, why] in lines() {
        let files = links(&experiments);
        for file in &files {
            assert!(file.is_file(), "{what}: there is no {}", file.display());
        }
        let is_reason = why.strip_prefix("no: ").is_some_and(|why| why.len() > 20);
        let is_either = files.is_empty() == is_reason;
        assert!(is_either, "{what}: an experiment, or `no: ` and the reason");
    }
}

#[test]
fn every_setting_is_one_of_its_system_and_an_experiment_runs_that() {
    let mut named = BTreeSet::new();
    for [what, setting, experiments, _] in lines() {
        let path = setting.strip_prefix('`');
        let Some(path) = path.and_then(|rest| rest.strip_suffix('`')) else {
            assert!(setting.is_empty(), "{what}: {setting}");
            continue;
        };
        let (system, field) = path.split_once('.').unwrap();
        let found = find(system).unwrap_or_else(|| panic!("{what}: no system {system}"));
        let settings = found.settings(Fidelity::Paper, &Map::new()).unwrap();
        let is_setting = settings.get(field).is_some();
        assert!(is_setting, "{what}: {system} has no setting {field}");
        named.insert(system.to_owned());
        let runs = |file: &PathBuf| load(file).rows.iter().any(|row| row.job.system == system);
        let is_run = links(&experiments).iter().any(runs);
        assert!(is_run, "{what}: no experiment runs {system}");
    }
    for system in "spirt mlless allreduce gpu_baseline p2p p2p_lambda kubeml".split(' ') {
        assert!(named.contains(system), "{system}");
    }
}

/// Early stopping "in all setups": every system takes it.
#[test]
fn every_system_takes_early_stopping() {
    for system in epochcost_systems::systems() {
        let settings = system.settings(Fidelity::Paper, &Map::new()).unwrap();
        for field in ["early_stopping", "reduce_on_plateau"] {
            let is_setting = settings.get(field).is_some();
            assert!(is_setting, "{} has no {field}", system.name());
        }
    }
}

/// A statement without a formula says why, as its reader demands; an experiment that it names is there.
#[test]
fn experiments_that_statements_name_are_there() {
    for paper in epochcost_judge::audit::read(&[], None).unwrap() {
        for statement in &paper.statements {
            let why = statement.why.as_deref().unwrap_or_default();
            let words = why.split([' ', ',', ';']);
            for file in words.filter(|word| word.starts_with("experiments/")) {
                assert!(root().join(file).is_file(), "{}: {file}", statement.id);
            }
        }
    }
}
