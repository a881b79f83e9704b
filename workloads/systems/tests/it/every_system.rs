//! What systems do alike: name settings that do not fit, repeat with a seed, state their replicas, go
//! on in further invocations, and record that training diverged.

use std::collections::BTreeSet;

use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{Fidelity, Record, Replicas, SettingsError, StepRecord, systems};
use serde_json::{Value, json};

use crate::support::*;
use Fidelity::{Code, Paper, Tuned};

#[test]
fn settings_that_do_not_exist_are_named_with_those_that_do() {
    for system in systems() {
        let defaults = system.settings(Paper, &overrides(json!({}))).unwrap();
        let expected = SettingsError::Unknown {
            system: system.name(),
            field: "nonsense".into(),
            known: defaults.as_object().unwrap().keys().cloned().collect(),
        };
        assert_eq!(refused(system.name(), json!({"nonsense": 1})), expected);
    }
}

/// Systems, the setting that is named, and settings that do not fit.
const UNFIT: &str = r#"
spirt | averaging | {"averaging": "in store"}
spirt | barrier_by | {"barrier_by": "shouting"}
spirt | poll_interval_ms | {"poll_interval_ms": -1}
spirt | seeded_replicas | {"seeded_replicas": "yes"}
spirt | rounds_per_epoch | {"rounds_per_epoch": 0}
allreduce | reduction | {"reduction": "median"}
allreduce | merged_timeout_s | {"merged_timeout_s": -1}
allreduce | over | {"over": "pigeons"}
scatterreduce | delete_merged | {"delete_merged": "sometimes"}
scatterreduce | stores | {"stores": -2}
gpu_baseline | single_process | {"single_process": "yes"}
ring | poll_ms | {"poll_ms": "often"}
p2p | qsgd_levels | {"qsgd_levels": 0}
p2p | top_k_fraction | {"top_k_fraction": 0.0}
p2p | top_k_fraction | {"top_k_fraction": 1.5}
p2p | compression | {"compression": "gzip"}
kubeml | k | {"k": 0}
kubeml | k | {"k": -2}
kubeml | document_samples | {"document_samples": 0}
kubeml | static | {"static": "no"}
kubeml | merge_by | {"merge_by": "committee"}
mlless | significance_threshold | {"significance_threshold": "0.7"}
mlless | significance_threshold | {"significance_threshold": -0.1}
mlless | filter | {"filter": "significant"}
mlless | aggregate | {"aggregate": "median"}
mlless | slack | {"slack": 1, "exchange": "gradients"}
mlless | slack | {"slack": 1, "aggregate": "mean"}
mlless | slack | {"slack": 1, "scale_in": {}}
mlless | slack | {"slack": 1, "stop_after_s": 5.0}
mlless | slack | {"slack": 1, "early_stopping": {}}
mlless | slack | {"slack": -1}
mlless | scale_in | {"scale_in": {"at_least": 0}}
mlless | scale_in | {"scale_in": {"remove_interval_s": -1.0}}
mlless | scale_in | {"scale_in": {}, "exchange": "gradients"}
mlless | stop_at_loss | {"stop_at_loss": {"loss": 1.0, "steps": 0}}
mlless | stop_after_s | {"stop_after_s": 0.0}
mlless | early_stopping | {"early_stopping": {}, "stop_after_s": 5.0}
mlless | epochs_per_invocation | {"epochs_per_invocation": 1, "slack": 1}
mlless | epochs_per_invocation | {"epochs_per_invocation": 1, "filter": "norm"}
mlless | epochs_per_invocation | {"epochs_per_invocation": 1, "stop_after_s": 5.0}
mlless | epochs_per_invocation | {"epochs_per_invocation": 1, "scale_in": {}}
grads_sharding lambda_fl lifl | shards | {"shards": 0, "leaves": null, "fan_in": null}
grads_sharding lambda_fl lifl | leaves | {"leaves": 0, "fan_in": null}
grads_sharding lambda_fl lifl | fan_in | {"leaves": null, "fan_in": 1}
grads_sharding lambda_fl lifl | fan_in | {"leaves": 2, "fan_in": 2}
"#;

#[test]
fn settings_that_do_not_fit_are_named() {
    for line in UNFIT.trim().lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let settings: Value = serde_json::from_str(parts[2]).unwrap();
        for system in parts[0].split(' ') {
            let error = refused(system, settings.clone());
            let is_value = matches!(error, SettingsError::Value { .. });
            assert!(is_value && error.field() == parts[1], "{line}: {error}");
        }
    }
}

/// Steps by epoch, mini-batch and rank, with what each computed.
fn computed(trial: &Trial) -> Vec<(Option<f64>, Option<f64>, Option<String>)> {
    let of = |step: &StepRecord| {
        (
            step.loss,
            step.update_density,
            step.parameters_digest.clone(),
        )
    };
    by_rank(trial).into_iter().map(of).collect()
}

#[tokio::test]
async fn a_seed_gives_the_same_twice_and_another_seed_something_else() {
    let mut before = Vec::new();
    for (system, fidelities, settings) in [
        ("spirt", &[Paper][..], json!({})),
        ("mlless", &Fidelity::ALL, json!({})),
        ("allreduce", &Fidelity::ALL, json!({})),
        ("scatterreduce", &Fidelity::ALL, json!({})),
        ("gpu_baseline", &Fidelity::ALL, json!({})),
        ("ring", &[Tuned], json!({})),
        ("p2p", &[Paper], json!({"compression": "none"})),
        ("p2p", &[Paper], json!({"compression": "qsgd"})),
        ("p2p", &[Paper], json!({"compression": "top_k"})),
    ] {
        for fidelity in fidelities {
            let mut job = job_of(system, *fidelity, 4, settings.clone());
            let first = computed(&run(&job).await);
            let what = format!("{system} {fidelity:?} {settings}");
            assert_eq!(first, computed(&run(&job).await), "{what}");
            job.seed += 1;
            assert_ne!(first, computed(&run(&job).await), "{what}");
            // Each compression of P2P is another.
            assert!(system != "p2p" || first != before, "{what}");
            before = first;
        }
    }
}

#[tokio::test]
async fn replicas_are_identical_where_it_is_stated_and_differ_elsewhere() {
    let both = &[Paper, Tuned][..];
    let buckets = json!({"compression": "qsgd", "qsgd_norm": "l2", "qsgd_bucket": 8});
    for (system, fidelities, settings) in [
        ("p2p", both, json!({"compression": "none"})),
        ("p2p", both, buckets),
        ("p2p", both, json!({"compression": "qsgd_published"})),
        (
            "p2p",
            both,
            json!({"compression": "top_k", "top_k_fraction": 0.2}),
        ),
        ("p2p", both, json!({"mode": "asynchronous"})),
        ("p2p_lambda", both, json!({"mode": "asynchronous"})),
        ("p2p", both, json!({"averages_own": false})),
        ("p2p_lambda", both, json!({"averages_own": false})),
        ("p2p_lambda", both, json!({})),
        ("p2p_lambda", both, json!({"seeded_replicas": false})),
        ("p2p_lambda", both, json!({"compression": "top_k"})),
        ("spirt", &[Paper], json!({"seeded_replicas": false})),
        ("mlless", &[Paper, Code], json!({})),
        ("allreduce", &[Code], json!({})),
        ("scatterreduce", &[Code], json!({})),
        ("lambdaml_async", &[Paper], json!({})),
    ] {
        for fidelity in fidelities {
            let job = job_of(system, *fidelity, 3, settings.clone());
            let found = digests(&run(&job).await);
            let distinct = |step: &[String]| step.iter().collect::<BTreeSet<_>>().len();
            let mut steps = found.chunks(3).map(distinct);
            // Asynchronous workers may find the same by chance.
            let is_chance = system == "lambdaml_async" || settings.get("mode").is_some();
            let is_stated = match replicas(&job) {
                Replicas::Identical => !is_chance && steps.all(|replicas| replicas == 1),
                Replicas::Differ { .. } => is_chance || steps.all(|replicas| replicas == 3),
            };
            assert!(is_stated, "{system} {fidelity:?} {settings}: {found:?}");
        }
    }
}

/// Nothing of training or of the exchange depends on how many invocations it has.
#[tokio::test]
async fn invocations_go_on_where_the_last_ended() {
    for (system, fidelities) in [
        ("allreduce", &[Paper][..]),
        ("scatterreduce", &[Paper]),
        ("mlless", &Fidelity::ALL),
    ] {
        for (fidelity, epochs) in fidelities.iter().flat_map(|of| [(*of, 1), (*of, 2)]) {
            let of = |settings| job_of(system, fidelity, 3, settings);
            let long = run(&of(json!({}))).await;
            let trial = run(&of(json!({"epochs_per_invocation": epochs}))).await;
            let what = format!("{system} {fidelity:?} by {epochs}");
            assert_eq!(computed(&trial), computed(&long), "{what}");
            assert_eq!(trial.exchange(), long.exchange(), "{what}");
            assert_eq!(trial.evaluations(), long.evaluations(), "{what}");
            let invocations = 3_u64.div_ceil(epochs);
            // Three workers, and a supervisor.
            let functions = if system == "mlless" { 4 } else { 3 };
            assert_eq!(long.driven.invocations, functions, "{what}");
            assert_eq!(trial.driven.invocations, functions * invocations, "{what}");
            if system != "mlless" {
                let state = state(&trial);
                // One checkpoint each, for every worker.
                let found = (state.puts, state.gets);
                assert_eq!(found, (invocations - 1, 3 * (invocations - 1)), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn every_system_ends_and_records_that_it_diverged() {
    for system in systems() {
        let name = system.name();
        let mut job = job_of(name, Paper, 2, json!({}));
        job.optimizer = sgd(1e30, 0.0);
        let trial = testing::run(&job).await.unwrap();
        assert!(has_diverged(&trial), "{name}");
        // A loss that is not a finite number is none.
        let mut losses = trial.steps().into_iter().filter_map(|step| step.loss);
        assert!(losses.all(f64::is_finite), "{name}");
        // Every record can be written and read back.
        for record in &trial.records {
            let text = serde_json::to_string(record).unwrap();
            assert!(serde_json::from_str::<Record>(&text).is_ok(), "{text}");
        }
    }
}
