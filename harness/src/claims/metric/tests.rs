#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::{COLUMNS, COMPARED, Metric};

/// The names that claims and results of earlier versions hold, in the order in
/// which errors list them. A name can be added; none can be changed.
const NAMES: [&str; 45] = [
    "seconds_per_epoch",
    "fetch_dataset",
    "compute_gradients",
    "synchronise",
    "update_model",
    "detect_convergence",
    "serialise",
    "put",
    "wait",
    "get",
    "aggregate",
    "compute_gradients_per_batch",
    "gradient_averaging",
    "model_update",
    "seconds_per_batch",
    "total_seconds",
    "time_to_accuracy",
    "billed_ms",
    "compute_gradients_cpu_percent",
    "put_cpu_percent",
    "get_cpu_percent",
    "update_model_cpu_percent",
    "detect_convergence_cpu_percent",
    "compute_gradients_memory_mb",
    "put_memory_mb",
    "get_memory_mb",
    "update_model_memory_mb",
    "detect_convergence_memory_mb",
    "staleness",
    "peak_memory_mb",
    "cost_paper_usd",
    "cost_full_usd",
    "cost_per_function_usd",
    "cost_per_worker_usd",
    "total_cost_usd",
    "puts",
    "gets",
    "messages",
    "bytes_up",
    "bytes_down",
    "bytes",
    "train_loss",
    "accuracy",
    "replicas_identical",
    "traffic_matches",
];

#[test]
fn names_stay_what_results_of_earlier_versions_hold() {
    assert_eq!(Metric::ALL.map(Metric::name), NAMES);
    for metric in Metric::ALL {
        let text = serde_json::to_string(&metric).unwrap();
        assert_eq!(text, format!("{:?}", metric.name()));
        assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), metric);
        let tagged = format!("{{{text}: null}}");
        assert_eq!(serde_json::from_str::<Metric>(&tagged).unwrap(), metric);
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    for name in ["second_per_epoch", "wait_cpu_percent", "SecondsPerEpoch"] {
        let error = serde_json::from_str::<Metric>(&format!("{name:?}")).unwrap_err();
        let expected = format!("unknown variant `{name}`, expected one of `seconds_per_epoch`");
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
    assert!(serde_json::from_str::<Metric>("5").is_err());
}

#[test]
fn a_metric_is_shown_and_compared_at_most_once() {
    let shown: BTreeSet<&str> = COLUMNS.iter().map(|column| column.metric.name()).collect();
    assert_eq!(shown.len(), COLUMNS.len());
    let compared: BTreeSet<&str> = COMPARED.iter().map(|metric| metric.name()).collect();
    assert_eq!(compared.len(), COMPARED.len());
}
