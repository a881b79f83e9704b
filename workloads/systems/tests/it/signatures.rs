//! SPIRT's signatures: a peer with a wrong key is refused by every other, what they cost has
//! a closed form, and no result holds a secret.

use epochcost_channels::Traffic;
use epochcost_systems::testing::{self, SIZES, Trial};
use epochcost_systems::{Attack, AttackKind, Attackers, Fidelity, Job, QueueService, Vector, find};
use serde_json::{Value, json};

use crate::support::*;

fn job(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    let mut given = overrides(settings);
    given.extend(overrides(json!({
        "settle_ms": 0, "sync_queue": "per_epoch", "barrier": "at_least",
    })));
    job_of("spirt", fidelity, workers, given.into())
}

fn with_wrong_key(mut job: Job, rank: usize, from_epoch: usize) -> Job {
    job.attack = Some(Attack {
        kind: AttackKind::WrongKey,
        workers: Attackers::Ranks(vec![rank]),
        from_epoch,
        strength: None,
    });
    job
}

/// The parameters of every peer.
async fn models(trial: &Trial, workers: usize) -> Vec<Vec<f32>> {
    let mut models = Vec::new();
    for peer in 0..workers {
        let store = trial.channels.tensors.of(peer).unwrap();
        let found = store.get("params").await.unwrap().unwrap();
        models.push(Vector::decode(&found).unwrap().real().unwrap().to_vec());
    }
    models
}

#[tokio::test]
async fn signed_averages_train_the_same_model_with_the_same_exchange() {
    for averaging in ["in_store", "fetch"] {
        for workers in [1, 3] {
            let of = |signatures| json!({"averaging": averaging, "signatures": signatures});
            let unsigned = job(Fidelity::Paper, workers, of("none"));
            let plain = run(&unsigned).await;
            let signing = job(Fidelity::Paper, workers, of("end"));
            let signed = run(&signing).await;
            let trained = models(&signed, workers).await;
            assert_eq!(models(&plain, workers).await, trained);
            assert_eq!(plain.exchange(), signed.exchange());
            assert_eq!(signed.exchange(), closed_form(&signing));
            assert!(warnings(&signed).is_empty());
        }
    }
}

/// Per trial, W peers store a secret and a public key, and fetch and store W public ones. Per
/// round each fetches its average and its secret and stores a signature, then fetches the
/// trusted keys and W signatures.
#[tokio::test]
async fn what_signatures_cost_has_a_closed_form() {
    for workers in [1, 2, 4] {
        for rounds in [1, 3] {
            let settings = |signatures| json!({"signatures": signatures, "rounds_per_epoch": rounds, "batch_norm": "fresh"});
            let plain = job(Fidelity::Paper, workers, settings("none"));
            assert_eq!(state(&run(&plain).await).untimed(), Traffic::default());
            let signed = job(Fidelity::Paper, workers, settings("leave_out"));
            let found = state(&run(&signed).await);
            let (w, p) = (workers as u64, SIZES.gradient_bytes());
            let all = w * (signed.epochs * rounds) as u64;
            assert_eq!(found.puts, 3 * w + all);
            assert_eq!(found.gets, w * w + all * (3 + w));
            assert_eq!(found.bytes_up, w * (64 + 32 * w) + all * 64);
            assert_eq!(
                found.bytes_down,
                w * w * 32 + all * (p + 32 + 32 * w + 64 * w)
            );
        }
    }
}

/// The others go on with the mean of those that are signed: the model is that of a rule
/// that leaves the peer out, and replicas stay identical.
#[tokio::test]
async fn a_peer_with_a_wrong_key_is_refused_by_every_other_and_training_goes_on() {
    let workers = 4;
    for averaging in ["in_store", "on_arrival"] {
        for from_epoch in [0, 1] {
            let settings = json!({"signatures": "leave_out", "averaging": averaging});
            let honest = job(Fidelity::Paper, workers, settings);
            let whole = models(&run(&honest).await, workers).await;
            let trial = run(&with_wrong_key(honest.clone(), 2, from_epoch)).await;
            let found = models(&trial, workers).await;
            assert!(are_same(&found), "replicas differ");
            assert_ne!(found, whole);
            let warnings = warnings(&trial);
            assert_eq!(warnings.len(), honest.epochs - from_epoch, "{warnings:?}");
            let is_told = |text: &String| text.contains("peers 2 are not signed");
            assert!(warnings.iter().all(is_told), "{warnings:?}");
        }
    }
}

/// A rule that survives one faulty average takes the refused one for it.
#[tokio::test]
async fn a_refused_average_is_one_that_a_robust_rule_survives() {
    let settings = json!({"signatures": "leave_out", "robust": "krum", "f": 1});
    let signed = with_wrong_key(job(Fidelity::Paper, 5, settings), 4, 0);
    assert!(are_same(&models(&run(&signed).await, 5).await));
}

#[tokio::test]
async fn a_refused_average_ends_the_trial_where_the_setting_says_so() {
    let signed = job(Fidelity::Paper, 3, json!({"signatures": "end"}));
    let trial = testing::run(&with_wrong_key(signed, 1, 1)).await;
    let of_whom = [
        "the average of peers 1",
        "epoch 1, round 1",
        "signatures: leave_out",
    ];
    holds(trial.err().unwrap(), &of_whom);
}

/// Two trials of one seed have different keys, and what is recorded holds none of them.
#[tokio::test]
async fn no_record_holds_a_secret() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let signed = job(Fidelity::Paper, 2, json!({"signatures": "leave_out"}));
        let signed = with_wrong_key(signed, 1, 0);
        let trial = run(&signed).await;
        let recorded = serde_json::to_string(&trial.records).unwrap();
        let recorded = recorded + &serde_json::to_string(&signed).unwrap();
        for peer in 0..2 {
            let store = trial.channels.tensors.of(peer).unwrap();
            let secret = store.get("private_key").await.unwrap().unwrap();
            let secret = secret.bytes().unwrap().to_vec();
            assert_eq!(secret.len(), 32);
            let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
            let list = serde_json::to_string(&secret).unwrap();
            let list = list.trim_matches(['[', ']']).to_owned();
            // A part of the secret is a leak, too.
            assert!(!recorded.to_lowercase().contains(&hex[..16]));
            assert!(!recorded.contains(&list));
            assert!(!recorded.contains(&format!("{:?}", &secret[..8])));
            assert!(!seen.contains(&secret), "a key came twice");
            seen.push(secret);
        }
    }
}

#[test]
fn a_wrong_key_needs_signatures() {
    let plain = with_wrong_key(job(Fidelity::Paper, 2, json!({})), 1, 0);
    holds(refusal(&plain), &["signatures"]);
    let mut other = job_of("allreduce", Fidelity::Paper, 2, json!({}));
    other.attack = plain.attack;
    holds(refusal(&other), &["nothing is signed"]);
}

#[test]
fn the_barrier_is_billed_as_the_setting_says() {
    let billed = |job: &Job| find("spirt").unwrap().bind(job).unwrap().queue_service();
    for (fidelity, settings, expected) in [
        (Fidelity::Paper, json!({}), QueueService::RabbitMq),
        (Fidelity::Code, json!({}), QueueService::Sqs),
        (Fidelity::Tuned, json!({}), QueueService::Sqs),
        (Fidelity::Paper, json!({"broker": "sqs"}), QueueService::Sqs),
    ] {
        let job = job(fidelity, 2, settings);
        assert_eq!(billed(&job), expected);
    }
    // Plans of earlier versions do not name it: SQS was billed.
    let mut job = job(Fidelity::Paper, 2, json!({}));
    job.settings.as_object_mut().unwrap().remove("broker");
    assert_eq!(billed(&job), QueueService::Sqs);
}
