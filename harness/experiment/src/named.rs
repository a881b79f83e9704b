//! Experiments by name: the one way from what a user wrote to a file, for all verbs.

use std::io::ErrorKind;
use std::path::Path;

use epochcost_simulator::profile::{ComputeProfile, Constant, Profile};
use epochcost_spec::published::PAPER;
use epochcost_spec::shipped;
use epochcost_spec::suggest::nearest;

use super::document::{Document, Origin};
use super::error::ExperimentError;
use super::files::yaml_files;

/// Directory beside the experiments that holds published values.
const PUBLISHED: &str = "published/";

/// Reads the experiment that a user named by its path or its name.
///
/// # Errors
/// When there is none, with the nearest name; when the file is not YAML, or is a profile.
pub fn read(named: &Path) -> Result<Document, ExperimentError> {
    let file = shipped::experiment(named);
    let document = Document::read(&file).map_err(|error| match error {
        ExperimentError::Read { source, .. }
            if source.kind() == ErrorKind::NotFound || file.is_dir() =>
        {
            ExperimentError::Unknown {
                named: named.to_owned(),
                remedy: remedy(named),
            }
        }
        other => other,
    })?;
    match other_kind(&document) {
        None => Ok(document),
        Some((kind, remedy)) => {
            let problem = format!("this file is a {kind}, not an experiment");
            Err(document.error(Origin::START, problem, remedy))
        }
    }
}

/// Returns the names of all experiments, those of the current directory first.
pub fn names() -> Vec<String> {
    let here = yaml_files(&shipped::experiments()).unwrap_or_default();
    let shipped = yaml_files(&shipped::shipped_experiments()).unwrap_or_default();
    let files = here.iter().chain(&shipped);
    let names = files.filter_map(|file| shipped::id(file));
    let names = names.filter(|name| !name.starts_with(PUBLISHED));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns what to do about a name that no experiment has.
fn remedy(named: &Path) -> String {
    let names = names();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let given = shipped::id(named).unwrap_or_default();
    let below = format!("{given}/");
    let found = nearest(given, &known);
    let first = if known.iter().any(|name| name.starts_with(&below)) {
        format!("`epochcost reproduce {given}` runs all experiments of that paper.")
    } else if found.is_empty() {
        "give the path of a YAML file, or the name of an experiment.".to_owned()
    } else {
        format!("did you mean {}?", found.join(" or "))
    };
    format!("{first} `epochcost list experiments` shows all names")
}

/// Returns the kind of another YAML file that was given as an experiment, and what to do.
fn other_kind(document: &Document) -> Option<(&'static str, String)> {
    let has = |field: &str| document.root.get(field).is_some();
    let own = ["systems", "system", "dataset", "platform"];
    if own.into_iter().any(has) {
        return None;
    }
    let file = document.file.display();
    if document.file.ends_with(PAPER) {
        let folder = document.file.parent().unwrap_or(&document.file).display();
        let remedy = format!(
            "`epochcost audit {folder}` evaluates it, `epochcost check {folder}` checks its experiments"
        );
        return Some(("paper", remedy));
    }
    if has("targets") && has("fit") {
        return Some((
            "validation",
            format!("`epochcost dev validate {file}` runs it"),
        ));
    }
    if has("host") && has("hardware") {
        let remedy =
            format!("`epochcost plan EXPERIMENT --deadline 2h --place {file}` searches there");
        return Some(("place", remedy));
    }
    profile(document).filter(|_| has("about"))
}

/// Returns the kind of a profile, and what to do with it.
fn profile(document: &Document) -> Option<(&'static str, String)> {
    let file = document.file.display();
    if serde_yaml::from_str::<ComputeProfile>(&document.text).is_ok() {
        let stem = document.file.file_stem().unwrap_or_default();
        let plan = format!("{}-plan.yaml", stem.to_string_lossy());
        let plan = document.file.with_file_name(plan);
        let remedy = if plan.is_file() {
            let plan = plan.display();
            format!("its plan file is {plan}: `epochcost plan {plan}`")
        } else {
            format!("`epochcost plan EXPERIMENT --compute {file}` plans with it")
        };
        return Some(("compute profile", remedy));
    }
    let is_platform = serde_yaml::from_str::<Profile<Constant>>(&document.text).is_ok();
    is_platform.then(|| {
        let remedy = format!("`epochcost plan EXPERIMENT --profile {file}` plans with it");
        ("platform profile", remedy)
    })
}
