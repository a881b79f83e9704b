//! What this machine could do: reading all gradients once, and the kernels
//! alone, without a server.

use std::hint::black_box;
use std::ops::Range;

use epochcost_kernels::codec::decode_f32;
use epochcost_kernels::optimizer::{Sgd, mean_sgd_step_bytes};
use epochcost_kernels::reduce::mean_bytes;

use super::{MOMENTUM, RATE};

/// All gradients in this process, and what the kernels need beside them.
pub struct Alone<'a> {
    gradients: Vec<&'a [u8]>,
    parameters: Vec<f32>,
    velocity: Vec<f32>,
}

impl<'a> Alone<'a> {
    pub fn new(gradients: &'a [Vec<u8>]) -> Self {
        let parameters = decode_f32(&gradients[0]).unwrap();
        Self {
            gradients: gradients.iter().map(Vec::as_slice).collect(),
            velocity: vec![0.0; parameters.len()],
            parameters,
        }
    }

    /// Reads every byte of the gradients once, one after the other.
    pub fn read(&self) {
        let mut sums = [0_u64; 8];
        for gradient in &self.gradients {
            for words in gradient.as_chunks::<64>().0 {
                for (sum, word) in sums.iter_mut().zip(words.as_chunks::<8>().0) {
                    *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
                }
            }
        }
        black_box(sums);
    }

    /// The kernel of `operation`.
    pub fn kernel(&mut self, operation: &str) {
        match operation {
            "mean" => drop(black_box(mean_bytes(&self.gradients))),
            "step" => self.step(0.0, 1..2),
            "step with momentum" => self.step(MOMENTUM.parse().unwrap(), 1..2),
            _ => self.step(0.0, 0..self.gradients.len()),
        }
    }

    fn step(&mut self, momentum: f64, sources: Range<usize>) {
        let sgd = Sgd {
            learning_rate: RATE.parse().unwrap(),
            momentum,
            weight_decay: 0.0,
        };
        let sources = &self.gradients[sources];
        mean_sgd_step_bytes(&sgd, &mut self.parameters, sources, &mut self.velocity).unwrap();
    }
}
