//! What this machine could do: reading all gradients once, and the kernels
//! alone, without a server.

use std::hint::black_box;

use epochcost_kernels::optimizer::{Sgd, mean_sgd_step_bytes};
use epochcost_kernels::reduce::mean_bytes;

use super::record::Arm;
use super::{MOMENTUM, RATE, bytes, time};

pub fn arms(gradients: &[Vec<f32>], repetitions: usize) -> Vec<Arm> {
    let sent: Vec<Vec<u8>> = gradients.iter().map(|g| bytes(g)).collect();
    let sent: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
    let plain = sgd("0");
    let momentum = sgd(MOMENTUM);
    let mut w = gradients[0].clone();
    let mut v = Vec::new();
    let one = &sent[1..2];
    let mut step = |sgd: &Sgd, sources: &[&[u8]]| {
        mean_sgd_step_bytes(sgd, &mut w, sources, &mut v).unwrap();
    };
    step(&momentum, one);
    vec![
        Arm::new("read floor", "mean", time(repetitions, || read(&sent))),
        Arm::new(
            "bare kernel",
            "mean",
            time(repetitions, || drop(black_box(mean_bytes(&sent)))),
        ),
        Arm::new(
            "bare kernel",
            "step",
            time(repetitions, || step(&plain, one)),
        ),
        Arm::new(
            "bare kernel",
            "step with momentum",
            time(repetitions, || step(&momentum, one)),
        ),
        Arm::new(
            "bare kernel",
            "mean and step",
            time(repetitions, || step(&plain, &sent)),
        ),
    ]
}

fn sgd(momentum: &str) -> Sgd {
    Sgd {
        learning_rate: RATE.parse().unwrap(),
        momentum: momentum.parse().unwrap(),
        weight_decay: 0.0,
    }
}

/// Reads every byte once, one vector after the other.
fn read(vectors: &[&[u8]]) {
    let mut sums = [0_u64; 8];
    for vector in vectors {
        for words in vector.as_chunks::<64>().0 {
            for (sum, word) in sums.iter_mut().zip(words.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
    }
    black_box(sums);
}
