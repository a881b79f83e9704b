//! What P2P and P2P with Lambda share: peers that leave their gradients for
//! each other (Barrak et al. 2023, §III-B3), the traffic of that, and how they detect
//! convergence (§III-B7).
//!
//! # Objects and keys
//!
//! - `{trial}_peer{rank}_{epoch}` (here); with `latest` `{trial}_peer{rank}`: the gradient of a
//!   peer, which others peek at (§III-B3 ¶2); with `latest` replaced by the next (§III-B3 ¶1)
//! - `{trial}_sync_{epoch}` (here), or `{trial}_sync` if shared (§III-B6 ¶4): a token of each
//!   peer, 4 bytes: its rank (u32). Peers count them (§III-B6 ¶4)
//! - `{trial}_lambda_{rank}`: keys of the gradients of a peer's functions, taken by the peer
//!   (published code)
//!
//! A message is the encoded gradient, or the key of an object that holds it (§III-B3 ¶5), 48 bytes,
//! `tensors2/{uuid}.pt` (published code), if it is larger than `message_limit_bytes`. The
//! uuid is drawn from the seed. Asynchronous peers prefix either with the epoch (u64) (here). A
//! gradient of n elements is sent (QSGD: §III-B4) as
//!
//! | `compression` | bytes | |
//! | --- | --- | --- |
//! | `none` | 4n | a vector |
//! | `qsgd` | 4⌈n / bucket⌉ + ⌈n·bits / 8⌉ | the norm of each bucket (f32), then every element's level + s as a number of bits = ⌈log₂(2s + 1)⌉ (9 for s = 255, 8 for 127), lowest bit first, without gaps |
//! | `qsgd_published` | 4(n + 1) | norm / s, then every level, all f32 |
//! | `top_k` | 8 + 8⌈n·fraction⌉ | sparse, as in MLLess |
//!
//! Bucket `p2p` holds gradients and, with Lambda, the peers' parameters, all under such keys. State:
//! `p2p-statistics/statistics_{rank}`.

mod barrier;
mod mailbox;
mod validation;

use epochcost_channels::Traffic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::barrier::Gate;
pub use self::barrier::{Barrier, BarrierAt, SyncQueue, TOKEN_BYTES};
pub(crate) use self::mailbox::{BUCKET, Mailbox, Rules, object_key};
pub use self::mailbox::{EPOCH_BYTES, KEY_BYTES};
pub use self::validation::Validation;
pub(crate) use self::validation::detect_convergence;
use crate::mechanics::traffic;
use crate::{Alike, Replicas, Result, SettingsError, Sizes, StepRecord, StoreUse, Symmetry};

/// Whether peers wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every peer averages the gradients of all.
    Synchronous,
    /// Every peer averages its own with those that it finds, however old.
    Asynchronous,
}

impl Mode {
    /// Asynchronous peers have nobody to pool results with.
    pub(crate) fn validation(self, stated: Validation) -> Validation {
        match self {
            Self::Synchronous => stated,
            Self::Asynchronous => Validation::Job,
        }
    }

    /// Asynchronous peers read whatever lies in a peer's one queue.
    pub(crate) fn queue(self, stated: PeerQueue) -> PeerQueue {
        match self {
            Self::Synchronous => stated,
            Self::Asynchronous => PeerQueue::Latest,
        }
    }

    /// Asynchronous peers wait nowhere.
    pub(crate) fn barrier(self, stated: Barrier) -> Barrier {
        match self {
            Self::Synchronous => stated,
            Self::Asynchronous => Barrier::None,
        }
    }
}

/// Queue that holds the gradient of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeerQueue {
    /// A queue of the epoch, emptied an epoch later, when all have read it.
    PerEpoch,
    /// The peer's one queue, where the latest gradient takes the place of
    /// the one before.
    Latest,
}

/// Queues of peers, and of a peer's functions. Objects are named in messages.
pub(crate) const ALIKE: Alike = Alike {
    queues: &["_peer{from}_{n}", "_peer{from}", "_lambda_{from}"],
    objects: &[],
    sender_at: None,
    stores: StoreUse::Apart,
    drawn: true,
};

/// Returns whether peers are alike: those that use what they find are not.
pub(crate) fn symmetry(rules: &Rules) -> Symmetry {
    let instead = match (rules.mode, rules.threshold) {
        (Mode::Asynchronous, _) => "settings: {mode: synchronous}",
        (_, Some(_)) => "settings: {threshold: null}",
        _ => return Symmetry::Alike(ALIKE),
    };
    Symmetry::Unlike { instead }
}

/// Returns whether peers end with the same parameters, where they start from the same if
/// `is_seeded`.
pub(crate) fn replicas(rules: &Rules, is_seeded: bool) -> Replicas {
    let reason = match (rules.mode, rules.queue) {
        _ if !is_seeded => "every peer starts from parameters of its own",
        (Mode::Asynchronous, _) => "every peer averages the gradients that it finds",
        _ if rules.threshold.is_some() => "every peer averages the gradients that come first",
        _ if !rules.averages_own => "every peer averages the gradients of the others",
        (_, PeerQueue::Latest) => "a peer may read a gradient of the epoch before",
        (_, PeerQueue::PerEpoch) => return Replicas::Identical,
    };
    Replicas::Differ { reason }
}

/// Refuses a threshold where no barrier keeps the gradients that a late peer still has to read.
pub(crate) fn check_threshold(
    system: &'static str,
    rules: &Rules,
    barrier: Barrier,
) -> std::result::Result<(), SettingsError> {
    let reason = match (rules.threshold, rules.mode) {
        (None, _) => return Ok(()),
        (_, Mode::Asynchronous) => "asynchronous peers wait for no gradient",
        _ if barrier == Barrier::None => {
            "peers that go on without all gradients wait in a barrier: set `barrier: at_least`"
        }
        _ => return Ok(()),
    };
    Err(SettingsError::value(system, "threshold", reason))
}

/// Returns the number of messages that peers read from queues, as their steps record.
pub(crate) fn received(steps: &[&StepRecord]) -> u64 {
    let delivered = |step: &&StepRecord| step.traffic.exchange.queue.deliveries;
    steps.iter().map(delivered).sum()
}

/// Traffic between peers in `rounds` gradients of each, of which
/// `received` are read: S bytes of a gradient, up once and down as often as it
/// is read; or as often an object of S bytes and a message of its key.
pub(crate) fn between_peers(
    rules: &Rules,
    sizes: Sizes,
    rounds: u64,
    received: u64,
) -> Result<Traffic> {
    let (gradient, message) = rules.sizes(sizes.parameters as u64)?;
    let messages = traffic::messages(rounds, received, message);
    if message >= gradient {
        return Ok(messages);
    }
    let objects = [
        traffic::puts(rounds, gradient),
        traffic::gets(received, gradient),
    ];
    Ok(traffic::sum(objects.into_iter().chain([messages])))
}
