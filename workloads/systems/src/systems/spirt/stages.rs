//! The functions of SPIRT's workflow, in its order and words.

use std::sync::Arc;

use epochcost_channels::{ChannelError, Payload, TensorStore};
use epochcost_kernels::{codec, hash};

use super::barrier::synchronise;
use super::{
    Averaging, BatchNorm, GradientFormat, Settings, TEXT_BYTES_PER_PARAMETER, Update,
    in_store_step, sgd_of,
};
use crate::contract::data;
use crate::contract::world::Channels;
use crate::mechanics::transfers::in_turn;
use crate::{Outcome, Result, Stage, SystemError, Task, Vector, World};

const PARAMETERS: &str = "params";
/// Key under which the store itself keeps the momentum of [`PARAMETERS`].
const VELOCITY: &str = "params:velocity";
const STATISTICS: &str = "statistics";

/// The list of an epoch's gradients.
fn gradients_key(epoch: usize) -> String {
    format!("gradients_{epoch}")
}

/// One gradient of an epoch, where they are no list.
fn gradient_key(epoch: usize, batch: usize) -> String {
    format!("gradients_{epoch}_{batch}")
}

fn averaged_key(epoch: usize) -> String {
    format!("averaged_gradient_{epoch}")
}

/// The running sum of an epoch's gradients, where they are added as they come.
fn summed_key(epoch: usize) -> String {
    format!("summed_gradient_{epoch}")
}

/// Returns the key of the gradient of a peer's mini-batches, which other peers fetch.
fn shared_key(settings: &Settings, epoch: usize) -> String {
    match settings.averaging {
        Averaging::OnArrival => summed_key(epoch),
        Averaging::InStore | Averaging::Fetch => averaged_key(epoch),
    }
}

fn aggregated_key(epoch: usize) -> String {
    format!("aggregated_gradient_{epoch}")
}

fn store_of(channels: &Channels, rank: usize) -> Result<Arc<dyn TensorStore>> {
    let missing = || ChannelError::Missing {
        service: "tensor stores",
        key: format!("store of peer {rank}"),
    };
    Ok(channels.tensors.of(rank).ok_or_else(missing)?)
}

async fn expect(store: &Arc<dyn TensorStore>, key: &str) -> Result<Payload> {
    let missing = || ChannelError::Missing {
        service: "tensor store",
        key: key.to_owned(),
    };
    Ok(store.get(key).await?.ok_or_else(missing)?)
}

/// Stores the initial parameters, and batch-norm statistics if they are kept.
pub(super) async fn init_peer(world: &mut World, settings: &Settings) -> Result<()> {
    let job = &world.task.job;
    let seed = if settings.seeded_replicas {
        job.seed
    } else {
        hash::mix(job.seed, world.rank() as u64 + 1)
    };
    let store = store_of(&world.exchange, world.rank())?;
    let state = store_of(&world.state, world.rank())?;
    let keeps_statistics =
        settings.batch_norm == BatchNorm::FirstBatch && world.compute.statistics() > 0;

    world.enter(Stage::UpdateModel);
    let parameters = world.compute.initial_parameters(seed).await?;
    world.enter(Stage::Put);
    // A store that served an earlier trial may remember its momentum.
    store.delete(&[VELOCITY.to_owned()]).await?;
    store.set(PARAMETERS, parameters.encode()).await?;
    if keeps_statistics {
        state
            .set(STATISTICS, world.compute.initial_statistics().encode())
            .await?;
    }
    Ok(())
}

/// Reaches every peer's store, so that an epoch that cannot end does not begin.
pub(super) async fn authenticate(world: &mut World) -> Result<()> {
    world.enter(Stage::Wait);
    ping_peers(world).await
}

async fn ping_peers(world: &World) -> Result<()> {
    for peer in 0..world.workers() {
        store_of(&world.exchange, peer)?.ping().await?;
    }
    Ok(())
}

/// Computes the gradient of one mini-batch and stores it.
pub(super) async fn compute_gradients(world: &mut World, settings: &Settings) -> Result<()> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    let batch = world.task.batch.ok_or_else(|| SystemError::Malformed {
        what: "the input of compute_gradients".into(),
        reason: "it names no mini-batch".into(),
    })?;
    let store = store_of(&world.exchange, rank)?;
    let state = store_of(&world.state, rank)?;
    let keeps_statistics = settings.batch_norm == BatchNorm::FirstBatch
        && batch == 0
        && world.compute.statistics() > 0;

    world.enter(Stage::Get);
    let parameters = Vector::decode(&expect(&store, PARAMETERS).await?)?;
    let mut statistics = if keeps_statistics {
        Vector::decode(&expect(&state, STATISTICS).await?)?
    } else {
        world.compute.initial_statistics()
    };

    world.enter(Stage::FetchDataset);
    let minibatch = data::minibatch(world, rank, batch).await?;

    world.enter(Stage::ComputeGradients);
    let output = world
        .compute
        .gradient(&parameters, &mut statistics, &minibatch)
        .await?;
    world.note_loss(output.loss);

    world.enter(Stage::Serialise);
    let gradient = encode(settings.gradient_format, &output.gradient)?;
    world.enter(Stage::Put);
    if settings.averaging == Averaging::OnArrival {
        store.accumulate(&summed_key(epoch), gradient).await?;
    } else if settings.uses_list() {
        store.push(&gradients_key(epoch), gradient).await?;
    } else {
        store.set(&gradient_key(epoch, batch), gradient).await?;
    }
    if keeps_statistics {
        state.set(STATISTICS, statistics.encode()).await?;
    }
    Ok(())
}

fn encode(format: GradientFormat, gradient: &Vector) -> Result<Payload> {
    Ok(match (format, gradient) {
        (GradientFormat::Binary, _) => gradient.encode(),
        (GradientFormat::Json, Vector::Real(values)) => codec::encode_json(values)?.into(),
        (GradientFormat::Json, Vector::Phantom { len }) => Payload::Phantom {
            bytes: TEXT_BYTES_PER_PARAMETER * *len as u64,
        },
    })
}

fn decode(format: GradientFormat, gradient: &Payload) -> Result<Vector> {
    Ok(match (format, gradient) {
        (GradientFormat::Binary, _) => Vector::decode(gradient)?,
        (GradientFormat::Json, Payload::Bytes(text)) => Vector::Real(codec::decode_json(text)?),
        (GradientFormat::Json, phantom) => Vector::Phantom {
            len: (phantom.len() / TEXT_BYTES_PER_PARAMETER) as usize,
        },
    })
}

/// Averages the gradients of this peer's mini-batches, then waits for all peers.
pub(super) async fn average_gradients(world: &mut World, settings: &Settings) -> Result<()> {
    let epoch = world.task.epoch;
    let batches = world.task.job.batches_per_worker;
    let store = store_of(&world.exchange, world.rank())?;
    let destination = averaged_key(epoch);
    let sources: Vec<String> = (0..batches)
        .map(|batch| gradient_key(epoch, batch))
        .collect();

    match settings.averaging {
        // The last gradient function left the sum complete.
        Averaging::OnArrival => {}
        Averaging::InStore if settings.uses_list() => {
            world.enter(Stage::Aggregate);
            let text = store
                .json_mean(&gradients_key(epoch), batches as u64)
                .await?;
            world.enter(Stage::Serialise);
            let averaged = decode(GradientFormat::Json, &text)?.encode();
            world.enter(Stage::Put);
            store.set(&destination, averaged).await?;
        }
        Averaging::InStore => {
            world.enter(Stage::Aggregate);
            store.mean(&destination, &sources).await?;
        }
        Averaging::Fetch => {
            world.enter(Stage::Get);
            let mut gradients = Vec::with_capacity(batches);
            for key in &sources {
                gradients.push(decode(
                    settings.gradient_format,
                    &expect(&store, key).await?,
                )?);
            }
            world.enter(Stage::Aggregate);
            let averaged = Vector::mean(&gradients)?;
            world.enter(Stage::Put);
            store.set(&destination, averaged.encode()).await?;
        }
    }

    world.enter(Stage::Wait);
    synchronise(world, settings).await
}

/// Pings every peer and drops what no peer needs any more.
///
/// All peers have passed this epoch's barrier, so all have left the last epoch
/// and no peer will fetch its averages again.
pub(super) async fn check_heartbeat(world: &mut World, settings: &Settings) -> Result<()> {
    let epoch = world.task.epoch;
    let store = store_of(&world.exchange, world.rank())?;
    world.enter(Stage::Wait);
    ping_peers(world).await?;
    let batches = world.task.job.batches_per_worker;
    let mut stale: Vec<String> = match settings.averaging {
        Averaging::OnArrival => Vec::new(),
        _ if settings.uses_list() => vec![gradients_key(epoch)],
        _ => (0..batches)
            .map(|batch| gradient_key(epoch, batch))
            .collect(),
    };
    if let Some(last) = epoch.checked_sub(1).filter(|_| !settings.keeps_averages) {
        stale.extend([shared_key(settings, last), aggregated_key(last)]);
    }
    if stale.is_empty() {
        return Ok(());
    }
    Ok(store.delete(&stale).await?)
}

/// Fetches every peer's average, stores their mean in rank order.
pub(super) async fn aggregate_gradients(world: &mut World, settings: &Settings) -> Result<()> {
    let epoch = world.task.epoch;
    world.enter(Stage::Get);
    let exchange = &world.exchange;
    let fetched = move |peer: usize| async move {
        let store = store_of(exchange, peer)?;
        Vector::decode(&expect(&store, &shared_key(settings, epoch)).await?)
    };
    let averages = in_turn(settings.transfers_at_once, world.workers(), fetched).await?;
    world.enter(Stage::Aggregate);
    let mut aggregated = Vector::mean(&averages)?;
    if settings.averaging == Averaging::OnArrival {
        aggregated.divide(world.task.job.batches_per_worker as f32);
    }
    world.enter(Stage::Put);
    let store = store_of(&world.exchange, world.rank())?;
    Ok(store
        .set(&aggregated_key(epoch), aggregated.encode())
        .await?)
}

/// Takes one SGD step with the aggregated gradient.
pub(super) async fn update_model(world: &mut World, settings: &Settings) -> Result<()> {
    let sgd = sgd_of(&world.task.job)?;
    let gradient_key = aggregated_key(world.task.epoch);
    let store = store_of(&world.exchange, world.rank())?;
    world.enter(Stage::UpdateModel);
    if settings.update == Update::InStore {
        return Ok(store
            .sgd(PARAMETERS, &gradient_key, in_store_step(sgd))
            .await?);
    }
    let mut parameters = Vector::decode(&expect(&store, PARAMETERS).await?)?;
    let gradient = Vector::decode(&expect(&store, &gradient_key).await?)?;
    let has_momentum = sgd.momentum != 0.0;
    let mut velocity = if has_momentum {
        store
            .get(VELOCITY)
            .await?
            .map(|payload| Vector::decode(&payload))
            .transpose()?
    } else {
        None
    }
    .unwrap_or_else(|| Vector::Real(Vec::new()));
    match (&mut parameters, &gradient, &mut velocity) {
        (Vector::Real(w), Vector::Real(g), Vector::Real(v)) => sgd.step(w, g, v)?,
        (w, _, v) => *v = Vector::Phantom { len: w.len() },
    }
    store.set(PARAMETERS, parameters.encode()).await?;
    if has_momentum {
        store.set(VELOCITY, velocity.encode()).await?;
    }
    Ok(())
}

/// Notes the parameters; rank 0 evaluates them.
pub(super) async fn check_convergence(world: &mut World, settings: &Settings) -> Result<()> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    world.enter(Stage::DetectConvergence);
    let store = store_of(&world.exchange, rank)?;
    let parameters = Vector::decode(&expect(&store, PARAMETERS).await?)?;
    world.note_parameters(&parameters);
    if rank != 0 || !world.task.job.evaluates_after(epoch) {
        return Ok(());
    }
    let statistics = match settings.batch_norm {
        BatchNorm::FirstBatch if world.compute.statistics() > 0 => {
            Vector::decode(&expect(&store_of(&world.state, rank)?, STATISTICS).await?)?
        }
        _ => world.compute.initial_statistics(),
    };
    let test = data::test_split(world, epoch).await?;
    if let Some(evaluation) = world
        .compute
        .evaluate(&parameters, &statistics, &test)
        .await?
    {
        world.record_evaluation(epoch, evaluation);
    }
    Ok(())
}

/// Starts the workflow of the next epoch, if there is one.
pub(super) async fn trigger_next(world: &mut World) -> Result<Outcome> {
    let epoch = world.task.epoch + 1;
    if epoch >= world.task.job.epochs {
        return Ok(Outcome::Finished);
    }
    world
        .invoke
        .start_workflow(Task {
            epoch,
            batch: None,
            ..world.task.clone()
        })
        .await?;
    Ok(Outcome::Continued { epoch })
}
