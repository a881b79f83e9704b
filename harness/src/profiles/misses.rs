//! Errors of the shipped platform profiles on measurements that they were not fitted to.

use std::path::Path;
use std::{fs, io};

use epochcost_simulator::profile::Client;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::yaml;

/// Scores of `epochcost validate --record`.
const OWN: &str = include_str!("../../profiles/validation/own.json");

/// Scores on data that are not in this repository.
const OTHERS: &str = include_str!("../../profiles/validation/others.yaml");

/// Cells of the own sets that are of the same kind as those of other authors.
const COMPARED: &str = "object store";

/// Scores of profiles, as both files keep them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Misses {
    /// Scores, one for each profile.
    pub profiles: Vec<ProfileScores>,
}

/// Scores of a profile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProfileScores {
    /// Name of the profile.
    pub profile: String,
    /// Scores by data set, and of several sets together.
    pub sets: Vec<Score>,
}

/// Score of a profile on the cells of a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Name of the data set, or of several together.
    pub name: String,
    /// Cells that are judged.
    pub cells: usize,
    /// Median of the absolute relative errors; null where a cell cannot be predicted.
    pub median_error: Option<f64>,
    /// Share of the cells inside their range.
    pub coverage: Option<f64>,
}

/// Writes the scores of a profile into a file, in the place of those that it has of it.
///
/// # Errors
/// When the file is of another kind or cannot be written.
pub fn record(path: &Path, profile: &str, sets: Vec<Score>) -> io::Result<()> {
    let mut known = match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Misses::default(),
        Err(error) => return Err(error),
    };
    known.profiles.retain(|known| known.profile != profile);
    known.profiles.push(ProfileScores {
        profile: profile.to_owned(),
        sets,
    });
    known.profiles.sort_by(|a, b| a.profile.cmp(&b.profile));
    fs::write(path, serde_json::to_string_pretty(&known)? + "\n")
}

impl Misses {
    /// Returns the scores of a profile.
    fn of(&self, profile: &str) -> Option<&ProfileScores> {
        self.profiles.iter().find(|known| known.profile == profile)
    }
}

/// Cells, median error and coverage of a profile.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Figures {
    /// Name of the profile.
    profile: String,
    /// Cells that are judged.
    #[schemars(range(min = 1, max = 1_000_000))]
    cells: usize,
    /// Median of the absolute relative errors.
    #[schemars(range(min = 0.0, max = 1e9))]
    median_error: f64,
    /// Share of the cells inside their range.
    #[schemars(range(min = 0.0, max = 1.0))]
    coverage: f64,
}

/// Scores of platform profiles on data of other authors.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Others {
    /// Origins of the data.
    #[serde(rename = "sources")]
    _sources: Vec<String>,
    /// Scores, one for each profile.
    profiles: Vec<Figures>,
}

/// Returns the sentence on what a shipped profile misses by, the larger error first; that it was
/// never compared, where no score of it is known.
pub fn sentence(profile: &str, client: Option<Client>) -> String {
    let mut known: Vec<(Figures, &str)> = Vec::new();
    known.extend(on_others(profile).map(|figures| (figures, "S3 figures of other authors")));
    known.extend(on_own(profile).map(|figures| (figures, "S3 figures of this project's own sets")));
    known.sort_by(|(a, _), (b, _)| b.median_error.total_cmp(&a.median_error));
    if known.is_empty() {
        return unknown(profile, client);
    }
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let parts = known.into_iter().map(|(figures, whose)| {
        format!(
            "on {} measured {whose} its median error is {} and its ranges hold {}",
            figures.cells,
            percent(figures.median_error),
            percent(figures.coverage)
        )
    });
    let parts: Vec<String> = parts.collect();
    format!("{}: {}.", named(profile, client), parts.join("; "))
}

/// Returns the sentence on a profile of which no score is known.
pub fn unknown(profile: &str, client: Option<Client>) -> String {
    format!(
        "{}: never compared with measurements.",
        named(profile, client)
    )
}

fn named(profile: &str, client: Option<Client>) -> String {
    let client = match client {
        Some(Client::Compiled) => " (compiled client)",
        Some(Client::Interpreted | Client::InterpretedPerRequest) => " (interpreted client)",
        None => "",
    };
    format!("Profile {profile}{client}")
}

fn on_others(profile: &str) -> Option<Figures> {
    let others: Others = yaml::read("others.yaml", OTHERS, |_| Ok(())).ok()?;
    let mut known = others.profiles.into_iter();
    known.find(|known| known.profile == profile)
}

fn on_own(profile: &str) -> Option<Figures> {
    let own: Misses = serde_json::from_str(OWN).ok()?;
    let mut sets = own.of(profile)?.sets.iter();
    let score = sets.find(|score| score.name == COMPARED)?;
    Some(Figures {
        profile: profile.to_owned(),
        cells: score.cells,
        median_error: score.median_error?,
        coverage: score.coverage?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::profiles::{DEFAULT, shipped};

    /// Files that cannot be read would say of every profile that it was never compared.
    #[test]
    fn the_larger_error_is_said_first() {
        let own = on_own(DEFAULT).unwrap();
        let others = on_others(DEFAULT).unwrap();
        assert!(others.median_error > own.median_error);
        let said = sentence(DEFAULT, Some(Client::Interpreted));
        let (first, second) = said.split_once("; ").unwrap();
        assert!(first.starts_with(&format!("Profile {DEFAULT} (interpreted client): on 122 ")));
        assert!(
            first.ends_with("its median error is 42 % and its ranges hold 39 %"),
            "{first}"
        );
        assert!(second.contains("this project's own sets"), "{second}");
        // The profile that was fitted to a paper has its larger error on this project's sets.
        let fitted = sentence("aws-us-east-1", None);
        assert!(fitted.contains("this project's own sets"), "{fitted}");
    }

    #[test]
    fn scores_are_of_shipped_profiles_and_others_say_that_there_are_none() {
        let (platforms, _) = shipped();
        let own: Misses = serde_json::from_str(OWN).unwrap();
        let others: Others = yaml::read("others.yaml", OTHERS, |_| Ok(())).unwrap();
        let own = own.profiles.iter().map(|known| known.profile.as_str());
        let names = own.chain(others.profiles.iter().map(|known| known.profile.as_str()));
        for name in names {
            assert!(platforms.contains(&name), "{name}");
        }
        for name in ["laptop", "mine"] {
            let said = sentence(name, Some(Client::Compiled));
            assert!(said.ends_with("(compiled client): never compared with measurements."));
        }
    }
}
