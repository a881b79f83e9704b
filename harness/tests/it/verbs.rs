//! What verbs print, to people and to programs.

use std::process::Stdio;

use insta::assert_snapshot;

use crate::support::{Scene, cases, holds, root};

/// `epochcost dev completions bash | head -3` once ended in a panic.
#[test]
fn completions_survive_a_closed_pipe() {
    let scene = Scene::empty();
    let mut command = scene.command("dev completions bash");
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    holds(scene.text("dev completions bash"), &["appendix"]);
}

#[test]
fn completions_know_the_names_of_papers() {
    let script = Scene::empty().text("dev completions zsh");
    holds(&script, &["(cost-performance kubeml p2p)"]);
}

#[test]
fn an_error_is_json_where_results_are() {
    let scene = Scene::empty();
    // `check` lists what it could read before it fails: one document all the same.
    let shown = scene.run("check no.yaml --json").ends(2).json();
    assert!(shown.is_array() || shown["error"].is_object(), "{shown}");
    // What the parser of options refuses, too.
    for (arguments, word) in [
        ("report no.yaml --json", "no.yaml"),
        ("plan --no-such-option --json", "--no-such-option"),
    ] {
        let ended = scene.run(arguments).ends(2);
        let error = &ended.json()["error"];
        assert_eq!(error["exit_code"], 2);
        holds(error["message"].as_str().unwrap(), &[word]);
        assert!(ended.message().starts_with("error: "));
    }
    // Without it, standard output stays empty.
    assert_eq!(scene.run("report no.yaml").ends(2).text(), "");
}

/// A name that a verb or an option once had is answered with what does it now.
#[test]
fn names_of_before_are_answered_with_those_of_today() {
    let names = "map, validate, replay, artifact, data, prices, init, new, clean, completions, doctor --aws, \
                 doctor --print-policy";
    let scene = Scene::empty();
    let said: String = names
        .split(", ")
        .map(|name| format!("{name}\n{}", scene.run(name).ends(2).shown()))
        .collect();
    assert_snapshot!(said);
    // What they name is there.
    for command in said
        .split('`')
        .filter_map(|part| part.strip_prefix("epochcost "))
    {
        let verbs = command
            .split(' ')
            .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()));
        let verbs: Vec<&str> = verbs.collect();
        scene.run(&format!("{} --help", verbs.join(" "))).ends(0);
    }
}

#[test]
fn a_system_is_one_line_of_the_list_and_shown_in_detail_by_name() {
    let scene = Scene::empty();
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let list = scene.text("list systems");
    assert!(widest(&list) < Some(160), "{list}");
    let shown = scene.text("list systems SPIRT");
    assert!(shown.starts_with("SPIRT (spirt)"), "{shown}");
    holds(&shown, &["paper: "]);
    assert!(widest(&shown) <= Some(110), "{shown}");
    let found = scene.json("list systems spirt --json");
    assert_eq!(found.as_array().unwrap().len(), 1);
    let unknown = scene.run("list systems sprit");
    unknown.ends(2).says(&["did you mean `spirt`?"]);
}

/// Each was once dropped, with exit code 0.
#[test]
fn options_that_would_be_dropped_are_refused() {
    let smoke = root().join("experiments/smoke.yaml").display().to_string();
    let scene = Scene::empty();
    for ([arguments], words) in cases(&[
        "list models lenet5 | `lenet5` cannot be shown in detail | list systems NAME",
        "list experiments smoke | `smoke` cannot be shown in detail",
        "list systems --directory . | --directory is searched for experiments",
        "run SMOKE --platform sim --services real | --services real is of the platform local | runs on sim",
        "run SMOKE --set epochs=1 --set epochs=2 | `epochs` is given twice: by --set epochs=1 and by --set epochs=2",
        "run SMOKE --trials 2 --set trials=3 | `trials` is given twice | leave one",
        "dev validate --leave-one-out --within 0.3 | cannot be used with",
        "dev validate x.yaml --predict x.csv --within 0.3 | cannot be used with",
    ]) {
        let refused = scene.run(&arguments.replace("SMOKE", &smoke)).ends(2);
        assert_eq!(refused.text(), "", "{arguments}");
        refused.says(&words);
    }
}

#[test]
fn doctor_ends_with_a_line_for_each_way_to_run() {
    let shown = Scene::empty().text("doctor");
    let (_, last) = shown.trim_end().rsplit_once("\n\n").unwrap();
    let ways = ["this machine: ", "this machine, --services real: "];
    for way in [ways[0], ways[1], "virtual time: ready"] {
        let is_there = last.lines().any(|line| line.starts_with(way));
        assert!(is_there, "{way} in {shown}");
    }
}

#[test]
fn help_groups_verbs_and_gives_examples() {
    let scene = Scene::empty();
    let groups = ["Train and plan:", "Reproduce the papers:"];
    let parts = [groups[0], groups[1], "Start with: epochcost run", "--wide"];
    holds(scene.text("--help"), &parts);
    let examples = "Examples:\n  epochcost run smoke";
    holds(scene.text("run --help"), &[examples]);
}

/// "81.6 s" in a run of a second once looked like a mistake.
#[test]
fn virtual_seconds_are_called_so_on_every_line() {
    let smoke = root().join("experiments/smoke.yaml").display().to_string();
    let options = "--platform sim --set findings=[] --resume --out run";
    let ended = Scene::empty()
        .run(&format!("run {smoke} {options}"))
        .ends(0);
    let said = ended.message();
    // Nor is it passed over that there is nothing to go on with.
    holds(&said, &["there is no run in "]);
    let trials = said.lines().filter(|line| line.starts_with("trial "));
    assert!(trials.clone().count() > 10, "{said}");
    for line in trials {
        holds(line, &[" s simulated"]);
    }
    let first = ended.text();
    assert!(first.starts_with("Sizes were simulated"), "{first}");
    // Warnings take three lines, whatever their number.
    let warnings = said.lines().filter(|line| line.starts_with("warning: "));
    assert!(warnings.count() <= 3, "{said}");
}

/// 3,118 words without a picture or an answer were once the first that a reader saw.
#[test]
fn the_readme_is_short_and_shows_a_figure_and_one_command_first() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let words = readme.split_whitespace().count();
    assert!(words <= 1_200, "{words} words");
    let figures = ["docs/figures/map.svg", "docs/figures/time-cost.svg"];
    for figure in figures {
        assert!(root().join(figure).is_file());
    }
    let first = figures.iter().find_map(|figure| readme.find(figure));
    assert!(first.unwrap() < readme.len() / 2, "the figure comes late");
}
