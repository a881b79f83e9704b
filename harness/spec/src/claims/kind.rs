//! The kinds of claim: whose statement a claim repeats, and how it is counted.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whose statement a claim repeats. It decides which verdicts the claim can have
/// and where it is counted.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// A figure or a ranking that a paper prints.
    #[default]
    Published,
    /// A published figure that is another claim's figure times constants: shown
    /// with that claim, and counted with it.
    Consequence,
    /// An invariant of this program.
    Check,
    /// A finding of this project.
    Own,
}

impl ClaimKind {
    /// Every kind, in the order in which reports count them.
    pub const ALL: [Self; 4] = [Self::Published, Self::Consequence, Self::Check, Self::Own];

    /// Returns its name in experiments and results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Consequence => "consequence",
            Self::Check => "check",
            Self::Own => "own",
        }
    }

    /// Returns whether a claim of this kind repeats what a paper prints.
    pub fn is_of_paper(self) -> bool {
        matches!(self, Self::Published | Self::Consequence)
    }
}

impl fmt::Display for ClaimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
