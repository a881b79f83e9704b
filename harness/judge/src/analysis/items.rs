//! The items of a reproduction, and the claims of each with their verdicts.

use std::path::PathBuf;

use epochcost_platform::{Figures, aws_plan, figures_of};
use epochcost_record::ItemState;
use epochcost_spec::claims::{Lost, VerdictKind};
use serde::{Deserialize, Serialize};

use super::counts::Counts;
use super::summary::Verdict;

/// A table or figure of a paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemOverview {
    /// `paper/item`.
    pub id: String,
    /// The paper.
    pub paper: String,
    /// Purpose of the experiment.
    pub description: String,
    /// Outcome.
    pub state: ItemState,
    /// Why it is not done; null if it is.
    pub why: Option<String>,
    /// Run directory, relative to this file's.
    pub run: Option<PathBuf>,
    /// The run's id.
    pub run_id: Option<String>,
    /// SHA-256 of the run's resolved experiment.
    pub experiment_sha256: Option<String>,
    /// Commit of the sources that it was run in; null outside a repository.
    pub commit: Option<String>,
    /// Platform that it ran on or would run on; null if its file is invalid.
    pub platform: Option<String>,
    /// Whether other servers than the platform's answered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rehearsed: bool,
    /// The platform profile of a simulated run.
    pub profile: Option<String>,
    /// Size of the run directory, bytes; null without a run.
    pub bytes: Option<u64>,
    /// What its form changes, fields as `--set` takes them; empty of the experiment itself.
    pub reduced: Vec<String>,
    /// Trials that ended, failed ones included.
    pub trials: usize,
    /// Trials that failed, and that no claim expected to fail.
    pub failed_trials: usize,
    /// Verdicts.
    pub counts: Counts,
    /// Every claim with its verdict.
    pub claims: Vec<JudgedClaim>,
    /// Claims with a recorded verdict that the experiment no longer makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
}

/// A claim, its verdict, and the origin of the observed figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedClaim {
    /// Origin of the observed figure.
    pub how: How,
    /// The recorded verdict of a claim that was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<VerdictKind>,
    /// Whether it is as expected. Nothing is expected of an item that was not run.
    pub unexpected: bool,
    /// The verdict.
    pub verdict: Verdict,
}

/// The origin of an observed figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Measured on processes that ran.
    Measured,
    /// Computed in virtual time from a profile.
    Simulated,
    /// Computed from what was put in.
    ByConstruction,
    /// No figure was observed.
    NotRun,
}

impl How {
    /// Origins of an item's figures, in their order on pages.
    pub const OF_ITEMS: [Self; 3] = [Self::Measured, Self::Simulated, Self::NotRun];

    /// Returns it as pages write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Simulated => "simulated",
            Self::ByConstruction => "by construction",
            Self::NotRun => "not run",
        }
    }

    pub(super) fn of(kind: VerdictKind, platform: &str) -> Self {
        match (kind, figures_of(platform)) {
            (VerdictKind::NotRun | VerdictKind::Infeasible, _) => Self::NotRun,
            (VerdictKind::ByConstruction, _) => Self::ByConstruction,
            (_, Figures::Simulated) => Self::Simulated,
            (_, Figures::Measured) => Self::Measured,
        }
    }
}

impl ItemOverview {
    /// Returns the origin of its figures: measured and simulated ones are never added up.
    pub fn origin(&self) -> How {
        match (&self.run, self.platform.as_deref().map(figures_of)) {
            (None, _) => How::NotRun,
            (Some(_), Some(Figures::Simulated)) => How::Simulated,
            (Some(_), _) => How::Measured,
        }
    }

    /// Returns whether its claims are all that it makes: it was run to its end, as it is, or has
    /// no file any more.
    pub fn is_told(&self) -> bool {
        self.is_whole() || self.state == ItemState::Gone
    }

    /// Returns whether it was run to its end, as it is or in its form for a platform, and there.
    pub fn is_whole(&self) -> bool {
        let form = self.id.rsplit_once('.').map(|(_, form)| form);
        let is_observed = self.reduced.is_empty() || form == Some(aws_plan::NAME);
        self.state == ItemState::Done && is_observed && !self.rehearsed
    }
}

/// Returns the papers of items, each once, in their order.
pub fn papers(items: &[ItemOverview]) -> Vec<&str> {
    let mut papers: Vec<&str> = Vec::new();
    for item in items {
        if !papers.contains(&&*item.paper) {
            papers.push(&item.paper);
        }
    }
    papers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its deviations are stated; what is made smaller for a quick look is no observation.
    #[test]
    fn a_form_for_a_platform_is_observed_on_it_alone() {
        for (id, reduced, rehearsed, is_whole) in [
            ("p/table2", false, false, true),
            ("p/table2", false, true, false),
            ("p/table2.quick", true, false, false),
            ("p/table2.aws", true, false, true),
            ("p/table2.aws", true, true, false),
        ] {
            let item = serde_json::json!({
                "id": id, "paper": "p", "description": "", "state": "done", "trials": 1,
                "failed_trials": 0, "counts": Counts::default(), "claims": [],
                "reduced": if reduced { vec!["trials=1"] } else { Vec::new() },
                "rehearsed": rehearsed,
            });
            let item: ItemOverview = serde_json::from_value(item).unwrap();
            assert_eq!(item.is_whole(), is_whole, "{id} {rehearsed}");
        }
    }
}
