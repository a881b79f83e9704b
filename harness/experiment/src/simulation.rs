//! The simulation of an experiment: its profiles and options.

use std::collections::BTreeMap;

use epochcost_simulator::profile::{Client, Constant, Profile, too_slow};
use epochcost_spec::profiles;
use epochcost_spec::rows::{Basis, Simulation, StatedConstant, stated};
use epochcost_spec::suggest::did_you_mean;
use schemars::JsonSchema;
use serde::Deserialize;

use super::document::{Document, Node, Origin, Place};
use super::error::ExperimentError;
use super::names;

/// Profiles and options of a simulation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SimulationChoice {
    /// Platform profile: a name, or a path relative to the file or else the current directory.
    #[schemars(transform = names::platforms)]
    pub profile: String,
    /// How the programs of functions are executed; the profile must describe it.
    pub client: Client,
    /// Compute profiles, by name or path: the first that has a row's model on its device gives the time
    /// of a step.
    #[schemars(transform = names::computes, length(max = 100))]
    pub compute: Vec<String>,
    /// Whether a row beyond the platform's limits on functions is infeasible.
    pub limits: bool,
    /// Constants of the platform profile that this experiment states itself, without a range, by their
    /// paths (`function.arithmetic_bytes_per_s`). A bandwidth is at least 1,000.
    pub constants: BTreeMap<String, StatedConstant>,
    /// Whether models train for real, in virtual time, on the data; otherwise only sizes exist.
    pub real_compute: bool,
    /// Whether every trial except the first draws the constants from their ranges, by its seed.
    pub sample: bool,
    /// Draws of the constants that rankings are judged over; fewer than 59 decide nothing at 95 %.
    #[schemars(range(min = LEAST_DRAWS, max = MOST_DRAWS))]
    pub draws: u32,
}

/// Fewest draws: if all of 59 agree, fewer than 95 % of all draws do with a probability of at
/// most 5 % (0.95^59 = 0.049), and 0.95^58 is above it.
const LEAST_DRAWS: u32 = 59;

/// Most draws of an experiment.
const MOST_DRAWS: u32 = 10_000;

impl Default for SimulationChoice {
    fn default() -> Self {
        Self {
            profile: profiles::DEFAULT.to_owned(),
            client: Client::default(),
            compute: vec!["stated-flops".to_owned()],
            limits: true,
            constants: BTreeMap::new(),
            real_compute: false,
            sample: false,
            draws: 300,
        }
    }
}

/// Returns the name or path of a profile that is named at a place: a path in the file is
/// relative to the file, one of an option to the current directory.
pub(super) fn profile(document: &Document, origin: &Origin, name: &str) -> String {
    match origin.place {
        Place::Line { .. } => profiles::beside(&document.file, name),
        Place::Option(_) => name.to_owned(),
    }
}

/// Reads and checks the profiles that an experiment names.
pub(super) fn check(
    document: &Document,
    choice: &SimulationChoice,
) -> Result<Simulation, ExperimentError> {
    let node = document.root.get("simulation").unwrap_or(&document.root);
    let located = |field: &str, error: profiles::ProfileError| {
        document.error(node.origin_of(field), error.problem, error.remedy)
    };
    let path = |field: &str, name| profile(document, &node.origin_of(field), name);
    let profile = profiles::platform(&path("profile", &choice.profile))
        .map_err(|error| located("profile", error))?;
    check_constants(document, node, &profile, &choice.constants)?;
    let profile = stated(&profile, &choice.constants);
    check_client(document, node, &profile, choice.client)?;
    let compute = choice.compute.iter();
    let compute = compute.map(|name| profiles::compute(&path("compute", name)));
    let compute: Result<Vec<_>, _> = compute.collect();
    Ok(Simulation {
        profile,
        client: choice.client,
        compute: compute.map_err(|error| located("compute", error))?,
        limits: choice.limits,
        real_compute: choice.real_compute,
        sample: choice.sample,
        draws: choice.draws,
    })
}

/// Checks the field `constants` of `node`.
///
/// # Errors
/// The first that the profile does not have, or whose value none can have.
pub(super) fn check_constants(
    document: &Document,
    node: &Node,
    profile: &Profile<Constant>,
    constants: &BTreeMap<String, StatedConstant>,
) -> Result<(), ExperimentError> {
    let known = profile.constants();
    for (path, constant) in constants {
        let value = constant.value;
        let place = node.get("constants").unwrap_or(node).origin_of(path);
        let Some((_, own)) = known.iter().find(|(known, _)| known == path) else {
            let known: Vec<&str> = known.iter().map(|(path, _)| path.as_str()).collect();
            let problem = format!("the profile has no constant `{path}`");
            return Err(document.error(place, problem, did_you_mean(path, &known)));
        };
        if let Some(problem) = too_slow(path, value) {
            let remedy = format!("the profile's own value is {}", own.value);
            return Err(document.error(place, format!("`{path}`: {problem}"), remedy));
        }
        let is_empty = |text: &str| text.trim().is_empty();
        let lacks_basis = match &constant.basis {
            None => true,
            Some(Basis::FittedTo(fitted)) => is_empty(&fitted.source),
            Some(Basis::StatedBy(text) | Basis::Assumed(text)) => is_empty(text),
        };
        if lacks_basis {
            let problem = format!("the constant `{path}` does not say what its value rests on");
            let remedy = format!(
                "write `{path}: {{value: {value}, assumed: REASON}}`, `{{value: {value}, \
                 stated_by: SOURCE}}`, or `{{value: {value}, fitted_to: {{source: PAPER, cells: \
                 [FILE:LINE:COLUMN]}}}}`"
            );
            return Err(document.error(place, problem, remedy));
        }
    }
    Ok(())
}

/// Checks the field `client` of `node`.
///
/// # Errors
/// When the profile does not describe an interpreted client.
pub(super) fn check_client(
    document: &Document,
    node: &Node,
    profile: &Profile<Constant>,
    client: Client,
) -> Result<(), ExperimentError> {
    if client == Client::Compiled || profile.interpreted.is_some() {
        return Ok(());
    }
    let (name, default) = (&profile.name, profiles::DEFAULT);
    let problem = format!("the profile {name} describes no interpreted client");
    let remedy = format!("name a profile that does ({default}), or write `client: compiled`");
    Err(document.error(node.origin_of("client"), problem, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_nine_draws_are_the_fewest_that_decide_at_95_percent() {
        let all_agree = |draws: u32| 0.95f64.powi(draws as i32);
        assert!(all_agree(LEAST_DRAWS) <= 0.05 && all_agree(LEAST_DRAWS - 1) > 0.05);
    }
}
