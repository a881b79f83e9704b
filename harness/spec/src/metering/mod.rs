//! What a run is known by: invocations, their REPORT lines, and the records
//! that workers write into their logs.

pub mod log;
pub mod report_line;

use std::cmp::Reverse;
use std::fmt;

use epochcost_systems::{Evaluation, Host, Record, weight};
use serde::{Deserialize, Serialize};

/// One invocation of a function, or one instance process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// Unique id; of a function, the one in its REPORT line.
    pub request_id: String,
    /// Function, or instance.
    pub host: Host,
    /// The system's function.
    pub function: String,
    /// The worker or peer it worked for.
    pub rank: usize,
    /// Number of invocations that were alike, this one included: in a simulation one stands for
    /// those of the ranks up to its own.
    #[serde(default = "weight::one", skip_serializing_if = "weight::is_one")]
    pub alike: u64,
    /// The epoch it started at.
    pub epoch: usize,
    /// The mini-batch, if it worked on one.
    pub batch: Option<usize>,
    /// The sandbox (process) that served it.
    pub sandbox: String,
    /// Start, seconds since the Unix epoch.
    pub started_s: f64,
    /// End, seconds since the Unix epoch.
    pub ended_s: f64,
    /// Whether its sandbox was started for it.
    pub cold: bool,
    /// Time from the process's start to its first request for work, ms; of cold
    /// invocations.
    pub init_ms: Option<f64>,
    /// Run time without init, ms.
    pub duration_ms: f64,
    /// Billed time, whole ms, init included.
    pub billed_ms: u64,
    /// Memory size, MB; of an instance, null.
    pub memory_mb: Option<u32>,
    /// Peak resident memory of the sandbox so far, MB.
    pub peak_memory_mb: Option<u32>,
    /// CPU time, ms.
    pub cpu_ms: Option<f64>,
    /// Reason of the failure; none if it succeeded.
    pub error: Option<String>,
}

/// First step of a trial with a loss that is not a finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The epoch.
    pub epoch: usize,
    /// The mini-batch; none where the step was a whole epoch, or an evaluation found it.
    pub batch: Option<usize>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.batch {
            Some(batch) => write!(f, "the loss of epoch {}, mini-batch {batch}", self.epoch)?,
            None => write!(f, "the loss of epoch {}", self.epoch)?,
        }
        write!(f, " is not a finite number")
    }
}

impl Invocation {
    /// Returns whether this one did the work of an earlier one again.
    pub fn repeats(&self, earlier: &Self) -> bool {
        let work = |call: &Self| (call.rank, call.epoch, call.batch);
        self.request_id != earlier.request_id
            && self.function == earlier.function
            && work(self) == work(earlier)
            && self.started_s >= earlier.started_s
    }
}

impl TrialOutcome {
    /// Returns how often each of a row's injected faults happened, of which it has `count`.
    pub fn faults(&self, count: usize) -> Vec<usize> {
        let mut times = vec![0; count];
        for record in &self.records {
            if let Record::Fault { fault, .. } = record
                && let Some(times) = times.get_mut(*fault)
            {
                *times += 1;
            }
        }
        times
    }

    /// Returns the evaluation that states the trial's accuracy, and the rank of its worker: the
    /// last, by the worker of the lowest rank.
    pub fn last_evaluation(&self) -> Option<(usize, Evaluation)> {
        let evaluations = self.records.iter().filter_map(|record| match record {
            Record::Evaluated {
                rank,
                epoch,
                evaluation,
                ..
            } if evaluation.samples > 0 => Some((*epoch, *rank, *evaluation)),
            _ => None,
        });
        let last = evaluations.max_by_key(|(epoch, rank, _)| (*epoch, Reverse(*rank)));
        last.map(|(_, rank, evaluation)| (rank, evaluation))
    }

    /// Returns where training diverged first, if it did. An evaluation comes after the
    /// mini-batches of its epoch.
    pub fn divergence(&self) -> Option<Divergence> {
        let steps = self.records.iter().filter_map(|record| match record {
            Record::Diverged { epoch, batch, .. } => Some(Divergence {
                epoch: *epoch,
                batch: *batch,
            }),
            _ => None,
        });
        steps.min_by_key(|step| (step.epoch, step.batch.unwrap_or(usize::MAX)))
    }
}

/// A real server that trials ran on. Which allocator each Redis used, and
/// whether its module computed, is in the plan's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// `Redis`, `RabbitMQ` or `S3`.
    pub name: String,
    /// Version that it reported; none where it was not asked.
    pub version: Option<String>,
    /// Settings that it was started with.
    pub settings: String,
}

/// One limit of a function, and whether the platform enforced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// `cpu`, `memory`, `storage`.
    pub what: String,
    /// Whether it was enforced.
    pub enforced: bool,
    /// The mechanism, or the reason when it is not enforced.
    pub how: String,
}

/// A metric of CloudWatch over a trial's time: a cross-check, from which no
/// duration and no bill is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudWatchMetric {
    /// The function's or the instance's name.
    pub of: String,
    /// The metric, as AWS names it, such as `Invocations`.
    pub metric: String,
    /// How the values of periods became one: `Sum`, `Maximum`, `Average`.
    pub statistic: String,
    /// Unit as AWS names it: `Count`, `Milliseconds`, `Percent`.
    pub unit: String,
    /// The value; null where CloudWatch knew of none when it was queried, which
    /// is not 0.
    pub value: Option<f64>,
}

/// Everything that a platform recorded of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialOutcome {
    /// Start of the first worker, seconds since the Unix epoch.
    pub started_s: f64,
    /// Time from there to the end of the last, seconds.
    pub wall_s: f64,
    /// Every invocation that ended, in the order in which they ended.
    pub invocations: Vec<Invocation>,
    /// Every record, in the order in which they were written.
    pub records: Vec<Record>,
    /// State transitions of workflows.
    pub transitions: u64,
    /// Invocations that were refused because too many ran; null where nothing
    /// refuses any.
    pub throttles: Option<u64>,
    /// What CloudWatch recorded of the trial, beside its log; of AWS alone.
    pub cloudwatch: Vec<CloudWatchMetric>,
    /// Why the trial failed: which worker and what happened to it.
    pub failure: Option<String>,
    /// Warnings for readers of the results.
    pub warnings: Vec<String>,
}
