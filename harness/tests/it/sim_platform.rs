//! Runs of the platform `sim` by the program itself, from the file to the
//! summary and the report.

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost_record::{RunDirectory, SCHEMA_VERSION};
use serde_json::{Value, json};

use crate::support::{Ended, LENET5, Scene, holds, items, lacks};

/// Five systems with a model that no build has, on data that is not there.
const SIZES: &str = "\
schema: 1
name: sizes
platform: sim
dataset: {name: cifar10}
model: mine
workers: 4
batch_size: 64
batches_per_worker: 3
epochs: 2
systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]
models:
  - {name: mine, parameters: 250000, statistics: 100, input: [3, 32, 32],
     flops_per_sample: 5e6, activation_bytes_per_sample: 2e5}
";

/// A model of this program's on published durations, and claims on it.
const CLAIMED: &str = "\
schema: 1
name: claimed
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 512
batches_per_worker: 2
epochs: 1
evaluate: never
systems:
  - {system: allreduce, name: published}
  - {system: allreduce, name: small, memory_mb: 100}
  - {system: allreduce, name: many, workers: 2000, batch_size: 1}
simulation:
  compute: [published-cost-performance]
  constants: {object_store.service.request_latency_s: {value: 0.05, assumed: a test}}
";

/// On either platform.
const TRAINED: &str = "\
memory_mb: 1769
systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]
simulation: {real_compute: true, compute: [stated-flops]}
";

fn scene(experiment: &str) -> Scene {
    Scene::of("experiment.yaml", experiment)
}

/// Runs into the directory `out`.
fn run(scene: &Scene, out: &str, options: &str) -> Ended {
    scene.run(&format!("run experiment.yaml --out {out} {options}"))
}

fn summary(scene: &Scene, out: &str) -> Value {
    scene.value(&format!("{out}/summary.json"))
}

/// The summary without what may differ.
fn comparable(scene: &Scene, out: &str) -> String {
    let mut summary = summary(scene, out);
    summary.as_object_mut().unwrap().remove("run_id").unwrap();
    serde_json::to_string_pretty(&summary).unwrap()
}

#[test]
fn one_seed_gives_the_same_bytes() {
    let scene = scene(SIZES);
    let sampled = "--trials 3 --set 'simulation={compute: [], sample: true}'";
    for out in ["first", "second"] {
        run(&scene, out, sampled).ends(0);
    }
    let first = comparable(&scene, "first");
    assert_eq!(first, comparable(&scene, "second"));
    // Virtual time has no date of its end.
    let described = scene.read("first/ro-crate-metadata.json");
    assert!(!described.contains("null"), "{described}");
    for name in "trials.jsonl invocations.jsonl plan.json epochs.tsv cost.json".split(' ') {
        let [first, second] = ["first", "second"].map(|run| scene.read(&format!("{run}/{name}")));
        assert!(first == second, "{name} differs");
    }
    let [first_run, second_run] =
        ["first", "second"].map(|run| RunDirectory::open(&scene.file(run)).unwrap());
    let trials = first_run.trials().unwrap();
    assert_eq!(trials.len(), 5 * 3);
    for trial in &trials {
        let steps = first_run.steps(trial).unwrap();
        assert!(!steps.is_empty());
        assert!(steps == second_run.steps(trial).unwrap(), "{}", trial.id);
        // Virtual time starts at zero.
        let earliest = steps.iter().map(|step| step.started_s);
        let earliest = earliest.fold(f64::MAX, f64::min);
        assert!((0.0..600.0).contains(&earliest), "{earliest}");
    }
    // Samples follow the seed.
    run(&scene, "other", &format!("{sampled} --set seed=43")).ends(0);
    assert_ne!(first, comparable(&scene, "other"));
    // They have an interval, and repetitions have none to speak of.
    run(&scene, "same", "--trials 3").ends(0);
    let [same, sampled] = ["same", "first"].map(|out| {
        let row = &summary(&scene, out)["rows"][3];
        let ends = &row["figures"]["seconds_per_epoch"]["ci95"];
        ends[1].as_f64().unwrap() - ends[0].as_f64().unwrap()
    });
    assert!(same.abs() < 1e-9, "{same}");
    assert!(sampled > 0.0, "{sampled}");
}

#[test]
fn impossible_rows_are_results() {
    let findings = "findings:\n  - {says: c, formula: \"puts[small] >= 1\"}\n\
                    \x20 - {says: d, formula: \"puts[published] >= puts[many]\"}\n";
    let scene = scene(&format!("{CLAIMED}{findings}"));
    let table = run(&scene, "run", "").ends(3).text();
    let summary = summary(&scene, "run");
    let rows = items(&summary, "rows");
    for (row, limit) in [(&rows[1], "memory"), (&rows[2], "concurrency")] {
        let why = row["infeasible"].as_str().unwrap();
        holds(why, &[limit]);
        let pages = ["run/report.html", "run/report.md"].map(|name| scene.read(name));
        for text in pages.iter().chain([&table]) {
            holds(text, &[why]);
        }
        assert_eq!([&row["trials"], &row["failed_trials"]], [0, 0]);
        assert_eq!(row["figures"], json!({}), "{row}");
        let traffic = row["traffic"].as_object().unwrap();
        assert!(traffic.values().all(Value::is_null), "never 0");
    }
    assert!(rows[0]["infeasible"].is_null());
    // The second has a divisor that cannot be run.
    for verdict in 0..2 {
        assert_eq!(summary["verdicts"][verdict]["verdict"], "infeasible");
    }
    run(&scene, "unlimited", "--set simulation.limits=false").ends(3);
}

/// Instances start once: an epoch of four costs less than a single one, which is no merit of the row.
#[test]
fn rows_of_other_numbers_of_epochs_are_not_ranked_together() {
    let (head, rest) = CLAIMED.split_once("systems:\n").unwrap();
    let (_, simulation) = rest.split_once("simulation:\n").unwrap();
    let rows = "{system: gpu_baseline, epochs: 4}, {system: allreduce, memory_mb: 4096}";
    let systems = format!("systems: [{rows}]\nsimulation:\n");
    let scene = scene(&[head, &systems, simulation].concat());
    let answer = |out: &str, options: &str| {
        run(&scene, out, options).ends(0);
        summary(&scene, out)["answer"].to_string()
    };
    let unlike = "No two rows of this run do the same work";
    holds(answer("apart", ""), &[unlike]);
    let alike = answer("alike", "--set 'systems.*.epochs=2'");
    holds(&alike, &["Cheapest: ", "the cheapest on "]);
}

#[test]
fn what_was_put_in_never_agrees() {
    let claims = "\
beside: [{table: t, keys: {system: row}}]
findings:
  - {says: money, formula: \"cost_paper_usd[published] >= 0\"}
";
    // The profile whose S3 is fitted to the paper.
    let fitted = CLAIMED.replace("simulation:\n", "simulation:\n  profile: aws-us-east-1\n");
    let paper = "cite: Barrak et al. 2025\ntables:\n  t:\n    place: Table 2\n    file: t.csv\n    keys: [system]\n    \
                 columns:\n      seconds: {unit: s, metric: seconds_per_epoch}\n      \
                 puts: {unit: count, metric: puts}\n";
    let scene = scene(&format!("{fitted}{claims}"))
        .with("paper.yaml", paper)
        .with("t.csv", "system,seconds,puts\npublished,29,10\n");
    let put_in = "by_construction";
    // The paper prints what is observed.
    let equal = |out: &str, options: &str| {
        let first = format!("{out}-first");
        run(&scene, &first, options).ends(0);
        let observed = &summary(&scene, &first)["verdicts"][1]["observed"];
        let table = format!("system,seconds,puts\npublished,{observed},10\n");
        scene.write("t.csv", &table);
        run(&scene, out, options).ends(0);
        let summary = summary(&scene, out);
        let verdicts = items(&summary, "verdicts").iter();
        let words = verdicts.map(|verdict| verdict["verdict"].as_str().unwrap().to_owned());
        words.collect::<Vec<_>>()
    };
    assert_eq!(equal("run", ""), ["agrees", put_in, "holds"]);
    let compute = &scene.value("run/plan.json")[0]["compute"];
    assert_eq!(compute["profile"], "published-cost-performance");
    assert_eq!(compute["origin"], "published");
    // Constants of the profile are fitted to the same paper, these are not.
    let stated = "--set simulation.compute=[stated-flops]";
    let assumed = "--set 'simulation.constants={object_store.service.request_latency_s: \
                   {value: 0.05, assumed: a test}, object_store.service.stream_bytes_per_s: \
                   {value: 8e7, assumed: a test}}'";
    assert_eq!(equal("fitted", stated), ["agrees", put_in, "holds"]);
    // Stated rates are drawn, four times wider than what was put in.
    let both = format!("{stated} {assumed}");
    assert_eq!(equal("stated", &both), ["agrees", "rather_agrees", "holds"]);
}

#[test]
fn a_simulated_run_says_what_it_stands_on() {
    let scene = scene(CLAIMED);
    let ended = run(&scene, "run", "").ends(0);
    let stands = "Every figure is simulated. Profile aws-us-east-1-2024 (compiled client):";
    holds(ended.text(), &[stands]);
    let manifest = scene.value("run/manifest.json");
    assert_eq!(manifest["schema_version"]["minor"], SCHEMA_VERSION.minor);
    let record = &manifest["simulation"];
    let constants = items(record, "constants");
    let mut stated = constants.iter().filter(|one| one["stated"] == true);
    let only = stated.next().unwrap();
    assert_eq!(only["path"], "object_store.service.request_latency_s");
    assert_eq!(only["value"], 0.05);
    assert_eq!(stated.next(), None);
    assert_eq!(record["compute"][0]["costs"][0]["model"], "mobilenet");
    let [page, twin] = ["run/report.html", "run/report.md"].map(|name| scene.read(name));
    let sources = ["Sources of the simulation", "stated by the experiment"];
    for text in [&page, &twin] {
        holds(text, &["Every figure here is simulated"]);
        holds(text, &sources);
        lacks(text, &["1970"]);
    }
    for constant in constants {
        holds(&page, &[constant["path"].as_str().unwrap()]);
    }
    holds(&page, &[r#"class="simulated""#]);
    lacks(ended.message(), &["the machine was busy"]);
}

/// The very code that trains on this machine trains in virtual time.
#[test]
fn training_in_virtual_time_gives_the_losses_of_real_time() {
    let scene = scene(&format!("{LENET5}{TRAINED}"));
    let worker = find_or_build().unwrap().path.canonicalize().unwrap();
    let [local, simulated] = ["local", "sim"].map(|platform| {
        let arguments = format!("run experiment.yaml --out {platform} --platform {platform}");
        let mut command = scene.command(&arguments);
        scene.end(command.env(WORKER_VARIABLE, &worker)).ends(0);
        summary(&scene, platform)
    });
    for (real, virtual_) in items(&local, "rows").iter().zip(items(&simulated, "rows")) {
        assert_eq!(real["id"], virtual_["id"]);
        let figures =
            "figures/train_loss/mean figures/accuracy/mean replicas_identical closed_form";
        for figure in figures.split(' ') {
            let [a, b] = [real, virtual_].map(|row| row.pointer(&format!("/{figure}")));
            assert_eq!(a, b, "{figure} of {}", real["id"]);
            let is_known = a.is_some_and(|value| !value.is_null());
            assert!(is_known, "{figure} of {}", real["id"]);
        }
        assert_eq!(virtual_["traffic_matches"], true);
    }
}

/// Rows that differ in nothing else; and nobody takes simulated seconds for those of bf16.
#[test]
fn a_precision_is_named_wherever_its_row_is() {
    let swept = SIZES.replace(
        "systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]\n",
        "fidelity: tuned\ndevice: {kind: cuda}\nsystems: [gpu_baseline]\nsweep: {device.precision: [fp32, bf16]}\n",
    );
    let scene = scene(&swept);
    let ended = run(&scene, "out", "").ends(0);
    let summary = summary(&scene, "out");
    let precisions = [0, 1].map(|row| &summary["rows"][row]["precision"]);
    assert_eq!(precisions, [&Value::Null, &"bf16".into()]);
    holds(ended.text(), &["tuned, bf16"]);
    holds(ended.message(), &["changes no simulated time"]);
    holds(scene.read("out/report.md"), &["tuned, bf16"]);
}
