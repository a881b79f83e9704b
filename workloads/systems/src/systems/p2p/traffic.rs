use epochcost_channels::Traffic;

use super::{Settings, gate};
use crate::mechanics::p2p::{Rules, between_peers};
use crate::{Job, Result, Sizes};

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
    traffic += gate(settings).traffic(rounds);
    Ok(traffic)
}
