//! What an attacking peer does between its average and the barrier.
//!
//! Honest peers' stores are open to it, as to every peer: where its message is made of their
//! averages, it polls until they lie there, and announces itself only then. What it reads
//! and writes is no exchange of SPIRT's, and counts as state.

use std::time::Duration;

use super::Settings;
use super::membership::members;
use super::stages::shared_key;
use crate::contract::attack::Known;
use crate::{AttackKind, Result, Vector, World};

/// Key of an attacker's earlier average.
pub(super) const EARLIER: &str = "attack_earlier";
/// Pause of an attacker between polls of a store.
const POLL: Duration = Duration::from_millis(5);

/// Puts what an attacker sends in place of its average.
pub(super) async fn corrupt(world: &World, settings: &Settings) -> Result<()> {
    let job = &world.task.job;
    let (rank, workers) = (world.rank(), world.workers());
    let Some(attack) = &job.attack else {
        return Ok(());
    };
    let is_elsewhere = matches!(attack.kind, AttackKind::LabelFlip | AttackKind::WrongKey);
    if !attack.is_by(rank, world.task.epoch, workers) || is_elsewhere {
        return Ok(());
    }
    let round = settings.round_number(&world.task);
    let key = shared_key(settings, round);
    let store = world.state.store(rank)?;
    let Vector::Real(own) = Vector::decode(&store.expect(&key).await?)? else {
        return Ok(());
    };

    // What it knows of others, and of its own past.
    let mut honest = Vec::new();
    if attack.kind.needs_honest() {
        let members = members(world, settings).await?;
        let is_member = |peer: &usize| members.contains(peer);
        for peer in attack.honest(workers).into_iter().filter(is_member) {
            honest.extend(awaited(world, settings, peer, &key).await?);
        }
    }
    let honest: Vec<&[f32]> = honest.iter().filter_map(Vector::real).collect();
    let mut earlier = None;
    if matches!(attack.kind, AttackKind::Stale | AttackKind::Replayed) {
        let kept = store.get(EARLIER).await?;
        earlier = kept.map(|kept| Vector::decode(&kept)).transpose()?;
        if attack.kind == AttackKind::Stale || earlier.is_none() {
            store
                .set(EARLIER, Vector::Real(own.clone()).encode())
                .await?;
        }
    }

    let known = Known {
        own: &own,
        honest: &honest,
        earlier: earlier.as_ref().and_then(Vector::real),
        at: [rank, round, 0],
    };
    let sent = Vector::Real(attack.sent(job, &known)?);
    Ok(store.set(&key, sent.encode()).await?)
}

/// Returns a peer's average of the round, once it is there; `None` if the peer is not heard
/// of for as long as makes a member suspected.
async fn awaited(
    world: &World,
    settings: &Settings,
    peer: usize,
    key: &str,
) -> Result<Option<Vector>> {
    let store = world.state.store(peer)?;
    let limit = Duration::from_millis(settings.heartbeat_timeout_ms / 2);
    let until = settings.membership.then(|| world.clock.now() + limit);
    loop {
        if let Some(found) = store.get(key).await? {
            return Vector::decode(&found).map(Some);
        }
        if until.is_some_and(|until| world.clock.now() >= until) {
            return Ok(None);
        }
        world.clock.sleep(POLL).await;
    }
}
