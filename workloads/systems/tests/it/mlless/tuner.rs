//! Workers that leave behind the knee or invoke themselves again, and training that ends early.

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
            settings.extend(overrides(extra));
            let job = long_job(workers, Value::Object(settings));
            let trial = run(&job).await;
            let alive = alive(&trial);
            let ends = (alive[0], *alive.last().unwrap());
            assert_eq!(ends, (workers, 1), "{alive:?}");
            let leaves_alone = |pair: &[usize]| pair[0] - pair[1] <= 1;
            assert!(alive.windows(2).all(leaves_alone), "{alive:?}");
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
        let left: BTreeSet<_> = steps.iter().map(|step| step.rank).collect();
        let unused = 25_usize.checked_sub(steps.len());
        let is_whole = unused.is_some_and(|unused| unused < left.len());
        assert!(is_whole, "epoch {epoch}: {unused:?}, {left:?}");
    }
}

/// Without a knee nobody leaves, and nothing is other than without the tuner.
#[tokio::test]
async fn a_tuner_that_finds_no_knee_changes_nothing() {
    let idle = json!({"scale_in": {"knee_slope": 0.0, "remove_interval_s": 1e9}});
    let plain = run(&long_job(3, json!({}))).await;
    let tuned = run(&long_job(3, idle)).await;
    assert_eq!(digests(&plain), digests(&tuned));
    assert_eq!(plain.exchange(), tuned.exchange());
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
            assert_eq!(trial.evaluations().len(), 1, "the last step is evaluated");
        }
    }
    // A loss that is never reached ends nothing, and no message says that it does.
    let job = long_job(2, json!({"stop_at_loss": {"loss": -1.0}}));
    let trial = run(&job).await;
    assert_eq!(alive(&trial).len(), 60);
}

#[tokio::test]
async fn training_ends_after_a_time() {
    let trial = run(&long_job(2, json!({"stop_after_s": 1e-9}))).await;
    assert_eq!(alive(&trial), [2]);
}

#[tokio::test]
async fn early_stopping_ends_all_invocations() {
    let stopping = json!({"patience": 2, "min_delta": 1e9});
    let settings = json!({"early_stopping": stopping, "epochs_per_invocation": 1});
    let mut job = job(Fidelity::Paper, 3, settings);
    (job.epochs, job.data.validation_samples) = (6, 6);
    let trial = run(&job).await;
    let last = worker_steps(&trial).last().unwrap().epoch;
    assert!((1..5).contains(&last), "{last}");
}

#[tokio::test]
async fn sizes_go_on_too() {
    let job = job(Fidelity::Paper, 3, json!({"epochs_per_invocation": 1}));
    let trial = testing::run_with(&job, testing::phantom).await.unwrap();
    assert_eq!(trial.exchange(), closed_form(&job));
}
