//! Names by which the workers of a system address each other, so that a simulation may run
//! one worker for many that are alike.

use std::ops::Range;

/// Whether one worker of a system can stand for others in a simulation of sizes.
///
/// Only a system whose requests grow with W² states it: of others every worker is simulated. It is
/// stated and not derived from the requests of a few workers: these do not show whom a late worker
/// delays with many, nor tell a rank in a name from an epoch of the same number, and a pattern that is
/// wrong gives wrong figures without an error. The simulator's tests compare representatives with
/// everyone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Symmetry {
    /// Every worker is simulated: their requests grow with W.
    Everyone,
    /// Workers beside the first are alike.
    Alike(Alike),
    /// Requests grow with W², and workers are not alike.
    Unlike {
        /// The setting that can be simulated with more workers.
        instead: &'static str,
    },
}

/// Patterns of the names by which alike workers address each other.
///
/// In a pattern `{from}` is the rank of the worker that writes, `{to}` that of the worker that
/// reads, and `{n}` any other number. A pattern matches the end of a name; one that begins with
/// a number, a whole name. The first pattern that matches counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Alike {
    /// Keys in the object store.
    pub objects: &'static [&'static str],
    /// Names of queues. A queue without a rank is read by one worker, or counted by all.
    pub queues: &'static [&'static str],
    /// First byte of the sender's rank in a message, u32 little-endian, where messages have it.
    pub sender_at: Option<usize>,
    /// Use of the peers' tensor stores.
    pub stores: StoreUse,
    /// Whether one worker stands for others also where single events are drawn: whoever reads
    /// waits for each writer, and uses nothing that many readers share.
    pub drawn: bool,
}

/// Number of alike workers that use one tensor store at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum StoreUse {
    /// One: each worker is at another store.
    #[default]
    Apart,
    /// All of them while they read in this function; one otherwise.
    TogetherIn(&'static str),
}

/// The ranks in a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Parties<'a> {
    name: &'a str,
    from: Option<(usize, Range<usize>)>,
    to: Option<(usize, Range<usize>)>,
}

impl<'a> Parties<'a> {
    /// Reads the ranks in `name` by the first of `patterns` that matches.
    pub fn read(patterns: &[&str], name: &'a str) -> Option<Self> {
        patterns.iter().find_map(|pattern| matched(pattern, name))
    }

    /// Returns the rank of the worker that writes.
    pub fn from(&self) -> Option<usize> {
        self.from.as_ref().map(|(rank, _)| *rank)
    }

    /// Returns the rank of the worker that reads.
    pub fn to(&self) -> Option<usize> {
        self.to.as_ref().map(|(rank, _)| *rank)
    }

    /// Returns the name with the writer's rank replaced.
    #[must_use]
    pub fn written_by(&self, rank: usize) -> String {
        match &self.from {
            Some((_, place)) => {
                let (before, after) = (&self.name[..place.start], &self.name[place.end..]);
                format!("{before}{rank}{after}")
            }
            None => self.name.to_owned(),
        }
    }
}

/// Reads `name` by one pattern, from its end.
fn matched<'a>(pattern: &str, name: &'a str) -> Option<Parties<'a>> {
    let mut parties = Parties {
        name,
        from: None,
        to: None,
    };
    let (mut pattern, mut rest) = (pattern, name);
    let mut begins_with_number = false;
    while !pattern.is_empty() {
        begins_with_number = pattern.ends_with('}');
        if !begins_with_number {
            let literal = pattern.rfind('}').map_or(0, |end| end + 1);
            rest = rest.strip_suffix(&pattern[literal..])?;
            pattern = &pattern[..literal];
            continue;
        }
        let field = pattern.rfind('{')?;
        let digits = rest.bytes().rev().take_while(u8::is_ascii_digit).count();
        let place = rest.len() - digits..rest.len();
        let number = rest[place.clone()].parse().ok()?;
        rest = &rest[..place.start];
        match &pattern[field..] {
            "{from}" => parties.from = Some((number, place)),
            "{to}" => parties.to = Some((number, place)),
            _ => {}
        }
        pattern = &pattern[..field];
    }
    (!begins_with_number || rest.is_empty()).then_some(parties)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn patterns_find_ranks_and_nothing_else() {
        let patterns = ["{to}_{from}_{n}_{n}", "{from}_{n}_{n}"];
        let chunk = Parties::read(&patterns, "12_7_0_3").unwrap();
        assert_eq!((chunk.to(), chunk.from()), (Some(12), Some(7)));
        assert_eq!(chunk.written_by(1000), "12_1000_0_3");
        let merged = Parties::read(&patterns, "7_0_13").unwrap();
        assert_eq!((merged.to(), merged.from()), (None, Some(7)));
        for other in ["log_7_0_3", "7_0", "7_0_", "", "a_7_0_3"] {
            assert_eq!(Parties::read(&patterns, other), None, "{other}");
        }
        let queues = ["_sync_{n}_{to}", "_peer{from}"];
        let read = |name| Parties::read(&queues, name).map(|found| (found.from(), found.to()));
        assert_eq!(read("trial_5_sync_2_31"), Some((None, Some(31))));
        assert_eq!(read("trial_5_peer4"), Some((Some(4), None)));
        assert_eq!(read("trial_5_sync_2"), None);
    }
}
