//! Figures of one trial, from its steps and invocations.

use std::collections::{BTreeMap, BTreeSet};

use epochcost_channels::Traffic;
use epochcost_record::{EvaluationRow, ResultsError, TrialRow};
use epochcost_spec::cost::{self, Bill, Pace, PriceBook, Rates, Usage};
use epochcost_spec::metering::Invocation;
use epochcost_spec::rows::Row;
use epochcost_systems::{
    Evaluation, GpuUsage, Host, Job, PurposeTraffic, StageSeconds, StepRecord, Totals, find,
};

use super::clock::{Milestone, covered_s, milestones};
use super::columns::{Columns, machine_epochs};
use super::usage::Usages;

/// The figures of one trial.
#[derive(Clone, Debug)]
pub struct TrialAnalysis {
    /// The trial.
    pub trial: TrialRow,
    /// Shortest time that an instance is charged for, seconds.
    pub minimum_s: f64,
    /// Invocations, in the order in which they ended.
    pub invocations: Vec<Invocation>,
    /// Epochs, from 0; those of which nothing was recorded are left out.
    pub epochs: Vec<EpochAnalysis>,
    /// Start of its first step, on the platform's clock; null without steps.
    pub began_s: Option<f64>,
    /// Evaluations with a higher accuracy than those before, the earliest first.
    pub milestones: Vec<Milestone>,
    /// Seconds by stage, summed over workers and epochs.
    pub seconds: StageSeconds,
    /// Seconds by function and stage, those that coordinate included.
    pub functions: BTreeMap<String, StageSeconds>,
    /// The columns of the comparison's table of costs.
    pub columns: Columns,
    /// CPU and memory of the workers' processes, by stage.
    pub usage: Usages,
    /// Epochs by which the gradients of others that a step used were older than
    /// it, a mean over steps; null where peers wait for each other.
    pub staleness: Option<f64>,
    /// Traffic, summed over workers and epochs.
    pub traffic: PurposeTraffic,
    /// Whether all replicas held the same bits after every step; null if not
    /// every worker reported its parameters.
    pub replicas_identical: Option<bool>,
    /// Whether the metered exchange equals the closed form; null without one.
    pub traffic_matches: Option<bool>,
    /// The bill by the paper's cost model.
    pub paper: Bill,
    /// The bill by the full cost model.
    pub full: Bill,
}

/// The figures of one epoch of one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochAnalysis {
    /// The epoch.
    pub epoch: usize,
    /// Start of its first step, over all workers, on the platform's clock.
    pub began_s: f64,
    /// End of its last step, over all workers.
    pub ended_s: f64,
    /// Mean training loss over its mini-batches; null where one was not finite.
    pub train_loss: Option<f64>,
    /// Test loss after it; null where training diverged.
    pub test_loss: Option<f64>,
    /// Test accuracy after it.
    pub accuracy: Option<f64>,
    /// End of the evaluation that found it, on the platform's clock: with asynchronous workers,
    /// others may be in this epoch still.
    pub evaluated_s: Option<f64>,
    /// Steps.
    pub steps: usize,
}

impl EpochAnalysis {
    /// Returns the time from the start of its first step to the end of its last, over all
    /// workers.
    pub fn seconds(&self) -> f64 {
        self.ended_s - self.began_s
    }
}

impl TrialAnalysis {
    /// Computes the figures of a trial. Workers are charged by
    /// the platform's `rates`, and polls at `pace`
    /// where the steps recorded them.
    ///
    /// # Errors
    /// When the price book lacks a price.
    pub fn new(
        row: &Row,
        trial: TrialRow,
        invocations: Vec<Invocation>,
        steps: &[StepRecord],
        prices: &PriceBook,
        rates: Rates<'_>,
        pace: Option<Pace>,
    ) -> Result<Self, ResultsError> {
        let totals = Totals::of(steps);
        let system = find(&row.job.system);
        let coordinators =
            system.map_or_else(Vec::new, |system| system.deployment().coordinators());
        let seconds = totals.of_workers(&coordinators);
        let mut used = Usages::default();
        let by_workers = |step: &&StepRecord| !coordinators.contains(&step.function.as_str());
        let of_workers = steps.iter().filter(by_workers);
        of_workers.for_each(|step| used.add(step));
        // Bills.
        let usage = Usage {
            invocations: invocations.iter().collect(),
            transitions: trial.transitions,
            traffic: totals.traffic,
            waits: totals.waits,
            pace,
            wall_s: trial.wall_s,
            stored_byte_s: totals.kept.byte_s(trial.started_s + trial.wall_s),
            ..Usage::none_of(row, rates)
        };
        let (paper, full) = (cost::paper(&usage, prices)?, cost::full(&usage, prices)?);
        // Epochs, and the columns of the comparison's table.
        let epochs = epochs(steps, &trial);
        let host = system.map_or(Host::Function, |system| system.deployment().worker_host());
        let gradients_s = seconds.compute_gradients / machine_epochs(&row.job);
        let times = [
            seconds_per_epoch(&epochs),
            Some(gradients_s).filter(|_| !epochs.is_empty()),
        ];
        let columns = Columns::new(row, host, times, &usage, prices)?;
        // A fault may have ended a worker before its first digest.
        let replicas = if row.faults.is_empty() {
            row.job.workers
        } else {
            0
        };
        let metered = totals.traffic.exchange.total();
        let staleness = (steps.iter()).filter_map(|step| Some((step.staleness?, step.alike)));
        Ok(Self {
            epochs,
            began_s: steps.iter().map(|step| step.started_s).reduce(f64::min),
            milestones: milestones(&usage, steps, &trial, prices)?,
            functions: totals.seconds,
            columns,
            replicas_identical: replicas_identical(steps, replicas),
            traffic_matches: (trial.closed_form).map(|form| matches(form, metered, &row.job)),
            trial,
            minimum_s: rates.minimum_s,
            invocations,
            seconds,
            usage: used,
            staleness: mean(staleness),
            traffic: totals.traffic,
            paper,
            full,
        })
    }

    /// Returns the exchange's traffic over all channels.
    pub fn exchange(&self) -> Traffic {
        self.traffic.exchange.total()
    }

    /// Returns the billed time of all invocations and instances, ms; none
    /// without any.
    pub fn billed_ms(&self) -> Option<f64> {
        (!self.invocations.is_empty()).then(|| {
            let each = |call: &Invocation| (call.billed_ms * call.alike) as f64;
            self.invocations.iter().map(each).sum()
        })
    }

    /// Returns the largest resident memory of any sandbox or instance, MB.
    pub fn peak_memory_mb(&self) -> Option<u32> {
        peak_memory_mb(self.invocations.iter())
    }

    /// Returns the largest resident memory of any function's sandbox, MB; none where a
    /// trial has no functions.
    pub fn function_peak_memory_mb(&self) -> Option<u32> {
        let calls = self.invocations.iter();
        peak_memory_mb(calls.filter(|call| call.host == Host::Function))
    }

    /// Returns the share of the time in which a GPU computed, percent: a mean
    /// over samples and workers; none if no GPU was sampled.
    pub fn gpu_percent(&self) -> Option<f64> {
        let samples = |usage: &GpuUsage| usage.samples as f64;
        let taken: f64 = self.trial.gpus.iter().map(samples).sum();
        let busy = self.trial.gpus.iter();
        let busy = busy.map(|usage| usage.utilisation * samples(usage));
        (taken > 0.0).then(|| 100.0 * busy.sum::<f64>() / taken)
    }

    /// Returns the CPU time of all invocations, ms, if every one is known.
    pub fn cpu_ms(&self) -> Option<f64> {
        let each = |call: &Invocation| Some(call.cpu_ms? * call.alike as f64);
        let known: Option<Vec<f64>> = self.invocations.iter().map(each).collect();
        let known = known.filter(|values| !values.is_empty());
        known.map(|values| values.iter().sum())
    }

    /// Returns whether training diverged; none without any loss, as in simulations with sizes
    /// alone.
    pub fn diverged(&self) -> Option<bool> {
        let diverged = self.trial.diverged.is_some();
        let has_losses = self.epochs.iter().any(|epoch| epoch.train_loss.is_some());
        (diverged || has_losses).then_some(diverged)
    }

    /// Returns the number of failed invocations after which the same work was called again.
    pub fn retries(&self) -> u64 {
        let failed = self.invocations.iter().filter(|call| call.error.is_some());
        let is_repeated =
            |failed: &&Invocation| self.invocations.iter().any(|call| call.repeats(failed));
        failed.filter(is_repeated).map(|failed| failed.alike).sum()
    }

    /// Returns the number of invocations and instances.
    pub fn calls(&self) -> u64 {
        self.invocations.iter().map(|call| call.alike).sum()
    }

    /// Returns the number of cold starts.
    pub fn cold_starts(&self) -> u64 {
        let cold = self.invocations.iter().filter(|call| call.cold);
        cold.map(|call| call.alike).sum()
    }

    /// Returns what the trial had taken at the end of the first evaluation with an accuracy
    /// of `target` or more; null if none has it.
    pub fn reached(&self, target: f64) -> Option<Milestone> {
        let mut milestones = self.milestones.iter();
        milestones.find(|one| one.accuracy >= target).copied()
    }

    /// Returns the seconds from the start of the trial's first step to the end of that
    /// evaluation; null if none has it.
    pub fn time_to_accuracy(&self, target: f64) -> Option<f64> {
        self.reached(target).map(|reached| reached.seconds)
    }

    /// Returns the result on the validation split after the last evaluated epoch, by the
    /// worker of the lowest rank; null if there is no such split.
    pub fn validation(&self) -> Option<Evaluation> {
        let evaluations = self.trial.evaluations.iter();
        let held_out = evaluations.filter_map(|row| {
            let found = row.validation.filter(|found| found.samples > 0)?;
            Some(((row.epoch, usize::MAX - row.rank), found))
        });
        let last = held_out.max_by_key(|(place, _)| *place);
        last.map(|(_, found)| found)
    }

    /// Returns the best of the trial's accuracies; null if none was evaluated.
    pub fn best_accuracy(&self) -> Option<f64> {
        let evaluations = stated(&self.trial.evaluations).into_values();
        let accuracies = evaluations.map(|row| row.evaluation.accuracy());
        accuracies.reduce(f64::max)
    }
}

/// Compares what does not depend on timing; bytes only where the form states them.
fn matches(form: Traffic, metered: Traffic, job: &Job) -> bool {
    let bound = find(&job.system).and_then(|system| system.bind(job).ok());
    let states_bytes = bound.is_none_or(|bound| bound.states_bytes());
    let comparable = |traffic: Traffic| {
        let mut traffic = traffic.untimed();
        if !states_bytes {
            (traffic.bytes_up, traffic.bytes_down) = (0, 0);
        }
        traffic
    };
    comparable(form) == comparable(metered)
}

pub(super) fn seconds_per_epoch(epochs: &[EpochAnalysis]) -> Option<f64> {
    let covered = covered_s(epochs.iter().map(|epoch| (epoch.began_s, epoch.ended_s)));
    (!epochs.is_empty()).then(|| covered / epochs.len() as f64)
}

/// Returns the epochs of a trial's steps, with their evaluations.
fn epochs(steps: &[StepRecord], trial: &TrialRow) -> Vec<EpochAnalysis> {
    let with_loss = steps.iter().filter(|step| step.loss.is_some());
    let training: BTreeSet<&str> = with_loss.map(|step| step.function.as_str()).collect();
    let evaluations = stated(&trial.evaluations);
    let mut by_epoch: BTreeMap<usize, Vec<&StepRecord>> = BTreeMap::new();
    for step in steps {
        by_epoch.entry(step.epoch).or_default().push(step);
    }
    let analysed = |(epoch, steps): (usize, Vec<&StepRecord>)| {
        let starts = steps.iter().map(|step| step.started_s);
        let ends = steps.iter().map(|step| step.ended_s());
        let losses = (steps.iter()).filter_map(|step| Some((step.loss?, step.alike)));
        let evaluation = evaluations.get(&epoch);
        let test_loss = evaluation.map(|row| row.evaluation.loss);
        // Steps whose loss was not finite have none: the others' mean is that of no epoch.
        let mut trained = (steps.iter()).filter(|step| training.contains(&*step.function));
        let diverged = trial.diverged.is_some_and(|first| epoch >= first)
            && trained.any(|step| step.loss.is_none());
        EpochAnalysis {
            epoch,
            began_s: starts.fold(f64::INFINITY, f64::min),
            ended_s: ends.fold(f64::NEG_INFINITY, f64::max),
            train_loss: mean(losses).filter(|_| !diverged),
            test_loss: test_loss.filter(|loss| loss.is_finite()),
            accuracy: evaluation.map(|row| row.evaluation.accuracy()),
            evaluated_s: evaluation.map(|row| row.at_s),
            steps: steps.iter().map(|step| step.alike as usize).sum(),
        }
    };
    by_epoch.into_iter().map(analysed).collect()
}

/// Returns the evaluations that a trial's accuracies are those of, by epoch: those of the worker
/// of the lowest rank that evaluated. Other replicas may differ.
pub(super) fn stated(evaluations: &[EvaluationRow]) -> BTreeMap<usize, &EvaluationRow> {
    let mut stated: BTreeMap<usize, &EvaluationRow> = BTreeMap::new();
    for row in evaluations.iter().filter(|row| row.evaluation.samples > 0) {
        let kept = stated.entry(row.epoch).or_insert(row);
        if row.rank < kept.rank {
            *kept = row;
        }
    }
    stated
}

/// Returns the most memory of the calls, MB; none if it is known of none.
fn peak_memory_mb<'a>(calls: impl Iterator<Item = &'a Invocation>) -> Option<u32> {
    calls.filter_map(|call| call.peak_memory_mb).max()
}

/// Returns the mean of values, each with its weight.
fn mean(values: impl Iterator<Item = (f64, u64)>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), (value, alike)| {
        (sum + value * alike as f64, count + alike)
    });
    (count > 0).then(|| sum / count as f64)
}

/// Compares the digests that workers took of their parameters at the same
/// point: same function, epoch and mini-batch. `None` where one of those who were there took none, or
/// fewer than `workers` did.
fn replicas_identical(steps: &[StepRecord], workers: usize) -> Option<bool> {
    let compared = steps.iter().filter(|step| step.parameters_digest.is_some());
    let compared: BTreeSet<usize> = compared.map(|step| step.rank).collect();
    let mut points: BTreeMap<_, BTreeSet<Option<&str>>> = BTreeMap::new();
    for step in steps {
        let point = (&step.function, step.epoch, step.batch);
        let digests = points.entry(point).or_default();
        digests.insert(step.parameters_digest.as_deref());
    }
    points.retain(|_, digests| digests.iter().any(Option::is_some));
    let are_several = |digests: &BTreeSet<Option<&str>>| digests.iter().flatten().count() > 1;
    if points.values().any(are_several) {
        return Some(false);
    }
    let are_complete = points.values().all(|digests| digests.len() == 1);
    (are_complete && !points.is_empty() && compared.len() >= workers).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::usage::tests::step;

    fn of(workers: usize, records: &[(usize, Option<&str>)]) -> Option<bool> {
        let steps: Vec<_> = (records.iter())
            .map(|&(epoch, digest)| StepRecord {
                epoch,
                parameters_digest: digest.map(Into::into),
                ..step()
            })
            .collect();
        replicas_identical(&steps, workers)
    }

    #[test]
    fn replicas_are_compared_among_those_who_are_there() {
        let all = [
            (0, Some("a")),
            (0, Some("a")),
            (1, Some("b")),
            (1, Some("b")),
            (1, Some("b")),
        ];
        assert_eq!(of(1, &all), Some(true));
        assert_eq!(of(1, &[&all[..], &[(1, None)]].concat()), None);
        assert_eq!(of(1, &[&all[..], &[(1, Some("c"))]].concat()), Some(false));
        assert_eq!(of(1, &[(0, None), (0, None)]), None);
        assert_eq!(of(2, &all), None);
    }
}
