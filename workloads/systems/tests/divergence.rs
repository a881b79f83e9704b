//! Training that diverges ends like any other, and says so.
#![allow(clippy::unwrap_used)]

use epochcost_systems::testing;
use epochcost_systems::{Fidelity, Record, find, systems};
use serde_json::{Map, json};

/// Short waits, so that the tests run faster; settings that a system does not have are left
/// out.
fn settings(system: &str) -> Map<String, serde_json::Value> {
    let found = find(system).unwrap();
    let known = found.settings(Fidelity::Paper, &Map::new()).unwrap();
    let wanted = [
        ("poll_ms", 1),
        ("merged_poll_ms", 1),
        ("barrier_poll_ms", 1),
        ("status_poll_ms", 1),
        ("poll_interval_ms", 1),
        ("document_samples", 2),
    ];
    wanted
        .into_iter()
        .filter(|(name, _)| known.get(name).is_some())
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect()
}

#[tokio::test]
async fn every_system_ends_and_records_that_it_diverged() {
    for system in systems() {
        let name = system.name();
        let mut job = testing::job(name, Fidelity::Paper, 2, &settings(name)).unwrap();
        job.optimizer = serde_json::from_value(json!({"sgd": {"learning_rate": 1e30}})).unwrap();
        let trial = testing::run(&job).await.unwrap();
        let diverged = |record: &Record| matches!(record, Record::Diverged { .. });
        assert!(trial.records.iter().any(diverged), "{name}");
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
