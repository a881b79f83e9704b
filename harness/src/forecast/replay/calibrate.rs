//! What a run's own steps cost, from what it recorded.
//!
//! Workers of a local run share the host's cores, so a recorded step took
//! longer than it would alone. A step's own cost is the one with which the
//! simulated run, on the run's machine and with its settings, has steps of the
//! recorded median: found by simulating.

use std::iter::repeat_n;

use epochcost_simulator::profile::{ModelCost, median};
use epochcost_systems::{Device, Job, StageSeconds, StepRecord};

use super::Replay;
use super::setting::{Setting, simulate};
use crate::analysis::{RowAnalysis, TrialAnalysis};
use crate::error::Error;
use crate::metering::Invocation;

/// Share of a step that more vCPUs speed up, which a run at one memory size does
/// not show: assumed, as for models of which an experiment states operations.
const PARALLEL: f64 = 0.9;
/// A forward pass is one third of a step's operations.
const FORWARD: f64 = 1.0 / 3.0;
/// How near the simulated median must come to the recorded one.
const NEAR: f64 = 0.01;
/// Simulations after which the last is taken.
const ATTEMPTS: usize = 8;
/// How much the clocks of the harness and of a worker may differ.
const CLOCKS_S: f64 = 1e-3;

/// What steps took, recorded or simulated.
#[derive(Clone, Copy, Default)]
struct Observed {
    /// Median seconds of computing one gradient.
    step_s: Option<f64>,
    /// Median seconds of evaluating one sample.
    evaluate_sample_s: Option<f64>,
    /// Median seconds that the first step of a new sandbox took longer.
    build_s: Option<f64>,
}

/// The cost of the row's steps on one vCPU of the run's machine.
///
/// # Errors
/// When no step computed a gradient, or a simulation could not be made.
pub(super) async fn cost(plan: &Replay, row: &RowAnalysis) -> Result<ModelCost, Error> {
    let job = &row.planned.row.job;
    let mut trials = Vec::new();
    for trial in row.succeeded() {
        trials.push((plan.run.steps(&trial.trial)?, trial));
    }
    let recorded: Vec<Trial<'_>> = trials
        .iter()
        .map(|(steps, trial)| Trial {
            steps,
            invocations: &trial.invocations,
        })
        .collect();
    let recorded = Observed::of(&recorded, job);
    if recorded.step_s.is_none() {
        return Err(Error::Usage {
            problem: format!("no step of {} recorded a gradient", row.planned.row.id),
            remedy: "name a compute profile with --compute".into(),
        });
    }
    let mut alone = recorded;
    for _ in 0..ATTEMPTS {
        let setting = Setting::recorded(plan, row, alone.cost(plan, row));
        let replayed = simulate(&setting, None).await?;
        let simulated = Observed::of(
            &[Trial {
                steps: &replayed.steps,
                invocations: &replayed.invocations,
            }],
            job,
        );
        if alone.approach(recorded, simulated) {
            break;
        }
    }
    Ok(alone.cost(plan, row))
}

impl Observed {
    fn of(trials: &[Trial<'_>], job: &Job) -> Self {
        let steps = trials.iter().flat_map(|trial| trial.steps);
        let steps = steps.flat_map(|step| repeat_n(step, step.alike as usize));
        let mut computed: Vec<&StepRecord> = steps
            .filter(|step| step.seconds.compute_gradients > 0.0)
            .collect();
        // A step that names no mini-batch computes all of an epoch, or has
        // functions compute them, whose own steps name theirs.
        let is_of_batches = computed.iter().any(|step| step.batch.is_some());
        computed.retain(|step| step.batch.is_some() || !is_of_batches);
        let batches = if is_of_batches {
            1
        } else {
            job.batches_per_worker
        };
        // One process that plays all workers computes their gradients in one step.
        let players = computed.iter().map(|step| step.rank + 1).max();
        let gradients = ((job.workers / players.unwrap_or(1)).max(1) * batches) as f64;
        let seconds = |of: fn(&StepRecord) -> f64| {
            let seconds: Vec<f64> = computed.iter().map(|step| of(step)).collect();
            median(&seconds)
        };
        let step_s = seconds(|step| step.seconds.compute_gradients);
        let usual_s = step_s.zip(seconds(|step| step.seconds.fetch_dataset));
        let builds = usual_s.map(|(step_s, fetch_s)| {
            let builds = trials
                .iter()
                .flat_map(|trial| trial.first_steps(is_of_batches));
            let builds: Vec<f64> = builds
                .map(|first| first.fetch_dataset + first.compute_gradients - step_s - fetch_s)
                .collect();
            builds
        });
        let evaluated = trials.iter().flat_map(|trial| trial.evaluations(job));
        Self {
            step_s: step_s.map(|seconds| seconds / gradients),
            evaluate_sample_s: median(&evaluated.collect::<Vec<f64>>()),
            build_s: builds
                .and_then(|builds| median(&builds))
                .map(|s| s.max(0.0)),
        }
    }

    /// Moves towards what gives `recorded` where this gave `simulated`; whether
    /// it gave it already.
    fn approach(&mut self, recorded: Self, simulated: Self) -> bool {
        let mut is_near = true;
        let mut approach =
            |own: &mut Option<f64>, recorded: Option<f64>, simulated: Option<f64>| {
                if let (Some(own), Some(recorded), Some(simulated)) = (own, recorded, simulated)
                    && simulated > 0.0
                {
                    let ratio = recorded / simulated;
                    is_near &= (ratio - 1.0).abs() < NEAR;
                    // Whoever shares cores takes longer: nothing takes longer alone.
                    *own = (*own * ratio).min(recorded);
                }
            };
        approach(&mut self.step_s, recorded.step_s, simulated.step_s);
        approach(
            &mut self.evaluate_sample_s,
            recorded.evaluate_sample_s,
            simulated.evaluate_sample_s,
        );
        approach(&mut self.build_s, recorded.build_s, simulated.build_s);
        is_near
    }

    /// The cost on one vCPU where these are the times alone at the row's share
    /// of one.
    fn cost(&self, plan: &Replay, row: &RowAnalysis) -> ModelCost {
        let (planned, job) = (&row.planned.row, &row.planned.row.job);
        let profile = plan.recorded_on.values();
        let vcpus = if row.on_functions() {
            profile.function.vcpus(planned.memory_mb).min(1.0)
        } else {
            1.0
        };
        let sample_s = self.step_s.unwrap_or(0.0) * vcpus / job.batch_size as f64;
        let peaks = row.succeeded().filter_map(TrialAnalysis::peak_memory_mb);
        let peak_mb = f64::from(peaks.max().unwrap_or(0));
        ModelCost {
            model: job.model.clone(),
            device: Device::Cpu,
            fixed_s: 0.0,
            sample_s,
            parallel: PARALLEL,
            evaluate_sample_s: (self.evaluate_sample_s)
                .map_or(FORWARD * sample_s, |seconds| seconds * vcpus),
            build_s: self.build_s.map_or(0.0, |seconds| seconds * vcpus),
            fixed_mb: (peak_mb - profile.function.resident_mb).max(0.0),
            sample_mb: 0.0,
            fit: None,
            fitted_to: None,
            carried: None,
            source: format!(
                "the steps that the run {} recorded, less what they waited for cores",
                plan.run.manifest().run_id
            ),
            date: plan.run.manifest().created.chars().take(10).collect(),
        }
    }
}

/// A trial's steps and invocations, recorded or simulated.
struct Trial<'a> {
    steps: &'a [StepRecord],
    invocations: &'a [Invocation],
}

impl Trial<'_> {
    /// Seconds of the first step of every cold invocation, of those that
    /// computed a gradient in it; `of_batches`, of one mini-batch.
    fn first_steps(&self, of_batches: bool) -> impl Iterator<Item = StageSeconds> + '_ {
        let cold = self.invocations.iter().filter(|call| call.cold);
        cold.flat_map(move |call| {
            let of_call = self.steps.iter().filter(|step| {
                step.function == call.function
                    && step.rank == call.rank
                    && (call.batch.is_none() || step.batch == call.batch)
                    && step.started_s >= call.started_s - CLOCKS_S
                    && step.started_s <= call.ended_s
            });
            let first = of_call.min_by(|a, b| a.started_s.total_cmp(&b.started_s));
            let computes = |first: &&StepRecord| first.seconds.compute_gradients > 0.0;
            let first = first.filter(computes);
            let first = first.filter(|first| first.batch.is_some() || !of_batches);
            let seconds = first.into_iter().map(|first| first.seconds);
            seconds.flat_map(|seconds| repeat_n(seconds, call.alike as usize))
        })
    }

    /// Seconds per test sample of every step that evaluated: what rank 0, which
    /// evaluates, takes for that stage and more than a tenth of its longest,
    /// so that polls of other workers do not count.
    fn evaluations<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = f64> + 'a {
        let samples = job.data.test_samples.max(1) as f64;
        let seconds = |step: &StepRecord| step.seconds.detect_convergence;
        let longest = self.steps.iter().map(seconds).fold(0.0, f64::max);
        let evaluating = self.steps.iter().filter(move |step| {
            let is_first = step.rank as u64 + 1 == step.alike;
            job.evaluates_after(step.epoch) && is_first && seconds(step) > 0.1 * longest
        });
        evaluating.map(move |step| seconds(step) / samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A build that a simulation hardly shows, as a difference of two steps, is no long one.
    #[test]
    fn nothing_takes_longer_alone_than_it_was_recorded_to() {
        let observed = |build_s| Observed {
            step_s: Some(0.5),
            evaluate_sample_s: None,
            build_s: Some(build_s),
        };
        let recorded = observed(0.02);
        let mut alone = recorded;
        for simulated in [1e-9, 1e-12, 0.04] {
            assert!(!alone.approach(recorded, observed(simulated)));
            assert!(alone.build_s.is_some_and(|build_s| build_s <= 0.02));
        }
        assert_eq!((alone.step_s, alone.build_s), (Some(0.5), Some(0.01)));
    }
}
