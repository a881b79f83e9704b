//! The models and devices that a trainer can be made from.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use epochcost_architectures::Model;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Serialize};

use crate::ModelError;

/// Sizes of one model, computed from its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// Name by which experiments choose the model.
    pub name: &'static str,
    /// Shape of the images that its first layer reads: channels, height, width.
    /// [`crate::Trainer::with_images`] takes smaller ones.
    pub input: [usize; 3],
    /// Number of classes, the length of one output row.
    pub classes: usize,
    /// Number of trainable scalars: the length of the parameters and of the gradient.
    pub parameters: usize,
    /// Length of the batch-norm statistics, running means and variances together.
    pub statistics: usize,
    /// Number of tensors that the gradient is made of.
    pub gradient_tensors: usize,
}

impl ModelInfo {
    fn new(model: &Model) -> Self {
        let layers = model.layers();
        Self {
            name: model.name,
            input: model.input,
            classes: model.classes,
            parameters: layers.parameters(),
            statistics: layers.statistics(),
            gradient_tensors: layers.trainable().len(),
        }
    }

    /// Returns the number of values in one image of the input's shape.
    #[must_use]
    pub fn image_values(&self) -> usize {
        self.input.iter().product()
    }

    /// Returns the model of that name.
    ///
    /// # Errors
    /// [`ModelError::UnknownModel`] lists the names there are.
    pub fn find(name: &str) -> Result<&'static Self, ModelError> {
        models()
            .iter()
            .chain(documented())
            .find(|info| info.name == name)
            .ok_or_else(|| ModelError::UnknownModel {
                name: name.to_owned(),
                known: known_names(),
            })
    }
}

fn known_names() -> String {
    let names: Vec<&str> = models().iter().map(|info| info.name).collect();
    names.join(", ")
}

/// Returns every model that [`crate::Trainer::new`] accepts.
#[must_use]
pub fn models() -> &'static [ModelInfo] {
    static MODELS: LazyLock<Vec<ModelInfo>> = LazyLock::new(|| {
        let models = epochcost_architectures::models().iter();
        models.map(|model| ModelInfo::new(model)).collect()
    });
    &MODELS
}

/// Returns the model of `docs/adding-a-model.md`.
#[cfg(test)]
fn documented() -> &'static [ModelInfo] {
    static DOCUMENTED: LazyLock<[ModelInfo; 1]> = LazyLock::new(|| {
        use crate::documented::description as pinhole;
        let model: &Model = include!(concat!(env!("OUT_DIR"), "/description_line.rs"));
        [ModelInfo::new(model)]
    });
    &*DOCUMENTED
}

#[cfg(not(test))]
fn documented() -> &'static [ModelInfo] {
    &[]
}

/// Device that a trainer computes on. The experiment chooses it at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The processor, by burn's `flex` backend.
    Cpu,
    /// The first NVIDIA GPU, in builds that support it; in those with `vulkan` alone, a Vulkan
    /// device in software.
    Cuda,
}

/// Numeric precision of a step's matrix products, those of dense convolutions and linear layers
/// included; everything else is `f32`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// `f32` throughout.
    #[default]
    Fp32,
    /// Factors may be rounded to 10 bits of mantissa, as a GPU's tensor cores take them, where that
    /// is faster.
    Tf32,
    /// Factors are rounded to bfloat16 (7 bits); sums are `f32`.
    Bf16,
}

impl Device {
    /// Checks that this build can compute on it here.
    ///
    /// # Errors
    /// [`ModelError::NoCuda`] where the build cannot, [`ModelError::NoGpu`] where the machine
    /// cannot.
    pub fn available(self) -> Result<(), ModelError> {
        match self {
            Self::Cpu => Ok(()),
            #[cfg(feature = "gpu")]
            Self::Cuda => crate::gpu::device().map(drop),
            #[cfg(not(feature = "gpu"))]
            Self::Cuda => Err(ModelError::NoCuda),
        }
    }
}

impl Precision {
    /// Checks that the device multiplies in it here.
    ///
    /// # Errors
    /// [`ModelError::NoPrecision`] on the CPU, but in `f32`.
    pub fn available(self, device: Device) -> Result<(), ModelError> {
        match (device, self) {
            (Device::Cuda, _) | (Device::Cpu, Self::Fp32) => Ok(()),
            (Device::Cpu, precision) => Err(ModelError::NoPrecision { precision }),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

impl FromStr for Device {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        named(name).ok_or_else(|| ModelError::UnknownDevice {
            name: name.to_owned(),
        })
    }
}

impl FromStr for Precision {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        named(name).ok_or_else(|| ModelError::UnknownPrecision {
            name: name.to_owned(),
        })
    }
}

/// Returns the value that has this name in files.
fn named<T: DeserializeOwned>(name: &str) -> Option<T> {
    let name: StrDeserializer<'_, serde::de::value::Error> = name.into_deserializer();
    T::deserialize(name).ok()
}
