//! Numbers, depths and texts without end are refused with their place, and results that could
//! not be printed are an error.

use std::process::Stdio;

use super::*;
use crate::support::{Ended, cases, lacks};

/// An experiment that trains on this machine, with one text replaced.
fn local(replaced: &str, by: &str) -> Scene {
    let text = SIZES
        .replace("platform: sim", "platform: local")
        .replace("name: cifar10", "name: synthetic-cifar10")
        .replacen(replaced, by, 1);
    Scene::of("sizes.yaml", &text)
}

/// Checks the experiment with a text replaced.
fn checked(replaced: &str, by: &str) -> Ended {
    Scene::of("sizes.yaml", &SIZES.replace(replaced, by)).run("check sizes.yaml")
}

#[test]
fn counts_have_bounds_and_their_errors_a_place() {
    let scene = sizes();
    let refused = |options: &str| scene.run(&format!("check sizes.yaml {options}")).ends(2);
    for ([set], words) in cases(&[
        "epochs=9223372036854775808 | epochs",
        "epochs=18446744073709551615 | epochs",
        "epochs=1000000000000 | give 1 to 100000",
        "trials=100000000 | give 1 to 10000",
        "most_trials=18446744073709551615 | most_trials",
        "workers=1000000000 | workers",
        "batch_size=18446744073709551615 | batch_size",
        "batches_per_worker=1000000000000 | batches_per_worker",
    ]) {
        let option = format!("--set {set}");
        refused(&option).says(&[&["sizes.yaml", &option], &words[..]].concat());
    }
    for ([options], words) in cases(&[
        "--trials 18446744073709551615 | --trials 18446744073709551615",
        // Each count is within its bounds, and their product is not.
        "--set workers=100000 --set batches_per_worker=100000 --set epochs=100000 | more than can be counted",
        "--trials 10000 --set 'sweep={batch_size: [1, 2, 4, 8, 16]}' | give fewer: 200000 in all",
    ]) {
        refused(options).says(&words);
    }
    // In the file, the place is a line.
    let ended = checked("epochs: 1", "epochs: 1000000");
    ended.ends(2).says(&["sizes.yaml:9:", "epochs"]);
}

#[test]
fn deep_paths_are_refused_and_long_texts_are_not_repeated() {
    let deep = format!("check sizes.yaml --set {}=1", vec!["a"; 20_000].join("."));
    let long = |letters| format!("epochs: [\"{}\", 1]", "x".repeat(letters));
    let wrong = format!("fidelity: {}\nepochs: 1", "é".repeat(100_000));
    let too_long = ["sizes.yaml:1:1: a file of 50", "at most 4194304 bytes"];
    for (ended, words) in [
        (
            sizes().run(&deep),
            &["a path of 20000 names", "at most 32"][..],
        ),
        (checked("epochs: 1", &long(5_000_000)), &too_long),
        (checked("epochs: 1", &long(4_000_000)), &["sizes.yaml:9:"]),
        (checked("epochs: 1", &wrong), &["sizes.yaml:9:", "…"]),
    ] {
        let length = ended.ends(2).says(words).message().len();
        assert!(length < 5_000, "{length} bytes: {words:?}");
    }
}

#[test]
fn what_yaml_would_read_as_something_else_is_refused_with_its_line() {
    for (by, words) in [
        ("epochs: !custom 1", "unknown tag"),
        ("epochs: 1_0", "`1_0`"),
        ("epochs: [1_0]", "`1_0`"),
    ] {
        let ended = checked("epochs: 1", by);
        ended.ends(2).says(&["sizes.yaml:9:", words]);
    }
    let scene = sizes();
    let ended = scene.run("check sizes.yaml --set epochs=1_0");
    ended.ends(2).says(&["--set epochs=1_0"]);
    // A name with an underscore is a text.
    checked("name: sizes", "name: size_1").ends(0);
    let mut bytes = SIZES.as_bytes().to_vec();
    bytes[SIZES.find("mobilenet").unwrap() + 2] = 0xff;
    fs::write(scene.file("sizes.yaml"), bytes).unwrap();
    let words = ["sizes.yaml:5:10:", "not UTF-8", "0xff"];
    scene.run("check sizes.yaml").ends(2).says(&words);
}

#[test]
fn results_that_cannot_be_printed_are_an_error() {
    let scene = sizes();
    for arguments in ["check sizes.yaml --json", "dev completions bash"] {
        let ended = scene.shell(&format!("exec \"$0\" {arguments} > /dev/full"));
        ended.ends(1).says(&["No space left"]);
        // A reader that went away is none: `epochcost dev completions bash | head -3` once ended in a panic.
        let mut command = scene.command(arguments);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let is_silent = output.status.success() && output.stderr.is_empty();
        assert!(is_silent, "{output:?}");
    }
}

#[test]
fn faults_that_never_happen_are_refused() {
    let systems = "systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]";
    let check = |system: &str, rank: &str, kind: &str| {
        let fault = format!("faults: [{{rank: {rank}, epoch: 0, batch: 1, kind: {kind}}}]");
        let row = format!("systems: [{{system: {system}, {fault}}}]");
        local(systems, &row).run("check sizes.yaml")
    };
    for ([system, rank, kind], words) in cases(&[
        "mirrored, instance_type: g4dn.12xlarge | 1 | crash | rank 0",
        "gpu_baseline, fidelity: code | 1 | crash | rank 0",
        "mirrored, instance_type: g4dn.12xlarge | 0 | out_of_memory | instances",
        "gpu_baseline | 0 | out_of_memory | instances",
        "p2p | 0 | out_of_memory | instances",
        // Fields that only some faults have.
        "allreduce | 1 | error, stage: put | leave `stage` out",
        "allreduce | 1 | crash, function: nobody | give one of",
        // Servers that a system does not speak to.
        "allreduce | 0 | {server: {which: tensor_store, does: dies}} | to a worker | uses no",
        "allreduce | 0 | {server: {which: queue, does: dies}} | to a worker | uses no",
        "mlless | 0 | {server: {which: tensor_store, does: dies}} | to a worker | uses no",
        "ring | 0 | {server: {which: queue, does: dies}} | to a worker | uses no",
        "scatterreduce, fidelity: tuned, settings: {over: objects} | 0 | {server: {which: tensor_store, does: dies}} | \
         to a worker | uses no",
    ]) {
        let ended = check(system, rank, kind).ends(2);
        ended.says(&[&["would never happen"], &words[..]].concat());
    }
    for ([system, rank, kind], _) in cases(&[
        "gpu_baseline, instance_type: g4dn.12xlarge | 1 | crash",
        "allreduce, instance_type: g4dn.12xlarge | 1 | crash",
        "mirrored, instance_type: g4dn.12xlarge | 0 | crash",
        "allreduce | 1 | hang, stage: update_model, function: train",
        "allreduce | 1 | out_of_memory",
        "allreduce | 0 | {server: {which: object_store, does: dies}}",
        "mlless | 0 | {server: {which: queue, does: dies}}",
        "spirt | 0 | {server: {which: tensor_store, does: dies}}",
        "spirt | 0 | {server: {which: queue, does: dies}}",
        "kubeml | 0 | {server: {which: tensor_store, does: dies}}",
        "allreduce, fidelity: tuned | 0 | {server: {which: tensor_store, does: dies}}",
        "scatterreduce, fidelity: tuned | 0 | {server: {which: tensor_store, does: dies}}",
    ]) {
        check(system, rank, kind).ends(0);
    }
}

/// A named pipe would be waited for without end.
#[test]
fn a_pipe_is_no_dataset() {
    let scene = local(
        "name: synthetic-cifar10",
        "name: synthetic-cifar10, directory: data",
    );
    let made = scene.shell("mkdir data && mkfifo data/dataset.json");
    made.ends(0);
    let words = ["dataset.json", "not a regular file"];
    scene.run(RUN).ends(2).says(&words);
}

/// Too few file handles are an error, not a panic.
#[test]
fn few_file_handles_are_no_panic() {
    let scene = sizes();
    let words = ["raise the limit with `ulimit -n`"];
    for handles in [4, 5, 6, 8, 10] {
        let ended = scene.shell(&format!("ulimit -n {handles}; exec \"$0\" {RUN}-{handles}"));
        lacks(ended.ends(1).says(&words).message(), &["panicked"]);
    }
    // With a few more a trial begins, and its servers take no further connection.
    let text = SIZES
        .replace("platform: sim", "platform: local")
        .replace("mobilenet", "lenet5")
        .replace("cifar10", "synthetic-mnist, train: 256, test: 10");
    let scene = Scene::of("sizes.yaml", &text);
    let options = "--trials 1 --set 'systems=[allreduce]'";
    scene.shell(&format!("ulimit -n 40; exec \"$0\" {RUN} {options}"));
    holds(scene.read("run/trials.jsonl"), &words);
}
