//! Numbers, depths and texts without end are refused with their place, and results that could
//! not be printed are an error.

use std::fs;
use std::process::{Command, Stdio};

use super::{SIZES, Scene, errors, refused};
use crate::support::program;

/// An experiment that trains on this machine, with one text replaced.
fn local(replaced: &str, by: &str) -> Scene {
    let text = SIZES
        .replace("platform: sim", "platform: local")
        .replace("name: cifar10", "name: synthetic-cifar10")
        .replacen(replaced, by, 1);
    Scene::new(&text)
}

#[test]
fn counts_have_bounds_and_their_errors_a_place() {
    let scene = Scene::new(SIZES);
    for (set, words) in [
        ("epochs=9223372036854775808", "epochs"),
        ("epochs=18446744073709551615", "epochs"),
        ("epochs=1000000000000", "give 1 to 100000"),
        ("trials=100000000", "give 1 to 10000"),
        ("most_trials=18446744073709551615", "most_trials"),
        ("workers=1000000000", "workers"),
        ("batch_size=18446744073709551615", "batch_size"),
        ("batches_per_worker=1000000000000", "batches_per_worker"),
    ] {
        let output = scene.epochcost(&["check", "sizes.yaml", "--set", set]);
        refused(&output, &["sizes.yaml", &format!("--set {set}"), words]);
    }
    let output = scene.epochcost(&["check", "sizes.yaml", "--trials", "18446744073709551615"]);
    refused(&output, &["--trials 18446744073709551615"]);
    // Each count is within its bounds, and their product is not.
    let many = [
        "workers=100000",
        "batches_per_worker=100000",
        "epochs=100000",
    ];
    let mut arguments = vec!["check", "sizes.yaml"];
    arguments.extend(many.iter().flat_map(|set| ["--set", *set]));
    refused(&scene.epochcost(&arguments), &["more than can be counted"]);
    let sweep = "sweep={batch_size: [1, 2, 4, 8, 16]}";
    let arguments = ["check", "sizes.yaml", "--trials", "10000", "--set", sweep];
    refused(&scene.epochcost(&arguments), &["give fewer: 200000 in all"]);
    // In the file, the place is a line.
    let scene = Scene::new(&SIZES.replace("epochs: 1", "epochs: 1000000"));
    refused(
        &scene.epochcost(&["check", "sizes.yaml"]),
        &["sizes.yaml:9:", "epochs"],
    );
}

#[test]
fn deep_paths_are_refused_and_long_texts_are_not_repeated() {
    let scene = Scene::new(SIZES);
    let deep = format!("{}=1", vec!["a"; 20_000].join("."));
    let output = scene.epochcost(&["check", "sizes.yaml", "--set", &deep]);
    refused(&output, &["a path of 20000 names", "at most 32"]);
    assert!(
        errors(&output).len() < 5_000,
        "{} bytes",
        errors(&output).len()
    );
    let long = |letters| format!("epochs: [\"{}\", 1]", "x".repeat(letters));
    let scene = Scene::new(&SIZES.replace("epochs: 1", &long(5_000_000)));
    let output = scene.epochcost(&["check", "sizes.yaml"]);
    refused(
        &output,
        &["sizes.yaml:1:1: a file of 50", "at most 4194304 bytes"],
    );
    let scene = Scene::new(&SIZES.replace("epochs: 1", &long(4_000_000)));
    let output = scene.epochcost(&["check", "sizes.yaml"]);
    refused(&output, &["sizes.yaml:9:"]);
    assert!(
        errors(&output).len() < 5_000,
        "{} bytes",
        errors(&output).len()
    );
    let wrong = format!("fidelity: {}\nepochs: 1", "é".repeat(100_000));
    let scene = Scene::new(&SIZES.replace("epochs: 1", &wrong));
    let output = scene.epochcost(&["check", "sizes.yaml"]);
    refused(&output, &["sizes.yaml:9:", "…"]);
    assert!(
        errors(&output).len() < 5_000,
        "{} bytes",
        errors(&output).len()
    );
}

#[test]
fn what_yaml_would_read_as_something_else_is_refused_with_its_line() {
    for (by, words) in [
        ("epochs: !custom 1", "unknown tag"),
        ("epochs: 1_0", "`1_0`"),
        ("epochs: [1_0]", "`1_0`"),
    ] {
        let scene = Scene::new(&SIZES.replace("epochs: 1", by));
        refused(
            &scene.epochcost(&["check", "sizes.yaml"]),
            &["sizes.yaml:9:", words],
        );
    }
    let scene = Scene::new(SIZES);
    let set = ["check", "sizes.yaml", "--set", "epochs=1_0"];
    refused(&scene.epochcost(&set), &["--set epochs=1_0"]);
    // A name with an underscore is a text.
    let scene = Scene::new(&SIZES.replace("name: sizes", "name: size_1"));
    assert!(scene.epochcost(&["check", "sizes.yaml"]).status.success());
    let scene = Scene::new(SIZES);
    let mut bytes = SIZES.as_bytes().to_vec();
    let place = SIZES.find("mobilenet").unwrap();
    bytes[place + 2] = 0xff;
    fs::write(scene.0.path().join("sizes.yaml"), bytes).unwrap();
    let output = scene.epochcost(&["check", "sizes.yaml"]);
    refused(&output, &["sizes.yaml:5:10:", "not UTF-8", "0xff"]);
}

#[test]
fn results_that_cannot_be_printed_are_an_error() {
    let scene = Scene::new(SIZES);
    for arguments in [
        &["check", "sizes.yaml", "--json"][..],
        &["dev", "completions", "bash"],
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = program();
        let command = command.args(arguments).current_dir(scene.0.path());
        let output = command.stdout(full).output().unwrap();
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("No space left"), "{message}");
    }
    // A reader that went away is none.
    let mut child = program()
        .args(["check", "sizes.yaml", "--json"])
        .current_dir(scene.0.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn faults_that_never_happen_are_refused() {
    let systems = "systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]";
    let fault = |system: &str, rank: usize, kind: &str| {
        let fault = format!("faults: [{{rank: {rank}, epoch: 0, batch: 1, kind: {kind}}}]");
        local(systems, &format!("systems: [{{{system}, {fault}}}]"))
    };
    let check = |scene: &Scene| scene.epochcost(&["check", "sizes.yaml"]);
    let mirrored = "mirrored, instance_type: g4dn.12xlarge";
    let never = ["would never happen", "rank 0"];
    refused(
        &check(&fault(&format!("system: {mirrored}"), 1, "crash")),
        &never,
    );
    let single = "system: gpu_baseline, fidelity: code";
    refused(&check(&fault(single, 1, "crash")), &never);
    let memory = ["would never happen", "instances"];
    for system in [mirrored, "gpu_baseline", "p2p"] {
        let scene = fault(&format!("system: {system}"), 0, "out_of_memory");
        refused(&check(&scene), &memory);
    }
    for (system, rank) in [("gpu_baseline", 1), ("allreduce", 1), ("mirrored", 0)] {
        let scene = fault(
            &format!("system: {system}, instance_type: g4dn.12xlarge"),
            rank,
            "crash",
        );
        let output = check(&scene);
        assert!(output.status.success(), "{system}: {}", errors(&output));
    }
    // Servers that a system does not speak to.
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
        (
            "scatterreduce, fidelity: tuned, settings: {over: objects}",
            "tensor_store",
            false,
        ),
    ] {
        let kind = format!("{{server: {{which: {which}, does: dies}}}}");
        let output = check(&fault(&format!("system: {system}"), 0, &kind));
        if is_used {
            assert!(output.status.success(), "{system}: {}", errors(&output));
        } else {
            refused(&output, &["would never happen to a worker", "uses no"]);
        }
    }
    // Fields that only some faults have.
    for (kind, expected) in [
        ("error, stage: put", "leave `stage` out"),
        ("crash, function: nobody", "give one of"),
    ] {
        let output = check(&fault("system: allreduce", 1, kind));
        refused(&output, &["would never happen", expected]);
    }
    let rich = "hang, stage: update_model, function: train";
    let output = check(&fault("system: allreduce", 1, rich));
    assert!(output.status.success(), "{}", errors(&output));
    let output = check(&fault("system: allreduce", 1, "out_of_memory"));
    assert!(output.status.success(), "{}", errors(&output));
}

/// A named pipe would be waited for without end.
#[test]
fn a_pipe_is_no_dataset() {
    let scene = local(
        "name: synthetic-cifar10",
        "name: synthetic-cifar10, directory: data",
    );
    let data = scene.0.path().join("data");
    fs::create_dir(&data).unwrap();
    let pipe = data.join("dataset.json");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let output = scene.epochcost(&["run", "sizes.yaml", "--out", "run"]);
    refused(&output, &["dataset.json", "not a regular file"]);
}

/// Too few file handles are an error, not a panic.
#[test]
fn few_file_handles_are_no_panic() {
    let scene = Scene::new(SIZES);
    for handles in [4, 5, 6, 8, 10] {
        let script = format!("ulimit -n {handles}; exec \"$0\" run sizes.yaml --out run-{handles}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(program().get_program());
        let output = shell.current_dir(scene.0.path()).output().unwrap();
        let message = errors(&output);
        assert!(!message.contains("panicked"), "{handles}: {message}");
    }
    // With a few more a trial begins, and its servers take no further connection.
    let text = SIZES
        .replace("platform: sim", "platform: local")
        .replace("mobilenet", "lenet5");
    let scene = Scene::new(&text.replace(
        "name: cifar10",
        "name: synthetic-mnist, train: 256, test: 10",
    ));
    let arguments = "run sizes.yaml --trials 1 --set 'systems=[allreduce]' --out run";
    let script = format!("ulimit -n 40; exec \"$0\" {arguments}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(program().get_program());
    shell.current_dir(scene.0.path()).output().unwrap();
    let trials = scene.read("trials.jsonl");
    assert!(
        trials.contains("raise the limit with `ulimit -n`"),
        "{trials}"
    );
}
