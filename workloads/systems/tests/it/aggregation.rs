//! Aggregation by functions: its bytes, its bits against references, and its replicas.

use epochcost_systems::aggregation::{Level, levels};
use epochcost_systems::testing::SIZES;
use epochcost_systems::{Evaluate, Fidelity, Job, Vector};
use serde_json::{Value, json};

use crate::support::*;

const SYSTEMS: [&str; 3] = ["grads_sharding", "lambda_fl", "lifl"];
const PARAMETERS: usize = 37;

/// One step of plain SGD at rate 1: parameters are then minus the mean.
fn one_step(system: &str, workers: usize, given: Value) -> Job {
    Job {
        evaluate: Evaluate::Never,
        epochs: 1,
        batches_per_worker: 1,
        optimizer: sgd(1.0, 0.0),
        ..job_of(system, Fidelity::Paper, workers, given)
    }
}

/// Returns the mean by one process, element by element, in the order of `levels`.
fn reference(levels: &[Level], gradients: &[Vec<f32>]) -> Vec<f32> {
    let average = |i: usize| {
        let mut values: Vec<(f32, usize)> = gradients.iter().map(|g| (g[i], 1)).collect();
        for level in levels {
            let mean = |inputs: &std::ops::Range<usize>| {
                let inputs = &values[inputs.clone()];
                let clients = inputs.iter().map(|(_, clients)| clients).sum();
                let is_even = inputs.iter().all(|(_, clients)| *clients == inputs[0].1);
                let weight = |clients: usize| if is_even { 1.0 } else { clients as f32 };
                let mut sum = inputs[0].0 * weight(inputs[0].1);
                for (value, clients) in &inputs[1..] {
                    sum += value * weight(*clients);
                }
                let divisor = if is_even { inputs.len() } else { clients };
                (sum / divisor as f32, clients)
            };
            values = level.iter().map(mean).collect();
        }
        assert_eq!((values.len(), values[0].1), (1, gradients.len()));
        values[0].0
    };
    (0..PARAMETERS).map(average).collect()
}

#[test]
fn levels_are_those_of_the_systems() {
    let inputs = |levels: Vec<Level>| -> Vec<Vec<usize>> {
        let level = |level: &Level| level.iter().map(ExactSizeIterator::len).collect();
        levels.iter().map(level).collect()
    };
    assert_eq!(inputs(levels(20, None, None)), [vec![20]]);
    assert_eq!(inputs(levels(20, Some(4), None)), [vec![5; 4], vec![4]]);
    let tree = [vec![3, 3, 3, 3, 3, 3, 2], vec![3, 3, 1], vec![3]];
    assert_eq!(inputs(levels(20, None, Some(3))), tree);
    assert_eq!(inputs(levels(1, Some(4), None)), [vec![1]]);
    assert_eq!(inputs(levels(1, None, Some(3))), [vec![1]]);
}

/// M·(W + F) puts, M·(2W + F − 1) gets, (W + F)·P up and (2W + F − 1)·P down, with F written out.
#[tokio::test]
async fn metered_traffic_is_the_closed_form() {
    let cases = [
        ("grads_sharding", json!({}), 4, [1; 8]),
        ("grads_sharding", json!({"shards": 40}), 40, [1; 8]),
        ("lambda_fl", json!({}), 1, [1, 3, 4, 5, 5, 5, 5, 5]),
        ("lifl", json!({}), 1, [1, 1, 1, 3, 3, 3, 4, 4]),
        (
            "lifl",
            json!({"shards": 2, "fan_in": 2}),
            2,
            [1, 1, 3, 3, 6, 6, 7, 7],
        ),
    ];
    for (system, given, shards, functions) in cases {
        for fidelity in Fidelity::ALL {
            for workers in [1, 2, 3, 4, 5, 8] {
                let what = format!("{system} {given} {fidelity:?} of {workers}");
                let job = job_of(system, fidelity, workers, given.clone());
                let form = closed_form(&job);
                let steps = (job.epochs * job.batches_per_worker) as u64;
                let (w, f, p) = (
                    workers as u64,
                    functions[workers - 1],
                    SIZES.gradient_bytes(),
                );
                assert_eq!(form.puts, steps * shards * (w + f), "{what}");
                assert_eq!(form.gets, steps * shards * (2 * w + f - 1), "{what}");
                assert_eq!(form.bytes_up, steps * (w + f) * p, "{what}");
                assert_eq!(form.bytes_down, steps * (2 * w + f - 1) * p, "{what}");
                assert_moves(&job, form).await;
            }
        }
    }
}

#[tokio::test]
async fn means_are_those_of_one_process_bit_for_bit() {
    for workers in [1, 2, 3, 5, 7, 20] {
        let gradients: Vec<_> = (0..workers)
            .map(|worker| drawn(worker, 0, PARAMETERS))
            .collect();
        for (system, given, leaves, fan_in) in [
            ("grads_sharding", json!({}), None, None),
            ("grads_sharding", json!({"shards": 3}), None, None),
            ("lambda_fl", json!({}), Some(4), None),
            (
                "lambda_fl",
                json!({"leaves": 3, "shards": 2}),
                Some(3),
                None,
            ),
            ("lifl", json!({}), None, Some(3)),
            ("lifl", json!({"fan_in": 2}), None, Some(2)),
        ] {
            let what = format!("{system} {given} of {workers}");
            let mean = reference(&levels(workers, leaves, fan_in), &gradients);
            let job = one_step(system, workers, given);
            let trial = run_given(&job, PARAMETERS, drawn).await;
            let stepped = Vector::Real(mean.iter().map(|mean| 0.0 - mean).collect());
            let expected = vec![stepped.digest().unwrap(); workers];
            assert_eq!(digests(&trial), expected, "{what}");
        }
    }
}

/// Whatever a client updates: what is averaged may be its model, too.
#[tokio::test]
async fn replicas_stay_identical_for_any_update() {
    for system in SYSTEMS {
        for exchanges in ["gradients", "model_every_step", "model_every_epoch"] {
            let given = json!({"exchanges": exchanges});
            let job = job_of(system, Fidelity::Tuned, 5, given);
            let trial = run(&job).await;
            let steps = trial.steps().into_iter();
            let last = steps.filter(|step| (step.epoch, step.batch) == (2, Some(2)));
            let digests: Vec<_> = last
                .filter_map(|step| step.parameters_digest.clone())
                .collect();
            assert_eq!(digests.len(), 5, "{system} {exchanges}");
            assert!(are_same(&digests), "{system} {exchanges}");
        }
    }
}

#[tokio::test]
async fn nothing_but_the_last_means_is_left() {
    for system in SYSTEMS {
        let trial = run(&job_of(system, Fidelity::Tuned, 5, json!({}))).await;
        let objects = &trial.channels.objects;
        let left = objects.list("client-updates", "", None).await.unwrap();
        assert!(left.keys.is_empty(), "{system}: {:?}", left.keys);
        let left = objects.list("means", "", None).await.unwrap();
        let is_last = |key: &String| key.ends_with("_2_2");
        assert!(left.keys.iter().all(is_last), "{system}: {:?}", left.keys);
    }
}
