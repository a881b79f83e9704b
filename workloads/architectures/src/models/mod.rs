//! Every model: one file for each family, one line for each model.

pub mod lenet;
pub mod mobilenet;
pub mod mobilenet_v3;
pub mod resnet;
pub mod squeezenet;
pub mod vgg;

use crate::Model;

/// Every model, in the order in which they are listed.
static MODELS: &[&Model] = &[
    &lenet::LENET5,
    &mobilenet::MOBILENET,
    &resnet::RESNET18,
    &resnet::RESNET32,
    &resnet::RESNET34,
    &resnet::RESNET50,
    &squeezenet::SQUEEZENET1_1,
    &mobilenet_v3::MOBILENET_V3_SMALL,
    &vgg::VGG11,
    &vgg::VGG11_10_CLASSES,
    &vgg::VGG11_AT_32,
    &vgg::VGG11_CIFAR,
];

/// Returns every model, in the order in which they are listed.
#[must_use]
pub fn models() -> &'static [&'static Model] {
    MODELS
}

/// Returns the model of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Model> {
    models().iter().copied().find(|model| model.name == name)
}

#[cfg(test)]
mod tests;
