//! MLLess against its closed form, one process, and itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_kernels::hash;
use epochcost_systems::mlless::{self, Sent};
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{
    Batch, ComputeHook, Fidelity, HookedCompute, Job, Replicas, StepRecord, Vector,
};
use serde_json::{Value, json};

use crate::support::{job_of, *};

mod exchange;
mod slack;
mod tuner;

const WORKERS: [usize; 5] = [1, 2, 3, 4, 8];

fn settings_of(job: &Job) -> mlless::Settings {
    serde_json::from_value(job.settings.clone()).unwrap()
}

fn job(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    job_of("mlless", fidelity, workers, settings)
}

/// The workers' steps, by step and rank.
fn worker_steps(trial: &Trial) -> Vec<&StepRecord> {
    let mut steps = trial.steps();
    steps.retain(|step| step.function == "worker" && step.batch.is_some());
    steps.sort_by_key(|s| (s.epoch, s.batch, s.rank));
    steps
}

fn digests(trial: &Trial) -> Vec<String> {
    let steps = worker_steps(trial).into_iter();
    steps
        .map(|s| s.parameters_digest.clone().unwrap())
        .collect()
}

fn densities(trial: &Trial) -> Vec<f64> {
    let steps = worker_steps(trial).into_iter();
    steps.map(|s| s.update_density.unwrap()).collect()
}

/// The model that worker `rank`, not 0, left in the end.
async fn model(job: &Job, trial: &Trial, rank: usize) -> Vec<f32> {
    let key = format!("{}_model_r_w{rank}", job.trial);
    let model = trial.channels.objects.get("updates", &key).await.unwrap();
    let parameters = Vector::decode(&model.unwrap()).unwrap();
    parameters.real().unwrap().to_vec()
}

/// One process that averages the gradients of all workers: the parameters
/// after each step.
async fn reference(job: &Job) -> Vec<Vector> {
    let mut process = OneProcess::new(job).await;
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
                let place = (rank, epoch, index);
                gradients.push(gradient(&process.parameters, place, records).await);
            }
            process.step(&gradients);
            trajectory.push(process.parameters.clone());
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
    job.optimizer = sgd(0.02, 0.0);
    job
}
