//! Consistency of the lines of a run's files: what was edited or lost is found
//! before figures are made of it.

use std::collections::BTreeMap;
use std::path::Path;

use super::{InvocationRow, Manifest, PlannedRow, ResultsError, TrialId, TrialRow, jsonl};

/// Refuses a line that was cut off.
pub(super) fn whole(path: &Path, lines: usize, is_cut: bool) -> Result<(), ResultsError> {
    if !is_cut {
        Ok(())
    } else {
        Err(damaged(
            path,
            lines + 1,
            "the file ends in the middle of it, as when the program is killed while it writes: \
         going on with the run (`epochcost run EXPERIMENT --out DIR --resume`) drops it"
                .to_owned(),
        ))
    }
}

fn damaged(path: &Path, line: usize, reason: String) -> ResultsError {
    ResultsError::Damaged {
        place: jsonl::place(path, line),
        reason,
    }
}

/// Refuses a trial that the run did not plan, that is there twice, or that has
/// not the seed of its number, and one whose invocations are not all there.
pub(super) fn trials(
    path: &Path,
    trials: &[(usize, TrialRow)],
    invocations: &[(usize, InvocationRow)],
    rows: &[PlannedRow],
    manifest: &Manifest,
) -> Result<(), ResultsError> {
    let mut calls: BTreeMap<&TrialId, usize> = BTreeMap::new();
    for (_, call) in invocations {
        *calls.entry(&call.trial).or_default() += 1;
    }
    let mut seen: BTreeMap<&TrialId, usize> = BTreeMap::new();
    for (line, trial) in trials {
        let id = &trial.id;
        let planned = rows.iter().find(|row| row.row.id == id.row);
        let found = calls.get(id).copied().unwrap_or(0);
        let problem = if planned.is_none_or(|row| id.trial >= row.trials.max(row.most_trials)) {
            Some(format!("the plan has no {id}"))
        } else if let Some(first) = seen.insert(id, *line) {
            Some(format!("{id} stands in line {first} already"))
        } else if manifest.seeds.get(id.trial) != Some(&trial.seed) {
            Some(format!("the seed of {id} is not that of the manifest"))
        } else if !(trial.wall_s.is_finite() && trial.wall_s >= 0.0) {
            Some(format!("{id} took {} s", trial.wall_s))
        } else if found != trial.invocations {
            Some(format!(
                "{id} made {} invocations, and invocations.jsonl has {found}",
                trial.invocations
            ))
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(damaged(path, *line, problem));
        }
    }
    Ok(())
}
