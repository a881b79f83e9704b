//! What an experiment says about its simulation.

use std::collections::BTreeMap;

use epochcost_simulator::profile::{ComputeProfile, Constant, ModelCost, Profile};
use epochcost_systems::{Device, Sizes};
use serde::{Deserialize, Serialize};

use super::document::{Document, Node};
use super::error::ExperimentError;
use crate::plan::Row;
use crate::platform::sim::profiles;

/// The field `simulation`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulationChoice {
    /// The platform profile: the name of a shipped one, or a file.
    #[serde(default = "default_profile")]
    pub profile: String,
    /// Compute profiles, by name or file: the first that knows a row's model
    /// on its device says how long steps take.
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

/// The source of a constant that the experiment states itself.
pub const STATED_BY_EXPERIMENT: &str = "stated by the experiment";

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

/// What a simulation stands on.
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

    /// The platform as `row` has it, with the row's own constants in place.
    pub fn profile_of(&self, row: &Row) -> Profile<Constant> {
        stated(&self.profile, &row.constants)
    }

    /// What a step of `model` costs on `device`, and in which profile that
    /// stands; on the CPU, where `or_cpu` and nothing else is known.
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
            let remedy = super::suggest::did_you_mean(path, &known);
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

/// `profile` with an experiment's own constants in it.
fn stated(profile: &Profile<Constant>, constants: &BTreeMap<String, f64>) -> Profile<Constant> {
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

/// A model of which an experiment says what it weighs and costs: it can be
/// simulated, and not trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnModel {
    /// Its name; no model of this program's has it.
    pub name: String,
    /// Trainable scalars (n).
    pub parameters: usize,
    /// Batch-norm statistics: two for each normalised channel.
    #[serde(default)]
    pub statistics: usize,
    /// Channels, height and width of one image.
    pub input: [usize; 3],
    /// Floating-point operations of a forward pass, a sample (a multiply-add
    /// is two).
    pub flops_per_sample: f64,
    /// Bytes of activations that a training step keeps, a sample.
    pub activation_bytes_per_sample: f64,
    /// Operations a second that one vCPU reaches on it.
    #[serde(default = "cpu_flops")]
    pub cpu_flops_per_s: f64,
    /// Operations a second that the GPU reaches on it.
    #[serde(default = "gpu_flops")]
    pub gpu_flops_per_s: f64,
}

/// What one vCPU with AVX2 reaches on convolutions of such models, of a
/// measured peak of 47 to 70 GFLOP/s of one core.
fn cpu_flops() -> f64 {
    30e9
}

/// A third of the T4's 8.1 TFLOP/s in fp32 (NVIDIA's data sheet).
fn gpu_flops() -> f64 {
    2.7e12
}

impl OwnModel {
    /// Sizes of its vectors.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            parameters: self.parameters,
            statistics: self.statistics,
        }
    }

    /// What its steps cost: three forward passes' operations (one forward, two
    /// backward) at the stated rate. Memory: weights, gradient and two
    /// optimizer vectors, and the activations.
    pub fn cost(&self, device: Device) -> ModelCost {
        let rate = match device {
            Device::Cpu => self.cpu_flops_per_s,
            Device::Cuda => self.gpu_flops_per_s,
        };
        let mib = f64::from(1 << 20);
        ModelCost {
            model: self.name.clone(),
            device,
            fixed_s: 0.0,
            sample_s: 3.0 * self.flops_per_sample / rate,
            parallel: 0.9,
            evaluate_sample_s: self.flops_per_sample / rate,
            build_s: 0.0,
            fixed_mb: 16.0 * self.parameters as f64 / mib,
            sample_mb: self.activation_bytes_per_sample / mib,
            fit: None,
            source: "computed from the experiment's description of the model".into(),
            date: "stated".into(),
        }
    }

    /// What is wrong with it: the field and the problem.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        if epochcost_systems::find_model(&self.name).is_some() {
            let problem = format!("`{}` is a model of this program", self.name);
            return Some(("name", problem));
        }
        if self.parameters == 0 {
            return Some(("parameters", "a model without parameters".into()));
        }
        if self.input.contains(&0) {
            return Some(("input", "an image without pixels".into()));
        }
        let numbers = [
            ("flops_per_sample", self.flops_per_sample),
            (
                "activation_bytes_per_sample",
                self.activation_bytes_per_sample,
            ),
            ("cpu_flops_per_s", self.cpu_flops_per_s),
            ("gpu_flops_per_s", self.gpu_flops_per_s),
        ];
        let wrong = numbers.iter().find(|(_, x)| !x.is_finite() || *x <= 0.0);
        wrong.map(|(field, x)| (*field, format!("{x} is not positive")))
    }
}
