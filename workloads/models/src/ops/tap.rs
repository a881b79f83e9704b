//! Gradients of parameters, taken out of a backward pass as soon as they are known.
//!
//! burn returns all gradients when its backward pass is over. A step that needs them earlier
//! taps its parameters: the operation of ours that computes the gradient of a tapped parameter
//! sends it here instead of returning it to burn, unless another operation of ours reads that
//! parameter too. All other gradients are among burn's in the end: those that burn's own
//! operations compute, and sums of several.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::mpsc::Sender;

use burn::tensor::Tensor;
use burn_autodiff::NodeId;

use super::LayerOps;
use crate::flat::Reading;

/// The position of a parameter in field order, and its gradient.
pub(crate) type Taken = (usize, Reading);

struct State {
    /// Number of operations of ours that read each node.
    readers: HashMap<NodeId, usize>,
    positions: HashMap<NodeId, usize>,
    taken: Sender<Taken>,
}

thread_local! {
    /// Tap of the step that this thread is in.
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Takes gradients of parameters that were added on this thread, from its creation, before the
/// forward pass, until it is dropped.
pub(crate) struct GradientTap(());

impl GradientTap {
    /// Begins to send gradients to `taken`.
    pub(crate) fn begin(taken: Sender<Taken>) -> Self {
        STATE.set(Some(State {
            readers: HashMap::new(),
            positions: HashMap::new(),
            taken,
        }));
        Self(())
    }

    /// Returns the positions of the parameters whose gradients were not taken.
    pub(crate) fn remaining(&self) -> Vec<usize> {
        STATE.with_borrow(|state| {
            let positions = state.iter().flat_map(|state| state.positions.values());
            positions.copied().collect()
        })
    }
}

impl Drop for GradientTap {
    fn drop(&mut self) {
        STATE.set(None);
    }
}

/// Notes that an operation reads a node.
pub(super) fn read(node: NodeId) {
    STATE.with_borrow_mut(|state| {
        if let Some(state) = state {
            *state.readers.entry(node).or_default() += 1;
        }
    });
}

/// Adds a parameter, whose position is sent with its gradient.
pub(super) fn add(node: NodeId, position: usize) {
    STATE.with_borrow_mut(|state| {
        if let Some(state) = state {
            state.positions.insert(node, position);
        }
    });
}

/// Takes a gradient, or returns it where it is not tapped.
pub(super) fn take<B: LayerOps, const D: usize>(
    node: NodeId,
    gradient: Tensor<B, D>,
) -> Option<Tensor<B, D>> {
    STATE.with_borrow_mut(|state| {
        let Some(state) = state else {
            return Some(gradient);
        };
        if state.readers.get(&node) != Some(&1) {
            return Some(gradient);
        }
        let Some(position) = state.positions.remove(&node) else {
            return Some(gradient);
        };
        // A receiver that is gone has failed, and reports its own error.
        let _ = state.taken.send((position, Reading::begin(gradient)));
        None
    })
}
