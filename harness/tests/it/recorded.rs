//! A tiny run of the local platform, compared with its simulation, planned under other settings, and as a
//! compute profile. Nothing here depends on how long anything takes.
use std::fs;
use std::process::Output;
use std::sync::OnceLock;

use crate::fixture;
use crate::support::epochcost;

use serde_json::Value;
use tempfile::TempDir;

/// MLLess sends what its filter lets through: sizes alone do not tell how much.
const EXPERIMENT: &str = "\
schema: 1
name: tiny
dataset: {name: synthetic-mnist, train: 256, test: 32}
model: lenet5
workers: 2
batch_size: 8
batches_per_worker: 1
epochs: 1
systems: [allreduce, spirt, gpu_baseline, mlless]
";

#[track_caller]
fn exits(output: &Output, code: i32) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{message}");
    message
}

/// A directory with a finished run of the experiment in `run`.
pub fn scene() -> &'static TempDir {
    static SCENE: OnceLock<TempDir> = OnceLock::new();
    SCENE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("tiny.yaml"), EXPERIMENT).unwrap();
        let output = epochcost(directory.path(), &["run", "tiny.yaml", "--out", "run"]);
        exits(&output, 0);
        directory
    })
}

/// What a verb prints of the run as JSON.
#[track_caller]
fn json(arguments: &[&str]) -> Value {
    let output = epochcost(scene().path(), &[arguments, &["--json"]].concat());
    exits(&output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(of: &Value) -> &[Value] {
    of["rows"].as_array().unwrap()
}

#[track_caller]
fn positive(value: &Value) -> f64 {
    let number = value.as_f64().unwrap();
    assert!(number > 0.0 && number.is_finite(), "{number}");
    number
}

/// The cells of a figure of the run, by row.
fn cells<'a>(validated: &'a Value, figure: &'a str) -> impl Iterator<Item = &'a Value> {
    let cells = validated["sets"][0]["cells"].as_array().unwrap().iter();
    cells.filter(move |cell| cell["statistic"] == figure)
}

/// A directory like the finished run with one of its files changed.
fn changed(file: &str, change: impl Fn(&str) -> String) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let run = scene().path().join("run");
    fs::create_dir(copy.path().join("events")).unwrap();
    for part in ["", "events"] {
        for entry in fs::read_dir(run.join(part)).unwrap().flatten() {
            if entry.path().is_file() {
                let to = copy.path().join(part).join(entry.file_name());
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    let path = copy.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert_ne!(change(&text), text, "{file}");
    fs::write(&path, change(&text)).unwrap();
    fixture::reseal(copy.path());
    copy
}

#[test]
fn a_run_is_simulated_with_the_traffic_that_it_had() {
    let validated = json(&["dev", "validate", "run"]);
    let set = &validated["sets"][0];
    assert_eq!(set["profile"], "laptop");
    assert_eq!(set["judged"]["cells"], 4);
    for figure in [
        "wall s",
        "compute gradients s",
        "billed ms",
        "paper $",
        "full $",
    ] {
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
    let scores = set["figures"].as_array().unwrap();
    let wall = scores.iter().find(|score| score["figure"] == "wall s");
    assert_eq!(wall.unwrap()["median_error"], set["judged"]["median_error"]);
}

#[test]
fn what_is_planned_of_a_run_is_what_it_is_compared_with() {
    let (plan, validated) = (json(&["plan", "run"]), json(&["dev", "validate", "run"]));
    assert_eq!(plan["simulation"]["compute"][0]["name"], "recorded");
    for cell in cells(&validated, "wall s") {
        // What it sends follows from values that a plan does not have.
        if cell["setting"].as_str().unwrap().starts_with("mlless") {
            continue;
        }
        let row = rows(&plan).iter().find(|row| row["id"] == cell["setting"]);
        assert_eq!(row.unwrap()["estimate"]["seconds"], cell["predicted"]);
    }
}

#[test]
fn a_run_is_planned_under_other_settings() {
    let same = json(&["plan", "run"]);
    let set = ["--set", "workers=3", "--set", "memory_mb=1024"];
    let other = json(&[&["plan", "run"][..], &set].concat());
    let far = json(&["plan", "run", "--profile", "aws-us-east-1"]);
    for ((other, same), far) in rows(&other).iter().zip(rows(&same)).zip(rows(&far)) {
        let puts = |row: &Value| row["estimate"]["traffic"]["puts"].as_u64();
        let on_functions = other["system"] != "gpu_baseline";
        assert_eq!(other["workers"], 3);
        assert_eq!(
            other["memory_mb"],
            Value::from(on_functions.then_some(1024))
        );
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
    let run = run.path().to_str().unwrap();
    let of = |arguments: &[&str]| {
        let plan = json(&[&["plan", run], arguments].concat());
        let constants = plan["simulation"]["constants"].as_array().unwrap().clone();
        ["host.cores", "instance.vcpus"].map(|path| {
            let own = constants.iter().find(|constant| constant["path"] == path);
            own.unwrap()["value"].as_f64().unwrap()
        })
    };
    let [cores, vcpus] = of(&["--profile", "laptop"]);
    assert_eq!(vcpus, 2.0);
    assert_eq!(of(&[]), [3.5 * cores, 7.0]);
    let stated = "simulation.constants={host.cores: {value: 3, assumed: a guess}}";
    assert_eq!(of(&["--set", stated]), [3.0, 7.0]);
}

#[test]
fn steps_of_a_run_are_a_profile_of_their_own() {
    let directory = scene().path();
    let calibrate = ["profile", "calibrate", "run", "--out", "kept/steps.yaml"];
    exits(&epochcost(directory, &calibrate), 0);
    let message = exits(&epochcost(directory, &calibrate), 2);
    assert!(message.contains("--force"), "{message}");
    let compute = ["--compute", "./kept/steps.yaml"];
    let (own, same) = (
        json(&[&["plan", "run"], &compute[..]].concat()),
        json(&["plan", "run"]),
    );
    for (own, same) in rows(&own).iter().zip(rows(&same)) {
        assert_eq!(own["estimate"], same["estimate"]);
    }
    let held_out = json(&[&["dev", "validate", "run"], &compute[..]].concat());
    assert_eq!(held_out["sets"][0]["is_held_out"], true);
    let mut steps = cells(&held_out, "compute gradients s");
    assert!(steps.all(|cell| cell["is_fitted"] == false));
    let message = exits(
        &epochcost(directory, &["profile", "calibrate", "run", "--probe"]),
        2,
    );
    assert!(message.contains("--probe"), "{message}");
}

#[test]
fn wall_times_are_shown_and_tolerances_judged() {
    let validate = |arguments: &[&str]| {
        let output = epochcost(
            scene().path(),
            &[&["dev", "validate", "run"], arguments].concat(),
        );
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text)
    };
    let (code, text) = validate(&["--within", "1e9"]);
    assert_eq!(code, Some(0), "{text}");
    for word in ["measured", "predicted", "wall s", "allreduce-lenet5-paper"] {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
    assert!(validate(&["--cells"]).1.len() > text.len());
    // No clock agrees to nine digits, on any profile.
    assert_eq!(validate(&["--within", "1e-9"]).0, Some(3));
    let far = ["--within", "1e-9", "--profile", "aws-us-east-1"];
    assert_eq!(validate(&far).0, Some(3));
    let (_, drawn) = validate(&["--draws", "40", "--json"]);
    let drawn: Value = serde_json::from_str(&drawn).unwrap();
    for cell in cells(&drawn, "wall s") {
        let [low, predicted, high] = ["low", "predicted", "high"].map(|end| positive(&cell[end]));
        assert!(
            low <= predicted && predicted <= high && low < high,
            "{cell}"
        );
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let message = exits(&epochcost(scene().path(), arguments), 2);
        for word in words {
            assert!(message.contains(word), "no {word:?} in:\n{message}");
        }
    };
    refused(&["dev", "validate", "elsewhere"], &["elsewhere", "help: "]);
    refused(
        &["replay", "run", "--memory", "1024"],
        &["dev validate RUN", "plan RUN"],
    );
    refused(
        &["dev", "validate", "--within", "0.25"],
        &["--within", "help: "],
    );
    for verb in [&["plan"][..], &["dev", "validate"]] {
        let of = |arguments: &[&'static str]| [verb, &["run"], arguments].concat();
        refused(&of(&["--profile", "lap-top"]), &["did you mean `laptop`"]);
        refused(
            &of(&["--compute", "./none.yaml"]),
            &["./none.yaml", "help: "],
        );
        refused(&of(&["--profile", "serverless-gpu"]), &["--compute"]);
    }
    refused(&["dev", "validate", "run", "--within", "0"], &["--within"]);

    let last_trial_missing = |text: &str| {
        let lines: Vec<&str> = text.lines().collect();
        lines[..lines.len() - 1].join("\n") + "\n"
    };
    let simulated = changed("manifest.json", |text| text.replace("\"local\"", "\"sim\""));
    let unfinished = changed("trials.jsonl", last_trial_missing);
    for (run, words) in [
        (&simulated, ["`sim`", "epochcost plan "]),
        (&unfinished, ["3 of its 4 trials", "--resume"]),
    ] {
        let path = run.path().to_str().unwrap();
        for verb in [
            &["plan"][..],
            &["dev", "validate"],
            &["profile", "calibrate"],
        ] {
            refused(&[verb, &[path]].concat(), &[&[path][..], &words].concat());
        }
    }
}
