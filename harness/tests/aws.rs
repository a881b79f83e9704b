//! Verbs on AWS: without the feature they report how to get it, and with it they work
//! without an account as far as possible. A test program of its own, so that the others are not
//! compiled once more with the feature.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

/// Five systems, one per kind of deployment.
const EXPERIMENT: &str = "\
schema: 1
name: planned
platform: aws
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 32
batches_per_worker: 3
epochs: 2
memory_mb: 3008
systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]
";

/// Runs the program with no configuration of AWS. Arguments are parted by spaces.
fn epochcost(directory: &Path, arguments: &str) -> Output {
    epochcost_testing::watch();
    let mut command = Command::new(env!("CARGO_BIN_EXE_epochcost"));
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    for name in names.filter(|name| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    command
        .args(arguments.split(' '))
        .current_dir(directory)
        .env("HOME", directory)
        // No request to the metadata of an instance that this may run on.
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .output()
        .unwrap()
}

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x.yaml"), EXPERIMENT).unwrap();
    directory
}

#[track_caller]
fn refused(arguments: &str, exit: i32, says: &str) {
    let directory = directory();
    let output = epochcost(directory.path(), arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{arguments}: {message}");
    assert!(message.contains(says), "{arguments}: {message}");
    let left = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(left, 1, "{arguments} wrote something");
}

/// A setting that AWS does not support is refused before anything happens.
#[cfg(feature = "aws")]
#[test]
fn a_run_that_shapes_the_network_is_refused_before_anything_happens() {
    let shaped = "run x.yaml --yes --set network.bandwidth_mbit_s=10";
    refused(shaped, 5, "shapes the network");
}

#[cfg(not(feature = "aws"))]
#[test]
fn a_build_without_the_clients_says_how_to_get_one_with_them() {
    for arguments in [
        "run x.yaml",
        "aws clean --dry-run",
        "aws clean --yes",
        "aws doctor",
        "aws prices refresh --out book.yaml",
        "plan x.yaml --platform aws",
    ] {
        refused(arguments, 5, "--features aws");
    }
}

#[cfg(feature = "aws")]
mod with_clients {
    use serde_json::Value;

    use super::*;

    fn plan(options: &str) -> Value {
        let directory = directory();
        let arguments = format!("plan x.yaml --json --platform aws{options}");
        let output = epochcost(directory.path(), &arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{message}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["aws"].clone()
    }

    fn usd(plan: &Value) -> f64 {
        plan["worst_case_usd"].as_f64().unwrap()
    }

    /// A plan needs neither an account nor a network, and is no less than any estimate.
    #[test]
    fn a_plan_lists_what_would_be_made_and_bounds_what_it_costs() {
        let plan = plan("");
        let lines = plan["worst_case"].as_array().unwrap();
        let sum: f64 = lines.iter().map(|line| line["usd"].as_f64().unwrap()).sum();
        assert!((usd(&plan) - sum).abs() < 1e-9 && sum > 0.0);
        for line in lines {
            let [usd, quantity, each] =
                ["usd", "quantity", "unit_usd"].map(|field| line[field].as_f64().unwrap());
            assert!((usd - quantity * each).abs() < 1e-12, "{line}");
        }
        let resources = plan["resources"].as_array().unwrap();
        let count = |kind: &str| -> u64 {
            let of = resources.iter().filter(|resource| resource["kind"] == kind);
            of.map(|resource| resource["count"].as_u64().unwrap()).sum()
        };
        assert_eq!(["bucket", "state_machine"].map(count), [2, 1]);
        // SPIRT's nine, MLLess's two, and one each of LambdaML's.
        assert_eq!(["function", "log_group"].map(count), [13, 13]);
        // SPIRT's hosts need a network, and its functions the ways out of it.
        let network = ["vpc", "internet_gateway", "subnet", "endpoint"];
        assert_eq!(network.map(count), [1, 1, 1, 3]);
        // What removes the endpoints where nobody else does.
        assert_eq!(count("switch"), 1);
        // Four workers with GPUs in addition to the hosts of services.
        assert!(count("instance") > 4 + 4, "{resources:?}");
    }

    #[test]
    fn more_trials_cost_more() {
        let (one, two) = (plan(" --trials 1"), plan(" --trials 2"));
        let of_rows = |plan: &Value| -> f64 {
            let lines = plan["worst_case"].as_array().unwrap().iter();
            let lines = lines.filter(|line| line["row"] != "");
            lines.map(|line| line["usd"].as_f64().unwrap()).sum()
        };
        assert!((of_rows(&two) / of_rows(&one) - 2.0).abs() < 1e-9);
        // The network's first and last hour is paid for once.
        assert!(usd(&two) < 2.0 * usd(&one) && usd(&two) > 2.0 * of_rows(&one));
        // Those that an undecided claim may add are in the bound.
        let adds = plan(" --trials 1 --set most_trials=2");
        assert_eq!(usd(&adds), usd(&two));
    }

    /// A missing price is named, and is not 0: its row cannot be planned, and the others are.
    #[test]
    fn a_row_without_a_price_cannot_be_run_and_names_it() {
        let directory = directory();
        let shipped = include_str!("../prices/us-east-1-2026-11-21.yaml");
        let without = shipped.replace("ec2/g4dn.xlarge", "ec2/g9.mega");
        std::fs::write(directory.path().join("book.yaml"), without).unwrap();
        let arguments = "plan x.yaml --platform aws --prices book.yaml";
        let output = epochcost(directory.path(), arguments);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        let named = "cannot be run: failed to find a price for ec2/g4dn.xlarge";
        assert!(text.contains(named), "{text}");
    }

    #[test]
    fn without_credentials_or_a_region_the_error_names_the_remedy() {
        for (arguments, exit, says) in [
            ("aws clean --dry-run", 2, "AWS_REGION"),
            ("aws clean --dry-run --region eu-west-1", 5, "aws sso login"),
            ("aws prices refresh --out book.yaml", 5, "aws sso login"),
            ("aws clean --run nonsense --region x", 2, "twelve"),
        ] {
            refused(arguments, exit, says);
        }
    }
}
