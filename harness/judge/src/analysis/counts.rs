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
    /// Verdicts on printed figures of papers.
    #[serde(alias = "values")]
    pub figures: ByVerdict,
    /// Verdicts on statements of papers.
    #[serde(alias = "rankings")]
    pub statements: ByVerdict,
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
            let of_kind = counts.of_kind(verdict);
            *of_kind.entry(verdict.verdict).or_default() += 1;
            counts.unexpected += usize::from(is_unexpected);
        }
        counts
    }

    fn of_kind(&mut self, verdict: &Verdict) -> &mut ByVerdict {
        match verdict.kind {
            ClaimKind::Published if verdict.is_on_figure() => &mut self.figures,
            ClaimKind::Published => &mut self.statements,
            ClaimKind::Consequence => &mut self.consequences,
            ClaimKind::Check => &mut self.checks,
            ClaimKind::Own => &mut self.own,
        }
    }

    /// Returns the counts with the names that reports give them, in their order.
    pub fn named(&self) -> [(&'static str, &ByVerdict); 5] {
        [
            ("printed figures", &self.figures),
            ("statements", &self.statements),
            ("consequences", &self.consequences),
            ("own findings", &self.own),
            ("checks", &self.checks),
        ]
    }

    /// Returns the number of verdicts of each kind, on claims of every kind.
    pub fn all(&self) -> ByVerdict {
        let mut all = ByVerdict::new();
        for (kind, count) in self.named().into_iter().flat_map(|(_, counts)| counts) {
            *all.entry(*kind).or_default() += count;
        }
        all
    }

    /// Returns the number of checks that hold, "20 of 20 checks hold"; nothing if
    /// there are none.
    pub fn checks_hold(&self) -> Option<String> {
        let all: usize = self.checks.values().sum();
        let hold = self.checks.get(&VerdictKind::Holds).copied().unwrap_or(0);
        let are = match all {
            1 => "check holds",
            _ => "checks hold",
        };
        (all > 0).then(|| format!("{hold} of {all} {are}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A printed figure has a cell. A statement that gives a value, and one that was not run, so
    /// that nothing is known of its formula, are statements.
    #[test]
    fn what_a_paper_prints_is_a_figure_and_all_else_a_statement() {
        let verdict = |kind: &str, cell: Option<&str>, ranking: bool, word: &str| -> Verdict {
            let verdict = json!({
                "claim": "a", "kind": kind, "statement": "a", "unit": "", "cell": cell,
                "published": 6.0, "ranking": ranking, "band": [null, null], "verdict": word,
                "reason": "",
            });
            serde_json::from_value(verdict).unwrap()
        };
        let all = [
            verdict("published", Some("t.csv:2:puts"), false, "agrees"),
            verdict("published", None, false, "differs"),
            verdict("published", None, false, "not_run"),
            verdict("published", None, true, "open"),
            verdict("consequence", Some("t.csv:2:usd"), false, "agrees"),
        ];
        let counts = Counts::of(all.iter().map(|verdict| (verdict, false)));
        let words = |counts: &ByVerdict| counts.keys().copied().collect::<Vec<_>>();
        let statements = [VerdictKind::Open, VerdictKind::Differs, VerdictKind::NotRun];
        assert_eq!(words(&counts.figures), [VerdictKind::Agrees]);
        assert_eq!(words(&counts.statements), statements);
        assert_eq!(words(&counts.consequences), [VerdictKind::Agrees]);
    }
}
