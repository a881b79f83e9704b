//! Gradients of parameters, taken out of a backward pass as soon as they are known.
//!
//! burn gives all gradients when its backward pass is over. A step that wants them earlier
//! watches its parameters: the operation of ours that finds the gradient of a watched one gives
//! it here instead of to burn. What an operation of burn's finds is with burn's gradients in
//! the end, as ever. So is a second gradient of the same parameter: whoever looks there finds
//! that what was taken was not the whole.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::mpsc::Sender;

use burn::backend::autodiff::NodeId;
use burn::tensor::Tensor;

use super::LayerOps;
use crate::flat::Reading;

/// The gradient of the parameter of a place.
pub(crate) type Taken = (usize, Reading);

struct Watch {
    places: HashMap<NodeId, usize>,
    taken: Sender<Taken>,
}

thread_local! {
    /// Of the step that this thread is in.
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// As long as it lives, gradients of parameters that were added on this thread are taken.
pub(crate) struct Watching(());

impl Watching {
    /// Sends what is taken there.
    pub(crate) fn begin(taken: Sender<Taken>) -> Self {
        let places = HashMap::new();
        WATCH.set(Some(Watch { places, taken }));
        Self(())
    }

    /// Whether the gradient of that place was not taken.
    pub(crate) fn left(&self) -> Vec<usize> {
        WATCH.with_borrow(|watch| {
            let places = watch.iter().flat_map(|watch| watch.places.values());
            places.copied().collect()
        })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCH.set(None);
    }
}

/// Adds a parameter, whose place is told with its gradient.
pub(super) fn watch(node: NodeId, place: usize) {
    WATCH.with_borrow_mut(|watch| {
        if let Some(watch) = watch {
            watch.places.insert(node, place);
        }
    });
}

/// Takes a gradient, or gives it back where nobody wants it so early.
pub(super) fn take<B: LayerOps, const D: usize>(
    node: NodeId,
    gradient: Tensor<B, D>,
) -> Option<Tensor<B, D>> {
    WATCH.with_borrow_mut(|watch| {
        let Some(watch) = watch else {
            return Some(gradient);
        };
        let Some(place) = watch.places.remove(&node) else {
            return Some(gradient);
        };
        // Whoever no longer takes gradients has an error of its own to tell of.
        let _ = watch.taken.send((place, Reading::begin(gradient)));
        None
    })
}
