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
//!    that is cut off cannot go on alone. Members that have just come in are not counted.
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
//! # Peers that come in
//!
//! No publication says by which messages a peer is admitted. Those that come back with
//! [`Settings::rejoin`] and those that join with [`Settings::joins`] are by ours:
//!
//! 1. At the end of an epoch every member counts those who were voted out in it, and those who join
//!    in the next, as members of the next. All know the same decisions, so all count the same peers.
//! 2. The first of the members that are left writes its rank into the store of each of them,
//!    and starts its workflow of the next epoch.
//! 3. A peer that finds such a rank takes model and members from the store of that peer, and is
//!    in the next barrier and divisor like everyone else. Nobody changes the model before that
//!    barrier.
//!
//! A peer that does not come in in time is voted out again, for one more time-out in each
//! epoch with [`Settings::rejoin`]. What is taken counts as state: P bytes down and up, and as much
//! for each of momentum, centre of clipping and statistics that there is. A peer that joins was
//! prepared with the others (`init_peer`).
//!
//! # Who trains on what
//!
//! Of the W·B mini-batches of all peers, in the order of ranks, the members of an epoch take the
//! next m·B, each B in the order of its rank, and begin anew behind the last: with all W peers,
//! each takes its own. Mini-batches of who is voted out are lost in that epoch alone.

use std::time::Duration;

use super::Settings;
use super::stages::MODEL;
use crate::mechanics::wire::Writer;
use crate::{Job, Result, SystemError, Task, Vector, World};

/// Key of the last round whose average a peer has stored, in its store.
const HEARTBEAT: &str = "heartbeat";
/// Key of the members of the last decision, in each member's store.
const MEMBERS: &str = "members";
/// Key of the peers that were voted out in the epoch, in each member's store.
const OUT: &str = "voted_out";
/// Key of the rank of the peer that called this one back, in its store.
const CALLED_BY: &str = "called_by";
/// Key of the last epoch with peers that came in, and these, in each member's store.
const CAME_IN: &str = "came_in";
/// Key of the last [`Deal`], in each member's store.
const DEAL: &str = "dealt_out";
/// What is deleted at a peer's start, so that nothing of an earlier trial is left.
pub(super) const REMEMBERED: [&str; 6] = [HEARTBEAT, MEMBERS, OUT, CALLED_BY, CAME_IN, DEAL];

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

/// Mini-batches of all peers, dealt out over the same members from one epoch on.
#[derive(Clone, Debug, PartialEq)]
struct Deal {
    /// The first epoch.
    since: usize,
    /// Mini-batches that were dealt out before it.
    before: usize,
    /// The members, in order.
    members: Vec<usize>,
}

impl Deal {
    /// Returns that of the first epoch.
    fn first(settings: &Settings, workers: usize) -> Self {
        Self {
            since: 0,
            before: 0,
            members: (0..settings.first_peers(workers)).collect(),
        }
    }

    /// Returns the mini-batches that were dealt out before `epoch`.
    fn dealt(&self, job: &Job, epoch: usize) -> usize {
        let epochs = epoch.saturating_sub(self.since);
        self.before + epochs * self.members.len() * job.batches_per_worker
    }

    /// Returns the mini-batch that is the `batch`-th of member `rank` in `epoch`: the peer whose it
    /// is where all train, its number, and how often all were dealt out before.
    fn of(&self, job: &Job, rank: usize, epoch: usize, batch: usize) -> (usize, usize, usize) {
        let own = job.batches_per_worker;
        let position = self.members.partition_point(|member| *member < rank);
        let number = self.dealt(job, epoch) + position * own + batch;
        let all = job.workers * own;
        let within = number % all;
        (within / own, number / all, within % own)
    }
}

/// Returns the last deal.
async fn deal(world: &World, settings: &Settings) -> Result<Deal> {
    let found = own_ranks(world, DEAL).await?;
    let [since, before, members @ ..] = found.as_slice() else {
        return Ok(Deal::first(settings, world.workers()));
    };
    Ok(Deal {
        since: *since,
        before: *before,
        members: members.to_vec(),
    })
}

/// Returns the mini-batch that this peer computes as the `batch`-th of the task's epoch, as
/// [`Deal::of`]: its own, without membership.
pub(super) async fn dealt(
    world: &World,
    settings: &Settings,
    batch: usize,
) -> Result<(usize, usize, usize)> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    if !settings.membership {
        return Ok((rank, epoch, batch));
    }
    let deal = deal(world, settings).await?;
    Ok(deal.of(&world.task.job, rank, epoch, batch))
}

/// Returns the members of the last decision in order: until there is one, all peers that train
/// from the start.
pub(super) async fn members(world: &World, settings: &Settings) -> Result<Vec<usize>> {
    let all = (0..settings.first_peers(world.workers())).collect();
    if !settings.membership {
        return Ok(all);
    }
    let found = ranks_at(world, world.rank(), MEMBERS).await?;
    Ok(found.unwrap_or(all))
}

async fn ranks_at(world: &World, peer: usize, key: &str) -> Result<Option<Vec<usize>>> {
    let found = world.state.store(peer)?.get(key).await?;
    let ranks = found.map(|found| Vector::decode(&found)).transpose()?;
    Ok(ranks.as_ref().map(decode))
}

/// Returns the ranks in this peer's own store; none where there is no such key.
async fn own_ranks(world: &World, key: &str) -> Result<Vec<usize>> {
    Ok(ranks_at(world, world.rank(), key)
        .await?
        .unwrap_or_default())
}

async fn write(world: &World, key: &str, ranks: &[usize]) -> Result<()> {
    let store = world.state.store(world.rank())?;
    Ok(store.set(key, encode(ranks).encode()).await?)
}

/// Waits for the members of a round, and decides with them who is one.
pub(super) async fn decide(world: &World, settings: &Settings) -> Result<()> {
    let round = settings.round_number(&world.task);
    let before = members(world, settings).await?;
    write(world, HEARTBEAT, &[round]).await?;

    // Heartbeats, and votes where one is missing.
    let is_heard = |peer| has_beaten(world, peer, round);
    let present = heard(world, settings, &before, is_heard).await?;
    let queue = &world.state.queue;
    let name = format!("{}_members_{round}", world.task.job.trial);
    let mut proposal = before.clone();
    if present.len() < before.len() {
        proposal = match vote(world, settings, &before, &present).await? {
            Some(voted) => voted,
            // Most saw every heartbeat, did not vote, and have decided.
            None if queue.peek(&name).await?.is_some() => before.clone(),
            None => {
                let what = format!("the vote of round {round}");
                let reason = "half of the members or more are silent: no majority to go on with";
                return Err(SystemError::malformed(what, reason));
            }
        };
    }

    // The oldest proposal is the decision.
    let ranks = proposal.into_iter().fold(Writer::default(), Writer::number);
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
        let earlier = own_ranks(world, OUT).await?;
        write(world, OUT, &[earlier, out].concat()).await?;
    }
    Ok(())
}

/// Counts the peers that were voted out, and those that join, as members of the epoch of `next`,
/// and deals the mini-batches out over all of these. The first member calls those that come in.
pub(super) async fn turn(world: &World, settings: &Settings, next: &Task) -> Result<()> {
    let (rank, job) = (world.rank(), &next.job);
    let mut coming = Vec::new();
    if settings.rejoin {
        coming = own_ranks(world, OUT).await?;
    }
    coming.extend(settings.joining(next.epoch, world.workers()));
    let mut all = members(world, settings).await?;
    let calls = all.first() == Some(&rank);
    all.extend(&coming);
    all.sort_unstable();
    let last = deal(world, settings).await?;
    if last.members != all {
        let head = [next.epoch, last.dealt(job, next.epoch)];
        write(world, DEAL, &[&head, all.as_slice()].concat()).await?;
    }
    if coming.is_empty() {
        return Ok(());
    }
    write(world, MEMBERS, &all).await?;
    write(world, CAME_IN, &[&[next.epoch], coming.as_slice()].concat()).await?;
    let store = world.state.store(rank)?;
    store.delete(&[OUT.to_owned()]).await?;
    for peer in coming.into_iter().filter(|_| calls) {
        let store = world.state.store(peer)?;
        store.set(CALLED_BY, encode(&[rank]).encode()).await?;
        let task = Task {
            rank: peer,
            ..next.clone()
        };
        world.invoke.start_workflow(task).await?;
    }
    Ok(())
}

/// Takes the model and the members from the peer that called this one, if one did.
pub(super) async fn come_in(world: &World) -> Result<()> {
    let (rank, epoch) = (world.rank(), world.task.epoch);
    let Some(&peer) = own_ranks(world, CALLED_BY).await?.first() else {
        return Ok(());
    };
    let (theirs, own) = (world.state.store(peer)?, world.state.store(rank)?);
    let is_new = own.get(HEARTBEAT).await?.is_none();
    for key in MODEL.into_iter().chain([MEMBERS, CAME_IN, DEAL]) {
        if let Some(value) = theirs.get(key).await? {
            own.set(key, value).await?;
        }
    }
    own.delete(&[CALLED_BY.to_owned()]).await?;
    let came = if is_new { "joined" } else { "came back" };
    world.warn(format!(
        "epoch {epoch}: peer {rank} {came}, with the model of peer {peer}"
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
    // Who has just come in does not count yet: otherwise many could stop the others.
    let came_in = own_ranks(world, CAME_IN).await?;
    let came_in = match came_in.split_first() {
        Some((epoch, peers)) if (*epoch, 0) == (world.task.epoch, world.task.round) => peers,
        _ => &[],
    };
    let counted = |peers: &[usize]| peers.iter().filter(|peer| !came_in.contains(peer)).count();
    if 2 * counted(&voters) <= counted(before) {
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
        let what = format!("peer {rank}'s heartbeat");
        let reason = format!("it came too late: the others voted it out in epoch {epoch}");
        return Err(SystemError::malformed(what, reason));
    }
    let is_out = |peer: &&usize| !decision.contains(peer);
    let out: Vec<usize> = before.iter().filter(is_out).copied().collect();
    if !out.is_empty() && decision.first() == Some(&rank) {
        let names: Vec<String> = out.iter().map(ToString::to_string).collect();
        world.warn(format!(
            "epoch {epoch}: no heartbeat of peers {}; they were voted out, and their mini-batches \
             of this epoch are lost: {} of {} peers go on",
            names.join(", "),
            decision.len(),
            before.len()
        ));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use epochcost_kernels::hash;
    use serde_json::Map;

    use super::*;
    use crate::Fidelity;
    use crate::testing;

    /// Members that change at random: every mini-batch is dealt out as often as any other or once
    /// more, and with all peers from the start each has its own.
    #[test]
    fn mini_batches_are_dealt_out_evenly() {
        for seed in 0..200 {
            let draw =
                |stream: u64, below: usize| (hash::mix(seed, stream) % below as u64) as usize;
            let workers = 1 + draw(0, 7);
            let mut job = testing::job("spirt", Fidelity::Paper, workers, &Map::new()).unwrap();
            job.batches_per_worker = 1 + draw(1, 4);
            let own = job.batches_per_worker;
            let all = Deal {
                since: 0,
                before: 0,
                members: (0..workers).collect(),
            };
            let mut deal = all.clone();
            let mut times = vec![vec![0_usize; own]; workers];
            for epoch in 0..12 {
                let members =
                    (0..workers).filter(|rank| draw((epoch * 8 + rank) as u64 + 9, 3) > 0);
                let members: Vec<usize> = members.collect();
                if epoch % 3 == 2 && !members.is_empty() {
                    deal = Deal {
                        since: epoch,
                        before: deal.dealt(&job, epoch),
                        members,
                    };
                }
                for rank in &deal.members {
                    for batch in 0..own {
                        let (owner, pass, index) = deal.of(&job, *rank, epoch, batch);
                        assert_eq!(pass, times[owner][index], "seed {seed}, epoch {epoch}");
                        assert_eq!(all.of(&job, *rank, epoch, batch), (*rank, epoch, batch));
                        times[owner][index] += 1;
                    }
                }
                let times = times.iter().flatten();
                let (least, most) = (times.clone().min().unwrap(), times.max().unwrap());
                assert!(most - least <= 1, "seed {seed}, epoch {epoch}");
            }
        }
    }
}
