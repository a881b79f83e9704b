//! Names of experiments, items, datasets and runs: the same for every verb, with the nearest
//! one where there is none.
use std::fs;
use std::path::Path;

use crate::support::epochcost;

#[track_caller]
fn ends(directory: &Path, arguments: &str, code: i32) -> String {
    let words: Vec<&str> = arguments.split(' ').collect();
    let output = epochcost(directory, &words);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments}: {message}");
    message
}

#[test]
fn a_name_that_no_experiment_has_is_answered_alike_by_every_verb() {
    let directory = tempfile::tempdir().unwrap();
    let said = |arguments: &str| ends(directory.path(), arguments, 2);
    let expected = "error: there is no experiment `smok`\n  = help: did you mean `smoke`? \
                    `epochcost list experiments` shows all names\n";
    for verb in ["run", "check", "plan", "plan map --model"] {
        assert_eq!(said(&format!("{verb} smok")), expected, "{verb}");
    }
    for (command, words) in [
        ("plan ./smoke", "did you mean `smoke`?"),
        ("run table3", "`cost-performance/table3` or `p2p/table3`"),
        ("plan p2p", "`epochcost reproduce p2p`"),
        (
            "reproduce table2",
            "`cost-performance/table2` or `p2p/table2`",
        ),
        ("reproduce smoke", "`epochcost run smoke`"),
        ("dev validate s3-latncy", "did you mean `s3-latency`?"),
    ] {
        assert!(
            said(command).contains(words),
            "{command}: {}",
            said(command)
        );
    }
    // A directory of that name is not in the way.
    fs::create_dir(directory.path().join("smoke")).unwrap();
    ends(directory.path(), "check smoke", 0);
    ends(
        directory.path(),
        "reproduce experiments/p2p/table1.yaml --dry-run",
        0,
    );
}

#[test]
fn a_run_that_is_not_there_is_told_similar_ones() {
    let directory = tempfile::tempdir().unwrap();
    let run = directory.path().join("results/smoke-2026");
    fs::create_dir_all(&run).unwrap();
    fs::write(run.join("manifest.json"), "{}").unwrap();
    for verb in ["report", "compare smoke-2026"] {
        let said = ends(directory.path(), &format!("{verb} smoke-2025"), 2);
        assert!(
            said.contains("did you mean `results/smoke-2026`?"),
            "{said}"
        );
    }
    let said = ends(directory.path(), "report elsewhere", 2);
    assert!(!said.contains("did you mean"), "{said}");
}

/// The plan that `profile` wrote once worked in one directory alone.
#[test]
fn a_plan_finds_its_profile_from_anywhere_and_a_profile_names_its_plan() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir_all(at("results/profiles")).unwrap();
    let profile = include_str!("../../profiles/compute/laptop.yaml");
    fs::write(at("results/profiles/mine.yaml"), profile).unwrap();
    let said = ends(directory.path(), "plan results/profiles/mine.yaml", 2);
    assert!(
        said.contains("a compute profile, not an experiment"),
        "{said}"
    );
    assert!(
        said.contains("--compute results/profiles/mine.yaml"),
        "{said}"
    );

    let plan = "schema: 1\nname: mine-plan\nplatform: sim\n\
                simulation: {compute: [./mine.yaml]}\n\
                dataset: {samples: 640, test: 0, bytes_per_sample: 3073}\n\
                model: mobilenet\nworkers: 2\nbatch_size: 32\nepochs: 1\nsystems: [allreduce]\n";
    fs::write(at("results/profiles/mine-plan.yaml"), plan).unwrap();
    let said = ends(directory.path(), "plan results/profiles/mine.yaml", 2);
    let remedy = "`epochcost plan results/profiles/mine-plan.yaml`";
    assert!(said.contains(remedy), "{said}");
    for (below, file) in [
        ("", "results/profiles/mine-plan.yaml"),
        ("results", "profiles/mine-plan.yaml"),
        ("results/profiles", "mine-plan.yaml"),
    ] {
        ends(&at(below), &format!("plan {file}"), 0);
    }
    // A path on the command line is relative to the current directory.
    let said = ends(directory.path(), "plan smoke --compute ./mine.yaml", 2);
    assert!(said.contains("./mine.yaml"), "{said}");
    ends(
        &at("results/profiles"),
        "plan smoke --compute ./mine.yaml",
        0,
    );

    let platform = include_str!("../../profiles/laptop.yaml");
    fs::write(at("platform.yaml"), platform).unwrap();
    let said = ends(directory.path(), "check platform.yaml", 2);
    assert!(said.contains("a platform profile"), "{said}");
}

/// A list of all YAML files below `experiments` once ended at the first that is none.
#[test]
fn a_directory_is_all_its_experiments_and_other_files_say_what_they_are() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let directory = tempfile::tempdir().unwrap();
    let checked = |argument: &str, code| ends(directory.path(), &format!("check {argument}"), code);
    let folder = format!("{root}/experiments/p2p");
    checked(&folder, 0);
    checked("p2p", 0);
    for (file, kind, verb) in [
        ("experiments/p2p/paper.yaml", "paper", "epochcost audit"),
        (
            "experiments/validation/compute-spread.yaml",
            "validation",
            "epochcost dev validate",
        ),
        ("harness/places/lambda-arm.yaml", "place", "--place"),
        (
            "harness/profiles/laptop.yaml",
            "platform profile",
            "--profile",
        ),
    ] {
        let said = checked(&format!("{root}/{file}"), 2);
        let problem = format!("this file is a {kind}, not an experiment");
        assert!(said.contains(&problem) && said.contains(verb), "{said}");
    }
    fs::create_dir(directory.path().join("empty")).unwrap();
    let said = checked("empty", 4);
    assert!(
        said.contains("there is no experiment below empty"),
        "{said}"
    );
}
