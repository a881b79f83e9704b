//! The peer: an instance that has functions compute its gradients.

use std::time::Duration;

use epochcost_channels::Payload;

use super::functions::statistics;
use super::{Settings, gate, gradient_key, lambda_queue, rules, weights_key};
use crate::mechanics::listing::delete_keys;
use crate::mechanics::monitor::Monitor;
use crate::mechanics::p2p::{BUCKET, BarrierAt, Mailbox, detect_convergence};
use crate::mechanics::replica::Replica;
use crate::mechanics::transfers::at_once;
use crate::{ExecutionStatus, Result, Stage, SystemError, Task, Vector, World};

pub(super) async fn train(world: &mut World, settings: &Settings) -> Result<()> {
    let job = world.task.job.clone();
    let mut replica = Replica::initial(world, settings.seeded_replicas).await?;
    let (mut mailbox, gate) = (Mailbox::new(world, rules(settings)), gate(settings));
    let mut monitor = Monitor::new(&job);
    for epoch in 0..job.epochs {
        world.at(epoch, None);
        if settings.sends_weights {
            send_weights(world, &replica, epoch).await?;
        }
        world.enter(Stage::ComputeGradients);
        execute(world, settings, epoch).await?;
        let gradient = gather(world, settings, epoch).await?;
        let mean = mailbox.exchange(world, &gradient, epoch).await?;
        if settings.deletes_objects {
            world.enter(Stage::Put);
            delete(world, settings, epoch).await?;
        }
        gate.pass(world, BarrierAt::Update, epoch).await?;
        world.enter(Stage::UpdateModel);
        replica.update(&mean)?;
        world.note_parameters(&replica.parameters);
        world.enter(Stage::DetectConvergence);
        if job.evaluates_after(epoch) {
            replica.statistics = statistics(world, settings).await?;
        }
        let rule = settings.mode.validation(settings.validation);
        detect_convergence(world, rule, &mut monitor, &mut replica, epoch).await?;
        world.end_step();
        if monitor.as_ref().is_some_and(|monitor| monitor.is_over) {
            break;
        }
    }
    Ok(())
}

async fn send_weights(world: &mut World, replica: &Replica, epoch: usize) -> Result<()> {
    world.enter(Stage::Serialise);
    let body = replica.parameters.encode();
    world.enter(Stage::Put);
    let key = weights_key(&world.task.job, world.rank(), epoch);
    Ok(world.exchange.objects.put(BUCKET, &key, body).await?)
}

/// Starts an execution of the state machine and asks for its state until it
/// has ended. This is the peer's time of computing gradients.
async fn execute(world: &World, settings: &Settings, epoch: usize) -> Result<()> {
    let input = Task {
        epoch,
        batch: None,
        ..world.task.clone()
    };
    let name = world.invoke.start_workflow(input).await?;
    let interval = Duration::from_millis(settings.status_poll_ms);
    let waiting = world.waiting(format!("execution {name}"), interval, None);
    loop {
        match world.invoke.status(&name).await? {
            ExecutionStatus::Running => world.pause(&waiting).await?,
            ExecutionStatus::Succeeded => return Ok(()),
            ExecutionStatus::Failed { reason } => {
                return Err(SystemError::invoke(format!("execution {name}"), reason));
            }
        }
    }
}

/// Takes all keys from the queue of the peer's functions, and gives the mean of
/// their gradients, in the order of mini-batches.
async fn gather(world: &mut World, settings: &Settings, epoch: usize) -> Result<Vector> {
    world.enter(Stage::Get);
    let (job, rank) = (world.task.job.clone(), world.rank());
    let channels = world.exchange.clone();
    // Take all keys from the queue.
    let mut sent = Vec::with_capacity(job.batches_per_worker);
    let name = lambda_queue(&job, rank);
    while let Some(key) = channels.queue.consume(&name, Duration::ZERO).await? {
        sent.push(key);
    }
    // Check that none is missing.
    let keys: Vec<String> = (0..job.batches_per_worker)
        .map(|batch| gradient_key(&job, rank, epoch, batch))
        .collect();
    let mut missing = keys.iter().filter(|key| {
        let key = Payload::from(key.as_bytes().to_vec());
        !sent.contains(&key)
    });
    if let Some(key) = missing.next() {
        let what = format!("the queue of worker {rank}'s functions");
        return Err(SystemError::malformed(
            what,
            format!("it does not hold {key}"),
        ));
    }
    // Fetch and add the gradients, in the order of mini-batches.
    let mut sum: Option<Vector> = None;
    for keys in keys.chunks(settings.downloads_at_once.max(1)) {
        world.enter(Stage::Get);
        let objects = &channels.objects;
        let gets: Vec<_> = keys
            .iter()
            .map(|key| async move { Ok(objects.expect(BUCKET, key).await?) })
            .collect();
        for body in at_once(gets.len(), gets).await? {
            world.enter(Stage::Serialise);
            let gradient = Vector::decode(&body)?;
            world.enter(Stage::Aggregate);
            match &mut sum {
                Some(sum) => sum.add(&gradient)?,
                None => sum = Some(gradient),
            }
        }
    }
    let mut mean = sum.ok_or_else(|| SystemError::Compute("an epoch has no mini-batch".into()))?;
    mean.divide(keys.len() as f32);
    Ok(mean)
}

/// Deletes what only this peer and its functions read.
async fn delete(world: &World, settings: &Settings, epoch: usize) -> Result<()> {
    let (job, rank) = (&world.task.job, world.rank());
    let batches = 0..job.batches_per_worker;
    let mut keys: Vec<String> = batches
        .map(|batch| gradient_key(job, rank, epoch, batch))
        .collect();
    if settings.sends_weights {
        keys.push(weights_key(job, rank, epoch));
    }
    delete_keys(&world.exchange.objects, BUCKET, &keys).await
}
