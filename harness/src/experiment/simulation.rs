//! The simulation of an experiment: its profiles and options.

use std::collections::BTreeMap;

use epochcost_simulator::profile::{Constant, Profile};
use serde::Deserialize;

use super::document::{Document, Node};
use super::error::ExperimentError;
use crate::profiles;
use crate::rows::{Simulation, stated};
use crate::suggest::did_you_mean;

/// The field `simulation`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationChoice {
    /// The platform profile: the name of a shipped one, or a file.
    #[serde(default = "default_profile")]
    pub profile: String,
    /// Compute profiles, by name or file: the first that knows a row's model
    /// on its device gives the time of a step.
    #[serde(default = "default_compute")]
    pub compute: Vec<String>,
    /// Whether the platform's limits on functions hold.
    #[serde(default = "yes")]
    pub limits: bool,
    /// Constants of the platform profile that this experiment states itself,
    /// by their paths.
    #[serde(default)]
    pub constants: BTreeMap<String, f64>,
    /// Whether models really train, for true losses and accuracies against
    /// simulated time; otherwise only sizes exist.
    #[serde(default)]
    pub real_compute: bool,
    /// Whether every trial but the first stands on a sample of the constants'
    /// ranges.
    #[serde(default)]
    pub sample: bool,
}

fn default_profile() -> String {
    "aws-us-east-1".to_owned()
}

fn default_compute() -> Vec<String> {
    vec!["stated-flops".to_owned()]
}

fn yes() -> bool {
    true
}

impl Default for SimulationChoice {
    fn default() -> Self {
        Self {
            profile: default_profile(),
            compute: default_compute(),
            limits: true,
            constants: BTreeMap::new(),
            real_compute: false,
            sample: false,
        }
    }
}

impl Simulation {
    /// Reads and checks the profiles that an experiment names.
    pub(super) fn check(
        document: &Document,
        choice: &SimulationChoice,
    ) -> Result<Self, ExperimentError> {
        let node = document.root.get("simulation").unwrap_or(&document.root);
        let located = |field: &str, error: profiles::ProfileError| {
            document.error(node.origin_of(field), error.problem, error.remedy)
        };
        let profile =
            profiles::platform(&choice.profile).map_err(|error| located("profile", error))?;
        let profile = state(document, node, profile, &choice.constants)?;
        let compute = choice.compute.iter().map(|name| profiles::compute(name));
        let compute: Result<Vec<_>, _> = compute.collect();
        Ok(Self {
            profile,
            compute: compute.map_err(|error| located("compute", error))?,
            limits: choice.limits,
            real_compute: choice.real_compute,
            sample: choice.sample,
        })
    }
}

/// Puts the experiment's own constants into the profile.
fn state(
    document: &Document,
    node: &Node,
    profile: Profile<Constant>,
    constants: &BTreeMap<String, f64>,
) -> Result<Profile<Constant>, ExperimentError> {
    check_constants(document, node, &profile, constants)?;
    Ok(stated(&profile, constants))
}

/// Checks the field `constants` of `node`.
///
/// # Errors
/// The first that the profile does not have, or whose value none can have.
pub(super) fn check_constants(
    document: &Document,
    node: &Node,
    profile: &Profile<Constant>,
    constants: &BTreeMap<String, f64>,
) -> Result<(), ExperimentError> {
    let known: Vec<String> = profile
        .constants()
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    for (path, value) in constants {
        let place = node.get("constants").unwrap_or(node).origin_of(path);
        if !known.contains(path) {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let remedy = did_you_mean(path, &known);
            let problem = format!("the profile has no constant `{path}`");
            return Err(document.error(place, problem, remedy));
        }
        if !value.is_finite() || *value < 0.0 {
            let problem = format!("{value} is no value of a constant");
            return Err(document.error(place, problem, "give a finite number of at least 0"));
        }
    }
    Ok(())
}
