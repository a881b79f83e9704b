//! Files that are not there, and figures that cannot be.

use std::fs;

use epochcost_record::RunDirectory;

use super::{finished, kept_files};
use crate::fixture;
use crate::support::{Scene, holds};

#[test]
fn a_missing_file_is_named_with_exit_code_2() {
    let scene = finished();
    for file in kept_files(&scene.file("run")) {
        let before = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let ended = scene.run("report run");
        match name {
            // A run whose first trial has not ended has none: no row has figures.
            "trials.jsonl" => {
                assert_ne!(ended.output.status.code(), Some(1), "{}", ended.message())
            }
            "invocations.jsonl" => drop(ended.ends(2).says(&["trials.jsonl, line 1", name])),
            _ => drop(ended.ends(2).says(&[name])),
        }
        fs::write(&file, before).unwrap();
    }
}

#[test]
fn figures_that_cannot_be_are_refused() {
    let scene = finished();
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
        let file = format!("run/{name}");
        let whole = scene.read(&file);
        scene.write(&file, &whole.replacen(before, after, 1));
        fixture::reseal(&scene.file("run"));
        let words = [&format!("{name}, line 1"), said];
        scene.run("report run").ends(2).says(&words);
        scene.write(&file, &whole);
    }
}

#[test]
fn more_correct_samples_than_there_are_are_refused() {
    let scene = Scene::empty();
    drop(fixture::finished(scene.path(), "[]"));
    let whole = scene.read("trials.jsonl");
    let wrong = whole.replacen("\"correct\":", "\"correct\":9999999", 1);
    assert_ne!(wrong, whole);
    scene.write("trials.jsonl", &wrong);
    fixture::reseal(scene.path());
    let Err(error) = RunDirectory::open_whole(scene.path()) else {
        panic!("it was read");
    };
    holds(
        error.to_string(),
        &["trials.jsonl, line", "samples correct"],
    );
}
