//! Two constants of S3 explain the four communication times that Barrak et al.
//! 2025 (§4.2) state for LambdaML's exchanges at 16 workers, on the shipped AWS
//! profile. `experiments/cost-performance/figure2*.yaml` stand on the
//! constants that are fitted here.

use std::sync::LazyLock;

use epochcost_simulator::profile::Profile;
use serde_json::json;

use crate::support::*;

/// Parameters with a head of ten classes.
const RESNET50: usize = 23_520_842;
const MOBILENET: usize = 3_217_226;
const WORKERS: usize = 16;

/// System, parameters, published seconds.
const PUBLISHED: [(&str, usize, f64); 4] = [
    ("allreduce", RESNET50, 21.88),
    ("scatterreduce", RESNET50, 8.36),
    ("allreduce", MOBILENET, 4.77),
    ("scatterreduce", MOBILENET, 6.47),
];

/// S3's request latency, seconds, and stream bandwidth, bytes/s.
#[derive(Clone, Copy, Debug)]
struct S3 {
    latency_s: f64,
    bytes_per_s: f64,
}

/// Seconds of synchronising, a worker, mean over the workers of one step.
fn synchronise_s(system: &str, parameters: usize, workers: usize, s3: S3) -> f64 {
    let mut profile = AWS.clone();
    profile.object_store.service.request_latency_s = s3.latency_s;
    profile.object_store.service.stream_bytes_per_s = s3.bytes_per_s;
    let settings = match system {
        // Its patience of 60 s is no part of the comparison.
        "allreduce" => json!({"merged_timeout_s": null}),
        _ => json!({}),
    };
    let job = job(system, workers, 1, settings);
    let simulated = run(&simulation(job, parameters, &profile, 1.0));
    simulated.totals.seconds["train"].synchronise() / workers as f64
}

static AWS: LazyLock<Profile<f64>> = LazyLock::new(|| shipped("aws-us-east-1").values());

/// S3 as the profile has it.
fn stated() -> S3 {
    let service = &AWS.object_store.service;
    S3 {
        latency_s: service.request_latency_s,
        bytes_per_s: service.stream_bytes_per_s,
    }
}

fn ratio(index: usize, s3: S3) -> f64 {
    let (system, parameters, published) = PUBLISHED[index];
    synchronise_s(system, parameters, WORKERS, s3) / published
}

/// The constants with the least squares of the logarithms of the ratios, on
/// ever finer grids.
fn fit(indices: &[usize]) -> S3 {
    let error = |s3: S3| -> f64 { indices.iter().map(|i| ratio(*i, s3).ln().powi(2)).sum() };
    let mut best = S3 {
        latency_s: 0.09,
        bytes_per_s: 90e6,
    };
    let mut width = 1.5_f64;
    for _ in 0..9 {
        let around = (-2..=2).flat_map(|i| (-2..=2).map(move |j| (i, j)));
        let candidates = around.map(|(i, j)| S3 {
            latency_s: best.latency_s * width.powf(f64::from(i) / 2.0),
            bytes_per_s: best.bytes_per_s * width.powf(f64::from(j) / 2.0),
        });
        best = candidates
            .min_by(|a, b| error(*a).total_cmp(&error(*b)))
            .unwrap();
        width = width.powf(0.5);
    }
    best
}

#[test]
fn the_stated_constants_give_all_four_times_within_a_tenth() {
    for (index, published) in PUBLISHED.iter().enumerate() {
        let ratio = ratio(index, stated());
        println!("stated: {published:?} {ratio:.3}");
        assert_near(ratio, 1.0, 0.1, &format!("{published:?}"));
    }
}

/// Three of the four follow from the others within a tenth; ScatterReduce's
/// time for MobileNet, which alone separates latency from bandwidth, is 13 % short.
#[test]
fn each_time_is_predicted_from_the_other_three() {
    let stated_by_the_experiments = [
        (0.0925, 94.4e6, 0.973),
        (0.0960, 92.7e6, 1.084),
        (0.0927, 94.2e6, 0.986),
        (0.0827, 88.5e6, 0.873),
    ];
    for (left_out, (latency_s, bytes_per_s, expected)) in
        stated_by_the_experiments.into_iter().enumerate()
    {
        let others: Vec<usize> = (0..4).filter(|index| *index != left_out).collect();
        let s3 = fit(&others);
        let what = format!("{left_out}: {s3:?}");
        assert_near(s3.latency_s / latency_s, 1.0, 0.02, &what);
        assert_near(s3.bytes_per_s / bytes_per_s, 1.0, 0.02, &what);
        assert_near(ratio(left_out, s3), expected, 0.01, &what);
    }
}

/// The size of model above which ScatterReduce is faster than AllReduce.
fn crossing(workers: usize) -> f64 {
    let allreduce_is_slower = |parameters: f64| {
        let seconds = |system| synchronise_s(system, parameters as usize, workers, stated());
        seconds("allreduce") > seconds("scatterreduce")
    };
    let (mut below, mut above) = (1e3_f64, 1e9_f64);
    assert!(!allreduce_is_slower(below) && allreduce_is_slower(above));
    while above > 1.005 * below {
        let middle = (below * above).sqrt();
        if allreduce_is_slower(middle) {
            above = middle
        } else {
            below = middle
        }
    }
    above
}

/// More workers favour AllReduce up to a point: where every worker's requests
/// outweigh the bytes, the crossing grows no further.
#[test]
fn the_crossing_grows_with_the_workers_and_levels_off() {
    let crossings = [4, 8, 16, 32].map(crossing);
    for (found, expected) in crossings.into_iter().zip([2.64e6, 4.34e6, 5.35e6, 5.76e6]) {
        assert_near(found / expected, 1.0, 0.02, &format!("{found}"));
    }
    assert!(crossings.is_sorted());
}
