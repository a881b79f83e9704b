//! Run directories: everything that a run leaves behind, and all that a
//! report is made of. `docs/FORMAT.md` describes every file.
//!
//! What is measured is written as soon as a trial ends and never changed; what
//! is computed from it (`epochs.tsv`, `cost.json`, `summary.json`, the reports)
//! can be thrown away and made again.
//!
//! It imports `epochcost-spec`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod check;
mod currency;
mod draws;
mod error;
mod events;
mod head;
mod jsonl;
mod lock;
mod manifest;
mod missing;
mod open;
mod output;
mod parquet;
mod reproduction;
mod rows;
mod seal;
mod simulation;
mod visits;
mod whole;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use epochcost_systems::StepRecord;
use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;

use epochcost_spec::claims::Claim;
use epochcost_spec::cost::PriceBook;
use epochcost_spec::hash::sha256_of;
use epochcost_spec::metering::TrialOutcome;
pub use epochcost_spec::metering::{Limit, Server};
use epochcost_spec::rows::TrialPlan;
use lock::Lock;
use output::{make_empty, make_unused};

pub use currency::Makings;
pub use draws::{DrawnFigure, RowDraws};
pub use error::{ResultsError, closed, help};
pub use manifest::{
    Build, DatasetRecord, FileHash, Git, Machine, Manifest, PlannedRow, SCHEMA_VERSION,
    SchemaVersion, command_line,
};
pub use missing::INCOMPLETE;
pub use output::{probe, probe_file, set_aside};
pub use reproduction::{Item, ItemState, REPRODUCTION_VERSION, Reproduction, Visits};
pub use rows::{DIVERGED, EvaluationRow, InvocationRow, TrialId, TrialRow, steps};
pub use simulation::{ComputeRecord, ComputeUsed, ConstantRecord, SimulationRecord};
pub use visits::Due;

/// File of a run's origin; a directory without it is not a run.
pub const MANIFEST: &str = "manifest.json";
/// File of a run's experiment, as resolved.
pub const EXPERIMENT: &str = "experiment.yaml";
/// File of the finished trials.
const TRIALS: &str = "trials.jsonl";
/// File of their invocations.
const INVOCATIONS: &str = "invocations.jsonl";
/// File of the figures over draws.
const DRAWS: &str = "draws.jsonl";
/// Files that are written before the manifest, which has their hashes.
const HEAD: [&str; 5] = [
    EXPERIMENT,
    "prices.yaml",
    "machine.json",
    "plan.json",
    "claims.json",
];

/// What is known of a run before it starts.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The experiment's id; part of the directory's name.
    pub experiment: String,
    /// Path of its file.
    pub experiment_file: PathBuf,
    /// `local`, `sim` or `aws`.
    pub platform: String,
    /// `embedded` or `real`.
    pub services: String,
    /// The resolved experiment, as YAML.
    pub experiment_yaml: String,
    /// Every row, in the order in which reports show them.
    pub rows: Vec<PlannedRow>,
    /// Claims that the rows are compared with.
    pub claims: Vec<Claim>,
    /// The data trained on.
    pub datasets: Vec<DatasetRecord>,
    /// The seed of every trial number.
    pub seeds: Vec<u64>,
    /// The command line.
    pub command: Vec<String>,
    /// The worker binary, hashed into the manifest.
    pub worker: Option<PathBuf>,
    /// Limits of functions, and how the platform enforces them.
    pub limits: Vec<Limit>,
    /// The real servers that trials run on.
    pub servers: Vec<Server>,
    /// Whether servers that stand in for the platform's answer.
    pub rehearsed: bool,
    /// Profiles and constants of a simulation.
    pub simulation: Option<SimulationRecord>,
    /// Prices of its bills; the shipped ones, if none.
    pub prices: Option<PriceBook>,
}

/// One run's directory under `results/`.
#[derive(Clone, Debug)]
pub struct RunDirectory {
    path: PathBuf,
    manifest: Manifest,
    machine: Machine,
    rows: Vec<PlannedRow>,
    claims: Vec<Claim>,
    prices: PriceBook,
    warnings: Vec<String>,
    /// The lock on the directory, of a run that trials are added to.
    lock: Option<Arc<Lock>>,
}

impl RunDirectory {
    /// Makes the directory of a new run: `out` itself if given, else
    /// `results/<date>-<id>`.
    ///
    /// Everything known beforehand is written here, so that a directory that
    /// cannot be written to is found before any work starts.
    ///
    /// # Errors
    /// [`ResultsError::Unwritable`], [`ResultsError::NotEmpty`] if `out`
    /// holds something already, or [`ResultsError::InUse`].
    pub fn create(out: Option<&Path>, run: NewRun) -> Result<Self, ResultsError> {
        // The directory's name, from time and experiment.
        let now = Timestamp::now();
        let utc = now.to_zoned(TimeZone::UTC);
        let date = utc.strftime("%Y-%m-%dT%H-%M-%SZ");
        let run_id = format!("{date}-{}", run.experiment);
        let (run_id, path) = match out {
            Some(out) => (run_id, make_empty(out)?),
            None => make_unused(Path::new("results"), &run_id)?,
        };
        let lock = Lock::take(&path)?;
        // What is known before the first trial.
        let mut directory = Self {
            manifest: Manifest {
                schema_version: SCHEMA_VERSION,
                run_id,
                experiment: run.experiment,
                experiment_file: Some(run.experiment_file.display().to_string()),
                platform: run.platform,
                services: run.services,
                created: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                command: run.command,
                epochcost: Build::current(),
                git: Git::here(),
                worker_sha256: run.worker.as_deref().and_then(|path| sha256_of(path).ok()),
                datasets: run.datasets,
                seeds: run.seeds,
                rehearsed: run.rehearsed,
                simulation: run.simulation,
                files: Vec::new(),
            },
            machine: Machine {
                servers: run.servers,
                ..Machine::here(run.limits)
            },
            rows: run.rows,
            claims: run.claims,
            prices: run.prices.map_or_else(PriceBook::shipped, Ok)?,
            warnings: Vec::new(),
            path,
            lock: Some(Arc::new(lock)),
        };
        directory.write_head(&run.experiment_yaml)?;
        Ok(directory)
    }

    /// Returns whether a directory holds a run.
    pub fn is_in(path: &Path) -> bool {
        path.join(MANIFEST).exists()
    }

    /// Makes the directory of a new run in `out`, where a run was cut off before it had a
    /// manifest: what it left behind is deleted.
    ///
    /// # Errors
    /// As [`RunDirectory::create`], and [`ResultsError::NotABeginning`] if the directory holds
    /// anything else.
    pub fn create_again(out: &Path, run: NewRun) -> Result<Self, ResultsError> {
        if out.is_dir() {
            let _lock = Lock::take(out)?;
            head::clear_beginning(out)?;
        }
        Self::create(Some(out), run)
    }

    /// Writes what is known before the first trial, the manifest with the hashes of all other
    /// files last: a directory without one is not a run.
    fn write_head(&mut self, experiment_yaml: &str) -> Result<(), ResultsError> {
        let events = self.path.join("events");
        fs::create_dir(&events).map_err(ResultsError::unwritable(&self.path, output::OUT))?;
        let files = [
            (HEAD[0], experiment_yaml.as_bytes().to_vec()),
            (HEAD[1], self.prices.text().as_bytes().to_vec()),
            (HEAD[2], pretty(&self.file(HEAD[2]), &self.machine)?),
            (HEAD[3], pretty(&self.file(HEAD[3]), &self.rows)?),
            (HEAD[4], pretty(&self.file(HEAD[4]), &self.claims)?),
        ];
        for (name, content) in &files {
            self.write(name, content)?;
        }
        let hashes = files.iter();
        let hashes = hashes.map(|(name, content)| FileHash::of_bytes(name, content));
        self.manifest.files = hashes.collect();
        let mut manifest = pretty(&self.file(MANIFEST), &self.manifest)?;
        seal::seal_file(&mut manifest);
        self.write(MANIFEST, &manifest)
    }

    /// Adds a finished trial; it is on the disk when this returns.
    ///
    /// The trial's own line is written last: without it, the trial has not
    /// been run. A record that readers would refuse becomes that of a failed trial.
    ///
    /// # Errors
    /// When a file could not be written.
    pub fn append_trial(
        &self,
        plan: &TrialPlan,
        outcome: &TrialOutcome,
    ) -> Result<TrialRow, ResultsError> {
        let failed = check::unreadable(outcome).map(|problem| TrialOutcome {
            failure: Some(format!("its record cannot be: {problem}")),
            warnings: outcome.warnings.clone(),
            ..TrialOutcome::default()
        });
        let outcome = failed.as_ref().unwrap_or(outcome);
        let mut row = TrialRow::new(plan, outcome);
        let steps: Vec<&StepRecord> = rows::steps(outcome).collect();
        row.events_sha256 = events::write(&self.path.join(&row.events), &row.id, &steps)?;
        let id = row.id.clone();
        let trial = &id;
        let calls = outcome.invocations.iter();
        let calls = calls.map(|invocation| rows::WrittenInvocation { trial, invocation });
        row.invocations_sha256 = Some(jsonl::append(&self.file(INVOCATIONS), calls)?);
        jsonl::append(&self.file(TRIALS), [&row])?;
        Ok(row)
    }

    /// Adds a row's draws; they are on the disk when this returns.
    ///
    /// # Errors
    /// When the file could not be written.
    pub fn append_draws(&self, draws: &RowDraws) -> Result<(), ResultsError> {
        let draws = RowDraws {
            of: check::drawn_from(&self.path)(&draws.row),
            ..draws.clone()
        };
        jsonl::append(&self.file(DRAWS), [draws])?;
        Ok(())
    }

    /// Returns the draws of every row that has some, in the order in which they ended.
    ///
    /// # Errors
    /// When `draws.jsonl` is damaged, or of another run.
    pub fn draws(&self) -> Result<Vec<RowDraws>, ResultsError> {
        let (draws, _) = jsonl::read_numbered(&self.file(DRAWS))?;
        check::draws(&self.path, &draws)?;
        Ok(draws.into_iter().map(|(_, draws)| draws).collect())
    }

    /// Returns the trials that need not be run again. A failed trial counts as
    /// run.
    ///
    /// # Errors
    /// When `trials.jsonl` is damaged.
    pub fn finished_trials(&self) -> Result<BTreeSet<TrialId>, ResultsError> {
        Ok(self.trials()?.into_iter().map(|trial| trial.id).collect())
    }

    /// Returns every finished trial, in the order in which they ended.
    ///
    /// # Errors
    /// When `trials.jsonl` is damaged.
    pub fn trials(&self) -> Result<Vec<TrialRow>, ResultsError> {
        Ok(jsonl::read(&self.file(TRIALS))?.0)
    }

    /// Returns every invocation, in the order in which they ended.
    ///
    /// # Errors
    /// When `invocations.jsonl` is damaged.
    pub fn invocations(&self) -> Result<Vec<InvocationRow>, ResultsError> {
        Ok(jsonl::read(&self.file(INVOCATIONS))?.0)
    }

    /// Returns the steps of a trial, in the order in which they were recorded.
    ///
    /// # Errors
    /// When its file of events is missing or damaged.
    pub fn steps(&self, trial: &TrialRow) -> Result<Vec<StepRecord>, ResultsError> {
        let path = self.path.join(&trial.events);
        events::read(&path, &trial.events_sha256)
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what it was made with.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns where it was run.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns every planned row.
    pub fn rows(&self) -> &[PlannedRow] {
        &self.rows
    }

    /// Returns the claims that the rows are compared with.
    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Returns the prices of the day of the run.
    pub fn prices(&self) -> &PriceBook {
        &self.prices
    }

    /// Returns what was odd about the directory itself.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Writes a file of the directory, whole or not at all.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), ResultsError> {
        whole::replace(&self.file(name), bytes)
    }

    /// Writes a value as indented JSON, whole or not at all.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), ResultsError> {
        self.write(name, &pretty(&self.file(name), value)?)
    }

    /// Writes JSON into a file of the directory, if it is not there yet.
    ///
    /// # Errors
    /// As of [`Self::write`].
    pub fn keep_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), ResultsError> {
        if self.file(name).is_file() {
            return Ok(());
        }
        self.write_json(name, value)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Writes a file so that a reader sees all of it or none.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ResultsError> {
    whole::replace(path, bytes)
}

/// Returns a value as indented JSON, to be written to `path`.
pub fn pretty<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, ResultsError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(ResultsError::encode(path))?;
    text.push(b'\n');
    Ok(text)
}
