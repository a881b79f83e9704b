//! Every shipped profile is of the types that read it, and has no fault.

use std::fs;
use std::path::{Path, PathBuf};

use epochcost_simulator::profile::{ComputeProfile, Constant, Profile};
use epochcost_systems::{Device, states};
use serde::de::DeserializeOwned;

use crate::support::{assert_near, shipped};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../harness/profiles")
}

/// What the YAML files in `folder` hold, with the names of the files.
fn read<T: DeserializeOwned>(folder: &Path) -> Vec<(String, T)> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let yaml = files.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let mut all: Vec<_> = yaml
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let profile = serde_yaml::from_str(&text);
            (
                name,
                profile.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            )
        })
        .collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

fn platforms() -> Vec<(String, Profile<Constant>)> {
    read(&folder())
}

fn computes() -> Vec<(String, ComputeProfile)> {
    read(&folder().join("compute"))
}

/// A date in the form `YYYY-MM-DD`.
fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text
        .split('-')
        .map(|part| (part.len(), part.parse::<u32>()))
        .collect();
    matches!(parts[..], [(4, Ok(_)), (2, Ok(1..=12)), (2, Ok(1..=31))])
}

#[test]
fn platform_profiles_have_no_fault() {
    let all = platforms();
    for name in [
        "aws-us-east-1",
        "aws-us-east-1-2024",
        "laptop",
        "serverless-gpu",
    ] {
        assert!(all.iter().any(|(file, _)| file == name), "{name}");
    }
    for (file, profile) in &all {
        assert_eq!(&profile.name, file);
        assert_eq!(profile.faults(), [], "{file}");
        for (path, constant) in profile.constants() {
            assert!(is_date(&constant.date), "{file} {path}: {}", constant.date);
        }
        // Without a limit, a workflow of any length would be possible.
        if file.starts_with("aws-") {
            let workflow = &profile.values().workflow;
            let limits = [
                workflow.definition_bytes_limit,
                workflow.history_events_limit,
            ];
            let known = [states::DEFINITION_BYTES_LIMIT, states::HISTORY_EVENTS_LIMIT];
            assert_eq!(limits, known.map(Some), "{file}");
        }
    }
}

#[test]
fn compute_profiles_have_no_fault() {
    let all = computes();
    assert!(all.len() >= 2);
    for (file, profile) in &all {
        assert_eq!(&profile.name, file);
        assert_eq!(profile.faults(), [], "{file}");
        for (index, cost) in profile.models.iter().enumerate() {
            assert!(is_date(&cost.date), "{file} {}: {}", cost.model, cost.date);
            // A second entry for the same would never be found.
            let first = profile
                .models
                .iter()
                .position(|other| (&other.model, other.device) == (&cost.model, cost.device));
            assert_eq!(first, Some(index), "{file} {}", cost.model);
        }
    }
}

/// Whatever model an experiment names can be simulated.
#[test]
fn stated_rates_know_every_model() {
    let computes = computes();
    let stated = computes.iter().find(|(name, _)| name == "stated-flops");
    let (_, stated) = stated.unwrap();
    for model in epochcost_systems::models() {
        for device in [Device::Cpu, Device::Cuda] {
            let cost = stated.find(model.name, device);
            let cost = cost.unwrap_or_else(|| panic!("no {} on {device:?}", model.name));
            // Four vectors of parameters, in MB of 2^20 bytes.
            let vectors_mb = 16.0 * model.sizes.parameters as f64 / f64::from(1 << 20);
            assert!((cost.fixed_mb - vectors_mb).abs() <= 0.51, "{}", model.name);
            let forward = cost.evaluate_sample_s * 3.0 / cost.sample_s;
            assert_near(forward, 1.0, 0.15, model.name);
        }
    }
}

/// Compute and exchange together are Table 2's seconds per batch again, at its
/// memory sizes.
#[test]
fn published_durations_add_up_to_table_2() {
    let (aws, computes) = (shipped("aws-us-east-1").values(), computes());
    let published = computes
        .iter()
        .find(|(name, _)| name == "published-cost-performance");
    let (_, published) = published.unwrap();
    let s3 = &aws.object_store.service;
    let rows = [
        ("mobilenet", 3_217_226.0, (14.382, 2048), (14.343, 2048)),
        ("resnet18", 11_173_962.0, (26.79, 2986), (27.17, 2880)),
    ];
    for (model, parameters, allreduce, scatterreduce) in rows {
        let cost = published.find(model, Device::Cpu).unwrap();
        let transfer = 4.0 * parameters / s3.stream_bytes_per_s;
        let exchanges = [
            (allreduce, 6.0 * (s3.request_latency_s + transfer)),
            (scatterreduce, 13.0 * s3.request_latency_s + 2.5 * transfer),
        ];
        for ((seconds, memory_mb), exchange) in exchanges {
            let step = cost.step_s(512, aws.function.vcpus(memory_mb)) + exchange;
            assert_near(step / seconds, 1.0, 0.02, model);
            let peak = aws.function.resident_mb + cost.peak_mb(512);
            assert!(
                peak <= f64::from(memory_mb),
                "{model}: {peak} MB of {memory_mb}"
            );
        }
    }
}
