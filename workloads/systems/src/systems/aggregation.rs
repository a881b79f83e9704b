//! Aggregation by functions: clients put their updates into the object store, functions average them.
//!
//! Three systems, as arXiv 2604.22072 (2026) compares them, differ in how functions divide the work:
//!
//! | | functions per shard | an object |
//! | --- | --- | --- |
//! | GradsSharding | one, which reads every client's shard | 1/M of a gradient |
//! | λ-FL | leaves, which average groups of clients, and a root | a gradient |
//! | LIFL | levels, each of which averages `fan_in` objects at a time, down to one | a gradient |
//!
//! Of the paper the abstract alone was read here; "published code" is its code:
//!
//! 1. Every worker puts its update (published code), in M shards (abstract).
//! 2. Worker 0 lists until all updates are there, and calls the functions, level by level (here;
//!    published code: a driver calls).
//! 3. A function gets its inputs one after another, adds each, divides, and puts one object
//!    (abstract; published code).
//! 4. Every worker gets the last level's M objects (here).
//!
//! The mean is that of clients: where the inputs of a function stand for different numbers of them, each
//! is multiplied by its number first. Inputs are added in their order, so that a tree's mean has other bits
//! than the sum in client order; with one level they are equal.
//!
//! Shards and levels combine. No published code is followed: fidelities differ in pauses only. Left
//! out: clients that do not take part in a round.
//!
//! Traffic per step, with W workers, F functions per shard and P bytes of gradient: M·(W + F) puts, M·(2W + F − 1)
//! gets, (W + F)·P bytes up and (2W + F − 1)·P down.
//!
//! # Objects and keys
//!
//! `client-updates/0_{rank}_{shard}_{epoch}_{batch}`, and
//! `means/{level}_{function}_{shard}_{epoch}_{batch}`, the mean that a function of that level writes.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::chunk::chunk_range;
use epochcost_kernels::optimizer::OptimizerSpec;
use futures_util::future::try_join_all;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanics::listing::{delete_keys, key_fields, list_keys};
use crate::mechanics::object_exchange::TUNED_POLL_MS;
use crate::mechanics::polling::PollOptions;
use crate::mechanics::published::plain_sgd;
use crate::mechanics::synchronous::{self, Exchange, Exchanged, FUNCTION, Iteration, LoopOptions};
use crate::{
    Bound, BoundSystem, Deployment, EarlyStopping, Fidelity, Function, Host, Job, Names, Outcome,
    ReduceOnPlateau, Replicas, Result, SettingsError, Sizes, Stage, Steps, SystemError, Task,
    TrainingSystem, Vector, World,
};

const AGGREGATE: &str = "aggregate";
const UPDATES: &str = "client-updates";
const MEANS: &str = "means";

/// Vectors of a shard that a function holds: an object, its values, their sum.
const HELD: usize = 3;

/// The division of the work, and the differences between the fidelities.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Update of a client, and the steps after which it is exchanged.
    exchanges: Exchanged,
    /// Shards of an update (M), each of which has functions of its own.
    #[schemars(range(min = 1, max = 100_000))]
    shards: usize,
    /// Functions that average groups of clients before one averages their means; null: none.
    #[schemars(range(min = 1, max = 100_000))]
    leaves: Option<usize>,
    /// Inputs of a function in a tree of levels; null: no such tree.
    #[schemars(range(min = 1, max = 100_000))]
    fan_in: Option<usize>,
    /// Pause between two polls for what others put, ms.
    #[schemars(range(max = 3_600_000))]
    poll_ms: u64,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    early_stopping: Option<EarlyStopping>,
    /// Whether a worker re-invokes itself when its time is nearly over.
    continues_by_time: bool,
}

/// The inputs of a level's functions, as ranges of the objects of the level before.
pub type Level = Vec<Range<usize>>;

/// Returns the levels of functions that average `clients` objects, each function as the range of its inputs
/// among the objects of the level before: `leaves` functions and a root; a tree whose functions have
/// `fan_in` inputs at most; or one function.
pub fn levels(clients: usize, leaves: Option<usize>, fan_in: Option<usize>) -> Vec<Level> {
    let groups = |inputs: usize, count: usize| -> Level {
        (0..count)
            .map(|group| chunk_range(inputs, count, group))
            .collect()
    };
    match (leaves, fan_in) {
        (Some(leaves), _) if leaves.min(clients) > 1 => {
            let leaves = leaves.min(clients);
            vec![groups(clients, leaves), groups(leaves, 1)]
        }
        (None, Some(fan_in)) => {
            let (fan_in, mut inputs, mut levels) = (fan_in.max(2), clients, Vec::new());
            loop {
                let starts = (0..inputs).step_by(fan_in);
                let level: Level = starts
                    .map(|start| start..(start + fan_in).min(inputs))
                    .collect();
                inputs = level.len();
                levels.push(level);
                if inputs <= 1 {
                    return levels;
                }
            }
        }
        _ => vec![groups(clients, 1)],
    }
}

impl Settings {
    fn levels(&self, clients: usize) -> Vec<Level> {
        levels(clients, self.leaves, self.fan_in)
    }
}

/// An object of the exchange: its level (0: the clients), its place there, its shard.
#[derive(Clone, Copy)]
struct Object {
    level: usize,
    member: usize,
    shard: usize,
}

impl Object {
    fn key(self, at: Iteration) -> String {
        let (member, shard) = (self.member, self.shard);
        format!("{}_{member}_{shard}_{}_{}", self.level, at.epoch, at.batch)
    }

    fn bucket(self) -> &'static str {
        if self.level == 0 { UPDATES } else { MEANS }
    }
}

/// Returns the object that function `index` of all levels writes, and the number of clients whose mean
/// each of its inputs is, with that input.
fn work(levels: &[Level], shards: usize, index: usize) -> Option<(Object, Vec<(Object, usize)>)> {
    let clients = levels.first()?.last()?.end;
    let (mut before, mut counts) = (0, vec![1; clients]);
    for (level, groups) in levels.iter().enumerate() {
        let own = index.checked_sub(before)?;
        if own < groups.len() * shards {
            let (member, shard) = (own / shards, own % shards);
            let object = |level, member| Object {
                level,
                member,
                shard,
            };
            let inputs = groups[member].clone();
            let inputs = inputs.map(|input| (object(level, input), counts[input]));
            return Some((object(level + 1, member), inputs.collect()));
        }
        let sums = groups
            .iter()
            .map(|inputs| counts[inputs.clone()].iter().sum());
        counts = sums.collect();
        before += groups.len() * shards;
    }
    None
}

/// Aggregation by functions, by its division.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregation {
    GradsSharding,
    LambdaFl,
    Lifl,
}

struct ByFunctions {
    settings: Settings,
}

#[async_trait]
impl Exchange for ByFunctions {
    async fn exchange(&mut self, world: &mut World, own: Vector, at: Iteration) -> Result<Vector> {
        let (settings, objects) = (&self.settings, world.exchange.objects.clone());
        let levels = settings.levels(world.workers());
        // 1. Put the own update.
        for shard in 0..settings.shards {
            world.enter(Stage::Serialise);
            let body = own.slice(chunk_range(own.len(), settings.shards, shard))?;
            let body = body.encode();
            let object = Object {
                level: 0,
                member: world.rank(),
                shard,
            };
            world.enter(Stage::Put);
            objects.put(UPDATES, &object.key(at), body).await?;
        }
        // 2. Call the functions, level by level.
        if world.rank() == 0 {
            self.call(world, &levels, at).await?;
        }
        // 4. Get the mean, in shards.
        let means = (0..settings.shards).map(|shard| Object {
            level: levels.len(),
            member: 0,
            shard,
        });
        let keys = means.map(|object| object.key(at)).collect();
        let options = PollOptions {
            interval: Duration::from_millis(settings.poll_ms),
            limit: None,
            at_once: 1,
        };
        let bodies = world.await_gradients(MEANS, keys, options).await?;
        world.enter(Stage::Serialise);
        let shards: Result<Vec<Vector>> = bodies.iter().map(Vector::decode).collect();
        Ok(Vector::concat(&shards?))
    }
}

impl ByFunctions {
    /// Waits for every client's update, has the functions average them, and deletes what is no longer
    /// read.
    async fn call(&self, world: &mut World, levels: &[Level], at: Iteration) -> Result<()> {
        let (shards, objects) = (self.settings.shards, world.exchange.objects.clone());
        world.enter(Stage::Wait);
        let interval = Duration::from_millis(self.settings.poll_ms);
        let waiting = world.waiting("the clients' updates", interval, None);
        let is_of = |key: &str, wanted: &dyn Fn(Iteration) -> bool| {
            let fields = key_fields::<5>(key);
            fields.is_some_and(|[.., epoch, batch]| wanted(Iteration { epoch, batch }))
        };
        let (mut there, mut updates) = (0, Vec::new());
        while there < world.workers() * shards {
            let poll = world.listing_poll();
            updates = list_keys(&objects, UPDATES, false).await?;
            updates.retain(|key| is_of(key, &|step| step == at));
            let is_vain = updates.len() == there;
            there = updates.len();
            if there < world.workers() * shards {
                world.pause_listing(&waiting, poll, is_vain).await?;
            }
        }
        let mut first = 0;
        for level in levels {
            let calls = first..first + level.len() * shards;
            first = calls.end;
            let calls = calls.map(|index| {
                world.invoke.call(Task {
                    function: AGGREGATE.into(),
                    rank: index % world.workers(),
                    epoch: at.epoch,
                    batch: Some(at.batch),
                    round: index,
                    job: world.task.job.clone(),
                })
            });
            try_join_all(calls).await?;
        }
        delete_keys(&objects, UPDATES, &updates).await?;
        // A client that has put an update of this step has read the means of the step before.
        let mut means = list_keys(&objects, MEANS, false).await?;
        means.retain(|key| is_of(key, &|step| step < at));
        delete_keys(&objects, MEANS, &means).await
    }
}

/// Averages the inputs of one function.
async fn aggregate(world: &mut World, settings: &Settings) -> Result<()> {
    let at = Iteration {
        epoch: world.task.epoch,
        batch: world.task.batch.unwrap_or_default(),
    };
    world.at(at.epoch, Some(at.batch));
    let objects = world.exchange.objects.clone();
    let levels = settings.levels(world.workers());
    let found = work(&levels, settings.shards, world.task.round);
    let unknown = || {
        let reason = format!("there is no function {}", world.task.round);
        SystemError::malformed("a task of `aggregate`", reason)
    };
    let (output, inputs) = found.ok_or_else(unknown)?;
    let clients: usize = inputs.iter().map(|(_, clients)| clients).sum();
    let is_even = inputs.iter().all(|(_, clients)| *clients == inputs[0].1);
    let divisor = if is_even { inputs.len() } else { clients };
    let mut sum: Option<Vector> = None;
    for (input, clients) in inputs {
        world.enter(Stage::Get);
        let key = input.key(at);
        let body = objects.expect(input.bucket(), &key).await?;
        world.enter(Stage::Serialise);
        let mut one = Vector::decode(&body)?;
        drop(body);
        world.enter(Stage::Aggregate);
        if !is_even {
            one.multiply(clients as f32);
        }
        match &mut sum {
            Some(sum) => sum.add(&one)?,
            None => sum = Some(one),
        }
    }
    if let Some(mut mean) = sum {
        mean.divide(divisor as f32);
        world.enter(Stage::Serialise);
        let body = mean.encode();
        world.enter(Stage::Put);
        objects.put(MEANS, &output.key(at), body).await?;
    }
    world.end_step();
    Ok(())
}

const FUNCTIONS: [Function; 2] = [
    Function::worker(FUNCTION, Host::Function),
    // Worker 0 waits for it.
    Function::coordinator(AGGREGATE, Host::Function),
];

#[async_trait]
impl TrainingSystem for Aggregation {
    type Settings = Settings;

    fn names(&self) -> Names {
        match self {
            Self::GradsSharding => Names::new(
                "grads_sharding",
                "GradsSharding",
                "arXiv 2604.22072 (2026): M functions each average one shard of every client's gradient",
            ),
            Self::LambdaFl => Names::new(
                "lambda_fl",
                "λ-FL",
                "λ-FL as in arXiv 2604.22072 (2026): leaf functions average groups of clients, a root their means",
            ),
            Self::Lifl => Names::new(
                "lifl",
                "LIFL",
                "LIFL as in arXiv 2604.22072 (2026): levels of functions, each of which averages a few objects",
            ),
        }
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            polls_by_listing: true,
            not_on_cloud: Some(
                "functions that a worker calls and waits for have not been tried there",
            ),
            ..Deployment::new(&FUNCTIONS)
        }
    }

    fn defaults(&self, fidelity: Fidelity) -> Settings {
        let tuned = fidelity == Fidelity::Tuned;
        Settings {
            exchanges: Exchanged::Gradients,
            shards: if *self == Self::GradsSharding { 4 } else { 1 },
            leaves: (*self == Self::LambdaFl).then_some(4),
            fan_in: (*self == Self::Lifl).then_some(3),
            poll_ms: if tuned { TUNED_POLL_MS } else { 0 },
            reduce_on_plateau: None,
            early_stopping: None,
            continues_by_time: tuned,
        }
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        let (field, reason) = if settings.shards == 0 {
            ("shards", "an update has 1 shard or more")
        } else if settings.leaves == Some(0) {
            ("leaves", "give 1 or more, or null for no leaves")
        } else if settings.fan_in.is_some_and(|inputs| inputs < 2) {
            ("fan_in", "give 2 or more, or null for no tree")
        } else if settings.leaves.is_some() && settings.fan_in.is_some() {
            let reason = "give `leaves` or `fan_in`; the other must be null";
            ("fan_in", reason)
        } else {
            return Ok(());
        };
        Err(SettingsError::value(self.names().name, field, reason))
    }

    fn optimizer(&self, _fidelity: Fidelity) -> OptimizerSpec {
        plain_sgd()
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        if world.task.function == AGGREGATE {
            aggregate(world, &settings).await?;
            return Ok(Outcome::Finished);
        }
        let options = LoopOptions {
            exchanges: settings.exchanges,
            continues_by_time: settings.continues_by_time,
            ..LoopOptions::default()
        };
        synchronous::train(world, &mut ByFunctions { settings }, options).await
    }
}

impl BoundSystem for Bound<'_, Aggregation> {
    fn closed_form(&self, job: &Job, sizes: Sizes, _: Steps<'_>) -> Result<Traffic> {
        let steps = self.settings.exchanges.rounds(job);
        let levels = self.settings.levels(job.workers);
        let functions = levels.iter().map(Vec::len).sum::<usize>() as u64;
        let (clients, shards) = (job.workers as u64, self.settings.shards as u64);
        let (up, down) = (clients + functions, 2 * clients + functions - 1);
        Ok(Traffic {
            puts: steps * shards * up,
            gets: steps * shards * down,
            bytes_up: steps * up * sizes.gradient_bytes(),
            bytes_down: steps * down * sizes.gradient_bytes(),
            ..Traffic::default()
        })
    }

    /// A worker's parameters and momentum, its update, a shard as it is sent, the mean; a function's
    /// object, its values and their sum, each of a shard.
    fn resident_vectors(&self, function: &str, _: usize) -> usize {
        match function {
            AGGREGATE => HELD,
            _ => 5,
        }
    }

    fn resident_parts(&self, function: &str) -> usize {
        match function {
            AGGREGATE => self.settings.shards,
            _ => 1,
        }
    }

    fn replicas(&self) -> Replicas {
        Replicas::Identical
    }
}
