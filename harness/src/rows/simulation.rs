//! What a simulation of rows stands on.

use std::collections::BTreeMap;

use epochcost_simulator::profile::{ComputeProfile, Constant, FunctionDevice, ModelCost, Profile};
use epochcost_systems::{Device, Host, find};

use super::Row;

/// The source of a constant that the experiment states itself.
pub const STATED_BY_EXPERIMENT: &str = "stated by the experiment";

/// Profiles and constants of a simulation.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The platform, with the experiment's own constants in place.
    pub profile: Profile<Constant>,
    /// What steps cost, the first that knows a model first.
    pub compute: Vec<ComputeProfile>,
    /// Whether the platform's limits on functions hold.
    pub limits: bool,
    /// Whether models really train.
    pub real_compute: bool,
    /// Whether every trial but the first samples the constants' ranges.
    pub sample: bool,
}

impl Simulation {
    /// Returns the platform as `row` has it, with the row's own constants in
    /// place.
    pub fn profile_of(&self, row: &Row) -> Profile<Constant> {
        stated(&self.profile, &row.constants)
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

/// `profile` with an experiment's own constants in it.
pub(crate) fn stated(
    profile: &Profile<Constant>,
    constants: &BTreeMap<String, f64>,
) -> Profile<Constant> {
    profile.map(&mut |path, constant| match constants.get(path) {
        None => constant.clone(),
        Some(value) => Constant {
            value: *value,
            low: None,
            high: None,
            source: STATED_BY_EXPERIMENT.into(),
            date: constant.date.clone(),
        },
    })
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
