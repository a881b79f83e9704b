//! Models that an experiment describes itself.

use epochcost_simulator::profile::ModelCost;
use epochcost_systems::{Device, Sizes};
use serde::{Deserialize, Serialize};

/// A model whose size and cost an experiment states: it can be
/// simulated, and not trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnModel {
    /// Name; no model of this program's has it.
    pub name: String,
    /// Trainable scalars (n).
    pub parameters: usize,
    /// Batch-norm statistics: two for each normalised channel.
    #[serde(default)]
    pub statistics: usize,
    /// Channels, height and width of one image; none where the data state their bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<[usize; 3]>,
    /// Floating-point operations of a forward pass, a sample (a multiply-add
    /// is two).
    pub flops_per_sample: f64,
    /// Bytes of activations that a training step keeps, per sample.
    pub activation_bytes_per_sample: f64,
    /// Operations per second that one vCPU reaches on it.
    #[serde(default = "cpu_flops")]
    pub cpu_flops_per_s: f64,
    /// Operations per second that the GPU reaches on it.
    #[serde(default = "gpu_flops")]
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
    /// two optimizer vectors, and the activations.
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
            fitted_to: None,
            carried: None,
            source: "computed from the experiment's description of the model".into(),
            date: "stated".into(),
        }
    }

    /// Returns what is wrong with it: the field and the problem.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        if epochcost_systems::find_model(&self.name).is_some() {
            let problem = format!("`{}` is a model of this program", self.name);
            return Some(("name", problem));
        }
        if self.parameters == 0 {
            return Some(("parameters", "a model without parameters".into()));
        }
        if self.parameters as f64 > MOST {
            let problem = format!("{} is more than {MOST:e}", self.parameters);
            return Some(("parameters", problem));
        }
        if self.input.is_some_and(|input| input.contains(&0)) {
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
        let wrong = numbers.iter().find(|(_, x)| !(LEAST..=MOST).contains(x));
        wrong.map(|(field, x)| (*field, format!("{x} is not between {LEAST:e} and {MOST:e}")))
    }
}
