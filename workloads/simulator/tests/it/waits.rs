//! What workers record of their waits: the polls that found nothing, and their time.

use epochcost_channels::Traffic;
use epochcost_simulator::{Options, simulate};
use epochcost_systems::{Polls, PurposeTraffic, Waits};
use serde_json::{Value, json};

use crate::support::*;

const LATENCY_S: f64 = 0.02;

/// Waits and traffic of one epoch, where every request takes [`LATENCY_S`] and a
/// transfer of a gradient a second.
fn waits(system: &str, settings: Value, simulates_every_poll: bool) -> (Waits, PurposeTraffic) {
    let mut profile = ideal();
    for service in [
        &mut profile.object_store.service,
        &mut profile.queue.service,
    ] {
        service.request_latency_s = LATENCY_S;
        service.stream_bytes_per_s = 4e6;
    }
    let simulation = simulation(job(system, 4, 3, settings), 1_000_000, &profile, 1.0);
    let options = Options {
        keeps_steps: true,
        simulates_every_poll,
        ..Options::default()
    };
    let simulated = simulate(&simulation, options).unwrap();
    assert_eq!(simulated.failure, None, "{system}");
    let (mut waits, mut traffic) = (Waits::default(), PurposeTraffic::default());
    for step in steps(&simulated) {
        waits += step.waits;
        traffic += step.traffic;
    }
    (waits, traffic)
}

/// Their time is that of their requests and pauses: at the service's own pace, as
/// many polls are billed as were made.
#[track_caller]
fn fills_its_time(polls: Polls) {
    let expected = polls.requests as f64 * LATENCY_S + polls.paused_s;
    assert!((polls.seconds - expected).abs() < 1e-6, "{polls:?}");
}

#[test]
fn every_poll_in_vain_is_recorded_with_its_time() {
    for every_poll in [false, true] {
        let (allreduce, traffic) = waits("allreduce", json!({}), every_poll);
        let objects =
            |of: fn(&Traffic) -> u64| of(&traffic.exchange.objects) + of(&traffic.state.objects);
        assert!(allreduce.gets.requests > 0);
        assert_eq!(
            allreduce.gets.requests,
            objects(|traffic| traffic.missed_gets)
        );
        let paused_s = 0.1 * allreduce.gets.requests as f64;
        assert!((allreduce.gets.paused_s - paused_s).abs() < 1e-9);
        fills_its_time(allreduce.gets);
        // Some listings of worker 0 find gradients.
        let lists = objects(|traffic| traffic.lists);
        assert!(allreduce.lists.requests < lists);
        fills_its_time(allreduce.lists);

        let (scatterreduce, traffic) = waits("scatterreduce", json!({}), every_poll);
        assert!(scatterreduce.lists.requests < traffic.exchange.objects.lists);
        assert_eq!(scatterreduce.lists.paused_s, 0.0);
        fills_its_time(scatterreduce.lists);

        // One poll of each peer is the last, and finds all messages.
        let (spirt, traffic) = waits("spirt", json!({"poll_interval_ms": 5}), every_poll);
        assert_eq!(spirt.counts.requests + 4, traffic.exchange.queue.polls);
        fills_its_time(spirt.counts);
    }
}
