use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    DataLayout, Deployment, Fidelity, Job, Launch, Outcome, QueueService, Replicas, Result,
    SettingsError, Sizes, State, StepRecord, Symmetry, World,
};

/// A training system with typed settings: the trait that its file implements.
///
/// Methods that depend on a job receive its settings parsed and checked.
#[async_trait]
pub trait TrainingSystem: Send + Sync {
    /// Every difference between the fidelities, one field each.
    type Settings: Serialize + DeserializeOwned + JsonSchema + Send + Sync;

    /// The name used in experiments and results, lower case.
    fn name(&self) -> &'static str;

    /// The name used in reports, as in the papers.
    fn title(&self) -> &'static str;

    /// The name within a sentence, with its article if it has one.
    fn noun(&self) -> String {
        self.title().to_owned()
    }

    /// The publication behind it, and the source that each fidelity follows.
    fn about(&self) -> &'static str;

    /// What it is deployed on, and what is billed for it.
    fn deployment(&self) -> Deployment;

    /// The settings of a fidelity.
    fn defaults(&self, fidelity: Fidelity) -> Self::Settings;

    /// Refuses settings that contradict each other.
    ///
    /// # Errors
    /// Names the setting.
    fn check(&self, _settings: &Self::Settings) -> Result<(), SettingsError> {
        Ok(())
    }

    /// Refuses a job that cannot be trained under these settings.
    ///
    /// # Errors
    /// Names the setting, or the job's field.
    fn check_job(&self, _job: &Job, _settings: &Self::Settings) -> Result<(), SettingsError> {
        Ok(())
    }

    /// Whether an attacker can read the gradients of honest workers before it sends its
    /// own; false by default.
    fn attackers_see_honest(&self) -> bool {
        false
    }

    /// The optimizer of the source that this fidelity follows.
    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec;

    /// Layout of its data in the dataset bucket; by default a share for each worker.
    fn data_layout(&self, _settings: &Self::Settings) -> DataLayout {
        DataLayout::Shards
    }

    /// Whether an epoch ends with the rest of a worker's share, as a smaller mini-batch; by default it
    /// has full ones alone.
    fn trains_on_the_rest(&self) -> bool {
        false
    }

    /// Functions that a platform starts; by default the first of its deployment for each worker.
    fn launch(&self, job: &Job, _settings: &Self::Settings) -> Launch {
        let first = self.deployment().functions.first();
        let of_worker = |rank| first.map(|function| (function.name, rank));
        Launch::Workers((0..job.workers).filter_map(of_worker).collect())
    }

    /// Whether the functions that [`launch`](Self::launch) names wait for each other,
    /// so that all must run at the same time; true by default.
    fn waits(&self, _settings: &Self::Settings) -> bool {
        true
    }

    /// The queue that it is paid for by under these settings; that of its deployment by
    /// default.
    fn queue_service(&self, _settings: &Self::Settings) -> QueueService {
        self.deployment().queue_service
    }

    /// Number of tensor stores that its workers use, those of the lowest ranks: the hosts of its
    /// deployment by default.
    fn tensor_stores(&self, job: &Job, _settings: &Self::Settings) -> usize {
        let hosts = self.deployment().tensor_store_hosts;
        hosts.map_or(0, |hosts| hosts.count(job.workers))
    }

    /// The states of one execution of its state machine, in order; none where
    /// it has no state machine.
    fn states(&self, _settings: &Self::Settings) -> Vec<State> {
        Vec::new()
    }

    /// Executions of its state machine per peer and epoch, each for a part of the epoch's
    /// mini-batches.
    fn rounds(&self, _job: &Job, _settings: &Self::Settings) -> usize {
        1
    }

    /// Optimizer steps of a worker's model in an epoch; by default one per mini-batch.
    fn steps_per_epoch(&self, job: &Job, _settings: &Self::Settings) -> usize {
        job.batches_per_worker
    }

    /// Peers whose first execution the platform starts, those of the lowest ranks: all by default.
    /// The others are started by peers.
    fn first_peers(&self, job: &Job, _settings: &Self::Settings) -> usize {
        job.workers
    }

    /// Whether training goes on where the executions of some peers fail; false by default.
    fn survives_lost_peers(&self, _settings: &Self::Settings) -> bool {
        false
    }

    /// The exchange's traffic over all workers and epochs of one trial, in the
    /// counts that do not depend on timing (see [`Traffic::untimed`]).
    ///
    /// # Errors
    /// When the sizes are not ones that the system can send.
    fn traffic(&self, job: &Job, settings: &Self::Settings, sizes: Sizes) -> Result<Traffic>;

    /// The closed form at what the steps of a trial report that they sent. Where
    /// training ended early, `job` has the epochs that were run.
    ///
    /// # Errors
    /// When the sizes are not ones that the system can send.
    fn traffic_of(
        &self,
        job: &Job,
        settings: &Self::Settings,
        sizes: Sizes,
        _steps: &[&StepRecord],
    ) -> Result<Traffic> {
        self.traffic(job, settings, sizes)
    }

    /// Whether the closed form states bytes exactly. Where values travel as
    /// text, their lengths depend on the data and its bytes are an estimate.
    fn states_bytes(&self, _settings: &Self::Settings) -> bool {
        true
    }

    /// Number of vectors of a gradient's size that an invocation of `function` for
    /// worker `rank` holds at once, at most, beside what a training step needs.
    fn resident_vectors(
        &self,
        job: &Job,
        settings: &Self::Settings,
        function: &str,
        rank: usize,
    ) -> usize;

    /// Number of parts of a gradient, of one of which each vector that
    /// [`resident_vectors`](Self::resident_vectors) counts has the size; 1 by default.
    fn resident_parts(&self, _settings: &Self::Settings, _function: &str) -> usize {
        1
    }

    /// Whether one worker can stand for others that are alike in a simulation of sizes; by
    /// default none can.
    fn symmetry(&self, _settings: &Self::Settings) -> Symmetry {
        Symmetry::Everyone
    }

    /// Whether replicas stay bit-identical under these settings.
    fn replicas(&self, settings: &Self::Settings) -> Replicas;

    /// Runs one invocation: the function, rank, epoch and batch of the world's task. The function is
    /// one of its deployment.
    ///
    /// # Errors
    /// Whatever made the invocation fail.
    async fn run(&self, world: &mut World, settings: Self::Settings) -> Result<Outcome>;
}
