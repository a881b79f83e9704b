//! Compute profiles: the cost of training steps.

use epochcost_kernels::hash;
use epochcost_systems::Device;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::constant::{Constant, FittedTo, is_date};
use crate::draws::seed_of;

/// Bytes of vectors per second that a T4 reads and writes in its memory: assumed, 69 % of the 320 GB/s of
/// its data sheet. NVIDIA's `bandwidthTest` copied 239.6 GB/s on one (github.com/router-gao/cuda-demo,
/// `cuda-samples/02-cuda-bandwidth.md`, read 2026-11-29).
pub const GPU_VECTOR_BYTES_PER_S: f64 = 2.2e11;

/// The origin of a compute profile's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComputeOrigin {
    /// Measured on the machine that the profile names.
    Measured,
    /// Durations that a paper publishes; results that follow from them hold by
    /// construction.
    Published,
    /// A stated rate of floating-point operations.
    Stated,
    /// Measured on one device and scaled to another by their rooflines.
    Scaled,
}

/// Quality of the fit of a line to measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Number of measurements.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub points: usize,
    /// Share of the variance of the step time that the line explains.
    #[schemars(range(min = -1e9, max = 1.0))]
    pub r_squared: f64,
    /// Largest distance of a measurement from the line, relative to it.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub largest_error: f64,
}

/// The cost of one model's training step on one device.
///
/// A step of `b` samples takes `fixed_s + b · sample_s` seconds on one vCPU;
/// with `v` vCPUs that share `1 - parallel` of it stays serial (Amdahl), and a
/// share of one vCPU takes proportionally longer. On a GPU, `v` is 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelCost {
    /// The model's name.
    pub model: String,
    /// The device.
    pub device: Device,
    /// Seconds of a step that do not depend on its batch.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub fixed_s: f64,
    /// Seconds per sample, forward and backward.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub sample_s: f64,
    /// Share of the step that more vCPUs speed up.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub parallel: f64,
    /// Seconds per sample of the test split, forward only.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub evaluate_sample_s: f64,
    /// Seconds from the start of an init'ed worker to its first step: building
    /// the model.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub build_s: f64,
    /// Peak memory beside the worker's own that does not depend on the batch, MB of 2²⁰ bytes.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub fixed_mb: f64,
    /// Peak memory per sample, MB of 2²⁰ bytes.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub sample_mb: f64,
    /// Bytes of vectors per second that the device reads and writes in its own memory, in optimizer
    /// steps and in sums between GPUs; none: the CPU takes them, at the platform's rate.
    #[schemars(range(min = 1.0, max = 1e18))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_bytes_per_s: Option<f64>,
    /// Quality of the fit, where the times were fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
    /// Published figures that the numbers were derived from; none if they were
    /// taken from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted_to: Option<FittedTo>,
    /// Factor that the times were multiplied by to carry them from where they were
    /// measured, with its range; 1 with the range of a stated rate; none where they are
    /// as measured or published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Constant>,
    /// Source of the numbers.
    pub source: String,
    /// Date of the source, `YYYY-MM-DD`.
    pub date: String,
}

impl ModelCost {
    /// Returns the seconds of a step of `samples` on `vcpus`.
    pub fn step_s(&self, samples: usize, vcpus: f64) -> f64 {
        (self.fixed_s + samples as f64 * self.sample_s) * self.slowdown(vcpus)
    }

    /// Returns the seconds of an evaluation of `samples` on `vcpus`.
    pub fn evaluate_s(&self, samples: usize, vcpus: f64) -> f64 {
        samples as f64 * self.evaluate_sample_s * self.slowdown(vcpus)
    }

    /// Returns the peak memory of a step of `samples` beside the worker's own, MB.
    pub fn peak_mb(&self, samples: usize) -> f64 {
        self.fixed_mb + samples as f64 * self.sample_mb
    }

    /// Returns the time on `vcpus` relative to one vCPU.
    pub fn slowdown(&self, vcpus: f64) -> f64 {
        match (self.device, vcpus < 1.0) {
            (Device::Cuda, _) => 1.0,
            (Device::Cpu, true) => 1.0 / vcpus,
            (Device::Cpu, false) => (1.0 - self.parallel) + self.parallel / vcpus,
        }
    }

    /// Returns the cost with its factor drawn from the factor's range, by the seed and the
    /// model alone; itself where nothing was carried.
    #[must_use]
    pub fn sampled(&self, seed: u64) -> Self {
        let Some(carried) = self.carried.as_ref().filter(|factor| factor.value > 0.0) else {
            return self.clone();
        };
        let path = format!("compute.{}.{:?}", self.model, self.device);
        let mixed = seed_of(seed, &path);
        let factor = carried.at(f64::from(hash::unit_f32(mixed))) / carried.value;
        Self {
            fixed_s: self.fixed_s * factor,
            sample_s: self.sample_s * factor,
            evaluate_sample_s: self.evaluate_sample_s * factor,
            vector_bytes_per_s: self.vector_bytes_per_s.map(|rate| rate / factor),
            ..self.clone()
        }
    }

    /// Returns the first mistake in the entry, if any.
    fn fault(&self) -> Option<String> {
        let wrong = |reason: &str| Some(reason.to_owned());
        if self.source.trim().is_empty() || !is_date(&self.date) {
            return wrong("state who measured it, and when, as 2026-11-21");
        }
        let carried = self.carried.as_ref().and_then(Constant::fault);
        let fitted = self.fitted_to.as_ref().and_then(FittedTo::fault);
        carried.or_else(|| fitted.map(str::to_owned))
    }
}

/// The cost of training steps on one kind of machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComputeProfile {
    /// Version of this format.
    #[schemars(extend("const" = 1))]
    pub schema: u32,
    /// Name of the profile.
    pub name: String,
    /// Description of the machine.
    pub about: String,
    /// Origin of the numbers.
    pub origin: ComputeOrigin,
    /// Costs per model and device.
    pub models: Vec<ModelCost>,
}

impl ComputeProfile {
    /// Returns the cost of `model` on `device`.
    pub fn find(&self, model: &str, device: Device) -> Option<&ModelCost> {
        self.models
            .iter()
            .find(|cost| cost.model == model && cost.device == device)
    }

    /// Returns the mistakes in the profile: the model and the reason.
    pub fn faults(&self) -> Vec<(String, String)> {
        let models = self.models.iter();
        let mut faults: Vec<(String, String)> = models
            .filter_map(|cost| Some((cost.model.clone(), cost.fault()?)))
            .collect();
        if self.origin == ComputeOrigin::Published {
            let unnamed = self.models.iter().filter(|cost| cost.fitted_to.is_none());
            let reason = "numbers of origin `published` name what they are derived from: give \
                          `fitted_to: {source: PAPER, cells: [FILE:LINE:COLUMN]}`";
            faults.extend(unnamed.map(|cost| (cost.model.clone(), reason.to_owned())));
        }
        if self.schema != 1 {
            faults.push(("schema".into(), "this program reads version 1".into()));
        }
        faults
    }
}
