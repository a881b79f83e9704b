//! What runs on Lambda: one execution of the state machine an epoch of a peer.

use epochcost_kernels::hash;

use super::{Settings, gradient_key, lambda_queue, weights_key};
use crate::contract::data;
use crate::mechanics::p2p::BUCKET;
use crate::{Job, Result, Stage, Vector, World};

const STATISTICS_BUCKET: &str = "p2p-statistics";

fn statistics_key(rank: usize) -> String {
    format!("statistics_{rank}")
}

/// Puts one mini-batch's gradient into the object store, and sends its key to the peer.
pub(super) async fn compute_gradients(world: &mut World, settings: &Settings) -> Result<()> {
    let (job, rank, epoch) = (world.task.job.clone(), world.rank(), world.task.epoch);
    let number = world.task.minibatch("the input of a gradient function")?;
    // Fetch the mini-batch, the parameters and the statistics.
    world.enter(Stage::FetchDataset);
    let batch = data::minibatch(world, rank, epoch, number).await?;
    world.enter(Stage::Get);
    let parameters = parameters(world, &job, settings, number).await?;
    let keeps_statistics = number == 0 && settings.batch_norm.is_kept(world);
    let mut statistics = if keeps_statistics {
        load_statistics(world, epoch).await?
    } else {
        world.compute.initial_statistics()
    };
    // Compute the gradient.
    world.enter(Stage::ComputeGradients);
    let computing = world.gradient(&parameters, &mut statistics, &batch);
    let gradient = computing.await?;
    // Store it, and send its key to the peer.
    world.enter(Stage::Serialise);
    let body = gradient.encode();
    world.enter(Stage::Put);
    let key = gradient_key(&job, rank, epoch, number);
    world.exchange.objects.put(BUCKET, &key, body).await?;
    if keeps_statistics {
        let (objects, key) = (&world.state.objects, statistics_key(rank));
        let body = statistics.encode();
        objects.put(STATISTICS_BUCKET, &key, body).await?;
    }
    let queue = lambda_queue(&job, rank);
    let announcement = key.into_bytes().into();
    Ok(world.exchange.queue.publish(&queue, announcement).await?)
}

/// The peer's parameters, or a random model where they are not sent.
async fn parameters(
    world: &mut World,
    job: &Job,
    settings: &Settings,
    number: usize,
) -> Result<Vector> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    if !settings.sends_weights {
        let parts = [1 + rank as u64, epoch as u64, number as u64];
        let seed = parts.into_iter().fold(job.seed, hash::mix);
        return world.compute.initial_parameters(seed).await;
    }
    let key = weights_key(job, rank, epoch);
    let weights = world.exchange.objects.expect(BUCKET, &key).await?;
    world.enter(Stage::Serialise);
    Vector::decode(&weights)
}

async fn load_statistics(world: &World, epoch: usize) -> Result<Vector> {
    if epoch == 0 {
        return Ok(world.compute.initial_statistics());
    }
    let key = statistics_key(world.rank());
    let objects = &world.state.objects;
    Vector::decode(&objects.expect(STATISTICS_BUCKET, &key).await?)
}

/// The statistics that a peer evaluates with: those that the functions of the
/// epoch left, or where none outlive a function, the initial ones.
pub(super) async fn statistics(world: &World, settings: &Settings) -> Result<Vector> {
    if settings.batch_norm.is_kept(world) {
        load_statistics(world, 1).await
    } else {
        Ok(world.compute.initial_statistics())
    }
}
