//! Reproductions: the papers' tables and figures, each a run of its own, and one
//! page over all of them.

mod accept;
mod catalogue;
mod dry_run;
mod on_cloud;
mod papers;
mod run_state;

mod task;

use std::path::Path;

use self::catalogue::Catalogue;
use self::run_state::{Binaries, RunState, put_aside};
use self::task::{Task, one_line, with_form};
use super::execute::{Destination, Ended, execute};
use super::signal::{Stop, stop_signal};
use crate::analysis::overview::{AnalysedRun, Overview};
use crate::cost::PriceBook;
use crate::error::Error;
use crate::exit::Exit;
use crate::experiment::{Experiment, FormName, PlatformKind};
use crate::platform::{PlatformError, SpendingConsent};
use crate::report;
use crate::results::{
    Item, ItemState, REPRODUCTION_VERSION, Reproduction, ResultsError, RunDirectory, probe,
};
use crate::ui::{Output, eprint_line};

/// Items to reproduce, and options.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Papers and items; all, if there is none.
    pub items: &'a [String],
    /// Whether long items are reduced or left out, as their files specify.
    pub quick: bool,
    /// The only platform whose items are run; every one, if there is none.
    pub platform: Option<PlatformKind>,
    /// Directory of the runs and of the page over them.
    pub out: &'a Path,
    /// Whether everything is run anew; existing results are set aside.
    pub fresh: bool,
    /// Whether only what would be run is shown.
    pub dry_run: bool,
    /// Consent to what items cost on a cloud, and the limit of all of them together.
    pub consent: SpendingConsent,
    /// Reason why the verdicts of this reproduction become the recorded ones, if they do.
    pub accept: Option<&'a str>,
    /// Directory that contains the papers' directories.
    pub directory: &'a Path,
}

/// Runs what is not recorded yet, and writes the page over all items.
///
/// # Errors
/// For an unknown name, where nothing is selected, and when results cannot be
/// written. Failures of an item are reported on the page.
pub async fn reproduce(request: &Request<'_>, output: Output) -> Result<Exit, Error> {
    if request.accept.is_some() {
        accept::check(request)?;
    }
    let catalogue = Catalogue::read(request.directory)?;
    let entries = catalogue.select(request.items)?;
    let binaries = Binaries::new();
    let mut tasks = Vec::with_capacity(entries.len());
    for entry in entries {
        tasks.push(Task::of(entry, request, &binaries).await);
    }
    if tasks.iter().all(Task::is_left_out) {
        return Err(Error::NothingSelected(
            "--quick or --platform leave out every item that was asked for".into(),
        ));
    }
    if request.dry_run {
        if let Some((platform, form)) = (request.platform)
            .filter(|platform| platform.site().is_cloud())
            .and_then(|platform| Some((platform, FormName::of(platform)?)))
        {
            let prices = request.consent.prices.clone();
            let prices = prices.map_or_else(PriceBook::shipped, Ok)?;
            return on_cloud::show(&tasks, (platform, form), &prices, output);
        }
        return dry_run::show(&tasks, request, output);
    }
    probe(request.out)?;
    let mut work = Work::new(request, &catalogue, &tasks, output)?;
    for (index, task) in tasks.iter().enumerate() {
        let place = format!("[{}/{}] {}", index + 1, tasks.len(), task.id);
        work.item(&place, task).await?;
    }
    work.end()
}

/// Reproduction in progress.
struct Work<'a> {
    request: &'a Request<'a>,
    output: Output,
    record: Reproduction,
    /// One entry per item of the record; `None` where it has no run.
    runs: Vec<Option<AnalysedRun>>,
    stop: Stop,
    /// Why nothing more is started: a signal, or an account that cannot be used any more.
    over: Option<String>,
    is_interrupted: bool,
    /// Whether something did not fit into the spending limit.
    is_at_limit: bool,
}

/// Outcome of an item.
struct Outcome {
    state: ItemState,
    why: Option<String>,
    run: Option<AnalysedRun>,
}

impl<'a> Work<'a> {
    fn new(
        request: &'a Request<'a>,
        catalogue: &Catalogue,
        tasks: &[Task],
        output: Output,
    ) -> Result<Self, Error> {
        let mut items = with_earlier(tasks, request.out, catalogue);
        if !request.quick && request.platform.is_none() {
            items.extend(papers::gone(
                request.directory,
                request.items,
                &catalogue.ids(),
            )?);
        }
        let record = Reproduction {
            schema_version: REPRODUCTION_VERSION,
            asked: request.items.to_vec(),
            quick: request.quick,
            platform: request
                .platform
                .map(|platform| platform.as_str().to_owned()),
            catalogue: catalogue.len(),
            items,
        };
        record.write(request.out)?;
        Ok(Self {
            request,
            output,
            runs: vec![None; record.items.len()],
            record,
            stop: stop_signal()?,
            over: None,
            is_interrupted: false,
            is_at_limit: false,
        })
    }

    /// Runs one item and records its outcome.
    async fn item(&mut self, place: &str, task: &Task) -> Result<(), Error> {
        if let Some((state, why)) = &task.obstacle {
            (self.output).message(format_args!("{place}: {}: {why}", state.as_str()));
        }
        let Some(experiment) = task.experiment.as_ref().filter(|_| task.obstacle.is_none()) else {
            return Ok(());
        };
        let outcome = self.perform(place, task, experiment).await;
        let outcome = outcome.unwrap_or_else(|error| Outcome::failed(&error, None));
        if let (ItemState::Failed, Some(why)) = (outcome.state, &outcome.why) {
            eprint_line(format_args!("{place}: failed: {why}"));
        }
        let items = self.record.items.iter_mut().zip(&mut self.runs);
        for (item, run) in items.filter(|(item, _)| item.id == task.id) {
            item.state = outcome.state;
            item.why.clone_from(&outcome.why);
            item.run = outcome.run.is_some().then(|| task.run.clone());
            run.clone_from(&outcome.run);
        }
        Ok(self.record.write(self.request.out)?)
    }

    async fn perform(
        &mut self,
        place: &str,
        task: &Task,
        experiment: &Experiment,
    ) -> Result<Outcome, Error> {
        let (path, output) = (self.request.out.join(&task.run), self.output);
        let is_kept = !self.request.fresh;
        let destination = match &task.run_state {
            RunState::Current { directory, .. } if is_kept && task.run_state.is_finished() => {
                output.message(format_args!("{place}: done already"));
                return Ok(Outcome::done(analysed(directory)?));
            }
            RunState::Current { directory, .. } if is_kept && self.over.is_some() => {
                return Ok(self.unfinished(Some(analysed(directory)?)));
            }
            _ if self.over.is_some() => return Ok(self.unfinished(None)),
            RunState::Stale { why, .. } if is_kept && experiment.platform.site().is_cloud() => {
                return Ok(paid(AnalysedRun::open(&path)?, why));
            }
            RunState::Current { ended, planned, .. } if is_kept => {
                output.message(format_args!(
                    "{place}: goes on after {ended} of {planned} trials"
                ));
                Destination::After(&path)
            }
            state => {
                output.message(format_args!("{place}: {}", experiment.description.trim()));
                self.make_room(place, task, state)?;
                Destination::At(&path)
            }
        };
        let consent = self.request.consent.clone();
        Ok(
            match execute(experiment, destination, consent, output, &mut self.stop).await {
                Ended::Whole(directory, analysis) => Outcome::done(AnalysedRun {
                    directory: *directory,
                    analysis: *analysis,
                }),
                Ended::Failed(directory, error) => {
                    let run = directory.as_ref().map(analysed).transpose()?;
                    let is_account = matches!(error, Error::Platform(PlatformError::Cloud(_)));
                    match error.exit() {
                        Exit::SpendingLimit => {
                            self.is_at_limit = true;
                            Outcome::unfinished(one_line(&error), run)
                        }
                        Exit::Lacks if is_account => {
                            self.over = Some(one_line(&error));
                            self.unfinished(run)
                        }
                        _ => Outcome::failed(&error, run),
                    }
                }
                Ended::Stopped(directory) => {
                    self.is_interrupted = true;
                    self.over = Some("the reproduction was interrupted".to_owned());
                    self.unfinished(directory.as_ref().map(analysed).transpose()?)
                }
            },
        )
    }

    /// Returns the outcome of an item that was not run to its end, for the reason why nothing more is.
    fn unfinished(&self, run: Option<AnalysedRun>) -> Outcome {
        Outcome::unfinished(self.over.clone().unwrap_or_default(), run)
    }

    /// Sets aside what an item's directory holds, if it holds something.
    fn make_room(&self, place: &str, task: &Task, state: &RunState) -> Result<(), Error> {
        let (name, why) = match state {
            RunState::Absent => return Ok(()),
            RunState::Stale { why, name } => (name.clone(), why.clone()),
            RunState::Current { directory, .. } => (
                directory.manifest().run_id.clone(),
                "--fresh was given".to_owned(),
            ),
        };
        let aside = put_aside(self.request.out, &task.run, &name)?;
        self.output.message(format_args!(
            "{place}: what was there is set aside in {}: {why}",
            aside.display()
        ));
        Ok(())
    }

    /// Opens the runs of items that were recorded before and not asked for now.
    fn open_earlier(&mut self) {
        for (item, run) in self.record.items.iter_mut().zip(&mut self.runs) {
            let Some(path) = item.run.as_ref().filter(|_| run.is_none()) else {
                continue;
            };
            match AnalysedRun::open(&self.request.out.join(path)) {
                Ok(earlier) => *run = Some(earlier),
                Err(error) => {
                    item.state = ItemState::Failed;
                    item.why = Some(format!("its recorded run cannot be read: {error}"));
                    item.run = None;
                }
            }
        }
    }

    /// Writes the page over all items that are recorded.
    fn end(mut self) -> Result<Exit, Error> {
        self.open_earlier();
        let out = self.request.out;
        self.record.write(out)?;
        let mut overview = Overview::new(&self.record, &self.runs);
        if let Some(why) = self.request.accept.filter(|_| !self.is_interrupted) {
            accept::write(self.request.directory, &mut self.record, &overview, why)?;
            self.record.write(out)?;
            overview = Overview::new(&self.record, &self.runs);
        }
        papers::write(self.request.directory, out, &overview, &self.runs)?;
        report::write_overview(out, &overview, &self.runs)?;
        self.output.text(report::terminal_overview(&overview));
        self.output.json(&overview);
        let page = out.join("report.html");
        self.output
            .message(format_args!("report: {}", page.display()));
        if self.is_interrupted {
            return Err(Error::Interrupted {
                kept: overview.items.iter().map(|item| item.trials).sum(),
                directory: out.to_owned(),
                remedy: "give the same command again to go on".to_owned(),
            });
        }
        Ok(match overview.exit_status() {
            Exit::Interrupted if self.is_at_limit && self.over.is_none() => Exit::SpendingLimit,
            exit => exit,
        })
    }
}

/// Returns the items of `tasks`, and those that are recorded in `out` and are not
/// run by this command, in the order of the catalogue.
fn with_earlier(tasks: &[Task], out: &Path, catalogue: &Catalogue) -> Vec<Item> {
    let earlier = Some(out).filter(|out| Reproduction::is_in(out));
    let earlier = earlier.and_then(|out| Reproduction::read(out).ok());
    let earlier = earlier.map_or_else(Vec::new, |earlier| earlier.items);
    let recorded = |id: &str| {
        let mut items = earlier.iter();
        items.find(|item| item.id == id && item.run.is_some())
    };
    let item = |id: String| {
        let task = tasks.iter().find(|task| task.id == id);
        match (task, recorded(&id)) {
            (Some(task), Some(earlier))
                if task.is_left_out() && earlier.state == ItemState::Done =>
            {
                Some(earlier.clone())
            }
            (Some(task), _) => Some(task.item()),
            (None, earlier) => earlier.cloned(),
        }
    };
    let with_forms = |id: String| [id.clone(), with_form(&id, FormName::Aws)];
    let ids = catalogue.ids().into_iter().flat_map(with_forms);
    ids.filter_map(item).collect()
}

impl Outcome {
    fn done(run: AnalysedRun) -> Self {
        Self {
            state: ItemState::Done,
            why: None,
            run: Some(run),
        }
    }

    fn failed(error: &Error, run: Option<AnalysedRun>) -> Self {
        Self {
            state: ItemState::Failed,
            why: Some(one_line(error)),
            run,
        }
    }

    fn unfinished(why: String, run: Option<AnalysedRun>) -> Self {
        Self {
            state: match run {
                Some(_) => ItemState::Incomplete,
                None => ItemState::NotReached,
            },
            why: Some(why),
            run,
        }
    }
}

/// Returns the outcome of a run that was paid for and would not be made so any more, for `why`: it stands
/// until somebody pays for another.
fn paid(run: AnalysedRun, why: &str) -> Outcome {
    let is_whole = (run.directory.progress()).is_ok_and(|(ended, planned)| ended == planned);
    Outcome {
        state: if is_whole {
            ItemState::Done
        } else {
            ItemState::Incomplete
        },
        why: Some(format!(
            "kept, since it was paid for, though {why}; --fresh sets it aside and pays for another"
        )),
        run: Some(run),
    }
}

/// Analyses a run and writes its report.
fn analysed(directory: &RunDirectory) -> Result<AnalysedRun, ResultsError> {
    let run = AnalysedRun::open(directory.path())?;
    report::write(&run.directory, &run.analysis)?;
    Ok(run)
}
