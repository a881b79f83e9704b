//! Training that diverges ends like any other, and says so.
#![allow(clippy::unwrap_used)]

use epochcost_systems::testing;
use epochcost_systems::{Fidelity, Record, systems};
use serde_json::json;

#[tokio::test]
async fn every_system_ends_and_records_that_it_diverged() {
    for system in systems() {
        let name = system.name();
        let mut job = testing::quick_job(name, Fidelity::Paper, 2).unwrap();
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
