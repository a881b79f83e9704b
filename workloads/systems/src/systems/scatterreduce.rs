//! ScatterReduce over the object store: worker r reduces chunk r.
//!
//! `paper` follows the comparison paper (Barrak et al. 2025) with the mechanics
//! of LambdaML (Jiang et al. 2021, §3.2) on real chunks of the gradient vector: every worker keeps
//! its own chunk and puts the others, adds up those of its chunk, puts the sum, gets the other
//! sums and joins them (2025, §2 ¶4, Table 1); all divide by W (LambdaML's published code).
//! `code` follows the comparison paper's published version: the same exchange
//! and mean, with replicas that start from different parameters, overlapping
//! shards, listings that stop at 1,000 keys, and log objects rewritten inside
//! the timed steps.
//!
//! `tuned` exchanges over tensor stores that reduce: every worker stores all
//! its chunks, owners receive a notice, have a store take the mean of theirs in rank
//! order and notify the others, and everyone gets all merged chunks. With `over:
//! objects` it keeps to the object store, where all get each other's chunks by
//! name instead of by listing, and several at once.
//!
//! Traffic per step, with W workers and P bytes of gradient: W² puts, 2W(W − 1)
//! gets and (3W − 2)·P bytes: W·P up, 2(W − 1)·P down. Over tensor stores: W²
//! puts, W² gets, W commands in a store, 2W(W − 1) messages of
//! [`NOTICE_BYTES`](crate::mechanics::in_store::NOTICE_BYTES), and 2W·P bytes beside those.
//!
//! # Objects and keys
//!
//! - `tmp-params/{owner}_{sender}_{epoch}_{batch}`: a chunk of the sender's gradient;
//!   `merged-params/{owner}_{epoch}_{batch}`: the sum of that chunk
//! - over tensor stores, where every step overwrites the last, store owner mod `stores`:
//!   `chunk_{owner}_{sender}`, and `merged_{owner}`, the mean of that chunk
//!
//! The queues `{trial}_chunk_{rank}` and `{trial}_merged_{rank}` announce values: 8 bytes, epoch (u32)
//! and mini-batch (u32).
//!
//! For n elements, with q = ⌊n / W⌋ and m = n mod W, chunk i starts at q·i + min(m, i) and has q
//! elements, one more if i < m.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::{ObjectStore, Traffic};
use epochcost_kernels::chunk::chunk_range;
use epochcost_kernels::optimizer::OptimizerSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanics::in_store;
use crate::mechanics::listing::{Listing, delete_keys, key_fields, list_keys};
use crate::mechanics::object_exchange::{FindsBy, Over, TUNED_POLL_MS};
use crate::mechanics::polling::PollOptions;
use crate::mechanics::published::{EPOCHS_PER_INVOCATION, ORIGINAL, Source};
use crate::mechanics::synchronous::{self, Exchange, Exchanged, FUNCTIONS, Iteration, LoopOptions};
use crate::mechanics::transfers::{TRANSFERS_AT_ONCE, in_turn, put};
use crate::{
    Alike, Bound, BoundSystem, DataLayout, Deployment, EarlyStopping, Fidelity, Job, Names,
    Outcome, ReduceOnPlateau, Replicas, Result, Sizes, Stage, Steps, Symmetry, TrainingSystem,
    Vector, World,
};

const TMP: &str = "tmp-params";
const MERGED: &str = "merged-params";

/// Deletion of merged chunks of earlier steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum DeleteMerged {
    /// Deletion by worker 0 at the end of each epoch (LambdaML).
    EveryEpoch,
    /// Deletion by worker 0 after each step (the comparison paper's code).
    EveryStep,
    /// Never.
    Never,
}

/// The named differences between paper and code.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Values that workers exchange, and when.
    exchanges: Exchanged,
    /// Channels that chunks travel over.
    over: Over,
    /// Number of tensor stores over which chunks are spread, where they travel
    /// over those; no more than there are workers.
    #[schemars(range(min = 1, max = 100_000))]
    stores: usize,
    /// Way in which chunks are found in the object store.
    finds_by: FindsBy,
    /// Number of requests of a worker under way at once.
    #[schemars(range(min = 1, max = 10_000))]
    transfers_at_once: usize,
    /// Whether all replicas start from the same parameters.
    seeded_replicas: bool,
    /// Whether every worker shuffles the whole dataset instead of its share.
    overlapping_shards: bool,
    /// Whether chunks are added in the order in which they were found.
    arrival_order: bool,
    /// Whether a listing stops at its first 1,000 keys; with many merged
    /// objects a current one can then stay hidden for ever.
    list_first_page_only: bool,
    /// Whether log objects are rewritten inside the timed steps.
    rewrites_log: bool,
    /// Deletion of merged chunks of earlier steps.
    delete_merged: DeleteMerged,
    /// Pause between two listings, ms.
    #[schemars(range(max = 3_600_000))]
    list_poll_ms: u64,
    /// Time limit of the wait for chunks, s; null: none, as published.
    #[schemars(range(min = 1, max = 86_400))]
    list_timeout_s: Option<u64>,
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

/// ScatterReduce over the object store.
pub(crate) struct ScatterReduce(pub(crate) Source);

struct Chunks {
    settings: Settings,
}

#[async_trait]
impl Exchange for Chunks {
    async fn exchange(
        &mut self,
        world: &mut World,
        gradient: Vector,
        at: Iteration,
    ) -> Result<Vector> {
        if self.settings.over == Over::Tensors {
            return in_store::scatter_reduce(world, &gradient, at, self.settings.stores).await;
        }
        let objects = world.exchange.objects.clone();
        let (rank, workers) = (world.rank(), world.workers());
        let chunk = |owner| gradient.slice(chunk_range(gradient.len(), workers, owner));
        // 1. Put the chunks that others own.
        world.enter(Stage::Serialise);
        let mut bodies = Vec::with_capacity(workers);
        for owner in (0..workers).filter(|owner| *owner != rank) {
            bodies.push((tmp_key(owner, rank, at), chunk(owner)?.encode()));
        }
        world.enter(Stage::Put);
        let puts = |index: usize| {
            let (key, body): (String, _) = bodies[index].clone();
            put(&objects, TMP, key, body)
        };
        in_turn(self.settings.transfers_at_once, bodies.len(), puts).await?;
        drop(bodies);
        // 2. Get the own chunk of everyone else, reduce, put the result.
        let mut parts = match self.settings.finds_by {
            FindsBy::Listing => self.collect_own_chunk(world, &objects, at).await?,
            FindsBy::Name => self.get_own_chunk(world, &objects, at).await?,
        };
        parts.push((rank, chunk(rank)?));
        if !self.settings.arrival_order {
            parts.sort_by_key(|(sender, _)| *sender);
        }
        world.enter(Stage::Aggregate);
        let parts: Vec<Vector> = parts.into_iter().map(|(_, part)| part).collect();
        let reduced = Vector::sum(&parts)?;
        world.enter(Stage::Serialise);
        let body = reduced.encode();
        world.enter(Stage::Put);
        objects.put(MERGED, &merged_key(rank, at), body).await?;
        // 3. Get the reduced chunks of everyone else and put them together.
        let mut merged = match self.settings.finds_by {
            FindsBy::Listing => self.collect_merged(world, &objects, at).await?,
            FindsBy::Name => self
                .by_name(world, MERGED, |owner| merged_key(owner, at))
                .await?
                .into_iter()
                .collect(),
        };
        merged.insert(rank, reduced);
        world.enter(Stage::Aggregate);
        let merged: Vec<Vector> = merged.into_values().collect();
        let mut gradient = Vector::concat(&merged);
        // The exchange sums; its caller divides.
        gradient.divide(workers as f32);
        if self.settings.delete_merged == DeleteMerged::EveryStep {
            self.delete_merged_before(world, at).await?;
        }
        Ok(gradient)
    }

    async fn end_epoch(&mut self, world: &mut World, epoch: usize) -> Result<()> {
        if self.settings.delete_merged == DeleteMerged::EveryEpoch {
            // The last step's chunks stay: a slower peer may still need them.
            let batch = world.task.job.batches_per_worker - 1;
            self.delete_merged_before(world, Iteration { epoch, batch })
                .await?;
        }
        Ok(())
    }
}

impl Chunks {
    /// Lists until the own chunk of every other worker was there, getting and
    /// deleting each as it is found.
    async fn collect_own_chunk(
        &self,
        world: &mut World,
        objects: &ObjectStore,
        at: Iteration,
    ) -> Result<Vec<(usize, Vector)>> {
        let (rank, workers) = (world.rank(), world.workers());
        let mut parts = Vec::with_capacity(workers);
        world.enter(Stage::Wait);
        let waiting = self.waiting(world, "the other workers' chunks");
        let own = format!("{rank}_");
        while parts.len() < workers - 1 {
            let (poll, known) = (world.listing_poll(), parts.len());
            let mut listing = Listing::new(TMP, self.settings.list_first_page_only);
            while let Some(page) = listing.next(objects).await? {
                // A page holds everybody's chunks: most are not read further.
                for key in page.keys.iter().filter(|key| key.starts_with(&own)) {
                    let Some([_, sender, epoch, batch]) = key_fields::<4>(key) else {
                        continue;
                    };
                    if (Iteration { epoch, batch }) != at {
                        continue;
                    }
                    world.enter(Stage::Get);
                    if let Some(body) = objects.get(TMP, key).await? {
                        parts.push((sender, Vector::decode(&body)?));
                        objects.delete(TMP, std::slice::from_ref(key)).await?;
                    }
                    world.enter(Stage::Wait);
                }
                if parts.len() == workers - 1 {
                    break;
                }
            }
            if parts.len() < workers - 1 {
                let is_vain = parts.len() == known;
                world.pause_listing(&waiting, poll, is_vain).await?;
            }
        }
        Ok(parts)
    }

    /// Lists until the reduced chunk of every other worker was there.
    async fn collect_merged(
        &self,
        world: &mut World,
        objects: &ObjectStore,
        at: Iteration,
    ) -> Result<BTreeMap<usize, Vector>> {
        let (rank, workers) = (world.rank(), world.workers());
        let mut merged = BTreeMap::new();
        world.enter(Stage::Wait);
        let waiting = self.waiting(world, "the other workers' reduced chunks");
        while merged.len() < workers - 1 {
            let (poll, known) = (world.listing_poll(), merged.len());
            for key in list_keys(objects, MERGED, self.settings.list_first_page_only).await? {
                let Some([owner, epoch, batch]) = key_fields::<3>(&key) else {
                    continue;
                };
                let is_current = (Iteration { epoch, batch }) == at;
                if owner == rank || !is_current || merged.contains_key(&owner) {
                    continue;
                }
                world.enter(Stage::Get);
                if let Some(body) = objects.get(MERGED, &key).await? {
                    merged.insert(owner, Vector::decode(&body)?);
                }
                world.enter(Stage::Wait);
            }
            if merged.len() < workers - 1 {
                let is_vain = merged.len() == known;
                world.pause_listing(&waiting, poll, is_vain).await?;
            }
        }
        Ok(merged)
    }

    /// Gets the own chunk of every other worker under its name, then deletes
    /// all of them at once.
    async fn get_own_chunk(
        &self,
        world: &mut World,
        objects: &ObjectStore,
        at: Iteration,
    ) -> Result<Vec<(usize, Vector)>> {
        let rank = world.rank();
        let key = |sender| tmp_key(rank, sender, at);
        let parts = self.by_name(world, TMP, key).await?;
        let read: Vec<String> = parts.iter().map(|(sender, _)| key(*sender)).collect();
        delete_keys(objects, TMP, &read).await?;
        Ok(parts)
    }

    /// Gets from every other worker, in rank order, the object at the key of its rank.
    async fn by_name(
        &self,
        world: &mut World,
        bucket: &str,
        key: impl Fn(usize) -> String,
    ) -> Result<Vec<(usize, Vector)>> {
        let rank = world.rank();
        let others: Vec<usize> = (0..world.workers())
            .filter(|other| *other != rank)
            .collect();
        let keys = others.iter().map(|other| key(*other)).collect();
        let options = PollOptions {
            interval: Duration::from_millis(self.settings.list_poll_ms),
            limit: self.settings.list_timeout_s.map(Duration::from_secs),
            at_once: self.settings.transfers_at_once,
        };
        let bodies = world.await_gradients(bucket, keys, options).await?;
        world.enter(Stage::Serialise);
        let decoded = others
            .into_iter()
            .zip(bodies)
            .map(|(other, body)| Ok((other, Vector::decode(&body)?)));
        decoded.collect()
    }

    fn waiting(&self, world: &World, what: &'static str) -> crate::mechanics::polling::Waiting {
        world.waiting(
            what,
            Duration::from_millis(self.settings.list_poll_ms),
            self.settings.list_timeout_s.map(Duration::from_secs),
        )
    }

    /// Worker 0 deletes merged chunks of steps before `at`. Everyone has read
    /// those: a chunk of step `at` from a worker means that it finished the
    /// step before.
    async fn delete_merged_before(&self, world: &mut World, at: Iteration) -> Result<()> {
        if world.rank() != 0 {
            return Ok(());
        }
        world.enter(Stage::Wait);
        let objects = &world.exchange.objects;
        let first_page = self.settings.list_first_page_only;
        let mut keys = list_keys(objects, MERGED, first_page).await?;
        keys.retain(|key| {
            key_fields::<3>(key).is_some_and(|[_, epoch, batch]| (Iteration { epoch, batch }) < at)
        });
        delete_keys(objects, MERGED, &keys).await
    }
}

fn tmp_key(owner: usize, sender: usize, at: Iteration) -> String {
    format!("{owner}_{sender}_{}_{}", at.epoch, at.batch)
}

fn merged_key(owner: usize, at: Iteration) -> String {
    format!("{owner}_{}_{}", at.epoch, at.batch)
}

#[async_trait]
impl TrainingSystem for ScatterReduce {
    type Settings = Settings;

    fn names(&self) -> Names {
        match self.0 {
            Source::Comparison => Names::new(
                "scatterreduce",
                "ScatterReduce",
                "LambdaML ScatterReduce over the object store (Jiang et al. 2021), as compared by Barrak et al. 2025",
            ),
            Source::LambdaMl => {
                Names::new("lambdaml_scatterreduce", "LambdaML ScatterReduce", ORIGINAL)
            }
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
            stores: 1,
            finds_by: if tuned {
                FindsBy::Name
            } else {
                FindsBy::Listing
            },
            transfers_at_once: if tuned { TRANSFERS_AT_ONCE } else { 1 },
            seeded_replicas: !code,
            overlapping_shards: code,
            arrival_order: false,
            list_first_page_only: fidelity == Fidelity::Code,
            rewrites_log: code,
            delete_merged: if code {
                DeleteMerged::EveryStep
            } else {
                DeleteMerged::EveryEpoch
            },
            list_poll_ms: if tuned { TUNED_POLL_MS } else { 0 },
            list_timeout_s: None,
            reduce_on_plateau: None,
            early_stopping: None,
            epochs_per_invocation: original.then_some(EPOCHS_PER_INVOCATION),
            continues_by_time: tuned,
        }
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
        synchronous::train(world, &mut Chunks { settings }, options).await
    }
}

impl BoundSystem for Bound<'_, ScatterReduce> {
    fn data_layout(&self) -> DataLayout {
        DataLayout::shuffled(self.settings.overlapping_shards)
    }

    fn tensor_stores(&self) -> usize {
        match self.settings.over {
            Over::Tensors => self.settings.stores.clamp(1, self.job.workers),
            Over::Objects => 0,
        }
    }

    fn closed_form(&self, job: &Job, sizes: Sizes, _: Steps<'_>) -> Result<Traffic> {
        let workers = job.workers as u64;
        let steps = self.settings.exchanges.rounds(job);
        let gradient = sizes.gradient_bytes();
        if self.settings.over == Over::Tensors {
            let (chunks, notices) = (workers * workers, 2 * workers * (workers - 1));
            return Ok(in_store::traffic(
                steps,
                [chunks, chunks, workers, notices],
                workers * gradient,
            ));
        }
        Ok(Traffic {
            puts: steps * workers * workers,
            gets: steps * 2 * workers * (workers - 1),
            bytes_up: steps * workers * gradient,
            bytes_down: steps * 2 * (workers - 1) * gradient,
            ..Traffic::default()
        })
    }

    /// A replica's parameters and momentum, the own gradient, the own chunk of
    /// all workers (one gradient together), the merged chunks and the whole.
    fn resident_vectors(&self, _function: &str, _rank: usize) -> usize {
        6
    }

    /// Chunks that are found by listing are found at a time that depends on the owner's rank, and
    /// stores serve requests that are under way at once in an order that does.
    fn symmetry(&self) -> Symmetry {
        let unlike = |instead| Symmetry::Unlike { instead };
        match (self.settings.over, self.settings.finds_by) {
            (Over::Tensors, _) => unlike("settings: {over: objects}"),
            (Over::Objects, FindsBy::Listing) => unlike("settings: {finds_by: name}"),
            _ if self.settings.rewrites_log => unlike("settings: {rewrites_log: false}"),
            (Over::Objects, FindsBy::Name) => Symmetry::Alike(Alike {
                objects: &["{to}_{from}_{n}_{n}", "{from}_{n}_{n}"],
                // How much one of several requests at once delays the others is not known of
                // those for whom a worker stands.
                drawn: self.settings.transfers_at_once <= 1,
                ..Alike::default()
            }),
        }
    }

    fn replicas(&self) -> Replicas {
        synchronous::replicas(self.settings.seeded_replicas)
    }
}
