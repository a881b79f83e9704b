//! Claims that options of the command exclude: they are counted on one line, have no
//! verdict, and fail nothing. README's own commands are among those that once ended
//! with exit code 3.

use crate::support::{Scene, holds, items, root, sized};

#[test]
fn options_exclude_claims_and_fail_nothing() {
    let smoke = root().join("experiments/smoke.yaml");
    let smoke = format!("'{}'", smoke.display());
    // The line gives assignments first.
    let [sim, one] = ["--platform sim", "--set systems=[allreduce]"];
    for (options, shown, judged) in [
        (sim.to_owned(), sim.to_owned(), 12),
        (format!("{sim} {one}"), format!("{one} {sim}"), 1),
    ] {
        let scene = Scene::empty();
        // `check` says it beforehand.
        let line = format!("excluded by {shown}");
        let checked = scene.text(&format!("check {smoke} {options}"));
        holds(&checked, &["3 claims: ", &line]);
        let line = format!("2 claims of the experiment are {line}.");
        let printed = scene.text(&format!("run {smoke} --out out {options}"));
        assert_eq!(printed.matches("excluded").count(), 1, "{printed}");
        holds(&printed, &[&line]);
        let summary = scene.value("out/summary.json");
        assert_eq!(items(&summary, "verdicts").len(), judged);
        assert_eq!(items(&summary, "excluded").len(), 2);
        assert_eq!(summary["counts"]["checks"]["holds"], judged);
        assert_eq!(summary["counts"]["unexpected"], 0);
        assert!(scene.read("out/report.html").contains(&line));
        scene.run("report out").ends(0);
    }
}

/// An experiment of two systems, up to its claims.
const TWO: &str = "\
name: e
simulation: {compute: [stated-flops], limits: false}
systems: [allreduce, scatterreduce]
";

/// They were judged all the same, over 300 draws of every row.
#[test]
fn findings_that_options_take_away_are_neither_drawn_nor_judged() {
    let finding =
        "{says: one is faster, formula: \"synchronise[allreduce] < synchronise[scatterreduce]\"}";
    let scene = Scene::of("e.yaml", &sized(&format!("{TWO}findings: [{finding}]\n")));
    scene.run("run e.yaml --out whole");
    assert!(scene.has("whole/draws.jsonl"));
    scene.text("run e.yaml --out without --set findings=[]");
    assert!(!scene.has("without/draws.jsonl"));
    let summary = scene.value("without/summary.json");
    assert_eq!(items(&summary, "verdicts").len(), 0);
    holds(summary["excluded"][0]["why"].to_string(), &["findings=[]"]);
}

/// A check of a row that the file itself does not have is the file's fault.
#[test]
fn a_file_excludes_nothing() {
    let scene = Scene::of(
        "e.yaml",
        &sized(&format!("{TWO}checks: [\"puts[spirt] >= 1\"]\n")),
    );
    scene.run("check e.yaml").ends(2).says(&["no row `spirt`"]);
    scene.run("run e.yaml --out out --set workers=2").ends(3);
    let summary = scene.value("out/summary.json");
    assert_eq!(summary["verdicts"][0]["verdict"], "not_run");
    assert_eq!(items(&summary, "excluded").len(), 0);
}
