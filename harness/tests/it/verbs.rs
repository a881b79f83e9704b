//! What verbs print, to people and to programs.

use crate::support::{Scene, cases, holds, lacks, root, shipped};

#[test]
fn completions_know_verbs_and_the_names_of_papers() {
    let scene = Scene::empty();
    holds(scene.text("dev completions bash"), &["appendix"]);
    let names = ["(cost-performance kubeml p2p)"];
    holds(scene.text("dev completions zsh"), &names);
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
    let scene = Scene::empty();
    for ([name, remedy], _) in cases(&[
        "map | run `epochcost plan map`",
        "validate | run `epochcost dev validate`",
        "replay | `epochcost dev validate RUN` compares a run with its simulation, `epochcost plan RUN --set \
         workers=16` plans it under other settings, `epochcost profile calibrate RUN` takes its steps",
        "artifact | run `epochcost report appendix`",
        "data | `--fetch` of `run` and `check` downloads what an experiment trains on; runs make generated data",
        "prices | run `epochcost aws prices`",
        "init | run `epochcost list --write DIR`",
        "new | run `epochcost dev new`",
        "clean | run `epochcost aws clean`",
        "completions | run `epochcost dev completions`",
        "doctor --aws | run `epochcost aws doctor`",
        "doctor --print-policy | run `epochcost aws policy`",
    ]) {
        let said = scene.run(name).ends(2).shown();
        let expected =
            format!("exit 2\nerror: there is no `{name}` any more\n  = help: {remedy}\n");
        assert_eq!(said, expected);
        // What it names is there.
        for command in remedy.split("`epochcost ").skip(1) {
            let verbs = command.split([' ', '`']);
            let is_verb =
                |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
            let verbs: Vec<&str> = verbs.take_while(is_verb).collect();
            scene.run(&format!("{} --help", verbs.join(" "))).ends(0);
        }
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
    let scene = Scene::empty();
    for ([arguments], words) in cases(&[
        "list models lenet5 | `lenet5` cannot be shown in detail | list systems NAME",
        "list experiments smoke | `smoke` cannot be shown in detail",
        "list systems --directory . | --directory is searched for experiments",
        "run smoke --platform sim --services real | --services real is of the platform local | runs on sim",
        "run smoke --set epochs=1 --set epochs=2 | `epochs` is given twice: by --set epochs=1 and by --set epochs=2",
        "run smoke --trials 2 --set trials=3 | `trials` is given twice | leave one",
        "dev validate --leave-one-out --within 0.3 | cannot be used with",
        "dev validate x.yaml --predict x.csv --within 0.3 | cannot be used with",
    ]) {
        let refused = scene.run(arguments).ends(2);
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
    let run = "run smoke --platform sim --set findings=[] --resume --out run";
    let ended = Scene::empty().run(run).ends(0);
    let said = ended.message();
    // Nor is it passed over that there is nothing to go on with.
    holds(&said, &["there is no run in "]);
    let trials = said.lines().filter(|line| line.starts_with("trial "));
    assert!(trials.clone().count() > 10, "{said}");
    for line in trials {
        holds(line, &[" s simulated"]);
    }
    // What compares systems at an accuracy names no winner among runs of which none learned anything,
    // and warns of no evaluation that a simulation of sizes cannot make.
    let told = ended.text();
    let first = "Sizes were simulated and nothing was trained";
    assert!(told.starts_with(first), "{told}");
    holds(&told, &["checks hold"]);
    lacks(&told, &["Fastest", "Cheapest"]);
    lacks(&said, &["there is no accuracy"]);
    // Warnings take three lines, whatever their number.
    let warnings = said.lines().filter(|line| line.starts_with("warning: "));
    assert!(warnings.count() <= 3, "{said}");
}

/// 3,118 words without a picture or an answer were once the first that a reader saw.
#[test]
fn the_readme_is_short_and_shows_a_figure_and_one_command_first() {
    let readme = shipped("README.md");
    let words = readme.split_whitespace().count();
    assert!(words <= 1_200, "{words} words");
    let figures = ["docs/figures/map.svg", "docs/figures/time-cost.svg"];
    for figure in figures {
        assert!(root().join(figure).is_file());
    }
    let first = figures.iter().find_map(|figure| readme.find(figure));
    assert!(first.unwrap() < readme.len() / 2, "the figure comes late");
}
