//! KubeML: functions that train by local steps on their share of the data and
//! meet every K mini-batches, where a job merges their models (Petrescu et al.
//! 2023, and its published code).
//!
//! With the paper's places:
//!
//! 1. `job` (§3.2 ¶4) has `init` store the initial model, a tensor per entry of the
//!    state dictionary, and fetches it (published code; the store: §3.2 ¶4).
//! 2. An epoch: the job calls N functions `train`, each with a part of the documents (§3.1 ¶2), a
//!    contiguous one (published code). An interval of a function: fetch its documents (§3.2 ¶4),
//!    fetch the reference model (§3.1 ¶2, §3.2 ¶4), take a local step with each mini-batch
//!    (§3.2 ¶3), store the model (§3.2 ¶4); then it posts /next and waits, or after its last
//!    interval returns (published code; synchronous: §3 ¶2).
//! 3. Whenever all functions that have not returned have reported, the job
//!    fetches their models, makes the reference their mean (§3.2 ¶3) and lets those that
//!    wait go on. A function that has returned is no part of later merges of
//!    the epoch (published code; §3.2 ¶3 averages the models of all).
//! 4. Validation: N functions `validate`, each on a part of the test split (published code).
//! 5. The scheduler decides how many functions the next epoch has, unless
//!    parallelism is static (published code).
//!
//! `code` does what the published code does: momentum is cleared at every
//! merge, a function that fails counts in the divisor of a merge with what it
//! stored before, the scheduler may ask for no function at all, and the model
//! is deleted with everything else when the job ends. `tuned` merges in the
//! tensor store and moves several tensors at once.
//!
//! # The channels
//!
//! Job and functions speak HTTP. Here a call is an invocation, whose query is a
//! message of the queue, as are /next, its answer and what a function returns;
//! no broker is paid for. Tensors lie in one tensor store, the original's
//! RedisAI: parameters are the exchange; batch norm's means, variances and
//! counters, which KubeML merges like all others, are metered apart, as state.
//!
//! Every report bears its epoch, interval and number of call, so that one that comes
//! late or twice, or from a call that has failed, is recognised and dropped: it is merged
//! with no other interval and no other epoch. `/next` is answered again if its interval is
//! merged already.
//!
//! # Data
//!
//! An epoch uses the first W·B·b training samples, in documents of 64, not
//! shuffled. The last mini-batch of an interval may be smaller than b.
//!
//! # What is left out
//!
//! Copies are added in rank order, not in the order in which they come. Two
//! races of the published code (a fast function's copy lost while the
//! accumulator is cleared; a job that waits for a merger that waits for it)
//! and its accuracy divided by nominal batch sizes are not reproduced.
//!
//! # Traffic
//!
//! See [`traffic()`] and [`state_traffic()`].
//!
//! # Objects and keys
//!
//! In tensor store 0, with `{layer}` counting the entries of the model's state dictionary (of a batch
//! norm: scale, shift, mean, variance, number of batches; each as f32; the last three are metered as
//! state): `{trial}:{layer}`, a tensor of the reference model, and `{trial}:{layer}/{function}`, a
//! tensor of a function's model.
//!
//! Messages stand for HTTP requests and answers, in the queues `{trial}_call_{function}`, `{trial}_job`
//! and `{trial}_next_{function}`; `message.rs` has their bytes. The job drops reports of another epoch
//! and of earlier attempts.

mod function;
mod job;
mod message;
mod model;
mod scheduler;
mod settings;
mod split;
mod traffic;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;

use self::split::Split;

pub use self::message::{
    GO_ON_BYTES, HELD_OUT_BYTES, INITIALISED_BYTES, QUERY_BYTES, REPORT_BYTES, VALIDATION_BYTES,
};
pub use self::settings::{CALLS, FailedFunction, MergeBy, OptimizerState, Settings};
pub use self::traffic::{state_traffic, traffic};
use crate::mechanics::published::sgd;
use crate::{
    Bound, BoundSystem, DataLayout, Deployment, Fidelity, Function, Host, Job, Launch, Machines,
    Names, Outcome, QueueService, Replicas, Result, SettingsError, Sizes, Steps, TrainingSystem,
    World,
};

const NAME: &str = "kubeml";
const JOB: &str = "job";
const INIT: &str = "init";
const TRAIN: &str = "train";
const VALIDATE: &str = "validate";

/// KubeML.
#[derive(Clone, Copy, Debug)]
pub struct KubeMl;

/// The queue of a function's queries.
fn calls(trial: &str, function: usize) -> String {
    format!("{trial}_call_{function}")
}

/// The queue of what functions report to the job.
fn reports(trial: &str) -> String {
    format!("{trial}_job")
}

/// The queue of the answers to a function's /next.
fn answers(trial: &str, function: usize) -> String {
    format!("{trial}_next_{function}")
}

const FUNCTIONS: [Function; 4] = [
    Function::coordinator(JOB, Host::Instance),
    Function::worker(INIT, Host::Function),
    Function::worker(TRAIN, Host::Function),
    Function::worker(VALIDATE, Host::Function),
];

#[async_trait]
impl TrainingSystem for KubeMl {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "KubeML (Petrescu et al. 2023): local steps, models averaged every K mini-batches. paper: as \
         described. code: momentum cleared at merges, failed functions counted with what they \
         stored before, the model deleted. tuned: merged in the tensor store, transfers at once";
        Names::new(NAME, "KubeML", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            // The job computes nothing: a small one does.
            instance_type: "t2.small",
            tensor_store_hosts: Some(Machines::Shared),
            queue_service: QueueService::Http,
            ..Deployment::new(&FUNCTIONS)
        }
    }

    fn defaults(&self, fidelity: Fidelity) -> Settings {
        Settings::new(fidelity)
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        if settings.k == 0 || settings.k < -1 {
            let reason = "give 1 or more mini-batches, or -1 for one merge per epoch";
            return Err(SettingsError::value(NAME, "k", reason));
        }
        if settings.document_samples == 0 {
            let reason = "a document holds 1 sample or more";
            return Err(SettingsError::value(NAME, "document_samples", reason));
        }
        Ok(())
    }

    fn check_job(&self, job: &Job, settings: &Settings) -> Result<(), SettingsError> {
        let documents = Split::new(job, settings, job.workers).documents();
        if documents < job.workers {
            let reason = format!(
                "{} functions share {documents} documents; use more data or smaller documents",
                job.workers
            );
            return Err(SettingsError::value(NAME, "document_samples", reason));
        }
        Ok(())
    }

    /// SGD as in the paper's runs of LeNet; the published ResNet-34 function has
    /// no momentum.
    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec {
        let momentum = match fidelity {
            Fidelity::Paper | Fidelity::Tuned => 0.9,
            Fidelity::Code => 0.0,
        };
        sgd(0.01, momentum, 1e-4)
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        world.at(world.task.epoch, None);
        match world.task.function.as_str() {
            JOB => job::run(world, &settings).await?,
            INIT => function::init(world, &settings).await?,
            TRAIN => function::train(world, &settings).await?,
            _ => function::validate(world, &settings).await?,
        }
        Ok(Outcome::Finished)
    }
}

impl BoundSystem for Bound<'_, KubeMl> {
    fn data_layout(&self) -> DataLayout {
        DataLayout::Whole
    }

    fn launch(&self) -> Launch {
        Launch::Workers(vec![(JOB, 0)])
    }

    /// Before a trial, every epoch has W functions, also under an elastic scheduler; [`traffic()`]
    /// takes what there was.
    fn closed_form(&self, job: &Job, sizes: Sizes, steps: Steps<'_>) -> Result<Traffic> {
        traffic::traffic(job, &self.settings, sizes, steps.unwrap_or_default())
    }

    /// A function's model, gradient and momentum, and the model as it is sent;
    /// the job's copy of every function's, their mean, and that as it is sent.
    fn resident_vectors(&self, function: &str, _rank: usize) -> usize {
        match (function, self.settings.merge_by) {
            (JOB, MergeBy::Job) => self.job.workers + 2,
            (JOB, MergeBy::Store) => 1,
            _ => 4,
        }
    }

    /// All functions begin an interval with the same model.
    fn replicas(&self) -> Replicas {
        Replicas::Identical
    }
}
