//! `reproduction.json`: which items were asked for together, and what became of each.

use std::path::{Path, PathBuf};

use epochcost_spec::claims::{Claim, Lost};
use serde::{Deserialize, Serialize};

use super::head::read_sealed;
use super::seal::seal_file;
use super::whole::replace;
use super::{ResultsError, SchemaVersion};

/// The file's name.
const FILE: &str = "reproduction.json";

/// The version that this program writes.
pub const REPRODUCTION_VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

/// Several runs that are reported on one page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// The format's version.
    pub schema_version: SchemaVersion,
    /// Papers and items that were asked for; all, if there are none.
    pub asked: Vec<String>,
    /// Whether long items were reduced or left out.
    pub quick: bool,
    /// The platform that items were limited to.
    pub platform: Option<String>,
    /// Number of items that there were to choose from.
    pub catalogue: usize,
    /// When visits began that spread trials over days; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits: Option<Visits>,
    /// Every item that was asked for.
    pub items: Vec<Item>,
}

/// Visits that spread the trials of items evenly over days.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Visits {
    /// Time of the first one, seconds since the Unix epoch.
    pub began_s: f64,
    /// Days over which they go.
    pub days: f64,
}

/// A table or figure of a paper, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// `paper/item`, and `.aws` of the form for AWS.
    pub id: String,
    /// Purpose of the experiment.
    pub description: String,
    /// Platform; null if its file is invalid.
    pub platform: Option<String>,
    /// Outcome.
    pub state: ItemState,
    /// Why it is not done; null if it is.
    pub why: Option<String>,
    /// Run directory, relative to the directory of this file.
    pub run: Option<PathBuf>,
    /// What its form changes, fields as `--set` takes them; empty of the experiment itself.
    pub reduced: Vec<String>,
    /// Claims that its rows are compared with. Where there is a run, the run's own
    /// claims count.
    pub claims: Vec<Claim>,
    /// Claims with a recorded verdict that the experiment no longer makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Lost>,
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemState {
    /// All its trials were run, some of which may have failed.
    Done,
    /// An interrupt came before its last trial.
    Incomplete,
    /// An error kept it from being run to its end.
    Failed,
    /// This machine or build lacks what it needs.
    CannotRun,
    /// `--quick` or `--platform` leave it out.
    LeftOut,
    /// An interrupt came before its first trial.
    NotReached,
    /// It has recorded verdicts and no file.
    Gone,
}

impl ItemState {
    /// Returns the state as it is written in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
            Self::CannotRun => "cannot run here",
            Self::LeftOut => "left out",
            Self::NotReached => "not reached",
            Self::Gone => "gone",
        }
    }
}

impl Item {
    /// Creates one that has recorded verdicts and no file.
    pub fn gone(id: String, lost: Vec<Lost>) -> Self {
        let why = "it has recorded verdicts and no file; --accept forgets them";
        Self {
            id,
            description: String::new(),
            platform: None,
            state: ItemState::Gone,
            why: Some(why.into()),
            run: None,
            reduced: Vec::new(),
            claims: Vec::new(),
            lost,
        }
    }

    /// Returns the part of its id before the first `/`.
    pub fn paper(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }
}

impl Reproduction {
    /// Returns whether a directory holds one.
    pub fn is_in(directory: &Path) -> bool {
        directory.join(FILE).is_file()
    }

    /// Reads the one of a directory.
    ///
    /// # Errors
    /// When its format is another one, or the file is damaged.
    pub fn read(directory: &Path) -> Result<Self, ResultsError> {
        read_sealed(directory, &directory.join(FILE), REPRODUCTION_VERSION)
    }

    /// Writes it into a directory, whole or not at all.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn write(&self, directory: &Path) -> Result<(), ResultsError> {
        let path = directory.join(FILE);
        let mut text = super::pretty(&path, self)?;
        seal_file(&mut text);
        replace(&path, &text)
    }
}
