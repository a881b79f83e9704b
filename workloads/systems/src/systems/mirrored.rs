//! Synchronous data-parallel training within one machine: the role that
//! TensorFlow's MirroredStrategy plays in the KubeML paper (Petrescu et al.
//! 2023).
//!
//! One process on one instance keeps W replicas, each on a device of its own.
//! A global batch of W·b samples is cut into W (§4.1 ¶1); every replica computes the
//! gradient of its part at the same parameters, and all step with their mean (here; by §4.1 ¶1
//! devices synchronise after each forward pass).
//! The all-reduce happens in memory: nothing is exchanged over a channel (here).
//! Batch-norm statistics are the replicas' own while they train, and their mean
//! where the model is evaluated, as in TensorFlow.
//!
//! It is not TensorFlow: it has none of its overheads, and all fidelities are
//! the same. Where replicas compute on CPUs they share the machine's; on GPUs
//! each has its own, so that the instance must be one with W of them.

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::arithmetic::beside_model;
use crate::contract::data::Shard;
use crate::mechanics::continuation::follow_alone;
use crate::mechanics::monitor::Monitor;
use crate::mechanics::published::sgd;
use crate::mechanics::replica::Replica;
use crate::mechanics::synchronous::{FUNCTION, INSTANCES};
use crate::{
    Bound, BoundSystem, DataLayout, Deployment, Device, EarlyStopping, Fidelity, Job, Launch,
    Machines, Names, Outcome, ReduceOnPlateau, Replicas, Result, Sizes, Stage, Steps,
    TrainingSystem, Vector, World,
};

const NAME: &str = "mirrored";

/// No publication describes another one: there is no difference to set.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    early_stopping: Option<EarlyStopping>,
}

/// Synchronous data-parallel training within one machine.
pub(crate) struct Mirrored;

#[async_trait]
impl TrainingSystem for Mirrored {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "Data-parallel training within one machine: TensorFlow's MirroredStrategy in Petrescu et al. 2023";
        Names::new(NAME, "Mirrored", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            device: Device::Cuda,
            machines: Machines::Shared,
            ..Deployment::new(&INSTANCES)
        }
    }

    fn defaults(&self, _fidelity: Fidelity) -> Settings {
        Settings::default()
    }

    /// SGD of the KubeML paper's runs.
    fn optimizer(&self, _fidelity: Fidelity) -> OptimizerSpec {
        sgd(0.01, 0.9, 1e-4)
    }

    async fn run(&self, world: &mut World, _: Settings) -> Result<Outcome> {
        train(world).await
    }
}

impl BoundSystem for Bound<'_, Mirrored> {
    fn data_layout(&self) -> DataLayout {
        DataLayout::Whole
    }

    fn launch(&self) -> Launch {
        Launch::Workers(vec![(FUNCTION, 0)])
    }

    /// No traffic: no byte leaves the machine.
    fn closed_form(&self, _: &Job, _sizes: Sizes, _: Steps<'_>) -> Result<Traffic> {
        Ok(Traffic::default())
    }

    /// The parameters and the momentum, all gradients and their mean.
    fn resident_vectors(&self, _function: &str, _rank: usize) -> usize {
        self.job.workers + 3
    }

    fn replicas(&self) -> Replicas {
        Replicas::Identical
    }
}

async fn train(world: &mut World) -> Result<Outcome> {
    let job = world.task.job.clone();
    let mut replica = Replica::initial(world, true).await?;
    let mut statistics = vec![replica.statistics.clone(); job.workers];
    let shard = Shard::fetch(world, DataLayout::Whole).await?;
    let mut monitor = Monitor::new(&job);
    for epoch in 0..job.epochs {
        let order = shard.batches(world, 0, epoch, job.workers);
        for batch in 0..job.batches_per_worker {
            world.at(epoch, Some(batch));
            world.enter(Stage::FetchDataset);
            // Cut the global batch, one part per replica.
            let parts: Result<Vec<_>> = (0..job.workers)
                .map(|rank| shard.batch(&order, batch * job.workers + rank))
                .collect();
            // Compute all gradients at the same parameters.
            world.enter(Stage::ComputeGradients);
            let outputs = world
                .compute
                .gradients(&replica.parameters, &mut statistics, &parts?)
                .await?;
            let losses: Vec<f64> = outputs.iter().filter_map(|output| output.loss).collect();
            world.note_losses(&losses);
            // Step with their mean.
            world.enter(Stage::Aggregate);
            let gradients: Vec<Vector> = outputs.into_iter().map(|out| out.gradient).collect();
            let gradient = beside_model(|| Vector::mean(&gradients))?;
            world.enter(Stage::UpdateModel);
            replica.update(&gradient)?;
            world.note_parameters(&replica.parameters);
            // Evaluate after the last mini-batch of an epoch.
            if batch + 1 == job.batches_per_worker && job.evaluates_after(epoch) {
                world.enter(Stage::DetectConvergence);
                replica.statistics = beside_model(|| Vector::mean(&statistics))?;
                follow_alone(world, &mut monitor, &mut replica, epoch).await?;
            }
            world.end_step();
        }
        if monitor.as_ref().is_some_and(|monitor| monitor.is_over) {
            break;
        }
    }
    Ok(Outcome::Finished)
}
