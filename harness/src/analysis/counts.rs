//! How many verdicts there are of each kind, and how many of a paper's
//! statements were confirmed independently.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::summary::Verdict;
use crate::claims::{ClaimKind, VerdictKind};

/// Numbers of verdicts, by kind.
pub type ByVerdict = BTreeMap<VerdictKind, usize>;

/// Number of verdicts by kind of claim and of verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Verdicts on published figures.
    pub values: ByVerdict,
    /// Verdicts on published rankings.
    pub rankings: ByVerdict,
    /// Verdicts on consequences of both: not counted among them.
    pub consequences: ByVerdict,
    /// Verdicts on invariants of this program.
    pub checks: ByVerdict,
    /// Verdicts on this project's own findings.
    pub own: ByVerdict,
    /// Number of verdicts of every kind that are not as expected.
    pub unexpected: usize,
}

/// Statements of papers that were confirmed independently: published, no
/// consequence of another, reproduced, and resting on nothing that was fitted to
/// figures of the same paper. A statement that several claims make is one, and it is
/// confirmed only if none of them disagrees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreements {
    /// Published figures, each by one claim on it.
    pub values: Vec<String>,
    /// Published rankings, each by one claim on it.
    pub rankings: Vec<String>,
}

impl Counts {
    /// Counts verdicts, each with whether it is unexpected.
    pub fn of<'a>(verdicts: impl Iterator<Item = (&'a Verdict, bool)>) -> Self {
        let mut counts = Self::default();
        for (verdict, is_unexpected) in verdicts {
            let of_kind = counts.of_kind(verdict.kind, verdict.ranking);
            *of_kind.entry(verdict.verdict).or_default() += 1;
            counts.unexpected += usize::from(is_unexpected);
        }
        counts
    }

    fn of_kind(&mut self, kind: ClaimKind, is_ranking: bool) -> &mut ByVerdict {
        match (kind, is_ranking) {
            (ClaimKind::Published, true) => &mut self.rankings,
            (ClaimKind::Published, false) => &mut self.values,
            (ClaimKind::Consequence, _) => &mut self.consequences,
            (ClaimKind::Check, _) => &mut self.checks,
            (ClaimKind::Own, _) => &mut self.own,
        }
    }

    /// Returns the counts with the names that reports give them, in their order.
    pub fn named(&self) -> [(&'static str, &ByVerdict); 5] {
        [
            ("published values", &self.values),
            ("published rankings", &self.rankings),
            ("consequences", &self.consequences),
            ("own findings", &self.own),
            ("checks", &self.checks),
        ]
    }

    /// Returns the number of checks that hold, "20 of 20 checks hold"; nothing if
    /// there are none.
    pub fn checks_hold(&self) -> Option<String> {
        let all: usize = self.checks.values().sum();
        let hold = self.checks.get(&VerdictKind::Holds).copied().unwrap_or(0);
        let (noun, verb) = if all == 1 {
            ("check", "holds")
        } else {
            ("checks", "hold")
        };
        (all > 0).then(|| format!("{hold} of {all} {noun} {verb}"))
    }
}

impl Agreements {
    /// Returns the agreements among verdicts.
    pub fn among<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let mut agreements = Self::default();
        let published = verdicts.filter(|verdict| verdict.kind == ClaimKind::Published);
        let published: Vec<&Verdict> = published.collect();
        // Statements that a claim disagrees with are confirmed by no other; each counts once.
        let disagrees = |verdict: &&&Verdict| verdict.verdict.differs();
        let refuted = published.iter().filter(disagrees);
        let mut known: BTreeSet<&str> = refuted.map(|verdict| verdict.statement.as_str()).collect();
        for verdict in published {
            let agrees = verdict.verdict.agrees();
            if !agrees || !known.insert(verdict.statement.as_str()) {
                continue;
            }
            let list = if verdict.ranking {
                &mut agreements.rankings
            } else {
                &mut agreements.values
            };
            list.push(verdict.claim.clone());
        }
        agreements
    }

    /// Returns their number in a sentence, each named where there are no more
    /// than five.
    pub fn sentence(&self) -> String {
        let plural = |count: usize, one: &str| match count {
            1 => format!("1 {one}"),
            _ => format!("{count} {one}s"),
        };
        let (values, rankings) = (self.values.len(), self.rankings.len());
        let total = plural(values + rankings, "independent agreement");
        if values + rankings == 0 {
            return format!("{total} with the papers.");
        }
        let named = |count: String, claims: &[String]| match claims.len() {
            1..=5 => format!("{count} ({})", claims.join("; ")),
            _ => count,
        };
        format!(
            "{total} with the papers: {}, {}.",
            named(plural(values, "value"), &self.values),
            named(plural(rankings, "ranking"), &self.rankings)
        )
    }
}
