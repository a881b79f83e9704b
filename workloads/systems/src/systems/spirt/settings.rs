use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::robust::{Robust, RobustAt};
use super::signatures::Signatures;
use crate::mechanics::batch_norm::BatchNorm;
use crate::mechanics::transfers::TRANSFERS_AT_ONCE;
use crate::{EarlyStopping, FanOut, Fidelity, Job, ReduceOnPlateau, Task};

/// Format of a mini-batch's gradient in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GradientFormat {
    /// Little-endian f32, 4 bytes per parameter.
    Binary,
    /// JSON text of a list of numbers, 21 to 24 bytes per parameter, as published.
    Json,
}

/// Place where the gradients of an epoch are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Averaging {
    /// The store. With `gradient_format: json` it returns the average as text,
    /// and the function sets it back, as published: gradients are then items of
    /// one list, added up in f64 in the order in which they came.
    InStore,
    /// The function: fetch all, average, set (the paper's naive arm).
    Fetch,
    /// The store, as they come: each is added to one sum, in the order of
    /// arrival, so that nothing is left to do when the last is there. Last bits
    /// may differ from run to run, never from peer to peer. Needs
    /// `gradient_format: binary`.
    OnArrival,
}

/// Place where the SGD step is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// The store.
    InStore,
    /// The function: fetch parameters and gradient, step, set (the paper's
    /// naive arm). Bit-identical to the step in the store.
    Fetch,
}

/// Queue in which peers announce that their gradients are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncQueue {
    /// A queue of the round (an epoch, by default), purged one round later, when all have left it.
    PerEpoch,
    /// One queue for all epochs, purged by rank 0 after its settling time, as
    /// published. A peer that has not seen the queue full by then waits for
    /// ever, and so does everyone if a token of the next epoch is purged.
    Shared,
}

/// Service of the barrier's queue, by which it is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Broker {
    /// A RabbitMQ broker, paid by the hour (comparison paper, section 3.3).
    RabbitMq,
    /// SQS, paid by the request, as published.
    Sqs,
}

/// Number of messages that opens the barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Barrier {
    /// W or more: a function that the platform ran twice does no harm.
    AtLeast,
    /// W exactly, as published: one message too many, and it never opens.
    Exactly,
}

/// Way in which a peer learns that all have announced themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BarrierBy {
    /// Polls of the number of messages in the queue.
    Poll,
    /// Messages: every peer sends its message to a queue of each other peer.
    Push,
}

/// Order in which a peer reads the averages of all peers. Their mean is taken in rank
/// order in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadingOrder {
    /// By rank: all peers read the store of peer 0 first. The published functions
    /// go through a stored list of trusted peers, in which each stands where its
    /// message came; the published version over S3 goes through a listing, in the
    /// order of keys, which is that of ranks. The paper names no order.
    Rank,
    /// From the next peer on, the own store last: no two peers that begin together
    /// read the same store.
    Neighbour,
}

/// Peers that join while the others train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Joins {
    /// Number of these peers, which have the highest ranks.
    #[schemars(range(min = 1, max = 100_000))]
    pub peers: usize,
    /// Their first epoch, from 0.
    #[schemars(range(min = 0, max = 100_000))]
    pub epoch: usize,
}

/// SPIRT's settings: every difference between paper and published code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Kind of state that starts the gradient functions: a branch for each in the
    /// published state machine.
    pub fan_out: FanOut,
    /// Format of gradients in the store.
    pub gradient_format: GradientFormat,
    /// Place where they are averaged.
    pub averaging: Averaging,
    /// Place of the model's update. The published update does nothing; under `code`
    /// it is the naive one.
    pub update: Update,
    /// Whether all peers start from the same parameters.
    pub seeded_replicas: bool,
    /// Batch-norm statistics that are kept.
    pub batch_norm: BatchNorm,
    /// Way in which a peer learns that the barrier is open; the other settings of the barrier are of
    /// `poll`.
    pub barrier_by: BarrierBy,
    /// Queue of the barrier.
    pub sync_queue: SyncQueue,
    /// Number of messages that opens the barrier.
    pub barrier: Barrier,
    /// Milliseconds between polls of the queue; 0 polls without pause, as
    /// published. The paper names none; ours is 100.
    #[schemars(range(max = 3_600_000))]
    pub poll_interval_ms: u64,
    /// Milliseconds that a peer sleeps behind the open barrier, with `poll`.
    #[schemars(range(max = 3_600_000))]
    pub settle_ms: u64,
    /// Order in which the averages of peers are read.
    pub reading_order: ReadingOrder,
    /// Whether the averages of past epochs stay in the stores, as published.
    pub keeps_averages: bool,
    /// Number of requests of one function under way at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub transfers_at_once: usize,
    /// Rounds per epoch (R), the paper's gradient accumulation (comparison paper, section
    /// 5): the gradients of an epoch's B mini-batches are accumulated in R parts, each
    /// averaged, exchanged and applied on its own. 1 accumulates all, as published. More
    /// rounds than mini-batches are as many as these.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub rounds_per_epoch: usize,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    pub reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    pub early_stopping: Option<EarlyStopping>,
    /// Rule that takes the place of the mean of all peers' averages. With any but the mean, or mixing,
    /// averages of another length or with values that are not finite are refused with a warning, and
    /// count among the f.
    pub robust: Robust,
    /// Peers whose averages may be anything (f): Krum and Multi-Krum need 2f + 2 < W, the trimmed mean
    /// and mixing 2f < W.
    #[schemars(range(max = 100_000))]
    pub f: usize,
    /// Whether each average is first replaced by the mean of its W − f nearest.
    pub nearest_neighbour_mixing: bool,
    /// Place where a robust rule is computed.
    pub robust_at: RobustAt,
    /// Averages of which Multi-Krum takes the mean (m); null: W − f − 2.
    #[schemars(range(min = 1, max = 100_000))]
    pub multi_krum_kept: Option<usize>,
    /// Iterations of the geometric median.
    #[schemars(range(min = 1, max = 1_000))]
    pub weiszfeld_iterations: usize,
    /// Distance below which weights in the geometric median no longer grow (ν).
    #[schemars(range(min = 0.0, max = 1e9))]
    pub weiszfeld_smoothing: f32,
    /// Length at which centred clipping cuts differences from the last round's aggregate off (τ).
    #[schemars(range(min = 0.0, max = 1e9))]
    pub clipping_radius: f32,
    /// Iterations of centred clipping per round.
    #[schemars(range(min = 1, max = 1_000))]
    pub clipping_iterations: usize,
    /// Momentum β that each peer applies to its average m before it shares it:
    /// m ← β·m + (1 − β)·average. 0: none, as published. Below 1; not with `on_arrival`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub worker_momentum: f64,
    /// Whether a peer without a heartbeat is voted out instead of ending the trial; takes the place of
    /// `barrier_by`, `barrier` and `sync_queue`. Not on AWS yet.
    pub membership: bool,
    /// With `membership`: whether a peer that was voted out is called again at the end of the epoch, and
    /// rejoins with a living peer's model in the next.
    pub rejoin: bool,
    /// With `membership`: peers that join while the others train; null: none. Not on AWS.
    pub joins: Option<Joins>,
    /// Service of the barrier's queue.
    pub broker: Broker,
    /// Whether peers sign their averages (Ed25519 over peer, epoch, round and SHA-256 digest), and what
    /// follows from one that is not signed by the key trusted at the start.
    pub signatures: Signatures,
    /// Milliseconds without a heartbeat after which a member is suspected.
    #[schemars(range(max = 3_600_000))]
    pub heartbeat_timeout_ms: u64,
}

impl Settings {
    /// The settings of a fidelity.
    pub fn new(fidelity: Fidelity) -> Self {
        match fidelity {
            Fidelity::Paper => Self {
                fan_out: FanOut::Parallel,
                gradient_format: GradientFormat::Binary,
                averaging: Averaging::InStore,
                update: Update::InStore,
                seeded_replicas: true,
                batch_norm: BatchNorm::FirstBatch,
                barrier_by: BarrierBy::Poll,
                sync_queue: SyncQueue::PerEpoch,
                barrier: Barrier::AtLeast,
                poll_interval_ms: 100,
                settle_ms: 0,
                reading_order: ReadingOrder::Rank,
                keeps_averages: false,
                transfers_at_once: 1,
                rounds_per_epoch: 1,
                reduce_on_plateau: None,
                early_stopping: None,
                robust: Robust::Mean,
                f: 0,
                nearest_neighbour_mixing: false,
                robust_at: RobustAt::Store,
                multi_krum_kept: None,
                // The public runs of Karimireddy et al. (2021) and of Pillutla et al.
                weiszfeld_iterations: 3,
                weiszfeld_smoothing: 0.1,
                // The public runs of Karimireddy et al. (2021).
                clipping_radius: 100.0,
                clipping_iterations: 1,
                worker_momentum: 0.0,
                membership: false,
                rejoin: false,
                joins: None,
                broker: Broker::RabbitMq,
                signatures: Signatures::None,
                // No publication names a time-out; this is several times a mini-batch of the papers'
                // models.
                heartbeat_timeout_ms: 30_000,
            },
            Fidelity::Code => Self {
                broker: Broker::Sqs,
                gradient_format: GradientFormat::Json,
                update: Update::Fetch,
                seeded_replicas: false,
                batch_norm: BatchNorm::Fresh,
                sync_queue: SyncQueue::Shared,
                barrier: Barrier::Exactly,
                poll_interval_ms: 0,
                settle_ms: 5_000,
                keeps_averages: true,
                ..Self::new(Fidelity::Paper)
            },
            Fidelity::Tuned => Self {
                broker: Broker::Sqs,
                averaging: Averaging::OnArrival,
                barrier_by: BarrierBy::Push,
                reading_order: ReadingOrder::Neighbour,
                transfers_at_once: TRANSFERS_AT_ONCE,
                ..Self::new(Fidelity::Paper)
            },
        }
    }

    /// Rounds of an epoch of `job`, no more than it has mini-batches.
    pub(super) fn rounds(&self, job: &Job) -> usize {
        self.rounds_per_epoch.min(job.batches_per_worker).max(1)
    }

    /// Returns the number of peers that train from the first epoch on.
    pub(super) fn first_peers(&self, workers: usize) -> usize {
        workers.saturating_sub(self.joins.map_or(0, |joins| joins.peers))
    }

    /// Returns the peers that join in `epoch`.
    pub(super) fn joining(&self, epoch: usize, workers: usize) -> Range<usize> {
        match self.joins {
            Some(joins) if joins.epoch == epoch => self.first_peers(workers)..workers,
            _ => workers..workers,
        }
    }

    /// Returns the numbers of peers that a job has one after the other, each with its epochs, while
    /// nobody fails.
    pub(super) fn phases(&self, job: &Job) -> Vec<(usize, usize)> {
        match self.joins {
            None => vec![(job.workers, job.epochs)],
            Some(joins) => vec![
                (self.first_peers(job.workers), joins.epoch),
                (job.workers, job.epochs.saturating_sub(joins.epoch)),
            ],
        }
    }

    /// Number of the task's round, counted from the first epoch's first.
    pub(super) fn round_number(&self, task: &Task) -> usize {
        task.epoch * self.rounds(&task.job) + task.round
    }

    /// Whether gradients are items of one list, which only the store can average.
    pub(super) fn uses_list(&self) -> bool {
        self.gradient_format == GradientFormat::Json && self.averaging == Averaging::InStore
    }
}
