//! The models as their papers describe them, layer by layer, without a tensor library.
//!
//! A [`Model`] is one value: its name, the images that it reads, its classes, and its
//! [`Layers`] in the order of PyTorch's `model.parameters()`. Everything else that the
//! project knows of a model is computed from these layers: how many parameters and
//! batch-norm statistics it has, the tensors of its state dictionary, and what the audit
//! of the papers counts. The networks themselves (`workloads/models`) read the same tables
//! of widths and strides, and a test compares the shape of each of their tensors with the
//! description.
//!
//! `docs/adding-a-model.md` adds one.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod layer;
mod model;
pub mod models;

pub use layer::{EntryKind, Function, Layer, Layers, Tensor};
pub use model::Model;
pub use models::{find, models};
