//! Platform and compute profiles: those shipped with this program, and files.

pub mod hardware;
pub mod misses;

use std::path::{Path, PathBuf};

use epochcost_simulator::profile::{ComputeProfile, Constant, FunctionDevice, Profile};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::shipped as files;
use crate::suggest::did_you_mean;
use crate::yaml::{self, Fault};

/// The platform profile of everything that names none: that of the smaller errors on measurements
/// that it was not fitted to.
pub const DEFAULT: &str = "aws-us-east-1-2024";

/// A platform profile as a file has it.
pub type PlatformFile = Profile<Constant>;

/// A compute profile as a file has it.
pub type ComputeFile = ComputeProfile;

/// Directory of the platform profiles of this program.
const PLATFORMS: &str = "profiles";

/// Directory of the compute profiles of this program.
const COMPUTE: &str = "profiles/compute";

/// Returns the names and texts of the profiles of this program in a directory, sorted.
fn profiles_in(directory: &str) -> Vec<(&'static str, &'static str)> {
    let named = files::below(directory).filter_map(|(path, text)| {
        let file = path.strip_prefix(directory)?.strip_prefix('/')?;
        let name = file.strip_suffix(".yaml")?;
        (!name.contains('/')).then_some((name, text))
    });
    let mut named: Vec<_> = named.collect();
    named.sort_unstable();
    named
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{problem}; {remedy}")]
pub struct ProfileError {
    /// What is wrong, and where.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

/// Returns the name or path of a profile that a file names, as [`platform`] and [`compute`] take
/// it: paths are relative to the file's directory, or else to the current one.
pub fn beside(file: &Path, name: &str) -> String {
    let path = Path::new(name);
    let beside = file.parent().map(|directory| directory.join(path));
    let is_it = |beside: &PathBuf| is_path(name) && path.is_relative() && beside.is_file();
    let beside = beside.filter(is_it);
    beside.map_or_else(|| name.to_owned(), |beside| beside.display().to_string())
}

/// Returns whether a name is that of a file; others are those of shipped profiles.
fn is_path(name: &str) -> bool {
    name.contains(['/', '.'])
}

/// The platform profile of that name, or in that file.
///
/// # Errors
/// When there is none, or its numbers make no sense.
pub fn platform(name: &str) -> Result<Profile<Constant>, ProfileError> {
    find(name, PLATFORMS, "platform", Profile::faults)
}

/// Returns the shipped platform profile of that name; `None` without one.
pub fn shipped_platform(name: &str) -> Option<Profile<Constant>> {
    let mut shipped = profiles_in(PLATFORMS).into_iter();
    shipped.find(|(known, _)| *known == name)?;
    platform(name).ok()
}

/// The compute profile of that name, or in that file.
///
/// # Errors
/// As [`platform`].
pub fn compute(name: &str) -> Result<ComputeProfile, ProfileError> {
    find(name, COMPUTE, "compute", ComputeProfile::faults)
}

/// The names of the shipped platform and compute profiles.
pub fn shipped() -> (Vec<&'static str>, Vec<&'static str>) {
    let names = |directory| profiles_in(directory).into_iter().map(|(name, _)| name);
    (names(PLATFORMS).collect(), names(COMPUTE).collect())
}

/// Returns the texts of the places that this program brings along, in the order of their names.
pub fn places() -> impl Iterator<Item = &'static str> {
    files::below("places").map(|(_, text)| text)
}

/// Returns a field of one line of a place's text.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Returns the shipped platform profiles whose functions have a GPU, each with the places there:
/// `serverless-gpu (cloud-run-l4)`.
pub fn with_gpu_functions() -> String {
    let platforms = shipped().0.into_iter().filter_map(shipped_platform);
    let with_gpu = platforms.filter(|own| own.function_device == FunctionDevice::Cuda);
    let named = with_gpu.map(|own| {
        let there = places().filter(|text| field(text, "profile") == Some(own.name.as_str()));
        let there: Vec<&str> = there.filter_map(|text| field(text, "name")).collect();
        format!("{} ({})", own.name, there.join(", "))
    });
    named.collect::<Vec<_>>().join(" or ")
}

fn find<T: DeserializeOwned + JsonSchema>(
    name: &str,
    directory: &str,
    kind: &str,
    faults: fn(&T) -> Vec<(String, String)>,
) -> Result<T, ProfileError> {
    let shipped = profiles_in(directory);
    if let Some((_, text)) = shipped.iter().find(|(known, _)| *known == name) {
        return parse(name, text, faults);
    }
    if !is_path(name) {
        let known: Vec<&str> = shipped.iter().map(|(known, _)| *known).collect();
        let known = did_you_mean(name, &known);
        return Err(ProfileError {
            problem: format!("there is no {kind} profile `{name}`"),
            remedy: format!("{known}, or name a file (./{name}.yaml)"),
        });
    }
    let text = files::read_to_string(Path::new(name)).map_err(|error| ProfileError {
        problem: format!("failed to read the {kind} profile {name}: {error}"),
        remedy: "give the path of a profile: in an experiment, from the directory of its file or \
                 from the current one"
            .into(),
    })?;
    parse(name, &text, faults)
}

fn parse<T: DeserializeOwned + JsonSchema>(
    name: &str,
    text: &str,
    faults: fn(&T) -> Vec<(String, String)>,
) -> Result<T, ProfileError> {
    let check = |profile: &mut T| match faults(profile).into_iter().next() {
        None => Ok(()),
        Some((path, problem)) => {
            let remedy = "correct it there; docs/PROFILES.md describes the format".to_owned();
            Err(Fault {
                path,
                problem,
                remedy,
            })
        }
    };
    yaml::read(name, text, check).map_err(|(problem, remedy)| ProfileError { problem, remedy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_profile_can_be_used_and_has_its_name() {
        let (platforms, computes) = shipped();
        for name in platforms {
            assert_eq!(platform(name).unwrap().name, name);
        }
        for name in computes {
            assert_eq!(compute(name).unwrap().name, name);
        }
    }

    #[test]
    fn a_path_is_relative_to_the_file_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(at("mine.yaml"), "").unwrap();
        let plan = directory.path().join("plan.yaml");
        assert_eq!(beside(&plan, "./mine.yaml"), at("./mine.yaml"));
        assert_eq!(beside(&plan, "mine.yaml"), at("mine.yaml"));
        for other in ["laptop", "other.yaml", "results/mine.yaml", "/mine.yaml"] {
            assert_eq!(beside(&plan, other), other);
        }
    }

    #[test]
    fn a_name_that_is_nearly_right_is_suggested() {
        let error = platform("aws-us-east").unwrap_err();
        assert!(error.remedy.contains("aws-us-east-1"), "{error}");
    }
}
