//! What steps record of stored objects is what is in the store.

use epochcost_channels::Traffic;
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{Fidelity, Totals};
use serde_json::json;

use crate::support::{overrides, run};

/// Every bucket that a system writes to.
const BUCKETS: [&str; 12] = [
    "client-updates",
    "means",
    "gradients",
    "ring",
    "merged-params",
    "tmp-params",
    "updates",
    "p2p",
    "p2p-statistics",
    "cnn-logs",
    "cp-model",
    "mlless-left",
];

async fn left(trial: &Trial) -> u64 {
    let objects = &trial.channels.objects;
    let mut bytes = 0;
    for bucket in BUCKETS.into_iter().chain(["validation"]) {
        let page = objects.list(bucket, "", None).await.unwrap();
        assert!(!page.truncated, "{bucket}");
        for key in page.keys.iter() {
            bytes += objects.get(bucket, key).await.unwrap().unwrap().len();
        }
    }
    bytes
}

/// Bytes written less those removed are those of the objects that are left, whoever deleted the
/// others, and no byte counts before it is written.
#[tokio::test]
async fn bytes_that_stay_are_those_of_the_objects_that_are_left() {
    let systems = [
        ("allreduce", json!({"merged_poll_ms": 1})),
        (
            "allreduce",
            json!({"merged_poll_ms": 1, "epochs_per_invocation": 1}),
        ),
        ("scatterreduce", json!({})),
        ("gpu_baseline", json!({"poll_ms": 1})),
        ("lambdaml_allreduce", json!({})),
        ("lambdaml_scatterreduce", json!({})),
        ("lambdaml_async", json!({})),
        ("mlless", json!({})),
        ("mlless", json!({"epochs_per_invocation": 1})),
        ("p2p", json!({})),
        ("p2p_lambda", json!({})),
        ("ring", json!({})),
        ("grads_sharding", json!({})),
    ];
    let mut removed = 0;
    for (system, settings) in systems {
        for fidelity in [Fidelity::Paper, Fidelity::Code, Fidelity::Tuned] {
            let job = testing::job(system, fidelity, 3, &overrides(settings.clone())).unwrap();
            let trial = run(&job).await;
            let totals = Totals::of(trial.steps().into_iter());
            let what = format!("{system} {fidelity:?} {settings}");
            assert_eq!(totals.kept.bytes, left(&trial).await as f64, "{what}");
            let ends = trial.steps().into_iter().map(|step| step.ended_s());
            let ended_s = ends.fold(0.0, f64::max);
            let all = totals.traffic.object_bytes_up() as f64 * ended_s;
            let stored = totals.kept.byte_s(ended_s);
            assert!((0.0..=all).contains(&stored), "{what}: {stored} of {all}");
            let Traffic { deletes, .. } = totals.traffic.exchange.objects;
            removed += deletes;
        }
    }
    assert!(removed > 0);
}
