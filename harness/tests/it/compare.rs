//! `epochcost compare` on made-up runs, and on a real one against itself.
//! Nothing here depends on how long anything takes.
use std::sync::LazyLock;

use epochcost_record::RunDirectory;
use serde_json::{Value, json};

use crate::fixture;
use crate::support::{Ended, Scene, holds, items, lacks, trained};

const TRIALS: usize = 5;

/// Noise of about one percent, the same in every run.
const NOISE: [f64; TRIALS] = [1.0, 1.01, 0.99, 1.005, 0.995];

/// A run of five trials, and the same with times 1.3 times as long.
static USUAL: LazyLock<Scene> = LazyLock::new(|| made_up(TRIALS, 1.0));
static SLOW: LazyLock<Scene> = LazyLock::new(|| made_up(TRIALS, 1.3));

/// A run of that many trials, its times multiplied by `slower`.
fn made_up(trials: usize, slower: f64) -> Scene {
    let scene = Scene::empty();
    let new = fixture::new_run("[]", trials);
    let run = RunDirectory::create(Some(scene.path()), new).unwrap();
    for (trial, noise) in NOISE.iter().enumerate().take(trials) {
        for system in fixture::SYSTEMS {
            let plan = fixture::plan(system, trial);
            let outcome = fixture::outcome(&plan, slower * noise);
            run.append_trial(&plan, &outcome).unwrap();
        }
    }
    scene
}

/// A copy of a run, with an edited file.
#[track_caller]
fn edited(run: &Scene, file: &str, before: &str, after: &str) -> Scene {
    let copy = Scene::copy_of(run.path());
    copy.edit(file, before, after);
    fixture::reseal(copy.path());
    copy
}

fn compare(before: &Scene, after: &Scene, arguments: &str) -> Ended {
    let [one, other] = [before, after].map(|run| run.path().display());
    before.run(&format!("compare '{one}' '{other}' {arguments}"))
}

#[track_caller]
fn compared(before: &Scene, after: &Scene) -> Value {
    compare(before, after, "--json").ends(0).json()["comparison"].take()
}

/// The words of a metric, row by row.
fn words(compared: &Value, metric: &str) -> Vec<String> {
    let of_row = |row: &Value| {
        let mut metrics = items(row, "metrics").iter();
        let found = metrics.find(|own| own["metric"] == metric).unwrap();
        found["word"].as_str().unwrap().to_owned()
    };
    items(compared, "rows").iter().map(of_row).collect()
}

/// The network of one row alone is another one.
#[test]
fn a_shaped_network_is_not_compared_with_one_that_is_left_as_it_is() {
    let shaped = Scene::copy_of(USUAL.path());
    let mut plan = shaped.value("plan.json");
    plan[0]["row"]["sandbox"] = json!({
        "account": {"concurrency_limit": 1000, "scaling_per_10_s": 1000},
        "ephemeral_storage_mb": 512, "environment": {},
        "network": {"profile": null, "shape": {"bandwidth_mbit_s": 600.0,
                    "latency_ms": {"objects": 94.0, "tensors": 1.0, "queue": 2.0}}},
    });
    shaped.write("plan.json", &plan.to_string());
    fixture::reseal(shaped.path());
    let compared = compared(&USUAL, &shaped);
    let mut expected = ["same"; 5];
    assert_eq!(words(&compared, "bytes"), expected);
    expected[0] = "not comparable";
    assert_eq!(words(&compared, "seconds_per_epoch"), expected);
    let row = &compared["rows"][0];
    holds(row["settings"].to_string(), &["network"]);
    let networks = ["600 Mbit/s", "left as it is"];
    holds(row["metrics"].to_string(), &networks);
}

#[test]
fn what_is_alike_is_the_same_and_what_is_slower_is_slower() {
    let alike = compared(&USUAL, &Scene::copy_of(USUAL.path()));
    let slower = compared(&USUAL, &SLOW);
    let faster = compared(&SLOW, &USUAL);
    for (found, metric, word) in [
        (&alike, "seconds_per_epoch", "same"),
        (&faster, "seconds_per_epoch", "faster"),
        (&slower, "seconds_per_epoch", "slower"),
        (&slower, "cost_paper_usd", "costlier"),
        (&slower, "bytes", "same"),
        (&slower, "puts", "same"),
        (&slower, "gets", "same"),
        (&slower, "accuracy", "same"),
    ] {
        assert_eq!(words(found, metric), [word; 5], "{metric}");
    }
    let row = &slower["rows"][3];
    assert_eq!(row["id"], "allreduce-paper");
    let time = &row["metrics"][0];
    let [low, high] = [0, 1].map(|end| time["interval"][end].as_f64().unwrap());
    let ratio = time["ratio"].as_f64().unwrap();
    assert!(1.05 < low && low < ratio, "{time}");
    assert!(ratio < high && high < 1.4, "{time}");
    assert_eq!(time["trials"], json!([TRIALS, TRIALS]));
}

#[test]
fn a_program_may_fail_on_words() {
    for (arguments, code) in [
        ("--fail-on slower", 3),
        ("--fail-on faster,cheaper", 0),
        ("--fail-on slower --threshold 50", 0),
        ("--fail-on quicker", 2),
        ("--threshold -1", 2),
    ] {
        compare(&USUAL, &SLOW, arguments).ends(code);
    }
    // A gate that one trial can never close is no gate.
    let one = made_up(1, 1.3);
    let never = compare(&USUAL, &one, "--fail-on slower,dearer").ends(2);
    never.says(&["--trials 5"]);
    compare(&USUAL, &one, "--fail-on higher").ends(0);
    compare(&USUAL, &one, "--fail-on undecided").ends(3);
}

#[test]
fn one_trial_is_undecided_and_says_what_to_do() {
    let one = made_up(1, 1.0);
    let found = compared(&one, &SLOW);
    assert_eq!(words(&found, "seconds_per_epoch"), ["undecided"; 5]);
    // Counts need no repetition.
    assert_eq!(words(&found, "bytes"), ["same"; 5]);
    let text = compare(&one, &SLOW, "").text();
    holds(&text, &["--trials 5"]);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{text}");
}

/// What is said of metrics but for those of the first sentences; it counts them by their change.
fn said_of_others(before: &Scene, after: &Scene) -> String {
    let found = compare(before, after, "--json").ends(0).json();
    let is_other = |metric: &&Value| {
        let named = ["seconds_per_epoch", "cost_full_usd"];
        named.iter().all(|named| metric["metric"] != *named)
    };
    let rows = items(&found["comparison"], "rows").iter();
    let others = rows.flat_map(|row| items(row, "metrics")).filter(is_other);
    let changes: Vec<&str> = others
        .filter_map(|metric| metric["change"].as_str())
        .collect();
    let counts = [
        ("the same", "same"),
        ("changed", "less more"),
        ("undecided", "undecided"),
        ("not comparable", "not_comparable"),
    ];
    let counts = counts.map(|(word, of)| {
        let count = changes
            .iter()
            .filter(|change| of.contains(**change))
            .count();
        (count > 0).then(|| format!("{count} {word}"))
    });
    let counts: Vec<String> = counts.into_iter().flatten().collect();
    let counted = format!("Of {} other metrics: {}.", changes.len(), counts.join(", "));
    let said = found["answer"][2].as_str().unwrap().to_owned();
    if counts.len() > 1 {
        assert_eq!(said, counted);
    }
    said
}

/// What one trial cannot decide is no change: a run beside itself was once said to differ.
#[test]
fn the_sentence_on_other_metrics_counts_what_changed_apart() {
    let one = made_up(1, 1.0);
    let said = said_of_others(&one, &one);
    holds(&said, &["undecided"]);
    lacks(&said, &["changed", "comparable"]);
    holds(said_of_others(&USUAL, &SLOW), &[" changed"]);
    holds(said_of_others(&USUAL, &simulated()), &["not comparable"]);
    let words = ["All other metrics are the same"];
    holds(said_of_others(&USUAL, &USUAL), &words);
}

/// The slower run, as if it were simulated.
fn simulated() -> Scene {
    let (local, sim) = (r#""platform": "local""#, r#""platform": "sim""#);
    edited(&SLOW, "manifest.json", local, sim)
}

#[test]
fn platforms_and_machines_are_never_mixed() {
    let reason = |found: &Value| {
        let time = &found["rows"][0]["metrics"][0];
        assert_eq!(time["metric"], "seconds_per_epoch");
        time["reason"].as_str().unwrap().to_owned()
    };
    let found = compared(&USUAL, &simulated());
    for timed in ["seconds_per_epoch", "cost_full_usd", "peak_memory_mb"] {
        assert_eq!(words(&found, timed), ["not comparable"; 5], "{timed}");
    }
    assert_eq!(words(&found, "bytes"), ["same"; 5]);
    holds(reason(&found), &["local", "simulated"]);
    let (cores, more) = (r#""cores": "#, r#""cores": 1"#);
    let found = compared(&USUAL, &edited(&SLOW, "machine.json", cores, more));
    assert_eq!(words(&found, "seconds_per_epoch"), ["not comparable"; 5]);
    holds(reason(&found), &["other machines"]);
    let (on, off) = (r#""enforced": true"#, r#""enforced": false"#);
    let found = compared(&USUAL, &edited(&USUAL, "machine.json", on, off));
    holds(reason(&found), &["limits"]);
    let found = compared(&USUAL, &edited(&USUAL, "manifest.json", "abab", "cdcd"));
    assert_eq!(words(&found, "accuracy"), ["not comparable"; 5]);
}

#[test]
fn settings_that_differ_are_named_and_rows_are_paired_by_id() {
    let (usual, half) = (r#""batch_size": 32"#, r#""batch_size": 16"#);
    let found = compared(&USUAL, &edited(&USUAL, "plan.json", usual, half));
    let settings = &found["rows"][0]["settings"];
    assert_eq!(settings[0], "job.batch_size: 32 -> 16");
    let renamed = Scene::copy_of(USUAL.path());
    let rename = |before: &str, after: &str| {
        for file in ["plan.json", "trials.jsonl", "invocations.jsonl"] {
            renamed.edit(file, before, after);
        }
        fixture::reseal(renamed.path());
    };
    rename("\"spirt-paper\"", "\"spirt-renamed\"");
    let found = compared(&USUAL, &renamed);
    assert_eq!(found["only_before"][0], "spirt-paper");
    assert_eq!(found["only_after"][0], "spirt-renamed");
    rename("-paper\"", "-other\"");
    compare(&USUAL, &renamed, "").ends(4);
}

#[test]
fn real_trials_take_turns_and_a_run_is_the_same_as_itself() {
    let scene = Scene::of(
        "tiny.yaml",
        &trained("trials: 3\nsystems: [allreduce, gpu_baseline]\n"),
    );
    scene.run("run tiny.yaml --out run").ends(0);
    let run = RunDirectory::open(&scene.file("run")).unwrap();
    let trials = run.trials().unwrap();
    let order = trials
        .iter()
        .map(|trial| (&trial.id.row[..3], trial.id.trial));
    let turns = [0, 1, 2].map(|turn| [("all", turn), ("gpu", turn)]);
    assert!(order.eq(turns.concat()), "{trials:?}");
    assert!(trials.is_sorted_by(|a, b| a.started_s <= b.started_s));
    let found = scene.json("compare run run --json")["comparison"].take();
    for change in ["faster", "slower", "more", "less"] {
        assert!(!words(&found, "seconds_per_epoch").contains(&change.to_owned()));
    }
    assert_eq!(words(&found, "bytes"), ["same"; 2]);
    assert_eq!(words(&found, "train_loss"), ["same"; 2]);
}
