use epochcost_platform::simulator;
use epochcost_spec::rows::Row;

use super::*;
use crate::PlatformKind;
use crate::testing::{cases, holds};
use crate::tests::{BASE, load_on};

/// The rows of a system of functions and of one of instances.
fn load(line: &str, platform: PlatformKind) -> Result<Vec<Row>, ExperimentError> {
    load_systems("[allreduce, gpu_baseline]", line, platform)
}

fn load_systems(
    systems: &str,
    line: &str,
    platform: PlatformKind,
) -> Result<Vec<Row>, ExperimentError> {
    let (before, _) = BASE.split_once("systems: ").unwrap();
    let text = format!("{before}systems: {systems}\n{line}\n");
    Ok(load_on(Some(platform), &text, &[])?.rows)
}

fn local(line: &str) -> Sandbox {
    let rows = load(line, PlatformKind::default()).unwrap();
    rows[0].sandbox.clone()
}

fn refusal(line: &str) -> String {
    load(line, PlatformKind::default()).unwrap_err().to_string()
}

#[test]
fn what_is_left_out_is_lambdas_default() {
    let sandbox = local("");
    assert!(sandbox.is_default());
    assert_eq!(sandbox.ephemeral_storage_mb, 512);
    assert_eq!(sandbox.account.concurrency_limit, 1_000);
    let account = local("account: {concurrency_limit: 3}").account;
    assert_eq!(account.concurrency_limit, 3);
    assert_eq!(account.scaling_per_10_s, 1_000);
}

#[test]
fn each_field_has_lambdas_range() {
    for ([line], words) in cases(&[
        "ephemeral_storage_mb: 511 | give 512 to 10240 | 511",
        "ephemeral_storage_mb: 99999999999 | give 512 to 10240 | 99999999999",
        "account: {concurrency_limit: 0} | test.yaml:9: | 1 or more",
        "account: {concurrency: 5} | concurrency_limit | did you mean",
        "environment: {AWS_REGION: x} | AWS_REGION | reserved",
        "environment: {AWS_LAMBDA_RUNTIME_API: x} | reserved | test.yaml:9:",
        "environment: {EPOCHCOST_FAULTS: '[]'} | reserved | leave it out",
        "environment: {1A: x} | `1A` | letter",
        "network: {} | without figures | profile",
        "network: {bandwidth_mbit_s: 0} | bandwidth_mbit_s | give 0.001 to 1000000000",
        "network: {latency_ms: {queue: -1}} | latency_ms.queue | give 0 to 60000",
        "network: {profile: aws, latency_ms: {}} | one of the two | profile",
        "network: {profile: aws-us-esat-1} | aws-us-east-1 | test.yaml:9:",
    ]) {
        holds(refusal(line), &words);
    }
    let long = format!("environment: {{LONG: {}}}", "x".repeat(4_093));
    assert!(refusal(&long).contains("4097 bytes"));
}

#[test]
fn a_profiles_network_is_that_of_the_rows_workers() {
    let rows = load("network: {profile: aws-us-east-1}", PlatformKind::default()).unwrap();
    let profile = profiles::platform("aws-us-east-1").unwrap().values();
    let expected = [
        profile.function.bytes_per_s(2_048),
        profile.instance.bytes_per_s,
    ];
    for (row, bytes_per_s) in rows.iter().zip(expected) {
        let network = row.sandbox.network.clone().unwrap();
        assert_eq!(network.profile.as_deref(), Some("aws-us-east-1"));
        let mbit = network.shape.bandwidth_mbit_s.unwrap();
        assert!((mbit * 125_000.0 - bytes_per_s).abs() < 1.0, "{mbit}");
        let objects_s = profile.object_store.service.request_latency_s;
        assert!((network.shape.latency_ms.objects - objects_s * 1e3).abs() < 1e-9);
    }
}

#[test]
fn a_simulation_takes_the_account_and_has_its_own_network() {
    let line = "account: {concurrency_limit: 3}\nnetwork: {bandwidth_mbit_s: 10}";
    let row = load(line, simulator()).unwrap().remove(0);
    assert!(row.sandbox.is_default());
    assert_eq!(row.constants["function.concurrency_limit"].value, 3.0);
    let twice = "[{system: allreduce, constants: {function.concurrency_limit: {value: 4, assumed: a test}}}]";
    let line = "account: {concurrency_limit: 3}";
    let error = load_systems(twice, line, simulator()).unwrap_err();
    holds(error, &["the same value"]);
}
