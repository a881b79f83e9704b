//! Run directories that are there already: opened for reading, for figures, or to go on.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use epochcost_spec::cost::PriceBook;
use epochcost_spec::hash::sha256_of;

use super::check::{self, read_checked};
use super::head::{Head, as_read, open_manifest};
use super::lock::Lock;
use super::{
    Build, DRAWS, INVOCATIONS, InvocationRow, NewRun, ResultsError, RowDraws, RunDirectory, TRIALS,
    TrialId, TrialRow, jsonl, whole,
};

/// Remedy of an experiment that is another one.
const OTHER_RUN: &str = "start a new run: leave --resume out, and choose another --out";

/// Remedy of a program that is another one.
const OTHER_PROGRAM: &str = "go on with the program that began the run, or start a new run: \
                             results of two programs are not comparable";

impl RunDirectory {
    /// Opens an existing run for reading. Nothing in it is changed.
    ///
    /// # Errors
    /// When there is no run, its format is another one, or a file is damaged.
    pub fn open(path: &Path) -> Result<Self, ResultsError> {
        let manifest = open_manifest(path)?;
        let head = Head {
            path,
            hashes: &manifest.files,
        };
        // The experiment is not needed here, but others read it.
        head.read("experiment.yaml")?;
        let prices = path.join("prices.yaml");
        let text = String::from_utf8(head.read("prices.yaml")?)
            .map_err(|error| ResultsError::damaged(&prices, error))?;
        let mut directory = Self {
            machine: head.json("machine.json")?,
            rows: head.json("plan.json")?,
            claims: head.json("claims.json")?,
            prices: PriceBook::parse("prices.yaml", &text)
                .map_err(|error| ResultsError::damaged(&prices, error))?,
            warnings: Vec::new(),
            path: path.to_path_buf(),
            lock: None,
            manifest,
        };
        let (_, trials_cut) = jsonl::read::<TrialRow>(&directory.file(TRIALS))?;
        let (_, calls_cut) = jsonl::read::<InvocationRow>(&directory.file(INVOCATIONS))?;
        for (cut, file) in [(trials_cut, TRIALS), (calls_cut, INVOCATIONS)] {
            if cut {
                directory.warnings.push(format!(
                    "the last line of {file} was cut off while it was written and is left out"
                ));
            }
        }
        Ok(directory)
    }

    /// Returns the run with other prices of its bills than those that it recorded.
    #[must_use]
    pub fn priced_by(mut self, prices: PriceBook) -> Self {
        if self.prices != prices {
            self.warnings.push(format!(
                "bills are by the price book of {}, {}, that --prices named, not by the one of \
                 the run",
                prices.region(),
                prices.date()
            ));
            self.prices = prices;
        }
        self
    }

    /// Opens an existing run to make figures of it: as [`RunDirectory::open`],
    /// but lines that were cut off or edited are refused, not left out.
    ///
    /// # Errors
    /// As [`RunDirectory::open`], and [`ResultsError::Damaged`] with the line
    /// that does not belong to the others.
    pub fn open_whole(path: &Path) -> Result<Self, ResultsError> {
        let directory = Self::open(path)?;
        let trials = check::whole(&directory.file(TRIALS))?;
        let calls = check::whole(&directory.file(INVOCATIONS))?;
        check::draws(path, &check::whole(&directory.file(DRAWS))?)?;
        directory.check(&trials, &calls)?;
        Ok(directory)
    }

    /// Opens an existing run that may have been cut off: as [`RunDirectory::open_whole`], but
    /// lines that were cut off while they were written, and invocations of a trial that has not
    /// ended, are left out.
    ///
    /// # Errors
    /// As [`RunDirectory::open_whole`].
    pub fn open_cut(path: &Path) -> Result<Self, ResultsError> {
        let directory = Self::open(path)?;
        let (trials, _) = jsonl::read_numbered::<TrialRow>(&directory.file(TRIALS))?;
        let finished: BTreeSet<&TrialId> = trials.iter().map(|(_, row)| &row.id).collect();
        let calls = directory.file(INVOCATIONS);
        let (mut calls, _) = jsonl::read_numbered::<InvocationRow>(&calls)?;
        calls.retain(|(_, call)| finished.contains(&call.trial));
        directory.check(&trials, &calls)?;
        directory.draws()?;
        Ok(directory)
    }

    /// Opens an existing run to go on with it: takes its lock, makes the checks of
    /// [`RunDirectory::open_cut`], and drops what an interrupted trial left behind.
    ///
    /// # Errors
    /// As [`RunDirectory::open_whole`]; [`ResultsError::InUse`]; and
    /// [`ResultsError::Different`] if `run`, what would be run now, is not what was run there,
    /// or another program would run it. Nothing is changed then.
    pub fn resume(path: &Path, run: &NewRun) -> Result<Self, ResultsError> {
        // A directory without a run is left as it is.
        open_manifest(path)?;
        let lock = Lock::take(path)?;
        let mut directory = Self::open(path)?;
        directory.is_of(run)?;
        Self::open_cut(path)?;
        directory.lock = Some(Arc::new(lock));
        whole::sweep(path);
        whole::sweep(&path.join("events"));
        let finished = directory.finished_trials()?;
        jsonl::retain(&directory.file(TRIALS), |_: &TrialRow| true)?;
        let calls = directory.file(INVOCATIONS);
        jsonl::retain(&calls, |call: &InvocationRow| {
            finished.contains(&call.trial)
        })?;
        jsonl::retain(&directory.file(DRAWS), |_: &RowDraws| true)?;
        Ok(directory)
    }

    /// Refuses trials that do not belong to the run, and events that are not theirs.
    fn check(
        &self,
        trials: &[(usize, TrialRow)],
        calls: &[(usize, InvocationRow)],
    ) -> Result<(), ResultsError> {
        check::trials(&self.path, trials, calls, &self.rows, &self.manifest)?;
        for (_, trial) in trials {
            read_checked(&self.file(&trial.events), &trial.events_sha256)?;
        }
        Ok(())
    }

    /// Refuses to go on with a run of something else.
    fn is_of(&self, run: &NewRun) -> Result<(), ResultsError> {
        let different = |what: String, remedy| {
            Err(ResultsError::Different {
                path: self.path.clone(),
                what,
                remedy,
            })
        };
        let manifest = &self.manifest;
        // What is run.
        if self.rows != as_read(&run.rows)? {
            let what = "the experiment (its rows, settings, seeds or trials)";
            return different(what.to_owned(), OTHER_RUN);
        }
        if manifest.simulation != as_read(&run.simulation)? {
            let what = "what the simulation stands on (its profiles, constants or switches)";
            return different(what.to_owned(), OTHER_RUN);
        }
        if manifest.datasets != run.datasets {
            return different("the dataset (its files)".to_owned(), OTHER_RUN);
        }
        // What runs it.
        let worker = run.worker.as_deref().and_then(|path| sha256_of(path).ok());
        let harness = Build::current().sha256;
        for (program, before, now) in [
            ("epochcost", &manifest.epochcost.sha256, &harness),
            ("the worker", &manifest.worker_sha256, &worker),
        ] {
            if before != now {
                let [before, now] = [before, now].map(|hash| hash.as_deref().unwrap_or("unknown"));
                let what = format!("{program} (SHA-256 {now} now, {before} then)");
                return different(what, OTHER_PROGRAM);
            }
        }
        Ok(())
    }
}
