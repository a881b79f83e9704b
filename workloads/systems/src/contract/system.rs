use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{DataLayout, Device, Fidelity, Job, Result, SettingsError, State, StepRecord, World};

/// What a system's code runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// Functions: billed by memory and duration.
    Function,
    /// Instances: billed by the second they exist.
    Instance,
}

/// What to start for a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Launch {
    /// These at once, each a long invocation or an instance process that
    /// loops over its batches. Pairs of function and rank.
    Workers(Vec<(&'static str, usize)>),
    /// First `bootstrap` once a peer, then one execution of the state machine
    /// a peer an epoch; the last state starts the next.
    Workflow {
        /// The function that prepares a peer.
        bootstrap: &'static str,
    },
}

/// Whether all replicas hold bit-identical parameters after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// They do.
    Identical,
    /// They need not.
    Differ {
        /// Why.
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

/// How an invocation ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing is left to do for this worker, or this stage is over.
    Finished,
    /// The worker re-invoked itself to go on at this epoch.
    Continued {
        /// Where it goes on.
        epoch: usize,
    },
    /// Nothing was done: the same request had been delivered before.
    Repeated,
}

/// The queue that a system's publication rents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueService {
    /// A RabbitMQ broker, paid by the hour.
    RabbitMq,
    /// SQS, paid by the request.
    Sqs,
    /// None: its messages stand for HTTP requests between its own processes.
    Http,
}

/// The formula that the paper behind a system states costs by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaperAccount {
    /// Barrak et al. 2025, Table 2: every function its own run time × memory,
    /// GB of 1,000 MB, at the x86 price; every instance its run time.
    Comparison,
    /// Barrak et al. 2023 (P2P), Tables II and III: (λ·B + e)·T. All functions
    /// that work at mini-batches at once are charged for as long as the slowest
    /// runs, by GB of 1,024 MB at the Arm price; other functions are left out.
    PeerToPeer,
}

/// One way to train.
#[async_trait]
pub trait System: Send + Sync {
    /// The name used in experiments and results, lower case.
    fn name(&self) -> &'static str;

    /// The name used in reports, as in the papers.
    fn title(&self) -> &'static str;

    /// Where it comes from, and which source each fidelity follows.
    fn about(&self) -> &'static str;

    /// What `function`'s code runs on.
    fn host_of(&self, function: &str) -> Host;

    /// Whether any of its functions runs on `host`.
    fn runs_on(&self, host: Host) -> bool {
        let functions = self.functions();
        functions.iter().any(|name| self.host_of(name) == host)
    }

    /// What the platform starts its workers on: the host of the first of its
    /// functions.
    fn worker_host(&self) -> Host {
        self.functions()
            .first()
            .map_or(Host::Function, |name| self.host_of(name))
    }

    /// The complete settings: this fidelity's, with `overrides` on top.
    ///
    /// # Errors
    /// Names the field that is unknown or has the wrong type.
    fn settings(
        &self,
        fidelity: Fidelity,
        overrides: &Map<String, Value>,
    ) -> Result<Value, SettingsError>;

    /// The optimizer of the source that this fidelity follows.
    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec;

    /// How its data must lie in the dataset bucket.
    ///
    /// # Errors
    /// When the job's settings are not this system's.
    fn data_layout(&self, job: &Job) -> Result<DataLayout>;

    /// Every function it is deployed as, that of a worker or peer first.
    fn functions(&self) -> &'static [&'static str];

    /// Those of its functions whose time is paid for, but is no worker's time:
    /// they coordinate, or compute while a worker that called them counts the
    /// time itself.
    fn coordinators(&self) -> &'static [&'static str] {
        &[]
    }

    /// The queue it is paid for by, where it uses one.
    fn queue_service(&self) -> QueueService {
        QueueService::RabbitMq
    }

    /// The formula of its paper.
    fn paper_account(&self) -> PaperAccount {
        PaperAccount::Comparison
    }

    /// What its publication computed on, where it ran on instances.
    fn device(&self) -> Device {
        Device::Cpu
    }

    /// The EC2 instance type of its workers on instances, unless an experiment
    /// names another: the comparison's (Barrak et al. 2025, §4.1).
    fn instance_type(&self) -> &'static str {
        "g4dn.xlarge"
    }

    /// How many functions or instances train side by side: one a worker, unless
    /// all workers share a machine.
    fn machines(&self, workers: usize) -> usize {
        workers
    }

    /// How many database hosts it rents, where it uses a tensor store.
    fn tensor_store_hosts(&self, _workers: usize) -> usize {
        1
    }

    /// What to start.
    ///
    /// # Errors
    /// When the job's settings are not this system's.
    fn launch(&self, job: &Job) -> Result<Launch>;

    /// The states of one execution of its state machine, in order; none where
    /// it has no state machine.
    ///
    /// # Errors
    /// When the job's settings are not this system's.
    fn states(&self, _job: &Job) -> Result<Vec<State>> {
        Ok(Vec::new())
    }

    /// The exchange's traffic over all workers and epochs of one trial, in the
    /// counts that do not depend on timing (see [`Traffic::untimed`]).
    ///
    /// # Errors
    /// When the job's settings are not this system's.
    fn traffic(&self, job: &Job, sizes: Sizes) -> Result<Traffic>;

    /// The closed form at what the steps of a trial say that they sent: equal
    /// to [`traffic`](Self::traffic) unless what is sent depends on the data, or
    /// training ended early.
    ///
    /// # Errors
    /// When the job's settings are not this system's.
    fn traffic_of(&self, job: &Job, sizes: Sizes, steps: &[&StepRecord]) -> Result<Traffic> {
        self.traffic(&job.as_run(steps), sizes)
    }

    /// Whether the closed form states bytes exactly. Where values travel as
    /// text, their lengths depend on the data and its bytes are an estimate.
    ///
    /// # Errors
    /// When the job's settings are not this system's.
    fn states_bytes(&self, _job: &Job) -> Result<bool> {
        Ok(true)
    }

    /// How many vectors of a gradient's size an invocation of `function` for
    /// worker `rank` holds at once, at most, beside what a training step needs.
    ///
    /// # Errors
    /// When the job's settings are not this system's.
    fn resident_vectors(&self, job: &Job, function: &str, rank: usize) -> Result<usize>;

    /// Whether replicas stay bit-identical under these settings.
    ///
    /// # Errors
    /// When the job's settings are not this system's.
    fn replicas(&self, job: &Job) -> Result<Replicas>;

    /// Runs one invocation: the function, rank, epoch and batch of the world's task.
    ///
    /// # Errors
    /// Whatever made the invocation fail.
    async fn run(&self, world: &mut World) -> Result<Outcome>;
}
