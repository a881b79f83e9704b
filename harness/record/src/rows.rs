//! The rows of `trials.jsonl` and `invocations.jsonl`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter::repeat_n;
use std::sync::Arc;

use epochcost_channels::Traffic;
use epochcost_simulator::Recorded;
use epochcost_spec::metering::{CloudWatchMetric, Divergence, Invocation, TrialOutcome};
use epochcost_spec::rows::TrialPlan;
use epochcost_systems::{Evaluation, GpuUsage, Host, Record, Replicas, StepRecord, find};
use serde::{Deserialize, Serialize};

use super::missing::missing;

/// The identity of a trial in its run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialId {
    /// The row's id.
    pub row: String,
    /// The trial's number, from 0.
    pub trial: usize,
}

impl TrialId {
    /// Returns the trial that `plan` describes.
    pub fn of(plan: &TrialPlan) -> Self {
        Self {
            row: plan.row.id.clone(),
            trial: plan.trial,
        }
    }

    /// Returns a file name without anything that a file system could object to.
    pub fn file_stem(&self) -> String {
        let is_unsafe = |c: char| !c.is_ascii_alphanumeric() && !"-_=".contains(c);
        format!("{}.{}", self.row.replace(is_unsafe, "_"), self.trial)
    }
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} trial {}", self.row, self.trial)
    }
}

/// One finished trial, failed ones included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRow {
    /// Identity of the trial.
    pub id: TrialId,
    /// Everything random was drawn from this.
    pub seed: u64,
    /// Start of the first worker, seconds since the Unix epoch.
    pub started_s: f64,
    /// Time from there to the end of the last, seconds.
    pub wall_s: f64,
    /// What the system's workers ran on; null if the system is not known.
    pub host: Option<Host>,
    /// Invocations of this trial in `invocations.jsonl`.
    pub invocations: usize,
    /// Steps of this trial in its file of events.
    pub steps: usize,
    /// State transitions of workflows.
    pub transitions: u64,
    /// Invocations that were refused because too many ran; null where nothing
    /// refuses any.
    pub throttles: Option<u64>,
    /// The exchange's traffic by the system's closed form, in the counts that
    /// do not depend on timing; null if the system states none.
    pub closed_form: Option<Traffic>,
    /// What was used of GPUs, one per task that computed on one; none where there was no GPU, or
    /// its driver reports nothing.
    pub gpus: Vec<GpuUsage>,
    /// What CloudWatch recorded of the trial, beside its log; of AWS alone.
    pub cloudwatch: Vec<CloudWatchMetric>,
    /// Why replicas need not be bit-identical; null if they must be.
    pub replicas_may_differ: Option<String>,
    /// Epoch in which a loss was first not a finite number: training diverged; null if
    /// none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<usize>,
    /// Mini-batch of that epoch; null where the step was a whole epoch, or
    /// an evaluation found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged_batch: Option<usize>,
    /// How often each injected fault of the row happened, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<usize>,
    /// Every evaluation, in order.
    pub evaluations: Vec<EvaluationRow>,
    /// The file of its events, from the run directory.
    pub events: String,
    /// SHA-256 of that file.
    pub events_sha256: String,
    /// SHA-256 of its lines of `invocations.jsonl`; absent before format 1.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocations_sha256: Option<String>,
    /// Reason of the failure; none if it succeeded.
    pub failure: Option<String>,
    /// Warnings for readers of the results.
    pub warnings: Vec<String>,
}

/// An evaluation of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRow {
    /// The worker that evaluated.
    pub rank: usize,
    /// The epoch after which the model was evaluated.
    pub epoch: usize,
    /// Time of it, seconds on the platform's clock.
    pub at_s: f64,
    /// The result on the test split.
    pub evaluation: Evaluation,
    /// The result on the validation split, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Evaluation>,
}

/// One line of `invocations.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InvocationRow {
    /// The trial that it belongs to.
    pub trial: TrialId,
    /// The invocation.
    pub invocation: Invocation,
}

/// An [`InvocationRow`] as it is written.
#[derive(Serialize)]
pub(super) struct WrittenInvocation<'a> {
    pub(super) trial: &'a TrialId,
    pub(super) invocation: &'a Invocation,
}

/// Begins the warning of a training that diverged.
pub const DIVERGED: &str = "training diverged: ";

impl TrialRow {
    /// Returns the values that decide what it sends and when it ends, for timing it again; `steps` are its own.
    pub fn values(&self, steps: &[StepRecord]) -> Arc<Recorded> {
        let evaluations = self.evaluations.iter();
        let evaluations =
            evaluations.map(|row| (row.rank, row.epoch, row.evaluation, row.validation));
        Arc::new(Recorded::new(steps, evaluations))
    }

    /// Returns where training diverged, if it did.
    pub fn divergence(&self) -> Option<Divergence> {
        let batch = self.diverged_batch;
        self.diverged.map(|epoch| Divergence { epoch, batch })
    }

    /// Returns the row of a trial that ended like this.
    pub fn new(plan: &TrialPlan, outcome: &TrialOutcome) -> Self {
        let id = TrialId::of(plan);
        let job = &plan.row.job;
        let system = find(&job.system);
        let mut warnings = outcome.warnings.clone();
        warnings.extend(worker_warnings(outcome));
        let diverged = outcome.divergence();
        warnings.extend(diverged.map(|step| format!("{DIVERGED}{step}")));
        warnings.extend(missing(job, outcome));
        let sent = steps(outcome).flat_map(|step| repeat_n(step, step.alike as usize));
        let sent: Vec<&StepRecord> = sent.collect();
        let bound = system.and_then(|system| system.bind(job).ok());
        let bound = bound.as_ref();
        let records = outcome.records.iter();
        Self {
            seed: job.seed,
            started_s: outcome.started_s,
            wall_s: outcome.wall_s,
            host: system.map(|system| system.deployment().worker_host()),
            invocations: outcome.invocations.len(),
            steps: steps(outcome).count(),
            transitions: outcome.transitions,
            throttles: outcome.throttles,
            closed_form: bound.and_then(|bound| bound.traffic_of(plan.sizes, &sent).ok()),
            gpus: records.clone().filter_map(gpu).collect(),
            cloudwatch: outcome.cloudwatch.clone(),
            replicas_may_differ: bound.and_then(|bound| match bound.replicas() {
                Replicas::Differ { reason } => Some(reason.to_owned()),
                Replicas::Identical => None,
            }),
            diverged: diverged.map(|step| step.epoch),
            diverged_batch: diverged.and_then(|step| step.batch),
            faults: outcome.faults(plan.row.faults.len()),
            evaluations: records.filter_map(evaluation).collect(),
            events: format!("events/{}.parquet", id.file_stem()),
            events_sha256: String::new(),
            invocations_sha256: None,
            failure: outcome.failure.clone(),
            warnings,
            id,
        }
    }
}

/// Returns what workers warn of; one line for all who warn of the same.
fn worker_warnings(outcome: &TrialOutcome) -> Vec<String> {
    let mut ranks: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for record in &outcome.records {
        if let Record::Warning { rank, text } = record {
            ranks.entry(text).or_default().insert(*rank);
        }
    }
    let warnings = ranks.into_iter().map(|(text, ranks)| {
        let plural = if ranks.len() == 1 { "" } else { "s" };
        let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
        format!("worker{plural} {}: {text}", ranks.join(", "))
    });
    warnings.collect()
}

/// Returns the steps among a trial's records.
pub fn steps(outcome: &TrialOutcome) -> impl Iterator<Item = &StepRecord> {
    outcome.records.iter().filter_map(|record| match record {
        Record::Step(step) => Some(step.as_ref()),
        _ => None,
    })
}

fn gpu(record: &Record) -> Option<GpuUsage> {
    match record {
        Record::Gpu(usage) => Some(usage.clone()),
        _ => None,
    }
}

fn evaluation(record: &Record) -> Option<EvaluationRow> {
    match record {
        Record::Evaluated {
            rank,
            epoch,
            at_s,
            evaluation,
            validation,
        } => Some(EvaluationRow {
            rank: *rank,
            epoch: *epoch,
            at_s: *at_s,
            evaluation: *evaluation,
            validation: *validation,
        }),
        _ => None,
    }
}
