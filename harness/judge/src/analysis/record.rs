//! A reproduction beside the recorded verdicts of the papers' folders.

use std::collections::BTreeMap;

use epochcost_spec::claims::VerdictKind;
use serde::{Deserialize, Serialize};

use super::items::{ItemOverview, JudgedClaim};

/// Comparison of a reproduction with the recorded verdicts, claim by claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordComparison {
    /// Number of claims of papers with a recorded verdict and one of this reproduction.
    pub compared: usize,
    /// Number of claims of papers that were judged and are not compared: their items were not run
    /// whole, on the platform itself.
    #[serde(default, skip_serializing_if = "is_none")]
    pub not_compared: usize,
    /// Those with another verdict than recorded.
    pub different: Vec<Difference>,
    /// Claims without a recorded verdict: `ITEM: CLAIM`.
    pub new: Vec<String>,
    /// Claims with a recorded verdict that no experiment makes: `ITEM: CLAIM`.
    pub lost: Vec<String>,
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

/// A claim with two verdicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The item.
    pub item: String,
    /// The claim.
    pub claim: String,
    /// Verdict in the record.
    pub recorded: VerdictKind,
    /// Verdict of this reproduction.
    pub now: VerdictKind,
}

impl RecordComparison {
    /// Compares the items that were run whole, and those that are gone.
    pub(super) fn of(items: &[ItemOverview]) -> Self {
        let mut comparison = Self::default();
        let of_paper = |claim: &&JudgedClaim| claim.verdict.kind.is_of_paper();
        let (told, others): (Vec<_>, Vec<_>) = items.iter().partition(|item| item.is_told());
        let run = others.into_iter().filter(|item| item.run.is_some());
        let run = run.flat_map(|item| &item.claims);
        comparison.not_compared = run.filter(of_paper).count();
        for item in told {
            for lost in &item.lost {
                comparison.lost.push(format!("{}: {}", item.id, lost.claim));
            }
            for claim in item.claims.iter().filter(of_paper) {
                let verdict = &claim.verdict;
                let Some(recorded) = verdict.expect else {
                    (comparison.new).push(format!("{}: {}", item.id, verdict.claim));
                    continue;
                };
                comparison.compared += 1;
                if recorded != verdict.verdict {
                    comparison.different.push(Difference {
                        item: item.id.clone(),
                        claim: verdict.claim.clone(),
                        recorded,
                        now: verdict.verdict,
                    });
                }
            }
        }
        comparison
    }

    /// Returns whether a verdict changed, is new, or was lost.
    pub fn differs(&self) -> bool {
        !(self.different.is_empty() && self.new.is_empty() && self.lost.is_empty())
    }

    /// Returns it in sentences; nothing where no claim of a paper was judged.
    pub fn text(&self) -> String {
        if self.compared == 0 && !self.differs() {
            return String::new();
        }
        let same = self.compared - self.different.len();
        let mut text = format!("{same} of {} verdicts are as recorded", self.compared);
        for (count, what) in [(self.new.len(), "new"), (self.lost.len(), "lost")] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        if self.not_compared > 0 {
            let count = self.not_compared;
            text.push_str(&format!(
                "; {count} of items that were not run whole are not compared"
            ));
        }
        text.push('.');
        text
    }

    /// Returns a line for each claim that differs or was lost, and one for each item with new ones.
    pub fn lines(&self) -> Vec<String> {
        let different = self.different.iter().map(|line| {
            let words = format!("{} recorded, {} now", line.recorded, line.now);
            format!("{}: {}: {words}", line.item, line.claim)
        });
        let mut items: BTreeMap<&str, usize> = BTreeMap::new();
        for line in &self.new {
            let item = line.split_once(": ").map_or(&**line, |(item, _)| item);
            *items.entry(item).or_default() += 1;
        }
        let new = items.into_iter().map(|(item, count)| match count {
            1 => format!("{item}: 1 claim without a recorded verdict"),
            _ => format!("{item}: {count} claims without a recorded verdict"),
        });
        let lost = self.lost.iter();
        let lost = lost.map(|line| format!("{line}: recorded, and claimed no more"));
        different.chain(new).chain(lost).collect()
    }
}
