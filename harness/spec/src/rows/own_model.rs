//! Models that an experiment describes itself.

use epochcost_simulator::profile::{GPU_VECTOR_BYTES_PER_S, ModelCost};
use epochcost_systems::{Device, Sizes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A model that exists as sizes and costs: it can be simulated, and not trained. A compute profile with a
/// model of that name on the row's device gives the time of its step; otherwise the rates do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnModel {
    /// Name; none of this program's models has it.
    pub name: String,
    /// Trainable scalars (n).
    #[schemars(range(min = 1, max = 1_000_000_000_000_000_000_u64))]
    pub parameters: usize,
    /// Batch-norm statistics: two for each normalised channel.
    #[serde(default)]
    #[schemars(range(max = 1_000_000_000_000_000_000_u64))]
    pub statistics: usize,
    /// Channels, height and width of an image, the bytes of a stored sample; required unless the dataset
    /// states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(range(min = 1, max = 1_000_000)))]
    pub input: Option<[usize; 3]>,
    /// Floating-point operations of a forward pass per sample (a multiply-add is two); a step takes
    /// three times that. None: steps are known on devices of the compute profiles alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = LEAST, max = MOST))]
    pub flops_per_sample: Option<f64>,
    /// Bytes of activations that a training step keeps, per sample.
    #[schemars(range(min = LEAST, max = MOST))]
    pub activation_bytes_per_sample: f64,
    /// Operations per second that one vCPU reaches on it.
    #[serde(default = "cpu_flops")]
    #[schemars(range(min = LEAST, max = MOST))]
    pub cpu_flops_per_s: f64,
    /// Operations per second that the GPU reaches on it.
    #[serde(default = "gpu_flops")]
    #[schemars(range(min = LEAST, max = MOST))]
    pub gpu_flops_per_s: f64,
}

/// Returns what one vCPU with AVX2 reaches on convolutions of such models, of a
/// measured peak of 47 to 70 GFLOP/s of one core.
fn cpu_flops() -> f64 {
    30e9
}

/// Returns a third of the T4's 8.1 TFLOP/s in fp32 (NVIDIA's data sheet).
fn gpu_flops() -> f64 {
    2.7e12
}

/// Bounds of the numbers of a description: far around any machine and model.
const LEAST: f64 = 1e-6;
const MOST: f64 = 1e18;

impl OwnModel {
    /// Sizes of its vectors.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            parameters: self.parameters,
            statistics: self.statistics,
        }
    }

    /// Returns what its steps cost: three forward passes' operations (one
    /// forward, two backward) at the stated rate. Memory: weights, gradient and
    /// two optimizer vectors, the statistics before and after, and the activations. `None`
    /// where the operations are not known.
    pub fn cost(&self, device: Device) -> Option<ModelCost> {
        let flops_per_sample = self.flops_per_sample?;
        let rate = match device {
            Device::Cpu => self.cpu_flops_per_s,
            Device::Cuda => self.gpu_flops_per_s,
        };
        let mib = f64::from(1 << 20);
        Some(ModelCost {
            model: self.name.clone(),
            device,
            fixed_s: 0.0,
            sample_s: 3.0 * flops_per_sample / rate,
            parallel: 0.9,
            evaluate_sample_s: flops_per_sample / rate,
            build_s: 0.0,
            fixed_mb: (16.0 * self.parameters as f64 + 8.0 * self.statistics as f64) / mib,
            sample_mb: self.activation_bytes_per_sample / mib,
            vector_bytes_per_s: (device == Device::Cuda).then_some(GPU_VECTOR_BYTES_PER_S),
            fit: None,
            fitted_to: None,
            carried: None,
            source: "computed from the experiment's description of the model".into(),
            date: "stated".into(),
        })
    }
}
