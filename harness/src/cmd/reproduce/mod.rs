//! `reproduce`: the papers' tables and figures, each a run of its own, and one
//! page over all of them.

mod catalogue;
mod dry_run;
mod standing;
mod task;

use std::path::PathBuf;

use self::catalogue::Catalogue;
use self::standing::{Binaries, Standing, put_aside};
use self::task::Task;
use super::Output;
use super::aws::Terms;
use super::execute::{Destination, Ended, Stop, execute, stop_signal};
use super::run::probe;
use crate::analysis::overview::{AnalysedRun, Overview};
use crate::cli::rendered;
use crate::error::{Error, Exit};
use crate::experiment::{Experiment, PlatformKind};
use crate::report;
use crate::results::{ItemState, REPRODUCTION_VERSION, Reproduction, ResultsError, RunDirectory};

/// `reproduce`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Papers and items, as `cost-performance` or `cost-performance/table2`; by
    /// default all.
    #[arg(value_name = "PAPER[/ITEM]")]
    items: Vec<String>,
    /// Reduce long items, or leave them out, as their files say.
    #[arg(long)]
    quick: bool,
    /// Only items that run on this platform. An item's claims are written for
    /// its platform; `run --platform` runs one elsewhere.
    #[arg(long, value_enum)]
    platform: Option<PlatformKind>,
    /// Where the runs and the page over them go.
    #[arg(long, value_name = "DIR", default_value = "results/reproduce")]
    out: PathBuf,
    /// Run everything anew; what is there is set aside.
    #[arg(long)]
    fresh: bool,
    /// Show what would be run and what is done already, then stop.
    #[arg(long)]
    dry_run: bool,
    /// Where papers' directories are looked for.
    #[arg(long, default_value = "experiments", value_name = "DIR")]
    directory: PathBuf,
}

/// Runs what is not recorded yet, and writes the page over all items.
///
/// # Errors
/// For a name that is none, where nothing is selected, and when results cannot
/// be written. What goes wrong with an item is told on the page.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let catalogue = Catalogue::read(&args.directory)?;
    let entries = catalogue.select(&args.items)?;
    let binaries = Binaries::new();
    let mut tasks = Vec::with_capacity(entries.len());
    for entry in entries {
        tasks.push(Task::of(entry, args, &binaries).await);
    }
    if tasks.iter().all(Task::is_left_out) {
        return Err(Error::NothingSelected(
            "--quick or --platform leave out every item that was asked for".into(),
        ));
    }
    if args.dry_run {
        return dry_run::show(&tasks, args, output);
    }
    probe(&args.out)?;
    let mut work = Work::new(args, catalogue.len(), &tasks, output)?;
    for (index, task) in tasks.iter().enumerate() {
        work.item(index, task).await?;
    }
    work.end()
}

/// A reproduction that is going on.
struct Work<'a> {
    args: &'a Args,
    output: Output,
    record: Reproduction,
    /// One for each item of the record, where it has a run.
    runs: Vec<Option<AnalysedRun>>,
    stop: Stop,
    is_stopped: bool,
}

/// What became of an item.
struct Outcome {
    state: ItemState,
    why: Option<String>,
    run: Option<AnalysedRun>,
}

impl<'a> Work<'a> {
    fn new(
        args: &'a Args,
        catalogue: usize,
        tasks: &[Task],
        output: Output,
    ) -> Result<Self, Error> {
        let record = Reproduction {
            schema_version: REPRODUCTION_VERSION,
            asked: args.items.clone(),
            quick: args.quick,
            platform: args.platform.map(|platform| platform.as_str().to_owned()),
            catalogue,
            items: tasks.iter().map(Task::item).collect(),
        };
        record.write(&args.out)?;
        Ok(Self {
            args,
            output,
            runs: vec![None; record.items.len()],
            record,
            stop: stop_signal()?,
            is_stopped: false,
        })
    }

    /// Does one item, and records what became of it.
    async fn item(&mut self, index: usize, task: &Task) -> Result<(), Error> {
        let place = format!("[{}/{}] {}", index + 1, self.runs.len(), task.entry.id);
        if let Some((state, why)) = &task.obstacle {
            (self.output).message(format_args!("{place}: {}: {why}", state.as_str()));
        }
        let Some(experiment) = task.experiment.as_ref().filter(|_| task.obstacle.is_none()) else {
            return Ok(());
        };
        let outcome = self.perform(&place, task, experiment).await;
        let outcome = outcome.unwrap_or_else(|error| Outcome::failed(&error, None));
        if let (ItemState::Failed, Some(why)) = (outcome.state, &outcome.why) {
            super::complain(format_args!("{place}: failed: {why}"));
        }
        let item = &mut self.record.items[index];
        item.state = outcome.state;
        item.why = outcome.why;
        item.run = outcome.run.is_some().then(|| task.run.clone());
        self.runs[index] = outcome.run;
        Ok(self.record.write(&self.args.out)?)
    }

    async fn perform(
        &mut self,
        place: &str,
        task: &Task,
        experiment: &Experiment,
    ) -> Result<Outcome, Error> {
        let (path, output) = (self.args.out.join(&task.run), self.output);
        let is_kept = !self.args.fresh;
        let destination = match &task.standing {
            Standing::Current { directory, .. } if is_kept && task.standing.is_finished() => {
                output.message(format_args!("{place}: done already"));
                return Ok(Outcome::done(analysed(directory)?));
            }
            Standing::Current { directory, .. } if is_kept && self.is_stopped => {
                return Ok(Outcome::stopped(Some(analysed(directory)?)));
            }
            _ if self.is_stopped => return Ok(Outcome::stopped(None)),
            Standing::Current { ended, planned, .. } if is_kept => {
                output.message(format_args!(
                    "{place}: goes on after {ended} of {planned} trials"
                ));
                Destination::After(&path)
            }
            standing => {
                output.message(format_args!("{place}: {}", experiment.description.trim()));
                self.make_room(place, task, standing)?;
                Destination::At(&path)
            }
        };
        Ok(
            match execute(
                experiment,
                destination,
                Terms::default(),
                output,
                &mut self.stop,
            )
            .await
            {
                Ended::Whole(directory, analysis) => Outcome::done(AnalysedRun {
                    directory: *directory,
                    analysis: *analysis,
                }),
                Ended::Failed(directory, error) => {
                    let run = directory.as_ref().map(analysed).transpose()?;
                    Outcome::failed(&error, run)
                }
                Ended::Stopped(directory) => {
                    self.is_stopped = true;
                    Outcome::stopped(directory.as_ref().map(analysed).transpose()?)
                }
            },
        )
    }

    /// Sets aside what an item's directory holds, if it holds something.
    fn make_room(&self, place: &str, task: &Task, standing: &Standing) -> Result<(), Error> {
        let (name, why) = match standing {
            Standing::Absent => return Ok(()),
            Standing::Stale { why, name } => (name.clone(), why.clone()),
            Standing::Current { directory, .. } => (
                directory.manifest().run_id.clone(),
                "--fresh was given".to_owned(),
            ),
        };
        let aside = put_aside(&self.args.out, &task.run, &name)?;
        self.output.message(format_args!(
            "{place}: what was there is set aside in {}: {why}",
            aside.display()
        ));
        Ok(())
    }

    /// Writes the page over all items.
    fn end(self) -> Result<Exit, Error> {
        let out = &self.args.out;
        let overview = Overview::new(&self.record, &self.runs);
        report::write_overview(out, &overview, &self.runs)?;
        self.output.text(report::terminal_overview(&overview));
        self.output.json(&overview);
        let page = out.join("report.html");
        self.output
            .message(format_args!("report: {}", page.display()));
        if self.is_stopped {
            return Err(Error::Interrupted {
                kept: overview.items.iter().map(|item| item.trials).sum(),
                directory: out.clone(),
                remedy: "give the same command again to go on".to_owned(),
            });
        }
        Ok(overview.exit_status())
    }
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

    fn stopped(run: Option<AnalysedRun>) -> Self {
        Self {
            state: match run {
                Some(_) => ItemState::Incomplete,
                None => ItemState::NotReached,
            },
            why: Some("the reproduction was interrupted".into()),
            run,
        }
    }
}

/// Analyses a run and writes its report.
fn analysed(directory: &RunDirectory) -> Result<AnalysedRun, ResultsError> {
    let run = AnalysedRun::open(directory.path())?;
    report::write(&run.directory, &run.analysis)?;
    Ok(run)
}

/// What an error says, without excerpts of files.
fn one_line(error: &Error) -> String {
    let text = rendered(error);
    let problem = text.lines().next().unwrap_or_default();
    match text.lines().find_map(|line| line.split_once("= help: ")) {
        Some((_, remedy)) => format!("{problem}; {remedy}"),
        None => problem.to_owned(),
    }
}
