//! What steps keep for their backward pass.
//!
//! An activation's values are the sums of a block and its shortcut, as large as a
//! convolution's output. They are not kept, but made again from what is kept anyway once
//! the backward pass asks for them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Tensor;

use super::{Features, LayerOps};

/// Features as a step keeps them.
#[derive(Debug, Clone)]
pub(super) enum Kept<B: LayerOps> {
    /// As they are.
    Whole(Features<B>),
    /// To be made again.
    Again(Arc<Activated<B>>),
}

impl<B: LayerOps> Kept<B> {
    /// For a step of the backward pass; others that are to come share what is made.
    pub(super) fn read(self) -> Features<B> {
        match self {
            Self::Whole(features) => features,
            Self::Again(origin) => Features::plain(origin.values()),
        }
    }

    /// For other values that are made again: what is made on the way is not held until
    /// the backward pass arrives there.
    fn glimpse(&self) -> Features<B> {
        match self {
            Self::Whole(features) => features.clone(),
            Self::Again(origin) => {
                let again = origin.again().clone();
                Features::plain(again.unwrap_or_else(|| origin.made()))
            }
        }
    }
}

/// What an activation was made from.
#[derive(Debug)]
pub(crate) struct Activated<B: LayerOps> {
    features: Features<B>,
    shortcut: Option<Kept<B>>,
    /// The values made again, for as long as a step that reads them is to come.
    again: Mutex<Option<Tensor<B, 4>>>,
}

impl<B: LayerOps> Activated<B> {
    pub(super) const fn new(features: Features<B>, shortcut: Option<Kept<B>>) -> Self {
        Self {
            features,
            shortcut,
            again: Mutex::new(None),
        }
    }

    /// What the activation's own backward pass reads. No step that reads the values comes
    /// after it, so they are let go.
    pub(super) fn sources(&self) -> (Features<B>, Option<Features<B>>) {
        self.again().take();
        (self.features.clone(), self.shortcut.clone().map(Kept::read))
    }

    fn values(&self) -> Tensor<B, 4> {
        let mut again = self.again();
        let values = again.take().unwrap_or_else(|| self.made());
        again.insert(values).clone()
    }

    fn made(&self) -> Tensor<B, 4> {
        let shortcut = self.shortcut.as_ref().map(Kept::glimpse);
        B::activation(self.features.clone(), shortcut).values
    }

    fn again(&self) -> MutexGuard<'_, Option<Tensor<B, 4>>> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
