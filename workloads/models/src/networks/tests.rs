use burn_flex::{Flex, FlexDevice};
use epochcost_architectures::{Layer, Model};

use super::*;

/// Returns a shape without trailing ones: a 1×1 convolution of a single pixel is a linear
/// layer.
fn trimmed(mut shape: Vec<usize>) -> Vec<usize> {
    while shape.len() > 1 && shape.last() == Some(&1) {
        shape.pop();
    }
    shape
}

/// Widths, kernels, groups and order: all that a flat vector depends on.
fn is_as_described(model: &Model) {
    let info = ModelInfo::find(model.name).unwrap();
    let session = session::<burn_autodiff::Autodiff<Flex>>(info, FlexDevice).unwrap();
    let start = session.start(None);
    let layers = model.layers();
    let described = layers.trainable().into_iter().map(|tensor| tensor.shape);
    let described: Vec<_> = described.map(trimmed).collect();
    let built: Vec<_> = start.tensor_shapes.into_iter().map(trimmed).collect();
    assert_eq!(built, described, "{}", model.name);
    let channels: Vec<usize> = layers
        .as_slice()
        .iter()
        .filter_map(|layer| match layer {
            Layer::BatchNorm { channels } => Some(*channels),
            _ => None,
        })
        .collect();
    assert_eq!(start.normed_channels, channels, "{}", model.name);
}

/// The documented network too.
#[test]
fn every_network_has_the_tensors_of_its_description() {
    for model in epochcost_architectures::models() {
        is_as_described(model);
    }
    is_as_described(&crate::documented::description::PINHOLE);
}

#[test]
fn a_model_without_a_network_is_refused() {
    let unregistered = ModelInfo {
        name: "unregistered",
        ..*ModelInfo::find("lenet5").unwrap()
    };
    let info: &'static ModelInfo = Box::leak(Box::new(unregistered));
    let refused = session::<burn_autodiff::Autodiff<Flex>>(info, FlexDevice).err();
    let model = "unregistered";
    assert_eq!(refused, Some(ModelError::NoNetwork { model }));
}
