use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::Schema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    DataLayout, Deployment, Fidelity, Job, QueueService, Result, SettingsError, State, StepRecord,
    Symmetry, World,
};

/// Functions that a platform starts for a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Launch {
    /// Workers, all at once, each a long invocation or an instance process that
    /// loops over its batches. Pairs of function and rank.
    Workers(Vec<(&'static str, usize)>),
    /// First `bootstrap` once per peer, then one execution of the state machine
    /// per peer, epoch and round; the last state starts the next.
    Workflow {
        /// The function that prepares a peer.
        bootstrap: &'static str,
    },
}

/// Whether all replicas hold bit-identical parameters after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// All replicas hold the same bits.
    Identical,
    /// Replicas may differ.
    Differ {
        /// Reason for the difference.
        reason: &'static str,
    },
}

/// The sizes that traffic depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Trainable scalars (n); P = 4n bytes.
    pub parameters: usize,
    /// Batch-norm statistics.
    pub statistics: usize,
}

impl Sizes {
    /// P: bytes of one gradient.
    pub fn gradient_bytes(&self) -> u64 {
        4 * self.parameters as u64
    }
}

/// Outcome of an invocation that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The worker has no work left, or the stage is over.
    Finished,
    /// The worker re-invoked itself to go on at this epoch.
    Continued {
        /// The epoch at which it continues.
        epoch: usize,
    },
    /// The request had been delivered before; it was not repeated.
    Repeated,
}

/// Names of a system, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The name used in experiments and results, lower case.
    pub name: &'static str,
    /// The name used in reports, as in the papers.
    pub title: &'static str,
    /// The publication behind it, and the source that each fidelity follows.
    pub about: &'static str,
}

impl Names {
    /// Returns the names of a system.
    pub const fn new(name: &'static str, title: &'static str, about: &'static str) -> Self {
        Self { name, title, about }
    }
}

/// A training system, as platforms and reports see it: its settings are JSON.
///
/// Every `TrainingSystem` is one.
#[async_trait]
pub trait System: Send + Sync {
    /// Its names, and its source.
    fn names(&self) -> Names;

    /// The name used in experiments and results, lower case.
    fn name(&self) -> &'static str {
        self.names().name
    }

    /// The name used in reports, as in the papers.
    fn title(&self) -> &'static str {
        self.names().title
    }

    /// The publication behind it, and the source that each fidelity follows.
    fn about(&self) -> &'static str {
        self.names().about
    }

    /// What it is deployed on, and what is billed for it.
    fn deployment(&self) -> Deployment;

    /// The complete settings: this fidelity's, with `overrides` on top.
    ///
    /// # Errors
    /// Names the field that is unknown, has the wrong type, or contradicts
    /// another.
    fn settings(
        &self,
        fidelity: Fidelity,
        overrides: &Map<String, Value>,
    ) -> Result<Value, SettingsError>;

    /// The JSON Schema (draft 7) of its settings, with what each means and its bounds.
    fn settings_schema(&self) -> Schema;

    /// The optimizer of the source that this fidelity follows.
    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec;

    /// Parses the job's settings, once, for everything that depends on them.
    ///
    /// # Errors
    /// When the settings are not this system's, or do not fit the job.
    fn bind<'a>(&'a self, job: &'a Job) -> Result<Box<dyn BoundSystem + 'a>>;

    /// Runs one invocation: the function, rank, epoch and batch of the world's task.
    ///
    /// # Errors
    /// Whatever made the invocation fail.
    async fn run(&self, world: &mut World) -> Result<Outcome>;
}

/// What every bound system has.
pub trait OfJob: Send + Sync {
    /// The job.
    fn job(&self) -> &Job;

    /// The deployment of its system.
    fn deployment(&self) -> Deployment;
}

/// Steps that a trial recorded; `None` before one.
pub type Steps<'a> = Option<&'a [&'a StepRecord]>;

/// A system that has parsed and checked the settings of a job: a [`Bound`](crate::Bound).
pub trait BoundSystem: OfJob {
    /// Layout of the job's data in the dataset bucket; by default a share for each worker.
    fn data_layout(&self) -> DataLayout {
        DataLayout::Shards
    }

    /// Whether an epoch may end with the rest of a worker's share, as a smaller mini-batch; by default it
    /// has full ones alone.
    fn trains_on_the_rest(&self) -> bool {
        false
    }

    /// Functions that a platform starts; by default the first of its deployment for each worker.
    fn launch(&self) -> Launch {
        let first = self.deployment().functions.first();
        let of_worker = |rank| first.map(|function| (function.name, rank));
        Launch::Workers((0..self.job().workers).filter_map(of_worker).collect())
    }

    /// Whether the functions that [`launch`](Self::launch) names wait for each other,
    /// so that all must run at the same time; true by default.
    fn waits(&self) -> bool {
        true
    }

    /// The queue that it is paid for by, where it uses one; that of its deployment by default.
    fn queue_service(&self) -> QueueService {
        self.deployment().queue_service
    }

    /// Number of tensor stores that its workers use, those of the lowest ranks: the hosts of its
    /// deployment by default.
    fn tensor_stores(&self) -> usize {
        let hosts = self.deployment().tensor_store_hosts;
        hosts.map_or(0, |hosts| hosts.count(self.job().workers))
    }

    /// The states of one execution of its state machine, in order; none where
    /// it has no state machine.
    fn states(&self) -> Vec<State> {
        Vec::new()
    }

    /// Executions of its state machine per peer and epoch, each for a part of the epoch's
    /// mini-batches ([`Task::minibatches`](crate::Task::minibatches)).
    fn rounds(&self) -> usize {
        1
    }

    /// Optimizer steps of a worker's model in an epoch: one per mini-batch, unless the system
    /// sums the gradients of several.
    fn steps_per_epoch(&self) -> usize {
        self.job().batches_per_worker
    }

    /// Peers whose first execution the platform starts, those of the lowest ranks: all by default.
    /// The others are started by peers.
    fn first_peers(&self) -> usize {
        self.job().workers
    }

    /// Whether training goes on where the executions of some peers fail; false by default.
    fn survives_lost_peers(&self) -> bool {
        false
    }

    /// The exchange's traffic over all workers and epochs of one trial of `job`, in the counts that
    /// do not depend on timing (see [`Traffic::untimed`]). With `steps`, at what these report that
    /// they sent: the same unless what is sent depends on the data. Where training ended early, `job`
    /// has the epochs that were run.
    ///
    /// # Errors
    /// When the sizes are not ones that the system can send.
    fn closed_form(&self, job: &Job, sizes: Sizes, steps: Steps<'_>) -> Result<Traffic>;

    /// Returns the [closed form](Self::closed_form) before a trial.
    ///
    /// # Errors
    /// When the sizes are not ones that the system can send.
    fn traffic(&self, sizes: Sizes) -> Result<Traffic> {
        self.closed_form(self.job(), sizes, None)
    }

    /// Returns the [closed form](Self::closed_form) at what the steps of a trial report that they sent.
    ///
    /// # Errors
    /// When the sizes are not ones that the system can send.
    fn traffic_of(&self, sizes: Sizes, steps: &[&StepRecord]) -> Result<Traffic> {
        if self.job().techniques().early_stopping.is_none() {
            return self.closed_form(self.job(), sizes, Some(steps));
        }
        self.closed_form(&self.job().as_run(steps), sizes, Some(steps))
    }

    /// Whether the closed form states bytes exactly. Where values travel as
    /// text, their lengths depend on the data and its bytes are an estimate.
    fn states_bytes(&self) -> bool {
        true
    }

    /// Number of vectors of a gradient's size that an invocation of `function` for
    /// worker `rank` holds at once, at most, beside what a training step needs.
    fn resident_vectors(&self, function: &str, rank: usize) -> usize;

    /// Number of parts of a gradient, of one of which each vector that
    /// [`resident_vectors`](Self::resident_vectors) counts has the size; 1 by default.
    fn resident_parts(&self, _function: &str) -> usize {
        1
    }

    /// Number of gradients that an invocation of `function` for worker `rank` holds at once, at
    /// most, beside what a training step needs.
    fn resident_gradients(&self, function: &str, rank: usize) -> f64 {
        self.resident_vectors(function, rank) as f64 / self.resident_parts(function).max(1) as f64
    }

    /// Whether one worker can stand for others that are alike in a simulation of sizes; by
    /// default none can.
    fn symmetry(&self) -> Symmetry {
        Symmetry::Everyone
    }

    /// Whether replicas stay bit-identical under these settings.
    fn replicas(&self) -> Replicas;
}
