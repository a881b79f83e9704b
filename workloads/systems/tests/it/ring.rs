//! The ring: its bytes, its bits and its distance from a mean in rank order.

use epochcost_kernels::chunk::chunk_range;
use epochcost_systems::{Evaluate, Fidelity, Job, Replicas, Sizes, Vector, find};
use serde_json::json;

use crate::support::*;

const WORKERS: std::ops::RangeInclusive<usize> = 2..=9;

/// Steps of plain SGD at rate 1: after the first, parameters are minus the mean.
fn job(workers: usize) -> Job {
    Job {
        evaluate: Evaluate::Never,
        optimizer: sgd(1.0, 0.0),
        ..job_of("ring", Fidelity::Paper, workers, json!({}))
    }
}

/// Returns the mean by one process: each chunk summed from its worker on, round the ring.
fn in_ring_order(gradients: &[Vec<f32>]) -> Vec<f32> {
    let (workers, n) = (gradients.len(), gradients[0].len());
    let mut mean = vec![0.0; n];
    for chunk in 0..workers {
        for i in chunk_range(n, workers, chunk) {
            let mut sum = gradients[chunk][i];
            for next in 1..workers {
                sum += gradients[(chunk + next) % workers][i];
            }
            mean[i] = sum / workers as f32;
        }
    }
    mean
}

#[tokio::test]
async fn metered_bytes_are_the_closed_form_for_odd_sizes() {
    for workers in WORKERS {
        // Fewer parameters than workers, primes, and a multiple.
        for parameters in [1, 5, 37, 1_009, 8 * 9 * 5 * 7] {
            let job = job(workers);
            let trial = run_given(&job, parameters, drawn).await;
            let sizes = Sizes {
                parameters,
                statistics: 0,
            };
            let ring = find("ring").unwrap();
            let form = ring.bind(&job).unwrap().traffic(sizes).unwrap();
            assert_eq!(trial.exchange(), form, "{workers} workers, {parameters}");
            // A worker sends its chunks but one, twice, and takes as many.
            let steps = (job.epochs * job.batches_per_worker) as u64;
            let length = |chunk: usize| chunk_range(parameters, workers, chunk).len();
            for rank in 0..workers {
                let without = |chunk: usize| 4 * (parameters - length(chunk % workers)) as u64;
                let own = trial.steps().into_iter().filter(|step| step.rank == rank);
                let (mut up, mut down) = (0, 0);
                for step in own {
                    let exchange = step.traffic.exchange.total();
                    (up, down) = (up + exchange.bytes_up, down + exchange.bytes_down);
                }
                assert_eq!(up, steps * (without(rank + 1) + without(rank + 2)));
                assert_eq!(down, steps * (without(rank) + without(rank + 1)));
            }
        }
    }
}

#[tokio::test]
async fn replicas_hold_the_bits_of_one_process_in_the_order_of_the_ring() {
    for workers in WORKERS {
        for parameters in [1, 37, 1_009] {
            let mut job = job(workers);
            (job.batches_per_worker, job.epochs) = (1, 1);
            let trial = run_given(&job, parameters, drawn).await;
            let gradients: Vec<Vec<f32>> = (0..workers)
                .map(|rank| drawn(rank, 0, parameters))
                .collect();
            let mean = in_ring_order(&gradients);
            let stepped = Vector::Real(mean.iter().map(|x| 0.0 - x).collect());
            let expected = vec![stepped.digest().unwrap(); workers];
            assert_eq!(digests(&trial), expected, "{workers} workers");
            // Rank order gives the same mean but for its last bits.
            for (i, mean) in mean.iter().enumerate() {
                let sum: f32 = gradients.iter().map(|gradient| gradient[i]).sum();
                assert!((sum / workers as f32 - mean).abs() <= 1e-6);
            }
        }
    }
}

#[tokio::test]
async fn replicas_stay_alike_and_sizes_alone_move_as_much() {
    for workers in [1, 2, 3, 8] {
        let job = job_of("ring", Fidelity::Tuned, workers, json!({}));
        assert_eq!(replicas(&job), Replicas::Identical);
        assert_moves(&job, closed_form(&job)).await;
        let steps = digests(&run(&job).await);
        assert!(steps.chunks(workers).all(are_same));
        assert_eq!(steps, digests(&run(&job).await));
    }
}
