//! The kinds of verdict on a claim, and what each says for the claim.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kind::ClaimKind;

/// The kind of a verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The observed value of a paper's claim lies in the band.
    Reproduced,
    /// A factor lies on the published side of 1, but outside the band.
    DirectionOnly,
    /// The observed value of a paper's claim lies outside the band.
    NotReproduced,
    /// The two cannot be compared, or the interval crosses the band's edge.
    Undecided,
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
    pub const ALL: [Self; 9] = [
        Self::Reproduced,
        Self::DirectionOnly,
        Self::NotReproduced,
        Self::Undecided,
        Self::ByConstruction,
        Self::Holds,
        Self::Fails,
        Self::NotRun,
        Self::Infeasible,
    ];

    /// Returns it as written in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reproduced => "reproduced",
            Self::DirectionOnly => "direction only",
            Self::NotReproduced => "not reproduced",
            Self::Undecided => "undecided",
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

    /// Returns the verdict in the words for claims of `kind`: what a paper
    /// states is reproduced or not; a check or an own finding holds or fails.
    pub fn for_kind(self, kind: ClaimKind) -> Self {
        match self {
            Self::Reproduced if !kind.is_of_paper() => Self::Holds,
            Self::NotReproduced if !kind.is_of_paper() => Self::Fails,
            _ => self,
        }
    }

    /// Returns whether a claim of `kind` can have this verdict.
    pub fn can_be_of(self, kind: ClaimKind) -> bool {
        match self {
            Self::Reproduced | Self::DirectionOnly | Self::NotReproduced | Self::ByConstruction => {
                kind.is_of_paper()
            }
            Self::Holds | Self::Fails => !kind.is_of_paper(),
            Self::Undecided | Self::NotRun | Self::Infeasible => true,
        }
    }

    /// Returns how much the verdict says for a paper's statement, from 0 (against
    /// it) to 3 (confirmed). The verdict on a check or an own finding never says
    /// more than that a paper's statement is open.
    ///
    /// This is the order in which no change of a claim's kind, source, metric or
    /// `of` may improve its verdict.
    pub fn support(self) -> u8 {
        match self {
            Self::NotReproduced | Self::Fails => 0,
            Self::Undecided
            | Self::ByConstruction
            | Self::Holds
            | Self::NotRun
            | Self::Infeasible => 1,
            Self::DirectionOnly => 2,
            Self::Reproduced => 3,
        }
    }

    /// Returns whether it is an agreement, whole or in direction only.
    pub fn agrees(self) -> bool {
        matches!(self, Self::Reproduced | Self::DirectionOnly)
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
