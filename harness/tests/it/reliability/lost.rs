//! Files that are not there, and figures that cannot be.

use std::fs;

use super::{Scene, errors, kept_files, refused};
use crate::fixture;

#[test]
fn a_missing_file_is_named_with_exit_code_2() {
    let scene = Scene::finished();
    for file in kept_files(&scene.run()) {
        let before = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let output = scene.report();
        if name == "trials.jsonl" {
            // A run whose first trial has not ended has none: no row has figures.
            let message = errors(&output);
            assert_ne!(output.status.code(), Some(1), "{message}");
        } else if name == "invocations.jsonl" {
            refused(&output, &["trials.jsonl, line 1", name]);
        } else {
            refused(&output, &[name]);
        }
        fs::write(&file, before).unwrap();
    }
}

#[test]
fn a_duration_that_cannot_be_is_refused() {
    let scene = Scene::finished();
    let file = scene.file("invocations.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    let negative = whole.replacen("\"duration_ms\":", "\"duration_ms\":-", 1);
    fs::write(&file, negative).unwrap();
    fixture::reseal(&scene.run());
    refused(
        &scene.report(),
        &["invocations.jsonl, line 1", "duration_ms"],
    );
}
