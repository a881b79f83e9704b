//! `run --resume`: nothing is lost when it is killed, and nothing is taken that `report`
//! refuses or that another program ran.

use std::fs;
use std::io::Write;

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};

use super::{Scene, errors, kept_files, refused};
use crate::support::program;

/// A limit on the size of files ends a run while it writes, with words: what was there before is
/// there afterwards, byte for byte, and nothing else.
#[test]
fn trials_survive_an_end_while_they_are_rewritten() {
    for cut in ["", "{\"id\":{\"row\":\"cut"] {
        let scene = Scene::finished();
        let files = ["trials.jsonl", "invocations.jsonl"];
        let before = files.map(|name| scene.read(name));
        let mut trials = fs::OpenOptions::new();
        let mut trials = trials
            .append(true)
            .open(scene.file("trials.jsonl"))
            .unwrap();
        trials.write_all(cut.as_bytes()).unwrap();
        let output = scene.resume_with_limit(1);
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
        assert!(
            errors(&output).contains("`ulimit -f`"),
            "{}",
            errors(&output)
        );
        let left = fs::read_dir(scene.run()).unwrap().flatten();
        let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        let is_partial = |name: &std::ffi::OsString| name.to_string_lossy().contains(".partial");
        assert!(!left.iter().any(is_partial), "{left:?}");
        for (name, before) in files.iter().zip(&before) {
            assert!(scene.read(name).starts_with(before.as_str()), "{name}");
        }
        // With room for its files, the run goes on where it was, and leaves nothing else.
        let output = scene.resume();
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        assert_eq!(files.map(|name| scene.read(name)), before);
        let names = kept_files(&scene.run());
        let names = names.iter().map(|path| path.to_str().unwrap());
        assert!(
            names.clone().all(|name| !name.contains(".partial")),
            "{names:?}"
        );
    }
}

#[test]
fn lines_that_a_report_refuses_are_not_gone_on_with() {
    let scene = Scene::finished();
    let whole = scene.read("invocations.jsonl");
    let lines: Vec<&str> = whole.lines().collect();
    let (last, others) = lines.split_last().unwrap();
    let joined = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let mutants = [
        joined(others),
        String::new(),
        joined(&lines[..lines.len() / 2]),
        whole[..whole.len() - 20].to_owned(),
        whole.clone() + last + "\n",
        joined(&lines[1..]),
    ];
    for (place, mutant) in mutants.iter().enumerate() {
        fs::write(scene.file("invocations.jsonl"), mutant).unwrap();
        refused(&scene.report(), &[]);
        refused(&scene.resume(), &["trials.jsonl, line"]);
        assert_eq!(&scene.read("invocations.jsonl"), mutant, "mutant {place}");
    }
    fs::write(scene.file("invocations.jsonl"), &whole).unwrap();
    assert_eq!(scene.resume().status.code(), Some(0));
}

#[test]
fn another_build_of_epochcost_does_not_go_on() {
    let scene = Scene::finished();
    let other = scene.0.path().join("epochcost2");
    fs::copy(program().get_program(), &other).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&other).unwrap();
    file.write_all(b"x").unwrap();
    drop(file);
    let output = std::process::Command::new(other)
        .args(["run", "sizes.yaml", "--out", "run", "--resume"])
        .current_dir(scene.0.path())
        .output()
        .unwrap();
    refused(&output, &["epochcost (SHA-256", "start a new run"]);
}

/// LeNet-5 on this machine.
const TINY: &str = "\
schema: 1
name: tiny
dataset: {name: synthetic-mnist, train: 64, test: 10}
model: lenet5
workers: 2
batch_size: 8
batches_per_worker: 1
epochs: 1
evaluate: never
systems: [allreduce]
";

#[test]
fn another_build_of_the_worker_does_not_go_on() {
    let scene = Scene::new(TINY);
    let worker = scene.0.path().join("bootstrap");
    fs::copy(find_or_build().unwrap().path, &worker).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = program();
        command
            .args(["run", "sizes.yaml", "--out", "run"])
            .args(arguments);
        let command = command.current_dir(scene.0.path());
        command.env(WORKER_VARIABLE, &worker).output().unwrap()
    };
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    assert_eq!(run(&["--resume"]).status.code(), Some(0));
    let mut file = fs::OpenOptions::new().append(true).open(&worker).unwrap();
    file.write_all(b"x").unwrap();
    drop(file);
    refused(
        &run(&["--resume"]),
        &["the worker (SHA-256", "start a new run"],
    );
}
