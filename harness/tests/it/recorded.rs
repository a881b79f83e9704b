//! A tiny run of the local platform, compared with its simulation, planned under other settings, and as a
//! compute profile. Nothing here depends on how long anything takes.
use std::sync::OnceLock;

use serde_json::Value;

use crate::fixture;
use crate::support::{LENET5, Scene, cases, holds, items};

/// A directory with a finished run of the experiment in `run`.
pub fn scene() -> &'static Scene {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    SCENE.get_or_init(|| {
        // MLLess sends what its filter lets through: sizes alone do not tell how much.
        let systems = "systems: [allreduce, spirt, gpu_baseline, mlless]\n";
        let scene = Scene::of("tiny.yaml", &format!("{LENET5}{systems}"));
        scene.text("run tiny.yaml --out run");
        scene
    })
}

/// What a verb prints of the run as JSON.
#[track_caller]
fn json(arguments: &str) -> Value {
    scene().json(&format!("{arguments} --json"))
}

#[track_caller]
fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap();
    assert!(number > 0.0 && number.is_finite(), "{number}");
    number
}

/// The cells of a figure of the run, by row.
fn cells<'a>(validated: &'a Value, figure: &'a str) -> impl Iterator<Item = &'a Value> {
    let cells = items(&validated["sets"][0], "cells").iter();
    cells.filter(move |cell| cell["statistic"] == figure)
}

/// A directory like the finished run with one of its files changed.
fn changed(file: &str, change: impl Fn(&str) -> String) -> Scene {
    let copy = Scene::copy_of(&scene().file("run"));
    let text = copy.read(file);
    assert_ne!(change(&text), text, "{file}");
    copy.write(file, &change(&text));
    fixture::reseal(copy.path());
    copy
}

#[test]
fn a_run_is_simulated_with_the_traffic_that_it_had() {
    let validated = json("dev validate run");
    let set = &validated["sets"][0];
    assert_eq!(set["profile"], "laptop");
    assert_eq!(set["judged"]["cells"], 4);
    for figure in "wall s, compute gradients s, billed ms, paper $, full $".split(", ") {
        assert_eq!(cells(&validated, figure).count(), 4, "{figure}");
        for cell in cells(&validated, figure) {
            positive(&cell["measured"]);
            positive(&cell["predicted"]);
            assert_eq!(cell["is_fitted"], figure == "compute gradients s");
        }
    }
    for figure in ["requests", "bytes up", "bytes down"] {
        assert_eq!(cells(&validated, figure).count(), 4, "{figure}");
        for cell in cells(&validated, figure) {
            assert_eq!(cell["measured"], cell["predicted"], "{cell}");
        }
    }
    let mut scores = items(set, "figures").iter();
    let wall = scores.find(|score| score["figure"] == "wall s");
    assert_eq!(wall.unwrap()["median_error"], set["judged"]["median_error"]);
}

#[test]
fn what_is_planned_of_a_run_is_what_it_is_compared_with() {
    let (plan, validated) = (json("plan run"), json("dev validate run"));
    assert_eq!(plan["simulation"]["compute"][0]["name"], "recorded");
    for cell in cells(&validated, "wall s") {
        // What it sends follows from values that a plan does not have.
        if cell["setting"].as_str().unwrap().starts_with("mlless") {
            continue;
        }
        let mut rows = items(&plan, "rows").iter();
        let row = rows.find(|row| row["id"] == cell["setting"]);
        assert_eq!(row.unwrap()["estimate"]["seconds"], cell["predicted"]);
    }
}

#[test]
fn a_run_is_planned_under_other_settings() {
    let same = json("plan run");
    let other = json("plan run --set workers=3 --set memory_mb=1024");
    let far = json("plan run --profile aws-us-east-1");
    let [other, same, far] = [&other, &same, &far].map(|plan| items(plan, "rows"));
    for ((other, same), far) in other.iter().zip(same).zip(far) {
        let puts = |row: &Value| row["estimate"]["traffic"]["puts"].as_u64();
        let on_functions = other["system"] != "gpu_baseline";
        assert_eq!(other["workers"], 3);
        let memory_mb = Value::from(on_functions.then_some(1024));
        assert_eq!(other["memory_mb"], memory_mb);
        assert!(puts(other) > puts(same), "{other}");
        // A function starts in hundreds of milliseconds there.
        let wall = |row: &Value| positive(&row["estimate"]["seconds"]);
        assert!(wall(far) > wall(same), "{far}");
    }
}

/// The profile has two cores, and each of the run's has its share of what they slow down.
#[test]
fn a_run_is_planned_on_the_cores_of_its_machine() {
    let run = changed("machine.json", |text| {
        let mut machine: Value = serde_json::from_str(text).unwrap();
        machine["cores"] = 7.into();
        machine.to_string()
    });
    let of = |options: &str| {
        let plan = json(&format!("plan {} {options}", run.path().display()));
        let constants = items(&plan["simulation"], "constants");
        ["host.cores", "instance.vcpus"].map(|path| {
            let own = constants.iter().find(|constant| constant["path"] == path);
            own.unwrap()["value"].as_f64().unwrap()
        })
    };
    let [cores, vcpus] = of("--profile laptop");
    assert_eq!(vcpus, 2.0);
    assert_eq!(of(""), [3.5 * cores, 7.0]);
    let stated = "--set 'simulation.constants={host.cores: {value: 3, assumed: a guess}}'";
    assert_eq!(of(stated), [3.0, 7.0]);
}

#[test]
fn steps_of_a_run_are_a_profile_of_their_own() {
    let calibrate = "profile calibrate run --out kept/steps.yaml";
    scene().text(calibrate);
    scene().run(calibrate).ends(2).says(&["--force"]);
    let compute = "--compute ./kept/steps.yaml";
    let [own, same] = [&format!("plan run {compute}"), "plan run"].map(json);
    for (own, same) in items(&own, "rows").iter().zip(items(&same, "rows")) {
        assert_eq!(own["estimate"], same["estimate"]);
    }
    let held_out = json(&format!("dev validate run {compute}"));
    assert_eq!(held_out["sets"][0]["is_held_out"], true);
    let mut steps = cells(&held_out, "compute gradients s");
    assert!(steps.all(|cell| cell["is_fitted"] == false));
    let probe = scene().run("profile calibrate run --probe");
    probe.ends(2).says(&["--probe"]);
}

#[test]
fn wall_times_are_shown_and_tolerances_judged() {
    let validate = |options: &str| scene().run(&format!("dev validate run {options}"));
    let text = validate("--within 1e9").ends(0).text();
    let words = ["measured", "predicted", "wall s", "allreduce-lenet5-paper"];
    holds(&text, &words);
    assert!(validate("--cells").text().len() > text.len());
    // No clock agrees to nine digits, on any profile.
    validate("--within 1e-9").ends(3);
    validate("--within 1e-9 --profile aws-us-east-1").ends(3);
    let drawn = validate("--draws 40 --json").json();
    for cell in cells(&drawn, "wall s") {
        let ends = ["low", "predicted", "high"].map(|end| positive(&cell[end]));
        assert!(ends.is_sorted() && ends[0] < ends[2], "{cell}");
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let refused = |arguments: &str, words: &[&str]| {
        scene().run(arguments).ends(2).says(words);
    };
    refused("dev validate elsewhere", &["elsewhere", "help: "]);
    refused("dev validate --within 0.25", &["--within", "help: "]);
    refused("dev validate run --within 0", &["--within"]);
    for ([options], words) in cases(&[
        "--profile lap-top | did you mean `laptop`",
        "--compute ./none.yaml | ./none.yaml | help: ",
        "--profile serverless-gpu | --compute",
    ]) {
        for verb in ["plan", "dev validate"] {
            refused(&format!("{verb} run {options}"), &words);
        }
    }

    let last_trial_missing = |text: &str| {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines[..lines.len() - 1].concat()
    };
    let simulated = changed("manifest.json", |text| text.replace("\"local\"", "\"sim\""));
    let unfinished = changed("trials.jsonl", last_trial_missing);
    for (run, words) in [
        (&simulated, ["`sim`", "epochcost plan "]),
        (&unfinished, ["3 of its 4 trials", "--resume"]),
    ] {
        let path = run.path().to_str().unwrap();
        for verb in ["plan", "dev validate", "profile calibrate"] {
            refused(&format!("{verb} {path}"), &[path, words[0], words[1]]);
        }
    }
}
