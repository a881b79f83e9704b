use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanics::compression::{Compression, Method, Norm};
use crate::mechanics::p2p::{Barrier, BarrierAt, Mode, PeerQueue, SyncQueue, Validation};
use crate::mechanics::transfers::TRANSFERS_AT_ONCE;
use crate::{EarlyStopping, Fidelity, ReduceOnPlateau};

/// P2P's settings: every difference between paper and published code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Whether peers wait for each other.
    pub mode: Mode,
    /// Whether all peers start from the same parameters.
    pub seeded_replicas: bool,
    /// Encoding of gradients.
    pub compression: Method,
    /// Levels of QSGD above zero, 1 to 32,767.
    #[schemars(range(min = 1, max = 32_767))]
    pub qsgd_levels: u32,
    /// The norm of QSGD.
    pub qsgd_norm: Norm,
    /// Elements that share one norm; null: all.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub qsgd_bucket: Option<usize>,
    /// The share of elements that top-k sends.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub top_k_fraction: f64,
    /// Queue of a peer's gradient. Asynchronous peers have one each.
    pub peer_queue: PeerQueue,
    /// Gradients of other peers with which a peer goes on, as in the paper's section III-B3, which
    /// does not give the number; null: all.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub threshold: Option<usize>,
    /// Whether a peer's own gradient is part of its mean, as in the paper's Algorithm 1; section
    /// III-B3 averages those received.
    pub averages_own: bool,
    /// Bytes of the largest message that the broker takes; a larger gradient
    /// goes into the object store, and its key into the queue. Null sends all
    /// through the broker.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub message_limit_bytes: Option<u64>,
    /// Whether every poll fetches the gradients that a peer already has once
    /// more, as published.
    pub downloads_again: bool,
    /// Milliseconds between two polls of the other peers' queues.
    #[schemars(range(max = 3_600_000))]
    pub poll_ms: u64,
    /// Whether a peer sleeps that long after the last poll, too, as published.
    pub sleeps_after_last_look: bool,
    /// Barrier of an epoch. Asynchronous peers have none.
    pub barrier: Barrier,
    /// Its place.
    pub barrier_at: BarrierAt,
    /// Queue of its tokens.
    pub sync_queue: SyncQueue,
    /// Milliseconds before the first poll of the tokens.
    #[schemars(range(max = 3_600_000))]
    pub barrier_before_ms: u64,
    /// Milliseconds between two polls of the tokens.
    #[schemars(range(max = 3_600_000))]
    pub barrier_poll_ms: u64,
    /// Milliseconds behind the open barrier.
    #[schemars(range(max = 3_600_000))]
    pub barrier_settle_ms: u64,
    /// Seconds that a peer waits for the others at most; null: for ever.
    #[schemars(range(min = 1, max = 86_400))]
    pub wait_limit_s: Option<u64>,
    /// Gradients that a peer fetches at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub downloads_at_once: usize,
    /// Whether objects are deleted when all peers have read them.
    pub deletes_objects: bool,
    /// Data on which peers detect convergence.
    pub validation: Validation,
    /// Reduction of the learning rate when the loss no longer falls; null: none.
    pub reduce_on_plateau: Option<ReduceOnPlateau>,
    /// End of training before its last epoch; null: none.
    pub early_stopping: Option<EarlyStopping>,
}

impl Settings {
    /// The settings of a fidelity.
    pub fn new(fidelity: Fidelity) -> Self {
        let paper = Self {
            mode: Mode::Synchronous,
            seeded_replicas: true,
            compression: Method::Qsgd,
            qsgd_levels: Compression::published(Method::Qsgd).levels,
            qsgd_norm: Norm::Max,
            qsgd_bucket: None,
            top_k_fraction: 0.01,
            peer_queue: PeerQueue::PerEpoch,
            threshold: None,
            averages_own: true,
            message_limit_bytes: Some(100_000_000),
            downloads_again: false,
            poll_ms: 100,
            sleeps_after_last_look: false,
            barrier: Barrier::AtLeast,
            barrier_at: BarrierAt::Update,
            sync_queue: SyncQueue::PerEpoch,
            barrier_before_ms: 0,
            barrier_poll_ms: 100,
            barrier_settle_ms: 0,
            wait_limit_s: Some(600),
            downloads_at_once: 1,
            deletes_objects: true,
            validation: Validation::OwnShare,
            reduce_on_plateau: None,
            early_stopping: None,
        };
        match fidelity {
            Fidelity::Paper => paper,
            Fidelity::Code => Self {
                seeded_replicas: false,
                compression: Method::QsgdPublished,
                peer_queue: PeerQueue::Latest,
                message_limit_bytes: None,
                downloads_again: true,
                poll_ms: 2_000,
                sleeps_after_last_look: true,
                barrier: Barrier::Exactly,
                barrier_at: BarrierAt::End,
                sync_queue: SyncQueue::Shared,
                barrier_before_ms: 1_000,
                barrier_poll_ms: 1_000,
                barrier_settle_ms: 3_000,
                wait_limit_s: None,
                deletes_objects: false,
                ..paper
            },
            Fidelity::Tuned => Self {
                poll_ms: 20,
                barrier: Barrier::None,
                downloads_at_once: TRANSFERS_AT_ONCE,
                ..paper
            },
        }
    }

    /// Encoding of gradients.
    pub fn compression(&self) -> Compression {
        Compression {
            method: self.compression,
            levels: self.qsgd_levels,
            norm: self.qsgd_norm,
            bucket: self.qsgd_bucket,
            fraction: self.top_k_fraction,
        }
    }
}
