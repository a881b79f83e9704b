//! What is already there of an item, and whether it can be kept.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio::sync::OnceCell;

use crate::error::Error;
use crate::experiment::Experiment;
use crate::platform::PlatformError;
use crate::platform::local::worker::{Worker, find_or_build};
use crate::results::{Build, Makings, ResultsError, RunDirectory, set_aside};
use crate::run::execute::simulation_record;

/// The binaries that results depend on, each hashed once.
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

    /// The worker's hash, if the experiment starts one.
    ///
    /// # Errors
    /// When there is no worker and none can be built.
    pub async fn worker(&self, experiment: &Experiment) -> Result<Option<&str>, Error> {
        // Whatever trains, trains in workers.
        if !experiment.needs_data() {
            return Ok(None);
        }
        let find = || async {
            let found = tokio::task::spawn_blocking(find_or_build).await;
            found.map_err(|error| PlatformError::Worker(error.to_string()))?
        };
        let worker = self.worker.get_or_try_init(find).await?;
        Ok(Some(&worker.sha256))
    }
}

/// What is in an item's directory.
pub(super) enum Standing {
    /// Nothing.
    Absent,
    /// The run that would be made now; `ended` of its `planned` trials ended.
    Current {
        /// The run.
        directory: Box<RunDirectory>,
        /// Trials that ended.
        ended: usize,
        /// Trials there are to be.
        planned: usize,
    },
    /// Something else.
    Stale {
        /// Why it cannot be kept.
        why: String,
        /// Under which name it is set aside.
        name: String,
    },
}

impl Standing {
    /// Looks into `path`.
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

    /// Whether every trial has ended.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Current { ended, planned, .. } if ended == planned)
    }
}

fn examine(path: &Path, makings: &Makings<'_>) -> Result<Standing, ResultsError> {
    let directory = RunDirectory::open(path)?;
    if let Some(why) = directory.outdated(makings)? {
        return Ok(Standing::Stale {
            why: why.to_owned(),
            name: directory.manifest().run_id.clone(),
        });
    }
    let (ended, planned) = directory.progress()?;
    Ok(Standing::Current {
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

/// A name for what has no date of its own.
fn now() -> String {
    let now = Timestamp::now();
    now.strftime("%Y-%m-%dT%H-%M-%SZ").to_string()
}
