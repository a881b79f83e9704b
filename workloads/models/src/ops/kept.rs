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
