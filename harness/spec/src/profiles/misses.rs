//! Errors of the shipped platform profiles on measurements that they were not fitted to.

use std::cmp::Ordering;
use std::path::Path;
use std::{fs, io};

use epochcost_simulator::profile::Client;
use serde::{Deserialize, Serialize};

/// Scores of `epochcost dev validate --record`.
const SCORES: &str = include_str!("../../../profiles/validation/scores.json");

/// Scores of profiles.
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
    /// Scores over sets.
    pub headlines: Vec<Headline>,
    /// Scores by data set.
    pub sets: Vec<Score>,
}

/// What measured figures are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Whole functions and runs: starts, objects and bulk data above 1 MB, exchanges of a run.
    Whole,
    /// Small requests: objects and messages of at most 1 MB.
    Small,
    /// Spread of single events: quantiles relative to a mean or median.
    Spread,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Whole, Self::Small, Self::Spread];

    /// Returns the words for it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Whole => "whole functions and runs",
            Self::Small => "small requests",
            Self::Spread => "spreads of single events",
        }
    }
}

/// Scores over data sets, each of which counts once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headline {
    /// What the cells are of.
    pub scope: Scope,
    /// Whether the profile has a constant by their author.
    pub gave_a_constant: bool,
    /// Data sets.
    pub sets: usize,
    /// Judged cells.
    pub cells: usize,
    /// Mean of the sets' median absolute relative errors; null where a cell cannot be predicted.
    pub median_error: Option<f64>,
    /// Geometric mean of predicted over measured, less 1.
    pub bias: Option<f64>,
    /// Mean share of the cells inside their range.
    pub coverage: Option<f64>,
    /// Geometric mean of the sets' median of upper over lower end.
    pub width: Option<f64>,
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
pub fn record(path: &Path, scores: ProfileScores) -> io::Result<()> {
    let mut known = match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Misses::default(),
        Err(error) => return Err(error),
    };
    (known.profiles).retain(|known| known.profile != scores.profile);
    known.profiles.push(scores);
    known.profiles.sort_by(|a, b| a.profile.cmp(&b.profile));
    fs::write(path, serde_json::to_string_pretty(&known)? + "\n")
}

/// Returns the sentence on what a shipped profile misses by on whole functions and runs, the larger error
/// first; that it was never compared, where no score of it is known.
pub fn sentence(profile: &str, client: Option<Client>) -> String {
    let mut lines = whole(profile);
    lines.sort_by(|a, b| {
        b.median_error
            .partial_cmp(&a.median_error)
            .unwrap_or(Ordering::Equal)
    });
    let parts = lines.into_iter().filter_map(|line| {
        let [error, coverage] = [line.median_error?, line.coverage?].map(|share| share * 100.0);
        let (sets, width) = (line.sets, line.width?);
        let gave = if line.gave_a_constant { "gave" } else { "did not give" };
        Some(format!(
            "by authors who {gave} it a constant ({sets} sets) median errors are {error:.0} % on average, \
             and ranges, a factor of {width:.1} wide, hold {coverage:.0} %"
        ))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() {
        return unknown(profile, client);
    }
    let (named, parts) = (named(profile, client), parts.join("; "));
    format!("{named}: on measured {} {parts}.", Scope::Whole.title())
}

/// Returns the sentence on a profile of which no score is known.
pub fn unknown(profile: &str, client: Option<Client>) -> String {
    let named = named(profile, client);
    format!("{named}: never compared with measurements.")
}

fn named(profile: &str, client: Option<Client>) -> String {
    let client = match client {
        Some(Client::Compiled) => " (compiled client)",
        Some(Client::Interpreted | Client::InterpretedPerRequest) => " (interpreted client)",
        None => "",
    };
    format!("Profile {profile}{client}")
}

/// Returns the recorded scores of a profile on whole functions and runs.
fn whole(profile: &str) -> Vec<Headline> {
    let all: Misses = serde_json::from_str(SCORES).unwrap_or_default();
    let mut of_profiles = all.profiles.into_iter();
    let known = of_profiles.find(|known| known.profile == profile);
    let mut lines = known.map_or_else(Vec::new, |known| known.headlines);
    lines.retain(|line| line.scope == Scope::Whole);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::{DEFAULT, shipped};
    use crate::testing::holds;

    /// A file that cannot be read would say of every profile that it was never compared.
    #[test]
    fn the_larger_error_is_said_first() {
        let both = whole(DEFAULT);
        assert_eq!(both.len(), 2);
        let larger = (both.iter())
            .max_by(|a, b| a.median_error.unwrap().total_cmp(&b.median_error.unwrap()))
            .unwrap();
        let said = sentence(DEFAULT, Some(Client::Interpreted));
        let (first, _) = said.split_once("; ").unwrap();
        let start = format!("Profile {DEFAULT} (interpreted client): on measured ");
        assert!(first.starts_with(&start));
        holds(first, &[&format!("({} sets)", larger.sets)]);
        let percent = larger.median_error.unwrap() * 100.0;
        let error = format!("median errors are {percent:.0} %");
        assert!(first.contains(&error), "{first}");
    }

    #[test]
    fn scores_are_of_shipped_profiles_and_others_say_that_there_are_none() {
        let (platforms, _) = shipped();
        let all: Misses = serde_json::from_str(SCORES).unwrap();
        for known in all.profiles {
            let name = known.profile;
            assert!(platforms.contains(&name.as_str()), "{name}");
        }
        for name in ["laptop", "mine"] {
            let said = sentence(name, Some(Client::Compiled));
            assert!(said.ends_with("(compiled client): never compared with measurements."));
        }
    }
}
