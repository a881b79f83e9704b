//! The ring: its bytes, its bits and its distance from a mean in rank order.

use async_trait::async_trait;
use epochcost_kernels::chunk::chunk_range;
use epochcost_kernels::hash;
use epochcost_kernels::optimizer::{OptimizerSpec, Sgd};
use epochcost_systems::testing;
use epochcost_systems::{
    Batch, Compute, Evaluate, Evaluation, Fidelity, GradientOutput, Job, Replicas, Result, Sizes,
    Vector, find,
};
use serde_json::{Map, json};

const WORKERS: std::ops::RangeInclusive<usize> = 2..=9;

/// Parameters that start at zero, and gradients that depend on worker and step.
struct Given {
    parameters: usize,
}

fn gradient(worker: usize, index: usize, parameters: usize) -> Vec<f32> {
    let seed = hash::mix(worker as u64 + 1, index as u64);
    let element = |i: usize| hash::unit_f32(hash::mix(seed, i as u64)) - 0.5;
    (0..parameters).map(element).collect()
}

#[async_trait]
impl Compute for Given {
    fn parameters(&self) -> usize {
        self.parameters
    }

    fn statistics(&self) -> usize {
        0
    }

    async fn initial_parameters(&mut self, _seed: u64) -> Result<Vector> {
        Ok(Vector::Real(vec![0.0; self.parameters]))
    }

    fn initial_statistics(&self) -> Vector {
        Vector::Real(vec![])
    }

    async fn gradient(
        &mut self,
        _parameters: &Vector,
        _statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput> {
        Ok(GradientOutput {
            loss: None,
            gradient: Vector::Real(gradient(batch.rank, batch.index, self.parameters)),
        })
    }

    async fn evaluate(
        &mut self,
        _parameters: &Vector,
        _statistics: &Vector,
        _test: &Batch,
    ) -> Result<Option<Evaluation>> {
        Ok(None)
    }
}

/// Steps of plain SGD at rate 1: after the first, parameters are minus the mean.
fn job(workers: usize) -> Job {
    let job = testing::job("ring", Fidelity::Paper, workers, &Map::new()).unwrap();
    Job {
        evaluate: Evaluate::Never,
        optimizer: OptimizerSpec::Sgd(Sgd {
            learning_rate: 1.0,
            momentum: 0.0,
            weight_decay: 0.0,
        }),
        ..job
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
            let make = move || -> Box<dyn Compute> { Box::new(Given { parameters }) };
            let trial = testing::run_with(&job, make).await.unwrap();
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
            let make = move || -> Box<dyn Compute> { Box::new(Given { parameters }) };
            let trial = testing::run_with(&job, make).await.unwrap();
            let gradients: Vec<Vec<f32>> = (0..workers)
                .map(|rank| gradient(rank, 0, parameters))
                .collect();
            let mean = in_ring_order(&gradients);
            let expected = Vector::Real(mean.iter().map(|x| 0.0 - x).collect()).digest();
            let digests: Vec<_> = trial
                .steps()
                .iter()
                .map(|s| s.parameters_digest.clone())
                .collect();
            assert_eq!(digests, vec![expected; workers], "{workers} workers");
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
        let job = testing::job("ring", Fidelity::Tuned, workers, &Map::new()).unwrap();
        let ring = find("ring").unwrap();
        let bound = ring.bind(&job).unwrap();
        assert_eq!(bound.replicas(), Replicas::Identical);
        let form = bound.traffic(testing::SIZES).unwrap();
        for compute in [testing::compute, testing::phantom] {
            let trial = testing::run_with(&job, compute).await.unwrap();
            assert_eq!(trial.exchange(), form);
        }
        let trial = testing::run(&job).await.unwrap();
        let again = testing::run(&job).await.unwrap();
        let digests = |trial: &testing::Trial| {
            let mut steps = trial.steps();
            steps.sort_by_key(|step| (step.epoch, step.batch, step.rank));
            steps
                .iter()
                .map(|s| s.parameters_digest.clone().unwrap())
                .collect::<Vec<_>>()
        };
        let steps = digests(&trial);
        assert!(
            steps
                .chunks(workers)
                .all(|step| step.iter().all(|d| *d == step[0]))
        );
        assert_eq!(steps, digests(&again));
    }
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let ring = find("ring").unwrap();
    let overrides = json!({"poll_ms": "often"}).as_object().unwrap().clone();
    let error = ring.settings(Fidelity::Paper, &overrides).unwrap_err();
    assert_eq!(error.field(), "poll_ms");
}
