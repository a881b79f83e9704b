//! AllReduce over the object store: worker 0 reduces.
//!
//! `paper` follows the comparison paper (Barrak et al. 2025) with the mechanics
//! of LambdaML (Jiang et al. 2021, §3.2): every worker puts its gradient,
//! worker 0 lists until it has all of them, puts the mean, and everyone,
//! worker 0 too, gets it.
//!
//! `code` follows the comparison paper's published version: one gradient object
//! a worker that is overwritten every step, a sum where the paper says mean,
//! worker 0 keeping its own result, no time limit, replicas that start from
//! different parameters, and log objects rewritten inside the timed steps.
//!
//! Traffic a step, with W workers and P bytes of gradient: W + 1 puts, 2W gets
//! and (3W + 1)·P bytes; 2W − 1 gets and 3W·P bytes when worker 0 keeps its
//! result.

use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::{ObjectStore, Traffic};
use epochcost_kernels::optimizer::{OptimizerSpec, Sgd};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::synchronous::{self, Exchange, FUNCTION, Iteration, LoopOptions, list_keys};
use crate::waiting::Place;
use crate::{
    DataLayout, Fidelity, Host, Job, Launch, Outcome, Replicas, Result, SettingsError, Sizes,
    Stage, System, Vector, World, settings,
};

const NAME: &str = "allreduce";
const TMP: &str = "tmp-params";
const MERGED: &str = "merged-params";

/// What worker 0 makes of the gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reduction {
    /// Their mean, as the papers say.
    Mean,
    /// Their sum: the published code divides weights but not gradients.
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

/// How gradient objects are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Keys {
    /// `{worker}_{epoch}_{batch}`: one object a step.
    EveryStep,
    /// `g_{worker}`: one object a worker, overwritten every step.
    Overwritten,
}

/// The named differences between paper and code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Mean or sum.
    reduction: Reduction,
    /// Whether worker 0 gets the merged gradient that it has just put.
    root_rereads: bool,
    /// How gradient objects are named.
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
    list_poll_ms: u64,
    /// Pause between two gets of the merged gradient, ms.
    merged_poll_ms: u64,
    /// For how long the merged gradient is awaited, s; null: for ever.
    merged_timeout_s: Option<u64>,
    /// After how many epochs a worker re-invokes itself; null: never.
    epochs_per_invocation: Option<usize>,
}

impl Settings {
    fn of(fidelity: Fidelity) -> Self {
        let code = fidelity == Fidelity::Code;
        Self {
            reduction: if code {
                Reduction::Sum
            } else {
                Reduction::Mean
            },
            root_rereads: !code,
            keys: if code {
                Keys::Overwritten
            } else {
                Keys::EveryStep
            },
            seeded_replicas: !code,
            overlapping_shards: code,
            arrival_order: false,
            list_first_page_only: code,
            rewrites_log: code,
            list_poll_ms: 0,
            merged_poll_ms: 100,
            merged_timeout_s: (!code).then_some(60),
            epochs_per_invocation: None,
        }
    }

    fn layout(&self) -> DataLayout {
        if self.overlapping_shards {
            DataLayout::Whole
        } else {
            DataLayout::Shards
        }
    }
}

/// AllReduce over the object store.
pub(crate) struct AllReduce;

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
        let objects = world.exchange.objects.clone();
        // 1. Every worker puts its gradient.
        world.enter(Stage::Serialise);
        let body = gradient.encode();
        world.enter(Stage::Put);
        objects
            .put(TMP, &self.gradient_key(world.rank(), at), body)
            .await?;
        // 2. Worker 0 collects all, reduces and puts the result.
        if world.rank() == 0 {
            let gradients = self.collect(world, objects.as_ref(), at).await?;
            world.enter(Stage::Aggregate);
            let merged = self.settings.reduction.apply(&gradients)?;
            drop(gradients);
            world.enter(Stage::Serialise);
            let body = merged.encode();
            world.enter(Stage::Put);
            objects.put(MERGED, &self.merged_key(at), body).await?;
            self.delete_older_merged(objects.as_ref(), at).await?;
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
        objects: &dyn ObjectStore,
        at: Iteration,
    ) -> Result<Vec<Vector>> {
        let workers = world.workers();
        let expected: Vec<String> = (0..workers)
            .map(|rank| self.gradient_key(rank, at))
            .collect();
        let mut found: Vec<(usize, Vector)> = Vec::with_capacity(workers);
        let poll = Duration::from_millis(self.settings.list_poll_ms);
        world.enter(Stage::Wait);
        let waiting = world.waiting("every worker's gradient", poll, None);
        loop {
            let listed = list_keys(objects, TMP, self.settings.list_first_page_only).await?;
            let mut consumed = Vec::new();
            world.enter(Stage::Get);
            for key in listed {
                let Some(rank) = expected.iter().position(|expected| *expected == key) else {
                    continue;
                };
                if let Some(body) = objects.get(TMP, &key).await? {
                    found.push((rank, Vector::decode(&body)?));
                    consumed.push(key);
                }
            }
            self.delete(objects, TMP, consumed).await?;
            world.enter(Stage::Wait);
            if found.len() == workers {
                break;
            }
            world.pause(&waiting).await?;
        }
        if !self.settings.arrival_order {
            found.sort_by_key(|(rank, _)| *rank);
        }
        Ok(found.into_iter().map(|(_, gradient)| gradient).collect())
    }

    async fn delete_older_merged(&self, objects: &dyn ObjectStore, at: Iteration) -> Result<()> {
        let current = self.merged_key(at);
        let mut older = list_keys(objects, MERGED, self.settings.list_first_page_only).await?;
        older.retain(|key| *key != current);
        self.delete(objects, MERGED, older).await
    }

    /// LambdaML deletes in batches, the comparison paper's code one by one.
    async fn delete(
        &self,
        objects: &dyn ObjectStore,
        bucket: &str,
        keys: Vec<String>,
    ) -> Result<()> {
        let request = match self.settings.keys {
            Keys::EveryStep => keys.len().max(1),
            Keys::Overwritten => 1,
        };
        for keys in keys.chunks(request) {
            objects.delete(bucket, keys).await?;
        }
        Ok(())
    }

    async fn get_merged(&self, world: &mut World, at: Iteration) -> Result<Vector> {
        let key = self.merged_key(at);
        let waiting = world.waiting(
            format!("merged gradient {key}"),
            Duration::from_millis(self.settings.merged_poll_ms),
            self.settings.merged_timeout_s.map(Duration::from_secs),
        );
        let body = world
            .await_object(Place::Exchange, MERGED, &key, waiting)
            .await?;
        world.enter(Stage::Serialise);
        Vector::decode(&body)
    }
}

#[async_trait]
impl System for AllReduce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "AllReduce"
    }

    fn about(&self) -> &'static str {
        "LambdaML AllReduce over the object store (Jiang et al. 2021), as compared by Barrak et al. 2025"
    }

    fn host_of(&self, _: &str) -> Host {
        Host::Function
    }

    fn settings(
        &self,
        fidelity: Fidelity,
        overrides: &Map<String, Value>,
    ) -> Result<Value, SettingsError> {
        settings::resolve(NAME, &Settings::of(fidelity), overrides)
    }

    fn optimizer(&self, _fidelity: Fidelity) -> OptimizerSpec {
        published_sgd()
    }

    fn data_layout(&self, job: &Job) -> Result<DataLayout> {
        Ok(settings::parse::<Settings>(NAME, &job.settings)?.layout())
    }

    fn functions(&self) -> &'static [&'static str] {
        &[FUNCTION]
    }

    fn launch(&self, job: &Job) -> Result<Launch> {
        Ok(Launch::Workers(
            (0..job.workers).map(|rank| (FUNCTION, rank)).collect(),
        ))
    }

    fn traffic(&self, job: &Job, sizes: Sizes) -> Result<Traffic> {
        let settings: Settings = settings::parse(NAME, &job.settings)?;
        let workers = job.workers as u64;
        let steps = (job.epochs * job.batches_per_worker) as u64;
        let gets = if settings.root_rereads {
            2 * workers
        } else {
            2 * workers - 1
        };
        Ok(Traffic {
            puts: steps * (workers + 1),
            gets: steps * gets,
            bytes_up: steps * (workers + 1) * sizes.gradient_bytes(),
            bytes_down: steps * gets * sizes.gradient_bytes(),
            ..Traffic::default()
        })
    }

    /// A replica's parameters and momentum, the own gradient, the merged one
    /// as it comes and decoded; worker 0 first all gradients and their mean.
    fn resident_vectors(&self, job: &Job, _function: &str, rank: usize) -> Result<usize> {
        Ok(if rank == 0 { job.workers + 4 } else { 5 })
    }

    fn replicas(&self, job: &Job) -> Result<Replicas> {
        let settings: Settings = settings::parse(NAME, &job.settings)?;
        Ok(synchronous::replicas(settings.seeded_replicas))
    }

    async fn run(&self, world: &mut World) -> Result<Outcome> {
        synchronous::expect_function(world, NAME)?;
        let settings: Settings = world.settings(NAME)?;
        let options = LoopOptions {
            layout: settings.layout(),
            seeded_replicas: settings.seeded_replicas,
            rewrites_log: settings.rewrites_log,
            epochs_per_invocation: settings.epochs_per_invocation,
        };
        synchronous::train(world, &mut Reducer { settings }, options).await
    }
}

/// SGD as in LambdaML's archived CNN handlers, inherited by the comparison paper.
pub(crate) fn published_sgd() -> OptimizerSpec {
    OptimizerSpec::Sgd(Sgd {
        learning_rate: 0.01,
        momentum: 0.9,
        weight_decay: 5e-4,
    })
}
