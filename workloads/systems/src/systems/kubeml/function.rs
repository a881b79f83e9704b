//! The Python functions: they train and validate, one call per epoch.

use std::ops::Range;

use epochcost_channels::Payload;
use epochcost_kernels::optimizer::{Optimizer, OptimizerSpec};

use super::message::Message;
use super::model::{Copy, Model, Tensors};
use super::split::Split;
use super::{OptimizerState, Settings, answers, calls, reports};
use crate::contract::arithmetic;
use crate::mechanics::polling::next_message;
use crate::{
    Batch, DATASET_BUCKET, Evaluation, Result, Stage, SystemError, TEST_KEY, TRAIN_KEY, Vector,
    World,
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
    first_interval: usize,
    optimizer: OptimizerSpec,
}

async fn query(world: &World) -> Result<Query> {
    let queue = calls(&world.task.job.trial, world.rank());
    let message = next_message(world.exchange.queue.as_ref(), &queue).await?;
    match Message::decode(&message)? {
        Message::Query {
            functions,
            interval,
            learning_rate,
            ..
        } => Ok(Query {
            functions,
            first_interval: interval,
            optimizer: world.task.job.optimizer.at_rate(learning_rate),
        }),
        other => Err(unexpected("a function", other)),
    }
}

pub(super) fn unexpected(whom: &str, message: Message) -> SystemError {
    SystemError::Malformed {
        what: format!("a message to {whom}"),
        reason: format!("{message:?} was not expected"),
    }
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
        first_interval,
        optimizer,
    } = query(world).await?;
    // Divide the epoch's data: intervals of this function, and those that all have.
    let function = world.rank();
    let split = Split::new(&world.task.job, settings, functions);
    let shared = (0..functions).map(|other| split.intervals_of(other)).min();
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
        if interval < first_interval {
            trainer.batch += batches.len();
            continue;
        }
        if settings.optimizer_state == OptimizerState::Cleared {
            trainer.optimizer.reset();
        }
        // Train one interval from the reference model.
        let is_shared = shared.is_some_and(|shared| interval < shared);
        trainer
            .interval(world, &samples, &batches, is_shared)
            .await?;
        let loss = trainer.mean_loss();
        // Report it; wait for the merge before the next.
        if interval + 1 == intervals {
            report(world, Message::Trained { function, loss }).await?;
        } else {
            report(world, Message::Next { function, loss }).await?;
            world.enter(Stage::Wait);
            let queue = answers(&world.task.job.trial, function);
            let answer = next_message(world.exchange.queue.as_ref(), &queue).await?;
            match Message::decode(&answer)? {
                Message::GoOn => {}
                other => return Err(unexpected("a function", other)),
            }
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
        let records = documents(world, TRAIN_KEY, samples).await?;
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
        let output = world
            .compute
            .gradient(&model.parameters, &mut model.statistics, batch)
            .await?;
        world.note_loss(output.loss);
        self.losses.extend(output.loss);
        model.batches_seen += 1.0;
        world.enter(Stage::UpdateModel);
        arithmetic::note(5, output.gradient.len());
        if let (Some(parameters), Vector::Real(gradient)) =
            (model.parameters.real_mut(), &output.gradient)
        {
            self.optimizer.step(parameters, gradient)?;
        }
        Ok(())
    }
}

/// Makes one range query for the documents that hold `samples`.
async fn documents(world: &World, key: &str, samples: &Range<usize>) -> Result<Payload> {
    let size = world.task.job.data.record_bytes as u64;
    let range = samples.start as u64 * size..samples.end as u64 * size;
    let objects = &world.dataset.objects;
    let found = objects
        .get_range(DATASET_BUCKET, key, range.clone())
        .await?;
    let data = |reason: String| SystemError::Data {
        key: key.to_owned(),
        reason,
    };
    let found = found.ok_or_else(|| data("there is no such object".into()))?;
    let wanted = range.end - range.start;
    if found.len() < wanted {
        let reason = format!("it ends before byte {}", range.end);
        return Err(data(reason));
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

/// Evaluates the reference on its share of the test split.
pub(super) async fn validate(world: &mut World, settings: &Settings) -> Result<()> {
    world.enter(Stage::Wait);
    let functions = query(world).await?.functions;
    let (function, epoch) = (world.rank(), world.task.epoch);
    world.at(epoch, None);
    world.enter(Stage::DetectConvergence);
    // Fetch this function's share of the test split and the reference model.
    let samples = Split::of_test_split(&world.task.job, settings, functions).samples_of(function);
    let test = Batch {
        rank: function,
        epoch,
        index: 0,
        records: documents(world, TEST_KEY, &samples).await?,
    };
    let tensors = Tensors::new(world)?;
    let model = tensors.reference(settings.function_tensors_at_once).await?;
    // Evaluate, and report the result.
    let evaluation = world
        .compute
        .evaluate(&model.parameters, &model.statistics, &test)
        .await?
        .unwrap_or(Evaluation {
            loss: f64::NAN,
            correct: 0,
            samples: 0,
        });
    report(
        world,
        Message::Validated {
            function,
            evaluation,
        },
    )
    .await?;
    world.end_step();
    Ok(())
}
