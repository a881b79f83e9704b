//! The GPU baseline: instances that exchange gradients through the object store.
//!
//! `paper` follows Barrak et al. 2025: W instances (§3.3 ¶3); each puts its gradient
//! in a shared bucket, gets the others', averages and updates (§2 ¶6, Table 1). Traffic per step:
//! W puts, W(W − 1) gets and W²·P bytes.
//!
//! `code` follows the published script: one process on one instance that plays
//! W workers one after another. Each computes its gradient at the same
//! parameters and puts it; then the process gets all W, its own included, and
//! takes the mean. Nothing is deleted, and the batch-norm statistics of the
//! played workers are thrown away. Traffic per step: W puts, W gets, 2W·P bytes.
//!
//! `tuned` cuts a gradient into parts and moves them at once, in both
//! directions, since one stream does not fill an instance's network; with k
//! parts, k times as many puts and gets and as many bytes. A part is uploaded as
//! soon as the backward pass has all of it, while earlier layers' gradients are
//! still computed: what is sent is the same, bit for bit, it is only sent
//! earlier. The time of a put counts as one only from when the gradient is done.
//!
//! # Objects and keys
//!
//! `gradients/minibatch_{step}_worker_{rank}.pt`, a vector, with `{step}` counting mini-batches over
//! all epochs; in parts: with `.{part}` appended.

use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::{ObjectStore, Traffic};
use epochcost_kernels::optimizer::OptimizerSpec;
use futures_util::future::{Either, select};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::contract::data::Shard;
use crate::mechanics::continuation::follow_alone;
use crate::mechanics::listing::delete_keys;
use crate::mechanics::monitor::Monitor;
use crate::mechanics::polling::PollOptions;
use crate::mechanics::published::{published_sgd, sgd};
use crate::mechanics::replica::Replica;
use crate::mechanics::synchronous::{self, Exchange, FUNCTION, INSTANCES, Iteration, LoopOptions};
use crate::mechanics::transfers::{Parts, TRANSFERS_AT_ONCE, at_once, put};
use crate::{
    Alike, Batch, Bound, BoundSystem, DataLayout, Deployment, Device, EarlyStopping, Fidelity, Job,
    Launch, Names, Outcome, ReduceOnPlateau, Replicas, Result, Sizes, Stage, Steps, Symmetry,
    SystemError, TrainingSystem, Vector, World,
};

const NAME: &str = "gpu_baseline";
const BUCKET: &str = "gradients";

/// The named differences between paper and code.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Whether one process plays all workers.
    single_process: bool,
    /// Whether all replicas start from the same parameters.
    seeded_replicas: bool,
    /// Whether a worker deletes its gradient of the step before.
    delete_previous: bool,
    /// Pause between two gets of another worker's gradient, ms.
    #[schemars(range(max = 3_600_000))]
    poll_ms: u64,
    /// Time limit of the wait for a gradient, s; null: none.
    #[schemars(range(min = 1, max = 86_400))]
    timeout_s: Option<u64>,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    early_stopping: Option<EarlyStopping>,
    /// Number of objects that a gradient is cut into.
    #[schemars(range(min = 1, max = 100_000))]
    parts: usize,
    /// Number of requests of an instance under way at once.
    #[schemars(range(min = 1, max = 10_000))]
    transfers_at_once: usize,
    /// Whether a part is put while the rest of the gradient is computed.
    uploads_while_computing: bool,
}

/// The GPU baseline.
pub(crate) struct GpuBaseline;

/// `gradients/minibatch_{k}_worker_{w}.pt`, k counting over all epochs.
fn key(world: &World, rank: usize, at: Iteration) -> String {
    let step = at.epoch * world.task.job.batches_per_worker + at.batch;
    format!("minibatch_{step}_worker_{rank}.pt")
}

struct AllToAll {
    settings: Settings,
}

/// Puts the parts that come, each under its key; an error if some never came.
async fn put_as_ready(
    objects: ObjectStore,
    keys: Vec<String>,
    ready: UnboundedReceiver<(usize, Vector)>,
    at_once: usize,
) -> Result<()> {
    let awaited = keys.len();
    let ready = stream::unfold(ready, |mut ready| async move {
        ready.recv().await.map(|part| (part, ready))
    });
    let puts = ready.map(|(part, vector): (usize, Vector)| {
        let (objects, key) = (objects.clone(), keys.get(part).cloned());
        async move {
            match key {
                Some(key) => put(&objects, BUCKET, key, vector.encode())
                    .await
                    .map(|()| 1),
                None => Ok(0),
            }
        }
    });
    let puts = puts.buffer_unordered(at_once.max(1));
    let put: usize = puts
        .try_fold(0, |sum, put: usize| async move { Ok(sum + put) })
        .await?;
    if put == awaited {
        return Ok(());
    }
    Err(SystemError::Compute(format!(
        "{put} of a gradient's {awaited} parts were computed"
    )))
}

#[async_trait]
impl Exchange for AllToAll {
    async fn gradient(
        &mut self,
        world: &mut World,
        replica: &mut Replica,
        batch: &Batch,
        at: Iteration,
    ) -> Result<Vector> {
        if !self.settings.uploads_while_computing || world.workers() == 1 {
            return replica.gradient(world, batch).await;
        }
        let parts = Parts::new(self.settings.parts, world.compute.parameters());
        let keys = parts.keys(&key(world, world.rank(), at)).collect();
        let objects = world.exchange.objects.clone();
        let (send, ready) = unbounded_channel();
        let at_once = self.settings.transfers_at_once;
        let mut uploaded = pin!(put_as_ready(objects, keys, ready, at_once));
        let cuts = parts.cuts();
        let computed = {
            let computed = pin!(replica.gradient_in_parts(world, batch, &cuts, send));
            match select(computed, uploaded.as_mut()).await {
                Either::Left((gradient, _)) => Either::Left(gradient?),
                Either::Right((uploaded, computed)) => {
                    uploaded?;
                    Either::Right(computed.await?)
                }
            }
        };
        world.enter(Stage::Put);
        match computed {
            Either::Left(gradient) => uploaded.await.map(|()| gradient),
            Either::Right(gradient) => Ok(gradient),
        }
    }

    async fn exchange(
        &mut self,
        world: &mut World,
        gradient: Vector,
        at: Iteration,
    ) -> Result<Vector> {
        let objects = world.exchange.objects.clone();
        let (rank, workers) = (world.rank(), world.workers());
        // One worker alone has nobody to exchange with.
        if workers == 1 {
            return Ok(gradient);
        }
        let parts = Parts::new(self.settings.parts, gradient.len());
        // Put the gradient, unless its parts were put while it was computed.
        if !self.settings.uploads_while_computing {
            world.enter(Stage::Serialise);
            let bodies = parts.encode(&key(world, rank, at), &gradient)?;
            world.enter(Stage::Put);
            let puts = bodies
                .into_iter()
                .map(|(key, body)| put(&objects, BUCKET, key, body));
            at_once(self.settings.transfers_at_once, puts).await?;
        }
        // Get the others' gradients.
        let others = (0..workers).filter(|other| *other != rank);
        let keys: Vec<String> = others
            .flat_map(|other| parts.keys(&key(world, other, at)))
            .collect();
        let options = PollOptions {
            interval: Duration::from_millis(self.settings.poll_ms),
            limit: self.settings.timeout_s.map(Duration::from_secs),
            at_once: self.settings.transfers_at_once,
        };
        let bodies = world.await_gradients(BUCKET, keys, options).await?;
        world.enter(Stage::Serialise);
        let mut gradients = parts.decode(bodies)?;
        gradients.insert(rank, gradient);
        // Everyone who put a gradient of this step has read those of the one before.
        let previous = at.previous(world.task.job.batches_per_worker);
        if let (true, Some(previous)) = (self.settings.delete_previous, previous) {
            world.enter(Stage::Put);
            let keys: Vec<String> = parts.keys(&key(world, rank, previous)).collect();
            delete_keys(&objects, BUCKET, &keys).await?;
        }
        world.enter(Stage::Aggregate);
        Vector::mean(&gradients)
    }
}

/// The published script: workers played one after another in one process.
async fn train_single_process(world: &mut World, settings: &Settings) -> Result<Outcome> {
    let objects = world.exchange.objects.clone();
    let job = world.task.job.clone();
    let mut replica = Replica::initial(world, settings.seeded_replicas).await?;
    let shard = Shard::fetch(world, DataLayout::Whole).await?;
    let mut monitor = Monitor::new(&job);
    for epoch in 0..job.epochs {
        let order = shard.batches(world, 0, epoch, job.workers);
        for batch in 0..job.batches_per_worker {
            let at = Iteration { epoch, batch };
            world.at(epoch, Some(batch));
            // Play the workers one after another: each computes and puts its gradient.
            let mut losses = Vec::with_capacity(job.workers);
            for rank in 0..job.workers {
                world.enter(Stage::FetchDataset);
                let records = shard.batch(&order, batch * job.workers + rank)?;
                world.enter(Stage::ComputeGradients);
                let statistics = &mut replica.statistics.clone();
                let computing = world
                    .compute
                    .gradient(&replica.parameters, statistics, &records);
                let output = computing.await?;
                losses.extend(output.loss);
                world.enter(Stage::Serialise);
                let body = output.gradient.encode();
                world.enter(Stage::Put);
                objects.put(BUCKET, &key(world, rank, at), body).await?;
            }
            // Get all gradients, and step with their mean.
            let mut gradients = Vec::with_capacity(job.workers);
            for rank in 0..job.workers {
                world.enter(Stage::Get);
                let key = key(world, rank, at);
                let gone = || SystemError::data(&key, "the gradient that was just put is gone");
                let body = objects.get(BUCKET, &key).await?.ok_or_else(gone)?;
                world.enter(Stage::Serialise);
                gradients.push(Vector::decode(&body)?);
            }
            world.enter(Stage::Aggregate);
            let mean = Vector::mean(&gradients)?;
            world.enter(Stage::UpdateModel);
            replica.update(&mean)?;
            world.note_parameters(&replica.parameters);
            world.note_losses(&losses);
            // Evaluate after the last mini-batch of an epoch.
            world.enter(Stage::DetectConvergence);
            if batch + 1 == job.batches_per_worker && job.evaluates_after(epoch) {
                follow_alone(world, &mut monitor, &mut replica, epoch).await?;
            }
            world.end_step();
        }
        if monitor.as_ref().is_some_and(|monitor| monitor.is_over) {
            break;
        }
    }
    Ok(Outcome::Finished)
}

#[async_trait]
impl TrainingSystem for GpuBaseline {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "Data-parallel GPU instances exchanging gradients through the object store (Barrak et al. 2025)";
        Names::new(NAME, "GPU baseline", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            device: Device::Cuda,
            ..Deployment::new(&INSTANCES)
        }
    }

    fn defaults(&self, fidelity: Fidelity) -> Settings {
        let code = fidelity == Fidelity::Code;
        let tuned = fidelity == Fidelity::Tuned;
        Settings {
            single_process: code,
            seeded_replicas: true,
            delete_previous: !code,
            poll_ms: 100,
            timeout_s: None,
            reduce_on_plateau: None,
            early_stopping: None,
            parts: if tuned { 4 } else { 1 },
            transfers_at_once: if tuned { TRANSFERS_AT_ONCE } else { 1 },
            uploads_while_computing: tuned,
        }
    }

    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec {
        match fidelity {
            Fidelity::Paper | Fidelity::Tuned => published_sgd(),
            Fidelity::Code => sgd(0.01, 0.9, 0.0),
        }
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        if settings.single_process {
            return train_single_process(world, &settings).await;
        }
        let options = LoopOptions {
            seeded_replicas: settings.seeded_replicas,
            ..LoopOptions::default()
        };
        synchronous::train(world, &mut AllToAll { settings }, options).await
    }
}

impl BoundSystem for Bound<'_, GpuBaseline> {
    fn data_layout(&self) -> DataLayout {
        DataLayout::shuffled(self.settings.single_process)
    }

    fn launch(&self) -> Launch {
        let played = self.settings.single_process;
        let processes = if played { 1 } else { self.job.workers };
        Launch::Workers((0..processes).map(|rank| (FUNCTION, rank)).collect())
    }

    fn closed_form(&self, job: &Job, sizes: Sizes, _: Steps<'_>) -> Result<Traffic> {
        if job.workers == 1 && !self.settings.single_process {
            return Ok(Traffic::default());
        }
        let workers = job.workers as u64;
        let steps = (job.epochs * job.batches_per_worker) as u64;
        let (gets, parts) = if self.settings.single_process {
            (workers, 1)
        } else {
            let parts = Parts::new(self.settings.parts, sizes.parameters);
            (workers * (workers - 1), parts.count() as u64)
        };
        Ok(Traffic {
            puts: steps * workers * parts,
            gets: steps * gets * parts,
            bytes_up: steps * workers * sizes.gradient_bytes(),
            bytes_down: steps * gets * sizes.gradient_bytes(),
            ..Traffic::default()
        })
    }

    /// A replica's parameters and momentum, all gradients and their mean.
    fn resident_vectors(&self, _function: &str, _rank: usize) -> usize {
        self.job.workers + 3
    }

    fn symmetry(&self) -> Symmetry {
        if self.settings.single_process {
            return Symmetry::Everyone;
        }
        Symmetry::Alike(Alike {
            objects: &["_worker_{from}.pt", "_worker_{from}.pt.{n}"],
            drawn: true,
            ..Alike::default()
        })
    }

    fn replicas(&self) -> Replicas {
        synchronous::replicas(self.settings.seeded_replicas)
    }
}
