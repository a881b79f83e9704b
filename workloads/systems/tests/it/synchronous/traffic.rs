//! What goes over the channels, and what stays in them.

use epochcost_channels::Traffic;
use epochcost_systems::testing::{self, SIZES};
use epochcost_systems::{Evaluate, Fidelity};
use serde_json::json;

use super::common::*;

/// Puts, gets, and bytes up and down of one step, in gradients of P bytes:
/// the formulas as the papers write them, (3W + 1)·P, (3W − 2)·P and W²·P in all, and as the
/// published code behaves.
fn literal(system: &str, fidelity: Fidelity, w: u64) -> [u64; 4] {
    match (system, fidelity) {
        ("allreduce", Fidelity::Paper) => [w + 1, 2 * w, w + 1, 2 * w],
        ("allreduce", Fidelity::Code) => [w + 1, 2 * w - 1, w + 1, 2 * w - 1],
        ("scatterreduce", _) => [w * w, 2 * w * (w - 1), w, 2 * (w - 1)],
        // One instance alone exchanges nothing.
        (_, Fidelity::Paper) if w == 1 => [0; 4],
        (_, Fidelity::Paper) => [w, w * (w - 1), w, w * (w - 1)],
        (_, Fidelity::Code) => [w, w, w, w],
        (_, Fidelity::Tuned) => panic!("{system} is written out below"),
    }
}

#[tokio::test]
async fn metered_traffic_is_the_closed_form() {
    for system in SYSTEMS {
        for fidelity in [Fidelity::Paper, Fidelity::Code] {
            for workers in WORKERS {
                let job = job(system, fidelity, workers, json!({}));
                let p = SIZES.gradient_bytes();
                let [puts, gets, up, down] = literal(system, fidelity, workers as u64);
                let by_hand = Traffic {
                    puts: STEPS * puts,
                    gets: STEPS * gets,
                    bytes_up: STEPS * up * p,
                    bytes_down: STEPS * down * p,
                    ..Traffic::default()
                };
                assert_moves(&job, by_hand).await;
            }
        }
    }
}

/// Traffic under `tuned`, computed by hand: over tensor stores, over the object store by name,
/// and in parts.
#[tokio::test]
async fn tuned_traffic_is_the_closed_form() {
    let p = SIZES.gradient_bytes();
    for workers in WORKERS {
        let w = workers as u64;
        let in_store = |reductions: u64, tensors: u64, notices: u64| Traffic {
            puts: tensors,
            gets: tensors,
            in_store: reductions,
            messages: notices,
            deliveries: notices,
            bytes_up: w * p + 8 * notices,
            bytes_down: w * p + 8 * notices,
            ..Traffic::default()
        };
        let objects = |puts: u64, gets: u64, up: u64, down: u64| Traffic {
            puts,
            gets,
            bytes_up: up * p,
            bytes_down: down * p,
            ..Traffic::default()
        };
        let (spread, by_name) = (json!({"stores": 2}), json!({"over": "objects"}));
        let (every, others) = (w * w, w * (w - 1));
        let chunks = in_store(w, every, 2 * others);
        let whole_by_name = objects(w + 1, 2 * w - 1, w + 1, 2 * w - 1);
        let chunks_by_name = objects(every, 2 * others, w, 2 * (w - 1));
        let in_parts = if w == 1 {
            Traffic::default()
        } else {
            objects(4 * w, 4 * others, w, others)
        };
        for (system, settings, step) in [
            ("allreduce", json!({}), in_store(1, w, 2 * (w - 1))),
            ("scatterreduce", json!({}), chunks),
            ("scatterreduce", spread, chunks),
            ("allreduce", by_name.clone(), whole_by_name),
            ("scatterreduce", by_name, chunks_by_name),
            ("gpu_baseline", json!({}), in_parts),
        ] {
            let job = job(system, Fidelity::Tuned, workers, settings);
            let mut expected = Traffic::default();
            (0..STEPS).for_each(|_| expected += step);
            assert_moves(&job, expected).await;
        }
    }
}

/// Every setting that the other tests leave alone runs and keeps the closed form.
#[tokio::test]
async fn every_setting_has_its_closed_form() {
    for (system, settings) in [
        ("allreduce", r#"{"root_rereads": false}"#),
        ("allreduce", r#"{"keys": "overwritten"}"#),
        ("allreduce", r#"{"arrival_order": true}"#),
        (
            "allreduce",
            r#"{"overlapping_shards": true, "list_poll_ms": 2}"#,
        ),
        (
            "allreduce",
            r#"{"finds_by": "name", "keys": "overwritten"}"#,
        ),
        ("scatterreduce", r#"{"arrival_order": true}"#),
        (
            "scatterreduce",
            r#"{"overlapping_shards": true, "list_poll_ms": 2}"#,
        ),
        (
            "scatterreduce",
            r#"{"finds_by": "name", "transfers_at_once": 2}"#,
        ),
        ("gpu_baseline", r#"{"delete_previous": false}"#),
        ("gpu_baseline", r#"{"parts": 100, "transfers_at_once": 3}"#),
    ] {
        let settings = serde_json::from_str(settings).unwrap();
        let job = job(system, Fidelity::Paper, 4, settings);
        assert_moves(&job, closed_form(&job)).await;
    }
}

/// Six lines per step, each a rewrite of the whole log: state, never exchange.
#[tokio::test]
async fn log_objects_are_not_the_exchange() {
    for system in ["allreduce", "scatterreduce"] {
        let workers = 3;
        let plain = run(&job(system, Fidelity::Paper, workers, json!({}))).await;
        assert_eq!(state(&plain), Traffic::default());
        let settings = json!({"rewrites_log": true});
        let trial = run(&job(system, Fidelity::Paper, workers, settings)).await;
        assert_eq!(trial.exchange(), plain.exchange());
        assert_eq!(digests(&trial), digests(&plain));
        let state = state(&trial);
        let lines = workers as u64 * STEPS * 6;
        assert_eq!(state.puts, lines);
        assert_eq!(state.gets, lines - workers as u64);
        let logs = keys(&trial.channels, "cnn-logs").await;
        assert_eq!(logs, ["log_0.txt", "log_1.txt", "log_2.txt"]);
        for log in logs {
            let log = trial.channels.objects.get("cnn-logs", &log).await.unwrap();
            let text = log.unwrap().bytes().unwrap().to_vec();
            let lines = String::from_utf8(text).unwrap().lines().count() as u64;
            assert_eq!(lines, STEPS * 6);
        }
    }
}

/// What is left once a job of three epochs of three mini-batches is over.
#[tokio::test]
async fn leftovers_are_as_the_delete_policies_say() {
    use Fidelity::{Code, Paper, Tuned};
    let by_name = json!({"over": "objects"});
    let deletes = |policy| json!({"delete_merged": policy});
    for workers in WORKERS {
        let all = STEPS as usize * workers;
        let exchanging = if workers == 1 { 0 } else { workers };
        for (system, fidelity, settings, bucket, left) in [
            ("allreduce", Paper, json!({}), "merged-params", 1),
            ("allreduce", Code, json!({}), "merged-params", 1),
            ("allreduce", Tuned, by_name.clone(), "merged-params", 1),
            ("scatterreduce", Tuned, by_name.clone(), "tmp-params", 0),
            (
                "scatterreduce",
                Paper,
                deletes("never"),
                "merged-params",
                all,
            ),
            (
                "scatterreduce",
                Paper,
                deletes("every_step"),
                "merged-params",
                workers,
            ),
            (
                "scatterreduce",
                Paper,
                deletes("every_epoch"),
                "merged-params",
                workers,
            ),
            ("gpu_baseline", Paper, json!({}), "gradients", exchanging),
            ("gpu_baseline", Code, json!({}), "gradients", all),
            (
                "gpu_baseline",
                Tuned,
                json!({}),
                "gradients",
                4 * exchanging,
            ),
        ] {
            let what = format!("{system} {fidelity:?} {settings} of {workers}");
            let trial = run(&job(system, fidelity, workers, settings)).await;
            assert_eq!(keys(&trial.channels, "tmp-params").await.len(), 0, "{what}");
            assert_eq!(keys(&trial.channels, bucket).await.len(), left, "{what}");
        }
    }
}

/// One request for each gradient or chunk in the published code.
#[tokio::test]
async fn published_deletes_are_single() {
    for workers in [2, 4, 8] {
        let w = workers as u64;
        let trial = run(&job("allreduce", Fidelity::Code, workers, json!({}))).await;
        assert_eq!(deletes(&trial), STEPS * w + (STEPS - 1));
        let settings = json!({"delete_merged": "never"});
        let trial = run(&job("scatterreduce", Fidelity::Code, workers, settings)).await;
        assert_eq!(deletes(&trial), STEPS * w * (w - 1));
    }
}

/// One delete request names at most 1,000 keys; 1,001 gradients take two.
#[tokio::test]
async fn more_keys_than_a_request_names_are_deleted_in_several() {
    let workers = 1_001;
    for fidelity in [Fidelity::Paper, Fidelity::Tuned] {
        let mut job = job("allreduce", fidelity, workers, json!({"over": "objects"}));
        (job.epochs, job.batches_per_worker) = (1, 1);
        job.data.train_samples = workers * job.batch_size;
        job.evaluate = Evaluate::Never;
        let trial = testing::run_with(&job, testing::phantom).await.unwrap();
        assert_eq!(keys(&trial.channels, "tmp-params").await.len(), 0);
        // Found by listing, gradients are deleted as they are found.
        if fidelity == Fidelity::Tuned {
            assert_eq!(deletes(&trial), 2);
        }
    }
}
