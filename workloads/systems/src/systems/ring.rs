//! Ring: instances that exchange gradients with their neighbours over the network, by the
//! all-reduce that moves the fewest bytes (Patarasuk and Yuan 2009, "Bandwidth optimal
//! all-reduce algorithms for clusters of workstations"), as NCCL does between machines.
//!
//! Of the paper the abstract alone was read here; its steps are named without a section:
//!
//! 0. Once: every worker listens, leaves its address in the object store, and connects to
//!    the next worker, the first for the last (here).
//! 1. Compute the gradient of a mini-batch (here), and cut it into W chunks (the paper).
//! 2. Reduce-scatter, W − 1 rounds: send a chunk to the next worker while the chunk before
//!    comes from the worker before, and add the own one to it. Then every worker holds one
//!    chunk of the sum (the paper).
//! 3. All-gather, W − 1 rounds: send the finished chunk on, and take the one before (the paper).
//! 4. Divide by W and step (here).
//!
//! Traffic per step and worker: 2(W − 1) messages each way, and all chunks but one, twice:
//! 2(W − 1)/W · P bytes each way where W divides the number of parameters; over all workers,
//! 2(W − 1)·P bytes exactly, with chunks of unequal length, too.
//!
//! # Order of addition
//!
//! Chunk c is summed in the order of the ring from worker c on: c, c + 1, …, c − 1. All
//! replicas step with the same bits. Other systems add in rank order, from worker 0 on, so
//! that the last bits of a mean differ from theirs; the rule of rank order holds where the
//! order could depend on time, and here it cannot.
//!
//! All fidelities are the same: no publication of those compared describes it.
//!
//! # Objects and keys
//!
//! Bucket `ring`, key `address_{rank}` (state) holds the address at which a worker listens:
//! `HOST:PORT/WORD`, a random word of 32 hexadecimal digits. A connection begins with the word's 16
//! bytes and the sender's rank (u32), and carries messages: length (u64), then a chunk of a vector,
//! metered as messages and deliveries of the queue.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use epochcost_channels::{Payload, Traffic};
use epochcost_kernels::chunk::chunk_range;
use epochcost_kernels::optimizer::OptimizerSpec;
use futures_util::future::try_join;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::arithmetic::beside_model;
use crate::mechanics::polling::Purpose;
use crate::mechanics::published::published_sgd;
use crate::mechanics::synchronous::{self, Exchange, INSTANCES, Iteration, LoopOptions};
use crate::{
    Alike, Bound, BoundSystem, Deployment, Device, EarlyStopping, Fidelity, Job, Names, Outcome,
    QueueService, ReduceOnPlateau, Replicas, Result, Sizes, Stage, Steps, Symmetry, SystemError,
    TrainingSystem, Vector, World,
};

const NAME: &str = "ring";
const BUCKET: &str = "ring";

/// No publication describes another one: there is no difference to set.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Pause between two gets of the next worker's address, ms.
    #[schemars(range(max = 3_600_000))]
    poll_ms: u64,
    /// Time limit of the wait for an address, s; null: none.
    #[schemars(range(min = 1, max = 86_400))]
    timeout_s: Option<u64>,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    early_stopping: Option<EarlyStopping>,
}

/// The ring all-reduce between instances.
pub(crate) struct Ring;

struct Neighbours {
    settings: Settings,
    is_connected: bool,
}

impl Neighbours {
    /// Makes this worker reachable, and connects to the next one.
    async fn connect(&mut self, world: &mut World) -> Result<()> {
        let (rank, workers) = (world.rank(), world.workers());
        let links = world.exchange.links.clone();
        world.enter(Stage::Put);
        let own = links.listen(rank).await?;
        let objects = world.state.objects.clone();
        let own = Payload::from(Bytes::from(own));
        objects.put(BUCKET, &address_key(rank), own).await?;
        let next = (rank + 1) % workers;
        let waiting = world.waiting(
            "address",
            Duration::from_millis(self.settings.poll_ms),
            self.settings.timeout_s.map(Duration::from_secs),
        );
        let key = address_key(next);
        let address = world
            .await_object(Purpose::State, BUCKET, &key, waiting)
            .await?;
        let address = String::from_utf8_lossy(address.bytes()?).into_owned();
        links.connect(rank, next, &address).await?;
        self.is_connected = true;
        Ok(())
    }
}

fn address_key(rank: usize) -> String {
    format!("address_{rank}")
}

/// Sends a chunk to the next worker while one comes from the worker before.
async fn pass(world: &mut World, chunk: &Vector) -> Result<Vector> {
    let (rank, workers) = (world.rank(), world.workers());
    let links = world.exchange.links.clone();
    let (next, before) = ((rank + 1) % workers, (rank + workers - 1) % workers);
    world.enter(Stage::Serialise);
    let body = chunk.encode();
    world.enter(Stage::Put);
    let sent = async { Ok::<_, SystemError>(links.send(rank, next, body).await?) };
    let received = async { Ok::<_, SystemError>(links.receive(rank, before).await?) };
    let ((), body) = try_join(sent, received).await?;
    world.enter(Stage::Serialise);
    Vector::decode(&body)
}

#[async_trait]
impl Exchange for Neighbours {
    async fn exchange(
        &mut self,
        world: &mut World,
        gradient: Vector,
        _at: Iteration,
    ) -> Result<Vector> {
        let (rank, workers) = (world.rank(), world.workers());
        if workers == 1 {
            return Ok(gradient);
        }
        if !self.is_connected {
            self.connect(world).await?;
        }
        let cut = |index| gradient.slice(chunk_range(gradient.len(), workers, index));
        let chunks: Result<Vec<Vector>> = (0..workers).map(cut).collect();
        let mut chunks = chunks?;
        // A chunk without values has the length of its place, whoever's it stands for.
        let placed = |chunk: Vector, place| match chunk.real() {
            Some(_) => Ok(chunk),
            None => cut(place),
        };
        // Reduce-scatter: what comes is the sum of those before, to which this worker adds.
        for round in 0..workers - 1 {
            let mine = (rank + workers - round) % workers;
            let theirs = (mine + workers - 1) % workers;
            let mut sum = placed(pass(world, &chunks[mine]).await?, theirs)?;
            world.enter(Stage::Aggregate);
            beside_model(|| sum.add(&chunks[theirs]))?;
            chunks[theirs] = sum;
        }
        // The chunk that ends here has been everywhere.
        let finished = (rank + 1) % workers;
        beside_model(|| chunks[finished].divide(workers as f32));
        // All-gather: finished chunks go round.
        for round in 0..workers - 1 {
            let mine = (finished + workers - round) % workers;
            let theirs = (mine + workers - 1) % workers;
            chunks[theirs] = placed(pass(world, &chunks[mine]).await?, theirs)?;
        }
        world.enter(Stage::Aggregate);
        Ok(beside_model(|| Vector::concat(&chunks)))
    }
}

#[async_trait]
impl TrainingSystem for Ring {
    type Settings = Settings;

    fn names(&self) -> Names {
        let about = "Data-parallel instances in a ring over TCP, by the all-reduce of fewest bytes (Patarasuk and Yuan 2009)";
        Names::new(NAME, "Ring", about)
    }

    fn deployment(&self) -> Deployment {
        Deployment {
            device: Device::Cuda,
            // Messages between its own processes, which nobody charges for.
            queue_service: QueueService::Http,
            has_links: true,
            ..Deployment::new(&INSTANCES)
        }
    }

    fn defaults(&self, _fidelity: Fidelity) -> Settings {
        Settings {
            poll_ms: 100,
            timeout_s: None,
            reduce_on_plateau: None,
            early_stopping: None,
        }
    }

    fn optimizer(&self, _fidelity: Fidelity) -> OptimizerSpec {
        published_sgd()
    }

    async fn run(&self, world: &mut World, settings: Settings) -> Result<Outcome> {
        let mut neighbours = Neighbours {
            settings,
            is_connected: false,
        };
        synchronous::train(world, &mut neighbours, LoopOptions::default()).await
    }
}

impl BoundSystem for Bound<'_, Ring> {
    fn closed_form(&self, job: &Job, sizes: Sizes, _: Steps<'_>) -> Result<Traffic> {
        let workers = job.workers as u64;
        let steps = (job.epochs * job.batches_per_worker) as u64;
        let rounds = 2 * (workers - 1);
        Ok(Traffic {
            messages: steps * workers * rounds,
            deliveries: steps * workers * rounds,
            bytes_up: steps * rounds * sizes.gradient_bytes(),
            bytes_down: steps * rounds * sizes.gradient_bytes(),
            ..Traffic::default()
        })
    }

    /// Parameters and momentum, the gradient, its chunks, and the two that are on their way.
    fn resident_vectors(&self, _function: &str, _rank: usize) -> usize {
        5
    }

    /// A late worker delays all others, round after round, and not only those that read from it:
    /// with draws, every worker is simulated.
    fn symmetry(&self) -> Symmetry {
        Symmetry::Alike(Alike {
            objects: &["address_{from}"],
            ..Alike::default()
        })
    }

    fn replicas(&self) -> Replicas {
        Replicas::Identical
    }
}
