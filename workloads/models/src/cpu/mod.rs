//! The training step's arithmetic on the CPU: plain functions over slices of `f32`.
//!
//! Everything is channels-last. Each kernel is written once over [`lanes::Lanes`]
//! and compiled for AVX-512, AVX2 and plain code; [`dispatch`] takes the best level
//! that the machine has. Work is cut into shards that depend on shapes alone and
//! never on the number of threads, and sums over shards run in their order, so that
//! the numbers are the same on any number of threads.
//!
//! Pointers and intrinsics need `unsafe`; nothing outside of this module does.

#![allow(unsafe_code)]

pub(crate) mod activation;
pub(crate) mod channels;
pub(crate) mod dense;
pub(crate) mod dense_images;
pub(crate) mod dense_weight;
pub(crate) mod depthwise;
pub(crate) mod geometry;
pub(crate) mod input;
mod lanes;
pub(crate) mod loss;
pub(crate) mod max_pool;
mod memory;
pub(crate) mod method;
pub(crate) mod norm;
pub(crate) mod peaks;
mod pointwise;
pub(crate) mod pool;
mod product;
pub(crate) mod rows;
mod tile;
mod winograd;

use std::sync::OnceLock;

use lanes::{Lanes, Portable, Single};

/// An instruction set that the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Plain code.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512F.
    Avx512,
}

/// The environment variable that holds the kernels to a lower level than the
/// machine's: `avx512`, `avx2` or `portable`.
const SIMD: &str = epochcost_environment::user::SIMD;

impl Level {
    /// Returns the level that kernels run at: the machine's best, or a lower one
    /// that the environment asks for. Decided once.
    pub(crate) fn current() -> Self {
        static LEVEL: OnceLock<Level> = OnceLock::new();
        *LEVEL.get_or_init(|| {
            let wanted = match std::env::var(SIMD).as_deref() {
                Ok("portable") => Self::Portable,
                Ok("avx2") => Self::Avx2,
                _ => Self::Avx512,
            };
            let mut levels = [Self::Avx512, Self::Avx2].into_iter();
            let best = levels.find(|level| *level <= wanted && level.is_supported());
            best.unwrap_or(Self::Portable)
        })
    }

    /// Returns whether this machine supports it.
    pub(crate) fn is_supported(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f"),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

/// Work that is compiled for every level. `run` and what it calls must be
/// `#[inline(always)]`: code outside of the caller's `#[target_feature]` is compiled
/// without it.
pub(crate) trait Kernel {
    type Output;

    /// # Safety
    /// The machine must have the level.
    unsafe fn run<L: Lanes>(self) -> Self::Output;
}

/// Runs a kernel at the current level.
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    let level = Level::current();
    debug_assert!(level.is_supported());
    // SAFETY: the current level is one that the machine has.
    unsafe {
        match level {
            Level::Portable => kernel.run::<Portable>(),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2(kernel),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512(kernel),
            #[cfg(not(target_arch = "x86_64"))]
            _ => kernel.run::<Portable>(),
        }
    }
}

/// Runs a product of so many columns at the current level: of few, half as wide vectors
/// hold as many of them, and two of those are added in the time of one.
pub(crate) fn dispatch_columns<K: Kernel>(columns: usize, kernel: K) -> K::Output {
    dispatch_half(columns <= 8, kernel)
}

/// Runs a kernel with vectors along so many channels at the current level: half as wide
/// ones where those fill them and whole ones would be left over.
pub(crate) fn dispatch_channels<K: Kernel>(channels: usize, kernel: K) -> K::Output {
    dispatch_half(channels % 16 == 8, kernel)
}

/// Runs a kernel at the current level, with vectors of 8 values in the place of 16 where `half`.
fn dispatch_half<K: Kernel>(half: bool, kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if half && Level::current() == Level::Avx512 {
        // SAFETY: a machine that has AVX-512 has AVX2 and FMA.
        return unsafe { avx2(kernel) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = half;
    dispatch(kernel)
}

/// Runs a kernel that works on whole vectors alone along so many channels, as
/// [`dispatch_channels`] does: by single values where channels fill no vectors.
pub(crate) fn dispatch_whole<K: Kernel>(channels: usize, kernel: K) -> K::Output {
    dispatch_channels(channels, Whole { channels, kernel })
}

struct Whole<K> {
    channels: usize,
    kernel: K,
}

impl<K: Kernel> Kernel for Whole<K> {
    type Output = K::Output;

    #[inline(always)]
    unsafe fn run<L: Lanes>(self) -> K::Output {
        // SAFETY: the caller guarantees the level; single values need none.
        unsafe {
            match self.channels % L::WIDTH {
                0 => self.kernel.run::<L>(),
                _ => self.kernel.run::<Single>(),
            }
        }
    }
}

/// # Safety
/// The CPU must support AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees AVX2 and FMA, and this function is compiled for them.
    unsafe { kernel.run::<lanes::Avx2>() }
}

/// # Safety
/// The CPU must support AVX-512F, AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f")]
unsafe fn avx512<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller guarantees AVX-512F, and this function is compiled for it.
    unsafe { kernel.run::<lanes::Avx512>() }
}
