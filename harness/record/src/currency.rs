//! Currency of a run: whether it is what would be run now.

use std::collections::BTreeSet;
use std::fs;

use super::head::as_read;
use super::{ResultsError, RunDirectory, SimulationRecord, TrialId};

/// What the results of a run depend on.
#[derive(Clone, Debug)]
pub struct Makings<'a> {
    /// The resolved experiment, as YAML; the seed is in it.
    pub experiment_yaml: String,
    /// Profiles and constants of a simulation.
    pub simulation: Option<SimulationRecord>,
    /// SHA-256 of the harness.
    pub harness_sha256: Option<&'a str>,
    /// SHA-256 of the worker; none where no worker is started.
    pub worker_sha256: Option<&'a str>,
}

impl RunDirectory {
    /// Returns why the run is not one of `makings`, if it is not.
    ///
    /// # Errors
    /// When a file of the run cannot be read.
    pub fn outdated(&self, makings: &Makings<'_>) -> Result<Option<&'static str>, ResultsError> {
        let manifest = self.manifest();
        let path = self.path().join("experiment.yaml");
        let yaml = fs::read_to_string(&path).map_err(ResultsError::read(&path))?;
        Ok(if yaml != makings.experiment_yaml {
            Some("the experiment has changed since")
        } else if manifest.simulation != as_read(&makings.simulation)? {
            Some("a profile that it stands on has changed since")
        } else if manifest.epochcost.sha256.as_deref() != makings.harness_sha256 {
            Some("another build of epochcost ran it")
        } else if manifest.worker_sha256.as_deref() != makings.worker_sha256 {
            Some("another build of the worker ran it")
        } else {
            None
        })
    }

    /// Returns how many trials have ended, and how many there are to be. Rows
    /// that are infeasible have none.
    ///
    /// # Errors
    /// When `trials.jsonl` is damaged.
    pub fn progress(&self) -> Result<(usize, usize), ResultsError> {
        let finished = self.finished_trials()?;
        let feasible = self.rows().iter().filter(|row| row.infeasible.is_none());
        let planned = feasible.flat_map(|row| {
            let id = |trial| TrialId {
                row: row.row.id.clone(),
                trial,
            };
            (0..row.trials).map(id)
        });
        let planned: BTreeSet<TrialId> = planned.collect();
        Ok((planned.intersection(&finished).count(), planned.len()))
    }
}
