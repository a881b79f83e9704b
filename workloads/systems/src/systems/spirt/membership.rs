//! Membership: peers that fail are noticed by their heartbeat, voted out, and training goes
//! on without them.
//!
//! The paper's peers check heartbeats and go on without a peer that fails; the published
//! functions ping a store and wait for ever. With [`Settings::membership`] the barrier of
//! each round decides who is a member:
//!
//! 1. A peer whose average is stored writes its heartbeat, the number of the round, into its
//!    own store, and polls those of the other members.
//! 2. A member without a heartbeat after [`Settings::heartbeat_timeout_ms`] is suspected. The
//!    peer writes the members that it saw into its store as its vote, and waits for the votes
//!    of these. Without the votes of more than half of the members it gives up: a minority
//!    that is cut off cannot go on alone.
//! 3. It proposes the members that any vote names, in a queue of the round; the oldest
//!    proposal there is the decision of all. A peer that sees all heartbeats proposes all
//!    members.
//! 4. A peer that is not among the members of the decision fails: it was voted out.
//!
//! A peer whose functions fail after its heartbeat is a member of that round, its average is
//! used, and the next round votes it out. Stores outlive functions: a peer whose store is
//! gone as well still ends the trial. Heartbeats, votes and proposals count as state, and
//! take the place of the barrier's messages.
//!
//! # Peers that come back
//!
//! No publication says by which messages a peer is admitted. With [`Settings::rejoin`] these
//! are ours:
//!
//! 1. At the end of an epoch every member counts those who were voted out in it as members of
//!    the next. All know the same decisions, so all count the same peers.
//! 2. The first of the members that are left writes its rank into the store of each of them,
//!    and starts its workflow of the next epoch.
//! 3. A peer that finds such a rank takes model and members from the store of that peer, and is
//!    in the next barrier and divisor like everyone else. Nobody changes the model before that
//!    barrier.
//!
//! A peer that does not come back in time is voted out again, for one more time-out in each
//! epoch. What is taken counts as state: P bytes down and up, and as much for each of momentum,
//! centre of clipping and statistics that there is.

use std::time::Duration;

use super::Settings;
use super::stages::{MODEL, store_of};
use crate::{Result, SystemError, Task, Vector, World};

/// Key of the last round whose average a peer has stored, in its store.
const HEARTBEAT: &str = "heartbeat";
/// Key of the members of the last decision, in each member's store.
const MEMBERS: &str = "members";
/// Key of the peers that were voted out in the epoch, in each member's store.
const OUT: &str = "voted_out";
/// Key of the rank of the peer that called this one back, in its store.
const CALLED_BY: &str = "called_by";
/// What a peer writes at its start, so that nothing of an earlier trial is left.
pub(super) const REMEMBERED: [&str; 4] = [HEARTBEAT, MEMBERS, OUT, CALLED_BY];

/// Pause between polls of heartbeats, votes and the decision.
const POLL: Duration = Duration::from_millis(20);

fn vote_key(round: usize) -> String {
    format!("vote_{round}")
}

/// Ranks as a tensor: f32 holds them exactly.
fn encode(ranks: &[usize]) -> Vector {
    Vector::Real(ranks.iter().map(|rank| *rank as f32).collect())
}

fn decode(ranks: &Vector) -> Vec<usize> {
    let values = ranks.real().unwrap_or_default();
    values.iter().map(|rank| *rank as usize).collect()
}

/// Returns the members of the last decision in order: all peers, until there is one.
pub(super) async fn members(world: &World, settings: &Settings) -> Result<Vec<usize>> {
    let all = (0..world.workers()).collect();
    if !settings.membership {
        return Ok(all);
    }
    let found = ranks_at(world, world.rank(), MEMBERS).await?;
    Ok(found.unwrap_or(all))
}

async fn ranks_at(world: &World, peer: usize, key: &str) -> Result<Option<Vec<usize>>> {
    let found = store_of(&world.state, peer)?.get(key).await?;
    let ranks = found.map(|found| Vector::decode(&found)).transpose()?;
    Ok(ranks.as_ref().map(decode))
}

async fn write(world: &World, key: &str, ranks: &[usize]) -> Result<()> {
    let store = store_of(&world.state, world.rank())?;
    Ok(store.set(key, encode(ranks).encode()).await?)
}

/// Waits for the members of a round, and decides with them who is one.
pub(super) async fn decide(world: &World, settings: &Settings) -> Result<()> {
    let round = settings.round_number(&world.task);
    let before = members(world, settings).await?;
    write(world, HEARTBEAT, &[round]).await?;

    // Heartbeats, and votes where one is missing.
    let present = heard(world, settings, &before, |peer| {
        has_beaten(world, peer, round)
    })
    .await?;
    let queue = &world.state.queue;
    let name = format!("{}_members_{round}", world.task.job.trial);
    let mut proposal = before.clone();
    if present.len() < before.len() {
        let voted = vote(world, settings, &before, &present).await?;
        proposal = match voted {
            Some(voted) => voted,
            // Most saw every heartbeat, did not vote, and have decided.
            None if queue.peek(&name).await?.is_some() => before.clone(),
            None => return Err(no_majority(round)),
        };
    }

    // The oldest proposal is the decision.
    let ranks: Vec<u8> = proposal
        .iter()
        .flat_map(|rank| (*rank as u32).to_le_bytes())
        .collect();
    queue.publish(&name, ranks.into()).await?;
    let decision = loop {
        if let Some(oldest) = queue.peek(&name).await? {
            let words = oldest.bytes()?.as_chunks::<4>().0.to_vec();
            let rank = |word| u32::from_le_bytes(word) as usize;
            break words.into_iter().map(rank).collect::<Vec<usize>>();
        }
        world.clock.sleep(POLL).await;
    };
    let out = note(world, &before, &decision)?;
    write(world, MEMBERS, &decision).await?;
    if settings.rejoin && !out.is_empty() {
        let earlier = ranks_at(world, world.rank(), OUT)
            .await?
            .unwrap_or_default();
        write(world, OUT, &[earlier, out].concat()).await?;
    }
    Ok(())
}

/// Counts the peers that were voted out as members of the epoch of `next`. The first member
/// calls them back.
pub(super) async fn call_back(world: &World, next: &Task) -> Result<()> {
    let rank = world.rank();
    let Some(out) = ranks_at(world, rank, OUT).await? else {
        return Ok(());
    };
    let mut all = ranks_at(world, rank, MEMBERS).await?.unwrap_or_default();
    let calls = all.first() == Some(&rank);
    all.extend(&out);
    all.sort_unstable();
    write(world, MEMBERS, &all).await?;
    let store = store_of(&world.state, rank)?;
    store.delete(&[OUT.to_owned()]).await?;
    for peer in out.into_iter().filter(|_| calls) {
        let store = store_of(&world.state, peer)?;
        store.set(CALLED_BY, encode(&[rank]).encode()).await?;
        let task = Task {
            rank: peer,
            ..next.clone()
        };
        world.invoke.start_workflow(task).await?;
    }
    Ok(())
}

/// Takes the model and the members from the peer that called this one back, if one did.
pub(super) async fn come_back(world: &World) -> Result<()> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    let called_by = ranks_at(world, rank, CALLED_BY).await?;
    let Some(peer) = called_by.and_then(|ranks| ranks.first().copied()) else {
        return Ok(());
    };
    let (theirs, own) = (store_of(&world.state, peer)?, store_of(&world.state, rank)?);
    for key in MODEL.into_iter().chain([MEMBERS]) {
        if let Some(value) = theirs.get(key).await? {
            own.set(key, value).await?;
        }
    }
    own.delete(&[CALLED_BY.to_owned()]).await?;
    world.warn(format!(
        "epoch {epoch}: peer {rank} came back, with the model of peer {peer}"
    ));
    Ok(())
}

async fn has_beaten(world: &World, peer: usize, round: usize) -> Result<bool> {
    let last = ranks_at(world, peer, HEARTBEAT).await?;
    Ok(last.is_some_and(|last| last.first() >= Some(&round)))
}

/// Returns those of `peers` that answer `is_heard` before the time-out, in order.
async fn heard<F: Future<Output = Result<bool>>>(
    world: &World,
    settings: &Settings,
    peers: &[usize],
    is_heard: impl Fn(usize) -> F,
) -> Result<Vec<usize>> {
    let limit = Duration::from_millis(settings.heartbeat_timeout_ms);
    let until = world.clock.now() + limit;
    let mut missing = peers.to_vec();
    loop {
        let mut still = Vec::with_capacity(missing.len());
        for peer in missing {
            if !is_heard(peer).await? {
                still.push(peer);
            }
        }
        missing = still;
        if missing.is_empty() || world.clock.now() >= until {
            let present = |peer: &&usize| !missing.contains(peer);
            return Ok(peers.iter().filter(present).copied().collect());
        }
        world.clock.sleep(POLL).await;
    }
}

fn no_majority(round: usize) -> SystemError {
    SystemError::Malformed {
        what: format!("the vote of round {round}"),
        reason: "half of the members or more are silent: no majority to go on with".into(),
    }
}

/// Votes for the peers that are `present`, and returns those that any vote names; `None`
/// without the votes of a majority.
async fn vote(
    world: &World,
    settings: &Settings,
    before: &[usize],
    present: &[usize],
) -> Result<Option<Vec<usize>>> {
    let round = settings.round_number(&world.task);
    let key = vote_key(round);
    write(world, &key, present).await?;
    let has_voted = |peer: usize| {
        let key = &key;
        async move { Ok(ranks_at(world, peer, key).await?.is_some()) }
    };
    let voters = heard(world, settings, present, has_voted).await?;
    if 2 * voters.len() <= before.len() {
        return Ok(None);
    }
    let mut named = Vec::new();
    for voter in voters {
        named.extend(ranks_at(world, voter, &key).await?.unwrap_or_default());
    }
    named.sort_unstable();
    named.dedup();
    Ok(Some(named))
}

/// Returns who was voted out; one member records it for all.
///
/// # Errors
/// When this peer was voted out itself.
fn note(world: &World, before: &[usize], decision: &[usize]) -> Result<Vec<usize>> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    if !decision.contains(&rank) {
        return Err(SystemError::Malformed {
            what: format!("peer {rank}'s heartbeat"),
            reason: format!("it came too late: the others voted it out in epoch {epoch}"),
        });
    }
    let is_out = |peer: &&usize| !decision.contains(peer);
    let out: Vec<usize> = before.iter().filter(is_out).copied().collect();
    if !out.is_empty() && decision.first() == Some(&rank) {
        let names: Vec<String> = out.iter().map(ToString::to_string).collect();
        world.warn(format!(
            "epoch {epoch}: no heartbeat of peers {}; they were voted out, and their mini-batches \
             are lost from here on: {} of {} peers go on",
            names.join(", "),
            decision.len(),
            world.workers()
        ));
    }
    Ok(out)
}
