//! Workers and a supervisor that invoke themselves again.

use super::*;

/// Nothing of training or of the exchange depends on how many invocations it has.
#[tokio::test]
async fn invocations_go_on_where_the_last_ended() {
    for fidelity in [Fidelity::Paper, Fidelity::Code, Fidelity::Tuned] {
        for epochs in [1, 2] {
            let long = run(&job(fidelity, 3, json!({}))).await;
            let settings = json!({"epochs_per_invocation": epochs});
            let trial = run(&job(fidelity, 3, settings)).await;
            assert_eq!(digests(&trial), digests(&long), "{fidelity:?} by {epochs}");
            assert_eq!(densities(&trial), densities(&long));
            assert_eq!(trial.exchange(), long.exchange());
            assert_eq!(trial.evaluations(), long.evaluations());
            // Three epochs of three workers and the supervisor.
            assert_eq!(long.driven.invocations, 4);
            assert_eq!(trial.driven.invocations, 4 * 3_u64.div_ceil(epochs));
        }
    }
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

#[test]
fn what_ends_by_its_course_has_one_invocation() {
    for other in [
        json!({"slack": 1}),
        json!({"filter": "norm"}),
        json!({"stop_after_s": 5.0}),
        json!({"scale_in": {}}),
    ] {
        let mut settings = overrides(other.clone());
        settings.insert("epochs_per_invocation".into(), json!(1));
        let refused = testing::job("mlless", Fidelity::Paper, 3, &settings);
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("epochs_per_invocation"), "{other}: {error}");
    }
}
