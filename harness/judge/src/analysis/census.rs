//! What several items observe of a paper: each of its figures and statements once.

use std::collections::{BTreeMap, BTreeSet};

use epochcost_spec::claims::{ClaimKind, VerdictKind};

use super::items::{How, ItemOverview};
use super::standing::{self, Standing};
use super::summary::Verdict;

/// Statements that are named in a sentence; more are counted.
const NAMED: usize = 3;

/// Whether a word is of a kind.
pub type Kind = fn(VerdictKind) -> bool;

/// An observation: the item that has it, and its verdict.
pub struct Observation<'a> {
    /// The item.
    pub item: &'a ItemOverview,
    /// Its verdict.
    pub verdict: &'a Verdict,
    /// What the verdict rests on.
    pub standing: Standing,
}

/// What items observe of a paper.
#[derive(Default)]
pub struct Census<'a> {
    /// Printed figures, by `FILE:LINE:COLUMN`.
    pub figures: BTreeMap<String, Vec<Observation<'a>>>,
    /// Statements by id, each by claim: one for each instance.
    pub statements: BTreeMap<&'a str, BTreeMap<&'a str, Vec<Observation<'a>>>>,
    /// Statements that are readings of another, with that one.
    readings: BTreeMap<&'a str, &'a str>,
    /// Statements and cells of which a recorded observation that does not agree is missing: what is
    /// left of them does not agree for want of it.
    lost: BTreeSet<&'a str>,
}

/// The word on a statement, and those on its instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The word.
    pub word: VerdictKind,
    /// Number of instances that agree.
    pub agree: usize,
    /// Number of those that differ.
    pub differ: usize,
    /// Number of all instances.
    pub instances: usize,
}

impl<'a> Census<'a> {
    /// Brings the observations of a paper together.
    pub fn of(items: impl Iterator<Item = &'a ItemOverview>) -> Self {
        let mut census = Self::default();
        let mut claims = Vec::new();
        for item in items {
            census.lost.extend(item.lost.iter().map(|lost| &*lost.of));
            claims.extend(item.claims.iter().map(|claim| (item, claim)));
        }
        for (item, claim) in claims {
            let verdict = &claim.verdict;
            if !verdict.kind.is_of_paper() {
                continue;
            }
            if claim.how == How::NotRun {
                let is_observed = |word: &VerdictKind| *word != VerdictKind::NotRun;
                let recorded = claim.recorded.filter(is_observed);
                if recorded.is_some_and(|word| !word.agrees()) {
                    census.lost.insert(subject(verdict));
                }
                continue;
            }
            if let Some(of) = &verdict.reading_of {
                census.readings.insert(subject(verdict), of);
            }
            let observation = Observation {
                item,
                verdict,
                standing: standing::of(verdict, claim.how),
            };
            match verdict.figure() {
                Some(cell) => {
                    let of_cell = census.figures.entry(cell.to_string()).or_default();
                    of_cell.push(observation);
                }
                None => {
                    let of_id = census.statements.entry(subject(verdict)).or_default();
                    of_id.entry(&verdict.claim).or_default().push(observation);
                }
            }
        }
        census
    }

    /// Returns the word on a printed figure. Where a paper reads it in several ways, each a table of its
    /// own, they agree or differ together, or it is open.
    pub fn figure(&self, cell: &str) -> VerdictKind {
        let mut readings: BTreeMap<&str, Vec<&Observation<'_>>> = BTreeMap::new();
        for one in self.figures.get(cell).into_iter().flatten() {
            readings.entry(&one.verdict.claim).or_default().push(one);
        }
        let words = readings.into_values().map(|all| word(all.into_iter()));
        self.kept(cell, standing::together(&words.collect::<Vec<_>>()))
    }

    /// Returns a word, open where it agrees and a recorded observation is missing.
    fn kept(&self, of: &str, word: VerdictKind) -> VerdictKind {
        if word.agrees() && self.lost.contains(of) {
            VerdictKind::Open
        } else {
            word
        }
    }

    /// Returns the word on a statement by those on its readings, its own among them: they agree or
    /// differ together, or it is open.
    pub fn readings(&self, id: &str) -> Told {
        let own = self.statements.keys().filter(|own| self.root(own) == id);
        let own: Vec<Told> = own.map(|own| self.statement(own)).collect();
        let sum = |count: fn(&Told) -> usize| own.iter().map(count).sum();
        Told {
            word: standing::together(&own.iter().map(|told| told.word).collect::<Vec<_>>()),
            agree: sum(|told| told.agree),
            differ: sum(|told| told.differ),
            instances: sum(|told| told.instances),
        }
    }

    /// Returns the statement that one is a reading of, or itself.
    fn root<'b>(&'b self, id: &'b str) -> &'b str {
        self.readings.get(id).copied().unwrap_or(id)
    }

    /// Returns the word on a statement, or on one reading of it.
    pub fn statement(&self, id: &str) -> Told {
        let instances = self.statements.get(id).into_iter().flatten();
        let words: Vec<VerdictKind> = instances.map(|(_, all)| word(all.iter())).collect();
        let count = |is_so: Kind| words.iter().filter(|word| is_so(**word)).count();
        Told {
            word: self.kept(id, standing::all(&words)),
            agree: count(VerdictKind::agrees),
            differ: count(VerdictKind::differs),
            instances: words.len(),
        }
    }

    /// Returns how many statements and printed figures agree, differ and are open, then the
    /// statements that agree and those that differ, the strongest first; nothing where nothing is
    /// observed.
    pub fn sentences(&self) -> Vec<String> {
        let roots: BTreeSet<&str> = self.statements.keys().map(|id| self.root(id)).collect();
        let statements = roots.into_iter().map(|id| (id, self.readings(id)));
        let statements: Vec<(&str, Told)> = statements.collect();
        // A figure that follows from another is not counted.
        let is_counted = |one: &Observation<'_>| one.verdict.kind == ClaimKind::Published;
        let figures = (self.figures.iter()).filter(|(_, all)| all.iter().any(is_counted));
        let figures: Vec<VerdictKind> = figures.map(|(cell, _)| self.figure(cell)).collect();
        let words: Vec<VerdictKind> = statements.iter().map(|(_, told)| told.word).collect();
        let counted = [
            counted(&words, ["statement", "statements"]),
            counted(&figures, ["printed figure", "printed figures"]),
        ];
        let counted: Vec<String> = counted.into_iter().flatten().collect();
        if counted.is_empty() {
            return Vec::new();
        }
        let mut sentences = vec![format!("{}.", counted.join("; "))];
        let kinds: [(&str, Kind); 2] = [
            ("Agree", VerdictKind::agrees),
            ("Differ", VerdictKind::differs),
        ];
        for (what, is_so) in kinds {
            let own = statements.iter().filter(|(_, told)| is_so(told.word));
            let mut own: Vec<&(&str, Told)> = own.collect();
            // "agrees" before "rather agrees", then the statement of more instances.
            own.sort_by_key(|(_, told)| {
                use VerdictKind::{RatherAgrees, RatherDiffers};
                let is_weak = matches!(told.word, RatherAgrees | RatherDiffers);
                (is_weak, std::cmp::Reverse(told.instances))
            });
            let named: Vec<String> = own.iter().map(|(id, _)| self.says(id)).collect();
            if let Some(list) = listed(&named) {
                sentences.push(format!("{what}: {list}."));
            }
        }
        sentences
    }

    /// Returns what a statement says: what its claims begin with alike.
    fn says(&self, id: &str) -> String {
        let reading = || self.readings.iter().find(|(_, of)| **of == id);
        let own = self.statements.get(id);
        let own = own.or_else(|| self.statements.get(reading()?.0));
        let claims: Vec<&str> = own.into_iter().flat_map(BTreeMap::keys).copied().collect();
        let first = claims.first().copied().unwrap_or(id);
        if claims.len() < 2 {
            return first.trim_end_matches('.').to_owned();
        }
        let ends = first.match_indices(": ").map(|(at, _)| &first[..at]);
        let is_shared = |begin: &&str| claims.iter().all(|claim| claim.starts_with(begin));
        let shared = ends.filter(is_shared).last().unwrap_or(first);
        shared.trim_end_matches('.').to_owned()
    }
}

/// Returns the id of the statement that a verdict is on.
fn subject(verdict: &Verdict) -> &str {
    verdict.statement.rsplit(": ").next().unwrap_or_default()
}

/// Returns the word on several observations of one thing.
fn word<'a>(observations: impl Iterator<Item = &'a Observation<'a>>) -> VerdictKind {
    let words = observations.map(|one| {
        let withholds = standing::withholds(one.verdict);
        (one.standing, one.verdict.verdict, withholds)
    });
    standing::combined(&words.collect::<Vec<_>>())
}

/// Returns names in a list, the first few, and how many more; none without one.
pub fn listed(names: &[String]) -> Option<String> {
    let mut named: Vec<String> = names.iter().take(NAMED).cloned().collect();
    match names.len().saturating_sub(NAMED) {
        0 => {}
        more => named.push(format!("and {more} more")),
    }
    (!names.is_empty()).then(|| named.join("; "))
}

/// Returns how many of several words are of each kind; none without one.
fn counted(words: &[VerdictKind], noun: [&str; 2]) -> Option<String> {
    let kinds: [([&str; 2], Kind); 4] = [
        (["agrees", "agree"], VerdictKind::agrees),
        (["differs", "differ"], VerdictKind::differs),
        (["is open", "are open"], |word| word == VerdictKind::Open),
        (["is by construction", "are by construction"], |word| {
            word == VerdictKind::ByConstruction
        }),
    ];
    let parts = kinds.map(|(verbs, is_so)| {
        let count = words.iter().filter(|word| is_so(**word)).count();
        (count > 0).then(|| format!("{count} {}", verbs[usize::from(count != 1)]))
    });
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let noun = noun[usize::from(words.len() != 1)];
    let parts = (!parts.is_empty()).then(|| together(parts))?;
    Some(format!("of {} {noun}, {parts}", words.len()))
}

/// Returns parts of a sentence with commas, and an "and" before the last.
pub(super) fn together(mut parts: Vec<String>) -> String {
    let last = parts.pop().unwrap_or_default();
    match parts.as_slice() {
        [] => last,
        parts => format!("{} and {last}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use VerdictKind::{Agrees, ByConstruction, Differs, Open, RatherAgrees};

    #[test]
    fn words_are_counted_in_a_sentence() {
        let noun = ["statement", "statements"];
        let told = |words: &[VerdictKind]| counted(words, noun);
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[Open]).as_deref(), Some("of 1 statement, 1 is open"));
        let four = told(&[Agrees, RatherAgrees, Differs, ByConstruction]);
        let sentence = "of 4 statements, 2 agree, 1 differs and 1 is by construction";
        assert_eq!(four.as_deref(), Some(sentence));
    }

    #[test]
    fn a_list_names_a_few() {
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(listed(&names[..0]), None);
        assert_eq!(listed(&names[..2]).as_deref(), Some("a; b"));
        assert_eq!(listed(&names).as_deref(), Some("a; b; c; and 2 more"));
    }
}
