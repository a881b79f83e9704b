//! The GPU baseline: instances that exchange gradients through the object store.
//!
//! `paper` follows Barrak et al. 2025, §3: W instances; each puts its gradient
//! in a shared bucket, gets the others', averages and updates. Traffic a step:
//! W puts, W(W − 1) gets and W²·P bytes.
//!
//! `code` follows the published script: one process on one instance that plays
//! W workers one after another. Each computes its gradient at the same
//! parameters and puts it; then the process gets all W, its own included, and
//! takes the mean. Nothing is deleted, and the batch-norm statistics of the
//! played workers are thrown away. Traffic a step: W puts, W gets, 2W·P bytes.

use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::{OptimizerSpec, Sgd};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::allreduce::published_sgd;
use crate::data::Shard;
use crate::synchronous::{self, Exchange, FUNCTION, Iteration, LoopOptions, Replica};
use crate::waiting::Place;
use crate::{
    DataLayout, Device, Fidelity, Host, Job, Launch, Outcome, Replicas, Result, SettingsError, Sizes,
    Stage, System, SystemError, Vector, World, settings,
};

const NAME: &str = "gpu_baseline";
const BUCKET: &str = "gradients";

/// The named differences between paper and code.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Whether one process plays all workers.
    single_process: bool,
    /// Whether all replicas start from the same parameters.
    seeded_replicas: bool,
    /// Whether a worker deletes its gradient of the step before.
    delete_previous: bool,
    /// Pause between two gets of another worker's gradient, ms.
    poll_ms: u64,
    /// For how long a gradient is awaited, s; null: for ever.
    timeout_s: Option<u64>,
}

impl Settings {
    fn of(fidelity: Fidelity) -> Self {
        let code = fidelity == Fidelity::Code;
        Self {
            single_process: code,
            seeded_replicas: true,
            delete_previous: !code,
            poll_ms: 100,
            timeout_s: None,
        }
    }
}

/// The GPU baseline.
pub(crate) struct GpuBaseline;

/// `gradients/minibatch_{k}_worker_{w}.pt`, k counting over all epochs.
fn key(world: &World, rank: usize, at: Iteration) -> String {
    let step = at.epoch * world.task.job.batches_per_worker + at.batch;
    format!("minibatch_{step}_worker_{rank}.pt")
}

fn previous(world: &World, at: Iteration) -> Option<Iteration> {
    match (at.epoch, at.batch) {
        (0, 0) => None,
        (epoch, 0) => Some(Iteration {
            epoch: epoch - 1,
            batch: world.task.job.batches_per_worker - 1,
        }),
        (epoch, batch) => Some(Iteration {
            epoch,
            batch: batch - 1,
        }),
    }
}

struct AllToAll {
    settings: Settings,
}

#[async_trait]
impl Exchange for AllToAll {
    async fn exchange(
        &mut self,
        world: &mut World,
        gradient: Vector,
        at: Iteration,
    ) -> Result<Vector> {
        let objects = world.exchange.objects.clone();
        let (rank, workers) = (world.rank(), world.workers());
        world.enter(Stage::Serialise);
        let body = gradient.encode();
        world.enter(Stage::Put);
        objects.put(BUCKET, &key(world, rank, at), body).await?;
        let mut own = Some(gradient);
        let mut gradients = Vec::with_capacity(workers);
        for other in 0..workers {
            match own.take_if(|_| other == rank) {
                Some(gradient) => gradients.push(gradient),
                None => gradients.push(self.get(world, other, at).await?),
            }
        }
        // Everyone who put a gradient of this step has read those of the one before.
        if let (true, Some(previous)) = (self.settings.delete_previous, previous(world, at)) {
            world.enter(Stage::Put);
            objects
                .delete(BUCKET, &[key(world, rank, previous)])
                .await?;
        }
        world.enter(Stage::Aggregate);
        Vector::mean(&gradients)
    }
}

impl AllToAll {
    async fn get(&self, world: &mut World, rank: usize, at: Iteration) -> Result<Vector> {
        let key = key(world, rank, at);
        let waiting = world.waiting(
            format!("gradient {key}"),
            Duration::from_millis(self.settings.poll_ms),
            self.settings.timeout_s.map(Duration::from_secs),
        );
        let body = world
            .await_object(Place::Exchange, BUCKET, &key, waiting)
            .await?;
        world.enter(Stage::Serialise);
        Vector::decode(&body)
    }
}

/// The published script: workers played one after another in one process.
async fn train_single_process(world: &mut World, settings: &Settings) -> Result<Outcome> {
    let objects = world.exchange.objects.clone();
    let job = world.task.job.clone();
    let mut replica = Replica::initial(world, settings.seeded_replicas).await?;
    let shard = Shard::fetch(world, DataLayout::Whole).await?;
    for epoch in 0..job.epochs {
        let order = shard.batches(world, job.seed, 0, epoch);
        for batch in 0..job.batches_per_worker {
            let at = Iteration { epoch, batch };
            world.at(epoch, Some(batch));
            let mut losses = Vec::with_capacity(job.workers);
            for rank in 0..job.workers {
                world.enter(Stage::FetchDataset);
                let records = shard.batch(&order, batch * job.workers + rank)?;
                world.enter(Stage::ComputeGradients);
                let output = world
                    .compute
                    .gradient(
                        &replica.parameters,
                        &mut replica.statistics.clone(),
                        &records,
                    )
                    .await?;
                losses.extend(output.loss);
                world.enter(Stage::Serialise);
                let body = output.gradient.encode();
                world.enter(Stage::Put);
                objects.put(BUCKET, &key(world, rank, at), body).await?;
            }
            let mut gradients = Vec::with_capacity(job.workers);
            for rank in 0..job.workers {
                world.enter(Stage::Get);
                let key = key(world, rank, at);
                let body = objects
                    .get(BUCKET, &key)
                    .await?
                    .ok_or_else(|| SystemError::Data {
                        key,
                        reason: "the gradient that was just put is gone".into(),
                    })?;
                world.enter(Stage::Serialise);
                gradients.push(Vector::decode(&body)?);
            }
            world.enter(Stage::Aggregate);
            let mean = Vector::mean(&gradients)?;
            world.enter(Stage::UpdateModel);
            replica.update(&mean)?;
            world.note_parameters(&replica.parameters);
            world.note_loss(mean_loss(&losses));
            world.enter(Stage::DetectConvergence);
            if batch + 1 == job.batches_per_worker && job.evaluates_after(epoch) {
                replica.evaluate(world, epoch).await?;
            }
            world.end_step();
        }
    }
    Ok(Outcome::Finished)
}

fn mean_loss(losses: &[f64]) -> Option<f64> {
    (!losses.is_empty()).then(|| losses.iter().sum::<f64>() / losses.len() as f64)
}

#[async_trait]
impl System for GpuBaseline {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "GPU baseline"
    }

    fn about(&self) -> &'static str {
        "Data-parallel GPU instances exchanging gradients through the object store (Barrak et al. 2025)"
    }

    fn host_of(&self, _: &str) -> Host {
        Host::Instance
    }

    fn settings(
        &self,
        fidelity: Fidelity,
        overrides: &Map<String, Value>,
    ) -> Result<Value, SettingsError> {
        settings::resolve(NAME, &Settings::of(fidelity), overrides)
    }

    fn optimizer(&self, fidelity: Fidelity) -> OptimizerSpec {
        match fidelity {
            Fidelity::Paper | Fidelity::Tuned => published_sgd(),
            Fidelity::Code => OptimizerSpec::Sgd(Sgd {
                learning_rate: 0.01,
                momentum: 0.9,
                weight_decay: 0.0,
            }),
        }
    }

    fn data_layout(&self, job: &Job) -> Result<DataLayout> {
        let settings: Settings = settings::parse(NAME, &job.settings)?;
        Ok(if settings.single_process {
            DataLayout::Whole
        } else {
            DataLayout::Shards
        })
    }

    fn functions(&self) -> &'static [&'static str] {
        &[FUNCTION]
    }

    fn device(&self) -> Device {
        Device::Cuda
    }

    fn launch(&self, job: &Job) -> Result<Launch> {
        let settings: Settings = settings::parse(NAME, &job.settings)?;
        let processes = if settings.single_process {
            1
        } else {
            job.workers
        };
        Ok(Launch::Workers(
            (0..processes).map(|rank| (FUNCTION, rank)).collect(),
        ))
    }

    fn traffic(&self, job: &Job, sizes: Sizes) -> Result<Traffic> {
        let settings: Settings = settings::parse(NAME, &job.settings)?;
        let workers = job.workers as u64;
        let steps = (job.epochs * job.batches_per_worker) as u64;
        let gets = if settings.single_process {
            workers
        } else {
            workers * (workers - 1)
        };
        Ok(Traffic {
            puts: steps * workers,
            gets: steps * gets,
            bytes_up: steps * workers * sizes.gradient_bytes(),
            bytes_down: steps * gets * sizes.gradient_bytes(),
            ..Traffic::default()
        })
    }

    /// A replica's parameters and momentum, all gradients and their mean.
    fn resident_vectors(&self, job: &Job, _function: &str, _rank: usize) -> Result<usize> {
        Ok(job.workers + 3)
    }

    fn replicas(&self, job: &Job) -> Result<Replicas> {
        let settings: Settings = settings::parse(NAME, &job.settings)?;
        Ok(synchronous::replicas(settings.seeded_replicas))
    }

    async fn run(&self, world: &mut World) -> Result<Outcome> {
        synchronous::expect_function(world, NAME)?;
        let settings: Settings = world.settings(NAME)?;
        if settings.single_process {
            return train_single_process(world, &settings).await;
        }
        let options = LoopOptions {
            layout: DataLayout::Shards,
            seeded_replicas: settings.seeded_replicas,
            rewrites_log: false,
            epochs_per_invocation: None,
        };
        synchronous::train(world, &mut AllToAll { settings }, options).await
    }
}
