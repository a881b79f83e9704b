//! What this machine, this build or a directory lacks.

use super::*;

/// Before any work: the data has not been generated yet.
#[test]
fn an_unwritable_output_directory() {
    let directory = with("epochs: 2", "epochs: 2");
    fs::write(directory.path().join("file"), "").unwrap();
    let output = epochcost(directory.path(), &["run", "bad.yaml", "--out", "file/out"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("file/out") && message.contains("--out"),
        "{message}"
    );
    assert!(!directory.path().join("data").exists());
}

#[test]
fn what_is_not_in_this_build_is_lacking() {
    let directory = with("epochs: 2", "epochs: 2");
    let output = epochcost(directory.path(), &["run", "bad.yaml", "--platform", "aws"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{message}");
    assert!(
        message.contains("no AWS clients") && message.contains("--features aws"),
        "{message}"
    );
}

/// `run` before the run's directory is made, `plan` where no profile speaks of a GPU.
#[test]
fn a_gpu_that_is_not_there_is_lacking_where_nothing_may_take_its_place() {
    let directory = with(
        "systems:\n  - system: allreduce\n  - system: spirt\n    settings: {poll_interval_ms: 50}\n",
        "device: {kind: cuda}\nsystems:\n  - system: gpu_baseline\n",
    );
    let lacking = |arguments: &[&str], words: &[&str]| {
        let output = program()
            .args(arguments)
            .current_dir(directory.path())
            // No driver's library is found there, whatever this machine has.
            .env("LD_LIBRARY_PATH", "")
            .env("CUDA_VISIBLE_DEVICES", "")
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{message}");
        for word in words {
            assert!(message.contains(word), "no {word:?} in:\n{message}");
        }
    };
    lacking(
        &["run", "bad.yaml", "--out", "out"],
        &[
            "device cuda",
            "gpu-baseline",
            "fallback: true",
            "--features cuda",
        ],
    );
    assert!(!directory.path().join("out/manifest.json").exists());
    lacking(
        &["profile", "--device", "cuda", "--model", "lenet5"],
        &["device cuda", "--features cuda"],
    );
    lacking(
        &["plan", "bad.yaml", "--compute", "laptop"],
        &["profile --model mobilenet --device cuda"],
    );
}

#[test]
fn real_services_that_are_missing_are_named_with_the_command_that_installs_them() {
    let directory = with("epochs: 2", "epochs: 2");
    let run = |variables: &[(&str, &str)]| {
        let output = program()
            .args(["run", "bad.yaml", "--services", "real"])
            .current_dir(directory.path())
            .env("PATH", "")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{message}");
        assert!(!directory.path().join("results").exists());
        message
    };
    let message = run(&[("EPOCHCOST_S3_SERVER", "nowhere")]);
    for word in [
        "redis-server is not installed",
        "apt-get install redis-server",
        "nowhere, where no file is",
        "--services embedded",
    ] {
        assert!(message.contains(word), "no {word:?} in:\n{message}");
    }
    // An address that was given holds a password, which is never repeated.
    let message = run(&[("EPOCHCOST_REAL_REDIS", "amqp://user:canary@host")]);
    assert!(message.contains("EPOCHCOST_REAL_REDIS"), "{message}");
    assert!(!message.contains("canary"), "{message}");
}

#[test]
fn a_tensor_store_is_chosen_of_real_services() {
    refused_between_fields(
        "epochs: 2",
        "epochs: 2\ntensor_store: {kind: plain}",
        &["bad.yaml:9:", "tensor_store", "--services real"],
    );
    refused(
        "epochs: 2",
        "epochs: 2\nservices: real\ntensor_store: {kind: modul}",
        &["bad.yaml:10:", "tensor_store.kind", "did you mean `module`"],
    );
}

#[test]
fn nothing_to_list() {
    let directory = tempfile::tempdir().unwrap();
    let output = epochcost(
        directory.path(),
        &["list", "experiments", "--directory", "."],
    );
    assert_eq!(output.status.code(), Some(4));
}
