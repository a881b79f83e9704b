//! AllReduce over the object store: worker 0 reduces.
//!
//! `paper` follows the comparison paper (Barrak et al. 2025) with the mechanics
//! of LambdaML (Jiang et al. 2021, §3.2): every worker puts its gradient (2025, §2 ¶5, Table 1),
//! worker 0 lists until it has all of them (LambdaML's published code), puts the aggregate
//! (2025, §2 ¶5, Table 1), their mean (LambdaML's code), and everyone, worker 0 too (2025, §2 ¶5;
//! Table 1: the others), gets it.
//!
//! `code` follows the comparison paper's published version: one gradient object
//! a worker that is overwritten every step, a sum where LambdaML takes the mean,
//! worker 0 keeping its own result, no time limit, replicas that start from
//! different parameters, and log objects rewritten inside the timed steps.
//!
//! `tuned` exchanges over a tensor store that reduces: every worker stores its
//! gradient, worker 0 receives a notice, has the store take the mean in rank order
//! and notifies the others, and everyone gets the mean. With `over: objects` it
//! keeps to the object store, where all poll for each other's objects by name
//! instead of by listing, and move several at once.
//!
//! Traffic per step, with W workers and P bytes of gradient: W + 1 puts, 2W gets
//! and (3W + 1)·P bytes; 2W − 1 gets and 3W·P bytes when worker 0 keeps its
//! result. Over the tensor store: W puts, W gets, one command in the store,
//! 2(W − 1) messages of [`NOTICE_BYTES`](crate::mechanics::in_store::NOTICE_BYTES), and 2W·P bytes beside those.
//!
//! # Objects and keys
//!
//! `{step}` counts mini-batches over all epochs; values are vectors, keys `BUCKET/KEY`.
//!
//! - `tmp-params/{rank}_{epoch}_{batch}`: a gradient; `merged-params/merged_{epoch}_{batch}`: their
//!   mean or sum. Overwritten keys are `g_{rank}` and `g_{epoch}_{batch}`
//! - over tensor stores, where every step overwrites the last, store 0: `gradient_{rank}`, and
//!   `merged`, their mean
//!
//! The queues `{trial}_gradient_0` and `{trial}_merged_{rank}` announce values: 8 bytes, epoch (u32)
//! and mini-batch (u32).
//!
//! State, metered separately, of all systems that loop over mini-batches:
//!
//! - `cp-model/checkpoint_{last epoch}.pt`: by worker 0 before it re-invokes itself: parameters,
//!   batch-norm statistics and the optimizer's state, each after its length in bytes (u64)
//! - `cp-model/checkpoint_{rank}_{epoch}_{mini-batch}.pt`: the same of a worker whose time is nearly
//!   over, and where it continues
//! - `cp-model/monitor_{epoch}.json`: worker 0's monitor after an epoch, if learning rate or end depend
//!   on it
//! - `cnn-logs/log_{rank}.txt`: with `rewrites_log`: rewritten whole at each line

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::{ObjectStore, Traffic};
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanics::in_store;
use crate::mechanics::listing::{delete_keys, list_keys};
use crate::mechanics::object_exchange::{FindsBy, Over, TUNED_POLL_MS};
use crate::mechanics::polling::{PollOptions, Purpose};
use crate::mechanics::published::{EPOCHS_PER_INVOCATION, ORIGINAL, Source};
use crate::mechanics::synchronous::{self, Exchange, Exchanged, FUNCTIONS, Iteration, LoopOptions};
use crate::mechanics::traffic;
use crate::mechanics::transfers::TRANSFERS_AT_ONCE;
use crate::{
    Bound, BoundSystem, DataLayout, Deployment, EarlyStopping, Fidelity, Job, Names, Outcome,
    ReduceOnPlateau, Replicas, Result, SettingsError, Sizes, Stage, Steps, TrainingSystem, Vector,
    World,
};

const TMP: &str = "tmp-params";
const MERGED: &str = "merged-params";

/// Reduction of the gradients by worker 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Reduction {
    /// Mean, as the papers say.
    Mean,
    /// Sum: the published code divides weights but not gradients.
    Sum,
}

impl Reduction {
    fn apply(self, gradients: &[Vector]) -> Result<Vector> {
        match self {
            Self::Mean => Vector::mean(gradients),
            Self::Sum => Vector::sum(gradients),
        }
    }
}

/// Names of gradient objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Keys {
    /// `{worker}_{epoch}_{batch}`: one object per step.
    EveryStep,
    /// `g_{worker}`: one object per worker, overwritten every step.
    Overwritten,
}

/// The named differences between the paper, its code, and what can be done.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Values that workers exchange, and when.
    exchanges: Exchanged,
    /// Channels that gradients travel over.
    over: Over,
    /// Way in which worker 0 finds gradient objects.
    finds_by: FindsBy,
    /// Number of requests of a worker under way at once.
    #[schemars(range(min = 1, max = 10_000))]
    transfers_at_once: usize,
    /// Mean or sum.
    reduction: Reduction,
    /// Whether worker 0 gets the merged gradient that it has just put.
    root_rereads: bool,
    /// Names of gradient objects.
    keys: Keys,
    /// Whether all replicas start from the same parameters.
    seeded_replicas: bool,
    /// Whether every worker shuffles the whole dataset instead of its share.
    overlapping_shards: bool,
    /// Whether gradients are added in the order in which they were found.
    arrival_order: bool,
    /// Whether a listing stops at its first 1,000 keys.
    list_first_page_only: bool,
    /// Whether log objects are rewritten inside the timed steps.
    rewrites_log: bool,
    /// Pause between two listings of worker 0, ms.
    #[schemars(range(max = 3_600_000))]
    list_poll_ms: u64,
    /// Pause between two gets of the merged gradient, ms.
    #[schemars(range(max = 3_600_000))]
    merged_poll_ms: u64,
    /// Time limit of the wait for the merged gradient, s; null: none.
    #[schemars(range(min = 1, max = 86_400))]
    merged_timeout_s: Option<u64>,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    early_stopping: Option<EarlyStopping>,
    /// Epochs after which a worker re-invokes itself; null: never.
    #[schemars(range(min = 1, max = 100_000))]
    epochs_per_invocation: Option<usize>,
    /// Whether a worker re-invokes itself when its time is nearly over.
    continues_by_time: bool,
}

/// AllReduce over the object store.
pub(crate) struct AllReduce(pub(crate) Source);

struct Reducer {
    settings: Settings,
}

#[async_trait]
impl Exchange for Reducer {
    async fn exchange(
        &mut self,
        world: &mut World,
        gradient: Vector,
        at: Iteration,
    ) -> Result<Vector> {
        if self.settings.over == Over::Tensors {
            return in_store::all_reduce(world, &gradient, at).await;
        }
        let objects = world.exchange.objects.clone();
        // 1. Every worker puts its gradient.
        world.enter(Stage::Serialise);
        let body = gradient.encode();
        world.enter(Stage::Put);
        let key = self.gradient_key(world.rank(), at);
        objects.put(TMP, &key, body).await?;
        // 2. Worker 0 collects all, reduces and puts the result.
        if world.rank() == 0 {
            let gradients = match self.settings.finds_by {
                FindsBy::Listing => self.collect(world, &objects, at).await?,
                FindsBy::Name => self.collect_by_name(world, &objects, at).await?,
            };
            world.enter(Stage::Aggregate);
            let merged = self.settings.reduction.apply(&gradients)?;
            drop(gradients);
            world.enter(Stage::Serialise);
            let body = merged.encode();
            world.enter(Stage::Put);
            objects.put(MERGED, &self.merged_key(at), body).await?;
            let batches = world.task.job.batches_per_worker;
            self.delete_older_merged(&objects, at, batches).await?;
            if !self.settings.root_rereads {
                return Ok(merged);
            }
        }
        // 3. Everyone gets it.
        self.get_merged(world, at).await
    }
}

impl Reducer {
    fn gradient_key(&self, rank: usize, at: Iteration) -> String {
        match self.settings.keys {
            Keys::EveryStep => format!("{rank}_{}_{}", at.epoch, at.batch),
            Keys::Overwritten => format!("g_{rank}"),
        }
    }

    fn merged_key(&self, at: Iteration) -> String {
        let prefix = match self.settings.keys {
            Keys::EveryStep => "merged",
            Keys::Overwritten => "g",
        };
        format!("{prefix}_{}_{}", at.epoch, at.batch)
    }

    /// Lists until every worker's gradient was there, getting and deleting
    /// each as it is found; returns them in rank order.
    async fn collect(
        &self,
        world: &mut World,
        objects: &ObjectStore,
        at: Iteration,
    ) -> Result<Vec<Vector>> {
        let workers = world.workers();
        let expected: HashMap<String, usize> = (0..workers)
            .map(|rank| (self.gradient_key(rank, at), rank))
            .collect();
        let mut found: Vec<(usize, Vector)> = Vec::with_capacity(workers);
        let poll = Duration::from_millis(self.settings.list_poll_ms);
        world.enter(Stage::Wait);
        let waiting = world.waiting("every worker's gradient", poll, None);
        loop {
            // Get and delete every gradient that the listing shows.
            let (poll, known) = (world.listing_poll(), found.len());
            let listed = list_keys(objects, TMP, self.settings.list_first_page_only).await?;
            let mut consumed = Vec::new();
            world.enter(Stage::Get);
            for key in listed {
                let Some(&rank) = expected.get(&key) else {
                    continue;
                };
                if let Some(body) = objects.get(TMP, &key).await? {
                    found.push((rank, Vector::decode(&body)?));
                    consumed.push(key);
                }
            }
            self.delete(objects, TMP, consumed).await?;
            world.enter(Stage::Wait);
            // List again until all were there.
            if found.len() == workers {
                break;
            }
            let is_vain = found.len() == known;
            world.pause_listing(&waiting, poll, is_vain).await?;
        }
        if !self.settings.arrival_order {
            found.sort_by_key(|(rank, _)| *rank);
        }
        Ok(found.into_iter().map(|(_, gradient)| gradient).collect())
    }

    /// Gets every worker's gradient under its name, in rank order.
    async fn collect_by_name(
        &self,
        world: &mut World,
        objects: &ObjectStore,
        at: Iteration,
    ) -> Result<Vec<Vector>> {
        let keys: Vec<String> = (0..world.workers())
            .map(|rank| self.gradient_key(rank, at))
            .collect();
        let options = PollOptions {
            interval: Duration::from_millis(self.settings.list_poll_ms),
            limit: None,
            at_once: self.settings.transfers_at_once,
        };
        let bodies = world.await_gradients(TMP, keys.clone(), options).await?;
        self.delete(objects, TMP, keys).await?;
        world.enter(Stage::Serialise);
        bodies.iter().map(Vector::decode).collect()
    }

    async fn delete_older_merged(
        &self,
        objects: &ObjectStore,
        at: Iteration,
        batches: usize,
    ) -> Result<()> {
        if self.settings.finds_by == FindsBy::Name {
            let Some(previous) = at.previous(batches) else {
                return Ok(());
            };
            let previous = self.merged_key(previous);
            return self.delete(objects, MERGED, vec![previous]).await;
        }
        let current = self.merged_key(at);
        let mut older = list_keys(objects, MERGED, self.settings.list_first_page_only).await?;
        older.retain(|key| *key != current);
        self.delete(objects, MERGED, older).await
    }

    /// Deletes in batches as LambdaML does, or one by one as the comparison paper's code.
    async fn delete(&self, objects: &ObjectStore, bucket: &str, keys: Vec<String>) -> Result<()> {
        match self.settings.keys {
            Keys::EveryStep => delete_keys(objects, bucket, &keys).await,
            Keys::Overwritten => {
                for key in keys.chunks(1) {
                    objects.delete(bucket, key).await?;
                }
                Ok(())
            }
        }
    }

    async fn get_merged(&self, world: &mut World, at: Iteration) -> Result<Vector> {
        let key = self.merged_key(at);
        let waiting = world.waiting(
            "merged gradient",
            Duration::from_millis(self.settings.merged_poll_ms),
            self.settings.merged_timeout_s.map(Duration::from_secs),
        );
        let body = world
            .await_object(Purpose::Exchange, MERGED, &key, waiting)
            .await?;
        world.enter(Stage::Serialise);
        Vector::decode(&body)
    }
}

#[async_trait]
impl TrainingSystem for AllReduce {
    type Settings = Settings;

    fn names(&self) -> Names {
        match self.0 {
            Source::Comparison => Names::new(
                "allreduce",
                "AllReduce",
                "LambdaML AllReduce over the object store (Jiang et al. 2021), as compared by Barrak et al. 2025",
            ),
            Source::LambdaMl => Names::new("lambdaml_allreduce", "LambdaML AllReduce", ORIGINAL),
        }
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            polls_by_listing: true,
            ..Deployment::new(&FUNCTIONS)
        }
    }

    /// The settings of a fidelity. The original's code does what its paper says, but for listings and
    /// re-invocations.
    fn defaults(&self, fidelity: Fidelity) -> Settings {
        let original = fidelity == Fidelity::Code && self.0 == Source::LambdaMl;
        let code = fidelity == Fidelity::Code && !original;
        let tuned = fidelity == Fidelity::Tuned;
        Settings {
            exchanges: Exchanged::Gradients,
            over: if tuned { Over::Tensors } else { Over::Objects },
            finds_by: if tuned {
                FindsBy::Name
            } else {
                FindsBy::Listing
            },
            transfers_at_once: if tuned { TRANSFERS_AT_ONCE } else { 1 },
            reduction: if code {
                Reduction::Sum
            } else {
                Reduction::Mean
            },
            root_rereads: !code && !tuned,
            keys: if code {
                Keys::Overwritten
            } else {
                Keys::EveryStep
            },
            seeded_replicas: !code,
            overlapping_shards: code,
            arrival_order: false,
            list_first_page_only: fidelity == Fidelity::Code,
            rewrites_log: code,
            list_poll_ms: if tuned { TUNED_POLL_MS } else { 0 },
            merged_poll_ms: if tuned { TUNED_POLL_MS } else { 100 },
            merged_timeout_s: (!code).then_some(60),
            reduce_on_plateau: None,
            early_stopping: None,
            epochs_per_invocation: original.then_some(EPOCHS_PER_INVOCATION),
            continues_by_time: tuned,
        }
    }

    fn check(&self, settings: &Settings) -> Result<(), SettingsError> {
        if settings.over == Over::Tensors && settings.reduction == Reduction::Sum {
            let reason = "a tensor store takes means; use reduction: mean or over: objects";
            return Err(SettingsError::value(self.names().name, "reduction", reason));
        }
        Ok(())
    }

    fn optimizer(&self, _fidelity: Fidelity) -> OptimizerSpec {
        self.0.optimizer()
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        let options = LoopOptions {
            exchanges: settings.exchanges,
            layout: DataLayout::shuffled(settings.overlapping_shards),
            seeded_replicas: settings.seeded_replicas,
            rewrites_log: settings.rewrites_log,
            epochs_per_invocation: settings.epochs_per_invocation,
            continues_by_time: settings.continues_by_time,
        };
        synchronous::train(world, &mut Reducer { settings }, options).await
    }
}

impl BoundSystem for Bound<'_, AllReduce> {
    fn data_layout(&self) -> DataLayout {
        DataLayout::shuffled(self.settings.overlapping_shards)
    }

    fn tensor_stores(&self) -> usize {
        usize::from(self.settings.over == Over::Tensors)
    }

    fn closed_form(&self, job: &Job, sizes: Sizes, _: Steps<'_>) -> Result<Traffic> {
        let workers = job.workers as u64;
        let steps = self.settings.exchanges.rounds(job);
        if self.settings.over == Over::Tensors {
            let notices = 2 * workers.saturating_sub(1);
            return Ok(in_store::traffic(
                steps,
                [workers, workers, 1, notices],
                workers * sizes.gradient_bytes(),
            ));
        }
        let gets = 2 * workers - u64::from(!self.settings.root_rereads);
        let bytes = sizes.gradient_bytes();
        Ok(traffic::sum([
            traffic::puts(steps * (workers + 1), bytes),
            traffic::gets(steps * gets, bytes),
        ]))
    }

    /// A replica's parameters and momentum, the own gradient, the merged one
    /// as it comes and decoded; worker 0 first all gradients and their mean.
    fn resident_vectors(&self, _function: &str, rank: usize) -> usize {
        let reduces = rank == 0 && self.settings.over == Over::Objects;
        if reduces { self.job.workers + 4 } else { 5 }
    }

    fn replicas(&self) -> Replicas {
        synchronous::replicas(self.settings.seeded_replicas)
    }
}
