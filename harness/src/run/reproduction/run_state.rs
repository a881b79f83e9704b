//! State of an item's run directory: absent, current or stale.

use std::path::{Path, PathBuf};

use epochcost_experiment::Experiment;
use epochcost_judge::analysis;
use epochcost_planner::error::Error;
use epochcost_platform::local::worker::{self, Worker};
use epochcost_record::{Build, Makings, ResultsError, RunDirectory, set_aside};
use jiff::Timestamp;
use tokio::sync::OnceCell;

use crate::run::draws;
use crate::run::execute::simulation_record;

/// Hashes of the binaries that results depend on, each computed once.
pub(super) struct Binaries {
    harness: Option<String>,
    worker: OnceCell<Worker>,
}

impl Binaries {
    pub fn new() -> Self {
        Self {
            harness: Build::current().sha256,
            worker: OnceCell::new(),
        }
    }

    /// Returns the worker's hash, if the experiment starts one.
    ///
    /// # Errors
    /// When there is no worker and none can be built.
    pub async fn worker(&self, experiment: &Experiment) -> Result<Option<&str>, Error> {
        // Only workers train, and only training needs data.
        if !experiment.needs_data() {
            return Ok(None);
        }
        let worker = self.worker.get_or_try_init(worker::find).await?;
        Ok(Some(&worker.sha256))
    }
}

/// State of an item's run directory.
pub(super) enum RunState {
    /// The directory is empty or missing.
    Absent,
    /// The directory contains the run that would be made now, perhaps incomplete.
    Current {
        /// Directory of the run.
        directory: Box<RunDirectory>,
        /// Number of trials that have ended.
        ended: usize,
        /// Number of planned trials.
        planned: usize,
        /// Whether its rankings have all their draws.
        is_drawn: bool,
        /// Whether further trials could decide one of its claims.
        awaits_trials: bool,
    },
    /// The directory contains something else.
    Stale {
        /// Reason why it cannot be kept.
        why: String,
        /// Name under which it is set aside.
        name: String,
    },
}

impl RunState {
    /// Determines the state of the directory `path`.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn of(
        path: &Path,
        experiment: &Experiment,
        binaries: &Binaries,
        worker_sha256: Option<&str>,
    ) -> Result<Self, ResultsError> {
        let is_empty = match std::fs::read_dir(path) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => return Err(ResultsError::io("read", path)(error)),
        };
        if is_empty {
            return Ok(Self::Absent);
        }
        let makings = Makings {
            experiment_yaml: experiment.document.resolved(),
            simulation: simulation_record(experiment),
            harness_sha256: binaries.harness.as_deref(),
            worker_sha256,
        };
        Ok(examine(path, &makings).unwrap_or_else(|error| Self::Stale {
            why: error.to_string(),
            name: now(),
        }))
    }

    /// Returns whether every trial and every draw has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Current { ended, planned, is_drawn: true, awaits_trials: false, .. }
            if ended == planned)
    }
}

fn examine(path: &Path, makings: &Makings<'_>) -> Result<RunState, ResultsError> {
    let directory = RunDirectory::open_cut(path)?;
    if let Some(why) = directory.outdated(makings)? {
        return Ok(RunState::Stale {
            why: why.to_owned(),
            name: directory.manifest().run_id.clone(),
        });
    }
    let (ended, planned) = directory.progress()?;
    // A run of one trial per row has nothing to add, and its files need not be read.
    let may_add = (directory.rows().iter()).any(|row| row.most_trials > row.trials);
    let awaits_trials =
        may_add && ended == planned && analysis::summarise(&directory)?.awaits_trials();
    Ok(RunState::Current {
        is_drawn: draws::are_complete(&directory)?,
        awaits_trials,
        directory: Box::new(directory),
        ended,
        planned,
    })
}

/// Moves an item's directory to `out/set-aside/<id>/<name>`.
///
/// # Errors
/// When it cannot be moved.
pub(super) fn put_aside(out: &Path, run: &Path, name: &str) -> Result<PathBuf, ResultsError> {
    set_aside(&out.join(run), &out.join("set-aside").join(run), name)
}

/// Returns the current time as a name, for a directory without a run id.
fn now() -> String {
    let now = Timestamp::now();
    now.strftime("%Y-%m-%dT%H-%M-%SZ").to_string()
}
