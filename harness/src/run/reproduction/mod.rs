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
use std::time::Duration;

use epochcost_experiment::{Experiment, FormName, PlatformKind};
use epochcost_judge::analysis::overview::{AnalysedRun, Overview};
use epochcost_planner::error::Error;
use epochcost_platform::{PlatformError, SpendingConsent};
use epochcost_record::{
    Due, Item, ItemState, REPRODUCTION_VERSION, Reproduction, ResultsError, RunDirectory, Visits,
    probe,
};
use epochcost_report as report;
use epochcost_spec::cost::PriceBook;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::{Output, eprint_line};
use jiff::Timestamp;

use self::catalogue::Catalogue;
use self::run_state::{Binaries, RunState, put_aside};
use self::task::{Task, one_line, with_form};
use super::execute::{Destination, Ended, execute};
use super::signal::{Stop, stop_signal};

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
    /// Days over which trials on a cloud are spread: each visit runs what is due by then.
    pub days: Option<f64>,
    /// Whether to wait for the visits that are left.
    pub wait: bool,
    /// Consent to what items cost on a cloud, and the limit of all of them together.
    pub consent: SpendingConsent,
    /// Reason why the verdicts of this reproduction become the recorded ones, if they do.
    pub accept: Option<&'a str>,
    /// Directory that contains the papers' directories.
    pub directory: &'a Path,
}

/// Runs what is not recorded yet, and writes the page over all items; again at each time at which more is
/// due, if asked to wait.
///
/// # Errors
/// For an unknown name, where nothing is selected, and when results cannot be
/// written. Failures of an item are reported on the page.
pub async fn reproduce(request: &Request<'_>, output: Output) -> Result<Exit, Error> {
    loop {
        let (exit, next) = visit(request, output).await?;
        let Some(next) = next.filter(|_| request.wait && exit == Exit::Done) else {
            return Ok(exit);
        };
        let wait = Timestamp::now().duration_until(next);
        let wait = Duration::try_from(wait).unwrap_or_default();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = &mut stop_signal()? => return Ok(Exit::Interrupted),
        }
    }
}

/// Runs what is not recorded yet and is due; returns when more is.
async fn visit(request: &Request<'_>, output: Output) -> Result<(Exit, Option<Timestamp>), Error> {
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
        let cloud = (request.platform).filter(|platform| platform.site().is_cloud());
        if let Some(platform) = cloud
            && let Some(form) = FormName::of(platform)
        {
            let prices = request.consent.prices.clone();
            let prices = prices.map_or_else(PriceBook::shipped, Ok)?;
            let exit = on_cloud::show(&tasks, (platform, form), &prices, output)?;
            return Ok((exit, None));
        }
        return Ok((dry_run::show(&tasks, request, output)?, None));
    }
    probe(request.out, "--out")?;
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
    /// When more is due, of what is not yet.
    next: Option<Timestamp>,
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
            let gone = papers::gone(request.directory, request.items, &catalogue.ids());
            items.extend(gone?);
        }
        let began_s = earlier(request.out).and_then(|earlier| Some(earlier.visits?.began_s));
        let visits = request.days.map(|days| Visits {
            began_s: began_s.unwrap_or_else(|| Timestamp::now().as_duration().as_secs_f64()),
            days,
        });
        let record = Reproduction {
            visits,
            schema_version: REPRODUCTION_VERSION,
            asked: request.items.to_vec(),
            quick: request.quick,
            platform: (request.platform).map(|platform| platform.as_str().to_owned()),
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
            next: None,
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
        let until = match self.due(experiment, &task.run_state) {
            Some(Due::Later(at)) if is_kept && self.over.is_none() => {
                return self.later(place, &path, at);
            }
            Some(Due::Until(until)) => Some(until),
            _ => None,
        };
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
                let outcome = paid(AnalysedRun::open(&path)?, why);
                let why = outcome.why.as_deref().unwrap_or_default();
                output.message(format_args!("{place}: {why}"));
                return Ok(outcome);
            }
            RunState::Current { ended, planned, .. } if is_kept => {
                let line = format!("{place}: goes on after {ended} of {planned} trials");
                output.message(line);
                Destination::After(&path)
            }
            state => {
                output.message(format_args!("{place}: {}", experiment.description.trim()));
                self.make_room(place, task, state)?;
                Destination::At(&path)
            }
        };
        let consent = (self.request.consent.clone(), until);
        let ended = execute(experiment, destination, consent, output, &mut self.stop).await;
        Ok(match ended {
            Ended::Whole(directory, analysis) => {
                let progress = directory.progress()?;
                let run = AnalysedRun {
                    directory: *directory,
                    analysis: *analysis,
                };
                match self.left(experiment, progress) {
                    Some(at) => Outcome::unfinished(self.waits_until(at), Some(run)),
                    None => Outcome::done(run),
                }
            }
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
        })
    }

    /// Returns what is due of an item, where its trials are spread over days.
    fn due(&self, experiment: &Experiment, state: &RunState) -> Option<Due> {
        let progress = match state {
            RunState::Absent => (0, experiment.trials),
            RunState::Current { ended, planned, .. } if ended < planned => (*ended, *planned),
            _ => return None,
        };
        let is_cloud = experiment.platform.site().is_cloud();
        let visits = self.record.visits.filter(|_| is_cloud)?;
        Some(visits.due(Timestamp::now(), experiment.trials, progress))
    }

    /// Returns when the next trial is due after a visit; none where all have ended, or the visit was cut
    /// short.
    fn left(&self, experiment: &Experiment, progress: (usize, usize)) -> Option<Timestamp> {
        let visits = self.record.visits.filter(|_| progress.0 < progress.1)?;
        match visits.due(Timestamp::now(), experiment.trials, progress) {
            Due::Later(at) => Some(at),
            Due::Until(_) => Some(Timestamp::now()),
        }
    }

    /// Remembers the next time at which something is due; returns it as a reason.
    fn waits_until(&mut self, at: Timestamp) -> String {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        due(at)
    }

    /// Leaves an item until its next trial is due.
    fn later(&mut self, place: &str, path: &Path, at: Timestamp) -> Result<Outcome, Error> {
        let why = self.waits_until(at);
        self.output.message(format_args!("{place}: {why}"));
        let run = RunDirectory::is_in(path).then(|| AnalysedRun::open(path));
        Ok(Outcome::unfinished(why, run.transpose()?))
    }

    /// Returns the outcome of an item that was not run to its end, for the reason why nothing more is.
    fn unfinished(&self, run: Option<AnalysedRun>) -> Outcome {
        Outcome::unfinished(self.over.clone().unwrap_or_default(), run)
    }

    /// Sets aside what an item's directory holds, if it holds something.
    fn make_room(&self, place: &str, task: &Task, state: &RunState) -> Result<(), Error> {
        let (name, why) = match state {
            RunState::Absent => return Ok(()),
            RunState::Stale { why, name } => (name, why.as_str()),
            RunState::Current { directory, .. } => {
                (&directory.manifest().run_id, "--fresh was given")
            }
        };
        let aside = put_aside(self.request.out, &task.run, name)?;
        let aside = aside.display();
        let line = format!("{place}: what was there is set aside in {aside}: {why}");
        self.output.message(line);
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
    fn end(mut self) -> Result<(Exit, Option<Timestamp>), Error> {
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
        (self.output).message(format_args!("report: {}", page.display()));
        if let Some(why) = self.over.as_ref().filter(|_| !self.is_interrupted) {
            eprint_line(format_args!("nothing more was started: {why}"));
        }
        if self.is_interrupted {
            return Err(Error::Interrupted {
                kept: overview.items.iter().map(|item| item.trials).sum(),
                directory: out.to_owned(),
                remedy: "give the same command again to go on".to_owned(),
            });
        }
        let exit = match overview.exit_status() {
            Exit::Interrupted if self.is_at_limit && self.over.is_none() => Exit::SpendingLimit,
            // What this visit was for is done.
            Exit::Interrupted if self.next.is_some() && self.over.is_none() => Exit::Done,
            exit => exit,
        };
        if let Some(next) = self.next {
            let due = due(next);
            let line = format_args!("{due}; the same command goes on then");
            self.output.message(line);
        }
        Ok((exit, self.next))
    }
}

/// Says when a trial is due.
fn due(at: Timestamp) -> String {
    let at = at.strftime("%Y-%m-%d at %H:%M UTC");
    format!("the next trial is due on {at}")
}

/// Returns what was recorded in `out` before; none where nothing was, or it cannot be read.
fn earlier(out: &Path) -> Option<Reproduction> {
    let out = Some(out).filter(|out| Reproduction::is_in(out))?;
    Reproduction::read(out).ok()
}

/// Returns the items of `tasks`, and those that are recorded in `out` and are not
/// run by this command, in the order of the catalogue.
fn with_earlier(tasks: &[Task], out: &Path, catalogue: &Catalogue) -> Vec<Item> {
    let earlier = earlier(out).map_or_else(Vec::new, |earlier| earlier.items);
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
    let why = format!(
        "kept, since it was paid for, though {why}; --fresh sets it aside and pays for another"
    );
    let is_whole = (run.directory.progress()).is_ok_and(|(ended, planned)| ended == planned);
    let mut outcome = Outcome::unfinished(why, Some(run));
    if is_whole {
        outcome.state = ItemState::Done;
    }
    outcome
}

/// Analyses a run and writes its report.
fn analysed(directory: &RunDirectory) -> Result<AnalysedRun, ResultsError> {
    let run = AnalysedRun::open(directory.path())?;
    report::write(&run.directory, &run.analysis)?;
    Ok(run)
}
