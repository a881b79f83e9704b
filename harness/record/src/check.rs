//! Consistency of the lines of a run's files: what was edited or lost is found
//! before figures are made of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use epochcost_spec::hash::sha256_hex;
use epochcost_spec::metering::{Invocation, TrialOutcome};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    DRAWS, INVOCATIONS, InvocationRow, MANIFEST, Manifest, PlannedRow, ResultsError, RowDraws,
    TRIALS, TrialId, TrialRow, jsonl,
};

/// Seconds that no trial takes: thirty years, which is above what a simulation may last.
const LONGEST_S: f64 = 1e9;

/// Reads a file, and refuses one with another hash than `sha256`.
pub(super) fn read_checked(path: &Path, sha256: &str) -> Result<Vec<u8>, ResultsError> {
    let content = fs::read(path).map_err(ResultsError::read(path))?;
    let found = sha256_hex(&content);
    if found == sha256 {
        return Ok(content);
    }
    let reason = format!("its SHA-256 is {found}, and was {sha256} when it was written");
    Err(ResultsError::damaged(path, reason))
}

/// Reads every row with the number of its line, and refuses a line that was cut off.
pub(super) fn whole<T: DeserializeOwned>(path: &Path) -> Result<Vec<(usize, T)>, ResultsError> {
    let (rows, is_cut) = jsonl::read_numbered(path)?;
    if !is_cut {
        return Ok(rows);
    }
    let reason = "the file ends in the middle of it, as when the program is killed while it writes: \
                  going on with the run (`epochcost run EXPERIMENT --out DIR --resume`) drops it";
    Err(damaged(path, rows.len() + 1, reason.to_owned()))
}

fn damaged(path: &Path, line: usize, reason: String) -> ResultsError {
    ResultsError::Damaged {
        place: jsonl::place(path, line),
        reason,
    }
}

/// Refuses a trial that the run did not plan, that is there twice, or that has
/// not the seed of its number, one whose invocations are not all there, and figures that no
/// trial can have.
pub(super) fn trials(
    run: &Path,
    trials: &[(usize, TrialRow)],
    invocations: &[(usize, InvocationRow)],
    rows: &[PlannedRow],
    manifest: &Manifest,
) -> Result<(), ResultsError> {
    let (of_trials, of_calls) = (run.join(TRIALS), run.join(INVOCATIONS));
    let mut calls: BTreeMap<&TrialId, usize> = BTreeMap::new();
    for (line, call) in invocations {
        *calls.entry(&call.trial).or_default() += 1;
        if let Some(problem) = impossible(&call.invocation) {
            return Err(damaged(&of_calls, *line, problem));
        }
    }
    let hashes = jsonl::hashes(&of_calls, |call: InvocationRow| call.trial)?;
    let mut seen: BTreeMap<&TrialId, usize> = BTreeMap::new();
    for (line, trial) in trials {
        let first = seen.insert(&trial.id, *line);
        let found = calls.get(&trial.id).copied().unwrap_or(0);
        let problem = foreign(trial, first, found, rows, manifest);
        if let Some(problem) = problem.or_else(|| others(trial, hashes.get(&trial.id))) {
            return Err(damaged(&of_trials, *line, problem));
        }
    }
    Ok(())
}

/// Returns why the invocations of a trial's id, by their hash, are not its own.
fn others(trial: &TrialRow, found: Option<&String>) -> Option<String> {
    let own = trial.invocations_sha256.as_ref()?;
    let (id, differs) = (&trial.id, found.is_some_and(|found| found != own));
    differs.then(|| format!("the invocations of {id} in invocations.jsonl are of another run"))
}

/// Refuses draws of another run.
pub(super) fn draws(run: &Path, draws: &[(usize, RowDraws)]) -> Result<(), ResultsError> {
    let of = drawn_from(run);
    let other = (draws.iter()).find(|(_, row)| row.of.is_some() && row.of != of(&row.row));
    other.map_or(Ok(()), |(line, row)| {
        let reason = format!("the draws of {} are of another run", row.row);
        Err(damaged(&run.join(DRAWS), *line, reason))
    })
}

/// Returns the SHA-256 of what a row's draws stand on, whatever the order of rows. It is that of
/// the files, since a number that is read from JSON may differ from what was written in its last bit.
pub(super) fn drawn_from(run: &Path) -> impl Fn(&str) -> Option<String> {
    let read = |name: &str| -> Value {
        let text = fs::read(run.join(name)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    };
    let (plan, manifest) = (read("plan.json"), read(MANIFEST));
    move |row| {
        let mut planned = plan.as_array()?.iter();
        let planned = planned.find(|planned| planned["row"]["id"] == row)?;
        let simulation = &manifest["simulation"];
        let (used, model) = (&planned["compute"], &planned["row"]["job"]["model"]);
        let mut compute = simulation["compute"].as_array()?.iter();
        let costs = &compute.find(|record| record["name"] == used["profile"])?["costs"];
        let is_used = |cost: &&Value| cost["model"] == *model && cost["device"] == used["device"];
        let costs: Vec<&Value> = costs.as_array()?.iter().filter(is_used).collect();
        let constants = &simulation["constants"];
        let all = json!([planned, constants, costs, manifest["seeds"][0]]);
        Some(sha256_hex(all.to_string().as_bytes()))
    }
}

/// Returns why a trial does not belong to the run: `first` is an earlier line of it, `found`
/// the number of its invocations.
fn foreign(
    trial: &TrialRow,
    first: Option<usize>,
    found: usize,
    rows: &[PlannedRow],
    manifest: &Manifest,
) -> Option<String> {
    let id = &trial.id;
    let planned = rows.iter().find(|row| row.row.id == id.row);
    if planned.is_none_or(|row| id.trial >= row.trials.max(row.most_trials)) {
        Some(format!("the plan has no {id}"))
    } else if let Some(first) = first {
        Some(format!("{id} stands in line {first} already"))
    } else if manifest.seeds.get(id.trial) != Some(&trial.seed) {
        Some(format!("the seed of {id} is not that of the manifest"))
    } else if let Some(problem) = impossible_time(trial.wall_s).or_else(|| too_many(trial)) {
        Some(format!("{id} {problem}"))
    } else if found != trial.invocations {
        let made = trial.invocations;
        Some(format!(
            "{id} made {made} invocations, and invocations.jsonl has {found}"
        ))
    } else {
        None
    }
}

/// Returns which figure of a trial's record cannot be: the check of readers, made before
/// anything is written.
pub(super) fn unreadable(outcome: &TrialOutcome) -> Option<String> {
    let dates = |call: &Invocation| call.started_s.is_finite() && call.ended_s.is_finite();
    if !outcome.started_s.is_finite() || !outcome.invocations.iter().all(dates) {
        return Some("it has no date".to_owned());
    }
    let of_trial = impossible_time(outcome.wall_s).map(|problem| format!("it {problem}"));
    of_trial.or_else(|| outcome.invocations.iter().find_map(impossible))
}

/// Returns why no trial takes `wall_s`.
fn impossible_time(wall_s: f64) -> Option<String> {
    (!(0.0..=LONGEST_S).contains(&wall_s)).then(|| format!("took {wall_s} s"))
}

/// Returns which evaluation has more correct samples than it had.
fn too_many(trial: &TrialRow) -> Option<String> {
    let evaluated = trial.evaluations.iter();
    let mut all = evaluated.flat_map(|row| [Some(row.evaluation), row.validation]);
    let wrong = all.find_map(|one| one.filter(|one| one.correct > one.samples))?;
    let (correct, samples) = (wrong.correct, wrong.samples);
    Some(format!("has {correct} of {samples} samples correct"))
}

/// Returns which figure of an invocation cannot be.
fn impossible(call: &Invocation) -> Option<String> {
    let times = [
        ("init_ms", call.init_ms),
        ("duration_ms", Some(call.duration_ms)),
        ("cpu_ms", call.cpu_ms),
    ];
    let is_impossible = |value: f64| !(0.0..=LONGEST_S * 1e3).contains(&value);
    let mut times = times.into_iter();
    times.find_map(|(name, value)| {
        let value = value.filter(|value| is_impossible(*value))?;
        Some(format!("its {name} is {value}"))
    })
}
