//! The workers of a trial that are simulated, and those for which they stand.

use std::borrow::Cow;

use bytes::Bytes;
use epochcost_channels::Payload;
use epochcost_systems::{
    Alike, BoundSystem, Host, Job, Launch, Parties, Sizes, State, StoreUse, Symmetry, System,
};

use crate::error::{SimulationError, system_of};
use crate::model::{Options, Simulation};

/// Number of representatives where every event takes its mean: workers that are alike then
/// do the same at the same time.
const REPRESENTATIVES: usize = 8;

/// Number of representatives where single events are drawn: what they do is a sample of what all
/// do.
const DRAWN_REPRESENTATIVES: usize = 32;

/// Number of first ranks that are simulated each for itself where single events are drawn. Readers
/// begin with them, so that it is these for which they poll: a worker that stands for others
/// shows what they write no sooner than its own.
const FIRST_RANKS: usize = 48;

/// Number of requests of an exchange above which workers that are not alike are not simulated:
/// some ten minutes on one core.
const MOST_REQUESTS: u64 = 20_000_000;

/// Workers of a trial: all of them, or representatives.
///
/// A representative stands for the workers between the one before it and itself.
pub(crate) struct Population {
    workers: usize,
    /// Ranks that are simulated, rising; empty where all are.
    simulated: Vec<usize>,
    alike: Alike,
}

impl Population {
    /// Returns the population in which every worker is simulated.
    pub(crate) fn everyone(workers: usize) -> Self {
        Self {
            workers,
            simulated: Vec::new(),
            alike: Alike::default(),
        }
    }

    /// Returns `count` representatives of `workers`, the `first` ranks, and those beside which the
    /// length of a chunk of `sizes` changes.
    fn representatives(
        workers: usize,
        [count, first]: [usize; 2],
        sizes: Sizes,
        alike: Alike,
    ) -> Self {
        let last = workers - 1;
        let mut simulated: Vec<usize> = (0..count).map(|part| part * last / (count - 1)).collect();
        simulated.extend(0..first);
        // The first n mod W chunks are longer. Ranks before both ends of them, for systems that
        // begin with a neighbour's chunk, too.
        let longer = sizes.parameters % workers;
        for end in [longer + workers, workers] {
            simulated.extend((1..=3).map(|before| (end - before) % workers));
        }
        simulated.sort_unstable();
        simulated.dedup();
        Self {
            workers,
            simulated,
            alike,
        }
    }

    /// Chooses the population of a simulation.
    ///
    /// # Errors
    /// [`SimulationError`] when the job is none of its system, or has more workers that are not
    /// alike than can be simulated.
    pub(crate) fn of(simulation: &Simulation, options: &Options) -> Result<Self, SimulationError> {
        let job = &simulation.job;
        let everyone = Self::everyone(job.workers);
        let Some(above) = options.classes_above else {
            return Ok(everyone);
        };
        // A worker to which something happens is like no other.
        if !simulation.faults.is_empty() {
            return Ok(everyone);
        }
        if job.workers <= above.max(REPRESENTATIVES) {
            return Ok(everyone);
        }
        let system = system_of(job)?;
        let bound = system.bind(job)?;
        let reason = match bound.symmetry() {
            Symmetry::Everyone => return Ok(everyone),
            Symmetry::Unlike { instead } => instead,
            Symmetry::Alike(alike) => match unlike(simulation, options, alike, system, &*bound) {
                None => {
                    let counts = if draws_events(simulation) {
                        [DRAWN_REPRESENTATIVES, FIRST_RANKS]
                    } else {
                        [REPRESENTATIVES, 0]
                    };
                    if job.workers <= counts[0] + counts[1] {
                        return Ok(everyone);
                    }
                    let sizes = simulation.sizes;
                    return Ok(Self::representatives(job.workers, counts, sizes, alike));
                }
                Some(reason) => reason,
            },
        };
        let traffic = bound.traffic(simulation.sizes)?;
        let requests = traffic.puts + traffic.gets + traffic.messages + traffic.deliveries;
        if requests <= MOST_REQUESTS {
            return Ok(everyone);
        }
        Err(SimulationError::TooMany {
            system: job.system.clone(),
            workers: job.workers,
            requests,
            instead: reason.to_owned(),
        })
    }

    fn is_everyone(&self) -> bool {
        self.simulated.is_empty()
    }

    /// Returns the number of workers that are simulated.
    pub(crate) fn simulated(&self) -> usize {
        if self.is_everyone() {
            return self.workers;
        }
        self.simulated.len()
    }

    /// Returns the number of workers for which `rank` stands, itself included; 0 if another one
    /// stands for it.
    pub(crate) fn stands_for(&self, rank: usize) -> u64 {
        self.members(rank).len() as u64
    }

    /// Returns the workers for which `rank` stands, itself included.
    pub(crate) fn members(&self, rank: usize) -> std::ops::Range<usize> {
        if self.is_everyone() {
            return rank..rank + 1;
        }
        match self.simulated.binary_search(&rank) {
            Ok(0) => 0..rank + 1,
            Ok(position) => self.simulated[position - 1] + 1..rank + 1,
            Err(_) => rank..rank,
        }
    }

    /// Returns the worker that stands for `rank`.
    pub(crate) fn of_rank(&self, rank: usize) -> usize {
        let position = self.simulated.partition_point(|one| *one < rank);
        self.simulated.get(position).copied().unwrap_or(rank)
    }

    /// Returns the representative whose writes to `rank` count as those of the others for which
    /// `rank` stands: they write to it, and it does not write to itself.
    fn proxy_of(&self, rank: usize) -> usize {
        let next = (self.of_rank(rank) + 1) % self.workers;
        self.of_rank(next)
    }

    /// Returns the workers as which `rank` writes to `to`: those for which it stands, and as the
    /// proxy of `to` the others for which that one stands.
    fn senders(&self, rank: usize, to: usize) -> Vec<usize> {
        if self.stands_for(to) == 0 {
            return Vec::new();
        }
        if to == rank {
            return vec![rank];
        }
        let mut senders: Vec<usize> = self.members(rank).collect();
        if self.proxy_of(to) == rank {
            senders.extend(self.members(to).filter(|member| *member != to));
        }
        senders
    }

    /// Returns the names under which a value is written that `rank` writes under `name`.
    fn written<'a>(
        &self,
        patterns: &[&str],
        rank: usize,
        name: &'a str,
    ) -> Vec<(usize, Cow<'a, str>)> {
        let itself = || vec![(rank, Cow::Borrowed(name))];
        if self.is_everyone() {
            return itself();
        }
        let Some(parties) = Parties::read(patterns, name) else {
            return itself();
        };
        let writers = match (parties.from(), parties.to()) {
            (None | Some(_), Some(to)) => self.senders(rank, to),
            (Some(from), None) if from == rank => self.members(rank).collect(),
            (Some(_) | None, None) => return itself(),
        };
        let named = |writer| (writer, Cow::Owned(parties.written_by(writer)));
        writers.into_iter().map(named).collect()
    }

    /// Returns the keys under which an object is stored that `rank` puts under `key`, each with its
    /// writer.
    pub(crate) fn objects<'a>(&self, rank: usize, key: &'a str) -> Vec<(usize, Cow<'a, str>)> {
        self.written(self.alike.objects, rank, key)
    }

    /// Returns the keys of objects that are deleted where `rank` deletes `keys`.
    pub(crate) fn deleted<'a>(&self, rank: usize, keys: &'a [String]) -> Cow<'a, [String]> {
        if self.is_everyone() {
            return Cow::Borrowed(keys);
        }
        let all = keys.iter().flat_map(|key| {
            let parties = Parties::read(self.alike.objects, key);
            let own = parties.filter(|parties| parties.to().is_none());
            match own.filter(|parties| parties.from() == Some(rank)) {
                Some(parties) => {
                    let members = self.members(rank);
                    members.map(|member| parties.written_by(member)).collect()
                }
                None => vec![key.clone()],
            }
        });
        Cow::Owned(all.collect())
    }

    /// Returns the queues that are purged where `rank` purges `queue`.
    pub(crate) fn purged<'a>(&self, rank: usize, queue: &'a str) -> Vec<Cow<'a, str>> {
        let written = self.written(self.alike.queues, rank, queue);
        written.into_iter().map(|(_, queue)| queue).collect()
    }

    /// Returns the messages that are sent, each with its writer and queue, where `rank` sends
    /// `message`.
    pub(crate) fn messages<'a>(
        &self,
        rank: usize,
        queue: &'a str,
        message: &Payload,
    ) -> Vec<(usize, Cow<'a, str>, Payload)> {
        let shared = Parties::read(self.alike.queues, queue).is_none();
        let writers = if shared {
            let members = self.members(rank);
            members.map(|one| (one, Cow::Borrowed(queue))).collect()
        } else {
            self.written(self.alike.queues, rank, queue)
        };
        let named = writers.into_iter();
        named
            .map(|(writer, queue)| (writer, queue, self.signed(message, rank, writer)))
            .collect()
    }

    /// Returns the messages that reach `queue`, each with its writer, which is bound to the exchange
    /// to which `rank` sends `message`: a worker's own reaches it, too.
    pub(crate) fn fanned_out(
        &self,
        rank: usize,
        queue: &str,
        message: &Payload,
    ) -> Vec<(usize, Payload)> {
        let to = Parties::read(self.alike.queues, queue).and_then(|parties| parties.to());
        if to.is_some_and(|to| self.stands_for(to) == 0) {
            return Vec::new();
        }
        let members = self.members(rank);
        members
            .map(|writer| (writer, self.signed(message, rank, writer)))
            .collect()
    }

    /// Returns `message` of `rank` as `writer` would send it.
    fn signed(&self, message: &Payload, rank: usize, writer: usize) -> Payload {
        let (Some(at), Payload::Bytes(bytes)) = (self.alike.sender_at, message) else {
            return message.clone();
        };
        if writer == rank || bytes.len() < at + 4 {
            return message.clone();
        }
        let mut signed = bytes.to_vec();
        signed[at..at + 4].copy_from_slice(&(writer as u32).to_le_bytes());
        Payload::Bytes(Bytes::from(signed))
    }

    /// Returns the ways on which a message is put that `rank` sends to `to`: from the workers for
    /// which it stands to those that are simulated, in the same direction and as far.
    pub(crate) fn ways(&self, rank: usize, to: usize) -> Vec<(usize, usize)> {
        if self.is_everyone() {
            return vec![(rank, to)];
        }
        let distance = (to + self.workers - rank) % self.workers;
        let readers = self.simulated.iter().map(|reader| {
            let from = (reader + self.workers - distance) % self.workers;
            (from, *reader)
        });
        readers
            .filter(|(from, _)| self.of_rank(*from) == rank)
            .collect()
    }

    /// Returns how many workers use a tensor store at the same time as `rank` in `function`.
    pub(crate) fn at_store(&self, rank: usize, function: &str, is_read: bool) -> u64 {
        let together = match self.alike.stores {
            StoreUse::Apart => false,
            StoreUse::TogetherIn(place) => is_read && place == function,
        };
        if together { self.stands_for(rank) } else { 1 }
    }
}

/// Returns the number of workers of a simulation of sizes whose code runs, where those above
/// `classes_above` that are alike are represented.
///
/// # Errors
/// [`SimulationError`] when the job is none of a known system.
pub fn simulated_workers(
    simulation: &Simulation,
    classes_above: usize,
) -> Result<usize, SimulationError> {
    let options = Options {
        classes_above: Some(classes_above),
        ..Options::default()
    };
    match Population::of(simulation, &options) {
        Ok(population) => Ok(population.simulated()),
        Err(SimulationError::TooMany { .. }) => Ok(simulation.job.workers),
        Err(error) => Err(error),
    }
}

/// Returns whether single events are drawn.
fn draws_events(simulation: &Simulation) -> bool {
    simulation.profile.draws.is_some() && !simulation.profile.spreads().is_empty()
}

/// Returns why workers that are alike by their system's rules are not in this simulation.
fn unlike(
    simulation: &Simulation,
    options: &Options,
    alike: Alike,
    system: &dyn System,
    bound: &dyn BoundSystem,
) -> Option<&'static str> {
    let job = &simulation.job;
    if options.compute.is_some() || options.recorded.is_some() || options.data.is_some() {
        return Some("no real gradients and no recorded values");
    }
    if job.attack.is_some() {
        return Some("a job without attackers");
    }
    if simulation.jobs > 1 {
        return Some("jobs: 1");
    }
    // Workers whose events are drawn fall out of step, and into convoys of another size where
    // they share a server.
    if draws_events(simulation) && !alike.drawn {
        return Some("stated values, without draws of single events");
    }
    if simulation.profile.host.is_some() {
        return Some("a profile whose workers do not share one host");
    }
    let limit = simulation.profile.function.concurrency_limit;
    if simulation.has_limits && functions_at_once(job, system, bound) as f64 > limit {
        return Some("limits: false, or a higher concurrency_limit");
    }
    None
}

/// Returns the largest number of functions that a job runs at once.
fn functions_at_once(job: &Job, system: &dyn System, bound: &dyn BoundSystem) -> usize {
    let batches = job.batches_per_worker.div_ceil(bound.rounds().max(1));
    let fanned_out = bound.states().into_iter().map(|state| match state {
        State::Task { .. } => job.workers,
        State::Batches { .. } => job.workers * batches,
    });
    fanned_out.fold(launched(job, system, bound), usize::max)
}

/// Returns the number of functions with which a job begins.
pub(crate) fn launched(job: &Job, system: &dyn System, bound: &dyn BoundSystem) -> usize {
    let deployment = system.deployment();
    let is_function = |name: &str| deployment.host_of(name) == Host::Function;
    match bound.launch() {
        Launch::Workers(workers) => workers.iter().filter(|(name, _)| is_function(name)).count(),
        Launch::Workflow { .. } => job.workers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(parameters: usize) -> Sizes {
        Sizes {
            parameters,
            statistics: 0,
        }
    }

    const CHUNKS: Alike = Alike {
        objects: &["{to}_{from}", "{from}"],
        queues: &["_q{to}", "_own{from}"],
        sender_at: Some(1),
        stores: StoreUse::Apart,
        drawn: true,
    };

    /// Everyone is stood for once, and chunks of one class have one length.
    #[test]
    fn classes_divide_the_workers() {
        for (workers, parameters) in [(9, 1_000), (64, 12_345), (256, 7), (1_000, 11_173_962)] {
            let all = Population::representatives(workers, [8, 0], sizes(parameters), CHUNKS);
            let members: Vec<usize> = (0..workers).flat_map(|rank| all.members(rank)).collect();
            assert_eq!(members, (0..workers).collect::<Vec<_>>());
            for rank in 0..workers {
                let one = all.of_rank(rank);
                assert!(all.members(one).contains(&rank));
                let length = |rank| rank % workers < parameters % workers;
                for ahead in 0..3 {
                    assert_eq!(
                        length(rank + ahead),
                        length(one + ahead),
                        "{rank} of {workers}"
                    );
                }
            }
        }
    }

    /// Every simulated worker gets exactly one value from every other worker.
    #[test]
    fn every_reader_gets_one_value_of_each_other_worker() {
        for workers in [9, 20, 65] {
            let all = Population::representatives(workers, [4, 2], sizes(1_003), CHUNKS);
            let simulated: Vec<usize> = (0..workers).filter(|r| all.stands_for(*r) > 0).collect();
            let (mut objects, mut messages) = (Vec::new(), Vec::new());
            let mut ways = Vec::new();
            for rank in &simulated {
                for to in (0..workers).filter(|to| to != rank) {
                    let key = format!("{to}_{rank}");
                    let written = all.objects(*rank, &key).into_iter();
                    objects.extend(written.map(|(_, key)| key.into_owned()));
                    let sent = Payload::Bytes(Bytes::from(vec![0, *rank as u8, 0, 0, 0]));
                    let queue = format!("t_q{to}");
                    for (_, queue, message) in all.messages(*rank, &queue, &sent) {
                        let sender = message.bytes().map(|bytes| bytes[1]).unwrap_or_default();
                        messages.push((queue.into_owned(), usize::from(sender)));
                    }
                }
                ways.extend(all.ways(*rank, (rank + 1) % workers));
            }
            for reader in &simulated {
                for other in (0..workers).filter(|other| other != reader) {
                    let key = format!("{reader}_{other}");
                    assert_eq!(
                        objects.iter().filter(|one| **one == key).count(),
                        1,
                        "{key}"
                    );
                    let queue = format!("t_q{reader}");
                    let got = |one: &&(String, usize)| one.0 == queue && one.1 == other;
                    assert_eq!(messages.iter().filter(got).count(), 1, "{queue} {other}");
                }
                let before = (reader + workers - 1) % workers;
                assert_eq!(
                    ways.iter().filter(|way| **way == (before, *reader)).count(),
                    1
                );
            }
        }
    }
}
