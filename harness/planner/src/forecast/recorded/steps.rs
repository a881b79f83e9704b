//! What a run's own steps cost, from what it recorded.
//!
//! Workers of a local run share the host's cores, so a recorded step took longer than it would alone. A
//! step's own cost is the one with which the simulated row, on the run's machine, has steps of the
//! recorded median: found by simulating.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::Arc;

use epochcost_judge::analysis::{RowAnalysis, TrialAnalysis};
use epochcost_platform::sim::{Sim, time};
use epochcost_record::steps;
use epochcost_simulator::Recorded;
use epochcost_simulator::profile::{
    Client, ComputeOrigin, ComputeProfile, Line, ModelCost, median,
};
use epochcost_spec::format::rounded;
use epochcost_spec::metering::Invocation;
use epochcost_spec::rows::Simulation;
use epochcost_systems::{Device, Job, StageSeconds, StepRecord};

use super::RecordedRun;
use crate::error::{Error, Result};
use crate::forecast::parallel;

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

/// Median seconds, recorded or simulated: of computing one gradient, of evaluating one sample, and by which the
/// first step of a new sandbox took longer.
#[derive(Clone, Copy, Default)]
struct Observed([Option<f64>; 3]);

impl RecordedRun {
    /// Returns what the run's steps cost on one vCPU of its machine, a cost for each model.
    ///
    /// # Errors
    /// When no step computed a gradient, or a simulation could not be made.
    pub(super) fn steps(&self) -> Result<ComputeProfile> {
        let costs = parallel::try_map(&self.rows, |row| self.row_cost(row))?;
        let mut by_model: BTreeMap<String, Vec<(usize, ModelCost)>> = BTreeMap::new();
        for (batch, cost) in costs.into_iter().flatten() {
            let own = by_model.entry(cost.model.clone()).or_default();
            own.push((batch, cost));
        }
        if by_model.is_empty() {
            return Err(Error::Usage {
                problem: format!(
                    "no step of the run {} computed a gradient",
                    self.directory.manifest().run_id
                ),
                remedy: "name a compute profile with --compute, or another run".into(),
            });
        }
        let costs = by_model.into_values().filter_map(|costs| of_model(&costs));
        Ok(profile(costs.collect()))
    }

    /// Returns a row's batch size, and what its steps cost; none where no step computed a gradient.
    fn row_cost(&self, row: &RowAnalysis) -> Result<Option<(usize, ModelCost)>> {
        let job = &row.planned.row.job;
        let trials = row
            .succeeded()
            .map(|trial| Ok((self.directory.steps(&trial.trial)?, trial)));
        let trials: Vec<_> = trials.collect::<Result<_>>()?;
        let recorded = trials.iter().map(|(steps, trial)| Trial {
            steps,
            invocations: &trial.invocations,
        });
        let recorded = Observed::of(&recorded.collect::<Vec<_>>(), job);
        let (Some(_), Some((steps, first))) = (recorded.0[0], trials.first()) else {
            return Ok(None);
        };
        let values = first.trial.values(steps);
        let mut alone = recorded;
        for _ in 0..ATTEMPTS {
            let simulated = self.simulated(row, alone.cost(self, row), &values)?;
            if alone.approach(recorded, simulated) {
                break;
            }
        }
        Ok(Some((job.batch_size, alone.cost(self, row))))
    }

    /// Returns what a row's steps take where they cost this.
    fn simulated(
        &self,
        row: &RowAnalysis,
        cost: ModelCost,
        values: &Arc<Recorded>,
    ) -> Result<Observed> {
        let plan = Self::plan(row);
        let stands = Simulation {
            profile: self.machine.clone(),
            client: Client::default(),
            compute: vec![profile(vec![cost])],
            limits: true,
            real_compute: false,
            sample: false,
            draws: 0,
        };
        let simulation = Sim::new(stands, None).describe(&plan)?;
        let outcome = time(&simulation, Some(Arc::clone(values)))?;
        let trial = Trial {
            steps: &steps(&outcome).cloned().collect::<Vec<_>>(),
            invocations: &outcome.invocations,
        };
        Ok(Observed::of(&[trial], &plan.row.job))
    }
}

/// Returns what a model's steps cost, from the costs of rows that train it: the line through those of their
/// batches, medians, and the least memory, since what a system holds beside is its own.
fn of_model(rows: &[(usize, ModelCost)]) -> Option<ModelCost> {
    let rows_of = rows.iter();
    let points = rows_of.map(|(batch, cost)| (*batch, *batch as f64 * cost.sample_s));
    let line = Line::through(&points.collect::<Vec<_>>())?;
    let all = |of: fn(&ModelCost) -> f64| rows.iter().map(move |(_, cost)| of(cost));
    let middle = |of| median(&all(of).collect::<Vec<f64>>()).unwrap_or(0.0);
    Some(ModelCost {
        fixed_s: rounded(line.fixed),
        sample_s: rounded(line.per_sample),
        evaluate_sample_s: rounded(middle(|cost| cost.evaluate_sample_s)),
        build_s: rounded(middle(|cost| cost.build_s)),
        fixed_mb: all(|cost| cost.fixed_mb).fold(f64::INFINITY, f64::min),
        ..rows.first()?.1.clone()
    })
}

/// Returns a compute profile of recorded costs.
fn profile(models: Vec<ModelCost>) -> ComputeProfile {
    ComputeProfile {
        schema: 1,
        name: "recorded".into(),
        about: "steps as the run recorded them".into(),
        origin: ComputeOrigin::Measured,
        models,
    }
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
            let firsts = (trials.iter()).flat_map(|trial| trial.first_steps(is_of_batches));
            let longer = |first: StageSeconds| {
                first.fetch_dataset + first.compute_gradients - step_s - fetch_s
            };
            firsts.map(longer).collect::<Vec<f64>>()
        });
        let evaluated = trials.iter().flat_map(|trial| trial.evaluations(job));
        Self([
            step_s.map(|seconds| seconds / gradients),
            median(&evaluated.collect::<Vec<f64>>()),
            (builds.and_then(|builds| median(&builds))).map(|s| s.max(0.0)),
        ])
    }

    /// Moves towards what gives `recorded` where this gave `simulated`; whether
    /// it gave it already.
    fn approach(&mut self, recorded: Self, simulated: Self) -> bool {
        let mut is_near = true;
        for ((own, recorded), simulated) in self.0.iter_mut().zip(recorded.0).zip(simulated.0) {
            if let (Some(own), Some(recorded), Some(simulated)) = (own, recorded, simulated)
                && simulated > 0.0
            {
                let ratio = recorded / simulated;
                is_near &= (ratio - 1.0).abs() < NEAR;
                // Whoever shares cores takes longer: nothing takes longer alone.
                *own = (*own * ratio).min(recorded);
            }
        }
        is_near
    }

    /// The cost on one vCPU where these are the times alone at the row's share
    /// of one.
    fn cost(&self, run: &RecordedRun, row: &RowAnalysis) -> ModelCost {
        let (planned, job) = (&row.planned.row, &row.planned.row.job);
        let profile = run.machine.values();
        let vcpus = if row.on_functions() {
            profile.function.vcpus(planned.memory_mb).min(1.0)
        } else {
            1.0
        };
        let [step_s, evaluate_sample_s, build_s] = self.0.map(|s| s.map(|seconds| seconds * vcpus));
        let sample_s = step_s.unwrap_or(0.0) / job.batch_size as f64;
        let peaks = row.succeeded().filter_map(TrialAnalysis::peak_memory_mb);
        let peak_mb = f64::from(peaks.max().unwrap_or(0));
        ModelCost {
            model: job.model.clone(),
            device: Device::Cpu,
            fixed_s: 0.0,
            sample_s,
            parallel: PARALLEL,
            evaluate_sample_s: evaluate_sample_s.unwrap_or(FORWARD * sample_s),
            build_s: build_s.unwrap_or(0.0),
            fixed_mb: (peak_mb - profile.function.resident_mb).max(0.0),
            sample_mb: 0.0,
            vector_bytes_per_s: None,
            fit: None,
            fitted_to: None,
            carried: None,
            source: format!(
                "the steps that the run {} recorded, less what they waited for cores",
                run.directory.manifest().run_id
            ),
            date: (run.directory.manifest().created.chars().take(10)).collect(),
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
            let first = first.filter(|first| {
                first.seconds.compute_gradients > 0.0 && (first.batch.is_some() || !of_batches)
            });
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
    use epochcost_spec::profiles;

    use super::*;

    /// Steps of two batch sizes show what does not grow with the batch.
    #[test]
    fn rows_of_a_model_have_one_cost() {
        let row = |batch: usize, step_s: f64, peak_mb: f64| {
            let cost = ModelCost {
                sample_s: step_s / batch as f64,
                fixed_mb: peak_mb,
                ..profiles::compute("laptop").unwrap().models[0].clone()
            };
            (batch, cost)
        };
        let both = of_model(&[row(8, 0.3, 90.0), row(32, 0.9, 70.0)]).unwrap();
        let is_near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(is_near(both.fixed_s, 0.1) && is_near(both.sample_s, 0.025));
        assert_eq!(both.fixed_mb, 70.0);
        let one = of_model(&[row(8, 0.3, 90.0), row(8, 0.3, 90.0)]).unwrap();
        assert!(one.fixed_s == 0.0 && is_near(one.sample_s, 0.3 / 8.0));
        assert!(of_model(&[]).is_none());
    }

    /// A build that a simulation hardly shows, as a difference of two steps, is no long one.
    #[test]
    fn nothing_takes_longer_alone_than_it_was_recorded_to() {
        let observed = |build_s| Observed([Some(0.5), None, Some(build_s)]);
        let recorded = observed(0.02);
        let mut alone = recorded;
        for simulated in [1e-9, 1e-12, 0.04] {
            assert!(!alone.approach(recorded, observed(simulated)));
            assert!(alone.0[2].is_some_and(|build_s| build_s <= 0.02));
        }
        assert_eq!(alone.0, [Some(0.5), None, Some(0.01)]);
    }
}
