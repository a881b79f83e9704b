//! The networks and their training step, built on burn and offered without it.
//!
//! A [`Trainer`] is made at run time from a model's name and a [`Device`]. Its
//! step takes flat parameters, flat batch-norm statistics and a batch of images,
//! and returns the mean cross-entropy and one flat gradient. Nothing persists
//! between two steps: what a step depends on is in its arguments.
//!
//! # Flat vectors
//!
//! Parameters and gradients are the concatenation of the network's tensors in
//! field order, each in row-major order. Shapes and order are those of PyTorch's
//! `model.parameters()` for the same network: convolution weights are
//! `[out, in / groups, height, width]`, linear weights `[out, in]`, then the
//! bias; a batch norm is its weight and then its bias.
//!
//! Statistics are, for every batch norm in field order, its running mean and
//! then its running variance, one value per channel each.
//!
//! # Batch-norm policy
//!
//! A training step normalises by the batch's own mean and biased variance (two
//! passes, ε = 1e-5) and moves the running statistics by a momentum of 0.1
//! towards the batch's mean and unbiased variance, as PyTorch does. The
//! statistics are an input and an output of the step and never state of the
//! network: a training system decides whether they are kept, replaced or
//! exchanged. Evaluation normalises by the statistics that it is given.
//!
//! # Dropout
//!
//! What a training step drops depends on the seed that it is given, on the layer and on the
//! image's position in the batch, and on nothing else: equal steps drop the same. Evaluation
//! drops nothing.
//!
//! # Images
//!
//! Images that are smaller than a model's input are enlarged to it by bilinear
//! interpolation (28×28 to 32×32 or 224×224), and one channel is repeated to three. Nothing
//! is made smaller.
//!
//! # Threads
//!
//! The CPU backend computes on rayon's global pool, whose size the parent sets
//! by `RAYON_NUM_THREADS`. No pool is started here. Its size changes no bit of what
//! is computed.
//!
//! # Instruction sets
//!
//! The CPU's kernels take the best of AVX-512, AVX2 and plain code that the machine
//! has; `EPOCHCOST_SIMD=avx2` or `=portable` holds them to less, to compare. Levels
//! differ in the last bits.
//!
//! 3×3 convolutions of stride 1 between at least 32 channels are computed by Winograd's
//! F(2×2, 3×3); `EPOCHCOST_CONVOLUTION=direct` computes them as plain sums, to compare.
//! These, too, differ in the last bits.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::disallowed_methods))]

mod allocator;
mod catalog;
mod cpu;
#[cfg(test)]
mod documented {
    //! The example of `docs/adding-a-model.md`, from there.
    #![allow(dead_code)]

    pub(crate) mod description {
        include!(concat!(env!("OUT_DIR"), "/description.rs"));
    }

    pub(crate) mod network {
        include!(concat!(env!("OUT_DIR"), "/network.rs"));
    }

    mod tests {
        include!(concat!(env!("OUT_DIR"), "/documented_tests.rs"));
    }
}
mod error;
mod fit;
mod flat;
#[cfg(feature = "gpu")]
mod gpu;
pub mod input;
mod layers;
mod networks;
mod ops;
mod parts;
mod session;
mod source;
mod trainer;
mod usage;

pub use allocator::keep_freed_memory;
pub use catalog::{Device, ModelInfo, Precision, models};
pub use cpu::peaks::{Peaks, measured_peaks};
pub use error::ModelError;
pub use trainer::{Evaluation, StepOutput, Trainer};
pub use usage::{GPU_STAND_IN, Gpu, GpuUsage, GpuWatch, gpus};
