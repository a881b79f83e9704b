use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mechanics::batch_norm::BatchNorm;
use crate::mechanics::compression::{Compression, Method, Norm};
use crate::mechanics::p2p::{Barrier, Mode, PeerQueue, Validation};
use crate::mechanics::transfers::TRANSFERS_AT_ONCE;
use crate::{EarlyStopping, FanOut, Fidelity, ReduceOnPlateau};

/// The settings of P2P with Lambda: every difference between paper and
/// published code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Whether peers wait for each other; the paper's Algorithm 1 has both.
    pub mode: Mode,
    /// Kind of state that starts the gradient functions: a branch for each in the
    /// paper (section IV-D) and in the published state machine.
    pub fan_out: FanOut,
    /// Whether a peer's parameters are sent to its functions. The published
    /// functions each make a model of their own, at random.
    pub sends_weights: bool,
    /// Whether all peers start from the same parameters.
    pub seeded_replicas: bool,
    /// Batch-norm statistics that outlive a function.
    pub batch_norm: BatchNorm,
    /// Milliseconds between two questions after the state of an execution.
    #[schemars(range(max = 3_600_000))]
    pub status_poll_ms: u64,
    /// Encoding of a peer's mean gradient for the others.
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
    /// through the broker, 0 none, as published.
    #[schemars(range(max = 1_000_000_000_000_u64))]
    pub message_limit_bytes: Option<u64>,
    /// Milliseconds between two polls of the other peers' queues, and of the barrier's.
    #[schemars(range(max = 3_600_000))]
    pub poll_ms: u64,
    /// Barrier before the update; the published code has none, nor have asynchronous peers.
    pub barrier: Barrier,
    /// Whether a peer sleeps that long after the last poll, too, as published.
    pub sleeps_after_last_look: bool,
    /// Seconds that a peer waits for the others at most; null: for ever.
    #[schemars(range(min = 1, max = 86_400))]
    pub wait_limit_s: Option<u64>,
    /// Objects that a peer fetches at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub downloads_at_once: usize,
    /// Whether objects are deleted when all have read them.
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
        let published = Compression::published(Method::None);
        let paper = Self {
            mode: Mode::Synchronous,
            fan_out: FanOut::Parallel,
            sends_weights: true,
            seeded_replicas: true,
            batch_norm: BatchNorm::FirstBatch,
            status_poll_ms: 2_000,
            compression: published.method,
            qsgd_levels: published.levels,
            qsgd_norm: published.norm,
            qsgd_bucket: published.bucket,
            top_k_fraction: published.fraction,
            peer_queue: PeerQueue::PerEpoch,
            threshold: None,
            averages_own: true,
            message_limit_bytes: Some(100_000_000),
            poll_ms: 100,
            barrier: Barrier::AtLeast,
            sleeps_after_last_look: false,
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
                sends_weights: false,
                seeded_replicas: false,
                batch_norm: BatchNorm::Fresh,
                peer_queue: PeerQueue::Latest,
                message_limit_bytes: Some(0),
                poll_ms: 2_000,
                barrier: Barrier::None,
                sleeps_after_last_look: true,
                wait_limit_s: None,
                deletes_objects: false,
                ..paper
            },
            Fidelity::Tuned => Self {
                status_poll_ms: 100,
                poll_ms: 20,
                barrier: Barrier::None,
                downloads_at_once: TRANSFERS_AT_ONCE,
                ..paper
            },
        }
    }

    /// Returns the encoding of a peer's mean gradient.
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
