//! What there is to do for one item, before anything is run.

use std::path::PathBuf;

use super::Request;
use super::catalogue::Entry;
use super::run_state::{Binaries, RunState};
use crate::chain::chain;
use crate::error::Error;
use crate::experiment::{Experiment, Options};
use crate::platform::PlatformError;
use crate::results::{Item, ItemState};
use crate::run::execute::runnable;

/// Suffix of the name of a reduced run's directory: a reduced run never replaces the
/// whole one.
const QUICK: &str = ".quick";

/// An item and what there is to do for it.
pub(super) struct Task {
    /// Id and file.
    pub entry: Entry,
    /// Experiment, reduced if requested; none if the file is invalid.
    pub experiment: Option<Experiment>,
    /// Run directory, relative to the reproduction's.
    pub run: PathBuf,
    /// State of that directory.
    pub run_state: RunState,
    /// Whether the experiment is a reduced one.
    is_reduced: bool,
    /// State and reason, if there is nothing to do.
    pub obstacle: Option<(ItemState, String)>,
}

impl Task {
    /// Reads an item's experiment and determines what its directory holds.
    pub async fn of(entry: Entry, request: &Request<'_>, binaries: &Binaries) -> Self {
        let mut task = Self {
            run: PathBuf::from(&entry.id),
            entry,
            experiment: None,
            run_state: RunState::Absent,
            is_reduced: false,
            obstacle: None,
        };
        if let Err(error) = task.examine(request, binaries).await {
            task.obstacle = Some((ItemState::Failed, one_line(&error)));
        }
        task
    }

    async fn examine(&mut self, request: &Request<'_>, binaries: &Binaries) -> Result<(), Error> {
        let whole = Experiment::load(&self.entry.file, &Options::default())?;
        let quick = whole.quick.clone();
        let platform = whole.platform;
        let experiment = self.experiment.insert(whole);
        if let Some(wanted) = request.platform.filter(|wanted| *wanted != platform) {
            let (runs_on, wanted) = (platform.as_str(), wanted.as_str());
            let why = format!("it runs on {runs_on}, and --platform {wanted} was given");
            self.obstacle = Some((ItemState::LeftOut, why));
            return Ok(());
        }
        let able = async || {
            able(experiment)?;
            binaries.worker(experiment).await
        };
        let worker = match able().await {
            Ok(worker) => worker,
            Err(error) => {
                let why = match error {
                    // Its remedy is an option of `run`.
                    Error::Lacks { what, .. }
                    | Error::Platform(PlatformError::Refused { what, .. }) => what,
                    error => one_line(&error),
                };
                self.obstacle = Some((ItemState::CannotRun, why));
                return Ok(());
            }
        };
        let path = request.out.join(&self.run);
        self.run_state = RunState::of(&path, experiment, binaries, worker)?;
        if !request.quick || (self.run_state.is_finished() && !request.fresh) {
            return Ok(());
        }
        if let Some(why) = quick.leave_out {
            self.obstacle = Some((ItemState::LeftOut, format!("by --quick: {why}")));
        } else if quick.reduces() {
            let options = Options {
                quick: true,
                ..Options::default()
            };
            let reduced = Experiment::load(&self.entry.file, &options)?;
            self.run = PathBuf::from(format!("{}{QUICK}", self.entry.id));
            let path = request.out.join(&self.run);
            self.run_state = RunState::of(&path, &reduced, binaries, worker)?;
            self.experiment = Some(reduced);
            self.is_reduced = true;
        }
        Ok(())
    }

    /// Returns whether an option leaves it out.
    pub fn is_left_out(&self) -> bool {
        matches!(self.obstacle, Some((ItemState::LeftOut, _)))
    }

    /// Returns its line in the record, as if nothing were done from here on.
    pub fn item(&self) -> Item {
        let experiment = self.experiment.as_ref();
        let (state, why) = match &self.obstacle {
            Some((state, why)) => (*state, Some(why.clone())),
            None => (ItemState::NotReached, None),
        };
        Item {
            id: self.entry.id.clone(),
            description: experiment.map_or_else(String::new, |experiment| {
                experiment.description.trim().to_owned()
            }),
            platform: experiment.map(|experiment| experiment.platform.as_str().to_owned()),
            state,
            why,
            run: None,
            reduced: experiment
                .filter(|_| self.is_reduced)
                .map_or_else(Vec::new, |experiment| experiment.quick.assignments()),
            claims: experiment.map_or_else(Vec::new, |experiment| experiment.claims.clone()),
            lost: experiment.map_or_else(Vec::new, |experiment| experiment.lost.clone()),
        }
    }
}

/// Refuses what this build or machine cannot run: a platform that is not in the
/// build, data that cannot be generated and is not there. What is wrong with
/// generated data shows when it is read.
fn able(experiment: &Experiment) -> Result<(), Error> {
    runnable(experiment)?;
    if experiment.needs_data() && experiment.data.generate.is_none() {
        experiment.data.inspect(&experiment.document)?;
    }
    Ok(())
}

/// Returns an error's message and remedy in one line, without excerpts of files.
pub(super) fn one_line(error: &Error) -> String {
    let text = chain(error);
    let problem = text.lines().next().unwrap_or_default();
    match text.lines().find_map(|line| line.split_once("= help: ")) {
        Some((_, remedy)) => format!("{problem}; {remedy}"),
        None => problem.to_owned(),
    }
}
