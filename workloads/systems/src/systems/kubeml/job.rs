//! The job: calls the functions of each epoch, merges what they store, and
//! asks the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use epochcost_channels::Queue;
use futures_util::future::{join, try_join_all};

use super::function::unexpected;
use super::message::{Message, Position};
use super::model::{Copy, Model, Tensors, mean};
use super::scheduler::Scheduler;
use super::split::Split;
use super::{
    CALLS, FailedFunction, INIT, MergeBy, Settings, TRAIN, VALIDATE, answers, calls, reports,
};
use crate::mechanics::monitor::Monitor;
use crate::mechanics::polling::next_message;
use crate::{Evaluation, Invoke, Result, Stage, SystemError, Task, World};

/// Trains from the first epoch to the last.
pub(super) async fn run(world: &mut World, settings: &Settings) -> Result<()> {
    let epochs = world.task.job.epochs;
    let mut scheduler = Scheduler::new(world.workers(), settings.parallelism_at_least);
    let mut job = Job {
        tensors: Tensors::new(world)?,
        settings: settings.clone(),
        most_functions: 0,
        learning_rate: world.task.job.optimizer.learning_rate(),
    };
    let mut monitor = Monitor::new(&world.task.job);
    // Have a function store the initial model.
    world.enter(Stage::Wait);
    world.invoke.call(task(world, INIT, 0, 0)).await?;
    let reports = reports(&world.task.job.trial);
    let message = next_message(&world.exchange.queue, &reports).await?;
    match Message::decode(&message)? {
        Message::Initialised { layers } if layers == job.tensors.len() => {}
        other => return Err(unexpected("the job", other)),
    }
    // The original fetches the layers that the message names.
    world.enter(Stage::Get);
    job.tensors.reference(settings.job_tensors_at_once).await?;
    // Train epoch by epoch: functions, merges, validation.
    for epoch in 0..epochs {
        world.at(epoch, None);
        let began = world.clock.now();
        let asked = scheduler.parallelism();
        // A function without a document would have nothing to report.
        let functions = asked.min(Split::new(&world.task.job, settings, asked.max(1)).documents());
        job.epoch(world, functions, epoch).await?;
        if world.task.job.evaluates_after(epoch) {
            let loss = job.validate(world, functions, epoch).await?;
            if let Some(monitor) = &mut monitor {
                monitor.follow(loss);
                job.learning_rate = monitor.learning_rate;
                if monitor.is_over {
                    break;
                }
            }
        }
        if !settings.is_static {
            scheduler.ended((world.clock.now() - began).as_secs_f64());
        }
    }
    job.clean_up().await?;
    world.end_step();
    Ok(())
}

fn task(world: &World, function: &str, rank: usize, epoch: usize) -> Task {
    Task {
        function: function.to_owned(),
        rank,
        epoch,
        batch: None,
        ..world.task.clone()
    }
}

struct Job {
    tensors: Tensors,
    settings: Settings,
    /// Functions of the largest epoch so far: whose copies are in the store.
    most_functions: usize,
    learning_rate: f64,
}

/// State of a function of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Training.
    Training,
    /// Model of an interval stored; the function waits for the merge.
    Waiting(Position),
    /// Last model stored; the function has ended.
    Returned,
    /// Failed.
    Failed,
}

impl Job {
    /// Runs one epoch of so many functions.
    async fn epoch(&mut self, world: &mut World, functions: usize, epoch: usize) -> Result<()> {
        if functions == 0 {
            let reason = "it gives the next epoch no function, so the job ends";
            return Err(SystemError::malformed("the scheduler's answer", reason));
        }
        self.most_functions = self.most_functions.max(functions);
        let progress = Progress::of(functions, 0);
        let attempts = match self.settings.failed_function {
            FailedFunction::CalledAgain => 0..CALLS,
            FailedFunction::Stale | FailedFunction::LeftOut => 0..1,
        };
        let calls = self.calls(task(world, TRAIN, 0, epoch), world, &progress, attempts);
        let called = calls.all();
        let mut round = Round {
            states: vec![State::Training; functions],
            reported: BTreeSet::new(),
            copies: BTreeMap::new(),
            failed: 0,
        };
        let merging = self.merge_all(world, &mut round, epoch, &progress);
        let (called, merging) = join(called, merging).await;
        called.and(merging)
    }

    /// Returns the calls of the task's functions.
    fn calls<'a>(
        &self,
        task: Task,
        world: &World,
        progress: &'a Progress,
        attempts: Range<usize>,
    ) -> Calls<'a> {
        Calls {
            task,
            invoke: world.invoke.clone(),
            queue: world.exchange.queue.clone(),
            learning_rate: self.learning_rate,
            progress,
            attempts,
        }
    }

    /// Merges whenever all functions that train have reported, until all have
    /// returned.
    async fn merge_all(
        &self,
        world: &mut World,
        round: &mut Round,
        epoch: usize,
        progress: &Progress,
    ) -> Result<()> {
        let reports = reports(&world.task.job.trial);
        loop {
            world.at(epoch, None);
            // Take reports until no function trains.
            while round.states.contains(&State::Training) {
                world.enter(Stage::Wait);
                let message = next_message(&world.exchange.queue, &reports).await?;
                world.enter(Stage::Get);
                let message = Message::decode(&message)?;
                if progress.is_current(&message, epoch)? {
                    self.take(world, round, message, progress).await?;
                }
            }
            if !round.states.iter().any(|state| *state != State::Failed) {
                let reason = "all of its functions have failed, so the job ends";
                return Err(SystemError::malformed(format!("epoch {epoch}"), reason));
            }
            // Merge the models that were reported.
            if !round.reported.is_empty() {
                self.merge(world, round).await?;
                progress.merged.fetch_add(1, Ordering::Relaxed);
            }
            // Have the functions with another interval continue.
            world.enter(Stage::Put);
            let go_on = round.begin_next();
            for (function, at) in &go_on {
                answer(world, *function, *at).await?;
            }
            world.end_step();
            if go_on.is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes in what a function reports; fetches its model where the job merges.
    async fn take(
        &self,
        world: &World,
        round: &mut Round,
        message: Message,
        progress: &Progress,
    ) -> Result<()> {
        let (function, at, state) = match message {
            Message::Next { function, at, .. } => (function, at, State::Waiting(at)),
            Message::Trained { function, at, .. } => (function, at, State::Returned),
            Message::Failed { function, at } => (function, at, State::Failed),
            other => return Err(unexpected("the job", other)),
        };
        let known = round.states.get_mut(function);
        let known = known.ok_or_else(|| unexpected("the job", message))?;
        // A report that came twice, and one of a function that was given up, change nothing.
        if *known == state || *known == State::Failed {
            return Ok(());
        }
        // A repeated call trained an interval that is merged with what the lost
        // call had reported: it goes on, and its model is not taken again.
        if state != State::Failed && at.interval < progress.merged.load(Ordering::Relaxed) {
            return match state {
                State::Waiting(at) => answer(world, function, at).await,
                _ => Ok(()),
            };
        }
        // A call that failed after its function had stored its last model lost nothing.
        if state == State::Failed && *known == State::Returned {
            return Ok(());
        }
        *known = state;
        let is_stale = self.settings.failed_function == FailedFunction::Stale;
        if state == State::Failed {
            round.reported.remove(&function);
            round.copies.remove(&function);
            if !is_stale {
                return Ok(());
            }
            round.failed += 1;
        }
        let limit = self.settings.job_tensors_at_once;
        if self.settings.merge_by == MergeBy::Store {
            if state != State::Failed || self.tensors.holds(Copy::Of(function)).await? {
                round.reported.insert(function);
            }
        } else if let Some(copy) = self.tensors.get(Copy::Of(function), limit).await? {
            round.reported.insert(function);
            round.copies.insert(function, copy);
        }
        Ok(())
    }

    /// Makes the reference the mean of what was reported, in rank order.
    async fn merge(&self, world: &mut World, round: &Round) -> Result<()> {
        let limit = self.settings.job_tensors_at_once;
        world.enter(Stage::Aggregate);
        if self.settings.merge_by == MergeBy::Store {
            let functions: Vec<usize> = round.reported.iter().copied().collect();
            return self.tensors.merge_in_store(&functions, limit).await;
        }
        let copies: Vec<&Model> = round.copies.values().collect();
        let reference = mean(&copies, round.divisor())?;
        world.enter(Stage::Put);
        self.tensors.set(Copy::Reference, &reference, limit).await
    }

    /// Has the functions evaluate the reference, each on a share of the test
    /// split and the validation split, and records what they find together. Gives the loss
    /// on the latter.
    async fn validate(
        &self,
        world: &mut World,
        functions: usize,
        epoch: usize,
    ) -> Result<Option<f64>> {
        let test = Split::of(world.task.job.data.test_samples, &self.settings, functions);
        let functions = functions.min(test.documents());
        let progress = Progress::of(functions, CALLS);
        let attempts = CALLS..CALLS + 1;
        let calls = self.calls(task(world, VALIDATE, 0, epoch), world, &progress, attempts);
        // Call the functions, and take their reports at the same time.
        let called = calls.all();
        world.at(epoch, None);
        world.enter(Stage::DetectConvergence);
        let (called, found) = join(called, validations(world, functions, epoch, &progress)).await;
        called?;
        let (tests, held_out): (Vec<_>, Vec<_>) = found?.into_iter().unzip();
        let held_out: Vec<Evaluation> = held_out.into_iter().flatten().collect();
        let validation = Evaluation::together(&held_out);
        world.record_evaluation(
            epoch,
            world.clock.now(),
            Evaluation::together(&tests),
            validation,
        );
        world.end_step();
        Ok(validation.map(|validation| validation.loss))
    }

    /// Deletes the functions' copies, and as published the model, too.
    async fn clean_up(&self) -> Result<()> {
        let mut copies: Vec<Copy> = (0..self.most_functions).map(Copy::Of).collect();
        if self.settings.deletes_model {
            copies.push(Copy::Reference);
        }
        self.tensors.delete(&copies).await
    }
}

/// Results of a function on its shares of the test split and of the validation split.
type Validation = (Evaluation, Option<Evaluation>);

/// Results of the functions, in rank order; none of one that failed.
async fn validations(
    world: &World,
    functions: usize,
    epoch: usize,
    progress: &Progress,
) -> Result<Vec<Validation>> {
    let reports = reports(&world.task.job.trial);
    let mut found: BTreeMap<usize, Option<Validation>> = BTreeMap::new();
    while found.len() < functions {
        let message = next_message(&world.exchange.queue, &reports).await?;
        let message = Message::decode(&message)?;
        if !progress.is_current(&message, epoch)? {
            continue;
        }
        match message {
            Message::Validated {
                function,
                evaluation,
                held_out,
                ..
            } => {
                found.insert(function, Some((evaluation, held_out)));
            }
            Message::Failed { function, .. } => {
                found.entry(function).or_insert(None);
            }
            other => return Err(unexpected("the job", other)),
        }
    }
    Ok(found.into_values().flatten().collect())
}

/// Notifies a function that the interval it waits for is merged.
async fn answer(world: &World, function: usize, at: Position) -> Result<()> {
    let queue = answers(&world.task.job.trial, function);
    let (epoch, interval) = (at.epoch, at.interval);
    let go_on = Message::GoOn { epoch, interval }.encode();
    Ok(world.exchange.queue.publish(&queue, go_on).await?)
}

/// Progress of an epoch's functions, which their calls and the job share.
struct Progress {
    /// Number of each function's first call: [`CALLS`] in validation.
    first: usize,
    /// Merges of the epoch so far.
    merged: AtomicUsize,
    /// Number of the current call of each function.
    attempts: Vec<AtomicUsize>,
}

impl Progress {
    /// Returns the progress of functions that have done nothing yet and whose first
    /// call is number `attempt`.
    fn of(functions: usize, attempt: usize) -> Self {
        Self {
            first: attempt,
            merged: AtomicUsize::new(0),
            attempts: (0..functions).map(|_| AtomicUsize::new(attempt)).collect(),
        }
    }

    /// Returns whether a report is of this epoch, of training or validation as this is,
    /// and of its function's current call. Other reports are late, or came twice, and are
    /// dropped.
    ///
    /// # Errors
    /// When the message is no report, or its function is none of the epoch's.
    fn is_current(&self, message: &Message, epoch: usize) -> Result<bool> {
        if let Message::Initialised { .. } = message {
            return Ok(false);
        }
        let Some((function, at)) = message.reported() else {
            return Err(unexpected("the job", *message));
        };
        let validates = |attempt: usize| attempt == CALLS;
        if at.epoch != epoch || validates(at.attempt) != validates(self.first) {
            return Ok(false);
        }
        let attempt = self.attempts.get(function);
        let attempt = attempt.ok_or_else(|| unexpected("the job", *message))?;
        Ok(at.attempt == attempt.load(Ordering::Relaxed))
    }
}

/// Reports since the last merge.
struct Round {
    states: Vec<State>,
    /// Functions whose copies are merged.
    reported: BTreeSet<usize>,
    /// Copies of the functions' models, where the job merges.
    copies: BTreeMap<usize, Model>,
    /// Failed functions that count as if they had reported.
    failed: usize,
}

impl Round {
    /// Returns the divisor of a merge. As published, it also counts failed
    /// functions of which there is no copy.
    fn divisor(&self) -> usize {
        let fresh = |function: &&usize| self.states[**function] != State::Failed;
        self.copies.keys().filter(fresh).count() + self.failed
    }

    /// Begins the next interval; returns the functions to notify, with the
    /// interval that each waits for.
    fn begin_next(&mut self) -> Vec<(usize, Position)> {
        self.reported.clear();
        self.copies.clear();
        self.failed = 0;
        let mut go_on = Vec::new();
        for (function, state) in self.states.iter_mut().enumerate() {
            if let State::Waiting(at) = *state {
                *state = State::Training;
                go_on.push((function, at));
            }
        }
        go_on
    }
}

/// The calls of an epoch's functions.
struct Calls<'a> {
    /// Task of a call, with the rank to be filled in.
    task: Task,
    invoke: Arc<dyn Invoke>,
    queue: Queue,
    learning_rate: f64,
    progress: &'a Progress,
    /// Numbers of a function's calls: a function that fails is called again
    /// until they are used up.
    attempts: Range<usize>,
}

impl Calls<'_> {
    /// Calls all functions of the epoch.
    async fn all(&self) -> Result<()> {
        let functions = 0..self.progress.attempts.len();
        try_join_all(functions.map(|function| self.call(function)))
            .await
            .map(drop)
    }

    /// Calls a function until it returns; posts its failure if it does not.
    async fn call(&self, function: usize) -> Result<()> {
        let trial = &self.task.job.trial;
        let (queries, reports) = (calls(trial, function), reports(trial));
        let mut at = Position {
            epoch: self.task.epoch,
            interval: 0,
            attempt: self.attempts.start,
        };
        for attempt in self.attempts.clone() {
            at.attempt = attempt;
            if attempt > self.attempts.start {
                // From here on, reports of the failed call are dropped.
                self.progress.attempts[function].store(attempt, Ordering::Relaxed);
                // What a function that has failed did not read is not for the next.
                self.queue.purge(&queries).await?;
                self.queue.purge(&answers(trial, function)).await?;
            }
            at.interval = self.progress.merged.load(Ordering::Relaxed);
            let query = Message::Query {
                functions: self.progress.attempts.len(),
                at,
                learning_rate: self.learning_rate,
            };
            self.queue.publish(&queries, query.encode()).await?;
            let task = Task {
                rank: function,
                ..self.task.clone()
            };
            if self.invoke.call(task).await.is_ok() {
                return Ok(());
            }
        }
        let failed = Message::Failed { function, at };
        Ok(self.queue.publish(&reports, failed.encode()).await?)
    }
}
