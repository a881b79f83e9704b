//! Numbers, depths and texts without end are refused with their place, and results that could
//! not be printed are an error.

use std::fs;
use std::process::Stdio;

use super::{RUN, SIZES, sizes};
use crate::support::{Ended, Scene, holds, lacks};

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
    for (option, words) in [
        ("--set epochs=9223372036854775808", "epochs"),
        ("--set epochs=18446744073709551615", "epochs"),
        ("--set epochs=1000000000000", "give 1 to 100000"),
        ("--set trials=100000000", "give 1 to 10000"),
        ("--set most_trials=18446744073709551615", "most_trials"),
        ("--set workers=1000000000", "workers"),
        ("--set batch_size=18446744073709551615", "batch_size"),
        (
            "--set batches_per_worker=1000000000000",
            "batches_per_worker",
        ),
    ] {
        let ended = scene.run(&format!("check sizes.yaml {option}"));
        ended.ends(2).says(&["sizes.yaml", option, words]);
    }
    let many = "--set workers=100000 --set batches_per_worker=100000 --set epochs=100000";
    let sweep = "--trials 10000 --set 'sweep={batch_size: [1, 2, 4, 8, 16]}'";
    let trials = "--trials 18446744073709551615";
    for (options, words) in [
        (trials, trials),
        // Each count is within its bounds, and their product is not.
        (many, "more than can be counted"),
        (sweep, "give fewer: 200000 in all"),
    ] {
        let ended = scene.run(&format!("check sizes.yaml {options}"));
        ended.ends(2).says(&[words]);
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
    }
    // A reader that went away is none.
    let mut check = scene.command("check sizes.yaml --json");
    let mut child = check.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn faults_that_never_happen_are_refused() {
    let systems = "systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]";
    let check = |system: &str, rank: usize, kind: &str| {
        let fault = format!("faults: [{{rank: {rank}, epoch: 0, batch: 1, kind: {kind}}}]");
        let scene = local(
            systems,
            &format!("systems: [{{system: {system}, {fault}}}]"),
        );
        scene.run("check sizes.yaml")
    };
    let on = |system: &str| format!("{system}, instance_type: g4dn.12xlarge");
    let mirrored = &*on("mirrored");
    for (system, rank, kind, words) in [
        (mirrored, 1, "crash", "rank 0"),
        ("gpu_baseline, fidelity: code", 1, "crash", "rank 0"),
        (mirrored, 0, "out_of_memory", "instances"),
        ("gpu_baseline", 0, "out_of_memory", "instances"),
        ("p2p", 0, "out_of_memory", "instances"),
        // Fields that only some faults have.
        ("allreduce", 1, "error, stage: put", "leave `stage` out"),
        ("allreduce", 1, "crash, function: nobody", "give one of"),
    ] {
        let ended = check(system, rank, kind);
        ended.ends(2).says(&["would never happen", words]);
    }
    for (system, rank, kind) in [
        (&*on("gpu_baseline"), 1, "crash"),
        (&on("allreduce"), 1, "crash"),
        (mirrored, 0, "crash"),
        ("allreduce", 1, "hang, stage: update_model, function: train"),
        ("allreduce", 1, "out_of_memory"),
    ] {
        check(system, rank, kind).ends(0);
    }
    // Servers that a system does not speak to.
    let over = "scatterreduce, fidelity: tuned, settings: {over: objects}";
    for (system, which, is_used) in [
        ("allreduce", "tensor_store", false),
        ("allreduce", "queue", false),
        ("allreduce", "object_store", true),
        ("mlless", "tensor_store", false),
        ("mlless", "queue", true),
        ("spirt", "tensor_store", true),
        ("spirt", "queue", true),
        ("kubeml", "tensor_store", true),
        ("ring", "queue", false),
        ("allreduce, fidelity: tuned", "tensor_store", true),
        ("scatterreduce, fidelity: tuned", "tensor_store", true),
        (over, "tensor_store", false),
    ] {
        let kind = format!("{{server: {{which: {which}, does: dies}}}}");
        let ended = check(system, 0, &kind);
        if is_used {
            ended.ends(0);
        } else {
            let words = ["would never happen to a worker", "uses no"];
            ended.ends(2).says(&words);
        }
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
