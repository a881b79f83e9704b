//! The Python functions: they train and validate, one call per epoch.

use std::ops::Range;

use epochcost_channels::Payload;
use epochcost_kernels::optimizer::{Optimizer, OptimizerSpec};

use super::message::{Message, Position};
use super::model::{Copy, Model, Tensors};
use super::split::{self, Split};
use super::{CALLS, OptimizerState, Settings, VALIDATE, answers, calls, reports};
use crate::mechanics::polling::next_message;
use crate::mechanics::replica::note_step;
use crate::{
    Batch, DATASET_BUCKET, Evaluation, Result, Stage, SystemError, TEST_KEY, TRAIN_KEY,
    VALIDATION_KEY, Vector, World,
};

/// Makes the reference model.
pub(super) async fn init(world: &mut World, settings: &Settings) -> Result<()> {
    world.enter(Stage::UpdateModel);
    let seed = world.task.job.seed;
    let model = Model {
        parameters: world.compute.initial_parameters(seed).await?,
        statistics: world.compute.initial_statistics(),
        batches_seen: 0.0,
    };
    world.enter(Stage::Put);
    let tensors = Tensors::new(world)?;
    tensors
        .set(Copy::Reference, &model, settings.function_tensors_at_once)
        .await?;
    let layers = tensors.len();
    report(world, Message::Initialised { layers }).await?;
    world.end_step();
    Ok(())
}

/// Query of the function's call.
struct Query {
    functions: usize,
    /// The call, and the interval that it begins with.
    at: Position,
    optimizer: OptimizerSpec,
}

/// Takes the query of this call. A query that an earlier call left unread is dropped.
async fn query(world: &World) -> Result<Query> {
    let queue = calls(&world.task.job.trial, world.rank());
    let validates = world.task.function == VALIDATE;
    loop {
        let message = next_message(&world.exchange.queue, &queue).await?;
        match Message::decode(&message)? {
            Message::Query {
                functions,
                at,
                learning_rate,
            } if at.epoch == world.task.epoch && (at.attempt == CALLS) == validates => {
                return Ok(Query {
                    functions,
                    at,
                    optimizer: world.task.job.optimizer.at_rate(learning_rate),
                });
            }
            Message::Query { .. } => {}
            other => return Err(unexpected("a function", other)),
        }
    }
}

/// Waits until the job has merged the interval `at`. Answers to intervals that
/// an earlier call reported are dropped.
async fn merged(world: &World, at: Position) -> Result<()> {
    let queue = answers(&world.task.job.trial, world.rank());
    loop {
        let answer = next_message(&world.exchange.queue, &queue).await?;
        match Message::decode(&answer)? {
            Message::GoOn { epoch, interval } if (epoch, interval) == (at.epoch, at.interval) => {
                return Ok(());
            }
            Message::GoOn { .. } => {}
            other => return Err(unexpected("a function", other)),
        }
    }
}

pub(super) fn unexpected(whom: &str, message: Message) -> SystemError {
    SystemError::malformed(
        format!("a message to {whom}"),
        format!("{message:?} was not expected"),
    )
}

async fn report(world: &World, message: Message) -> Result<()> {
    let queue = reports(&world.task.job.trial);
    let queues = &world.exchange.queue;
    Ok(queues.publish(&queue, message.encode()).await?)
}

/// Trains on its documents, interval by interval.
pub(super) async fn train(world: &mut World, settings: &Settings) -> Result<()> {
    world.enter(Stage::Wait);
    let Query {
        functions,
        at: first,
        optimizer,
    } = query(world).await?;
    // Divide the epoch's data.
    let function = world.rank();
    let split = Split::new(&world.task.job, settings, functions);
    let intervals = split.intervals_of(function);
    let mut trainer = Trainer {
        tensors: Tensors::new(world)?,
        limit: settings.function_tensors_at_once,
        optimizer: Optimizer::new(optimizer),
        losses: Vec::new(),
        batch: 0,
    };
    for interval in 0..intervals {
        let samples = split.interval(function, interval);
        let batches = split.batches(&samples);
        if interval < first.interval {
            trainer.batch += batches.len();
            continue;
        }
        if settings.optimizer_state == OptimizerState::Cleared {
            trainer.optimizer.reset();
        }
        // Train one interval from the reference model.
        trainer
            .interval(world, &samples, &batches, interval < split.shared())
            .await?;
        let loss = trainer.mean_loss();
        // Report it; wait for the merge before the next.
        let at = Position { interval, ..first };
        if interval + 1 == intervals {
            report(world, Message::Trained { function, at, loss }).await?;
        } else {
            report(world, Message::Next { function, at, loss }).await?;
            world.enter(Stage::Wait);
            merged(world, at).await?;
        }
        world.end_step();
    }
    Ok(())
}

struct Trainer {
    tensors: Tensors,
    limit: usize,
    optimizer: Optimizer,
    losses: Vec<f64>,
    /// Mini-batches of the epoch so far.
    batch: usize,
}

impl Trainer {
    fn mean_loss(&self) -> f64 {
        self.losses.iter().sum::<f64>() / self.losses.len() as f64
    }

    /// Trains an interval: from the reference to what it stores; a step for each mini-batch, of
    /// which the last is still in progress when this returns.
    async fn interval(
        &mut self,
        world: &mut World,
        samples: &Range<usize>,
        batches: &[Range<usize>],
        is_shared: bool,
    ) -> Result<()> {
        let epoch = world.task.epoch;
        world.enter(Stage::FetchDataset);
        let records = training_documents(world, samples).await?;
        world.enter(Stage::Get);
        let mut model = self.tensors.reference(self.limit).await?;
        for (index, batch) in batches.iter().enumerate() {
            world.at(epoch, Some(self.batch));
            if index == 0 && is_shared {
                // What all functions begin this interval with.
                world.note_parameters(&model.parameters);
            }
            world.enter(Stage::FetchDataset);
            let range = batch.start - samples.start..batch.end - samples.start;
            let batch = Batch {
                rank: world.rank(),
                epoch,
                index: self.batch,
                records: cut(&records, range, world.task.job.data.record_bytes)?,
            };
            self.step(world, &mut model, &batch).await?;
            self.batch += 1;
            if index + 1 < batches.len() {
                world.end_step();
            }
        }
        world.enter(Stage::Put);
        let own = Copy::Of(world.rank());
        self.tensors.set(own, &model, self.limit).await
    }

    async fn step(&mut self, world: &mut World, model: &mut Model, batch: &Batch) -> Result<()> {
        world.enter(Stage::ComputeGradients);
        let computing = world
            .compute
            .gradient(&model.parameters, &mut model.statistics, batch);
        let output = computing.await?;
        world.note_loss(output.loss);
        self.losses.extend(output.loss);
        model.batches_seen += 1.0;
        world.enter(Stage::UpdateModel);
        note_step(output.gradient.len());
        if let (Some(parameters), Vector::Real(gradient)) =
            (model.parameters.real_mut(), &output.gradient)
        {
            self.optimizer.step(parameters, gradient)?;
        }
        Ok(())
    }
}

/// Fetches the epoch's training samples of the range `samples`: epochs go through the
/// whole training split in turn, so that the range may go on at its beginning.
async fn training_documents(world: &World, samples: &Range<usize>) -> Result<Payload> {
    let [head, tail] = split::in_turn(&world.task.job, world.task.epoch, samples);
    let head = documents(world, TRAIN_KEY, &head).await?;
    if tail.is_empty() {
        return Ok(head);
    }
    Ok(match (head, documents(world, TRAIN_KEY, &tail).await?) {
        (Payload::Bytes(head), Payload::Bytes(tail)) => [head, tail].concat().into(),
        (head, tail) => Payload::Phantom {
            bytes: head.len() + tail.len(),
        },
    })
}

/// The result of a function that evaluated nothing.
const NOTHING: Evaluation = Evaluation {
    loss: f64::NAN,
    correct: 0,
    samples: 0,
};

/// Makes one range query for the documents that hold `samples`.
async fn documents(world: &World, key: &str, samples: &Range<usize>) -> Result<Payload> {
    let size = world.task.job.data.record_bytes as u64;
    let range = samples.start as u64 * size..samples.end as u64 * size;
    let objects = &world.dataset.objects;
    let getting = objects.get_range(DATASET_BUCKET, key, range.clone());
    let missing = || SystemError::data(key, "there is no such object");
    let found = getting.await?.ok_or_else(missing)?;
    if found.len() < range.end - range.start {
        let reason = format!("it ends before byte {}", range.end);
        return Err(SystemError::data(key, reason));
    }
    Ok(found)
}

/// The records of the samples `range`.
fn cut(records: &Payload, range: Range<usize>, record_bytes: usize) -> Result<Payload> {
    Ok(match records {
        Payload::Phantom { .. } | Payload::Headed { .. } => Payload::Phantom {
            bytes: (range.len() * record_bytes) as u64,
        },
        Payload::Bytes(bytes) => bytes
            .slice(range.start * record_bytes..range.end * record_bytes)
            .into(),
    })
}

/// Evaluates the reference on its share of the test split, and of the validation split
/// where the job has one.
pub(super) async fn validate(world: &mut World, settings: &Settings) -> Result<()> {
    world.enter(Stage::Wait);
    let Query { functions, at, .. } = query(world).await?;
    let (function, epoch) = (world.rank(), world.task.epoch);
    world.at(epoch, None);
    world.enter(Stage::DetectConvergence);
    // Fetch this function's share of the splits and the reference model.
    let data = &world.task.job.data;
    let share = |samples| Split::of(samples, settings, functions).samples_of(function);
    let (samples, held_out) = (share(data.test_samples), share(data.validation_samples));
    let has_validation = data.validation_samples > 0;
    let batch = |index, records| Batch {
        rank: function,
        epoch,
        index,
        records,
    };
    let test = batch(0, documents(world, TEST_KEY, &samples).await?);
    let held_out = if held_out.is_empty() {
        None
    } else {
        let records = documents(world, VALIDATION_KEY, &held_out).await?;
        Some(batch(1, records))
    };
    let tensors = Tensors::new(world)?;
    let model = tensors.reference(settings.function_tensors_at_once).await?;
    // Evaluate, and report the result.
    let (parameters, statistics) = (&model.parameters, &model.statistics);
    let found = world
        .evaluate_on(parameters, statistics, Some(test))
        .await?;
    let on_held_out = world.evaluate_on(parameters, statistics, held_out).await?;
    let message = Message::Validated {
        function,
        at,
        evaluation: found.unwrap_or(NOTHING),
        held_out: has_validation.then(|| on_held_out.unwrap_or(NOTHING)),
    };
    report(world, message).await?;
    world.end_step();
    Ok(())
}
