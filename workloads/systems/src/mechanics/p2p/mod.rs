//! What P2P and P2P with Lambda share: peers that leave their gradients for
//! each other, the traffic of that, and how they detect convergence.

mod mailbox;
mod validation;

use epochcost_channels::Traffic;
use epochcost_kernels::optimizer::{OptimizerSpec, Sgd};
use serde::{Deserialize, Serialize};

pub(crate) use self::mailbox::{BUCKET, Mailbox, Rules, object_key};
pub use self::mailbox::{EPOCH_BYTES, KEY_BYTES};
pub use self::validation::Validation;
pub(crate) use self::validation::detect_convergence;
use crate::{Alike, Result, Sizes, StoreUse};

/// Whether peers wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every peer averages the gradients of all.
    Synchronous,
    /// Every peer averages its own with those that it finds, however old.
    Asynchronous,
}

/// Queue that holds the gradient of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// SGD at the learning rate of the source.
pub(crate) fn sgd(learning_rate: f64) -> OptimizerSpec {
    OptimizerSpec::Sgd(Sgd {
        learning_rate,
        momentum: 0.0,
        weight_decay: 0.0,
    })
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
    let objects = if message < gradient {
        (rounds, received, gradient)
    } else {
        (0, 0, 0)
    };
    let (puts, gets, object_bytes) = objects;
    Ok(Traffic {
        puts,
        gets,
        messages: rounds,
        deliveries: received,
        bytes_up: rounds * (message + object_bytes),
        bytes_down: received * (message + object_bytes),
        ..Traffic::default()
    })
}
