//! Runs of the platform `sim` by the program itself, from the file to the
//! summary and the report.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::program;

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost_record::{RunDirectory, SCHEMA_VERSION};
use serde_json::{Value, json as object};

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

/// LeNet-5 on generated digits, on either platform.
const TRAINED: &str = "\
schema: 1
name: trained
dataset: {name: synthetic-mnist, train: 128, test: 32}
model: lenet5
workers: 2
batch_size: 16
epochs: 1
memory_mb: 1769
systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]
simulation: {real_compute: true, compute: [stated-flops]}
";

struct Scene(tempfile::TempDir);

impl Scene {
    fn new(experiment: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("experiment.yaml"), experiment).unwrap();
        Self(directory)
    }

    fn command(&self, out: &str, arguments: &[&str]) -> Command {
        let mut command = program();
        command
            .args(["run", "experiment.yaml", "--out", out])
            .args(arguments)
            .current_dir(self.0.path());
        command
    }

    /// Runs into the directory `out`, with that exit code.
    fn run(&self, out: &str, arguments: &[&str], code: i32) -> (PathBuf, Output) {
        let output = self.command(out, arguments).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        (self.0.path().join(out), output)
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The summary without what may differ.
fn comparable(run: &Path) -> String {
    let mut summary = json(&run.join("summary.json"));
    summary.as_object_mut().unwrap().remove("run_id").unwrap();
    serde_json::to_string_pretty(&summary).unwrap()
}

#[test]
fn one_seed_gives_the_same_bytes() {
    let scene = Scene::new(SIZES);
    let sampled = [
        "--trials",
        "3",
        "--set",
        "simulation={compute: [], sample: true}",
    ];
    let (first, _) = scene.run("first", &sampled, 0);
    let (second, _) = scene.run("second", &sampled, 0);
    assert_eq!(comparable(&first), comparable(&second));
    // Virtual time has no date of its end.
    let described = fs::read_to_string(first.join("ro-crate-metadata.json")).unwrap();
    assert!(!described.contains("null"), "{described}");
    let files = [
        "trials.jsonl",
        "invocations.jsonl",
        "plan.json",
        "epochs.tsv",
        "cost.json",
    ];
    for name in files {
        let read = |run: &Path| fs::read(run.join(name)).unwrap();
        assert!(read(&first) == read(&second), "{name} differs");
    }
    let [first_run, second_run] = [&first, &second].map(|run| RunDirectory::open(run).unwrap());
    let trials = first_run.trials().unwrap();
    assert_eq!(trials.len(), 5 * 3);
    for trial in &trials {
        let steps = first_run.steps(trial).unwrap();
        assert!(!steps.is_empty());
        assert!(steps == second_run.steps(trial).unwrap(), "{}", trial.id);
        let earliest = steps
            .iter()
            .map(|step| step.started_s)
            .fold(f64::MAX, f64::min);
        assert!(
            (0.0..600.0).contains(&earliest),
            "virtual time starts at zero"
        );
    }
    let other_seed = [&sampled[..], &["--set", "seed=43"]].concat();
    let (other, _) = scene.run("other", &other_seed, 0);
    assert_ne!(
        comparable(&first),
        comparable(&other),
        "samples follow the seed"
    );
}

#[test]
fn samples_have_an_interval_and_repetitions_have_none_to_speak_of() {
    let scene = Scene::new(SIZES);
    let seconds = |out: &str, choice: &str| {
        let choice = format!("simulation={{compute: [], {choice}}}");
        let (run, _) = scene.run(out, &["--trials", "3", "--set", &choice], 0);
        json(&run.join("summary.json"))["rows"][3]["figures"]["seconds_per_epoch"].clone()
    };
    let same = seconds("same", "sample: false");
    let width = |estimate: &Value| {
        estimate["ci95"][1].as_f64().unwrap() - estimate["ci95"][0].as_f64().unwrap()
    };
    assert!(width(&same).abs() < 1e-9, "{same}");
    let sampled = seconds("sampled", "sample: true");
    assert!(width(&sampled) > 0.0, "{sampled}");
}

#[test]
fn impossible_rows_are_results() {
    let findings = "findings:\n  - {says: c, formula: \"puts[small] >= 1\"}\n\
                    \x20 - {says: d, formula: \"puts[published] >= puts[many]\"}\n";
    let scene = Scene::new(&format!("{CLAIMED}{findings}"));
    let (run, output) = scene.run("run", &[], 3);
    let table = String::from_utf8(output.stdout).unwrap();
    let summary = json(&run.join("summary.json"));
    let rows = summary["rows"].as_array().unwrap();
    for (row, limit) in [(&rows[1], "memory"), (&rows[2], "concurrency")] {
        let why = row["infeasible"].as_str().unwrap();
        assert!(why.contains(limit), "{why}");
        assert!(table.contains(why), "{table}");
        for file in ["report.html", "report.md"] {
            assert!(
                fs::read_to_string(run.join(file)).unwrap().contains(why),
                "{file}"
            );
        }
        assert_eq!(
            (&row["trials"], &row["failed_trials"]),
            (&0.into(), &0.into())
        );
        assert_eq!(row["figures"], object!({}), "{row}");
        let traffic = row["traffic"].as_object().unwrap();
        assert!(traffic.values().all(Value::is_null), "never 0");
    }
    assert!(rows[0]["infeasible"].is_null());
    let words: Vec<&Value> = summary["verdicts"].as_array().unwrap().iter().collect();
    assert_eq!(words[0]["verdict"], "infeasible");
    assert_eq!(
        words[1]["verdict"], "infeasible",
        "a divisor that cannot be run"
    );
    scene.run("without-limits", &["--set", "simulation.limits=false"], 3);
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
    let scene = Scene::new(&format!("{fitted}{claims}"));
    let paper = "cite: Barrak et al. 2025\ntables:\n  t:\n    place: Table 2\n    file: t.csv\n    keys: [system]\n    \
                 columns:\n      seconds: {unit: s, metric: seconds_per_epoch}\n      \
                 puts: {unit: count, metric: puts}\n";
    let write = |name: &str, text: &str| fs::write(scene.0.path().join(name), text).unwrap();
    write("paper.yaml", paper);
    write("t.csv", "system,seconds,puts\npublished,29,10\n");
    let words = |run: &Path| -> Vec<String> {
        let summary = json(&run.join("summary.json"));
        let verdicts = summary["verdicts"].as_array().unwrap().iter();
        verdicts
            .map(|verdict| verdict["verdict"].as_str().unwrap().to_owned())
            .collect()
    };
    let put_in = "by_construction";
    // The paper prints what is observed.
    let equal = |out: &str, options: &[&str]| {
        let (first, _) = scene.run(&format!("{out}-first"), options, 0);
        let observed = json(&first.join("summary.json"))["verdicts"][1]["observed"].clone();
        write(
            "t.csv",
            &format!("system,seconds,puts\npublished,{observed},10\n"),
        );
        scene.run(out, options, 0).0
    };
    let run = equal("run", &[]);
    assert_eq!(words(&run), ["agrees", put_in, "holds"]);
    let compute = json(&run.join("plan.json"))[0]["compute"].clone();
    assert_eq!(compute["profile"], "published-cost-performance");
    assert_eq!(compute["origin"], "published");
    // Constants of the profile are fitted to the same paper, these are not.
    let assumed = "simulation.constants={object_store.service.request_latency_s: {value: 0.05, \
                   assumed: a test}, object_store.service.stream_bytes_per_s: {value: 8e7, \
                   assumed: a test}}";
    let stated = [
        "--set",
        "simulation.compute=[stated-flops]",
        "--set",
        assumed,
    ];
    assert_eq!(
        words(&equal("fitted", &stated[..2])),
        ["agrees", put_in, "holds"]
    );
    // Stated rates are drawn, four times wider than what was put in.
    assert_eq!(
        words(&equal("stated", &stated)),
        ["agrees", "rather_agrees", "holds"]
    );
}

#[test]
fn a_simulated_run_says_what_it_stands_on() {
    let scene = Scene::new(CLAIMED);
    let (run, output) = scene.run("run", &[], 0);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("Every figure is simulated. Profile aws-us-east-1-2024 (compiled client):"),
        "{table}"
    );
    let manifest = json(&run.join("manifest.json"));
    assert_eq!(manifest["schema_version"]["minor"], SCHEMA_VERSION.minor);
    let record = &manifest["simulation"];
    let constants = record["constants"].as_array().unwrap();
    let stated = constants
        .iter()
        .filter(|constant| constant["stated"] == true);
    let stated: Vec<&Value> = stated.collect();
    assert_eq!(stated.len(), 1);
    assert_eq!(stated[0]["path"], "object_store.service.request_latency_s");
    assert_eq!(stated[0]["value"], 0.05);
    assert_eq!(record["compute"][0]["costs"][0]["model"], "mobilenet");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    let twin = fs::read_to_string(run.join("report.md")).unwrap();
    for text in [&page, &twin] {
        assert!(text.contains("Every figure here is simulated"));
        assert!(text.contains("Sources of the simulation"));
        assert!(text.contains("stated by the experiment"));
        assert!(!text.contains("1970"));
    }
    for constant in constants {
        assert!(
            page.contains(constant["path"].as_str().unwrap()),
            "{constant}"
        );
    }
    assert!(page.contains(r#"class="simulated""#));
    let warned = String::from_utf8(output.stderr).unwrap();
    assert!(!warned.contains("the machine was busy"), "{warned}");
}

/// The very code that trains on this machine trains in virtual time.
#[test]
fn training_in_virtual_time_gives_the_losses_of_real_time() {
    let scene = Scene::new(TRAINED);
    let worker = find_or_build().unwrap().path.canonicalize().unwrap();
    let rows = |platform: &str| {
        let mut command = scene.command(platform, &["--platform", platform]);
        let output = command.env(WORKER_VARIABLE, &worker).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}");
        json(&scene.0.path().join(platform).join("summary.json"))["rows"].clone()
    };
    let (local, simulated) = (rows("local"), rows("sim"));
    for (real, virtual_) in local
        .as_array()
        .unwrap()
        .iter()
        .zip(simulated.as_array().unwrap())
    {
        assert_eq!(real["id"], virtual_["id"]);
        for figure in [
            "/figures/train_loss/mean",
            "/figures/accuracy/mean",
            "/replicas_identical",
            "/closed_form",
        ] {
            let [a, b] = [real, virtual_].map(|row| row.pointer(figure));
            assert_eq!(a, b, "{} of {}", figure, real["id"]);
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
    let scene = Scene::new(&swept);
    let (run, output) = scene.run("out", &[], 0);
    let summary = json(&run.join("summary.json"));
    let precisions: Vec<_> = (0..2)
        .map(|row| &summary["rows"][row]["precision"])
        .collect();
    assert_eq!(precisions, [&Value::Null, &"bf16".into()]);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("tuned, bf16"), "{printed}");
    let warned = String::from_utf8_lossy(&output.stderr);
    assert!(warned.contains("changes no simulated time"), "{warned}");
    let page = fs::read_to_string(run.join("report.md")).unwrap();
    assert!(page.contains("tuned, bf16"), "{page}");
}
