//! The steps that replicas take, against one process and each other.

use epochcost_systems::testing;
use epochcost_systems::{Fidelity, Job, Replicas};
use serde_json::json;

use super::common::*;

/// One process that steps with the mean of the sub-batches' gradients: the
/// digest after each step. The sub-batches are those of the workers' shards, or
/// as the published single process draws them.
async fn reference(job: &Job, single_process: bool) -> Vec<String> {
    let mut process = OneProcess::new(job).await;
    let mut digests = Vec::new();
    for epoch in 0..job.epochs {
        for index in 0..job.batches_per_worker {
            let mut gradients = Vec::new();
            for rank in 0..job.workers {
                let records = if single_process {
                    whole_batch(job, epoch, index * job.workers + rank)
                } else {
                    shard_batch(job, rank, epoch, index)
                };
                let place = (rank, epoch, index);
                gradients.push(gradient(&process.parameters, place, records).await);
            }
            digests.push(process.step(&gradients));
        }
    }
    digests
}

/// All systems add in rank order and then divide by W, whole or chunk by chunk:
/// not one bit differs between the systems.
#[tokio::test]
async fn every_replica_takes_the_steps_of_one_process() {
    let tuned = |system| (system, Fidelity::Tuned, json!({}));
    let by_name = |system| (system, Fidelity::Tuned, json!({"over": "objects"}));
    let cases = SYSTEMS
        .map(|system| (system, Fidelity::Paper, json!({})))
        .into_iter()
        .chain(SYSTEMS.map(tuned))
        .chain(["allreduce", "scatterreduce"].map(by_name));
    for (system, fidelity, settings) in cases {
        for workers in WORKERS {
            let job = job(system, fidelity, workers, settings.clone());
            assert_eq!(replicas(&job), Replicas::Identical);
            let expected = of_each(workers, reference(&job, false).await);
            let trial = run(&job).await;
            let what = format!("{system} {fidelity:?} {settings} of {workers}");
            assert_eq!(digests(&trial), expected, "{what}");
        }
    }
}

#[tokio::test]
async fn the_published_baseline_plays_all_workers_in_one_process() {
    for workers in WORKERS {
        let job = job("gpu_baseline", Fidelity::Code, workers, json!({}));
        let trial = run(&job).await;
        assert_eq!(digests(&trial), reference(&job, true).await, "{workers}");
        assert_eq!(trial.driven.invocations, 1);
    }
}

/// Replicas that differ become worker 0's by its checkpoint, as published.
#[tokio::test]
async fn a_checkpoint_is_worker_0s() {
    let settings = json!({"epochs_per_invocation": 1});
    for system in ["allreduce", "scatterreduce"] {
        let job = job(system, Fidelity::Code, 3, settings.clone());
        let digests = digests(&run(&job).await);
        let (first, rest) = digests.split_at(9);
        assert!(first[0] != first[1] && first[1] != first[2]);
        assert!(rest.chunks(3).all(are_same), "{system}: {rest:?}");
    }
}

#[tokio::test]
async fn phantoms_re_invoke_themselves_too() {
    let settings = json!({"epochs_per_invocation": 1});
    for fidelity in [Fidelity::Paper, Fidelity::Code] {
        let job = job("scatterreduce", fidelity, 4, settings.clone());
        let trial = testing::run_with(&job, testing::phantom).await.unwrap();
        assert_eq!(trial.exchange(), closed_form(&job));
        assert!(trial.evaluations().is_empty());
    }
}
