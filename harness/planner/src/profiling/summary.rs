//! Reduction of measurements to points and of points to a profile, and how far to trust it.

use std::fmt;

use epochcost_simulator::profile::{
    ComputeOrigin, ComputeProfile, Fit, Line, ModelCost, median, parallel_share,
};
use epochcost_spec::format::rounded;
use epochcost_systems::Device;
use serde::Serialize;

use super::measure::{Answer, Measurement, Setting, method};
use super::names;
use super::plan::Plan;
use crate::columns::table;
use crate::error::{Error, Result};

/// A process on one thread that got less of a core had to share it.
const WHOLE_CORE: f64 = 0.95;
/// Wall seconds below which CPU ticks of 10 ms do not resolve a share.
const CPU_RESOLVED_S: f64 = 0.5;
/// Rounds that differ by more were not measured under the same conditions.
const STEADY: f64 = 0.10;
/// Error from which a line is a poor description.
const POOR_FIT: f64 = 0.15;
/// Error from which a line describes nothing.
const WORST_ERROR: f64 = 0.30;
/// Share of the variance below which a line that misses times by more than a poor one
/// describes nothing.
const WORST_R_SQUARED: f64 = 0.9;

/// One point, over all its rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub(super) model: &'static str,
    pub(super) batch_size: usize,
    pub(super) threads: usize,
    /// Timed steps of all rounds.
    pub(super) steps: usize,
    /// Wall seconds per step: the median of the rounds' medians.
    pub(super) step_s: f64,
    /// The slowest round's median over the fastest one's, less 1.
    pub(super) spread: f64,
    /// CPU seconds per wall second, where the ticks resolve it.
    pub(super) cpus: Option<f64>,
    /// Wall seconds of evaluating one batch.
    pub(super) evaluate_s: f64,
    /// Wall seconds of building the model.
    pub(super) build_s: f64,
    /// Most memory resident in any round, MB.
    pub(super) peak_mb: f64,
    /// The part of it that was not there before the model, MB.
    pub(super) model_mb: f64,
}

/// The points of the measurements, in the order of their first rounds.
pub(super) fn points(measurements: &[Measurement]) -> Vec<Point> {
    let mut settings: Vec<Setting> = Vec::new();
    for measurement in measurements {
        if !settings.contains(&measurement.setting) {
            settings.push(measurement.setting);
        }
    }
    let point = |setting: Setting| {
        let rounds = measurements.iter().filter(|m| m.setting == setting);
        Point::of(setting, &rounds.collect::<Vec<_>>())
    };
    settings.into_iter().map(point).collect()
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (model, batch, threads) = (self.model, self.batch_size, self.threads);
        write!(f, "{model} at batch {batch} on {threads}")
    }
}

impl Point {
    fn of(setting: Setting, rounds: &[&Measurement]) -> Self {
        let all = |of: &dyn Fn(&Measurement) -> f64| -> Vec<f64> {
            rounds.iter().map(|round| of(round)).collect()
        };
        // A process times one step at least.
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let greatest = |values: Vec<f64>| values.into_iter().fold(0.0, f64::max);
        let step_s = all(&|round| middle(&round.answer.step_s));
        let sum = |of: fn(&Answer) -> &[f64]| -> f64 {
            let sums = rounds
                .iter()
                .map(|round| of(&round.answer).iter().sum::<f64>());
            sums.sum()
        };
        let (wall_s, cpu_s) = (
            sum(|answer| &answer.step_s),
            sum(|answer| &answer.step_cpu_s),
        );
        let fastest = step_s.iter().copied().fold(f64::INFINITY, f64::min);
        Self {
            model: setting.model,
            batch_size: setting.batch_size,
            threads: setting.threads,
            steps: rounds.iter().map(|round| round.answer.step_s.len()).sum(),
            step_s: middle(&step_s),
            spread: greatest(step_s) / fastest - 1.0,
            cpus: (wall_s >= CPU_RESOLVED_S).then(|| cpu_s / wall_s),
            evaluate_s: middle(&all(&|round| middle(&round.answer.evaluate_s))),
            build_s: middle(&all(&|round| round.answer.build_s)),
            peak_mb: greatest(all(&|round| round.answer.peak_mb)),
            model_mb: greatest(all(&|round| {
                round.answer.peak_mb - round.answer.resident_mb
            })),
        }
    }
}

/// The profile that the points give.
pub(super) fn profile(plan: &Plan, points: &[Point]) -> Result<ComputeProfile> {
    let source = source(plan, points);
    let cost = |model: &&'static str| cost(plan, model, points, &source);
    Ok(ComputeProfile {
        schema: 1,
        name: names::stem(&plan.out),
        about: match plan.device {
            Device::Cpu => format!(
                "{}, batches of {} on {} threads, computed on the CPU",
                names::machine(&plan.machine),
                names::listed(&plan.batches),
                names::listed(&plan.threads),
            ),
            Device::Cuda => format!(
                "{}, batches of {}, computed on the GPU of {}",
                names::listed(&plan.machine.gpus),
                names::listed(&plan.batches),
                names::machine(&plan.machine),
            ),
        },
        origin: ComputeOrigin::Measured,
        models: plan.models.iter().map(cost).collect::<Result<_, _>>()?,
    })
}

fn cost(plan: &Plan, model: &'static str, points: &[Point], source: &str) -> Result<ModelCost> {
    let unusable = || Error::Io {
        doing: format!("fit a line to the measurements of {model}"),
        source: std::io::Error::other("a time or a memory size is not positive"),
    };
    let own: Vec<&Point> = points.iter().filter(|p| p.model == model).collect();
    let single = own.iter().filter(|point| point.threads == 1);
    let times: Vec<_> = single.clone().map(|p| (p.batch_size, p.step_s)).collect();
    let time = Line::through(&times).ok_or_else(unusable)?;
    let memory = Line::through(&memory(plan, &own)).ok_or_else(unusable)?;
    let largest = single.clone().max_by_key(|point| point.batch_size);
    let largest = largest.ok_or_else(unusable)?;
    let builds: Vec<f64> = single.map(|point| point.build_s).collect();
    Ok(ModelCost {
        model: model.into(),
        device: plan.device,
        fixed_s: rounded(time.fixed),
        sample_s: rounded(time.per_sample),
        parallel: rounded(parallel(&own, largest).unwrap_or(0.0)),
        evaluate_sample_s: rounded(largest.evaluate_s / largest.batch_size as f64),
        build_s: rounded(median(&builds).ok_or_else(unusable)?),
        fixed_mb: rounded(memory.fixed),
        sample_mb: rounded(memory.per_sample),
        // Its worker steps optimizers on the CPU.
        vector_bytes_per_s: None,
        fit: Some(rounded_fit(&time.fit)),
        fitted_to: None,
        carried: None,
        source: source.into(),
        date: names::today(),
    })
}

/// Returns the quality of a fit, rounded as profiles have it.
pub(super) fn rounded_fit(fit: &Fit) -> Fit {
    Fit {
        points: fit.points,
        r_squared: rounded(fit.r_squared),
        largest_error: rounded(fit.largest_error),
    }
}

/// The most memory at each batch size: a function must hold the peak, on
/// however many threads.
fn memory(plan: &Plan, own: &[&Point]) -> Vec<(usize, f64)> {
    let most = |batch: usize| {
        let same = own.iter().filter(|point| point.batch_size == batch);
        same.map(|point| point.model_mb).fold(0.0, f64::max)
    };
    plan.batches.iter().map(|&b| (b, most(b))).collect()
}

/// Amdahl's share at the largest batch, from the most threads; `None` where all
/// points are of one thread.
fn parallel(own: &[&Point], single: &Point) -> Option<f64> {
    let same = own.iter().filter(|p| p.batch_size == single.batch_size);
    let most = same.max_by_key(|point| point.threads)?;
    parallel_share(single.step_s, most.step_s, most.threads)
}

fn source(plan: &Plan, points: &[Point]) -> String {
    let host = if plan.busy().is_some() || shared_cores(points).is_some() {
        "on a BUSY host, so the times are too long"
    } else {
        "on an idle host"
    };
    let spread = points.iter().map(|point| point.spread).fold(0.0, f64::max);
    format!(
        "measured {host} by `epochcost profile` {} on {}: batches of {} on {} threads, {}; rounds \
         differ by up to {:.0} %",
        env!("CARGO_PKG_VERSION"),
        names::machine(&plan.machine),
        names::listed(&plan.batches),
        names::listed(&plan.threads),
        method(plan.steps, plan.rounds),
        100.0 * spread
    )
}

/// Returns why a line is no description of a model's steps; none if it is one.
pub(super) fn bad_fit(model: &str, fit: &Fit) -> Option<Error> {
    // Times that hardly depend on the batch have little variance to explain.
    let is_unexplained = fit.r_squared < WORST_R_SQUARED && fit.largest_error > POOR_FIT;
    let is_bad = is_unexplained || fit.largest_error > WORST_ERROR;
    is_bad.then(|| Error::Lacks {
        what: format!(
            "the step times of {model} do not lie on a line (r² {:.2}, largest error {:.0} %): no \
             profile was written",
            fit.r_squared,
            100.0 * fit.largest_error
        ),
        remedy: "measure on an idle machine, more steps, or batch sizes that are further apart; \
                 --allow-bad-fit writes it all the same"
            .into(),
    })
}

/// Returns why a profile cannot be used, by the first model whose steps are on no line.
pub(super) fn bad_fits(profile: &ComputeProfile) -> Option<Error> {
    let fits = profile.models.iter();
    let mut fits = fits.filter_map(|cost| Some((&cost.model, cost.fit.as_ref()?)));
    fits.find_map(|(model, fit)| bad_fit(model, fit))
}

/// Doubts that the measurements themselves raise: a line for each way in
/// which something else on the machine shows, with the worst point.
pub(super) fn warnings(points: &[Point]) -> Vec<String> {
    let uneven = worst(points, |point| Some(point.spread), STEADY);
    let uneven = uneven.map(|(count, point, spread)| {
        format!(
            "the rounds of {count} of {} points differ by more than {:.0} %, those of {point} \
             most ({:.0} %); measure again on an idle machine, or with more --rounds",
            points.len(),
            100.0 * STEADY,
            100.0 * spread
        )
    });
    shared_cores(points).into_iter().chain(uneven).collect()
}

/// Returns a warning if a process on one thread got less than one core.
fn shared_cores(points: &[Point]) -> Option<String> {
    let missing = |point: &Point| Some(1.0 - point.cpus.filter(|_| point.threads == 1)?);
    let (count, point, missing) = worst(points, missing, 1.0 - WHOLE_CORE)?;
    Some(format!(
        "{count} of {} points had to share their core, {point} most (it got {:.0} %): the times \
         are too long; measure again on an idle machine",
        points.len(),
        100.0 * (1.0 - missing)
    ))
}

/// How many points pass the limit, the one that does most, and by how much.
fn worst(
    points: &[Point],
    of: impl Fn(&Point) -> Option<f64>,
    limit: f64,
) -> Option<(usize, &Point, f64)> {
    let passing = points.iter().filter_map(|point| Some((point, of(point)?)));
    let passing: Vec<_> = passing.filter(|(_, value)| *value > limit).collect();
    let (point, value) = passing.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((passing.len(), point, *value))
}

/// What the profile lacks, or describes badly.
pub(super) fn doubts(plan: &Plan, profile: &ComputeProfile) -> Vec<String> {
    let mut doubts = Vec::new();
    if plan.batches.len() == 1 {
        doubts.push(
            "one batch size does not show a step's fixed part, which is written as 0; give two or \
             more with --batch"
                .into(),
        );
    }
    if plan.threads.len() == 1 && plan.device == Device::Cpu {
        doubts.push(
            "one number of threads does not show what more of them gain, which is written as \
             nothing (parallel: 0); give more with --threads"
                .into(),
        );
    }
    for cost in &profile.models {
        let error = cost.fit.as_ref().map_or(0.0, |fit| fit.largest_error);
        if error > POOR_FIT {
            doubts.push(format!(
                "{}: a line misses its step times by up to {:.0} %; measure the batch sizes that \
                 you will simulate",
                cost.model,
                100.0 * error
            ));
        }
    }
    doubts
}

/// The points for people.
pub(super) fn points_table(points: &[Point]) -> String {
    let spread = |point: &Point| format!("{:.1} %", 100.0 * point.spread);
    let cpus = |cpus: Option<f64>| cpus.map_or("-".to_owned(), |cpus| format!("{cpus:.2}"));
    table(
        points,
        [
            ("model", &|point| point.model.to_owned()),
            ("batch", &|point| point.batch_size.to_string()),
            ("threads", &|point| point.threads.to_string()),
            ("steps", &|point| point.steps.to_string()),
            ("step s", &|point| format!("{:.5}", point.step_s)),
            ("spread of rounds", &spread),
            ("CPUs", &|point| cpus(point.cpus)),
            ("peak MB", &|point| format!("{:.0}", point.peak_mb)),
        ],
    )
}
