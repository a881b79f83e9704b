//! Workers that leave behind the knee, and training that ends early.

use std::collections::BTreeSet;

use super::*;

/// Workers that took part in each step.
fn alive(trial: &Trial) -> Vec<usize> {
    worker_steps(trial)
        .chunk_by(|one, other| (one.epoch, one.batch) == (other.epoch, other.batch))
        .map(<[_]>::len)
        .collect()
}

/// A tuner that decides after every step, and takes any loss for good enough.
fn eager(at_least: usize) -> Value {
    json!({"scale_in": {
        "remove_interval_s": 0.0, "remove_threshold": 1e9, "knee_slope": 1e3, "at_least": at_least,
    }})
}

#[tokio::test]
async fn workers_leave_and_traffic_stays_on_its_closed_form() {
    for workers in [2, 3, 5] {
        for extra in [
            json!({}),
            json!({"significance_threshold": 0.05}),
            json!({"final_model": "first_worker"}),
            json!({"reads_own_update": true}),
        ] {
            let mut settings = overrides(eager(1));
            settings.extend(overrides(extra.clone()));
            let job = long_job(workers, Value::Object(settings));
            let trial = run(&job).await;
            let alive = alive(&trial);
            assert_eq!(
                (alive[0], *alive.last().unwrap()),
                (workers, 1),
                "{alive:?}"
            );
            assert!(
                alive.windows(2).all(|pair| pair[0] - pair[1] <= 1),
                "{alive:?}"
            );
            assert_eq!(
                trial.exchange(),
                form_of(&job, &trial),
                "{workers} workers, {extra}"
            );
            // Worker 0 stays, and evaluates every epoch.
            assert_eq!(trial.evaluations().len(), job.epochs);
        }
    }
}

/// Every epoch takes whole steps of those that are left, until fewer mini-batches are left
/// than workers.
#[tokio::test]
async fn those_that_are_left_share_the_minibatches() {
    let job = long_job(5, eager(3));
    let trial = run(&job).await;
    for steps in worker_steps(&trial).chunk_by(|one, other| one.epoch == other.epoch) {
        let epoch = steps[0].epoch;
        let left = steps
            .iter()
            .map(|step| step.rank)
            .collect::<BTreeSet<_>>()
            .len();
        assert!(steps.len() <= 25, "epoch {epoch}: {}", steps.len());
        assert!(
            25 - steps.len() < left,
            "epoch {epoch}: {} of {left}",
            steps.len()
        );
    }
}

/// Without a knee nobody leaves, and nothing is other than without the tuner.
#[tokio::test]
async fn a_tuner_that_finds_no_knee_changes_nothing() {
    let idle = json!({"scale_in": {"knee_slope": 0.0, "remove_interval_s": 1e9}});
    let (plain, tuned) = (long_job(3, json!({})), long_job(3, idle));
    let (plain, trial) = (run(&plain).await, run(&tuned).await);
    assert_eq!(digests(&plain), digests(&trial));
    assert_eq!(plain.exchange(), trial.exchange());
    assert_eq!(form_of(&tuned, &trial), trial.exchange());
}

#[tokio::test]
async fn training_ends_at_a_loss_after_its_steps_in_a_row() {
    for workers in [1, 3] {
        for (steps, final_model) in [(1, "mean"), (4, "mean"), (4, "first_worker")] {
            let settings = json!({
                "stop_at_loss": {"loss": 1e6, "steps": steps}, "final_model": final_model,
            });
            let job = long_job(workers, settings);
            let trial = run(&job).await;
            assert_eq!(alive(&trial), vec![workers; steps]);
            assert_eq!(trial.exchange(), form_of(&job, &trial));
            assert_eq!(trial.evaluations().len(), 1, "the last step is evaluated");
        }
    }
    // A loss that is never reached ends nothing, and no message says that it does.
    let job = long_job(2, json!({"stop_at_loss": {"loss": -1.0}}));
    let trial = run(&job).await;
    assert_eq!(alive(&trial).len(), 60);
    assert_eq!(trial.exchange(), form_of(&job, &trial));
}

#[tokio::test]
async fn training_ends_after_a_time() {
    let job = long_job(2, json!({"stop_after_s": 1e-9}));
    let trial = run(&job).await;
    assert_eq!(alive(&trial), [2]);
    assert_eq!(trial.exchange(), form_of(&job, &trial));
}

#[test]
fn a_tuner_and_stops_that_do_not_fit_are_named() {
    for (field, value) in [
        ("scale_in", json!({"scale_in": {"at_least": 0}})),
        ("scale_in", json!({"scale_in": {"remove_interval_s": -1.0}})),
        ("scale_in", json!({"scale_in": {}, "exchange": "gradients"})),
        (
            "stop_at_loss",
            json!({"stop_at_loss": {"loss": 1.0, "steps": 0}}),
        ),
        ("stop_after_s", json!({"stop_after_s": 0.0})),
        (
            "early_stopping",
            json!({"early_stopping": {}, "stop_after_s": 5.0}),
        ),
    ] {
        assert_eq!(refused("mlless", value).field(), field);
    }
}
