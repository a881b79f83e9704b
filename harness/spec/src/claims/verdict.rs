//! The kinds of verdict on a claim, and what each says for the claim.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kind::ClaimKind;

/// The kind of a verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The observed value makes a paper's claim at least ten times as likely as one that is off by
    /// a factor of two; a comparison holds in 95 % of draws.
    Agrees,
    /// It makes it at least three times as likely.
    RatherAgrees,
    /// The two cannot be compared, or the observed value does not decide.
    Open,
    /// The observed value makes a paper's claim at least three times less likely.
    RatherDiffers,
    /// It makes it at least ten times less likely; a comparison holds in 5 % of draws at most.
    Differs,
    /// The observed figure rests on the published one, or on others of the same
    /// paper: it does not confirm the claim.
    ByConstruction,
    /// The observed value of a check or an own finding lies in its limits.
    Holds,
    /// The observed value of a check or an own finding lies outside its limits.
    Fails,
    /// No trial of the row ended well, or no row was selected.
    NotRun,
    /// A named limit makes it impossible to run.
    Infeasible,
}

impl VerdictKind {
    /// Every kind, in the order in which reports count them.
    pub const ALL: [Self; 10] = [
        Self::Agrees,
        Self::RatherAgrees,
        Self::Open,
        Self::RatherDiffers,
        Self::Differs,
        Self::ByConstruction,
        Self::Holds,
        Self::Fails,
        Self::NotRun,
        Self::Infeasible,
    ];

    /// Returns it as written in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::RatherAgrees => "rather agrees",
            Self::Open => "open",
            Self::RatherDiffers => "rather differs",
            Self::Differs => "differs",
            Self::ByConstruction => "by construction",
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::NotRun => "not run",
            Self::Infeasible => "infeasible",
        }
    }

    /// Returns its name in experiments and results.
    pub fn key(self) -> String {
        self.as_str().replace(' ', "_")
    }

    /// Returns the verdict of that name.
    pub fn named(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.key() == key)
    }

    /// Returns the verdict in the words for claims of `kind`: what a paper
    /// states agrees or differs; a check or an own finding holds or fails.
    pub fn for_kind(self, kind: ClaimKind) -> Self {
        match self {
            Self::Agrees if !kind.is_of_paper() => Self::Holds,
            Self::Differs if !kind.is_of_paper() => Self::Fails,
            _ => self,
        }
    }

    /// Returns how much the verdict says for a paper's statement, from 0 (against
    /// it) to 4 (confirmed). The verdict on a check or an own finding never says
    /// more than that a paper's statement is open.
    pub fn support(self) -> u8 {
        match self {
            Self::Differs | Self::Fails => 0,
            Self::RatherDiffers => 1,
            Self::Open | Self::ByConstruction | Self::Holds | Self::NotRun | Self::Infeasible => 2,
            Self::RatherAgrees => 3,
            Self::Agrees => 4,
        }
    }

    /// Returns whether it is an agreement, strong or weak.
    pub fn agrees(self) -> bool {
        matches!(self, Self::Agrees | Self::RatherAgrees)
    }

    /// Returns whether it speaks against a paper's statement, strongly or weakly.
    pub fn differs(self) -> bool {
        matches!(self, Self::Differs | Self::RatherDiffers)
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A claim with a recorded verdict that no experiment makes any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// The claim.
    pub claim: String,
    /// The id of its statement, or its cell; empty if the paper has neither any more.
    pub of: String,
}
