//! `epochcost profile` measures with real worker processes. Nothing here
//! depends on how long anything takes.
use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::program;

use epochcost_simulator::profile::{ComputeOrigin, ComputeProfile};
use epochcost_systems::Device;

fn profile(directory: &Path, arguments: &[&str]) -> Output {
    program()
        .arg("profile")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Exit 2, a message with these words, and nothing written.
#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let output = profile(directory.path(), arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in:\n{message}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_measured_profile_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = "--model lenet5 --batch 4,8 --threads 1 --steps 2 --rounds 1 --json \
                     --out made/lenet.yaml";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let output = profile(directory.path(), &arguments);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");

    let text = fs::read_to_string(directory.path().join("made/lenet.yaml")).unwrap();
    assert!(text.contains("# worker: SHA-256 "), "{text}");
    let read: ComputeProfile = serde_yaml::from_str(&text).unwrap();
    assert_eq!(read.faults(), []);
    assert_eq!((read.schema, read.name.as_str()), (1, "lenet"));
    assert_eq!(read.origin, ComputeOrigin::Measured);
    let cost = read.find("lenet5", Device::Cpu).unwrap();
    assert_eq!(read.models.len(), 1);
    for number in [cost.evaluate_sample_s, cost.build_s] {
        assert!(number > 0.0, "{text}");
    }
    // Either part of a line may be 0, its values not.
    assert!(cost.step_s(8, 1.0) > 0.0 && cost.peak_mb(8) > 0.0, "{text}");
    assert_eq!(cost.fit.as_ref().unwrap().points, 2);

    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["profile"]["models"][0]["model"], "lenet5");
    assert_eq!(printed["points"].as_array().unwrap().len(), 2);
    for point in printed["points"].as_array().unwrap() {
        assert!(point["step_s"].as_f64().unwrap() > 0.0);
        assert!(point["peak_mb"].as_f64().unwrap() > 0.0);
    }

    // Once more, the file is in the way.
    let output = profile(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--force"));
}

#[test]
fn bad_arguments_are_refused_before_any_work() {
    refused(
        &["--model", "lenet"],
        &["`lenet`", "help: ", "did you mean `lenet5`"],
    );
    refused(&["--batch", "8,0"], &["'0'", "--batch"]);
    refused(&["--steps", "0"], &["'0'", "--steps"]);
    refused(&["--threads", "1,100000"], &["100000 threads", "help: "]);
}
