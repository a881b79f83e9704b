//! What verbs print, to people and to programs.

use std::io::Read;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::program;

#[track_caller]
fn ends(arguments: &[&str], code: i32) -> Output {
    let output = program().args(arguments).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `epochcost dev completions bash | head -3` once ended in a panic.
#[test]
fn completions_survive_a_closed_pipe() {
    let mut child = program()
        .args(["dev", "completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut message = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut message)
        .unwrap();
    assert!(child.wait().unwrap().success(), "{message}");
    assert_eq!(message, "");
    assert!(text(&ends(&["dev", "completions", "bash"], 0)).contains("appendix"));
}

#[test]
fn completions_know_the_names_of_papers() {
    let script = text(&ends(&["dev", "completions", "zsh"], 0));
    assert!(script.contains("(cost-performance kubeml p2p)"), "{script}");
}

#[test]
fn an_error_is_json_where_results_are() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("no.yaml");
    let failed = ends(&["check", missing.to_str().unwrap(), "--json"], 2);
    // `check` lists what it could read before it fails: one document all the same.
    let shown: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert!(shown.is_array() || shown["error"].is_object(), "{shown}");
    let failed = ends(&["report", missing.to_str().unwrap(), "--json"], 2);
    let shown: Value = serde_json::from_slice(&failed.stdout).unwrap();
    assert_eq!(shown["error"]["exit_code"], 2);
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains("no.yaml"), "{message}");
    // What the parser of options refuses, too.
    let failed = ends(&["plan", "--no-such-option", "--json"], 2);
    let shown: Value = serde_json::from_slice(&failed.stdout).unwrap();
    let message = shown["error"]["message"].as_str().unwrap();
    assert!(message.contains("--no-such-option"), "{message}");
    assert!(failed.stderr.starts_with(b"error: "));
    // Without it, standard output stays empty.
    assert!(
        ends(&["report", missing.to_str().unwrap()], 2)
            .stdout
            .is_empty()
    );
}

#[test]
fn a_system_is_one_line_of_the_list_and_shown_in_detail_by_name() {
    let list = text(&ends(&["list", "systems"], 0));
    assert!(
        list.lines().all(|line| line.chars().count() < 160),
        "{list}"
    );
    let shown = text(&ends(&["list", "systems", "SPIRT"], 0));
    assert!(
        shown.starts_with("SPIRT (spirt)") && shown.contains("paper: "),
        "{shown}"
    );
    let widest = shown
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap();
    assert!(widest <= 110, "{shown}");
    let found: Value =
        serde_json::from_slice(&ends(&["list", "systems", "spirt", "--json"], 0).stdout).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1);
    let unknown = ends(&["list", "systems", "sprit"], 2);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean `spirt`?"));
}

#[test]
fn doctor_ends_with_a_line_for_each_way_to_run() {
    let shown = text(&ends(&["doctor"], 0));
    let last: Vec<&str> = shown
        .lines()
        .rev()
        .take_while(|line| !line.is_empty())
        .collect();
    for way in [
        "this machine: ",
        "this machine, --services real: ",
        "virtual time: ready",
    ] {
        assert!(
            last.iter().any(|line| line.starts_with(way)),
            "{way} in {shown}"
        );
    }
}

#[test]
fn help_groups_verbs_and_gives_examples() {
    let help = text(&ends(&["--help"], 0));
    for part in [
        "Train and plan:",
        "Reproduce the papers:",
        "Start with: epochcost run",
        "--wide",
    ] {
        assert!(help.contains(part), "{part} in {help}");
    }
    assert!(text(&ends(&["run", "--help"], 0)).contains("Examples:\n  epochcost run smoke"));
}

/// "81.6 s" in a run of a second once looked like a mistake.
#[test]
fn virtual_seconds_are_called_so_on_every_line() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("run");
    let smoke = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/smoke.yaml");
    let options = ["--platform", "sim", "--set", "findings=[]", "--resume"];
    let arguments = [
        &["run", smoke],
        &options[..],
        &["--out", out.to_str().unwrap()],
    ];
    let ended = ends(&arguments.concat(), 0);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    // Nor is it passed over that there is nothing to go on with.
    assert!(said.contains("there is no run in "), "{said}");
    let trials: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("trial "))
        .collect();
    assert!(trials.len() > 10, "{said}");
    for line in trials {
        assert!(line.contains(" s simulated"), "{line}");
    }
    let said_first = text(&ended);
    assert!(
        said_first.starts_with("Sizes were simulated"),
        "{said_first}"
    );
    // Warnings take three lines, whatever their number.
    let warnings = said.lines().filter(|line| line.starts_with("warning: "));
    assert!(warnings.count() <= 3, "{said}");
}

/// 3,118 words without a picture or an answer were once the first that a reader saw.
#[test]
fn the_readme_is_short_and_shows_a_figure_and_one_command_first() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let words = readme.split_whitespace().count();
    assert!(words <= 1_200, "{words} words");
    for figure in ["docs/figures/map.svg", "docs/figures/time-cost.svg"] {
        let place = readme.find(figure);
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
        assert!(std::path::Path::new(root).join(figure).is_file());
        if let Some(place) = place {
            assert!(place < readme.len() / 2, "{figure} comes late");
            return;
        }
    }
    panic!("no figure in the README");
}
