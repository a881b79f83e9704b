//! Whole runs on AWS without an account: the program under test is `epochcost`, built with
//! the feature `aws`, against this crate's emulator and moto.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

mod cloud;
mod costs;
mod faults;
mod rehearsal;
mod reproduction;
#[path = "../../../aws/tests/lifecycle/server.rs"]
mod server;

use epochcost_servers::find;

use cloud::{Cloud, Ended, REGION, RUN, assert_metrics_agree, digests, holds, worker, written};

#[test]
fn a_run_on_aws_trains_as_the_local_one_and_leaves_nothing() {
    let systems = "scatterreduce, allreduce, lambdaml_scatterreduce, gpu_baseline, \
                   {system: mirrored, instance_type: g4dn.12xlarge}";
    let Some(cloud) = Cloud::of(systems) else {
        return;
    };
    cloud.run("run x.yaml --platform local --out local").ends(0);
    let ran = cloud.run(&format!("{RUN} --out aws")).ends(0);
    let said = ran.message();
    holds(
        &said,
        &["rents 3 × g4dn.xlarge for ", "rents 1 × g4dn.12xlarge for "],
    );
    assert_eq!(said.matches("its instances are gone").count(), 2, "{said}");
    let [expected, found] = ["local", "aws"].map(|out| digests(&cloud.path(out)));
    // Four systems of 3 workers, one of one process; 2 epochs of 2 batches.
    assert_eq!(expected.len(), (4 * 3 + 1) * 2 * 2, "{expected:?}");
    assert_eq!(found, expected);
    let trials = cloud.trials("aws");
    assert_eq!(trials.matches("REPORT lines of all").count(), 3, "{trials}");
    assert_eq!(assert_metrics_agree(&cloud.path("aws")), 3);
    cloud.assert_empty();
    // The harness's keys appear in no file and no message.
    assert!(!written(&cloud.path("aws")).contains("c4n4ry"));
    assert!(!said.contains("c4n4ry"));
}

/// A worker without CUDA would compute on the CPUs of machines that are paid for their GPUs.
#[test]
fn a_row_on_gpus_is_not_run_by_a_worker_without_cuda() {
    let Some(cloud) = Cloud::of("allreduce, gpu_baseline") else {
        return;
    };
    cloud.edit("x.yaml", "device: {kind: cpu}\n", "");
    let text = cloud.run(&format!("{RUN} --out aws")).text();
    holds(&text, &["without CUDA"]);
    let trials = cloud.trials("aws");
    assert!(!trials.contains("gpu-baseline"), "{trials}");
    holds(&trials, &["allreduce"]);
    cloud.assert_empty();
}

/// Every system with MobileNet: tensor stores and the queue on hosts of their own, workflows
/// as state machines, peers on instances that call functions.
#[test]
fn every_system_trains_on_aws_as_it_does_here() {
    let Some(cloud) = Cloud::start_with_services() else {
        return;
    };
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/mobilenet.yaml"
    );
    cloud.write("x.yaml", &fs::read_to_string(file).unwrap());
    // What AWS cannot run here is refused with its reason: workers may not connect to each other,
    // and functions that a worker calls and waits for have not been tried there.
    for (system, reason) in [
        ("ring", "connect to each other"),
        ("grads_sharding", "waits for"),
        ("lambda_fl", "waits for"),
        ("lifl", "waits for"),
    ] {
        let refused = cloud.run(RUN).ends(2).message();
        assert!(refused.contains(reason), "{system}: {refused}");
        let row = format!("- {system}");
        let text = cloud.read("x.yaml");
        let others: Vec<_> = text.lines().filter(|line| line.trim() != row).collect();
        cloud.write("x.yaml", &others.join("\n"));
    }
    for out in ["local", "aws"] {
        let set = "--set 'device={kind: cpu}'";
        let run = format!("run x.yaml --platform {out} --yes --out {out} {set}");
        let said = cloud.run(&run).ends(0).message();
        assert!(!said.contains("c4n4ry"));
    }
    cloud.assert_empty();
    assert!(!written(&cloud.path("aws")).contains("c4n4ry"));
    // Asynchronous training depends on the order of arrival.
    let [expected, found] = ["local", "aws"].map(|out| -> BTreeMap<String, String> {
        let digests = digests(&cloud.path(out)).into_iter();
        digests
            .filter(|(at, _)| !at.contains("lambdaml-async"))
            .collect()
    });
    assert!(expected.len() > 11 * 4, "{}", expected.len());
    assert_eq!(found.len(), expected.len());
    let differs = |(at, _): &(&String, _)| found.get(*at) != expected.get(*at);
    let differing: Vec<_> = expected.iter().filter(differs).collect();
    assert!(differing.is_empty(), "{differing:?}");
    let trials = cloud.trials("aws");
    // All but P2P and the two systems whose workers are instances that call no function.
    assert_eq!(trials.matches("REPORT lines of all").count(), 9, "{trials}");
    assert_eq!(assert_metrics_agree(&cloud.path("aws")), 9);
}

/// The row of a trial has the reason why one of its hosts cannot serve.
#[test]
fn a_service_that_does_not_come_up_is_named_in_the_trials_row() {
    let Some(cloud) = Cloud::of("spirt, allreduce") else {
        return;
    };
    // A module in which Redis does not find the entry point.
    let mut module = fs::read(find::module().unwrap()).unwrap();
    let entry = b"RedisModule_OnLoad";
    while let Some(at) = module.windows(entry.len()).position(|part| part == entry) {
        module[at] = b'?';
    }
    let broken = cloud.path("broken.so");
    fs::write(&broken, module).unwrap();
    let mut command = cloud.command(&format!("{RUN} --out run"));
    Ended::of(command.env("EPOCHCOST_TENSORDB", broken)).ends(3);
    cloud.assert_empty();
    let trials = cloud.trials("run");
    holds(&trials, &["-spirt-store-0-r0t0 ended before", "module.so"]);
    // The other row has run.
    assert_eq!(trials.matches("REPORT lines of all").count(), 1, "{trials}");
}

/// Shipped prices are one region's; elsewhere they bound nothing.
#[test]
fn nothing_is_made_without_consent_over_the_limit_or_without_prices() {
    let Some(cloud) = Cloud::of("scatterreduce") else {
        return;
    };
    let asked = "run x.yaml --platform aws";
    cloud.run(asked).ends(2).says(&["--yes"]);
    cloud.run(&format!("{RUN} --max-usd 0.0001")).ends(6);
    let mut elsewhere = cloud.command(RUN);
    let refused = Ended::of(elsewhere.env("AWS_REGION", "eu-west-1"));
    refused.ends(2).says(&["--prices FILE"]);
    // A worker that answers here, and is no program there, is refused before consent, which would be
    // impossible.
    let script = cloud.path("bootstrap");
    cloud.write(
        "bootstrap",
        &format!("#!/bin/bash\nexec {} \"$@\"\n", worker().display()),
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let text = Ended::of(cloud.command(asked).env("EPOCHCOST_WORKER", script)).message();
    assert!(!text.contains("--yes"), "{text}");
    let is_named = text.contains("ELF") || text.contains("EPOCHCOST_WORKER");
    assert!(is_named, "{text}");
    cloud.assert_empty();
}

/// Shared: two buckets, two roles and the switch; of the trial: a log group and a function.
#[test]
fn a_kill_after_any_journaled_step_leaves_nothing() {
    kill_after_each("scatterreduce", 7, 1);
}

/// Shared: two buckets, four roles, an instance profile, the network in four
/// parts, the switch and three endpoints; of the trial: a host of each of three peers and one of the queue,
/// nine functions with their log groups, and a state machine. After every eleventh
/// line: each takes seconds.
#[test]
fn a_kill_of_a_run_with_hosts_of_services_leaves_nothing() {
    kill_after_each("spirt", 15 + 4 + 2 * 9 + 1, 11);
}

/// Runs a system again and again: each run is killed after `stride` lines of its
/// journal more than the one before, and is then gone on with or cleaned up. One
/// comes to its end, having made `resources`.
fn kill_after_each(system: &str, resources: usize, stride: usize) {
    let Some(cloud) = Cloud::of(system) else {
        return;
    };
    for lines in (1..).step_by(stride) {
        let out = format!("run-{lines}");
        let arguments = format!("{RUN} --out {out}");
        let command = cloud.command(&arguments);
        if let Some(code) = cloud.kill_after(command, &out, lines, Duration::ZERO) {
            assert_eq!(code, 0);
            cloud.assert_empty();
            // Each is intended, made and removed; money is reserved for the run and the trial, and spent.
            assert_eq!(cloud.journaled(&out), 1 + 3 * resources + 3);
            assert!(lines > 3 * resources);
            return;
        }
        let teardown = match lines % 2 {
            0 => cloud.run(&format!("aws clean --yes --region {REGION}")),
            _ => cloud.run(&format!("{arguments} --resume")),
        };
        let message = teardown.message();
        assert_eq!(teardown.code(), 0, "after {lines}: {message}");
        cloud.assert_empty();
    }
}
