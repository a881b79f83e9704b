//! MLLess against its closed form, one process, and itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_kernels::hash;
use epochcost_kernels::optimizer::{Optimizer, OptimizerSpec, Sgd};
use epochcost_systems::mlless::{self, Sent};
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{
    Batch, ComputeHook, Fidelity, HookedCompute, Job, Replicas, SettingsError, StepRecord, Vector,
    find,
};
use serde_json::{Map, Value, json};

mod continued;
mod exchange;
mod slack;
mod tuner;

const WORKERS: [usize; 5] = [1, 2, 3, 4, 8];

fn settings_of(job: &Job) -> mlless::Settings {
    serde_json::from_value(job.settings.clone()).unwrap()
}

fn overrides(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

fn job(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    testing::job("mlless", fidelity, workers, &overrides(settings)).unwrap()
}

fn closed_form(job: &Job) -> Traffic {
    find("mlless")
        .unwrap()
        .bind(job)
        .unwrap()
        .traffic(testing::SIZES)
        .unwrap()
}

/// The workers' steps, by step and rank.
fn worker_steps(trial: &Trial) -> Vec<&StepRecord> {
    let mut steps: Vec<&StepRecord> = trial
        .steps()
        .into_iter()
        .filter(|s| s.function == "worker" && s.batch.is_some())
        .collect();
    steps.sort_by_key(|s| (s.epoch, s.batch, s.rank));
    steps
}

fn digests(trial: &Trial) -> Vec<String> {
    worker_steps(trial)
        .iter()
        .map(|s| s.parameters_digest.clone().unwrap())
        .collect()
}

fn losses(trial: &Trial) -> Vec<f64> {
    worker_steps(trial)
        .iter()
        .map(|s| s.loss.unwrap())
        .collect()
}

fn densities(trial: &Trial) -> Vec<f64> {
    worker_steps(trial)
        .iter()
        .map(|s| s.update_density.unwrap())
        .collect()
}

/// One process that averages the gradients of all workers: the parameters
/// after each step.
async fn reference(job: &Job) -> Vec<Vector> {
    let mut compute = testing::compute();
    let mut parameters = compute.initial_parameters(job.seed).await.unwrap();
    let mut optimizer = Optimizer::new(job.optimizer);
    let (workers, batches) = (job.workers, job.batches_per_worker);
    let mut trajectory = Vec::new();
    for epoch in 0..job.epochs {
        let listed = (workers * batches) as u32;
        let order = match epoch {
            0 => (0..listed).collect(),
            wraps => hash::permutation(listed, hash::mix(job.seed, 8 + wraps as u64)),
        };
        for step in order.chunks(workers) {
            let mut gradients = Vec::new();
            for item in step {
                let (rank, index) = (*item as usize / batches, *item as usize % batches);
                let records = testing::minibatch_records(job, rank, index);
                let batch = Batch {
                    rank,
                    epoch,
                    index,
                    records,
                };
                let mut statistics = compute.initial_statistics();
                let output = compute
                    .gradient(&parameters, &mut statistics, &batch)
                    .await
                    .unwrap();
                gradients.push(output.gradient);
            }
            let mean = Vector::mean(&gradients).unwrap();
            optimizer
                .step(parameters.real_mut().unwrap(), mean.real().unwrap())
                .unwrap();
            trajectory.push(parameters.clone());
        }
    }
    trajectory
}

/// A job long enough to have a knee, whose tuner acts on the formula's losses.
fn long_job(workers: usize, settings: Value) -> Job {
    let mut job = job(Fidelity::Paper, workers, settings);
    job.epochs = 12;
    job.batches_per_worker = 5;
    job.data.train_samples = workers * 10;
    job.optimizer = OptimizerSpec::Sgd(Sgd {
        learning_rate: 0.02,
        momentum: 0.0,
        weight_decay: 0.0,
    });
    job
}

fn form_of(job: &Job, trial: &Trial) -> Traffic {
    let steps = trial.steps();
    let bound = find("mlless").unwrap().bind(job).unwrap();
    bound.traffic_of(testing::SIZES, &steps).unwrap()
}
