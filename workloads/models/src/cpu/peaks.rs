//! Peak performance of this machine: the roofline that kernels are compared with.

use std::time::Instant;

use super::Level;
use super::dense;
use super::geometry::Geometry;
use super::input::Input;
use crate::ops::Window;

/// Measured on one thread; the best of several tries.
#[derive(Debug, Clone)]
pub struct Peaks {
    /// The instruction set of the kernels.
    pub level: String,
    /// Billions of `f32` additions and multiplications per second.
    pub gflops: f64,
    /// Billions of bytes per second that a copy reads and writes.
    pub gb_per_s: f64,
}

const TRIES: usize = 30;

/// Measures this machine: set `RAYON_NUM_THREADS=1` for one thread's figures.
#[must_use]
pub fn measured_peaks() -> Peaks {
    Peaks {
        level: format!("{:?}", Level::current()).to_lowercase(),
        gflops: arithmetic(),
        gb_per_s: traffic(),
    }
}

/// One shard's 1×1 convolution of 256 to 256 channels: operands of 512 KiB.
fn arithmetic() -> f64 {
    let geometry = Geometry::new([1, 16, 16, 256], 256, Window::one(1));
    let (values, weight) = (vec![0.5; 256 * 256], vec![0.5; 256 * 256]);
    let input = Input {
        values: &values,
        norm: None,
    };
    let seconds = best(|| {
        std::hint::black_box(dense::products_alone(input, &weight, &geometry, 8));
    });
    8.0 * 2.0 * geometry.work() as f64 / seconds / 1e9
}

/// Returns a copy of 128 MiB.
fn traffic() -> f64 {
    let from = vec![1.0f32; 1 << 25];
    let mut to = vec![0.0f32; 1 << 25];
    let seconds = best(|| {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
    });
    2.0 * size_of_val(from.as_slice()) as f64 / seconds / 1e9
}

fn best(mut work: impl FnMut()) -> f64 {
    (0..TRIES)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}
