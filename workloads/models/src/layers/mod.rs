//! The layers that networks are made of.
//!
//! Activations are channels-last, `[batch, height, width, channels]`: a 1×1
//! convolution is then one matrix product and a batch norm works on rows.

mod batch_norm;
mod bias;
mod convolution;
mod linear;
mod pass;

pub(crate) use batch_norm::{BatchNorm, update_running};
pub(crate) use bias::BiasedConvolution;
pub(crate) use convolution::Convolution;
pub(crate) use linear::Linear;
pub(crate) use pass::{Draws, Noted, Pass};
