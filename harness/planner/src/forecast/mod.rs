//! Forecasts: what an experiment would take, before anything runs.
//!
//! Every row is simulated with sizes only, whatever platform the experiment
//! names: no dataset, no worker and no account is needed. A recorded run is planned on its
//! machine with its own steps, and compared with its simulation ([`validate`]).

mod activity;
mod alone;
mod answer;
mod cloud;
#[cfg(test)]
#[path = "tests/described.rs"]
mod described;
mod epochs;
mod estimate;
mod frontier;
mod limits;
mod map;
mod memory;
mod misses;
mod on_account;
mod page;
pub mod parallel;
mod places;
mod recorded;
mod rows;
#[cfg(test)]
#[path = "tests/sentences.rs"]
mod sentences;
mod sweep;
mod text;
mod uncertainty;
pub mod validate;
mod work;

use std::path::Path;
use std::time::Instant;

use epochcost_experiment::{Document, Experiment, ExperimentError, Options, PlatformKind, named};
use epochcost_judge::analysis::answer::unranked;
use epochcost_platform::{RowUsage, simulator};
use epochcost_record::{SchemaVersion, SimulationRecord};
use epochcost_spec::cost::{self, CostModel, PriceBook, PriceBookError};
use epochcost_spec::rows::Simulation;
use epochcost_spec::shipped;
use epochcost_spec::ui::Output;
use epochcost_spec::yaml::overrides::Given;
use serde::Serialize;

use self::activity::Activity;
use self::answer::Answer;
use self::estimate::has_functions;
use self::limits::Boundary;
use self::memory::Cheapest;
use self::on_account::Machine;
use self::recorded::RecordedRun;
use self::rows::{Candidate, PlannedRow};
use self::uncertainty::Uncertainty;
use self::work::{Rounded, UnusedCompute};
use crate::error::{Error, Result};

/// The version of the format of a forecast.
const FORECAST_VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 8 };

pub use self::answer::{Goal, read_seconds};
pub use self::limits::LimitSearch;
pub use self::map::{Best, Cell, Kind, Map, MapRequest, Mark, Shift, Shifts, map, shifts};
pub use self::on_account::{OnAccount, on_account};
pub use self::places::Place;
pub use self::recorded::{disagreement, is_run, recorded_steps};
pub use self::uncertainty::Percentiles;
pub use self::validate::Validation;
pub use self::work::Work;

/// What is forecast, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The experiment file, or the directory of a recorded local run.
    pub experiment: &'a Path,
    /// Assignments to its fields, as `--set` takes them.
    pub set: &'a [String],
    /// Fields and the values that they are swept over, as `FIELD=VALUES`.
    pub sweep: &'a [String],
    /// How much is trained, in the place of the experiment's.
    pub work: Option<Work>,
    /// The deadline and budget that an answer is searched for; none without one.
    pub goal: Option<Goal>,
    /// Places that the answer is searched at, by name or file; all shipped ones if empty.
    pub places: &'a [String],
    /// Whether settings that take fewer optimizer steps than the experiment may be the answer.
    pub any_steps: bool,
    /// Whether the experiment's own rows are planned, too, where an answer is searched for.
    pub with_rows: bool,
    /// The platform profile, by name or file, in the place of the experiment's.
    pub profile: Option<&'a str>,
    /// Compute profiles, by name or file, in the place of the experiment's.
    pub compute: &'a [String],
    /// Cost model of the frontier and the cheapest memory.
    pub account: CostModel,
    /// Whether the cheapest memory size of each row's functions is searched for.
    pub cheapest_memory: bool,
    /// The search for limits, if they are searched for.
    pub limits: Option<LimitSearch>,
    /// Samples of the constants' ranges, if intervals are asked for.
    pub sampling: Option<Sampling>,
    /// Platform that the experiment would run on; where that costs money, its
    /// resources and the worst case are part of the forecast.
    pub platform: Option<PlatformKind>,
    /// Repetitions of each row on that platform, in the place of the experiment's.
    pub trials: Option<usize>,
    /// The price book, in the place of the shipped one.
    pub prices: Option<&'a Path>,
}

impl Request<'_> {
    /// Returns whether the experiment's own rows are part of the forecast: without a goal they are
    /// all of it.
    fn plans_rows(&self) -> bool {
        self.goal.is_none() || self.with_rows
    }
}

/// Samples of the constants' ranges.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Simulations of each row.
    pub samples: u32,
    /// Seed that the samples are drawn from.
    pub seed: u64,
}

/// What an experiment would take. Every figure in it is simulated.
#[derive(Serialize)]
pub struct Forecast {
    /// The format's version.
    schema_version: SchemaVersion,
    /// The experiment's name.
    experiment: String,
    /// Cost model of the frontier and the cheapest memory.
    account: CostModel,
    /// Whether rows train different numbers of samples, so that the frontier
    /// compares seconds and dollars per sample.
    frontier_by_sample: bool,
    /// Why no row is called fastest or cheapest, where the experiment compares them at an accuracy.
    unranked: Option<String>,
    /// Samples of the experiment's rows that are not those that were asked for.
    samples_rounded: Vec<Rounded>,
    /// Where to train under the goal, if there is one.
    answer: Option<Answer>,
    /// What every figure stands on.
    simulation: SimulationRecord,
    /// Region and day of the prices.
    #[serde(skip)]
    priced: String,
    /// What the platform profiles miss by, in sentences.
    #[serde(skip)]
    misses: Vec<String>,
    /// Compute profiles that were named and that no row uses.
    unused_compute: Vec<UnusedCompute>,
    /// One for each system and combination of swept values.
    rows: Vec<PlannedRow>,
    /// The cheapest memory sizes, if they were asked for.
    cheapest_memory: Option<Vec<Cheapest>>,
    /// How far rows scale, if it was asked for.
    limits: Option<Vec<Boundary>>,
    /// Seconds of real time that their search was given.
    limits_within_s: Option<f64>,
    /// Intervals, if they were asked for.
    uncertainty: Option<Uncertainty>,
    /// What it would create on a cloud and cost at most, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    aws: Option<serde_json::Value>,
    /// The same, for people.
    #[serde(skip)]
    on_cloud: Option<String>,
    /// Most workers that limits were searched for on.
    #[serde(skip)]
    limits_up_to: Option<u32>,
}

/// Forecasts an experiment. Rows that are infeasible, or cannot be run at all, are
/// part of the result.
///
/// # Errors
/// When the experiment or a profile cannot be used, or no row can be run.
pub fn forecast(request: &Request<'_>, output: Output) -> Result<Forecast> {
    let mut experiment = load(request)?;
    let opponents = alone::rows(&experiment)?;
    experiment.rows.extend(opponents);
    let experiment = experiment;
    let stands = simulation_of(&experiment)?;
    if let Some(idle) = experiment.idle_fields() {
        output.message(format_args!("note: {idle}"));
    }
    let prices = match &experiment.prices {
        Some(prices) => prices.clone(),
        None => price_book(None)?,
    };
    let stale = prices.stale(jiff::Zoned::now().date());
    if let Some(warning) = stale.filter(|_| request.prices.is_some()) {
        output.message(format_args!("warning: {warning}"));
    }
    let (name, began) = (&experiment.name, Instant::now());
    let part = if request.plans_rows() {
        match experiment.rows.len() {
            1 => format!("simulating the row of {name}"),
            rows => format!("simulating the {rows} rows of {name}"),
        }
    } else {
        format!("looking for places to train {name}")
    };
    let activity = Activity::begin(output, part);
    let (candidates, mut rows) = if request.plans_rows() {
        let planned = planned(&experiment, stands, &prices)?;
        let took_s = began.elapsed().as_secs_f64();
        activity.detail(format_args!(
            "rows and their smallest memory: {took_s:.2} s"
        ));
        planned
    } else {
        Default::default()
    };
    let on_cloud = on_cloud(request, &experiment, &rows, &prices, output)?;
    if request.plans_rows() {
        for refused in &experiment.impossible {
            let row = PlannedRow::impossible(&refused.row, stands, refused.reason.clone());
            rows.insert(refused.index.min(rows.len()), row);
        }
    }
    let uncertainty = (request.sampling)
        .map(|sampling| {
            let samples = sampling.samples;
            activity.now(format_args!("simulating each row {samples} times"));
            uncertainty::uncertainty(&candidates, stands, sampling, &prices)
        })
        .transpose()?;
    if let Some(uncertainty) = &uncertainty {
        uncertainty.centre(&mut rows);
    }
    rows::name(&mut rows);
    let frontier_by_sample = rows::mark_frontier(&mut rows, request.account);
    let answer = (request.goal)
        .map(|goal| answer::answer(request, goal, &experiment, stands, &prices, &activity))
        .transpose()?;
    let cheapest_memory = if request.cheapest_memory {
        activity.now("searching the cheapest memory of each row");
        let found = cheapest_memory(request, &candidates, &rows, stands, &prices)?;
        Some(found)
    } else {
        None
    };
    drop(activity);
    let forecast = Forecast {
        schema_version: FORECAST_VERSION,
        experiment: experiment.name.clone(),
        priced: format!("{}, {}", prices.region(), prices.date()),
        misses: match &answer {
            None => misses::sentences(stands, std::iter::empty()),
            Some(answer) => answer.misses(stands, &places::laid(request.places, stands)?.sites),
        },
        unranked: unranked(&experiment.claims),
        answer,
        account: request.account,
        frontier_by_sample,
        samples_rounded: work::rounded(&experiment),
        simulation: SimulationRecord::of(stands, &experiment.rows),
        unused_compute: work::unused_compute(&experiment, stands, output),
        cheapest_memory,
        limits: (request.limits).map(|search| {
            let samples = experiment.data.train;
            limits::boundaries(search, &candidates, &prices, samples, output)
        }),
        limits_within_s: request.limits.map(|search| search.within.as_secs_f64()),
        limits_up_to: request.limits.map(|search| search.up_to),
        uncertainty,
        aws: on_cloud.as_ref().map(|on_cloud| on_cloud.json.clone()),
        on_cloud: on_cloud.map(|on_cloud| on_cloud.text),
        rows,
    };
    if request.plans_rows() {
        say_pace(&forecast, output);
    }
    Ok(forecast)
}

/// Returns the rows that can be simulated, and what every row is expected to take,
/// in the experiment's order.
///
/// # Errors
/// When none can be simulated, or none has a price.
fn planned(
    experiment: &Experiment,
    stands: &Simulation,
    prices: &PriceBook,
) -> Result<(Vec<Candidate>, Vec<PlannedRow>)> {
    let candidates = rows::candidates(experiment, stands)?;
    let planned = parallel::map(&candidates, |candidate| match candidate {
        Ok(candidate) => rows::plan(candidate, stands, prices).map(Some),
        Err(_) => Ok(None),
    });
    let planned = rows::some_of(planned, &experiment.rows, stands)?;
    let (mut known, mut rows) = (Vec::new(), Vec::new());
    for (candidate, planned) in candidates.into_iter().zip(planned) {
        match (candidate, planned) {
            (Err(impossible), _) | (_, Err(impossible)) => rows.push(*impossible),
            (Ok(candidate), Ok(planned)) => {
                known.push(candidate);
                rows.extend(planned);
            }
        }
    }
    Ok((known, rows))
}

impl Forecast {
    /// Returns whether there is a goal that no setting keeps.
    pub fn is_unmet(&self) -> bool {
        self.answer.as_ref().is_some_and(Answer::is_unmet)
    }

    /// Returns the forecast as tables for people; with `verbose`, every line
    /// item of both bills.
    pub fn text(&self, verbose: bool) -> String {
        let text = text::of(self, verbose);
        match &self.on_cloud {
            Some(on_cloud) => format!("{text}\n\n{on_cloud}"),
            None => text,
        }
    }
}

/// Reads and checks a place, by name or file.
///
/// # Errors
/// When there is no such place, or it cannot be used.
pub fn check_place(name: &str) -> Result<()> {
    places::sites(&[name.to_owned()]).map(drop)
}

/// Reads a price book; the shipped one, if there is no path.
///
/// # Errors
/// When it cannot be read or is malformed.
pub fn price_book(path: Option<&Path>) -> Result<PriceBook> {
    let Some(path) = path else {
        return Ok(PriceBook::shipped()?);
    };
    let file = path.display().to_string();
    let text = shipped::read_to_string(path).map_err(|error| Error::Usage {
        problem: format!("failed to read the price book {file}: {error}"),
        remedy: "write one with `epochcost aws prices refresh --out FILE`".to_owned(),
    })?;
    PriceBook::parse(&file, &text).map_err(|error| match error {
        PriceBookError::Unusable { problem, remedy } => Error::Usage { problem, remedy },
        missing => missing.into(),
    })
}

/// Refuses an experiment with a row that bills of `prices`, of the shipped book if there is no
/// other, cannot be made of.
///
/// # Errors
/// Names every price that is missing.
pub fn priced(experiment: &Experiment, prices: Option<&PriceBook>) -> Result<()> {
    let prices = prices.map_or_else(PriceBook::shipped, |prices| Ok(prices.clone()))?;
    let simulation = experiment.simulation.as_ref();
    let function_price =
        simulation.and_then(|simulation| simulation.profile.function_price.as_deref());
    let needed = (experiment.rows.iter()).flat_map(|row| cost::dimensions(row, function_price));
    Ok(prices.prices_all(needed)?)
}

/// Returns what the possible rows would create and cost, if they would run where
/// that costs money.
fn on_cloud(
    request: &Request<'_>,
    experiment: &Experiment,
    rows: &[PlannedRow],
    prices: &PriceBook,
    output: Output,
) -> Result<Option<cloud::OnCloud>> {
    let is_cloud = |platform: &PlatformKind| platform.site().is_cloud();
    let Some(platform) = request.platform.filter(is_cloud) else {
        return Ok(None);
    };
    // Undecided claims may add trials where the file says so.
    let adds = (experiment.most_trials > experiment.trials).then_some(experiment.most_trials);
    let trials = request.trials.unwrap_or(experiment.trials);
    let trials = trials.max(adds.unwrap_or_default());
    let used = cloud::usage(platform, experiment, rows, trials, output);
    cloud::on_cloud(platform, &used, prices)
}

/// Returns what the possible rows of an experiment will use where it runs, as a
/// simulation computes it.
///
/// # Errors
/// When a row cannot be simulated.
pub fn usage(experiment: &Experiment, prices: &PriceBook, output: Output) -> Result<Vec<RowUsage>> {
    let options = Options {
        prices: Some(prices.clone()),
        ..on_simulator()
    };
    let simulated = Experiment::from_document(experiment.document.clone(), &options)?;
    let (candidates, rows) = planned(&simulated, simulation_of(&simulated)?, prices)?;
    // What is announced and what expires cover the trials that undecided claims may add.
    let (platform, trials) = (experiment.platform, experiment.most_trials);
    let mut used = cloud::usage(platform, experiment, &rows, trials, output);
    for row in &mut used {
        if let Some(simulated) = candidates.iter().find(|one| one.row.id == row.row.id)
            && let Some(machine) = Machine::of(&row.row, simulated, prices)?
        {
            // Its boot is paid for; the trial's limits begin behind it.
            (_, row.usd) = machine.takes(row.seconds);
        }
    }
    Ok(used)
}

/// How fast simulations went, on one core each.
fn say_pace(forecast: &Forecast, output: Output) {
    let known = || forecast.rows.iter().filter_map(|row| row.estimate.as_ref());
    let events: u64 = known().map(|estimate| estimate.events).sum();
    let took: f64 = known().map(|estimate| estimate.took.as_secs_f64()).sum();
    output.message(format_args!(
        "simulated {events} events in {took:.2} s, {:.1} million a second on one core",
        events as f64 / took.max(1e-9) / 1e6
    ));
}

/// The experiment as it would be simulated, with the options laid over it.
fn load(request: &Request<'_>) -> Result<Experiment> {
    let run = is_run(request.experiment).then(|| RecordedRun::open(request.experiment));
    let run = run.transpose()?;
    let mut document = match &run {
        Some(run) => run.document(request.profile)?,
        None => named::read(request.experiment)?,
    };
    document.refuse_twice(&given(request))?;
    for sweep in request.sweep {
        sweep::lay(&mut document, sweep)?;
    }
    if let Some(work) = request.work {
        work.lay(&mut document)?;
    }
    work::ask(&document, request.set)?;
    let trains = (document.root.get("simulation")).and_then(|node| node.get("real_compute"));
    if trains.is_some() {
        // Planning is about sizes, whatever the experiment trains for later.
        document.set_option("plan", "simulation.real_compute", "false")?;
    }
    let prices = request.prices.map(|path| price_book(Some(path)));
    let options = Options {
        prices: prices.transpose()?,
        set: request.set.to_vec(),
        keeps_impossible: true,
        ..on_simulator()
    };
    let (profile, compute) = (request.profile, request.compute);
    if let Some(run) = run {
        return run.experiment(document, &options, profile, compute);
    }
    on_profiles(&mut document, profile, compute)?;
    Ok(Experiment::from_document(document, &options)?)
}

/// Returns the fields that options give, in the order in which they are laid over the experiment.
fn given(request: &Request<'_>) -> Vec<Given> {
    let named = |path: &str, option: String| Given {
        path: path.to_owned(),
        option,
    };
    let sweeps = request.sweep.iter().filter_map(|sweep| {
        let (field, _) = sweep.split_once('=')?;
        Some(named(&format!("sweep.{field}"), format!("--sweep {sweep}")))
    });
    let work = request.work.map(|work| match work {
        Work::Samples(count) => named("samples", format!("--samples {count}")),
        Work::Epochs(count) => named("epochs", format!("--epochs {count}")),
    });
    let profile = (request.profile)
        .map(|profile| named("simulation.profile", format!("--profile {profile}")));
    let compute = (request.compute.first())
        .map(|compute| named("simulation.compute", format!("--compute {compute}")));
    let laid = work.into_iter().chain(profile).chain(compute);
    let sets = request.set.iter().filter_map(|set| Given::set(set));
    sweeps.chain(laid).chain(sets).collect()
}

/// Lays profiles over an experiment's own.
fn on_profiles(
    document: &mut Document,
    profile: Option<&str>,
    compute: &[String],
) -> Result<(), ExperimentError> {
    if let Some(profile) = profile {
        let option = format!("--profile {profile}");
        document.set_option(&option, "simulation.profile", &quoted(profile))?;
    }
    if !compute.is_empty() {
        let names: Vec<String> = compute.iter().map(|name| quoted(name)).collect();
        let option = format!("--compute {}", compute.join(" --compute "));
        let list = format!("[{}]", names.join(", "));
        document.set_option(&option, "simulation.compute", &list)?;
    }
    Ok(())
}

fn cheapest_memory(
    request: &Request<'_>,
    candidates: &[Candidate],
    rows: &[PlannedRow],
    stands: &Simulation,
    prices: &PriceBook,
) -> Result<Vec<Cheapest>> {
    let seed = (request.sampling).map_or(uncertainty::SEED, |sampling| sampling.seed);
    let functions = candidates.iter().filter(|one| has_functions(&one.row));
    parallel::try_map(&functions.collect::<Vec<_>>(), |candidate| {
        let Candidate { row, simulation } = candidate;
        let planned = rows.iter().find(|planned| planned.id == row.id);
        let smallest = planned.and_then(|planned| planned.smallest_memory_mb);
        let holds = |mb| uncertainty::holds(candidate, mb, stands, seed, prices);
        memory::cheapest(row, simulation, smallest, request.account, prices, holds)
    })
}

/// Returns the simulation of an experiment that was loaded for the simulator.
fn simulation_of(experiment: &Experiment) -> Result<&Simulation> {
    let lacking = || Error::NothingSelected("no simulation".into());
    experiment.simulation.as_ref().ok_or_else(lacking)
}

/// Returns the options of an experiment on the simulator.
fn on_simulator() -> Options {
    Options {
        platform: Some(simulator()),
        ..Options::default()
    }
}

/// Returns a text as a value of YAML.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
