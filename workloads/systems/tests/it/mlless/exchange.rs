//! What is sent, and what it comes to.

use super::*;

async fn reference_digests(job: &Job) -> Vec<String> {
    let trajectory = reference(job).await;
    trajectory.iter().map(|p| p.digest().unwrap()).collect()
}

#[tokio::test]
async fn unfiltered_averaged_gradients_are_the_dense_exchange() {
    for workers in WORKERS {
        let settings = json!({
            "exchange": "gradients", "aggregate": "mean", "significance_threshold": 0.0,
        });
        let job = job(Fidelity::Paper, workers, settings);
        assert_eq!(replicas(&job), Replicas::Identical);
        let trial = run(&job).await;
        let expected = of_each(workers, reference_digests(&job).await);
        assert_eq!(digests(&trial), expected, "{workers} workers");
    }
}

/// The mean of SGD updates is the SGD step with the mean gradient, but for the
/// rounding of w + u and back: a few units in the last place of w per step.
#[tokio::test]
async fn unfiltered_averaged_updates_are_the_dense_exchange_up_to_rounding() {
    for workers in WORKERS {
        let settings = json!({"aggregate": "mean", "significance_threshold": 0.0});
        let mut job = job(Fidelity::Paper, workers, settings);
        job.optimizer = sgd(0.1, 0.9);
        let trial = run(&job).await;
        let expected = reference(&job).await.pop().unwrap();
        // Worker 0 keeps its final model to itself.
        for rank in 1..workers {
            let found = model(&job, &trial, rank).await;
            for (found, expected) in found.iter().zip(expected.real().unwrap()) {
                assert!((found - expected).abs() < 1e-5, "{found} is not {expected}");
            }
        }
    }
}

#[tokio::test]
async fn one_worker_trains_as_one_process() {
    let job = job(Fidelity::Paper, 1, json!({}));
    let trial = run(&job).await;
    assert_eq!(digests(&trial), reference_digests(&job).await);
}

#[tokio::test]
async fn metered_traffic_is_the_closed_form_at_full_density() {
    for workers in WORKERS {
        for fidelity in Fidelity::ALL {
            let settings = json!({"significance_threshold": 0.0, "encoding": "dense"});
            let job = job(fidelity, workers, settings);
            let form = closed_form(&job);
            assert_moves(&job, form).await;
            let (w, p) = (workers as u64, testing::SIZES.gradient_bytes());
            let steps = (job.epochs * job.batches_per_worker) as u64;
            let (gets, models) = match fidelity {
                Fidelity::Paper | Fidelity::Tuned => (w * (w - 1), w - 1),
                Fidelity::Code => (w * w, 0),
            };
            assert_eq!(form.puts, steps * w + models);
            assert_eq!(form.gets, steps * gets + models);
            assert_eq!(form.messages, 1 + steps * (2 * w + 1) + models);
            assert_eq!(form.deliveries, w + steps * (w * w + 2 * w) + models);
            assert!(form.bytes_up >= (steps * w + models) * p);
        }
    }
}

#[tokio::test]
async fn metered_traffic_is_the_closed_form_of_what_was_sent() {
    for workers in WORKERS {
        for settings in [
            json!({}),
            json!({"significance_threshold": 0.05}),
            json!({"significance_threshold": 0.2, "reads_own_update": true}),
            json!({"filter": "norm", "final_model": "first_worker"}),
            json!({"significance_threshold": 1e9}),
            json!({"encoding": "shorter", "significance_threshold": 0.05}),
            json!({"slack": 1}),
            json!({"slack": 3, "significance_threshold": 0.05}),
            json!({"slack": 2, "reads_own_update": true, "addition_order": "arrival"}),
            json!({"slack": 100, "final_model": "first_worker"}),
        ] {
            let job = job(Fidelity::Paper, workers, settings.clone());
            let trial = run(&job).await;
            let sent = Sent::recorded(&settings_of(&job), testing::SIZES, densities(&trial));
            let expected = mlless::traffic(&job, &settings_of(&job), testing::SIZES, sent);
            assert_eq!(trial.exchange(), expected, "{workers} workers, {settings}");
        }
    }
}

#[tokio::test]
async fn phantoms_are_sent_whole() {
    for workers in WORKERS {
        for fidelity in Fidelity::ALL {
            let job = job(fidelity, workers, json!({}));
            let trial = testing::run_with(&job, testing::phantom).await.unwrap();
            let what = format!("{workers} workers, {fidelity:?}");
            assert_eq!(trial.exchange(), closed_form(&job), "{what}");
        }
    }
}

#[tokio::test]
async fn a_higher_threshold_sends_less() {
    let mut before = f64::INFINITY;
    for threshold in [0.0, 0.1, 0.5, 2.0] {
        let settings = json!({"significance_threshold": threshold});
        let trial = run(&job(Fidelity::Paper, 4, settings)).await;
        let density: f64 = densities(&trial).iter().sum();
        assert!(density < before, "{density} at {threshold}");
        before = density;
    }
}

/// The mean of two identical replicas is either of them.
#[tokio::test]
async fn the_mean_of_identical_replicas_is_evaluated_as_one() {
    let evaluated = async |final_model: &str| {
        let settings = json!({"seeded_replicas": true, "final_model": final_model});
        let trial = run(&job(Fidelity::Code, 2, settings)).await;
        trial.evaluations().last().unwrap().1.loss
    };
    assert_eq!(evaluated("mean").await, evaluated("first_worker").await);
}

#[tokio::test]
async fn log_objects_are_rewritten_as_state() {
    let job = job(Fidelity::Code, 2, json!({}));
    let trial = run(&job).await;
    let steps = (2 * job.epochs * job.batches_per_worker) as u64;
    assert_eq!(state(&trial).puts, 6 * steps);
}

#[tokio::test]
async fn updates_are_deleted_once_read_or_kept() {
    for keeps_updates in [false, true] {
        let settings = json!({"keeps_updates": keeps_updates, "significance_threshold": 0.0});
        let job = job(Fidelity::Paper, 2, settings);
        let trial = run(&job).await;
        let first = format!("{}_up_w0_i0", job.trial);
        let found = trial.channels.objects.get("updates", &first).await.unwrap();
        assert_eq!(found.is_some(), keeps_updates);
    }
}
