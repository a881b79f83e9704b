//! Rounds of aggregation, alone.

use epochcost_simulator::{ProbeClient, Round, aggregate};

use crate::support::{assert_near, ideal};

/// On a platform of one latency, one bandwidth and one rate, times are sums.
#[test]
fn a_round_takes_its_slowest_functions_one_level_after_another() {
    let mut profile = ideal();
    let service = &mut profile.object_store.service;
    (service.request_latency_s, service.stream_bytes_per_s) = (0.01, 1e8);
    profile.function.invoke_latency_s = 0.1;
    profile.function.arithmetic_bytes_per_s = 1e9;
    profile.function.mb_per_vcpu = 1769.0;
    profile.function.vcpus_limit = 6.0;
    let bytes = 50_000_000;
    for memory_mb in [885, 1769, 3008] {
        let round = Round {
            levels: vec![vec![3, 3, 2], vec![3]],
            bytes,
            memory_mb,
            client: ProbeClient::Compiled,
        };
        let times = aggregate(&profile, &round);
        let share = (f64::from(memory_mb) / 1769.0).min(1.0);
        let function = |inputs: f64| {
            let passes = 3.0 * inputs + 2.0;
            (inputs * 0.51, passes * bytes as f64 / 1e9 / share, 0.51)
        };
        for (inputs, found) in [3.0, 3.0, 2.0].iter().zip(&times.levels[0]) {
            let (read_s, compute_s, write_s) = function(*inputs);
            assert_near(found.read_s, read_s, 1e-6, "reading");
            assert_near(found.compute_s, compute_s, 1e-6, "computing");
            assert_near(found.write_s, write_s, 1e-6, "writing");
        }
        let (read_s, compute_s, write_s) = function(3.0);
        let level_s = 0.1 + read_s + compute_s + write_s;
        assert_near(times.wall_s, 2.0 * level_s, 1e-6, "both levels");
    }
}
