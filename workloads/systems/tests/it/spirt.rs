//! SPIRT against its closed form, one process, and itself.

use epochcost_channels::Traffic;
use epochcost_kernels::codec;
use epochcost_kernels::optimizer::{Optimizer, OptimizerSpec, Sgd};
use epochcost_systems::spirt::{self, Texts};
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{
    Batch, Fidelity, Job, Replicas, SettingsError, StepRecord, SystemError, Vector, find,
};
use serde_json::{Map, Value, json};

const WORKERS: [usize; 5] = [1, 2, 3, 4, 8];

fn settings_of(job: &Job) -> spirt::Settings {
    serde_json::from_value(job.settings.clone()).unwrap()
}

fn overrides(value: Value) -> Map<String, Value> {
    serde_json::from_value(value).unwrap()
}

/// Peers poll the barrier more often than by default: the tests run faster.
fn job(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    let mut settings = overrides(settings);
    settings.entry("poll_interval_ms").or_insert(json!(1));
    testing::job("spirt", fidelity, workers, &settings).unwrap()
}

fn sgd(momentum: f64) -> OptimizerSpec {
    OptimizerSpec::Sgd(Sgd {
        learning_rate: 0.1,
        momentum,
        weight_decay: 0.0,
    })
}

/// The published settings, with a settling time for a test.
fn published(workers: usize) -> Job {
    let settings = json!({"settle_ms": 200, "poll_interval_ms": 0});
    Job {
        epochs: 1,
        ..job(Fidelity::Code, workers, settings)
    }
}

fn closed_form(job: &Job) -> Traffic {
    find("spirt")
        .unwrap()
        .bind(job)
        .unwrap()
        .traffic(testing::SIZES)
        .unwrap()
}

/// Digests of the parameters after each epoch, by epoch and rank.
fn digests(trial: &Trial) -> Vec<String> {
    let mut steps: Vec<&StepRecord> = trial
        .steps()
        .into_iter()
        .filter(|s| s.function == "check_convergence")
        .collect();
    steps.sort_by_key(|s| (s.epoch, s.rank));
    steps
        .iter()
        .map(|s| s.parameters_digest.clone().unwrap())
        .collect()
}

fn losses(trial: &Trial) -> Vec<f64> {
    let mut steps: Vec<&StepRecord> = trial
        .steps()
        .into_iter()
        .filter(|s| s.function == "compute_gradients")
        .collect();
    steps.sort_by_key(|s| (s.epoch, s.rank, s.batch));
    steps.iter().map(|s| s.loss.unwrap()).collect()
}

/// Gradients of all mini-batches of one peer.
async fn gradients(job: &Job, rank: usize, epoch: usize, parameters: &Vector) -> Vec<Vector> {
    let mut compute = testing::compute();
    let mut gradients = Vec::new();
    for index in 0..job.batches_per_worker {
        let records = testing::minibatch_records(job, rank, index);
        let batch = Batch {
            rank,
            epoch,
            index,
            records,
        };
        let mut statistics = compute.initial_statistics();
        let output = compute
            .gradient(parameters, &mut statistics, &batch)
            .await
            .unwrap();
        gradients.push(output.gradient);
    }
    gradients
}

/// One process that takes the mean of means: the digest after each epoch.
async fn reference(job: &Job) -> Vec<String> {
    let mut parameters = testing::compute()
        .initial_parameters(job.seed)
        .await
        .unwrap();
    let mut optimizer = Optimizer::new(job.optimizer);
    let mut digests = Vec::new();
    for epoch in 0..job.epochs {
        let mut averages = Vec::new();
        for rank in 0..job.workers {
            averages.push(Vector::mean(&gradients(job, rank, epoch, &parameters).await).unwrap());
        }
        let aggregated = Vector::mean(&averages).unwrap();
        let parameters = parameters.real_mut().unwrap();
        optimizer
            .step(parameters, aggregated.real().unwrap())
            .unwrap();
        digests.push(Vector::Real(parameters.to_vec()).digest().unwrap());
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
            let [by_rank, rotated] = [
                testing::run(&by_rank).await.unwrap(),
                testing::run(&rotated).await.unwrap(),
            ];
            assert_eq!(digests(&by_rank), digests(&rotated));
            assert_eq!(by_rank.exchange(), rotated.exchange());
        }
    }
}

#[tokio::test]
async fn peers_take_the_step_of_one_process() {
    for workers in WORKERS {
        let job = job(Fidelity::Paper, workers, json!({}));
        let trial = testing::run(&job).await.unwrap();
        let expected: Vec<String> = reference(&job)
            .await
            .into_iter()
            .flat_map(|d| vec![d; workers])
            .collect();
        assert_eq!(digests(&trial), expected, "{workers} peers");
    }
}

#[tokio::test]
async fn metered_traffic_is_the_closed_form() {
    for workers in WORKERS {
        let job = job(Fidelity::Paper, workers, json!({}));
        let trial = testing::run(&job).await.unwrap();
        let (w, b, e) = (
            workers as u64,
            job.batches_per_worker as u64,
            job.epochs as u64,
        );
        let p = testing::SIZES.gradient_bytes();
        let by_hand = Traffic {
            puts: w + e * w * (b + 1),
            gets: e * w * (b + w + 1),
            in_store: 2 * e * w,
            messages: e * w,
            bytes_up: w * p + e * w * ((b + 1) * p + spirt::TOKEN_BYTES),
            bytes_down: e * w * (b + w + 1) * p,
            ..Traffic::default()
        };
        assert_eq!(closed_form(&job), by_hand, "{workers} peers");
        assert_eq!(trial.exchange(), by_hand, "{workers} peers");
    }
}

/// How peers are notified and how many requests they send at once changes no bit.
#[tokio::test]
async fn transport_alone_changes_no_bit() {
    for workers in WORKERS {
        let settings = json!({"averaging": "in_store"});
        let job = job(Fidelity::Tuned, workers, settings);
        let expected: Vec<String> = reference(&job)
            .await
            .into_iter()
            .flat_map(|digest| vec![digest; workers])
            .collect();
        let trial = testing::run(&job).await.unwrap();
        assert_eq!(digests(&trial), expected, "{workers} peers");
    }
}

#[tokio::test]
async fn tuned_peers_add_up_on_arrival_and_are_told_when_to_go_on() {
    for workers in WORKERS {
        let tuned = job(Fidelity::Tuned, workers, json!({}));
        let (w, b, e) = (
            workers as u64,
            tuned.batches_per_worker as u64,
            tuned.epochs as u64,
        );
        let p = testing::SIZES.gradient_bytes();
        let notices = e * w * (w - 1);
        let by_hand = Traffic {
            puts: w + e * w * (b + 1),
            gets: e * w * (b + w + 1),
            in_store: e * w,
            messages: notices,
            deliveries: notices,
            bytes_up: w * p + e * w * (b + 1) * p + notices * spirt::TOKEN_BYTES,
            bytes_down: e * w * (b + w + 1) * p + notices * spirt::TOKEN_BYTES,
            ..Traffic::default()
        };
        assert_eq!(closed_form(&tuned), by_hand, "{workers} peers");
        let trial = testing::run(&tuned).await.unwrap();
        assert_eq!(trial.exchange(), by_hand, "{workers} peers");
        for epoch in digests(&trial).chunks(workers) {
            assert_eq!(epoch, vec![epoch[0].clone(); workers], "{workers} peers");
        }
        // The same sums, added in another order.
        let paper = testing::run(&job(Fidelity::Paper, workers, json!({})))
            .await
            .unwrap();
        for (tuned, paper) in losses(&trial).into_iter().zip(losses(&paper)) {
            assert!(
                (tuned - paper).abs() < 1e-5 * paper,
                "{tuned} is not {paper}"
            );
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
            job.optimizer = sgd(momentum);
            let trial = testing::run(&job).await.unwrap();
            assert_eq!(trial.exchange(), closed_form(&job), "{settings} {momentum}");
        }
    }
}

#[tokio::test]
async fn published_texts_have_their_closed_form() {
    for workers in WORKERS {
        let job = published(workers);
        let trial = testing::run(&job).await.unwrap();
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
async fn phantoms_have_the_closed_form() {
    for workers in WORKERS {
        for mut job in [
            job(Fidelity::Paper, workers, json!({})),
            job(Fidelity::Tuned, workers, json!({})),
            published(workers),
        ] {
            job.optimizer = sgd(0.9);
            let trial = testing::run_with(&job, testing::phantom).await.unwrap();
            assert_eq!(trial.exchange(), closed_form(&job), "{workers} peers");
        }
    }
}

#[tokio::test]
async fn text_fetched_by_the_function_gives_the_same_step() {
    let settings = json!({"gradient_format": "json", "averaging": "fetch"});
    let job = job(Fidelity::Paper, 2, settings);
    let trial = testing::run(&job).await.unwrap();
    // Text of an f32 reads back as the same f32.
    assert_eq!(digests(&trial)[0], reference(&job).await[0]);
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
            job.optimizer = sgd(0.9);
            let digests = digests(&testing::run(&job).await.unwrap());
            assert_eq!(*expected.get_or_insert_with(|| digests.clone()), digests);
        }
    }
}

#[tokio::test]
async fn a_seed_gives_the_same_losses() {
    let job = job(Fidelity::Paper, 4, json!({}));
    let first = losses(&testing::run(&job).await.unwrap());
    let second = losses(&testing::run(&job).await.unwrap());
    assert_eq!(
        first.len(),
        job.workers * job.epochs * job.batches_per_worker
    );
    assert_eq!(first, second);
    let other = Job {
        seed: job.seed + 1,
        ..job
    };
    assert_ne!(first, losses(&testing::run(&other).await.unwrap()));
}

#[tokio::test]
async fn unseeded_replicas_differ() {
    let job = job(Fidelity::Paper, 3, json!({"seeded_replicas": false}));
    let system = find("spirt").unwrap();
    assert!(matches!(
        system.bind(&job).unwrap().replicas(),
        Replicas::Differ { .. }
    ));
    let digests = digests(&testing::run(&job).await.unwrap());
    assert!(digests[0] != digests[1] && digests[1] != digests[2] && digests[0] != digests[2]);
}

#[tokio::test]
async fn an_epoch_is_seven_functions_and_one_a_mini_batch() {
    let job = job(Fidelity::Paper, 3, json!({}));
    let (w, b, e) = (3, job.batches_per_worker as u64, job.epochs as u64);
    let trial = testing::run(&job).await.unwrap();
    assert_eq!(trial.driven.invocations, w + e * w * (b + 7));
    assert_eq!(trial.driven.transitions, e * w * (b + 8));
}

/// One process that takes a step on the mean of each round's means.
async fn reference_in_rounds(job: &Job, rounds: usize) -> Vec<String> {
    let mut compute = testing::compute();
    let mut parameters = compute.initial_parameters(job.seed).await.unwrap();
    let mut optimizer = Optimizer::new(job.optimizer);
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
                let all = gradients(job, rank, epoch, &parameters).await;
                averages.push(Vector::mean(&all[first..first + taken]).unwrap());
            }
            let aggregated = Vector::mean(&averages).unwrap();
            let parameters = parameters.real_mut().unwrap();
            let gradient = aggregated.real().unwrap();
            optimizer.step(parameters, gradient).unwrap();
            digests.push(Vector::Real(parameters.to_vec()).digest().unwrap());
        }
    }
    digests
}

#[tokio::test]
async fn rounds_of_an_epoch_are_steps_of_one_process() {
    for (workers, rounds) in [(1, 2), (2, 2), (3, 3), (4, 5)] {
        let settings = json!({"rounds_per_epoch": rounds});
        let mut job = job(Fidelity::Paper, workers, settings);
        job.optimizer = sgd(0.9);
        // More rounds than mini-batches are as many as these.
        let rounds = rounds.min(job.batches_per_worker);
        let trial = testing::run(&job).await.unwrap();
        let expected: Vec<String> = reference_in_rounds(&job, rounds)
            .await
            .into_iter()
            .flat_map(|digest| vec![digest; workers])
            .collect();
        let mut steps: Vec<&StepRecord> = trial.steps();
        steps.retain(|step| step.parameters_digest.is_some());
        steps.sort_by_key(|step| (step.epoch, step.batch, step.rank));
        let found: Vec<String> = steps
            .iter()
            .map(|step| step.parameters_digest.clone().unwrap())
            .collect();
        assert_eq!(found, expected, "{workers} peers, {rounds} rounds");
        assert_eq!(trial.evaluations().len(), job.epochs);
    }
}

#[tokio::test]
async fn rounds_multiply_exchanges_and_not_gradients() {
    for (fidelity, momentum) in [
        (Fidelity::Paper, 0.0),
        (Fidelity::Tuned, 0.9),
        (Fidelity::Code, 0.9),
    ] {
        for rounds in [1, 2, 3] {
            let mut job = job(
                fidelity,
                3,
                json!({"rounds_per_epoch": rounds, "settle_ms": 0}),
            );
            if fidelity == Fidelity::Code {
                // The published barrier may stay closed for ever; text has no exact form.
                let safe = json!({
                    "rounds_per_epoch": rounds, "settle_ms": 0, "sync_queue": "per_epoch",
                    "barrier": "at_least", "gradient_format": "binary", "seeded_replicas": true,
                });
                job = self::job(fidelity, 3, safe);
            }
            job.optimizer = sgd(momentum);
            let trial = testing::run(&job).await.unwrap();
            assert_eq!(trial.exchange(), closed_form(&job), "{fidelity:?} {rounds}");
            let (w, b, e) = (3, job.batches_per_worker as u64, job.epochs as u64);
            let r = rounds as u64;
            assert_eq!(trial.driven.invocations, w + e * w * (b + 7 * r));
            assert_eq!(trial.driven.transitions, e * w * (b + 8 * r));
            if fidelity == Fidelity::Paper {
                let p = testing::SIZES.gradient_bytes();
                let by_hand = Traffic {
                    puts: w + e * w * (b + r),
                    gets: e * w * (b + r * (w + 1)),
                    in_store: 2 * e * w * r,
                    messages: e * w * r,
                    bytes_up: w * p + e * w * ((b + r) * p + r * spirt::TOKEN_BYTES),
                    bytes_down: e * w * (b + r * (w + 1)) * p,
                    ..Traffic::default()
                };
                assert_eq!(closed_form(&job), by_hand, "{rounds} rounds");
            }
        }
    }
}

#[tokio::test]
async fn only_the_first_mini_batch_moves_statistics() {
    for (batch_norm, kept) in [("first_batch", 1), ("fresh", 0)] {
        let job = job(Fidelity::Paper, 2, json!({"batch_norm": batch_norm}));
        let trial = testing::run(&job).await.unwrap();
        let (w, e) = (2, job.epochs as u64);
        let mut state = Traffic::default();
        trial
            .steps()
            .iter()
            .for_each(|step| state += step.traffic.state.total());
        let evaluations = trial.evaluations().len() as u64;
        assert_eq!(state.puts, kept * (w + e * w), "{batch_norm}");
        assert_eq!(state.gets, kept * (e * w + evaluations), "{batch_norm}");
    }
}

#[tokio::test]
async fn averages_of_past_epochs_are_dropped_or_kept() {
    for keeps_averages in [false, true] {
        let job = job(
            Fidelity::Paper,
            2,
            json!({"keeps_averages": keeps_averages}),
        );
        let trial = testing::run(&job).await.unwrap();
        let last = job.epochs - 1;
        for store in (0..2).map(|rank| trial.channels.tensors.of(rank).unwrap()) {
            for key in ["averaged_gradient", "aggregated_gradient"] {
                let is_there = async |epoch| {
                    store
                        .get(&format!("{key}_{epoch}"))
                        .await
                        .unwrap()
                        .is_some()
                };
                assert_eq!(is_there(0).await, keeps_averages, "{key}");
                assert!(is_there(last).await, "{key}");
            }
            assert_eq!(store.get("gradients_0_0").await.unwrap(), None);
        }
    }
}

#[test]
fn settings_that_do_not_exist_or_fit_are_named() {
    let system = find("spirt").unwrap();
    let settings = |value| system.settings(Fidelity::Paper, &overrides(value));
    assert!(matches!(
        settings(json!({"averging": "fetch"})).unwrap_err(),
        SettingsError::Unknown { field, known, .. }
            if field == "averging" && known.contains(&"averaging".to_owned())
    ));
    for (field, value) in [
        ("averaging", json!("in store")),
        ("barrier_by", json!("shouting")),
        ("poll_interval_ms", json!(-1)),
        ("seeded_replicas", json!("yes")),
        ("rounds_per_epoch", json!(0)),
    ] {
        let error = settings(json!({field: value})).unwrap_err();
        assert!(matches!(error, SettingsError::Value { .. }));
        assert_eq!(error.field(), field);
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
