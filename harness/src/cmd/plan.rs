//! `plan`: what an experiment would take, before anything runs.

mod map;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::TypedValueParser;
use epochcost_experiment::PlatformKind;
use epochcost_planner::error::Error;
use epochcost_planner::forecast::{self, Goal, LimitSearch, Request, Sampling, Work};
use epochcost_record::probe_file;
use epochcost_report as report;
use epochcost_spec::cost::CostModel;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

use super::done_or_failed;
use super::selection::{named, platform};

/// A year: an instant so far ahead can be represented.
const LONGEST_SEARCH_S: f64 = 365.0 * 86_400.0;

/// `plan`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// What to plan in place of an experiment.
    #[command(subcommand)]
    action: Option<Action>,
    /// The experiment file, or the directory of a finished local run: its experiment on the run's machine,
    /// with steps that take what they took there.
    #[arg(value_name = "EXPERIMENT|RUN", required = true)]
    experiment: Option<PathBuf>,
    /// Set a field, as for `run`.
    #[arg(long, value_name = "A.B=C")]
    set: Vec<String>,
    /// Plan every value of a field, and every combination with other sweeps:
    /// `--sweep workers=2,4,8 --sweep memory_mb=1024,2048`.
    #[arg(long, value_name = "FIELD=VALUES")]
    sweep: Vec<String>,
    /// Say where to train so that it ends within this time (90min, 2h) in 95 % of the draws of all
    /// ranges: the cheapest of all systems, numbers of workers, memory sizes and places. `-v` shows
    /// what the experiment's own rows take, too.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    deadline: Option<String>,
    /// Say where to train for no more than this (5usd): with a deadline, as cheaply as
    /// possible; without one, as fast.
    #[arg(long, value_name = "USD", allow_hyphen_values = true)]
    budget: Option<String>,
    /// Let settings that take fewer optimizer steps than the experiment be the answer, too; with a
    /// deadline or a budget.
    #[arg(long)]
    any_steps: bool,
    /// A place to search at under a deadline or a budget, by name or file; more than once, several.
    /// By default all that docs/PLACES.md lists.
    #[arg(long, value_name = "NAME|FILE")]
    place: Vec<String>,
    /// Train so many samples in all, which the workers of every row share, rounded up to whole
    /// mini-batches of all of them.
    #[arg(long, value_name = "N", conflicts_with = "epochs",
          value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// Train so many passes over the data, which the workers of every row share in whole mini-batches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    epochs: Option<u64>,
    /// The platform profile: a name or a file; by default the experiment's, or the
    /// default one of docs/PROFILES.md. Places of AWS stand on it, too.
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// A compute profile, by name or file. More than once: the first that knows
    /// a model counts. By default the experiment's, or stated-flops.
    #[arg(long, value_name = "NAME|FILE")]
    compute: Vec<String>,
    /// Cost model of the frontier and the cheapest memory.
    #[arg(long, value_parser = account(), default_value = "full")]
    account: CostModel,
    /// Find the memory size of the least dollars for each row's functions.
    #[arg(long)]
    cheapest_memory: bool,
    /// Find the number of workers at which each row meets a limit of the platform.
    #[arg(long)]
    limits: bool,
    /// Most workers that `--limits` tries, up to a million.
    #[arg(long, value_name = "W", default_value = "10000", requires = "limits",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    up_to: u32,
    /// Most time that `--limits` takes (90s, 4min): rows that are not settled by then are named, with
    /// the most workers that were seen to work.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "4min",
        requires = "limits",
        allow_hyphen_values = true
    )]
    limits_within: String,
    /// Simulate every row on so many samples of the constants' ranges, and give
    /// percentiles. Compute times have ranges where they were carried from other hardware or stated.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    uncertainty: Option<u32>,
    /// What the samples are drawn from.
    #[arg(
        long,
        value_name = "SEED",
        default_value = "42",
        requires = "uncertainty"
    )]
    seed: u64,
    /// Repetitions of each row on AWS; with `--platform aws`, as a simulation repeats itself exactly.
    #[arg(long, value_name = "N", hide = true)]
    trials: Option<usize>,
    /// Platform to plan for. `aws` lists every resource that it would
    /// make, and the most that it can cost.
    #[arg(long, value_parser = platform())]
    platform: Option<PlatformKind>,
    /// Also write the plan as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The price book, by default the one that this program brings along.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

fn account() -> impl TypedValueParser<Value = CostModel> {
    named(&[CostModel::Paper, CostModel::Full], CostModel::as_str)
}

impl Args {
    fn limit_search(&self) -> Result<Option<LimitSearch>, Error> {
        let within_s = forecast::read_seconds("--limits-within", &self.limits_within)?;
        Ok(self.limits.then_some(LimitSearch {
            up_to: self.up_to,
            within: Duration::from_secs_f64(within_s.min(LONGEST_SEARCH_S)),
        }))
    }

    /// Refuses options that would be dropped without another one.
    fn check(&self, goal: Option<Goal>) -> Result<(), Error> {
        let place = self.place.first().map(|place| format!("--place {place}"));
        let needs_goal = place.or(self.any_steps.then(|| "--any-steps".to_owned()));
        if let Some(option) = needs_goal.filter(|_| goal.is_none()) {
            return Err(Error::usage(
                format!("{option} needs a goal"),
                "give --deadline TIME, --budget USD or both, or leave it out",
            ));
        }
        let is_cloud = (self.platform).is_some_and(|platform| platform.site().is_cloud());
        if let Some(trials) = self.trials.filter(|_| !is_cloud) {
            return Err(Error::usage(
                format!("--trials {trials} is of a cloud: a simulation repeats itself exactly"),
                "give --platform aws, or leave it out",
            ));
        }
        Ok(())
    }

    fn request(&self, output: Output) -> Result<Request<'_>, Error> {
        let goal = Goal::parse(self.deadline.as_deref(), self.budget.as_deref())?;
        self.check(goal)?;
        let asks_for_rows = self.cheapest_memory
            || self.limits
            || self.uncertainty.is_some()
            || self.platform.is_some()
            || self.html.is_some();
        Ok(Request {
            experiment: self.experiment.as_deref().unwrap_or(Path::new("")),
            set: &self.set,
            sweep: &self.sweep,
            goal,
            any_steps: self.any_steps,
            with_rows: asks_for_rows || output.json || output.verbosity > 0,
            places: &self.place,
            work: (self.samples.map(Work::Samples)).or(self.epochs.map(Work::Epochs)),
            profile: self.profile.as_deref(),
            compute: &self.compute,
            account: self.account,
            cheapest_memory: self.cheapest_memory,
            limits: self.limit_search()?,
            sampling: self.uncertainty.map(|samples| Sampling {
                samples,
                seed: self.seed,
            }),
            platform: self.platform,
            trials: self.trials,
            prices: self.prices.as_deref(),
        })
    }
}

/// What there is to plan beside an experiment.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Draw where training is cheapest, and where it is fastest.
    ///
    /// By the size of a model and the operations of a sample, under a deadline: the best
    /// of functions, of one machine alone and of several machines at every place, as a
    /// picture and in sentences. Everything is simulated.
    Map(map::Args),
}

/// Plans an experiment. Infeasible rows are part of the result.
///
/// # Errors
/// When the experiment or a profile cannot be used.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(Action::Map(args)) = &args.action {
        return map::run(args, output);
    }
    if let Some(path) = &args.html {
        probe_file(path, "--html")?;
    }
    let plan = forecast::forecast(&args.request(output)?, output)?;
    if let Some(path) = &args.html {
        report::write_page(path, &plan.page())?;
        output.message(format_args!("page: {}", path.display()));
    }
    output.text(plan.text(output.verbosity > 0));
    output.json(&plan);
    Ok(done_or_failed(!plan.is_unmet()))
}
