//! Whole runs on AWS without an account: the program under test is `epochcost`, built with
//! the feature `aws`, against this crate's emulator and moto.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

mod cloud;
mod costs;
mod faults;
mod rehearsal;
mod reproduction;

use epochcost_servers::find;

use cloud::{Cloud, REGION, assert_metrics_agree, digests, experiment, printed, worker, written};

#[test]
fn a_run_on_aws_trains_as_the_local_one_and_leaves_nothing() {
    let Some(cloud) = Cloud::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let systems = "systems: [scatterreduce, allreduce, lambdaml_scatterreduce, gpu_baseline, \
         {system: mirrored, instance_type: g4dn.12xlarge}]\n";
    let file = experiment(directory.path(), systems);
    let (local, aws) = (directory.path().join("local"), directory.path().join("aws"));
    let out = |path: &Path| path.display().to_string();
    let run = |arguments: &[&str]| cloud.run(directory.path(), arguments);
    let ran = run(&["run", &file, "--platform", "local", "--out", &out(&local)]);
    assert_eq!(ran.status.code(), Some(0), "{}", printed(&ran));
    let ran = run(&[
        "run",
        &file,
        "--platform",
        "aws",
        "--yes",
        "--out",
        &out(&aws),
    ]);
    assert_eq!(ran.status.code(), Some(0), "{}", printed(&ran));
    let said = printed(&ran);
    for rented in ["rents 3 × g4dn.xlarge for ", "rents 1 × g4dn.12xlarge for "] {
        assert!(said.contains(rented), "{rented}: {said}");
    }
    assert_eq!(said.matches("its instances are gone").count(), 2, "{said}");
    let (expected, found) = (digests(&local), digests(&aws));
    // Four systems of 3 workers, one of one process; 2 epochs of 2 batches.
    assert_eq!(expected.len(), (4 * 3 + 1) * 2 * 2, "{expected:?}");
    assert_eq!(found, expected);
    let trials = std::fs::read_to_string(aws.join("trials.jsonl")).unwrap();
    assert_eq!(trials.matches("REPORT lines of all").count(), 3, "{trials}");
    assert_eq!(assert_metrics_agree(&aws), 3);
    cloud.assert_empty();
    // The harness's keys appear in no file and no message.
    assert!(!written(&aws).contains("c4n4ry"));
    assert!(!printed(&ran).contains("c4n4ry"));
}

/// A worker without CUDA would compute on the CPUs of machines that are paid for their GPUs.
#[test]
fn a_row_on_gpus_is_not_run_by_a_worker_without_cuda() {
    let Some(cloud) = Cloud::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), "systems: [allreduce, gpu_baseline]\n");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("device: {kind: cpu}\n", "")).unwrap();
    let out = directory.path().join("aws").display().to_string();
    let arguments = ["run", &file, "--platform", "aws", "--yes", "--out", &out];
    let ran = cloud.run(directory.path(), &arguments);
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(text.contains("without CUDA"), "{text}");
    let trials = std::fs::read_to_string(Path::new(&out).join("trials.jsonl")).unwrap();
    assert!(!trials.contains("gpu-baseline"), "{trials}");
    assert!(trials.contains("allreduce"), "{trials}");
    cloud.assert_empty();
}

/// Every system with MobileNet: tensor stores and the queue on hosts of their own, workflows
/// as state machines, peers on instances that call functions.
#[test]
fn every_system_trains_on_aws_as_it_does_here() {
    let Some(cloud) = Cloud::start_with_services() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/mobilenet.yaml"
    );
    let whole = std::fs::read_to_string(file).unwrap();
    let file = directory
        .path()
        .join("mobilenet.yaml")
        .display()
        .to_string();
    // What AWS cannot run here is refused with its reason: workers may not connect to each other,
    // and functions that a worker calls and waits for have not been tried there.
    let refusals = [
        ("ring", "connect to each other"),
        ("grads_sharding", "waits for"),
        ("lambda_fl", "waits for"),
        ("lifl", "waits for"),
    ];
    let mut text = whole;
    for (system, reason) in refusals {
        std::fs::write(&file, &text).unwrap();
        let refused = cloud.run(
            directory.path(),
            &["run", &file, "--platform", "aws", "--yes"],
        );
        assert_eq!(refused.status.code(), Some(2), "{}", printed(&refused));
        assert!(
            printed(&refused).contains(reason),
            "{system}: {}",
            printed(&refused)
        );
        let row = format!("- {system}");
        let others: Vec<_> = text.lines().filter(|line| line.trim() != row).collect();
        text = others.join("\n");
    }
    std::fs::write(&file, &text).unwrap();
    let file = file.as_str();
    let (local, aws) = (directory.path().join("local"), directory.path().join("aws"));
    for (platform, out) in [("local", &local), ("aws", &aws)] {
        let out = out.display().to_string();
        let arguments = [
            "run",
            file,
            "--platform",
            platform,
            "--yes",
            "--out",
            &out,
            "--set",
            "device={kind: cpu}",
        ];
        let ran = cloud.run(directory.path(), &arguments);
        assert_eq!(ran.status.code(), Some(0), "{platform}: {}", printed(&ran));
        assert!(!printed(&ran).contains("c4n4ry"));
    }
    cloud.assert_empty();
    assert!(!written(&aws).contains("c4n4ry"));
    // Asynchronous training depends on the order of arrival.
    let is_synchronous = |at: &String| !at.contains("lambdaml-async");
    let of = |run: &Path| -> BTreeMap<String, String> {
        let digests = digests(run).into_iter();
        digests.filter(|(at, _)| is_synchronous(at)).collect()
    };
    let (expected, found) = (of(&local), of(&aws));
    assert!(expected.len() > 11 * 4, "{}", expected.len());
    assert_eq!(found.len(), expected.len());
    let differs = |(at, _): &(&String, _)| found.get(*at) != expected.get(*at);
    let differing: Vec<_> = expected.iter().filter(differs).collect();
    assert!(differing.is_empty(), "{differing:?}");
    let trials = std::fs::read_to_string(aws.join("trials.jsonl")).unwrap();
    // All but P2P and the two systems whose workers are instances that call no function.
    assert_eq!(trials.matches("REPORT lines of all").count(), 9, "{trials}");
    assert_eq!(assert_metrics_agree(&aws), 9);
}

/// The row of a trial has the reason why one of its hosts cannot serve.
#[test]
fn a_service_that_does_not_come_up_is_named_in_the_trials_row() {
    let Some(cloud) = Cloud::start_with_services() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), "systems: [spirt, allreduce]\n");
    let out = directory.path().join("run").display().to_string();
    let mut command = cloud.command(&["run", &file, "--platform", "aws", "--yes", "--out", &out]);
    // A module in which Redis does not find the entry point.
    let mut module = std::fs::read(find::module().unwrap()).unwrap();
    let entry = b"RedisModule_OnLoad";
    while let Some(at) = module.windows(entry.len()).position(|part| part == entry) {
        module[at] = b'?';
    }
    let broken = directory.path().join("broken.so");
    std::fs::write(&broken, module).unwrap();
    let ran = command
        .current_dir(directory.path())
        .env("EPOCHCOST_TENSORDB", broken)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(3), "{}", printed(&ran));
    cloud.assert_empty();
    let trials = std::fs::read_to_string(Path::new(&out).join("trials.jsonl")).unwrap();
    assert!(
        trials.contains("-spirt-store-0-r0t0 ended before"),
        "{trials}"
    );
    assert!(trials.contains("module.so"), "{trials}");
    // The other row has run.
    assert_eq!(trials.matches("REPORT lines of all").count(), 1, "{trials}");
}

#[test]
fn nothing_is_made_without_consent_or_over_the_limit() {
    let Some(cloud) = Cloud::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), "systems: [scatterreduce]\n");
    let run = |arguments: &[&str]| cloud.run(directory.path(), arguments);
    let refused = run(&["run", &file, "--platform", "aws"]);
    assert_eq!(refused.status.code(), Some(2), "{}", printed(&refused));
    assert!(printed(&refused).contains("--yes"), "{}", printed(&refused));
    let arguments = [
        "run",
        &file,
        "--platform",
        "aws",
        "--yes",
        "--max-usd",
        "0.0001",
    ];
    let refused = run(&arguments);
    assert_eq!(refused.status.code(), Some(6), "{}", printed(&refused));
    cloud.assert_empty();
}

/// Shipped prices are one region's; elsewhere they bound nothing.
#[test]
fn a_run_in_another_region_takes_its_prices() {
    let Some(cloud) = Cloud::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), "systems: [scatterreduce]\n");
    let mut command = cloud.command(&["run", &file, "--platform", "aws", "--yes"]);
    let command = command.current_dir(directory.path());
    let refused = command.env("AWS_REGION", "eu-west-1").output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", printed(&refused));
    assert!(
        printed(&refused).contains("--prices FILE"),
        "{}",
        printed(&refused)
    );
    cloud.assert_empty();
}

/// A worker that would not start on AWS is refused before anyone is asked for money.
#[test]
fn a_worker_that_cannot_start_there_is_refused_before_consent() {
    let Some(cloud) = Cloud::start() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), "systems: [scatterreduce]\n");
    // A worker that answers here, and is no program there.
    let script = directory.path().join("bootstrap");
    let text = format!("#!/bin/bash\nexec {} \"$@\"\n", worker().display());
    std::fs::write(&script, text).unwrap();
    let chmod = std::process::Command::new("chmod")
        .arg("+x")
        .arg(&script)
        .status();
    assert!(chmod.unwrap().success());
    // Without `--yes`: consent would be asked for, and be impossible.
    let mut command = cloud.command(&["run", &file, "--platform", "aws"]);
    let command = command.current_dir(directory.path());
    let refused = command.env("EPOCHCOST_WORKER", script).output().unwrap();
    let text = printed(&refused);
    assert!(!text.contains("--yes"), "{text}");
    assert!(
        text.contains("ELF") || text.contains("EPOCHCOST_WORKER"),
        "{text}"
    );
    cloud.assert_empty();
}

/// Shared: two buckets, two roles and the switch; of the trial: a log group and a function.
#[test]
fn a_kill_after_any_journaled_step_leaves_nothing() {
    let Some(cloud) = Cloud::start() else { return };
    kill_after_each(&cloud, "scatterreduce", 7, 1);
}

/// Shared: two buckets, four roles, an instance profile, the network in four
/// parts, the switch and three endpoints; of the trial: a host of each of three peers and one of the queue,
/// nine functions with their log groups, and a state machine. After every eleventh
/// line: each takes seconds.
#[test]
fn a_kill_of_a_run_with_hosts_of_services_leaves_nothing() {
    let Some(cloud) = Cloud::start_with_services() else {
        return;
    };
    kill_after_each(&cloud, "spirt", 15 + 4 + 2 * 9 + 1, 11);
}

/// Runs a system again and again: each run is killed after `stride` lines of its
/// journal more than the one before, and is then gone on with or cleaned up. One
/// comes to its end, having made `resources`.
fn kill_after_each(cloud: &Cloud, system: &str, resources: usize, stride: usize) {
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), &format!("systems: [{system}]\n"));
    for lines in (1..).step_by(stride) {
        let out = directory.path().join(format!("run-{lines}"));
        let out_text = out.display().to_string();
        let arguments = [
            "run",
            &file,
            "--platform",
            "aws",
            "--yes",
            "--out",
            &out_text,
        ];
        let mut child = cloud.command(&arguments);
        let mut child = child
            .current_dir(directory.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if journaled(&out) >= lines {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        if let Some(status) = ended {
            assert_eq!(status.code(), Some(0));
            cloud.assert_empty();
            // Each is intended, made and removed; money is reserved for the run and the trial, and spent.
            assert_eq!(journaled(&out), 1 + 3 * resources + 3);
            assert!(lines > 3 * resources);
            return;
        }
        let teardown = match lines % 2 {
            0 => cloud.run(
                directory.path(),
                &["aws", "clean", "--yes", "--region", REGION],
            ),
            _ => cloud.run(directory.path(), &[&arguments[..], &["--resume"]].concat()),
        };
        let printed = printed(&teardown);
        assert_eq!(teardown.status.code(), Some(0), "after {lines}: {printed}");
        cloud.assert_empty();
    }
}

/// Whole lines of the journals of a run.
fn journaled(run: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(run) else {
        return 0;
    };
    let journals = entries.filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        name.starts_with("aws-journal-").then_some(path)
    });
    let text = journals.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    text.map(|text| text.matches('\n').count()).sum()
}
