//! How many verdicts there are of each kind.

use std::collections::BTreeMap;

use epochcost_spec::claims::{ClaimKind, VerdictKind};
use serde::{Deserialize, Serialize};

use super::summary::Verdict;

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
