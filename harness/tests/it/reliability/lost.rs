//! Files that are not there, and figures that cannot be.

use std::fs;

use epochcost_record::RunDirectory;

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
fn figures_that_cannot_be_are_refused() {
    let scene = Scene::finished();
    for (name, before, after, said) in [
        (
            "invocations.jsonl",
            "\"duration_ms\":",
            "\"duration_ms\":-",
            "duration_ms",
        ),
        (
            "trials.jsonl",
            "\"wall_s\":",
            "\"wall_s\":99999999999",
            "took 99",
        ),
    ] {
        let file = scene.file(name);
        let whole = fs::read_to_string(&file).unwrap();
        fs::write(&file, whole.replacen(before, after, 1)).unwrap();
        fixture::reseal(&scene.run());
        refused(&scene.report(), &[&format!("{name}, line 1"), said]);
        fs::write(file, whole).unwrap();
    }
}

#[test]
fn more_correct_samples_than_there_are_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(fixture::finished(directory.path(), "[]"));
    let file = directory.path().join("trials.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    let wrong = whole.replacen("\"correct\":", "\"correct\":9999999", 1);
    assert_ne!(wrong, whole);
    fs::write(&file, wrong).unwrap();
    fixture::reseal(directory.path());
    let Err(error) = RunDirectory::open_whole(directory.path()) else {
        panic!("it was read");
    };
    let said = error.to_string();
    assert!(
        said.contains("trials.jsonl, line") && said.contains("samples correct"),
        "{said}"
    );
}
