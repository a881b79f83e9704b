//! The papers' predictions stood before their claims were first recorded: by the history, where
//! there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use epochcost_experiment::{Experiment, Options};
use epochcost_judge::audit;
use serde_json::Value;

use crate::support::root;

const RECORD: &str = "results/records/reproduction/summary.json";

/// What git says; none where it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.args(arguments).current_dir(root()).output().ok()?;
    let said = || String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(said)
}

/// The commits that changed a path, the first one first.
fn commits(path: &str) -> Vec<String> {
    let log = git(&["log", "--reverse", "--format=%H", "--", path]).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

/// Every item with its claims that have a figure, in each version of the record.
fn records() -> Vec<(String, BTreeSet<(String, String)>)> {
    let of = |commit: String| {
        let text = git(&["show", &format!("{commit}:{RECORD}")])?;
        let summary: Value = serde_json::from_str(&text).ok()?;
        let items = summary["items"].as_array()?.clone();
        let claims = items.iter().flat_map(|item| {
            let id = item["id"].as_str().unwrap_or_default();
            let claims = item["claims"].as_array().into_iter().flatten();
            let told = claims.filter(|claim| claim["verdict"]["observed"].is_number());
            told.map(move |claim| {
                let name = claim["verdict"]["claim"].as_str().unwrap_or_default();
                (id.to_owned(), name.to_owned())
            })
        });
        Some((commit, claims.collect()))
    };
    commits(RECORD).into_iter().filter_map(of).collect()
}

#[test]
fn a_prediction_is_of_a_claim_that_its_experiment_makes() {
    let mut loaded = BTreeMap::new();
    for paper in audit::read(&[], None).unwrap() {
        for one in &paper.predictions {
            let item = format!("experiments/{}/{}.yaml", paper.name, one.experiment);
            let file = root().join(item);
            let experiment = loaded.entry(file.clone()).or_insert_with(|| {
                let experiment = Experiment::load(&file, &Options::default());
                experiment.unwrap_or_else(|error| panic!("{error}"))
            });
            let mut claims = experiment.claims.iter();
            let is_made = claims.any(|claim| claim.claim == one.claim);
            assert!(is_made, "{}: {}", file.display(), one.claim);
        }
    }
}

#[test]
fn a_prediction_stood_before_its_claim_was_first_recorded() {
    let records = records();
    let is_shallow = git(&["rev-parse", "--is-shallow-repository"]);
    if records.len() < 2 || is_shallow.as_deref() != Some("false\n") {
        eprintln!("skipped: a_prediction_stood_before_its_claim_was_first_recorded: no history");
        return;
    }
    let mut checked = 0;
    for paper in audit::read(&[], None).unwrap() {
        let path = format!("experiments/{}/predictions.csv", paper.name);
        for one in &paper.predictions {
            let is_renamed = !one.then.is_empty();
            let claim = if is_renamed { &one.then } else { &one.claim };
            let item = format!("{}/{}", paper.name, one.experiment);
            // A line without a commit stands since its own.
            let stood = if one.commit.is_empty() {
                let format = ["log", "--reverse", "--format=%H", "-S", &one.claim];
                let log = git(&[&format[..], &["--", &path]].concat());
                match log.unwrap_or_default().lines().next() {
                    Some(commit) => commit.to_owned(),
                    None => continue,
                }
            } else {
                let commit = &one.commit;
                let file = git(&["show", &format!("{commit}:experiments/{item}.yaml")]);
                let file = file.unwrap_or_else(|| panic!("{item}: no commit {commit}"));
                assert!(file.contains(claim), "{commit}: nothing of {claim:?}");
                commit.clone()
            };
            let key = (item, claim.clone());
            let Some((first, _)) = records.iter().find(|(_, claims)| claims.contains(&key)) else {
                continue;
            };
            let is_before = git(&["merge-base", "--is-ancestor", &stood, &format!("{first}^")]);
            assert!(
                is_before.is_some(),
                "{claim:?} was recorded in {first}, and predicted in {stood}"
            );
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}
