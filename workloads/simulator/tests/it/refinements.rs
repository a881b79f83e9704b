//! Refinements of the platform model: closed forms of single operations, draws, and what they do
//! to barriers.
use epochcost_channels::Traffic;
use epochcost_simulator::profile::{InterpretedModel, NetworkCredit, Profile, Refinement, Spread};
use epochcost_simulator::{Operation, Probe, ProbeClient, Simulation, probe};
use serde_json::json;

use crate::support::*;

const LATENCY_S: f64 = 0.02;
const STREAM: f64 = 1e8;

fn profile() -> Profile<f64> {
    let mut profile = ideal();
    let service = &mut profile.object_store.service;
    service.request_latency_s = LATENCY_S;
    service.stream_bytes_per_s = STREAM;
    profile
}

fn operation(operation: Operation, bytes: u64) -> Probe {
    Probe {
        operation,
        client: ProbeClient::Compiled,
        memory_mb: 1769,
        functions: 1,
        streams: 1,
        bytes,
        rounds: 1,
        is_new_connection: true,
    }
}

fn spread(quantiles: &[[f64; 2]]) -> Option<Spread> {
    Some(Spread {
        quantiles: quantiles.to_vec(),
        source: "a test".into(),
        date: "2026-11-22".into(),
    })
}

#[track_caller]
fn assert_takes(profile: &Profile<f64>, measured: Probe, expected_s: f64) {
    let seconds = probe(profile, &measured);
    let worst = seconds.iter().map(|s| (s - expected_s).abs());
    assert!(
        !seconds.is_empty() && worst.fold(0.0, f64::max) < 1e-6,
        "{measured:?}: {seconds:?} and not {expected_s}"
    );
}

#[test]
fn writes_connections_and_first_bytes_have_their_own_constants() {
    let mut profile = profile();
    let service = &mut profile.object_store.service;
    service.write_latency_s = Some(0.03);
    service.write_stream_bytes_per_s = Some(STREAM / 2.0);
    service.connection_s = Some(0.05);
    service.unlimited_bytes = Some(1e6);
    let get = operation(Operation::Get, 10_000_000);
    let put = operation(Operation::Put, 10_000_000);
    assert_takes(&profile, get, 0.02 + 0.05 + 0.09);
    assert_takes(&profile, put, 0.03 + 0.05 + 0.2);
    let warm = Probe {
        is_new_connection: false,
        ..get
    };
    assert_takes(&profile, warm, 0.02 + 0.09);
    // Each of them can be left out.
    for (refinement, measured, expected_s) in [
        (Refinement::Connections, get, 0.02 + 0.09),
        (Refinement::UnlimitedBytes, get, 0.02 + 0.05 + 0.1),
        (Refinement::Writes, put, 0.02 + 0.05 + 0.1),
    ] {
        assert_takes(&profile.without(refinement), measured, expected_s);
    }
}

/// A message takes the latency of its publish, and its bytes to the queue and from it: the consumer's
/// own request was made before.
#[test]
fn a_message_is_delivered_after_its_publish_and_both_transfers() {
    let mut profile = profile();
    let service = &mut profile.queue.service;
    service.request_latency_s = 0.5;
    service.write_latency_s = Some(0.03);
    service.stream_bytes_per_s = STREAM;
    let deliver = operation(Operation::Deliver, 10_000_000);
    assert_takes(&profile, deliver, 0.03 + 2.0 * 10e6 / STREAM);
}

#[test]
fn an_interpreted_client_takes_core_time_that_a_small_function_has_less_of() {
    let mut profile = profile();
    profile.interpreted = Some(InterpretedModel {
        request_core_s: 1e-3,
        call_s: 0.0,
        call_spread: None,
        receive_core_s_per_byte: 1e-9,
        send_core_s_per_byte: 1e-9,
        decode_core_s_per_byte: 2e-9,
        encode_core_s_per_byte: 3e-9,
        client_core_s: None,
        init_s: 0.0,
    });
    let of = |what, client, memory_mb| Probe {
        client,
        memory_mb,
        ..operation(what, 10_000_000)
    };
    let whole = 0.02 + 0.1;
    // A whole core: receiving is faster than the stream; decoding follows it.
    for (what, client, more_s) in [
        (Operation::Get, ProbeClient::Interpreted, 0.001 + 0.02),
        (Operation::Put, ProbeClient::Interpreted, 0.001 + 0.03),
        (Operation::Get, ProbeClient::Streaming, 0.001),
        (Operation::Get, ProbeClient::Compiled, 0.0),
    ] {
        assert_takes(&profile, of(what, client, 1769), whole + more_s);
    }
    // A twentieth of a core: 5e7 bytes per second are all that it can receive.
    profile.function.mb_per_vcpu = 2000.0;
    let small = of(Operation::Get, ProbeClient::Interpreted, 100);
    assert_takes(&profile, small, 0.02 + 0.02 + 0.2 + 0.4);
    assert_takes(&profile.without(Refinement::Client), small, whole);
    // Streams of a function share its core while they receive.
    profile.function.network_credit = Some(NetworkCredit {
        download_bytes: 1e12,
        upload_bytes: 1e12,
        burst_bytes_per_s: 1e12,
        returned_bytes: 0.0,
    });
    let two = Probe {
        streams: 2,
        ..small
    };
    assert_takes(&profile, two, 0.02 + 0.02 + 0.4 + 0.4);
}

#[test]
fn a_network_bursts_until_its_credit_is_used_up() {
    let mut profile = profile();
    profile.function.bandwidth[0].bytes_per_s = 50e6;
    profile.function.network_credit = Some(NetworkCredit {
        download_bytes: 200e6,
        upload_bytes: 0.0,
        burst_bytes_per_s: 500e6,
        returned_bytes: 100e6,
    });
    // At 500 MB/s, 450 of which are above the bandwidth, 222 MB pass; the rest passes at 50 MB/s.
    let bytes = 400_000_000;
    let download = operation(Operation::Download, bytes);
    let seconds = probe(&profile, &download)[0];
    let fast = 200e6 / 0.9;
    let expected = fast / 500e6 + (bytes as f64 - fast) / 50e6;
    // Credit is spent in parts of 8.4 MB.
    assert_near(seconds, expected, 8.4e6 / 50e6, "one stream");
    // Streams share bandwidth and credit.
    let four = Probe {
        streams: 4,
        ..download
    };
    let together = probe(&profile, &four)[0];
    assert_near(together, expected, 4.0 * 8.4e6 / 50e6, "four streams");
    let upload = operation(Operation::Upload, bytes);
    assert_takes(&profile, upload, 8.0 + 1e-9);
    // One stream of S3 is slower than the burst and not held up while there is credit.
    let get = operation(Operation::Get, 100_000_000);
    assert_takes(&profile, get, 0.02 + 1.0);
}

#[test]
fn calls_of_one_caller_leave_one_after_another() {
    let mut profile = profile();
    profile.function.call_spacing_s = Some(0.002);
    profile.function.invoke_latency_s = 0.01;
    let calls = Probe {
        functions: 100,
        ..operation(Operation::WarmStart, 0)
    };
    let mut seconds = probe(&profile, &calls);
    seconds.sort_by(f64::total_cmp);
    for (place, seconds) in seconds.iter().enumerate() {
        let expected = place as f64 * 0.002 + 0.01;
        assert_near(*seconds, expected, 1e-6, &format!("{place}"));
    }
    assert_takes(&profile.without(Refinement::CallSpacing), calls, 0.01);
}

/// A profile on which a request takes half to three times its mean.
fn uneven() -> Profile<f64> {
    let mut profile = profile();
    let service = &mut profile.object_store.service;
    service.read_spread = spread(&[[0.0, 0.5], [0.5, 0.6], [0.9, 1.5], [1.0, 4.2]]);
    service.write_spread = service.read_spread.clone();
    profile.function.compute_spread = spread(&[[0.0, 0.9], [1.0, 1.1]]);
    profile
}

#[test]
fn draws_repeat_with_their_seed_keep_the_mean_and_need_one() {
    let mut profile = uneven();
    let reads = Probe {
        rounds: 4000,
        ..operation(Operation::Get, 0)
    };
    assert_takes(&profile, reads, LATENCY_S);
    profile.draws = Some(7);
    let seconds = probe(&profile, &reads);
    assert_eq!(seconds, probe(&profile, &reads));
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let expected = 0.5 * 0.55 + 0.4 * 1.05 + 0.1 * 2.85;
    assert_near(mean / LATENCY_S, expected, 0.05, "mean");
    let other = Profile {
        draws: Some(8),
        ..profile
    };
    assert_ne!(seconds, probe(&other, &reads));
}

fn exchange(system: &str, workers: usize, draws: Option<u64>) -> Simulation {
    let profile = Profile { draws, ..uneven() };
    simulation(job(system, workers, 2, json!({})), 100_000, &profile, 0.1)
}

#[test]
fn a_barrier_waits_for_the_slowest_and_more_so_with_more_workers() {
    let wall = |workers, draws| run(&exchange("allreduce", workers, draws)).wall_s;
    let lost = |workers| wall(workers, Some(3)) / wall(workers, None);
    let (few, many) = (lost(4), lost(64));
    assert!(many > few.max(1.0), "{few} with 4 workers, {many} with 64");
}

#[test]
fn trials_on_draws_are_the_same_twice_and_move_the_same_bytes() {
    for system in SYSTEMS {
        let drawn = run(&exchange(system, 8, Some(5)));
        assert_eq!(drawn, run(&exchange(system, 8, Some(5))), "{system}");
        let mean = run(&exchange(system, 8, None));
        let (drawn, mean) = (drawn.totals.traffic.exchange, mean.totals.traffic.exchange);
        let (drawn, mean) = (drawn.total(), mean.total());
        let moved = |of: Traffic| (of.puts, of.bytes_up, of.bytes_down);
        assert_eq!(moved(drawn), moved(mean), "{system}");
    }
}

/// Functions in a VPC share its network; one alone is limited by its own.
#[test]
fn functions_in_a_vpc_share_its_network() {
    let mut profile = profile();
    profile.function.bandwidth[0].bytes_per_s = 80e6;
    profile.function.vpc_bytes_per_s = Some(1e8);
    for (functions, in_vpc_s) in [(1, 0.625), (4, 2.0)] {
        let of = |what| Probe {
            functions,
            ..operation(what, 50_000_000)
        };
        assert_takes(&profile, of(Operation::VpcDownload), in_vpc_s);
        assert_takes(&profile, of(Operation::Download), 0.625);
    }
    // In a trial: four workers read 2 MB each at 1 MB/s together, and their gradients.
    let synchronise_s = |in_vpc: bool| {
        let mut profile = ideal();
        profile.function.vpc_bytes_per_s = Some(1e6);
        profile.functions_in_vpc = in_vpc;
        let job = job("lambdaml_async", 4, 1, json!({}));
        let simulated = run(&simulation(job, 500_000, &profile, 0.1));
        simulated.wall_s
    };
    assert!(synchronise_s(false) < 0.2);
    assert!(synchronise_s(true) > 8.0, "{}", synchronise_s(true));
}
