//! KubeML against its closed form, averaging of weights, and plain SGD.

mod lost;
mod messages;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use epochcost_channels::{Payload, Traffic};
use epochcost_kernels::optimizer::{Optimizer, OptimizerSpec, Sgd};
use epochcost_systems::testing::{self, SIZES, Trial};
use epochcost_systems::{Batch, Fidelity, Job, SystemError, Vector, kubeml};
use serde_json::{Value, json};

use crate::support::*;

const WORKERS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn settings_of(job: &Job) -> kubeml::Settings {
    serde_json::from_value(job.settings.clone()).unwrap()
}

/// Documents of two samples: a mini-batch each.
fn job(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    let mut settings = overrides(settings);
    settings.entry("document_samples").or_insert(json!(2));
    job_of("kubeml", fidelity, workers, settings.into())
}

fn decaying(momentum: f64) -> OptimizerSpec {
    OptimizerSpec::Sgd(Sgd {
        learning_rate: 0.1,
        momentum,
        weight_decay: 0.01,
    })
}

fn state_form(job: &Job) -> Traffic {
    kubeml::state_traffic(job, &settings_of(job), SIZES, &[]).unwrap()
}

/// The model that is left in the store: three tensors of parameters.
async fn model(trial: &Trial) -> Vec<f32> {
    let store = trial.channels.tensors.of(0).unwrap();
    let mut parameters = Vec::new();
    for layer in 0..3 {
        let tensor = store.get(&format!("trial:{layer}")).await.unwrap().unwrap();
        parameters.extend_from_slice(Vector::decode(&tensor).unwrap().real().unwrap());
    }
    parameters
}

/// The records of mini-batch `index` of the epoch, over all functions.
fn records(job: &Job, index: usize) -> Payload {
    testing::records(job, index * job.batch_size, job.batch_size).into()
}

/// Replicas that take local steps and replace their weights by the mean after
/// every `between` steps; momentum lives as long as configured.
async fn averaging(job: &Job, between: usize, clears: bool) -> Vec<f32> {
    let mut reference = OneProcess::new(job).await.parameters;
    let batches = job.batches_per_worker;
    for epoch in 0..job.epochs {
        let mut optimizers: Vec<Optimizer> = (0..job.workers)
            .map(|_| Optimizer::new(job.optimizer))
            .collect();
        for first in (0..batches).step_by(between) {
            let mut replicas = Vec::new();
            for (rank, optimizer) in optimizers.iter_mut().enumerate() {
                if clears {
                    *optimizer = Optimizer::new(job.optimizer);
                }
                let mut replica = reference.clone();
                for index in first..(first + between).min(batches) {
                    let records = records(job, rank * batches + index);
                    let gradient = gradient(&replica, (rank, epoch, index), records).await;
                    let values = replica.real_mut().unwrap();
                    optimizer.step(values, gradient.real().unwrap()).unwrap();
                }
                replicas.push(replica);
            }
            reference = Vector::mean(&replicas).unwrap();
        }
    }
    reference.real().unwrap().to_vec()
}

/// With K = 1 it is synchronous averaging of weights, and one function alone is plain SGD, whose momentum
/// lasts for an epoch.
#[tokio::test]
async fn every_k_averages_weights_after_so_many_steps() {
    for fidelity in [Fidelity::Paper, Fidelity::Tuned] {
        for (k, between) in [(1, 1), (2, 2), (3, 3), (7, 3), (-1, 3)] {
            for workers in WORKERS {
                let mut job = job(fidelity, workers, json!({"k": k}));
                job.optimizer = decaying(0.9);
                let expected = averaging(&job, between, false).await;
                let found = model(&run(&job).await).await;
                assert_eq!(found, expected, "{fidelity:?}, K = {k}, {workers}");
            }
        }
    }
}

/// Momentum never survives a merge, as published.
#[tokio::test]
async fn momentum_is_cleared_at_merges_or_kept() {
    let with = |state: &str| {
        let settings = json!({"k": 1, "optimizer_state": state});
        let mut job = job(Fidelity::Paper, 3, settings);
        job.optimizer = decaying(0.9);
        job
    };
    let (cleared, kept) = (with("cleared"), with("kept"));
    let cleared_model = model(&run(&cleared).await).await;
    assert_eq!(cleared_model, averaging(&cleared, 1, true).await);
    assert_ne!(cleared_model, model(&run(&kept).await).await);
}

#[tokio::test]
async fn metered_traffic_is_the_closed_form() {
    for fidelity in Fidelity::ALL {
        for k in [-1, 1, 2] {
            for workers in WORKERS {
                let job = job(fidelity, workers, json!({"k": k}));
                for trial in assert_moves(&job, closed_form(&job)).await {
                    let what = format!("{fidelity:?}, K = {k}, {workers} functions");
                    assert_eq!(state(&trial).untimed(), state_form(&job), "{what}");
                }
            }
        }
    }
}

/// J(3N + 1)M per epoch, NM for its validation, and 2M at the start.
#[test]
fn bytes_are_as_published() {
    let bytes = |traffic: Traffic| traffic.bytes_up + traffic.bytes_down;
    for workers in WORKERS {
        for (k, merges) in [(-1, 1), (1, 3), (2, 2)] {
            let job = job(Fidelity::Paper, workers, json!({"k": k}));
            let mut exchange = closed_form(&job);
            let state = state_form(&job);
            let n = workers as u64;
            let (train, next) = (3 * n * merges, 3 * n * (merges - 1));
            let validate = 3 * n.min(2 * workers as u64).min(2);
            let messages = 3 * n * kubeml::QUERY_BYTES
                + train * kubeml::REPORT_BYTES
                + next * kubeml::GO_ON_BYTES
                + validate * (kubeml::QUERY_BYTES + kubeml::VALIDATION_BYTES)
                + kubeml::INITIALISED_BYTES;
            exchange.bytes_up -= messages;
            exchange.bytes_down -= messages;
            let m = 4 * (37 + 6 + 1);
            let expected = 2 * m + 3 * merges * (3 * n + 1) * m + validate * m;
            assert_eq!(bytes(exchange) + bytes(state), expected, "K = {k}, {n}");
            // Tensors: L = 6 of them.
            let calls = exchange.puts + exchange.gets + state.puts + state.gets;
            assert_eq!(calls, 6 * expected / m);
        }
    }
}

#[tokio::test]
async fn who_merges_changes_no_bit() {
    for workers in WORKERS {
        let paper = run(&job(Fidelity::Paper, workers, json!({"k": 2}))).await;
        let tuned = run(&job(Fidelity::Tuned, workers, json!({"k": 2}))).await;
        assert_eq!(model(&paper).await, model(&tuned).await);
        assert_eq!(paper.evaluations(), tuned.evaluations());
    }
}

/// Functions that share fewer documents leave early; the others go on.
#[tokio::test]
async fn functions_that_have_returned_are_no_part_of_later_merges() {
    // 5 functions, 30 samples in documents of 4: 8 documents, of which the
    // first three functions get two.
    let settings = json!({"k": 1, "document_samples": 4});
    let job = job(Fidelity::Paper, 5, settings);
    let trial = run(&job).await;
    assert_eq!(trial.exchange(), closed_form(&job));
    let merges = trial.steps().iter().filter(|s| s.function == "job").count();
    // Two merges and a validation per epoch, and the end.
    assert_eq!(merges, 3 * 3 + 1);
}

#[tokio::test]
async fn an_elastic_job_moves_what_its_epochs_tell() {
    let mut job = job(Fidelity::Paper, 2, json!({"static": false, "k": 1}));
    job.epochs = 4;
    let trial = run(&job).await;
    let steps = trial.steps();
    let in_epoch = |epoch| {
        let own = steps
            .iter()
            .filter(|step| step.function == "train" && step.epoch == epoch);
        own.map(|step| step.rank).collect::<BTreeSet<_>>().len()
    };
    assert_eq!([in_epoch(0), in_epoch(1)], [2, 3]);
    assert_ne!(trial.exchange(), closed_form(&job));
}

#[tokio::test]
async fn the_model_is_kept_or_deleted() {
    for (fidelity, is_kept) in [
        (Fidelity::Paper, true),
        (Fidelity::Code, false),
        (Fidelity::Tuned, true),
    ] {
        let trial = run(&job(fidelity, 2, json!({}))).await;
        let store = trial.channels.tensors.of(0).unwrap();
        for (key, expected) in [
            ("trial:0", is_kept),
            ("trial:5", is_kept),
            ("trial:0/1", false),
        ] {
            let found = store.get(key).await.unwrap().is_some();
            assert_eq!(found, expected, "{fidelity:?} {key}");
        }
    }
}

#[tokio::test]
async fn every_function_begins_an_interval_alike() {
    let trial = run(&job(Fidelity::Paper, 4, json!({"k": 2}))).await;
    let mut begun: Vec<_> = trial
        .steps()
        .into_iter()
        .filter_map(|step| Some((step.epoch, step.batch, step.parameters_digest.clone()?)))
        .collect();
    assert_eq!(begun.len(), 3 * 2 * 4);
    begun.sort();
    begun.dedup();
    assert_eq!(begun.len(), 3 * 2);
    assert_eq!(trial.evaluations().len(), 3);
    assert_eq!(trial.evaluations()[0].1.samples, 4);
}

#[test]
fn functions_without_a_document_are_refused() {
    let refused = refusal(&job(Fidelity::Paper, 4, json!({"document_samples": 64})));
    holds(refused, &["4 functions share 1 documents"]);
}

/// Models that fail so often where they are to.
fn failing(fails: fn(&Batch) -> bool, times: usize) -> impl testing::Make {
    let left = Arc::new(AtomicUsize::new(times));
    move || {
        let left = left.clone();
        hooked(move |batch| {
            let one_less = |left: usize| left.checked_sub(1);
            if fails(batch) && left.fetch_update(Relaxed, Relaxed, one_less).is_ok() {
                return Err(SystemError::Compute("the device is gone".into()));
            }
            Ok(())
        })
    }
}

/// The model after two epochs of three functions, of which one fails so often.
async fn after_failures(rule: &str, merge_by: &str, failures: usize) -> Vec<f32> {
    let settings = json!({"k": 1, "failed_function": rule, "merge_by": merge_by});
    let mut job = job(Fidelity::Paper, 3, settings);
    job.epochs = 2;
    // A function that is called again has lost its momentum.
    job.optimizer = decaying(0.0);
    let compute = failing(
        |batch| (batch.rank, batch.epoch, batch.index) == (1, 1, 1),
        failures,
    );
    model(&testing::run_with(&job, compute).await.unwrap()).await
}

#[tokio::test]
async fn a_function_that_fails_is_called_again_and_nothing_is_lost() {
    let expected = after_failures("called_again", "job", 0).await;
    for merge_by in ["job", "store"] {
        for failures in [1, 2] {
            let found = after_failures("called_again", merge_by, failures).await;
            assert_eq!(found, expected, "{failures}");
        }
    }
}

#[tokio::test]
async fn a_function_that_is_lost_is_left_out_or_counts_with_what_it_stored() {
    for merge_by in ["job", "store"] {
        let (for_good, whole) = (usize::MAX, after_failures("left_out", merge_by, 0).await);
        let left_out = after_failures("left_out", merge_by, 1).await;
        let stale = after_failures("stale", merge_by, 1).await;
        assert!(left_out != whole && stale != whole && stale != left_out);
        // Called in vain three times, it is left out.
        let gone = after_failures("called_again", merge_by, for_good).await;
        assert_eq!(gone, left_out);
    }
}

/// The share of a function that has stored nothing is missing from the merged
/// model, as published.
#[tokio::test]
async fn a_function_that_has_stored_nothing_still_divides() {
    // Under `static: false` the second epoch has a fourth function, the first
    // call of which fails.
    let settings = json!({"failed_function": "stale", "static": false});
    let mut job = job(Fidelity::Paper, 3, settings);
    job.epochs = 2;
    let of = async |times| {
        let compute = failing(|batch| batch.rank == 3, times);
        model(&testing::run_with(&job, compute).await.unwrap()).await
    };
    let (lost, whole) = (of(1).await, of(0).await);
    let norm = |model: &[f32]| model.iter().map(|w| f64::from(w * w)).sum::<f64>().sqrt();
    let ratio = norm(&lost) / norm(&whole);
    assert!(
        (ratio - 0.75).abs() < 0.05,
        "three of four are left: {ratio}"
    );
}

#[tokio::test]
async fn a_job_without_functions_ends() {
    let mut job = job(Fidelity::Code, 1, json!({}));
    job.epochs = 1;
    let compute = failing(|_| true, usize::MAX);
    let error = testing::run_with(&job, compute).await.err().unwrap();
    holds(error, &["all of its functions have failed"]);
}
