//! LambdaML's own variants, and training within one machine.

use epochcost_channels::Traffic;
use epochcost_systems::Fidelity;
use epochcost_systems::testing::{SIZES, Trial};
use serde_json::json;

use crate::support::*;

const WORKERS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

#[tokio::test]
async fn metered_traffic_is_the_closed_form() {
    for system in [
        "lambdaml_allreduce",
        "lambdaml_scatterreduce",
        "lambdaml_async",
    ] {
        for exchanges in ["gradients", "model_every_step", "model_every_epoch"] {
            if (system, exchanges) == ("lambdaml_async", "gradients") {
                continue;
            }
            for fidelity in Fidelity::ALL {
                for workers in WORKERS {
                    let settings = json!({"exchanges": exchanges});
                    let job = job_of(system, fidelity, workers, settings);
                    assert_moves(&job, closed_form(&job)).await;
                }
            }
        }
    }
}

/// E(W + 1) puts of model averaging, W puts and gets per step of the asynchronous one.
#[test]
fn counts_are_as_published() {
    for workers in WORKERS {
        let w = workers as u64;
        let traffic = |system: &str, exchanges: &str| {
            let settings = json!({"exchanges": exchanges});
            closed_form(&job_of(system, Fidelity::Paper, workers, settings))
        };
        let averaging = traffic("lambdaml_allreduce", "model_every_epoch");
        assert_eq!((averaging.puts, averaging.gets), (3 * (w + 1), 3 * 2 * w));
        let asynchronous = traffic("lambdaml_async", "model_every_step");
        let models = 9 * w;
        assert_eq!((asynchronous.puts, asynchronous.gets), (models, models));
        let bytes = asynchronous.bytes_up + asynchronous.bytes_down;
        assert_eq!(bytes, 2 * models * SIZES.gradient_bytes());
    }
}

/// AllReduce and ScatterReduce average the same models, and every worker has
/// the mean after an epoch.
#[tokio::test]
async fn averaged_models_are_the_same_over_both() {
    let settings = json!({"exchanges": "model_every_epoch"});
    for workers in WORKERS {
        let of = |system, fidelity| job_of(system, fidelity, workers, settings.clone());
        let first = of("lambdaml_allreduce", Fidelity::Paper);
        let expected = digests(&run(&first).await);
        assert_eq!(expected.len(), 3 * workers);
        assert!(expected.chunks(workers).all(are_same), "{expected:?}");
        for other in [
            of("lambdaml_scatterreduce", Fidelity::Paper),
            of("lambdaml_scatterreduce", Fidelity::Code),
            of("lambdaml_allreduce", Fidelity::Tuned),
            of("lambdaml_scatterreduce", Fidelity::Tuned),
        ] {
            assert_eq!(digests(&run(&other).await), expected);
        }
    }
}

/// One worker that averages with no other worker trains as one process.
#[tokio::test]
async fn alone_all_variants_are_plain_sgd() {
    let of = |system, settings| job_of(system, Fidelity::Paper, 1, settings);
    let last = |trial: Trial| digests(&trial).last().cloned().unwrap();
    let plain = of("lambdaml_allreduce", json!({}));
    let expected = last(run(&plain).await);
    for (system, settings) in [
        ("lambdaml_async", json!({})),
        ("lambdaml_async", json!({"exchanges": "model_every_epoch"})),
        (
            "lambdaml_scatterreduce",
            json!({"exchanges": "model_every_step"}),
        ),
    ] {
        let trial = run(&of(system, settings)).await;
        assert_eq!(last(trial), expected, "{system}");
    }
}

#[tokio::test]
async fn published_workers_go_on_from_a_checkpoint() {
    for system in ["lambdaml_allreduce", "lambdaml_scatterreduce"] {
        let trial = async |fidelity| {
            let mut job = job_of(system, fidelity, 3, json!({}));
            job.epochs = 4;
            run(&job).await
        };
        let (paper, code) = (trial(Fidelity::Paper).await, trial(Fidelity::Code).await);
        assert_eq!(digests(&paper), digests(&code));
        assert_eq!(paper.driven.invocations, 3);
        assert_eq!(code.driven.invocations, 6, "three epochs, then one");
    }
}

/// The parts of a global batch, at the same parameters, and one step with
/// their mean: what a single process does.
#[tokio::test]
async fn mirrored_replicas_take_the_steps_of_one_process() {
    for workers in WORKERS {
        let mirrored = job_of("mirrored", Fidelity::Paper, workers, json!({}));
        let trial = run(&mirrored).await;
        assert_eq!(trial.driven.invocations, 1);
        assert_eq!(trial.exchange(), Traffic::default());
        // The published baseline's one process plays the same workers.
        let mut played = job_of("gpu_baseline", Fidelity::Code, workers, json!({}));
        played.optimizer = mirrored.optimizer;
        let expected = run(&played).await;
        assert_eq!(digests(&trial), digests(&expected), "{workers}");
        assert_eq!(trial.evaluations(), expected.evaluations());
        assert_eq!(closed_form(&mirrored), Traffic::default());
    }
}
