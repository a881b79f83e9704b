//! What there is to do for one item, before anything is run.

use std::path::PathBuf;

use epochcost_experiment::{Experiment, Form, FormName, Options, PlatformKind};
use epochcost_planner::error::Error;
use epochcost_platform::PlatformError;
use epochcost_record::{Item, ItemState};
use epochcost_spec::chain::chain;

use super::Request;
use super::catalogue::Entry;
use super::run_state::{Binaries, RunState};
use crate::run::execute::runnable;

/// An item and what there is to do for it.
pub(super) struct Task {
    /// Id and file.
    pub entry: Entry,
    /// Id of its item: the entry's, and that of a form that is a source of its own.
    pub id: String,
    /// Experiment, in its form if requested; none if the file is invalid.
    pub experiment: Option<Experiment>,
    /// Run directory, relative to the reproduction's.
    pub run: PathBuf,
    /// State of that directory.
    pub run_state: RunState,
    /// What its form changes; empty of the experiment itself.
    changes: Vec<String>,
    /// State and reason, if there is nothing to do.
    pub obstacle: Option<(ItemState, String)>,
}

impl Task {
    /// Reads an item's experiment and determines what its directory holds.
    pub async fn of(entry: Entry, request: &Request<'_>, binaries: &Binaries) -> Self {
        let mut task = Self {
            run: PathBuf::from(&entry.id),
            id: entry.id.clone(),
            entry,
            experiment: None,
            run_state: RunState::Absent,
            changes: Vec::new(),
            obstacle: None,
        };
        if let Err(error) = task.examine(request, binaries).await {
            task.obstacle = Some((ItemState::Failed, one_line(&error)));
        }
        task
    }

    async fn examine(&mut self, request: &Request<'_>, binaries: &Binaries) -> Result<(), Error> {
        let whole = Experiment::load(&self.entry.file, &options(request))?;
        let quick = whole.forms.get(FormName::Quick).cloned();
        let platform = whole.platform;
        let whole = self.experiment.insert(whole);
        if let Some(wanted) = request.platform.filter(|wanted| *wanted != platform) {
            let name = FormName::of(wanted);
            let form = name.and_then(|name| Some((name, whole.forms.get(name)?.clone())));
            if let Some((name, form)) = &form {
                self.id = with_form(&self.entry.id, *name);
                self.take(request, *name, form)?;
            }
            if let Some(why) = left_out(platform, wanted, form.as_ref().map(|(_, form)| form)) {
                self.obstacle = Some((ItemState::LeftOut, why));
                return Ok(());
            }
        }
        let Some(experiment) = &self.experiment else {
            return Ok(());
        };
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
        let is_done = self.run_state.is_finished() && !request.fresh;
        let quick = quick.filter(|_| request.quick && !is_done && self.changes.is_empty());
        if let Some(quick) = quick {
            if let Some(why) = &quick.leave_out {
                self.obstacle = Some((ItemState::LeftOut, format!("by --quick: {why}")));
                return Ok(());
            }
            let path = request.out.join(with_form(&self.entry.id, FormName::Quick));
            let reduced = self.take(request, FormName::Quick, &quick)?;
            self.run_state = RunState::of(&path, reduced, binaries, worker)?;
        }
        Ok(())
    }

    /// Takes a form in the place of the experiment: its directory is its own, so that no form
    /// replaces another.
    fn take(
        &mut self,
        request: &Request<'_>,
        name: FormName,
        form: &Form,
    ) -> Result<&Experiment, Error> {
        self.run = PathBuf::from(with_form(&self.entry.id, name));
        self.changes = form.changes();
        let options = Options {
            form: Some(name),
            ..options(request)
        };
        let experiment = Experiment::load(&self.entry.file, &options)?;
        Ok(self.experiment.insert(experiment))
    }

    /// Returns whether an option leaves it out.
    pub fn is_left_out(&self) -> bool {
        matches!(self.obstacle, Some((ItemState::LeftOut, _)))
    }

    /// Returns whether it is the form for the platform that is asked for, whether or not this build can
    /// run it.
    pub fn is_planned(&self) -> bool {
        let can_be_read = !matches!(self.obstacle, Some((ItemState::Failed, _)));
        self.id != self.entry.id && !self.is_left_out() && can_be_read
    }

    /// Returns why there is nothing to do; empty if there is something.
    pub fn why(&self) -> String {
        let why = self.obstacle.as_ref().map(|(_, why)| why.clone());
        why.unwrap_or_default()
    }

    /// Returns its line in the record, as if nothing were done from here on.
    pub fn item(&self) -> Item {
        let experiment = self.experiment.as_ref();
        let (state, why) = match &self.obstacle {
            Some((state, why)) => (*state, Some(why.clone())),
            None => (ItemState::NotReached, None),
        };
        Item {
            id: self.id.clone(),
            description: experiment
                .map_or("", |one| one.description.trim())
                .to_owned(),
            platform: experiment.map(|one| one.platform.as_str().to_owned()),
            state,
            why,
            run: None,
            reduced: self.changes.clone(),
            claims: experiment.map_or_else(Vec::new, |one| one.claims.clone()),
            lost: experiment.map_or_else(Vec::new, |one| one.lost.clone()),
        }
    }
}

fn options(request: &Request<'_>) -> Options {
    Options {
        prices: request.consent.prices.clone(),
        ..Options::default()
    }
}

/// Returns the name of an item in a form.
pub(super) fn with_form(id: &str, form: FormName) -> String {
    format!("{id}.{}", form.as_str())
}

/// Returns why an item is not run on the platform that is asked for.
fn left_out(platform: PlatformKind, wanted: PlatformKind, form: Option<&Form>) -> Option<String> {
    let (runs_on, title) = (platform.as_str(), wanted.as_str());
    match (form, FormName::of(wanted)) {
        (Some(form), _) => form.leave_out.clone(),
        (None, Some(name)) => Some(format!(
            "it runs on {runs_on}, and has no form `{}`",
            name.as_str()
        )),
        (None, None) => Some(format!(
            "it runs on {runs_on}, and --platform {title} was given"
        )),
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
