//! Validation files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use epochcost_experiment::platforms;
use epochcost_simulator::profile::{Constant, Profile};
use epochcost_spec::chain::chain;
use epochcost_spec::profiles;
use epochcost_spec::rows::StatedConstant;
use epochcost_spec::shipped;
use epochcost_spec::yaml::{self, Fault};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cells::{self, Cell};
use super::score::Target;
use crate::error::{Error, Result};

/// A validation: a data set, its split, and targets.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Version of this format.
    #[schemars(extend("const" = 1))]
    pub(super) schema: u32,
    /// Name: that of the file.
    pub(super) name: String,
    /// The data set in one line.
    pub(super) description: String,
    /// How it was measured, and how it is divided.
    pub(super) about: String,
    /// Origins of the data.
    pub(super) sources: Vec<Source>,
    /// The platform profile, by name or file.
    #[schemars(transform = platforms)]
    pub(super) profile: String,
    /// The data, relative to this file.
    pub(super) data: PathBuf,
    /// Series that constants may be fitted to; every other one is judged.
    pub(super) fit: Vec<String>,
    /// How often an operation is simulated.
    pub(super) repeat: Repeat,
    /// The experiment whose rows are predicted, relative to this file.
    pub(super) experiment: Option<PathBuf>,
    /// Constants of the measured platform that the profile describes otherwise.
    #[serde(default)]
    pub(super) constants: BTreeMap<String, StatedConstant>,
    /// Targets for the judged series.
    pub(super) targets: Vec<Target>,
    /// The file.
    #[serde(skip)]
    pub(super) path: PathBuf,
}

/// The origin of data.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    /// Repository, or publication.
    pub(super) repository: String,
    /// Commit that was read.
    pub(super) commit: String,
    /// Licence of the data.
    pub(super) licence: String,
    /// File or directory in it.
    pub(super) path: String,
    /// What the names of its series begin with; empty: all series are its.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) series: Vec<String>,
}

impl Source {
    /// Returns the author: the owner of the repository, or the publication.
    fn author(&self) -> &str {
        let owner = self.repository.split_once('/');
        owner.map_or(&self.repository, |(owner, _)| owner)
    }
}

/// How often an operation is simulated.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Repeat {
    /// Functions at the same time, in the place of those that were measured.
    #[schemars(range(min = 1, max = 100_000))]
    pub(super) functions: Option<usize>,
    /// Operations of each stream of a function.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) rounds: usize,
}

impl File {
    /// Reads and checks a file; `profile` replaces its own.
    ///
    /// # Errors
    /// When it cannot be read or used.
    pub(super) fn read(path: &Path, profile: Option<&str>) -> Result<Self> {
        let name = path.display().to_string();
        let unusable = |problem: String| Error::Usage {
            problem: format!("failed to read the validation {name}: {problem}"),
            remedy: "docs/PROFILES.md describes the format".to_owned(),
        };
        let text = shipped::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        let limits = |file: &mut Self| {
            let wrong = (file.targets.iter()).position(|target| !target.has_one_limit());
            let fault = wrong.map(|index| Fault {
                path: format!("targets.{index}"),
                problem: "a target has one limit".to_owned(),
                remedy: "give `at_most`, `at_least` or `within`".to_owned(),
            });
            fault.map_or(Ok(()), Err)
        };
        let mut file: Self = yaml::read(&name, &text, limits)
            .map_err(|(problem, remedy)| Error::Usage { problem, remedy })?;
        path.clone_into(&mut file.path);
        if let Some(profile) = profile {
            profile.clone_into(&mut file.profile);
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if stem != Some(&file.name) {
            return Err(unusable(format!("its name is `{}`", file.name)));
        }
        if file.schema != 1 {
            return Err(unusable("this program reads version 1".to_owned()));
        }
        Ok(file)
    }

    /// Returns the platform profile, without the constants that the file states.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn platform(&self) -> Result<Profile<Constant>> {
        Ok(profiles::platform(&self.profile)?)
    }

    /// Returns a path that the file names, relative to where the program runs.
    pub(super) fn beside(&self, named: &Path) -> PathBuf {
        self.path
            .parent()
            .map_or_else(|| named.to_owned(), |parent| parent.join(named))
    }

    /// Returns profile, division and sources in one line.
    pub(super) fn stands_on(&self, profile: &str) -> String {
        let sources = self.sources.iter().map(|source| {
            format!(
                "{} @{} ({}), {}",
                source.repository, source.commit, source.licence, source.path
            )
        });
        let split = if self.fit.is_empty() {
            "held out whole"
        } else {
            "split by series"
        };
        let sources = sources.collect::<Vec<_>>().join("; ");
        format!("profile {profile}; {split}; {sources}")
    }

    /// Returns an error about this file.
    pub(super) fn error(&self, problem: &str) -> Error {
        Error::Usage {
            problem: format!("{}: {problem}", self.path.display()),
            remedy: "docs/PROFILES.md describes the format".to_owned(),
        }
    }

    /// Returns whether it is a judge, which no constant may use: by its directory.
    pub(super) fn is_judge(&self) -> bool {
        let directory = self.path.parent().and_then(Path::file_name);
        directory.is_some_and(|name| name == "judges")
    }

    /// Returns the source of a series, if one is named.
    fn source(&self, series: &str) -> Option<&Source> {
        self.sources.iter().find(|source| {
            let mut prefixes = source.series.iter();
            source.series.is_empty() || prefixes.any(|prefix| series.starts_with(prefix))
        })
    }

    /// Returns the author of a series; the file's name without a source.
    pub(super) fn author(&self, series: &str) -> &str {
        self.source(series).map_or(&self.name, Source::author)
    }

    /// Returns whether a constant of `profile` names the repository of a series as its source.
    pub(super) fn gave_a_constant(&self, series: &str, profile: &Profile<Constant>) -> bool {
        let Some(source) = self.source(series) else {
            return false;
        };
        let names = |text: &str| text.contains(&source.repository);
        profile
            .constants()
            .iter()
            .any(|(_, constant)| names(&constant.source))
            || profile
                .spreads()
                .iter()
                .any(|(_, spread)| names(&spread.source))
    }

    /// Reads the data.
    ///
    /// # Errors
    /// When they cannot be read, or a series that constants may be fitted to is not there.
    pub(super) fn cells(&self) -> Result<Vec<Cell>> {
        let cells = cells::read(&self.beside(&self.data), |_| Ok(self.repeat))
            .map_err(|error| self.error(&chain(&error)))?;
        let is_there = |series: &String| cells.iter().any(|cell| cell.series == *series);
        match self.fit.iter().find(|series| !is_there(series)) {
            None => Ok(cells),
            Some(unknown) => Err(self.error(&format!("`fit`: there is no series `{unknown}`"))),
        }
    }
}
