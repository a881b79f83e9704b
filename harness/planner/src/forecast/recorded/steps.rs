//! What a run's own steps cost, from what it recorded.
//!
//! Workers of a local run share the host's cores, so a recorded step took longer than it would alone. A
//! step's own cost is the one with which the simulated row, on the run's machine, has steps of the
//! recorded median: found by simulating, within what its CPU seconds allow. A load that the simulation does
//! not know would else be part of a step, and what it makes of steps that overlap would be taken off them.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::Arc;

use epochcost_judge::analysis::{RowAnalysis, TrialAnalysis};
use epochcost_platform::sim::{Sim, time};
use epochcost_record::steps;
use epochcost_simulator::Recorded;
use epochcost_simulator::profile::{
    Client, ComputeOrigin, ComputeProfile, Fit, Line, ModelCost, median,
};
use epochcost_spec::format::{percent, rounded};
use epochcost_spec::metering::Invocation;
use epochcost_spec::rows::Simulation;
use epochcost_systems::{DataLayout, Device, Job, Stage, StageSeconds, StepRecord};

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
/// Difference of a measurement from a profile's steps from which it is said.
const FAR: f64 = 0.25;
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
            let run = &self.directory.manifest().run_id;
            return Err(Error::Usage {
                problem: format!("no step of the run {run} computed a gradient"),
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
        let recorded = recorded.collect::<Vec<_>>();
        // What a GPU computed is not in the processor's seconds.
        let is_on_cpu = trials.iter().all(|(_, trial)| trial.trial.gpus.is_empty());
        let used = is_on_cpu.then(|| Observed::used(&recorded, job));
        let (recorded, used) = (Observed::of(&recorded, job), used.unwrap_or_default());
        let (Some(_), Some((steps, first))) = (recorded.0[0], trials.first()) else {
            return Ok(None);
        };
        let values = first.trial.values(steps);
        let bounds = self.bounds(row, recorded, used);
        let mut alone = bounds[1];
        for _ in 0..ATTEMPTS {
            let simulated = self.simulated(row, alone.cost(self, row), &values)?;
            if alone.approach(recorded, simulated, bounds) {
                break;
            }
        }
        Ok(Some((job.batch_size, alone.cost(self, row))))
    }

    /// Returns the least and the most that a row's steps take alone at its share of a vCPU, from what they
    /// took and from their CPU seconds: those hold no wait, also none for other programs, but all threads,
    /// and how cores that work at the same time slow each other down.
    fn bounds(&self, row: &RowAnalysis, recorded: Observed, used: Observed) -> [Observed; 2] {
        let profile = self.machine.values();
        let vcpus = profile.instance.vcpus;
        let planned = &row.planned.row;
        let has = if row.on_functions() {
            profile.function.vcpus(planned.memory_mb)
        } else {
            (vcpus / planned.job.workers.max(1) as f64).floor().max(1.0)
        };
        let (share, threads) = (has.min(1.0), has.round().max(1.0));
        let cores = profile.host.map_or(vcpus, |host| host.cores);
        let alone = used.times(1.0 / share);
        [
            alone.times((cores / vcpus).min(1.0) / threads),
            recorded.or_less(alone),
        ]
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

/// Returns what a model's steps cost, from the costs of rows that train it: the line through the medians
/// of each batch size, medians, and the least memory, since what a system holds beside is its own.
fn of_model(rows: &[(usize, ModelCost)]) -> Option<ModelCost> {
    let rows_of = rows.iter();
    let points = rows_of.map(|(batch, cost)| (*batch, *batch as f64 * cost.sample_s));
    let line = Line::through_medians(&points.collect::<Vec<_>>())?;
    let all = |of: fn(&ModelCost) -> f64| rows.iter().map(move |(_, cost)| of(cost));
    let middle = |of| median(&all(of).collect::<Vec<f64>>()).unwrap_or(0.0);
    Some(ModelCost {
        fixed_s: rounded(line.fixed),
        sample_s: rounded(line.per_sample),
        evaluate_sample_s: rounded(middle(|cost| cost.evaluate_sample_s)),
        build_s: rounded(middle(|cost| cost.build_s)),
        fixed_mb: all(|cost| cost.fixed_mb).fold(f64::INFINITY, f64::min),
        // One row agrees with itself.
        fit: (rows.len() > 1).then_some(Fit {
            r_squared: rounded(line.fit.r_squared),
            largest_error: rounded(line.fit.largest_error),
            ..line.fit
        }),
        ..rows.first()?.1.clone()
    })
}

/// Returns how far measurements of a model are off what its profile has; none where that is not far, or
/// not known.
pub fn disagreement(cost: &ModelCost) -> Option<String> {
    let fit = cost.fit.as_ref().filter(|fit| fit.largest_error > FAR)?;
    Some(format!(
        "steps of {} are not sure: {} measurements differ from them by up to {}",
        cost.model,
        fit.points,
        percent(fit.largest_error)
    ))
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
        let computed = Computed::of(trials, job);
        let seconds = |of: fn(&StepRecord) -> f64| {
            let seconds: Vec<f64> = computed.steps.iter().map(|step| of(step)).collect();
            median(&seconds)
        };
        let step_s = seconds(|step| step.seconds.compute_gradients);
        let usual_s = step_s.zip(seconds(|step| step.seconds.fetch_dataset));
        let builds = usual_s.map(|(step_s, fetch_s)| {
            let firsts =
                (trials.iter()).flat_map(|trial| trial.first_steps(computed.are_of_batches));
            let longer = |first: StageSeconds| {
                first.fetch_dataset + first.compute_gradients - step_s - fetch_s
            };
            firsts.map(longer).collect::<Vec<f64>>()
        });
        let samples = job.data.test_samples.max(1) as f64;
        let evaluated = trials.iter().flat_map(|trial| trial.evaluations(job));
        let evaluated = evaluated.map(|step| step.seconds.detect_convergence / samples);
        Self([
            step_s.map(|seconds| seconds / computed.gradients),
            median(&evaluated.collect::<Vec<f64>>()),
            (builds.and_then(|builds| median(&builds))).map(|s| s.max(0.0)),
        ])
    }

    /// Returns the CPU seconds of the same, over all threads; none of what was not recorded.
    fn used(trials: &[Trial<'_>], job: &Job) -> Self {
        let computed = Computed::of(trials, job);
        let samples = job.data.test_samples.max(1) as f64;
        let used = |steps: &mut dyn Iterator<Item = &StepRecord>, stage: Stage| {
            let used = steps.filter_map(|step| Some(step.usage.get(&stage)?.cpu_s));
            median(&used.collect::<Vec<f64>>())
        };
        let step_s = used(&mut computed.steps.into_iter(), Stage::ComputeGradients);
        let evaluating = &mut trials.iter().flat_map(|trial| trial.evaluations(job));
        let evaluated_s = used(evaluating, Stage::DetectConvergence);
        Self([
            step_s.map(|seconds| seconds / computed.gradients),
            evaluated_s.map(|seconds| seconds / samples),
            None,
        ])
    }

    fn times(self, factor: f64) -> Self {
        Self(self.0.map(|seconds| Some(seconds? * factor)))
    }

    /// Returns the smaller of each, where both are known.
    fn or_less(mut self, other: Self) -> Self {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            if let (Some(own), Some(other)) = (own, other) {
                *own = own.min(other);
            }
        }
        self
    }

    /// Moves towards what gives `recorded` where this gave `simulated`, within the bounds; whether it gave
    /// it already.
    fn approach(&mut self, recorded: Self, simulated: Self, [least, most]: [Self; 2]) -> bool {
        let mut is_near = true;
        let given = recorded.0.into_iter().zip(simulated.0);
        let bounds = least.0.into_iter().zip(most.0);
        for ((own, given), (least, most)) in self.0.iter_mut().zip(given).zip(bounds) {
            let (recorded, simulated) = given;
            if let (Some(own), Some(recorded), Some(simulated)) = (own, recorded, simulated)
                && simulated > 0.0
            {
                let ratio = recorded / simulated;
                is_near &= (ratio - 1.0).abs() < NEAR;
                let most = most.unwrap_or(recorded);
                *own = (*own * ratio).min(most).max(least.unwrap_or(0.0));
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
        let manifest = run.directory.manifest();
        let id = &manifest.run_id;
        ModelCost {
            model: job.model.clone(),
            device: Device::Cpu,
            fixed_s: 0.0,
            sample_s,
            parallel: PARALLEL,
            evaluate_sample_s: evaluate_sample_s.unwrap_or(FORWARD * sample_s),
            build_s: build_s.unwrap_or(0.0),
            fixed_mb: (peak_mb - profile.function.resident_mb - share_mb(job)).max(0.0),
            sample_mb: 0.0,
            vector_bytes_per_s: None,
            fit: None,
            fitted_to: None,
            carried: None,
            source: format!(
                "the steps that the run {id} recorded, less what they waited for cores"
            ),
            date: manifest.created.chars().take(10).collect(),
        }
    }
}

/// Steps that computed gradients.
struct Computed<'a> {
    steps: Vec<&'a StepRecord>,
    /// Whether each is of one mini-batch.
    are_of_batches: bool,
    /// Gradients of a step.
    gradients: f64,
}

impl<'a> Computed<'a> {
    fn of(trials: &[Trial<'a>], job: &Job) -> Self {
        let steps = trials.iter().flat_map(|trial| trial.steps);
        let steps = steps.flat_map(|step| repeat_n(step, step.alike as usize));
        let mut steps: Vec<&StepRecord> = steps
            .filter(|step| step.seconds.compute_gradients > 0.0)
            .collect();
        // A step that names no mini-batch computes all of an epoch, or has
        // functions compute them, whose own steps name theirs.
        let are_of_batches = steps.iter().any(|step| step.batch.is_some());
        steps.retain(|step| step.batch.is_some() || !are_of_batches);
        let of_epoch = job.batches_per_worker;
        let batches = if are_of_batches { 1 } else { of_epoch };
        // One process that plays all workers computes their gradients in one step.
        let players = steps.iter().map(|step| step.rank + 1).max();
        Self {
            gradients: ((job.workers / players.unwrap_or(1)).max(1) * batches) as f64,
            steps,
            are_of_batches,
        }
    }
}

/// Returns what a worker's share of the data takes where workers keep it, beside a mini-batch, MB:
/// a simulation adds it to that of a step.
fn share_mb(job: &Job) -> f64 {
    let bound = epochcost_systems::find(&job.system).and_then(|system| system.bind(job).ok());
    if !bound.is_some_and(|bound| bound.data_layout() == DataLayout::Shards) {
        return 0.0;
    }
    let samples = (job.data.train_samples / job.workers.max(1)).saturating_sub(job.batch_size);
    (samples * job.data.record_bytes) as f64 / f64::from(1 << 20)
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

    /// Steps that evaluated: of rank 0, which evaluates, those that take more than a tenth of its longest
    /// for that stage, so that polls of other workers do not count.
    fn evaluations<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a StepRecord> + 'a {
        let seconds = |step: &StepRecord| step.seconds.detect_convergence;
        let longest = self.steps.iter().map(seconds).fold(0.0, f64::max);
        self.steps.iter().filter(move |step| {
            let is_first = step.rank as u64 + 1 == step.alike;
            job.evaluates_after(step.epoch) && is_first && seconds(step) > 0.1 * longest
        })
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
        // One row that is off does not decide, and the profile says that they disagree.
        let off = of_model(&[row(8, 0.3, 90.0), row(8, 0.03, 90.0), row(8, 0.31, 90.0)]).unwrap();
        assert!(is_near(off.sample_s, 0.3 / 8.0) && off.fit.is_some());
        assert!(disagreement(&off).is_some_and(|said| said.contains("900.0 %")));
        assert_eq!(disagreement(&one), None);
        assert!(of_model(&[]).is_none());
    }

    /// A build that a simulation hardly shows, as a difference of two steps, is no long one.
    #[test]
    fn nothing_takes_longer_alone_than_it_was_recorded_to() {
        let observed = |build_s| Observed([Some(0.5), None, Some(build_s)]);
        let recorded = observed(0.02);
        let mut alone = recorded;
        for simulated in [1e-9, 1e-12, 0.04] {
            let bounds = [Observed::default(), recorded];
            assert!(!alone.approach(recorded, observed(simulated), bounds));
            assert!(alone.0[2].is_some_and(|build_s| build_s <= 0.02));
        }
        assert_eq!(alone.0, [Some(0.5), None, Some(0.01)]);
    }

    /// Simulations in which steps wait for more, or less, than they did take nothing of what they computed,
    /// and add nothing to it.
    #[test]
    fn steps_take_alone_what_they_computed() {
        let observed = |step_s| Observed([Some(step_s), None, None]);
        let (recorded, least) = (observed(0.004), observed(0.002));
        let most = recorded
            .or_less(observed(0.003))
            .or_less(Observed::default());
        let mut alone = recorded;
        for (simulated, own) in [(0.04, 0.002), (0.0004, 0.003)] {
            for _ in 0..ATTEMPTS {
                alone.approach(recorded, observed(simulated), [least, most]);
            }
            assert_eq!(alone.0[0], Some(own));
        }
    }
}
