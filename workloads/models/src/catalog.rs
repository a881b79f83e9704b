//! The models and devices that a trainer can be made from.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ModelError;

/// Sizes of one model, for planning and for checking what is fed to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// The name by which experiments choose the model.
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
    /// Which network it is.
    #[serde(skip)]
    pub(crate) architecture: Architecture,
}

/// The networks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Architecture {
    LeNet5,
    MobileNet,
    ResNet18,
    ResNet32,
    ResNet34,
    ResNet50,
    SqueezeNet,
    MobileNetV3Small,
    Vgg11,
    Vgg11Cifar,
}

impl ModelInfo {
    /// Number of values in one image of the input's shape.
    #[must_use]
    pub fn image_values(&self) -> usize {
        self.input.iter().product()
    }

    /// The model of that name.
    ///
    /// # Errors
    /// [`ModelError::UnknownModel`] lists the names there are.
    pub fn find(name: &str) -> Result<&'static Self, ModelError> {
        MODELS
            .iter()
            .find(|info| info.name == name)
            .ok_or_else(|| ModelError::UnknownModel {
                name: name.to_owned(),
                known: MODELS.map(|info| info.name).join(", "),
            })
    }
}

/// Channels, height and width of CIFAR-10's images.
const CIFAR: [usize; 3] = [3, 32, 32];

/// Of images of ImageNet.
const IMAGENET: [usize; 3] = [3, 224, 224];

/// Parameter and tensor counts are those of the reference definitions; a test
/// holds each network to its row.
static MODELS: [ModelInfo; 12] = [
    ModelInfo {
        name: "lenet5",
        input: [1, 28, 28],
        classes: 10,
        parameters: 61_706,
        statistics: 0,
        gradient_tensors: 10,
        architecture: Architecture::LeNet5,
    },
    ModelInfo {
        name: "mobilenet",
        input: CIFAR,
        classes: 10,
        parameters: 3_217_226,
        statistics: 21_888,
        gradient_tensors: 83,
        architecture: Architecture::MobileNet,
    },
    ModelInfo {
        name: "resnet18",
        input: CIFAR,
        classes: 10,
        parameters: 11_173_962,
        statistics: 9_600,
        gradient_tensors: 62,
        architecture: Architecture::ResNet18,
    },
    ModelInfo {
        name: "resnet32",
        input: CIFAR,
        classes: 10,
        parameters: 464_154,
        statistics: 2_272,
        gradient_tensors: 95,
        architecture: Architecture::ResNet32,
    },
    ModelInfo {
        name: "resnet34",
        input: CIFAR,
        classes: 10,
        parameters: 21_282_122,
        statistics: 17_024,
        gradient_tensors: 110,
        architecture: Architecture::ResNet34,
    },
    ModelInfo {
        name: "resnet50",
        input: CIFAR,
        classes: 10,
        parameters: 23_528_522,
        statistics: 53_120,
        gradient_tensors: 161,
        architecture: Architecture::ResNet50,
    },
    ModelInfo {
        name: "squeezenet1_1",
        input: CIFAR,
        classes: 10,
        parameters: 727_626,
        statistics: 0,
        gradient_tensors: 52,
        architecture: Architecture::SqueezeNet,
    },
    ModelInfo {
        name: "mobilenet_v3_small",
        input: CIFAR,
        classes: 10,
        parameters: 1_528_106,
        statistics: 12_112,
        gradient_tensors: 142,
        architecture: Architecture::MobileNetV3Small,
    },
    ModelInfo {
        name: "vgg11",
        input: IMAGENET,
        classes: 1_000,
        parameters: 132_863_336,
        statistics: 0,
        gradient_tensors: 22,
        architecture: Architecture::Vgg11,
    },
    ModelInfo {
        name: "vgg11_10_classes",
        input: IMAGENET,
        classes: 10,
        parameters: 128_807_306,
        statistics: 0,
        gradient_tensors: 22,
        architecture: Architecture::Vgg11,
    },
    ModelInfo {
        name: "vgg11_at_32",
        input: CIFAR,
        classes: 1_000,
        parameters: 132_863_336,
        statistics: 0,
        gradient_tensors: 22,
        architecture: Architecture::Vgg11,
    },
    ModelInfo {
        name: "vgg11_cifar",
        input: CIFAR,
        classes: 10,
        parameters: 9_231_114,
        statistics: 5_504,
        gradient_tensors: 34,
        architecture: Architecture::Vgg11Cifar,
    },
];

/// Every model that [`crate::Trainer::new`] accepts.
#[must_use]
pub fn models() -> &'static [ModelInfo] {
    &MODELS
}

/// Where a trainer computes. The experiment chooses it at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The processor, by burn's `flex` backend.
    Cpu,
    /// The first NVIDIA GPU, in builds that support it.
    Cuda,
}

/// How exact the matrix products of a step on a GPU are; everything else is `f32`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// `f32` throughout.
    #[default]
    Fp32,
    /// Factors may be rounded to 10 bits of mantissa, as tensor cores take them, where that is
    /// faster.
    Tf32,
    /// Factors are rounded to bfloat16 (7 bits); sums are `f32`.
    Bf16,
}

impl Device {
    /// Whether this build can compute on it here.
    ///
    /// # Errors
    /// [`ModelError::NoCuda`] where the build cannot, [`ModelError::NoGpu`] where the machine
    /// cannot.
    pub fn available(self) -> Result<(), ModelError> {
        match self {
            Self::Cpu => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda => crate::gpu::cuda::device().map(drop),
            #[cfg(not(feature = "cuda"))]
            Self::Cuda => Err(ModelError::NoCuda),
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        })
    }
}

impl FromStr for Device {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            _ => Err(ModelError::UnknownDevice {
                name: name.to_owned(),
            }),
        }
    }
}

impl FromStr for Precision {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        match name {
            "fp32" => Ok(Self::Fp32),
            "tf32" => Ok(Self::Tf32),
            "bf16" => Ok(Self::Bf16),
            _ => Err(ModelError::UnknownPrecision {
                name: name.to_owned(),
            }),
        }
    }
}
