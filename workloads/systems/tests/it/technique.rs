//! Early ends and smaller learning rates, alike for all workers.

use std::collections::BTreeMap;
use std::time::Duration;

use epochcost_systems::testing::{self, Around, Trial};
use epochcost_systems::{
    Evaluate, Evaluation, Fidelity, Job, Record, StepRecord, SystemError, find,
};
use serde_json::{Value, json};

use crate::support::*;

const SYSTEMS: [(&str, Fidelity); 14] = [
    ("mlless", Fidelity::Paper),
    ("allreduce", Fidelity::Paper),
    ("scatterreduce", Fidelity::Tuned),
    ("gpu_baseline", Fidelity::Paper),
    ("gpu_baseline", Fidelity::Code),
    ("lambdaml_allreduce", Fidelity::Code),
    ("lambdaml_async", Fidelity::Paper),
    ("kubeml", Fidelity::Paper),
    ("mirrored", Fidelity::Paper),
    ("ring", Fidelity::Paper),
    ("spirt", Fidelity::Paper),
    ("spirt", Fidelity::Tuned),
    ("p2p", Fidelity::Paper),
    ("p2p_lambda", Fidelity::Paper),
];

/// A job with a validation split, on which techniques stand.
fn job(system: &str, fidelity: Fidelity, workers: usize, techniques: Value) -> Job {
    let mut settings = techniques;
    let more = match system {
        // Every update is sent whole, so that the closed form does not depend on values.
        "mlless" => json!({"significance_threshold": 0.0, "encoding": "dense"}),
        "kubeml" => json!({"document_samples": 2}),
        _ => json!({}),
    };
    settings.as_object_mut().unwrap().extend(overrides(more));
    let mut job = job_of(system, fidelity, workers, settings);
    job.data.validation_samples = 4;
    job
}

/// Epochs and results on the validation split.
fn validations(trial: &Trial) -> impl Iterator<Item = (usize, Evaluation)> {
    trial.records.iter().filter_map(|record| match record {
        Record::Evaluated {
            epoch, validation, ..
        } => Some((*epoch, validation.unwrap())),
        _ => None,
    })
}

/// The losses on the validation split by epoch, of the worker that reported last.
fn validation_losses(trial: &Trial) -> Vec<f64> {
    let losses = validations(trial).map(|(epoch, validation)| (epoch, validation.loss));
    losses.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// The second epoch's loss is not lower by a thousand, so training ends there,
/// and the closed form is that of two epochs.
#[tokio::test]
async fn training_ends_early_for_all_workers() {
    let stop = json!({"early_stopping": {"patience": 1, "min_delta": 1e3}});
    for (system, fidelity) in SYSTEMS {
        for workers in [1, 2, 4] {
            let mut job = job(system, fidelity, workers, stop.clone());
            job.epochs = 5;
            let trial = run(&job).await;
            let what = format!("{system} {fidelity:?} of {workers}");
            assert_eq!(validation_losses(&trial).len(), 2, "{what}");
            job.epochs = 2;
            assert_eq!(trial.exchange(), closed_form(&job), "{what}");
        }
    }
}

/// A rate of almost nothing after the second epoch leaves the model as it was.
#[tokio::test]
async fn the_learning_rate_falls_for_all_workers() {
    let plateau = json!({"reduce_on_plateau": {"factor": 1e-9, "patience": 0, "minimum": 0.0}});
    // Of asynchronous workers no two trials are alike.
    let comparable = SYSTEMS
        .into_iter()
        .filter(|(system, _)| *system != "lambdaml_async");
    for (system, fidelity) in comparable {
        let losses = async |techniques| {
            let mut job = job(system, fidelity, 2, techniques);
            // Away from the loss's optimum: the second loss is the higher.
            job.optimizer = sgd(0.5, 0.0);
            job.epochs = 6;
            validation_losses(&run(&job).await)
        };
        let (plain, reduced) = (losses(json!({})).await, losses(plateau.clone()).await);
        let no_better = plain
            .windows(2)
            .position(|pair| pair[1] >= pair[0] * (1.0 - 1e-4));
        let first = 1 + no_better.unwrap();
        assert_eq!(plain[..=first], reduced[..=first], "{system} {fidelity:?}");
        for loss in &reduced[first..] {
            let is_near = (loss - reduced[first]).abs() < 1e-4 * reduced[first];
            assert!(is_near, "{system} {fidelity:?}: {reduced:?}");
        }
    }
}

/// Workers that hand over after every step, for lack of time, still take the steps
/// of workers that have all the time, in as many invocations as steps.
#[tokio::test]
async fn workers_go_on_where_their_time_was_over() {
    for (system, exchanges) in [
        ("allreduce", "gradients"),
        ("scatterreduce", "gradients"),
        ("lambdaml_allreduce", "model_every_epoch"),
    ] {
        let job = job_of(system, Fidelity::Tuned, 3, json!({"exchanges": exchanges}));
        let limited = async |seconds: Option<u64>| {
            let around = Around {
                limit: seconds.map(Duration::from_secs),
                ..Around::new(&job)
            };
            around.run(&job, testing::compute).await.unwrap()
        };
        let (long, short) = (limited(None).await, limited(Some(1)).await);
        let places = |trial: &Trial| -> Vec<_> {
            let steps = by_rank(trial).into_iter();
            let digest = |step: &StepRecord| step.parameters_digest.clone();
            steps
                .map(|s| (s.epoch, s.batch, s.rank, digest(s)))
                .collect()
        };
        assert_eq!(places(&long), places(&short), "{system}");
        assert_eq!(long.exchange(), short.exchange(), "{system}");
        assert_eq!(long.driven.invocations, 3);
        assert_eq!(short.driven.invocations, 3 * 9);
        // A checkpoint less a worker than steps, each written and read once.
        assert_eq!(state(&short).puts, 3 * 8, "{system}");
        let enough = limited(Some(1_000)).await;
        assert_eq!(enough.driven.invocations, 3);
    }
}

#[test]
fn a_technique_that_does_not_fit_is_named() {
    let allreduce = find("allreduce").unwrap();
    let refused = |settings: Value, evaluate: Evaluate| {
        let job = job("allreduce", Fidelity::Paper, 2, settings);
        let job = Job { evaluate, ..job };
        match allreduce.bind(&job).map(drop).unwrap_err() {
            SystemError::Settings(error) => error.field().to_owned(),
            other => panic!("{other}"),
        }
    };
    let factor = json!({"reduce_on_plateau": {"factor": 2.0}});
    assert_eq!(refused(factor, Evaluate::EveryEpoch), "reduce_on_plateau");
    let stopping = json!({"early_stopping": {}});
    assert_eq!(refused(stopping, Evaluate::Last), "early_stopping");
}

/// Nothing is selected on the test split.
#[test]
fn a_technique_without_a_validation_split_is_refused() {
    for (system, fidelity) in SYSTEMS {
        let mut job = job(system, fidelity, 2, json!({"early_stopping": {}}));
        let found = find(system).unwrap();
        assert!(found.bind(&job).is_ok(), "{system}");
        job.data.validation_samples = 0;
        holds(refusal(&job), &["validation: 0.1"]);
    }
}

/// Peers that evaluate a share of the validation split each find together what one finds on
/// all of it, take the same decisions, and read (W − 1) splits less.
#[tokio::test]
async fn own_shares_together_are_the_validation_split() {
    for system in ["p2p", "p2p_lambda"] {
        for workers in [1, 2, 4] {
            let with = async |rule: &str| {
                let techniques = json!({
                    "early_stopping": {"patience": 1, "min_delta": 0.0},
                    "reduce_on_plateau": {"patience": 0},
                    "validation": rule,
                });
                let mut job = job(system, Fidelity::Paper, workers, techniques);
                job.epochs = 4;
                job.data.validation_samples = 8;
                job.optimizer = sgd(0.5, 0.0);
                (run(&job).await, job)
            };
            let (whole, job) = with("job").await;
            let (shares, _) = with("own_share").await;
            // Loss, correct and all samples of the validation split, by epoch.
            let found = |trial: &Trial| -> BTreeMap<usize, (u64, usize, usize)> {
                let found = validations(trial).map(|(epoch, validation)| {
                    let loss = validation.loss.to_bits();
                    (epoch, (loss, validation.correct, validation.samples))
                });
                found.collect()
            };
            let epochs = found(&whole).len() as u64;
            assert_eq!(found(&whole), found(&shares), "{system} of {workers}");
            assert_eq!(whole.exchange(), shares.exchange(), "{system} of {workers}");
            let reports = validations(&shares).count() as u64;
            assert_eq!(reports, epochs, "peer 0 alone reports");
            let read = |trial: &Trial| -> u64 {
                let steps = trial.steps().into_iter();
                steps
                    .map(|step| step.traffic.dataset.total().bytes_down)
                    .sum()
            };
            let record = job.data.record_bytes as u64;
            let splits = (job.data.validation_samples + job.data.test_samples) as u64 * record;
            let less = epochs * (workers as u64 - 1) * splits;
            assert_eq!(read(&whole) - read(&shares), less, "{system} of {workers}");
        }
    }
}

/// More peers than held-out samples: some have nothing to evaluate, and follow the others.
#[tokio::test]
async fn peers_without_a_share_follow_the_others() {
    let stop = json!({"early_stopping": {"patience": 1, "min_delta": 1e3}});
    let mut job = job("p2p", Fidelity::Paper, 6, stop);
    job.epochs = 4;
    let trial = run(&job).await;
    assert_eq!(validation_losses(&trial).len(), 2);
    let last = trial.steps().iter().map(|step| step.epoch).max();
    assert_eq!(last, Some(1));
}
