//! Figures that cannot be.

use super::*;
use crate::support::cases;

#[test]
fn figures_that_cannot_be_are_refused() {
    let scene = Scene::empty();
    drop(fixture::finished(&scene.file("run"), "[]"));
    for ([name, before, after], words) in cases(&[
        "invocations.jsonl | \"duration_ms\": | \"duration_ms\":- | invocations.jsonl, line 1 | duration_ms",
        "trials.jsonl | \"wall_s\": | \"wall_s\":99999999999 | trials.jsonl, line 1 | took 99",
        "trials.jsonl | \"correct\": | \"correct\":9999999 | trials.jsonl, line | samples correct",
    ]) {
        let file = format!("run/{name}");
        let whole = scene.read(&file);
        let wrong = whole.replacen(before, after, 1);
        assert_ne!(wrong, whole);
        scene.write(&file, &wrong);
        fixture::reseal(&scene.file("run"));
        scene.run("report run").ends(2).says(&words);
        scene.write(&file, &whole);
    }
}
