//! Plans for models and data of one's own: fair opponents, shared work, and profiles that
//! count.

use std::fs;
use std::path::Path;

use crate::support::epochcost;

use serde_json::Value;
use tempfile::TempDir;

/// A described model on described data, whose workers share an epoch.
const EXPERIMENT: &str = "\
schema: 1
name: mine
platform: sim
dataset: {samples: 20000, test: 1000, bytes_per_sample: 3073}
models:
  - {name: mine, parameters: 1000000, flops_per_sample: 1.0e+8, activation_bytes_per_sample: 1048576}
model: mine
workers: 4
batch_size: 100
epochs: 2
memory_mb: 3538
systems: [scatterreduce, gpu_baseline]
";

/// A compute profile of a model: a hundredth of a second per sample.
const PROFILE: &str = "\
schema: 1
name: measured-here
about: test
origin: measured
models:
  - {model: mine, device: cuda, fixed_s: 0, sample_s: 0.01, parallel: 0.9, evaluate_sample_s: 0.001,
     build_s: 0, fixed_mb: 10, sample_mb: 1, source: test, date: 2026-11-22}
";

fn directory(experiment: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x.yaml"), experiment).unwrap();
    directory
}

#[track_caller]
fn plan_in(directory: &Path, arguments: &[&str]) -> (Value, String) {
    let output = epochcost(
        directory,
        &[&["plan", "x.yaml", "--json"], arguments].concat(),
    );
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{message}");
    (serde_json::from_slice(&output.stdout).unwrap(), message)
}

#[track_caller]
fn plan(experiment: &str, arguments: &[&str]) -> Value {
    plan_in(directory(experiment).path(), arguments).0
}

#[track_caller]
fn refusal(experiment: &str, arguments: &[&str]) -> String {
    let directory = directory(experiment);
    let output = epochcost(directory.path(), &[&["plan", "x.yaml"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn rows(plan: &Value) -> &[Value] {
    plan["rows"].as_array().unwrap()
}

#[test]
fn one_instance_alone_is_always_a_row_and_trains_the_same_samples() {
    let plan = plan(EXPERIMENT, &[]);
    let alone = rows(&plan).last().unwrap();
    assert_eq!(alone["id"], "one-instance-alone");
    assert_eq!(alone["workers"], 1);
    assert_eq!(alone["estimate"]["traffic"]["bytes_up"], 0);
    for row in rows(&plan) {
        assert_eq!(row["samples"], 40_000, "{row:#}");
    }
    // A row that is one already needs no other.
    let stated = EXPERIMENT.replace(
        "gpu_baseline]",
        "gpu_baseline, {system: mirrored, workers: 1}]",
    );
    assert_eq!(rows(&self::plan(&stated, &[])).len(), 3);
    // Models of this program are planned as they are stated.
    let known = EXPERIMENT.replace("model: mine\n", "model: mobilenet\n");
    assert_eq!(rows(&self::plan(&known, &[])).len(), 2);
}

/// One instance alone is cheaper than every row of the shipped example, and was not listed
/// once.
#[test]
fn the_shipped_example_names_what_is_cheapest() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/own-model.yaml");
    let plan = plan(&fs::read_to_string(root).unwrap(), &[]);
    let figure = |row: &Value, field: &str| row["estimate"][field].as_f64();
    let (alone, others) = rows(&plan).split_last().unwrap();
    assert_eq!(alone["on_frontier"], true);
    let mut dollars = others.iter().filter_map(|row| figure(row, "cost_full_usd"));
    let own = figure(alone, "cost_full_usd").unwrap();
    assert!(dollars.clone().count() > 2);
    assert!(dollars.all(|other| own < other));
}

#[test]
fn workers_share_the_work_that_is_asked_for() {
    let batches = EXPERIMENT.replace("epochs: 2\n", "epochs: 1\nbatches_per_worker: 9\n");
    let sweep = ["--sweep", "workers=1,2,4,8"];
    let fixed = plan(&batches, &[&sweep[..], &["--samples", "8000"]].concat());
    for row in rows(&fixed) {
        assert_eq!(row["samples"], 8_000, "{row:#}");
    }
    let epochs = plan(&batches, &[&sweep[..], &["--epochs", "3"]].concat());
    for row in rows(&epochs) {
        assert_eq!(
            (&row["samples"], &row["epochs"]),
            (&60_000.into(), &3.into())
        );
    }
    // Without either, each worker does what the file says of a worker.
    let own = plan(&batches, &sweep);
    assert_eq!(rows(&own)[0]["samples"], 900);
    assert_eq!(rows(&own)[3]["samples"], 7_200);
    let both = batches.replace("epochs: 1\n", "epochs: 1\nsamples: 100\n");
    let refused = refusal(&both, &[]);
    assert!(
        refused.contains("`samples` and `batches_per_worker`"),
        "{refused}"
    );
    assert!(refusal(EXPERIMENT, &["--samples", "5", "--epochs", "1"]).contains("--epochs"));
}

#[test]
fn described_models_are_evaluated_only_where_that_is_asked_for() {
    let evaluated = |experiment: &str| {
        let plan = plan(experiment, &[]);
        let stages = rows(&plan)[1]["estimate"]["stage_seconds"].clone();
        stages["detect_convergence"].as_f64().unwrap()
    };
    assert_eq!(evaluated(EXPERIMENT), 0.0);
    assert!(evaluated(&EXPERIMENT.replace("epochs: 2", "epochs: 2\nevaluate: last")) > 0.0);
}

/// A profile that knows the model gives its step's time; one that does not is named.
#[test]
fn compute_profiles_count_for_described_models() {
    let directory = directory(EXPERIMENT);
    fs::write(directory.path().join("steps.yaml"), PROFILE).unwrap();
    let other = PROFILE.replace("model: mine", "model: another");
    fs::write(directory.path().join("other.yaml"), other).unwrap();
    let (plain, _) = plan_in(directory.path(), &[]);
    let (profiled, said) = plan_in(directory.path(), &["--compute", "./steps.yaml"]);
    assert!(!said.contains("no row uses"), "{said}");
    assert_eq!(profiled["unused_compute"], serde_json::json!([]));
    let compute = |plan: &Value, row: usize| {
        let stages = &rows(plan)[row]["estimate"]["stage_seconds"];
        stages["compute_gradients"].as_f64().unwrap()
    };
    // Two hundred steps of 100 samples by one instance alone.
    assert!(
        (compute(&profiled, 2) - 200.0).abs() < 1e-6,
        "{}",
        compute(&profiled, 2)
    );
    assert_eq!(rows(&profiled)[2]["compute"]["origin"], "measured");
    assert_ne!(compute(&plain, 1), compute(&profiled, 1));
    // The profile says nothing of CPUs, for which the description still speaks.
    assert_eq!(compute(&plain, 0), compute(&profiled, 0));
    // Places take what was measured anywhere for the steps of their references, and say so.
    let answer = ["--deadline", "2h", "--place", "aws-g4dn.xlarge"];
    let places = [
        &["plan", "x.yaml", "--compute", "./steps.yaml"],
        &answer[..],
    ]
    .concat();
    let text = String::from_utf8(epochcost(directory.path(), &places).stdout).unwrap();
    assert!(
        text.contains("measured, and taken as the steps of one vCPU"),
        "{text}"
    );
    let (unused, said) = plan_in(directory.path(), &["--compute", "./other.yaml"]);
    assert_eq!(unused["unused_compute"][0]["profile"], "measured-here");
    assert!(
        said.contains("no row uses the compute profile measured-here"),
        "{said}"
    );
    assert_eq!(compute(&plain, 1), compute(&unused, 1));
}

/// A search for an answer honours what the experiment and its rows state of the platform.
#[test]
fn an_answer_stands_on_the_profile_and_the_client_that_are_asked_for() {
    let seconds = |arguments: &[&str]| {
        let answer = ["--budget", "100usd", "--place", "lambda-x86"];
        let experiment = EXPERIMENT.replace(", gpu_baseline", "");
        let plan = plan(&experiment, &[&answer[..], arguments].concat());
        plan["answer"]["answer"]["seconds"].as_f64().unwrap()
    };
    let stated = seconds(&[]);
    let [interpreted, fitted, late, of_row] = [
        ["--set", "simulation.client=interpreted"],
        ["--profile", "aws-us-east-1"],
        [
            "--set",
            "simulation.constants={function.cold_start_s: {value: 60, assumed: x}}",
        ],
        [
            "--set",
            "systems=[{system: scatterreduce, client: interpreted}]",
        ],
    ]
    .map(|change| seconds(&change));
    assert!(
        interpreted > stated && fitted > stated,
        "{stated}: {interpreted} {fitted}"
    );
    assert!(late > stated + 50.0, "{stated} {late}");
    assert_eq!(of_row, interpreted);
    // Limits and time-outs.
    let none = [
        "--deadline",
        "10h",
        "--place",
        "lambda-x86",
        "--set",
        "timeout_s=2",
    ];
    let with = |more: &[&str]| plan(EXPERIMENT, &[&none[..], more].concat());
    assert!(with(&[])["answer"]["answer"].is_null());
    assert!(!with(&["--set", "simulation.limits=false"])["answer"]["answer"].is_null());
    // What cannot be had at a place is refused, or said where all are searched.
    let place = ["--deadline", "2h", "--place", "cloud-run-l4"];
    let set = ["--set", "simulation.client=interpreted"];
    let problem = "cloud-run-l4: its profile serverless-gpu describes no interpreted client";
    let said = refusal(EXPERIMENT, &[&place[..], &set].concat());
    assert!(said.contains(problem), "{said}");
}

#[test]
fn described_data_are_checked_and_only_simulated() {
    let without = |part: &str| refusal(&EXPERIMENT.replace(part, ""), &[]);
    assert!(without(", bytes_per_sample: 3073").contains("need `samples` and `bytes_per_sample`"));
    assert!(without("samples: 20000, ").contains("need `samples` and `bytes_per_sample`"));
    let named = EXPERIMENT.replace("samples: 20000", "samples: 20000, seed: 3");
    assert!(refusal(&named, &[]).contains("`seed` is of data in files"));
    let unknown = EXPERIMENT.replace(
        "samples: 20000, test: 1000, bytes_per_sample: 3073",
        "name: mine",
    );
    assert!(refusal(&unknown, &[]).contains("unknown dataset `mine`"));
    let directory = directory(&EXPERIMENT.replace("model: mine\n", "model: mobilenet\n"));
    let run = epochcost(
        directory.path(),
        &["run", "x.yaml", "--platform", "local", "--dry-run"],
    );
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("there are no files of them"), "{said}");
    // The bytes of a sample are what is fetched.
    let fetched = |bytes: &str| {
        let experiment = EXPERIMENT.replace("3073", bytes);
        let plan = plan(&experiment, &[]);
        rows(&plan)[2]["estimate"]["dataset_traffic"]["bytes_down"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(
        (fetched("3073"), fetched("10")),
        (20_000 * 3_073, 20_000 * 10)
    );
}
