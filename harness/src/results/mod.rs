//! Run directories: everything that a run leaves behind, and all that a
//! report is made of. `docs/FORMAT.md` describes every file.
//!
//! What is measured is written as soon as a trial ends and never changed; what
//! is computed from it (`epochs.tsv`, `cost.json`, `summary.json`, the reports)
//! can be thrown away and made again.

mod check;
mod currency;
mod draws;
mod error;
mod events;
mod jsonl;
mod manifest;
mod older;
mod output;
mod parquet;
mod reproduction;
mod rows;
mod simulation;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use epochcost_systems::StepRecord;
use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::claims::Claim;
use crate::cost::PriceBook;
use crate::hash::sha256_of;
use crate::metering::TrialOutcome;
use crate::rows::TrialPlan;
use output::{make_empty, make_unused};

pub use currency::Makings;
pub use draws::{DrawnFigure, RowDraws};
pub use error::{ResultsError, SchemaText};
pub use manifest::{
    Build, DatasetRecord, FileHash, Git, Limit, Machine, Manifest, PlannedRow, SCHEMA_VERSION,
    SchemaVersion, Server,
};
pub use output::{probe, set_aside};
pub use reproduction::{Item, ItemState, REPRODUCTION_VERSION, Reproduction};
pub use rows::{EvaluationRow, InvocationRow, TrialId, TrialRow, steps};
pub use simulation::{ComputeRecord, ComputeUsed, ConstantRecord, SimulationRecord};

/// File of the figures over draws.
const DRAWS: &str = "draws.jsonl";

/// What is known of a run before it starts.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The experiment's id; part of the directory's name.
    pub experiment: String,
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
}

impl RunDirectory {
    /// Makes the directory of a new run: `out` itself if given, else
    /// `results/<date>-<id>`.
    ///
    /// Everything known beforehand is written here, so that a directory that
    /// cannot be written to is found before any work starts.
    ///
    /// # Errors
    /// [`ResultsError::Unwritable`], or [`ResultsError::NotEmpty`] if `out`
    /// holds something already.
    pub fn create(out: Option<&Path>, run: NewRun) -> Result<Self, ResultsError> {
        // The directory's name, from time and experiment.
        let now = Timestamp::now();
        let date = now
            .to_zoned(TimeZone::UTC)
            .strftime("%Y-%m-%dT%H-%M-%SZ")
            .to_string();
        let run_id = format!("{date}-{}", run.experiment);
        let (run_id, path) = match out {
            Some(out) => (run_id, make_empty(out)?),
            None => make_unused(Path::new("results"), &run_id)?,
        };
        // What is known before the first trial.
        let directory = Self {
            manifest: Manifest {
                schema_version: SCHEMA_VERSION,
                run_id,
                experiment: run.experiment,
                platform: run.platform,
                services: run.services,
                created: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
                command: run.command,
                epochcost: Build::current(),
                git: Git::here(),
                worker_sha256: run.worker.as_deref().and_then(|path| sha256_of(path).ok()),
                datasets: run.datasets,
                seeds: run.seeds,
                simulation: run.simulation,
            },
            machine: Machine {
                servers: run.servers,
                ..Machine::here(run.limits)
            },
            rows: run.rows,
            claims: run.claims,
            prices: match run.prices {
                Some(prices) => prices,
                None => PriceBook::shipped()?,
            },
            warnings: Vec::new(),
            path,
        };
        directory.write_head(&run.experiment_yaml)?;
        Ok(directory)
    }

    /// Writes what is known before the first trial, the manifest last: a directory
    /// without one is not a run.
    fn write_head(&self, experiment_yaml: &str) -> Result<(), ResultsError> {
        let events = self.path.join("events");
        fs::create_dir(&events).map_err(|source| ResultsError::Unwritable {
            path: self.path.clone(),
            source,
        })?;
        self.write("experiment.yaml", experiment_yaml.as_bytes())?;
        self.write("prices.yaml", self.prices.text().as_bytes())?;
        self.write_json("machine.json", &self.machine)?;
        self.write_json("plan.json", &self.rows)?;
        self.write_json("claims.json", &self.claims)?;
        self.write_json("manifest.json", &self.manifest)
    }

    /// Opens an existing run for reading. Nothing in it is changed.
    ///
    /// # Errors
    /// When there is no run, its format is another one, or a file is damaged.
    pub fn open(path: &Path) -> Result<Self, ResultsError> {
        let manifest = open_manifest(path)?;
        let prices = path.join("prices.yaml");
        let text = fs::read_to_string(&prices).map_err(ResultsError::io("read", &prices))?;
        let mut directory = Self {
            manifest,
            machine: read_json(&path.join("machine.json"))?,
            rows: read_json(&path.join("plan.json"))?,
            claims: read_claims(&path.join("claims.json"))?,
            prices: PriceBook::parse(&text).map_err(|error| ResultsError::Damaged {
                place: prices.display().to_string(),
                reason: error.to_string(),
            })?,
            warnings: Vec::new(),
            path: path.to_path_buf(),
        };
        let (_, trials_cut) = jsonl::read::<TrialRow>(&directory.file("trials.jsonl"))?;
        let (_, calls_cut) = jsonl::read::<InvocationRow>(&directory.file("invocations.jsonl"))?;
        for (cut, file) in [
            (trials_cut, "trials.jsonl"),
            (calls_cut, "invocations.jsonl"),
        ] {
            if cut {
                directory.warnings.push(format!(
                    "the last line of {file} was cut off while it was written and is left out"
                ));
            }
        }
        Ok(directory)
    }

    /// Opens an existing run to make figures of it: as [`RunDirectory::open`],
    /// but lines that were cut off or edited are refused, not left out.
    ///
    /// # Errors
    /// As [`RunDirectory::open`], and [`ResultsError::Damaged`] with the line
    /// that does not belong to the others.
    pub fn open_whole(path: &Path) -> Result<Self, ResultsError> {
        let directory = Self::open(path)?;
        let [of_trials, of_calls] = ["trials.jsonl", "invocations.jsonl"];
        let [of_trials, of_calls] = [directory.file(of_trials), directory.file(of_calls)];
        let (trials, is_cut) = jsonl::read_numbered::<TrialRow>(&of_trials)?;
        check::whole(&of_trials, trials.len(), is_cut)?;
        let (calls, is_cut) = jsonl::read_numbered::<InvocationRow>(&of_calls)?;
        check::whole(&of_calls, calls.len(), is_cut)?;
        check::trials(
            &of_trials,
            &trials,
            &calls,
            directory.rows(),
            directory.manifest(),
        )?;
        Ok(directory)
    }

    /// Opens an existing run to go on with it, and drops what an interrupted
    /// trial left behind.
    ///
    /// # Errors
    /// As [`RunDirectory::open`], and [`ResultsError::Different`] if the rows
    /// planned now, or what their simulation stands on, are not those of the run.
    pub fn resume(
        path: &Path,
        rows: &[PlannedRow],
        simulation: Option<&SimulationRecord>,
    ) -> Result<Self, ResultsError> {
        let directory = Self::open(path)?;
        let different = |what| ResultsError::Different {
            path: path.to_path_buf(),
            what,
        };
        if directory.rows != as_read(&rows.to_vec())? {
            return Err(different(
                "the experiment (its rows, settings, seeds or trials)",
            ));
        }
        if directory.manifest.simulation != as_read(&simulation.cloned())? {
            return Err(different(
                "what the simulation stands on (its profiles, constants or switches)",
            ));
        }
        let trials = directory.trials()?;
        let finished: BTreeSet<&TrialId> = trials.iter().map(|trial| &trial.id).collect();
        let mut calls = directory.invocations()?;
        calls.retain(|call| finished.contains(&call.trial));
        jsonl::rewrite(&directory.file("trials.jsonl"), &trials)?;
        jsonl::rewrite(&directory.file("invocations.jsonl"), &calls)?;
        let draws = directory.draws()?;
        if !draws.is_empty() {
            jsonl::rewrite(&directory.file(DRAWS), &draws)?;
        }
        Ok(directory)
    }

    /// Adds a finished trial; it is on the disk when this returns.
    ///
    /// The trial's own line is written last: without it, the trial has not
    /// been run.
    ///
    /// # Errors
    /// When a file could not be written.
    pub fn append_trial(
        &self,
        plan: &TrialPlan,
        outcome: &TrialOutcome,
    ) -> Result<TrialRow, ResultsError> {
        let row = TrialRow::new(plan, outcome);
        let steps: Vec<&StepRecord> = rows::steps(outcome).collect();
        events::write(&self.path.join(&row.events), &steps)?;
        let calls = outcome
            .invocations
            .iter()
            .map(|invocation| rows::WrittenInvocation {
                trial: &row.id,
                invocation,
            });
        jsonl::append(&self.file("invocations.jsonl"), calls)?;
        jsonl::append(&self.file("trials.jsonl"), [&row])?;
        Ok(row)
    }

    /// Adds a row's draws; they are on the disk when this returns.
    ///
    /// # Errors
    /// When the file could not be written.
    pub fn append_draws(&self, draws: &RowDraws) -> Result<(), ResultsError> {
        jsonl::append(&self.file(DRAWS), [draws])
    }

    /// Returns the draws of every row that has some, in the order in which they ended.
    ///
    /// # Errors
    /// When `draws.jsonl` is damaged.
    pub fn draws(&self) -> Result<Vec<RowDraws>, ResultsError> {
        Ok(jsonl::read(&self.file(DRAWS))?.0)
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
        Ok(jsonl::read(&self.file("trials.jsonl"))?.0)
    }

    /// Returns every invocation, in the order in which they ended.
    ///
    /// # Errors
    /// When `invocations.jsonl` is damaged.
    pub fn invocations(&self) -> Result<Vec<InvocationRow>, ResultsError> {
        Ok(jsonl::read(&self.file("invocations.jsonl"))?.0)
    }

    /// Returns the steps of a trial, in the order in which they were recorded.
    ///
    /// # Errors
    /// When its file of events is missing or damaged.
    pub fn steps(&self, trial: &TrialRow) -> Result<Vec<StepRecord>, ResultsError> {
        events::read(&self.path.join(&trial.events))
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
        jsonl::replace(&self.file(name), bytes)
    }

    /// Writes a value as indented JSON, whole or not at all.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), ResultsError> {
        self.write(name, &pretty(&self.file(name), value)?)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn open_manifest(path: &Path) -> Result<Manifest, ResultsError> {
    let file = path.join("manifest.json");
    if !file.is_file() {
        return Err(ResultsError::NotARun(path.to_path_buf()));
    }
    versioned(path, &file, SCHEMA_VERSION)?;
    read_json(&file)
}

/// Refuses a file of a newer version than `known`, or of another major one; `path` is the directory.
fn versioned(path: &Path, file: &Path, known: SchemaVersion) -> Result<(), ResultsError> {
    /// The one field that every version has.
    #[derive(serde::Deserialize)]
    struct Head {
        schema_version: SchemaVersion,
    }

    let found = read_json::<Head>(file)?.schema_version;
    if (found.major, found.minor) > (known.major, known.minor) {
        return Err(ResultsError::TooNew {
            path: path.to_path_buf(),
            found: found.text(),
            known: known.text(),
        });
    }
    if found.major < known.major {
        return Err(ResultsError::TooOld {
            path: path.to_path_buf(),
            found: found.text(),
            known: known.major,
        });
    }
    Ok(())
}

/// Writes a file so that a reader sees all of it or none.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ResultsError> {
    jsonl::replace(path, bytes)
}

/// Returns a value as indented JSON, to be written to `path`.
pub(crate) fn pretty<T: Serialize>(path: &Path, value: &T) -> Result<Vec<u8>, ResultsError> {
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| ResultsError::Encode {
        path: path.to_path_buf(),
        reason: error.to_string(),
    })?;
    text.push(b'\n');
    Ok(text)
}

/// Returns a value as it is once it was written and read: floats may differ in
/// their last digit.
fn as_read<T: Serialize + DeserializeOwned>(value: &T) -> Result<T, ResultsError> {
    let text = serde_json::to_vec(value);
    let read = text.and_then(|text| serde_json::from_slice(&text));
    read.map_err(|error| ResultsError::Damaged {
        place: "the plan".into(),
        reason: error.to_string(),
    })
}

/// Reads claims, those of earlier versions too.
fn read_claims(path: &Path) -> Result<Vec<Claim>, ResultsError> {
    let mut claims: serde_json::Value = read_json(path)?;
    older::claims(&mut claims);
    in_form(path, claims)
}

/// Gives a value that was read from `path` its type.
fn in_form<T: DeserializeOwned>(path: &Path, value: serde_json::Value) -> Result<T, ResultsError> {
    serde_json::from_value(value).map_err(|error| ResultsError::Damaged {
        place: path.display().to_string(),
        reason: error.to_string(),
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ResultsError> {
    let text = fs::read(path).map_err(ResultsError::io("read", path))?;
    serde_json::from_slice(&text).map_err(|error| ResultsError::Damaged {
        place: path.display().to_string(),
        reason: error.to_string(),
    })
}
