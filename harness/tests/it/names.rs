//! Names of experiments, items, datasets and runs: the same for every verb, with the nearest
//! one where there is none.
use std::fs;

use crate::support::{Scene, cases, root, shipped};

#[test]
fn a_name_that_no_experiment_has_is_answered_alike_by_every_verb() {
    let scene = Scene::empty();
    let message = |arguments: &str| scene.run(arguments).ends(2).shown();
    for verb in ["check", "plan", "plan map --model"] {
        assert_eq!(message(&format!("{verb} smok")), message("run smok"));
    }
    for ([arguments, problem, remedy], _) in cases(&[
        "run smok | there is no experiment `smok` | did you mean `smoke`? `epochcost list experiments` shows all \
         names",
        "plan ./smoke | there is no experiment `./smoke` | did you mean `smoke`? `epochcost list experiments` shows \
         all names",
        "run table3 | there is no experiment `table3` | did you mean `cost-performance/table3` or `p2p/table3`? \
         `epochcost list experiments` shows all names",
        "plan p2p | there is no experiment `p2p` | `epochcost reproduce p2p` runs all experiments of that paper. \
         `epochcost list experiments` shows all names",
        "reproduce table2 | there is no paper or item `table2` in this program | did you mean \
         `cost-performance/table2` or `p2p/table2`? There are cost-performance, kubeml, p2p, robustness",
        "reproduce smoke | there is no paper or item `smoke` in this program | it is an experiment of no paper: \
         `epochcost run smoke` runs it",
        "dev validate s3-latncy | there is no validation `s3-latncy` | did you mean `s3-latency`? There are \
         broker-latency, compute-spread, exchanges, function-network-vpc, function-network, function-start, \
         s3-clients, s3-instance, s3-large-objects, s3-latency, s3-put-clients",
    ]) {
        let expected = format!("exit 2\nerror: {problem}\n  = help: {remedy}\n");
        assert_eq!(message(arguments), expected);
    }
    // A directory of that name is not in the way.
    fs::create_dir(scene.file("smoke")).unwrap();
    scene.text("check smoke");
    scene.text("reproduce experiments/p2p/table1.yaml --dry-run");
}

#[test]
fn a_run_that_is_not_there_is_told_similar_ones() {
    let scene = Scene::of("results/smoke-2026/manifest.json", "{}");
    let similar = ["did you mean `results/smoke-2026`?"];
    for verb in ["report", "compare smoke-2026"] {
        let ended = scene.run(&format!("{verb} smoke-2025"));
        ended.ends(2).says(&similar);
    }
    let said = scene.run("report elsewhere").ends(2).message();
    assert!(!said.contains("did you mean"), "{said}");
}

/// The plan that `profile` wrote once worked in one directory alone.
#[test]
fn a_plan_finds_its_profile_from_anywhere_and_a_profile_names_its_plan() {
    let [file, plan] = ["mine", "mine-plan"].map(|name| format!("results/profiles/{name}.yaml"));
    let scene = Scene::of(&file, &shipped("harness/profiles/compute/laptop.yaml"));
    let what = "a compute profile, not an experiment";
    let said = scene.run(&format!("plan {file}"));
    said.ends(2).says(&[what, &format!("--compute {file}")]);

    scene.write(
        &plan,
        "schema: 1\nname: mine-plan\nplatform: sim\n\
         simulation: {compute: [./mine.yaml]}\n\
         dataset: {samples: 640, test: 0, bytes_per_sample: 3073}\n\
         model: mobilenet\nworkers: 2\nbatch_size: 32\nepochs: 1\nsystems: [allreduce]\n",
    );
    let said = scene.run(&format!("plan {file}"));
    said.ends(2).says(&[&format!("`epochcost plan {plan}`")]);
    for (below, arguments) in [
        ("", &*format!("plan {plan}")),
        ("results", "plan profiles/mine-plan.yaml"),
        ("results/profiles", "plan mine-plan.yaml"),
        ("results/profiles", "plan smoke --compute ./mine.yaml"),
    ] {
        let mut command = scene.command(arguments);
        scene.end(command.current_dir(scene.file(below))).ends(0);
    }
    // A path on the command line is relative to the current directory.
    let said = scene.run("plan smoke --compute ./mine.yaml");
    said.ends(2).says(&["./mine.yaml"]);

    scene.write("platform.yaml", &shipped("harness/profiles/laptop.yaml"));
    let said = scene.run("check platform.yaml");
    said.ends(2).says(&["a platform profile"]);
}

/// A list of all YAML files below `experiments` once ended at the first that is none.
#[test]
fn a_directory_is_all_its_experiments_and_other_files_say_what_they_are() {
    let root = root().display().to_string();
    let scene = Scene::empty();
    scene.text(&format!("check {root}/experiments/p2p"));
    scene.text("check p2p");
    for ([file, kind, verb], _) in cases(&[
        "experiments/p2p/paper.yaml | paper | epochcost audit",
        "experiments/validation/compute-spread.yaml | validation | epochcost dev validate",
        "harness/places/lambda-arm.yaml | place | --place",
        "harness/profiles/laptop.yaml | platform profile | --profile",
    ]) {
        let said = scene.run(&format!("check {root}/{file}"));
        let problem = format!("this file is a {kind}, not an experiment");
        said.ends(2).says(&[&problem, verb]);
    }
    fs::create_dir(scene.file("empty")).unwrap();
    let said = scene.run("check empty");
    said.ends(4).says(&["there is no experiment below empty"]);
}
