//! What steps keep for their backward pass.
//!
//! Some values are not kept, but made again from what is kept anyway once the backward
//! pass asks for them: an activation's, the sums of a block and its shortcut, as large as
//! a convolution's output; and a convolution's where the network states it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Tensor;

use super::{Features, LayerOps, Norm, Window};

/// Features as a step keeps them.
#[derive(Debug, Clone)]
pub(super) enum Kept<B: LayerOps> {
    /// Values, kept.
    Whole(Features<B>),
    /// Origin of values that are computed again.
    Again(Arc<Origin<B>>, Option<Norm<B>>),
}

impl<B: LayerOps> Kept<B> {
    /// The features as they are, or what their values can be made from again.
    pub(super) fn new(features: &Features<B>, origin: Option<Arc<Origin<B>>>) -> Self {
        match origin {
            Some(origin) => Self::Again(origin, features.norm.clone()),
            None => Self::Whole(features.clone()),
        }
    }

    /// Returns the values for a step of the backward pass; steps that follow share what is
    /// computed.
    pub(super) fn read(&self) -> Features<B> {
        self.made_by(Origin::values)
    }

    /// Returns the values for others that are computed again: what is computed on the
    /// way is not held until the backward pass arrives there.
    fn glimpse(&self) -> Features<B> {
        self.made_by(|origin| {
            let held = origin.held().clone();
            held.unwrap_or_else(|| origin.recipe.made(Self::glimpse))
        })
    }

    fn made_by(&self, values: impl Fn(&Origin<B>) -> Tensor<B, 4>) -> Features<B> {
        match self {
            Self::Whole(features) => features.clone(),
            Self::Again(origin, norm) => Features {
                values: values(origin),
                norm: norm.clone(),
                origin: None,
            },
        }
    }
}

/// Operation that computes values.
#[derive(Debug)]
pub(super) enum Recipe<B: LayerOps> {
    /// See [`LayerOps::convolution`].
    Convolution(Kept<B>, Tensor<B, 4>, Window),
    /// Activation of features and perhaps a shortcut, and perhaps rectified;
    /// see [`LayerOps::activation`].
    Activation(Kept<B>, Option<Kept<B>>, bool),
}

impl<B: LayerOps> Recipe<B> {
    /// Returns the values; `main` reads what they are chiefly made from.
    fn made(&self, main: impl Fn(&Kept<B>) -> Features<B>) -> Tensor<B, 4> {
        let output = match self {
            Self::Convolution(input, weight, window) => {
                B::convolution(main(input), weight.clone(), *window)
            }
            Self::Activation(features, shortcut, rectified) => {
                let shortcut = shortcut.as_ref().map(Kept::glimpse);
                B::activation(main(features), shortcut, *rectified)
            }
        };
        output.values
    }
}

/// Origin of values that are computed again.
#[derive(Debug)]
pub(crate) struct Origin<B: LayerOps> {
    pub(super) recipe: Recipe<B>,
    /// The values made again, for as long as a step that reads them is to come.
    held: Mutex<Option<Tensor<B, 4>>>,
}

impl<B: LayerOps> Origin<B> {
    pub(super) const fn new(recipe: Recipe<B>) -> Self {
        Self {
            recipe,
            held: Mutex::new(None),
        }
    }

    fn values(&self) -> Tensor<B, 4> {
        let mut held = self.held();
        let values = held.take().unwrap_or_else(|| self.recipe.made(Kept::read));
        held.insert(values).clone()
    }

    /// Lets the values go: to be called by the step that made them first, after all that
    /// read them.
    pub(super) fn let_go(&self) {
        self.held().take();
    }

    fn held(&self) -> MutexGuard<'_, Option<Tensor<B, 4>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;
    use burn::tensor::backend::Backend;
    use burn_autodiff::Autodiff;
    use burn_flex::Flex;
    use epochcost_kernels::hash::{mix, unit_f32};

    use super::super::{Function, Scale};
    use super::*;

    type Graph = Autodiff<Flex>;

    fn random<B: Backend, const D: usize>(seed: u64, shape: [usize; D]) -> Tensor<B, D> {
        let values: Vec<f32> = (0..shape.iter().product::<usize>() as u64)
            .map(|index| unit_f32(mix(seed, index)) - 0.5)
            .collect();
        Tensor::from_data(TensorData::new(values, shape), &B::Device::default())
    }

    /// Returns the bits of all gradients of a stem and two blocks with shortcuts, their
    /// values passed on by `pass`.
    fn gradients(pass: impl Fn(Features<Graph>) -> Features<Graph>) -> Vec<u32> {
        let images: Tensor<Graph, 4> = random(1, [2, 5, 4, 3]).require_grad();
        let weights = [(2, 3), (3, 32), (4, 32)]
            .map(|(seed, inputs)| random::<Graph, 4>(seed, [32, inputs, 3, 3]).require_grad());
        let normed = |input: Features<Graph>, weight: &Tensor<Graph, 4>| {
            let window = Window::three(1);
            let (output, moments) = Graph::convolution_with_moments(input, weight.clone(), window);
            let norm = Norm {
                scale: Some(Scale {
                    weight: random::<Graph, 1>(5, [32]) + 1.0,
                    moments,
                    epsilon: 1e-5,
                }),
                bias: random(6, [32]),
                then: Function::Identity,
            };
            pass(output).normed(norm)
        };
        let stem = normed(Features::plain(images.clone()), &weights[0]);
        let mut features = pass(Graph::activation(stem, None, true));
        for weight in &weights[1..] {
            let shortcut = Some(features.clone());
            features = pass(Graph::activation(normed(features, weight), shortcut, true));
        }
        let slopes = random(7, features.values.dims());
        let found = (features.values * slopes).sum().backward();
        [images]
            .iter()
            .chain(&weights)
            .flat_map(|tensor| {
                tensor
                    .grad(&found)
                    .unwrap()
                    .into_data()
                    .to_vec::<f32>()
                    .unwrap()
            })
            .map(f32::to_bits)
            .collect()
    }

    #[test]
    fn what_is_made_again_is_what_was() {
        let made_again = gradients(|features| features);
        assert!(made_again.iter().any(|&bits| bits != 0));
        assert!(made_again == gradients(Features::kept));
    }
}
