use epochcost_channels::Traffic;

use super::{Settings, gate, rules};
use crate::mechanics::p2p::{KEY_BYTES, between_peers};
use crate::mechanics::traffic::{gets, messages, puts, sum};
use crate::{Job, Result, Sizes};

/// The exchange of one trial, where peers read `read` gradients of others.
///
/// With W peers, B mini-batches of each, E epochs and P bytes of a gradient, in
/// an epoch: W·B gradients from functions to their peers, by reference, so that W·B puts, gets,
/// messages and deliveries of [`KEY_BYTES`]; W from peer to peer, each read by W − 1 where peers wait for all, in messages
/// or by reference; with a barrier, W tokens. With weights, W puts, W·B gets and W(B + 1)·P bytes
/// more.
pub(super) fn traffic(settings: &Settings, job: &Job, sizes: Sizes, read: u64) -> Result<Traffic> {
    let rounds = (job.workers * job.epochs) as u64;
    let gradients = rounds * job.batches_per_worker as u64;
    let bytes = sizes.gradient_bytes();
    let mut total = sum([
        between_peers(&rules(settings), sizes, rounds, read)?,
        gate(settings).traffic(rounds),
        puts(gradients, bytes),
        gets(gradients, bytes),
        messages(gradients, gradients, KEY_BYTES),
    ]);
    if settings.sends_weights {
        total += sum([puts(rounds, bytes), gets(gradients, bytes)]);
    }
    Ok(total)
}
