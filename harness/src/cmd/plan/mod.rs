//! `plan`: what an experiment would take, before anything runs.
//!
//! Every row is simulated with sizes only, whatever platform the experiment
//! names: no dataset, no worker and no account is needed.

mod estimate;
mod frontier;
mod limits;
mod memory;
mod parallel;
mod sweep;
mod text;
mod uncertainty;

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use epochcost_simulator::{Infeasible, Simulation};
use epochcost_systems::{Fidelity, Host, find};
use serde::Serialize;

use self::estimate::{Estimate, Outcome, estimate, has_functions};
use self::limits::Boundary;
use self::memory::Cheapest;
use self::uncertainty::Uncertainty;
use super::{Output, aws};
use crate::cost::{Account, PriceBook};
use crate::error::{Error, Exit};
use crate::experiment::{Document, Experiment, Options, PlatformKind, Simulation as Stands};
use crate::plan::Row;
use crate::platform::sim::Sim;
use crate::results::{ComputeUsed, ResultsError, SchemaVersion, SimulationRecord};

/// The version of what `--json` prints.
const PLAN_VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

/// `plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The experiment file.
    #[arg(value_name = "EXPERIMENT.yaml")]
    experiment: PathBuf,
    /// Set a field, as for `run`.
    #[arg(long, value_name = "A.B=C")]
    set: Vec<String>,
    /// Plan every value of a field, and every combination with other sweeps:
    /// `--sweep workers=2,4,8 --sweep memory_mb=1024,2048`.
    #[arg(long, value_name = "FIELD=VALUES")]
    sweep: Vec<String>,
    /// The platform profile: a name or a file; by default the experiment's, or
    /// aws-us-east-1.
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// A compute profile, by name or file. More than once: the first that knows
    /// a model counts. By default the experiment's, or stated-flops.
    #[arg(long, value_name = "NAME|FILE")]
    compute: Vec<String>,
    /// The account that the frontier and the cheapest memory are judged by.
    #[arg(long, value_enum, default_value = "full")]
    account: Account,
    /// Find the memory size of the least dollars for each row's functions.
    #[arg(long)]
    cheapest_memory: bool,
    /// Find the number of workers at which each row meets a limit of the platform.
    #[arg(long)]
    limits: bool,
    /// Most workers that `--limits` looks at, up to a million.
    #[arg(long, value_name = "W", default_value = "10000", requires = "limits",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    up_to: u32,
    /// Simulate every row on so many samples of the constants' ranges, and give
    /// percentiles. Compute times have no ranges.
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
    /// Repetitions of each row on AWS. Without `--platform aws` of no effect:
    /// a simulation repeats itself exactly.
    #[arg(long, value_name = "N", hide = true)]
    trials: Option<usize>,
    /// Where the experiment would run. `aws` lists every resource that it would
    /// make, and the most that it can cost.
    #[arg(long, value_enum)]
    platform: Option<PlatformKind>,
    /// The price book, by default the one that this program brings along.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

impl ValueEnum for Account {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Paper, Self::Full]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(text::account(*self)))
    }
}

/// An experiment's plan. Every figure in it is simulated.
#[derive(Serialize)]
struct Plan {
    /// The format's version.
    schema_version: SchemaVersion,
    /// The experiment's name.
    experiment: String,
    /// The account that the frontier and the cheapest memory are judged by.
    account: Account,
    /// Whether rows train different numbers of samples, so that the frontier
    /// compares seconds and dollars a sample.
    frontier_by_sample: bool,
    /// What every figure stands on.
    simulation: SimulationRecord,
    /// One for each system and combination of swept values.
    rows: Vec<PlannedRow>,
    /// The cheapest memory sizes, if they were asked for.
    cheapest_memory: Option<Vec<Cheapest>>,
    /// How far rows scale, if it was asked for.
    limits: Option<Vec<Boundary>>,
    /// Intervals, if they were asked for.
    uncertainty: Option<Uncertainty>,
    /// What it would make on AWS and cost at most, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    aws: Option<serde_json::Value>,
}

/// A row and what it is expected to take.
#[derive(Serialize)]
struct PlannedRow {
    id: String,
    system: String,
    model: String,
    dataset: String,
    fidelity: Fidelity,
    workers: usize,
    batch_size: usize,
    batches_per_worker: usize,
    epochs: usize,
    /// Memory size of its functions; null on instances.
    memory_mb: Option<u32>,
    /// Type of its instances; null on functions.
    instance_type: Option<String>,
    /// What its compute time stands on.
    compute: Option<ComputeUsed>,
    /// The limit that makes it impossible.
    infeasible: Option<Infeasible>,
    /// Why it fails, where no limit is to blame.
    failure: Option<String>,
    /// What it is expected to take; null if it is impossible.
    estimate: Option<Estimate>,
    /// The smallest memory size at which its functions are feasible, MB.
    smallest_memory_mb: Option<u32>,
    /// Whether nothing of the same model is both faster and cheaper.
    on_frontier: bool,
}

/// A row with its simulation.
struct Candidate {
    row: Row,
    simulation: Simulation,
}

/// Plans an experiment. Infeasible rows are part of the result.
///
/// # Errors
/// When the experiment or a profile cannot be used.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let experiment = load(args)?;
    let Some(stands) = &experiment.simulation else {
        // It was loaded for the platform `sim`.
        return Err(Error::NothingSelected("no simulation".into()));
    };
    let prices = price_book(args)?;
    let candidates = candidates(&experiment, stands)?;
    let planned = parallel::map(&candidates, |candidate| plan(candidate, stands, &prices));
    let mut rows = planned.into_iter().collect::<Result<Vec<_>, _>>()?;
    let frontier_by_sample = mark_frontier(&mut rows, args.account);
    let on_aws = match args.platform {
        Some(PlatformKind::Aws) => Some(on_aws(args, &experiment, &rows, &prices, output)?),
        _ => None,
    };
    let plan = Plan {
        schema_version: PLAN_VERSION,
        experiment: experiment.name.clone(),
        account: args.account,
        frontier_by_sample,
        simulation: SimulationRecord::of(stands, &experiment.rows),
        cheapest_memory: cheapest_memory(args, &candidates, &rows, &prices)?,
        limits: boundaries(args, &experiment, &candidates, output)?,
        uncertainty: (args.uncertainty)
            .map(|n| uncertainty::uncertainty(&candidates, stands, n, args.seed, &prices))
            .transpose()?,
        aws: on_aws.as_ref().map(|on_aws| on_aws.json.clone()),
        rows,
    };
    say_pace(&plan, output);
    output.text(text::of(&plan, args, output.verbosity > 0));
    if let Some(on_aws) = on_aws {
        output.text(format_args!("\n{}", on_aws.text));
    }
    output.json(&plan);
    Ok(Exit::Done)
}

fn price_book(args: &Args) -> Result<PriceBook, Error> {
    let Some(path) = &args.prices else {
        return Ok(PriceBook::shipped().map_err(ResultsError::from)?);
    };
    let unusable = |reason: String| Error::Usage {
        problem: format!("failed to read the price book {}: {reason}", path.display()),
        remedy: "write one with `epochcost prices refresh --out FILE`".to_owned(),
    };
    let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    PriceBook::parse(&text).map_err(|error| unusable(error.to_string()))
}

/// The rows that are possible, on AWS.
fn on_aws(
    args: &Args,
    experiment: &Experiment,
    rows: &[PlannedRow],
    prices: &PriceBook,
    output: Output,
) -> Result<aws::OnAws, Error> {
    let trials = args.trials.unwrap_or(experiment.trials);
    aws::plan(&to_deploy(experiment, rows, trials, output), prices)
}

fn to_deploy(
    experiment: &Experiment,
    rows: &[PlannedRow],
    trials: usize,
    output: Output,
) -> Vec<aws::ToDeploy> {
    let mut deployed = Vec::with_capacity(rows.len());
    for (row, planned) in experiment.rows.iter().zip(rows) {
        let Some(estimate) = &planned.estimate else {
            output.message(format_args!("left out on AWS: {} is impossible", row.id));
            continue;
        };
        deployed.push(aws::ToDeploy {
            row: row.clone(),
            trials,
            uses_tensor_store: estimate.uses_tensor_store,
            uses_queue: estimate.uses_queue,
            puts: estimate.writes(|traffic| traffic.puts),
            bytes_up: estimate.writes(|traffic| traffic.bytes_up),
        });
    }
    deployed
}

/// The possible rows of an experiment that is to run on AWS, with what a
/// simulation says that each of them uses.
///
/// # Errors
/// When a row cannot be simulated.
#[cfg(feature = "aws")]
pub(super) fn deployments(
    experiment: &Experiment,
    prices: &PriceBook,
    output: Output,
) -> Result<Vec<aws::ToDeploy>, Error> {
    let options = Options {
        platform: Some(PlatformKind::Sim),
        ..Options::default()
    };
    let simulated = Experiment::from_document(experiment.document.clone(), &options)?;
    let Some(stands) = &simulated.simulation else {
        return Err(Error::NothingSelected("no simulation".into()));
    };
    let candidates = candidates(&simulated, stands)?;
    let planned = parallel::map(&candidates, |candidate| plan(candidate, stands, prices));
    let rows = planned.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(to_deploy(experiment, &rows, experiment.trials, output))
}

/// How fast simulations went, on one core each.
fn say_pace(plan: &Plan, output: Output) {
    let known = || plan.rows.iter().filter_map(|row| row.estimate.as_ref());
    let events: u64 = known().map(|estimate| estimate.events).sum();
    let took: f64 = known().map(|estimate| estimate.took.as_secs_f64()).sum();
    output.message(format_args!(
        "simulated {events} events in {took:.2} s, {:.1} million a second on one core",
        events as f64 / took.max(1e-9) / 1e6
    ));
}

/// The experiment as it would be simulated, with the options laid over it.
fn load(args: &Args) -> Result<Experiment, Error> {
    let mut document = Document::read(&args.experiment)?;
    for sweep in &args.sweep {
        sweep::lay(&mut document, sweep)?;
    }
    let quoted = |name: &str| serde_json::Value::from(name).to_string();
    if let Some(profile) = &args.profile {
        let option = format!("--profile {profile}");
        document.set_option(&option, "simulation.profile", &quoted(profile))?;
    }
    if !args.compute.is_empty() {
        let names: Vec<String> = args.compute.iter().map(|name| quoted(name)).collect();
        let option = format!("--compute {}", args.compute.join(" --compute "));
        let list = format!("[{}]", names.join(", "));
        document.set_option(&option, "simulation.compute", &list)?;
    }
    let trains = (document.root.get("simulation")).and_then(|node| node.get("real_compute"));
    if trains.is_some() {
        // Planning is about sizes, whatever the experiment trains for later.
        document.set_option("plan", "simulation.real_compute", "false")?;
    }
    let options = Options {
        set: args.set.clone(),
        platform: Some(PlatformKind::Sim),
        ..Options::default()
    };
    Ok(Experiment::from_document(document, &options)?)
}

fn candidates(experiment: &Experiment, stands: &Stands) -> Result<Vec<Candidate>, Error> {
    let sim = Sim::new(stands.clone(), None);
    let plans = experiment.trial_plans();
    let first = plans.iter().take(experiment.rows.len());
    first
        .map(|plan| {
            Ok(Candidate {
                row: plan.row.clone(),
                simulation: sim.describe(plan)?,
            })
        })
        .collect()
}

fn plan(candidate: &Candidate, stands: &Stands, prices: &PriceBook) -> Result<PlannedRow, Error> {
    let Candidate { row, simulation } = candidate;
    let on_functions = has_functions(row);
    let (mut infeasible, mut failure, mut known) = (None, None, None);
    match estimate(row, simulation, prices)? {
        Outcome::Feasible(estimate) => known = Some(estimate),
        Outcome::Infeasible(limit) => infeasible = Some(limit),
        Outcome::Failed(reason) => failure = Some(reason),
    }
    let smallest_memory_mb = match on_functions {
        true => memory::smallest(simulation, known.as_ref().map(|e| e.peak_memory_mb))?,
        false => None,
    };
    let job = &row.job;
    Ok(PlannedRow {
        id: row.id.clone(),
        system: job.system.clone(),
        model: job.model.clone(),
        dataset: job.data.dataset.clone(),
        fidelity: job.fidelity,
        workers: job.workers,
        batch_size: job.batch_size,
        batches_per_worker: job.batches_per_worker,
        epochs: job.epochs,
        memory_mb: on_functions.then_some(row.memory_mb),
        instance_type: find(&job.system)
            .is_none_or(|system| system.deployment().runs_on(Host::Instance))
            .then(|| row.instance_type.clone()),
        compute: ComputeUsed::of(stands, row),
        infeasible,
        failure,
        estimate: known,
        smallest_memory_mb,
        on_frontier: false,
    })
}

impl PlannedRow {
    /// Samples that it trains on.
    fn samples(&self) -> f64 {
        let samples = self.workers * self.batch_size * self.batches_per_worker * self.epochs;
        samples as f64
    }
}

/// Marks the rows on the frontier of their model: by whole seconds and
/// dollars or, where rows train different numbers of samples, a sample of
/// each. Returns whether it was by sample.
fn mark_frontier(rows: &mut [PlannedRow], account: Account) -> bool {
    let first = rows.first().map(PlannedRow::samples);
    let by_sample = rows.iter().any(|row| Some(row.samples()) != first);
    let mut models: Vec<String> = rows.iter().map(|row| row.model.clone()).collect();
    models.sort();
    models.dedup();
    for model in models {
        let (mut own, mut points) = (Vec::new(), Vec::new());
        for row in rows.iter_mut().filter(|row| row.model == model) {
            let Some(estimate) = &row.estimate else {
                continue;
            };
            let each = if by_sample { row.samples() } else { 1.0 };
            points.push((estimate.seconds / each, estimate.usd(account) / each));
            own.push(row);
        }
        for (row, on) in own.into_iter().zip(frontier::frontier(&points)) {
            row.on_frontier = on;
        }
    }
    by_sample
}

fn cheapest_memory(
    args: &Args,
    candidates: &[Candidate],
    rows: &[PlannedRow],
    prices: &PriceBook,
) -> Result<Option<Vec<Cheapest>>, Error> {
    if !args.cheapest_memory {
        return Ok(None);
    }
    let functions: Vec<_> = (candidates.iter().zip(rows))
        .filter(|(candidate, _)| has_functions(&candidate.row))
        .collect();
    let found = parallel::map(&functions, |(candidate, planned)| {
        let Candidate { row, simulation } = candidate;
        let smallest = planned.smallest_memory_mb;
        memory::cheapest(row, simulation, smallest, args.account, prices)
    });
    found.into_iter().collect::<Result<_, _>>().map(Some)
}

fn boundaries(
    args: &Args,
    experiment: &Experiment,
    candidates: &[Candidate],
    output: Output,
) -> Result<Option<Vec<Boundary>>, Error> {
    if !args.limits {
        return Ok(None);
    }
    output.message(format_args!(
        "looking for limits on up to {} workers: a minute, where systems go far",
        args.up_to
    ));
    let found = parallel::map(candidates, |candidate| {
        limits::boundary(candidate, experiment.data.train, args.up_to as usize)
    });
    found.into_iter().collect::<Result<_, _>>().map(Some)
}
