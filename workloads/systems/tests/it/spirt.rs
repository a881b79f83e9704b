//! SPIRT against its closed form, one process, and itself.

use epochcost_channels::Traffic;
use epochcost_kernels::codec;
use epochcost_systems::spirt::{self, Texts};
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{Fidelity, Job, SettingsError, SystemError, Vector, find};
use serde_json::{Value, json};

use crate::support::*;

const WORKERS: [usize; 5] = [1, 2, 3, 4, 8];

fn settings_of(job: &Job) -> spirt::Settings {
    serde_json::from_value(job.settings.clone()).unwrap()
}

fn job(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    job_of("spirt", fidelity, workers, settings)
}

/// Workers, mini-batches and epochs as a closed form has them.
fn counts(job: &Job) -> (u64, u64, u64) {
    let counts = [job.workers, job.batches_per_worker, job.epochs];
    let [w, b, e] = counts.map(|count| count as u64);
    (w, b, e)
}

/// The published settings, with a settling time for a test.
fn published(workers: usize) -> Job {
    let settings = json!({"settle_ms": 200, "poll_interval_ms": 0});
    Job {
        epochs: 1,
        ..job(Fidelity::Code, workers, settings)
    }
}

fn losses(trial: &Trial) -> Vec<f64> {
    let mut steps = trial.steps();
    steps.retain(|step| step.function == "compute_gradients");
    steps.sort_by_key(|step| (step.epoch, step.rank, step.batch));
    steps.iter().map(|step| step.loss.unwrap()).collect()
}

/// One process that steps with the mean of each round's means: the digest after each round.
async fn reference(job: &Job, rounds: usize) -> Vec<String> {
    let mut process = OneProcess::new(job).await;
    let mut digests = Vec::new();
    for epoch in 0..job.epochs {
        let mut rest = job.batches_per_worker;
        for round in 0..rounds {
            // The first rounds have one mini-batch more.
            let taken = rest.div_ceil(rounds - round);
            let first = job.batches_per_worker - rest;
            rest -= taken;
            let mut averages = Vec::new();
            for rank in 0..job.workers {
                let all = gradients(job, rank, epoch, &process.parameters).await;
                averages.push(Vector::mean(&all[first..first + taken]).unwrap());
            }
            digests.push(process.step(&averages));
        }
    }
    digests
}

/// Peers add averages in rank order, in whatever order they read them.
#[tokio::test]
async fn the_order_of_reading_changes_no_bit() {
    for workers in WORKERS {
        for transfers in [1, 2, 16] {
            let settings = |order| json!({"reading_order": order, "transfers_at_once": transfers});
            let by_rank = job(Fidelity::Paper, workers, settings("rank"));
            let rotated = job(Fidelity::Paper, workers, settings("neighbour"));
            let (by_rank, rotated) = (run(&by_rank).await, run(&rotated).await);
            assert_eq!(digests(&by_rank), digests(&rotated));
            assert_eq!(by_rank.exchange(), rotated.exchange());
        }
    }
}

/// How peers are notified and how many requests they send at once changes no bit.
#[tokio::test]
async fn peers_take_the_steps_of_one_process() {
    for fidelity in [Fidelity::Paper, Fidelity::Tuned] {
        for rounds in [1, 2, 3, 5] {
            for workers in WORKERS {
                let settings = json!({"averaging": "in_store", "rounds_per_epoch": rounds});
                let mut job = job(fidelity, workers, settings);
                job.optimizer = sgd(0.1, 0.9);
                // More rounds than mini-batches are as many as these.
                let steps = reference(&job, rounds.min(job.batches_per_worker)).await;
                let trial = run(&job).await;
                let what = format!("{fidelity:?}, {workers} peers, {rounds} rounds");
                assert_eq!(digests(&trial), of_each(workers, steps), "{what}");
                assert_eq!(trial.evaluations().len(), job.epochs, "{what}");
            }
        }
    }
}

/// Traffic by hand. Under `tuned`, peers add up on arrival and are told when to go on.
fn by_hand(job: &Job, rounds: usize) -> Traffic {
    let ((w, b, e), r) = (counts(job), rounds as u64);
    let p = testing::SIZES.gradient_bytes();
    let (in_store, messages, deliveries) = if job.fidelity == Fidelity::Tuned {
        let notices = e * w * (w - 1) * r;
        (e * w * r, notices, notices)
    } else {
        (2 * e * w * r, e * w * r, 0)
    };
    Traffic {
        puts: w + e * w * (b + r),
        gets: e * w * (b + r * (w + 1)),
        in_store,
        messages,
        deliveries,
        bytes_up: w * p + e * w * (b + r) * p + messages * spirt::TOKEN_BYTES,
        bytes_down: e * w * (b + r * (w + 1)) * p + deliveries * spirt::TOKEN_BYTES,
        ..Traffic::default()
    }
}

/// Rounds multiply exchanges, and not gradients.
#[tokio::test]
async fn metered_traffic_is_the_closed_form() {
    for workers in WORKERS {
        for rounds in [1, 2, 3] {
            let rounded = json!({"rounds_per_epoch": rounds, "settle_ms": 0});
            // The published barrier may stay closed for ever; text has no exact form.
            let published = json!({
                "rounds_per_epoch": rounds, "settle_ms": 0, "sync_queue": "per_epoch",
                "barrier": "at_least", "gradient_format": "binary", "seeded_replicas": true,
            });
            for (fidelity, momentum, settings) in [
                (Fidelity::Paper, 0.0, rounded.clone()),
                (Fidelity::Tuned, 0.9, rounded),
                (Fidelity::Code, 0.9, published),
            ] {
                let mut job = job(fidelity, workers, settings);
                job.optimizer = sgd(0.1, momentum);
                let form = closed_form(&job);
                if fidelity != Fidelity::Code {
                    assert_eq!(form, by_hand(&job, rounds), "{fidelity:?} {rounds}");
                }
                let ((w, b, e), r) = (counts(&job), rounds as u64);
                for trial in assert_moves(&job, form).await {
                    assert_eq!(trial.driven.invocations, w + e * w * (b + 7 * r));
                    assert_eq!(trial.driven.transitions, e * w * (b + 8 * r));
                }
            }
        }
    }
}

/// Under `tuned`, peers add the same sums in another order.
#[tokio::test]
async fn tuned_peers_train_as_those_of_the_paper_but_for_rounding() {
    for workers in WORKERS {
        let trial = run(&job(Fidelity::Tuned, workers, json!({}))).await;
        assert!(
            digests(&trial).chunks(workers).all(are_same),
            "{workers} peers"
        );
        let paper = run(&job(Fidelity::Paper, workers, json!({}))).await;
        for (tuned, paper) in losses(&trial).into_iter().zip(losses(&paper)) {
            let off = (tuned - paper).abs();
            assert!(off < 1e-5 * paper, "{tuned} is not {paper}");
        }
    }
}

#[tokio::test]
async fn every_setting_has_its_closed_form() {
    for settings in [
        json!({"averaging": "fetch"}),
        json!({"averaging": "on_arrival"}),
        json!({"averaging": "on_arrival", "update": "fetch", "keeps_averages": true}),
        json!({"barrier_by": "push"}),
        json!({"transfers_at_once": 2}),
        json!({"update": "fetch"}),
        json!({"averaging": "fetch", "update": "fetch", "poll_interval_ms": 0}),
        json!({"seeded_replicas": false, "batch_norm": "fresh", "barrier": "exactly"}),
    ] {
        for momentum in [0.0, 0.9] {
            let mut job = job(Fidelity::Paper, 3, settings.clone());
            job.optimizer = sgd(0.1, momentum);
            assert_moves(&job, closed_form(&job)).await;
        }
    }
}

#[tokio::test]
async fn published_texts_have_their_closed_form() {
    for workers in WORKERS {
        let job = published(workers);
        let trial = run(&job).await;
        let mut texts = Texts::default();
        for rank in 0..workers {
            let seed = epochcost_kernels::hash::mix(job.seed, rank as u64 + 1);
            let parameters = testing::compute().initial_parameters(seed).await.unwrap();
            let encoded: Vec<Vec<u8>> = gradients(&job, rank, 0, &parameters)
                .await
                .iter()
                .map(|g| codec::encode_json(g.real().unwrap()).unwrap())
                .collect();
            texts.gradients += encoded.iter().map(|text| text.len() as u64).sum::<u64>();
            let encoded: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
            texts.averages += codec::json_mean(&encoded).unwrap().len() as u64;
        }
        let expected = spirt::traffic(&job, &settings_of(&job), testing::SIZES, texts).unwrap();
        assert_eq!(trial.exchange(), expected, "{workers} peers");
        assert_ne!(expected, closed_form(&job), "nominal texts are an estimate");
    }
}

/// Nominal texts are exact where tensors are phantoms.
#[tokio::test]
async fn published_phantoms_have_the_closed_form() {
    for workers in WORKERS {
        let mut job = published(workers);
        job.optimizer = sgd(0.1, 0.9);
        let trial = testing::run_with(&job, testing::phantom).await.unwrap();
        assert_eq!(trial.exchange(), closed_form(&job), "{workers} peers");
    }
}

#[tokio::test]
async fn text_fetched_by_the_function_gives_the_same_step() {
    let settings = json!({"gradient_format": "json", "averaging": "fetch"});
    let job = job(Fidelity::Paper, 2, settings);
    let trial = run(&job).await;
    // Text of an f32 reads back as the same f32.
    assert_eq!(digests(&trial)[0], reference(&job, 1).await[0]);
    let metered = trial.exchange();
    let nominal = closed_form(&job);
    assert_eq!((metered.puts, metered.gets), (nominal.puts, nominal.gets));
}

#[tokio::test]
async fn who_averages_and_updates_changes_no_bit() {
    let mut expected = None;
    for averaging in ["in_store", "fetch"] {
        for update in ["in_store", "fetch"] {
            let settings = json!({"averaging": averaging, "update": update});
            let mut job = job(Fidelity::Paper, 3, settings);
            job.optimizer = sgd(0.1, 0.9);
            let digests = digests(&run(&job).await);
            assert_eq!(*expected.get_or_insert_with(|| digests.clone()), digests);
        }
    }
}

#[tokio::test]
async fn only_the_first_mini_batch_moves_statistics() {
    for (batch_norm, kept) in [("first_batch", 1), ("fresh", 0)] {
        let job = job(Fidelity::Paper, 2, json!({"batch_norm": batch_norm}));
        let trial = run(&job).await;
        let (w, _, e) = counts(&job);
        let state = state(&trial);
        let evaluations = trial.evaluations().len() as u64;
        assert_eq!(state.puts, kept * (w + e * w), "{batch_norm}");
        assert_eq!(state.gets, kept * (e * w + evaluations), "{batch_norm}");
    }
}

#[tokio::test]
async fn averages_of_past_epochs_are_dropped_or_kept() {
    for keeps_averages in [false, true] {
        let settings = json!({"keeps_averages": keeps_averages});
        let job = job(Fidelity::Paper, 2, settings);
        let trial = run(&job).await;
        let last = job.epochs - 1;
        for store in (0..2).map(|rank| trial.channels.tensors.of(rank).unwrap()) {
            for key in ["averaged_gradient", "aggregated_gradient"] {
                let is_there = async |epoch| {
                    let found = store.get(&format!("{key}_{epoch}")).await;
                    found.unwrap().is_some()
                };
                assert_eq!(is_there(0).await, keeps_averages, "{key}");
                assert!(is_there(last).await, "{key}");
            }
            assert_eq!(store.get("gradients_0_0").await.unwrap(), None);
        }
    }
}

#[test]
fn an_optimizer_that_the_store_does_not_know_is_refused() {
    let mut job = job(Fidelity::Paper, 2, json!({}));
    job.optimizer = find("mlless").unwrap().optimizer(Fidelity::Paper);
    let error = find("spirt").unwrap().bind(&job).map(drop).unwrap_err();
    assert!(matches!(
        error,
        SystemError::Settings(SettingsError::Value { field, .. }) if field == "optimizer"
    ));
}
