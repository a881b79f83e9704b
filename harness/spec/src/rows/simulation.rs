//! What a simulation of rows stands on.

use std::collections::BTreeMap;

use epochcost_kernels::hash;
use epochcost_simulator::profile::{
    Client, ComputeProfile, Constant, FunctionDevice, ModelCost, Profile,
};
use epochcost_systems::{Device, Host, find};

use super::{Row, StatedConstant};

/// Start of the source of a constant that the experiment states itself.
pub const STATED_BY_EXPERIMENT: &str = "stated by the experiment";

/// Profiles and constants of a simulation.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The platform, with the experiment's own constants in place.
    pub profile: Profile<Constant>,
    /// Client of rows that name none.
    pub client: Client,
    /// What steps cost, the first that knows a model first.
    pub compute: Vec<ComputeProfile>,
    /// Whether the platform's limits on functions hold.
    pub limits: bool,
    /// Whether models really train.
    pub real_compute: bool,
    /// Whether every trial but the first samples the constants' ranges.
    pub sample: bool,
    /// Draws of the constants that rankings are judged over.
    pub draws: u32,
}

/// Stream of the draws of constants, apart from all others of a seed.
const DRAWS: u64 = 0x4452_4157;

/// Returns the seed of draw `draw` of an experiment's constants: the same for every row.
pub fn draw_seed(experiment_seed: u64, draw: u32) -> u64 {
    hash::mix(hash::mix(experiment_seed, DRAWS), draw.into())
}

impl Simulation {
    /// Returns the platform as `row` has it, with the row's client and its own constants in
    /// place.
    pub fn profile_of(&self, row: &Row) -> Profile<Constant> {
        Profile {
            client: row.client.unwrap_or(self.client),
            ..stated(&self.profile, &row.constants)
        }
    }

    /// Returns what a step of `model` costs on `device`, and in which profile
    /// that stands; on the CPU, where `or_cpu` and nothing else is known.
    pub fn cost(
        &self,
        model: &str,
        device: Device,
        or_cpu: bool,
    ) -> Option<(&ComputeProfile, &ModelCost)> {
        let on = |device| {
            let mut known = self.compute.iter();
            known.find_map(|profile| Some((profile, profile.find(model, device)?)))
        };
        on(device).or_else(|| on(Device::Cpu).filter(|_| or_cpu))
    }
}

/// Returns `profile` with an experiment's own constants in it. A constant that
/// states the profile's own value keeps what that was fitted to. Its range stays, since stating a
/// constant does not fix it; about a value that is not within the range lies one as wide, since draws
/// are about stated values.
pub fn stated(
    profile: &Profile<Constant>,
    constants: &BTreeMap<String, StatedConstant>,
) -> Profile<Constant> {
    profile.map(&mut |path, constant| {
        let Some(stated) = constants.get(path) else {
            return constant.clone();
        };
        let same = (stated.value == constant.value).then_some(constant.fitted_to.as_ref());
        let fitted_to = stated.fitted_to().or_else(|| same.flatten());
        let basis = stated.basis_text();
        let range = range_about(stated.value, constant);
        Constant {
            value: stated.value,
            low: range.map(|(low, _)| low),
            high: range.map(|(_, high)| high),
            source: basis.map_or_else(
                || STATED_BY_EXPERIMENT.into(),
                |basis| format!("{STATED_BY_EXPERIMENT}, {basis}"),
            ),
            date: constant.date.clone(),
            fitted_to: fitted_to.cloned(),
        }
    })
}

/// Returns the range that a constant of the profile has about another value, none where it has
/// none or says nothing of the value (a zero).
fn range_about(value: f64, constant: &Constant) -> Option<(f64, f64)> {
    let (low, high) = constant.range();
    if low == high {
        return None;
    }
    if value == constant.value || low < value && value < high {
        return Some((low, high));
    }
    let factor = value / constant.value;
    (factor > 0.0 && factor.is_finite()).then_some((low * factor, high * factor))
}

/// Returns what a row computes on: functions, where a system has some, on what
/// the platform gives them.
pub fn device(simulation: &Simulation, row: &Row) -> Device {
    let is_function = find(&row.job.system).is_some_and(|s| s.deployment().runs_on(Host::Function));
    match (is_function, simulation.profile.function_device) {
        (true, FunctionDevice::Cpu) => Device::Cpu,
        (true, FunctionDevice::Cuda) => Device::Cuda,
        (false, _) => row.job.device,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> impl Iterator<Item = Profile<Constant>> {
        let names = crate::profiles::shipped().0.into_iter();
        names.filter_map(crate::profiles::shipped_platform)
    }

    /// The constant at `path` where an experiment states `value`, on nothing.
    fn stated_at(profile: &Profile<Constant>, path: &str, value: f64) -> Constant {
        let constants = BTreeMap::from([(path.to_owned(), StatedConstant { value, basis: None })]);
        let all = stated(profile, &constants).constants();
        all.into_iter().find(|(name, _)| name == path).unwrap().1
    }

    /// Freezing a constant narrows nothing, and draws are about the stated value: on either side of it,
    /// as far as about the profile's own unless the profile's range holds it.
    #[test]
    fn a_stated_constant_is_drawn_as_widely_as_before() {
        let mut drawn = 0;
        for profile in shipped() {
            for (path, own) in profile.constants() {
                for factor in [0.0, 0.01, 0.3, 1.0, 4.0, 100.0] {
                    let value = factor * own.value;
                    let now = stated_at(&profile, &path, value);
                    let ((low, high), (own_low, own_high)) = (now.range(), own.range());
                    assert!((low..=high).contains(&value), "{path}");
                    if value == 0.0 || own_low == own_high {
                        continue;
                    }
                    let width = (high / low) / (own_high / own_low);
                    let is_as_wide = own_low == 0.0 || (width - 1.0).abs() < 1e-9;
                    assert!(is_as_wide, "{path}: {width}");
                    let below = (low < value) >= (own_low < own.value);
                    let above = (value < high) >= (own.value < own_high);
                    assert!(below && above, "{path}: {low} to {high}");
                    drawn += 1;
                }
            }
        }
        assert!(drawn > 100, "{drawn}");
    }

    /// What a value was fitted to it keeps where an experiment states the same one, unless that says
    /// otherwise: no cell that it was fitted to becomes a prediction by being stated.
    #[test]
    fn a_constant_stated_at_the_profiles_value_keeps_what_it_was_fitted_to() {
        let mut fitted = 0;
        for profile in shipped() {
            for (path, own) in profile.constants() {
                let fitted_at = |value| stated_at(&profile, &path, value).fitted_to;
                assert_eq!(fitted_at(own.value), own.fitted_to, "{path}");
                assert_eq!(fitted_at(own.value * 1.01 + 1.0), None, "{path}");
                fitted += u32::from(own.fitted_to.is_some());
            }
        }
        assert!(fitted > 0);
    }
}
