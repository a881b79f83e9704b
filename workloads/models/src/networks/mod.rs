//! The networks, and which of them computes each model of `epochcost-architectures`.

pub(crate) mod lenet5;
mod mobilenet;
mod mobilenet_v3;
mod network;
pub(crate) mod residual;
mod resnet;
mod squeezenet;
mod vgg;

use burn::tensor::backend::AutodiffBackend;
use epochcost_architectures::models::resnet::{LAYOUT18, LAYOUT32, LAYOUT34, LAYOUT50};

use crate::ops::LayerOps;
use crate::session::{BurnSession, Session};
use crate::{ModelError, ModelInfo};

pub(crate) use network::{Network, adaptive_average_pool};

use lenet5::LeNet5;
use mobilenet::MobileNet;
use mobilenet_v3::MobileNetV3Small;
use resnet::ResNet;
use squeezenet::SqueezeNet;
use vgg::{Vgg11, Vgg11Cifar};

/// Returns the session of a model on a backend's device.
///
/// # Errors
/// [`ModelError::NoNetwork`] when a model has a description and no line here.
pub(crate) fn session<B>(
    info: &'static ModelInfo,
    device: B::Device,
) -> Result<Box<dyn Session>, ModelError>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
{
    type Inner<B> = <B as AutodiffBackend>::InnerBackend;
    macro_rules! network {
        ($network:ident, $layout:expr) => {
            Box::new(BurnSession::<B, $network<B>, $network<Inner<B>>>::new(
                info, $layout, device,
            ))
        };
    }
    Ok(match info.name {
        "lenet5" => network!(LeNet5, ()),
        "mobilenet" => network!(MobileNet, ()),
        "resnet18" => network!(ResNet, LAYOUT18),
        "resnet32" => network!(ResNet, LAYOUT32),
        "resnet34" => network!(ResNet, LAYOUT34),
        "resnet50" => network!(ResNet, LAYOUT50),
        "squeezenet1_1" => network!(SqueezeNet, ()),
        "mobilenet_v3_small" => network!(MobileNetV3Small, ()),
        "vgg11" | "vgg11_10_classes" | "vgg11_at_32" => network!(Vgg11, info.classes),
        "vgg11_cifar" => network!(Vgg11Cifar, ()),
        #[cfg(not(test))]
        model => return Err(ModelError::NoNetwork { model }),
        #[cfg(test)]
        _ => {
            use crate::documented::network::Pinhole;
            include!(concat!(env!("OUT_DIR"), "/network_line.rs"))
        }
    })
}

#[cfg(test)]
mod tests;
