//! What is metered in virtual time equals the systems' closed forms.
#![allow(clippy::unwrap_used)]

mod support;

use epochcost_simulator::profile::Profile;
use epochcost_systems::find;
use serde_json::json;
use support::*;

/// An ideal platform on which requests take a while.
fn slow_requests() -> Profile<f64> {
    let mut profile = Profile::ideal();
    for service in [
        &mut profile.object_store.service,
        &mut profile.tensor_store.service,
        &mut profile.queue.service,
    ] {
        service.request_latency_s = 0.0131;
        service.stream_bytes_per_s = 90e6;
    }
    profile
}

fn assert_exact(system: &str, workers: usize, batches: usize, settings: serde_json::Value) {
    let simulation = simulation(
        job(system, workers, batches, settings),
        3_217_226,
        &slow_requests(),
        1.0,
    );
    let simulated = run(&simulation);
    let found = find(system).unwrap();
    let expected = found.traffic(&simulation.job, simulation.sizes).unwrap();
    let metered = simulated.totals.traffic.exchange.total().untimed();
    assert_eq!(metered, expected, "{system} with {workers} workers");
}

#[test]
fn every_system_moves_what_it_states() {
    for system in SYSTEMS {
        for (workers, batches) in [(1, 1), (2, 3), (5, 2), (16, 2)] {
            assert_exact(system, workers, batches, json!({}));
        }
    }
}
