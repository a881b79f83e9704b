use std::collections::BTreeSet;

use super::message::Message;
use super::scale_in::Tuner;
use super::{Settings, StopAtLoss, supervisor_queue, worker_queue};
use crate::mechanics::continuation::{go_on, load_monitor};
use crate::mechanics::polling;
use crate::{Outcome, Result, Stage, SystemError, World};

/// The next message of `queue`, however long it takes.
pub(super) async fn next_message(world: &World, queue: &str) -> Result<Message> {
    let payload = polling::next_message(&world.exchange.queue, queue).await?;
    Message::decode(&payload, world.workers())
}

/// Binds the workers' queues, lets them start, and opens the barrier of each
/// step once all workers that are left have reported. Before it opens a barrier it names
/// the worker that leaves after the step, or that the step is the last.
pub(super) async fn run(world: &mut World, settings: &Settings) -> Result<Outcome> {
    let workers = world.workers();
    let (epochs, batches) = (world.task.job.epochs, world.task.job.batches_per_worker);
    let (begin, end) = (world.task.epoch, settings.end(&world.task));
    let trial = world.task.job.trial.clone();
    if begin == 0 {
        let queue = &world.exchange.queue;
        for rank in 0..workers {
            queue.bind(&trial, &worker_queue(&trial, rank)).await?;
        }
        publish(world, &Message::Start).await?;
    }

    let mut course = Course::new(world, settings);
    let mut alive: Vec<usize> = (0..workers).collect();
    let mut desk = Desk {
        queue: supervisor_queue(&trial),
        slack: settings.slack as u64,
        early: Vec::new(),
    };
    let mut step = (begin * batches) as u64;
    for epoch in begin..end {
        let (mut position, mut batch) = (0, 0);
        while position + alive.len() <= workers * batches {
            world.at(epoch, Some(batch));
            world.enter(Stage::Wait);
            let reports = desk.reports(world, step, &alive).await?;
            // Decide whether training ends or a worker leaves.
            position += alive.len();
            let is_epoch_end = position + alive.len() > workers * batches;
            let is_end = is_epoch_end && epoch + 1 == epochs;
            let decision = course.decide(world, &reports, alive.len(), is_epoch_end);
            world.enter(Stage::Put);
            let mut is_last = is_end;
            match decision {
                Decision::Finish if !is_end => {
                    publish(world, &Message::Finish { step }).await?;
                    is_last = true;
                }
                Decision::Remove(rank) => {
                    publish(world, &Message::Removal { rank, step }).await?;
                    alive.retain(|worker| *worker != rank);
                }
                _ => {}
            }
            let senders = reports.senders;
            publish(world, &Message::Barrier { step, senders }).await?;
            world.end_step();
            if is_last {
                return Ok(Outcome::Finished);
            }
            step += 1;
            batch += 1;
        }
        if settings.early_stopping.is_some() && load_monitor(world, epoch).await?.is_over {
            return Ok(Outcome::Finished);
        }
    }
    go_on(world, end, None).await
}

async fn publish(world: &World, message: &Message) -> Result<()> {
    let (trial, workers) = (&world.task.job.trial, world.workers());
    let queue = &world.exchange.queue;
    Ok(queue.publish_fanout(trial, message.encode(workers)).await?)
}

/// What follows from a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    GoOn,
    /// Training ends with it.
    Finish,
    /// This worker leaves after it.
    Remove(usize),
}

/// The course of training, from which the supervisor decides.
struct Course {
    tuner: Option<Tuner>,
    stop_at_loss: Option<StopAtLoss>,
    stop_after_s: Option<f64>,
    began_s: f64,
    last_s: f64,
    /// Steps in a row whose loss was low enough.
    low: usize,
}

impl Course {
    fn new(world: &World, settings: &Settings) -> Self {
        let now_s = world.clock.now().as_secs_f64();
        Self {
            tuner: settings.scale_in.map(Tuner::new),
            stop_at_loss: settings.stop_at_loss,
            stop_after_s: settings.stop_after_s,
            began_s: now_s,
            last_s: now_s,
            low: 0,
        }
    }

    /// Decides after a step of so many workers. None leaves at the end of an epoch, which may
    /// turn out to be the last.
    fn decide(
        &mut self,
        world: &World,
        reports: &Reports,
        workers: usize,
        is_epoch_end: bool,
    ) -> Decision {
        let now_s = world.clock.now().as_secs_f64();
        let step_s = now_s - self.last_s;
        self.last_s = now_s;
        if let Some(stop) = self.stop_at_loss {
            let is_low = reports.loss <= stop.loss;
            self.low = if is_low { self.low + 1 } else { 0 };
            if self.low >= stop.steps {
                return Decision::Finish;
            }
        }
        let training_s = now_s - self.began_s;
        if self.stop_after_s.is_some_and(|limit| training_s >= limit) {
            return Decision::Finish;
        }
        let Some(tuner) = &mut self.tuner else {
            return Decision::GoOn;
        };
        let removable = if is_epoch_end { 0 } else { workers };
        let removes = tuner.removes(reports.loss, step_s, training_s, removable);
        match reports.slowest.filter(|_| removes) {
            Some(rank) => Decision::Remove(rank),
            None => Decision::GoOn,
        }
    }
}

/// Reports of all workers on a step.
struct Reports {
    /// Ranks that have an update, in order.
    senders: Vec<usize>,
    /// Mean loss; not a number where nothing is computed.
    loss: f64,
    /// The worker whose report came last. Not worker 0, which evaluates.
    slowest: Option<usize>,
}

/// Where workers report to the supervisor.
struct Desk {
    queue: String,
    /// Steps that a worker may be ahead of the slowest.
    slack: u64,
    /// Reports on later steps.
    early: Vec<Message>,
}

impl Desk {
    /// Waits for the reports of the workers `alive` on `step`.
    ///
    /// A report beyond the slack would mean that a worker passed a closed barrier.
    async fn reports(&mut self, world: &World, step: u64, alive: &[usize]) -> Result<Reports> {
        let mut missing: BTreeSet<usize> = alive.iter().copied().collect();
        let (mut senders, mut loss, mut slowest) = (Vec::new(), 0.0, None);
        let of_step =
            |message: &Message| matches!(message, Message::Report { step: at, .. } if *at == step);
        let mut waiting: Vec<Message> = self.early.extract_if(.., |early| of_step(early)).collect();
        waiting.reverse();
        while !missing.is_empty() {
            let message = match waiting.pop() {
                Some(early) => early,
                None => next_message(world, &self.queue).await?,
            };
            match message {
                Message::Report {
                    rank,
                    step: at,
                    has_update,
                    loss: own,
                    ..
                } if at == step && missing.contains(&rank) => {
                    missing.remove(&rank);
                    if has_update {
                        senders.push(rank);
                    }
                    if rank > 0 {
                        slowest = Some(rank);
                    }
                    loss += own / alive.len() as f64;
                }
                // It came before.
                Message::Report { step: at, .. } if at <= step => {}
                Message::Report { step: at, .. } if at - step <= self.slack => {
                    self.early.push(message);
                }
                other => {
                    let what = format!("a message to the supervisor in step {step}");
                    let reason = format!("{other:?} was not expected");
                    return Err(SystemError::malformed(what, reason));
                }
            }
        }
        senders.sort_unstable();
        Ok(Reports {
            senders,
            loss,
            slowest,
        })
    }
}
