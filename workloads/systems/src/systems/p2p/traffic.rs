use epochcost_channels::Traffic;

use super::barrier::TOKEN_BYTES;
use super::mailbox::Rules;
use super::{Barrier, Settings};
use crate::{Job, Result, Sizes};

/// What goes from peers to peers in `rounds` gradients of each, of which
/// `received` are read: S bytes of a gradient, up once and down as often as it
/// is read; or as often an object of S bytes and a message of its key.
pub(crate) fn between_peers(
    rules: &Rules,
    sizes: Sizes,
    rounds: u64,
    received: u64,
) -> Result<Traffic> {
    let (gradient, message) = rules.sizes(sizes.parameters as u64)?;
    let objects = match message < gradient {
        true => (rounds, received, gradient),
        false => (0, 0, 0),
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

/// P2P's exchange in one trial, where peers read `received` gradients.
///
/// With W peers, E epochs, S bytes of a gradient as it is sent and T of a
/// token: W·E gradients and, with a barrier, as many tokens; up
/// W·E·(S + T), down `received` · S. Synchronous peers read W(W − 1)·E unless
/// they fetch gradients again that they have.
pub(super) fn traffic(
    settings: &Settings,
    rules: &Rules,
    job: &Job,
    sizes: Sizes,
    received: u64,
) -> Result<Traffic> {
    let rounds = (job.workers * job.epochs) as u64;
    let mut traffic = between_peers(rules, sizes, rounds, received)?;
    if settings.barrier() != Barrier::None {
        traffic += Traffic {
            messages: rounds,
            bytes_up: rounds * TOKEN_BYTES,
            ..Traffic::default()
        };
    }
    Ok(traffic)
}
