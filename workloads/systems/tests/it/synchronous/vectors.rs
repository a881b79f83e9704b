//! Exchanges of known gradients, with the results of the published code.

use epochcost_systems::testing::Trial;
use epochcost_systems::{Fidelity, Job, Vector};
use serde_json::{Value, json};

use super::common::*;

/// One step of plain SGD at rate 1: the parameters end at minus the exchanged gradient.
fn one_step(system: &str, fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    Job {
        batches_per_worker: 1,
        epochs: 1,
        optimizer: sgd(1.0, 0.0),
        ..job(system, fidelity, workers, settings)
    }
}

/// Every worker must hold `expected` after the exchange.
fn assert_exchanged(trial: &Trial, expected: &[f32]) {
    let parameters = Vector::Real(expected.iter().map(|value| -value).collect());
    let expected = vec![parameters.digest().unwrap(); trial.steps().len()];
    assert_eq!(digests(trial), expected);
}

/// Worker r holds the constant r + 1. The published baseline's one process plays worker r with
/// batch r.
fn constant(rank: usize, index: usize, parameters: usize) -> Vec<f32> {
    vec![(rank + index) as f32 + 1.0; parameters]
}

/// Worker r holds (r + 1)·(1, 2, 3, …).
fn ramp(rank: usize, index: usize, parameters: usize) -> Vec<f32> {
    (1..=parameters)
        .map(|entry| ((rank + index + 1) * entry) as f32)
        .collect()
}

/// W(W + 1)/2 where the published AllReduce sums, (W + 1)/2 where all others
/// take the mean.
#[tokio::test]
async fn sums_and_means_of_constants() {
    for workers in [1, 2, 4, 8] {
        let w = workers as f32;
        let (sum, mean) = (w * (w + 1.0) / 2.0, (w + 1.0) / 2.0);
        let (sums, means) = (json!({"reduction": "sum"}), json!({"reduction": "mean"}));
        for (system, fidelity, settings, expected) in [
            ("allreduce", Fidelity::Paper, json!({}), mean),
            ("allreduce", Fidelity::Paper, sums, sum),
            ("allreduce", Fidelity::Code, json!({}), sum),
            ("allreduce", Fidelity::Code, means, mean),
            ("scatterreduce", Fidelity::Paper, json!({}), mean),
            ("scatterreduce", Fidelity::Code, json!({}), mean),
            ("gpu_baseline", Fidelity::Paper, json!({}), mean),
            ("gpu_baseline", Fidelity::Code, json!({}), mean),
        ] {
            let job = one_step(system, fidelity, workers, settings);
            let trial = run_given(&job, 5, constant).await;
            assert_exchanged(&trial, &[expected; 5]);
        }
    }
}

/// Chunks of unequal and of no length come back in their places.
#[tokio::test]
async fn chunks_are_put_together_in_order() {
    for (workers, parameters) in [(3, 10), (7, 1000), (4, 3), (8, 1)] {
        for (fidelity, settings) in [
            (Fidelity::Paper, json!({})),
            (Fidelity::Paper, json!({"arrival_order": true})),
            (Fidelity::Code, json!({})),
        ] {
            let job = one_step("scatterreduce", fidelity, workers, settings);
            let trial = run_given(&job, parameters, ramp).await;
            // Sums of whole numbers this small are exact in every order.
            let sum = (workers * (workers + 1) / 2) as f32;
            let mean = |entry: usize| entry as f32 * sum / workers as f32;
            let expected: Vec<f32> = (1..=parameters).map(mean).collect();
            assert_exchanged(&trial, &expected);
        }
    }
}
