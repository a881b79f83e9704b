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

/// Numbers beyond any machine are refused with their place, or their rows are said to fail: no
/// panic, no overflow, and a plan that ends.
#[test]
fn numbers_beyond_any_machine_are_refused() {
    let most = u64::MAX;
    for (field, value) in [
        ("dataset.samples", format!("{most}")),
        ("dataset.test", format!("{most}")),
        ("dataset.bytes_per_sample", format!("{most}")),
    ] {
        let refused = refusal(EXPERIMENT, &["--set", &format!("{field}={value}")]);
        assert!(
            refused.contains(field) && refused.contains("is outside"),
            "{refused}"
        );
    }
    for (field, of) in [
        ("flops_per_sample", "1e308"),
        ("parameters", "18446744073709551615"),
    ] {
        let line = EXPERIMENT
            .lines()
            .find(|line| line.contains(field))
            .unwrap();
        let own = line
            .split(field)
            .nth(1)
            .unwrap()
            .split([',', '}'])
            .next()
            .unwrap();
        let huge = EXPERIMENT.replace(&format!("{field}{own}"), &format!("{field}: {of}"));
        let refused = refusal(&huge, &[]);
        assert!(refused.contains(field), "{refused}");
    }
    let slow = "activation_bytes_per_sample: 1048576, cpu_flops_per_s: 1.0}";
    let slow = EXPERIMENT.replace("activation_bytes_per_sample: 1048576}", slow);
    let plan = plan(&slow, &[]);
    let years = rows(&plan).iter().find_map(|row| row["failure"].as_str());
    assert!(years.unwrap().contains("years"), "{plan:#}");
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

/// A search tries systems that do not know the experiment's settings; with -v it shows its rows.
#[test]
fn settings_of_the_experiment_are_of_its_own_systems() {
    let one = "settings: {rounds_per_epoch: 2}\nsystems: [spirt]";
    let small = EXPERIMENT.replace("samples: 20000", "samples: 1600");
    let directory = directory(&small.replace("systems: [scatterreduce, gpu_baseline]", one));
    let question = [
        "plan",
        "x.yaml",
        "--budget",
        "5usd",
        "--place",
        "lambda-x86",
    ];
    let [text, with_rows] = [&question[..], &[&question[..], &["-v"]].concat()].map(|arguments| {
        let output = epochcost(directory.path(), arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
    assert!(text.contains("SPIRT"), "{text}");
    assert!(
        !text.contains("sync s") && with_rows.contains("sync s"),
        "{text}"
    );
}

/// A search for an answer honours what the experiment and its rows state of the platform.
#[test]
fn an_answer_stands_on_the_profile_and_the_client_that_are_asked_for() {
    // Little work, so that every search takes about a second.
    let small = EXPERIMENT.replace("samples: 20000", "samples: 1600");
    let small = small
        .replace(", gpu_baseline", "")
        .replace("epochs: 2", "epochs: 1");
    let seconds = |arguments: &[&str]| {
        let answer = ["--budget", "100usd", "--place", "lambda-x86"];
        let plan = plan(&small, &[&answer[..], arguments].concat());
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
    // Another setting may be the cheapest of those that tie, so that the answer may be faster, too.
    assert!(
        interpreted != stated && fitted != stated,
        "{stated}: {interpreted} {fitted}"
    );
    assert!(late > stated + 50.0, "{stated} {late}");
    assert_eq!(of_row, interpreted);
    // Under a short time-out only workers that go on in another function are possible, as `tuned`
    // ones do; without limits it does not hold.
    let short = [
        "--deadline",
        "10h",
        "--place",
        "lambda-x86",
        "--set",
        "timeout_s=2",
    ];
    let answer = |more: &[&str]| {
        let plan = plan(&small, &[&short[..], more].concat());
        plan["answer"]["answer"].clone()
    };
    let (held, lifted) = (answer(&[]), answer(&["--set", "simulation.limits=false"]));
    assert_eq!(
        (&held["fidelity"], &lifted["fidelity"]),
        (&"tuned".into(), &"paper".into())
    );
    assert!(
        held["usd"].as_f64() > lifted["usd"].as_f64(),
        "{held:#} {lifted:#}"
    );
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
    assert!(without("samples: 20000, ").contains("samples"));
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

/// A plan with a goal, as JSON, and its exit code.
fn goal(arguments: &[&str]) -> (Value, Option<i32>) {
    goal_of(EXPERIMENT, arguments)
}

fn goal_of(experiment: &str, arguments: &[&str]) -> (Value, Option<i32>) {
    let directory = directory(experiment);
    let arguments = [&["plan", "x.yaml", "--json"], arguments].concat();
    let output = epochcost(directory.path(), &arguments);
    let plan = serde_json::from_slice(&output.stdout).unwrap();
    (plan, output.status.code())
}

fn sentences(plan: &Value) -> Vec<&str> {
    let sentences = plan["answer"]["sentences"].as_array().unwrap();
    sentences.iter().map(|s| s.as_str().unwrap()).collect()
}

/// The question comes first, with who stated its amounts; the answer says in how many draws it
/// keeps the goal, and which price nobody read.
#[test]
fn an_answer_repeats_the_question_and_says_its_chance() {
    let places = [
        "--place",
        "aws-g4dn.12xlarge",
        "--deadline",
        "2h",
        "--budget",
        "5usd",
    ];
    let (plan, code) = goal(&places);
    assert_eq!(code, Some(0));
    let said = sentences(&plan);
    assert_eq!(
        said[0],
        "Question: train mine, 20,000 samples x 2 epochs (from the experiment file), within 2 h and $5."
    );
    let answer = &plan["answer"]["answer"];
    assert_eq!(answer["chance"]["draws"], 200);
    assert!(
        answer["chance"]["kept"].as_u64().unwrap() >= 190,
        "{answer}"
    );
    assert!(
        said[1].contains("price assumed, not read on 2026-11-21"),
        "{}",
        said[1]
    );
    assert!(
        said[1].contains("It keeps 2 h and $5 in all 200 draws"),
        "{}",
        said[1]
    );
    // Every figure lies in its range.
    for (figure, range) in [("seconds", "seconds_range"), ("usd", "usd_range")] {
        let of = |value: &Value| value.as_f64().unwrap();
        let (low, high) = (of(&answer[range]["p5"]), of(&answer[range]["p95"]));
        assert!(
            low <= of(&answer[figure]) && of(&answer[figure]) <= high,
            "{answer:#}"
        );
    }
    let (plan, _) = goal(&[&places[..], &["--epochs", "3"]].concat());
    let text = plan["answer"]["question"]["text"].as_str().unwrap();
    let expected = "20,000 samples (from the experiment file) x 3 epochs (from --epochs 3)";
    assert!(text.contains(expected), "{text}");
}

/// Just above the fastest time, half of the draws are too late: the likeliest is named, and the exit
/// code is that of an unmet goal.
#[test]
fn a_goal_that_no_setting_keeps_is_unmet() {
    let place = ["--place", "modal-t4"];
    let (plan, _) = goal(&[&place[..], &["--deadline", "2h"]].concat());
    let frontier = plan["answer"]["frontier"].as_array().unwrap();
    let seconds = frontier
        .iter()
        .map(|choice| choice["seconds"].as_f64().unwrap());
    let deadline = format!("{}s", seconds.fold(f64::INFINITY, f64::min) * 1.001);
    let (plan, code) = goal(&[&place[..], &["--any-steps", "--deadline", &deadline]].concat());
    assert_eq!(code, Some(3), "{plan:#}");
    assert!(plan["answer"]["answer"].is_null());
    let kept = plan["answer"]["likeliest"]["chance"]["kept"]
        .as_u64()
        .unwrap();
    assert!((1..190).contains(&kept), "{kept}");
    assert!(
        sentences(&plan)[1].starts_with("No setting keeps"),
        "{:?}",
        sentences(&plan)
    );
    let (plan, code) = goal(&[&place[..], &["--budget", "0.000001usd"]].concat());
    assert_eq!(code, Some(3));
    assert!(sentences(&plan)[1].starts_with("Nothing trains this within"));
}

/// More workers at the same batch size take fewer optimizer steps than the experiment's four, and
/// are the answer only if that is asked for.
#[test]
fn fewer_optimizer_steps_are_no_answer_unless_asked_for() {
    let experiment = EXPERIMENT.replace("flops_per_sample: 1.0e+8", "flops_per_sample: 1.0e+10");
    let plan = |more: &[&str]| {
        let few = ["--set", "batch_size=1000", "--set", "epochs=1"];
        let question = ["--place", "aws-g4dn.xlarge-spot", "--budget", "5usd"];
        goal_of(&experiment, &[&few[..], &question, more].concat()).0
    };
    let steps = |choice: &Value| choice["steps_per_epoch"].as_u64().unwrap();
    let own = plan(&[]);
    assert_eq!(steps(&own["answer"]["question"]), 5);
    assert!(steps(&own["answer"]["answer"]) >= 5);
    assert!(steps(&own["answer"]["fewer_steps"]) < 5);
    let said = sentences(&own);
    assert!(
        said[2].starts_with("Excluded: ") && said[2].contains("--any-steps"),
        "{said:?}"
    );
    let any = plan(&["--any-steps"]);
    assert!(steps(&any["answer"]["answer"]) < 5);
    assert!(any["answer"]["fewer_steps"].is_null());
    assert!(sentences(&any)[1].contains("optimizer steps per epoch, and the experiment 5"));
}

fn break_even<'a>(plan: &'a Value, quantity: &str) -> &'a Value {
    let mut found = plan["answer"]["break_evens"].as_array().unwrap().iter();
    found.find(|even| even["quantity"] == quantity).unwrap()
}

/// Beyond the longest time of a function, instances are cheaper; what is never cheaper is said of the
/// amounts that were tried, and of the two settings that were compared.
#[test]
fn break_evens_are_of_two_settings_and_what_was_tried() {
    let places = ["--place", "lambda-arm", "--place", "aws-g6.12xlarge"];
    let question = ["--deadline", "2h", "--epochs", "1"];
    let (plan, _) = goal(&[&places[..], &question].concat());
    let samples = break_even(&plan, "samples");
    let text = samples["text"].as_str().unwrap();
    assert_eq!(samples["cheaper_below"], "function", "{text}");
    assert!(
        text.contains("instances become cheaper above")
            && text.contains("functions are not possible"),
        "{text}"
    );
    let said = sentences(&plan);
    for host in ["functions", "instances"] {
        let what = plan["answer"][host]["what"].as_str().unwrap();
        assert!(said.last().unwrap().contains(what), "{said:?}");
    }
    // Runs per month divide from the dollars that are shown.
    let runs = break_even(&plan, "runs_per_month")["at"].as_f64().unwrap();
    let run_usd = plan["answer"]["functions"]["usd"].as_f64().unwrap();
    assert!(
        (runs * run_usd / (720.0 * 4.6016) - 1.0).abs() < 1e-9,
        "{runs} {run_usd}"
    );
}

/// Instances have memory as functions do; where theirs is not known, the answer says so.
#[test]
fn an_instance_needs_memory_for_the_model() {
    let large = EXPERIMENT.replace("parameters: 1000000", "parameters: 7000000000");
    let (plan, code) = goal_of(
        &large,
        &["--place", "aws-r5.large", "--deadline", "5d", "-v"],
    );
    assert_eq!(code, Some(3));
    assert_eq!(plan["answer"]["possible"], 0);
    let alone = rows(&plan).last().unwrap();
    assert_eq!(alone["infeasible"]["limit"], "memory", "{alone:#}");
    let reason = alone["infeasible"]["reason"].as_str().unwrap();
    assert!(reason.ends_with(" MB of 16384 MB"), "{reason}");
    let (plan, _) = goal_of(&large, &["--place", "runpod-l40s", "--deadline", "5d"]);
    assert_eq!(plan["answer"]["answer"]["is_memory_checked"], false);
    assert!(
        sentences(&plan)[1].contains("memory not checked"),
        "{:?}",
        sentences(&plan)
    );
    // Without limits, the peak is the number that it is.
    let activations = ["--set", "models.0.activation_bytes_per_sample=1e15"];
    let unlimited = ["--set", "simulation.limits=false"];
    let plan = self::plan(EXPERIMENT, &[activations, unlimited].concat());
    let peak_mb = rows(&plan).last().unwrap()["estimate"]["peak_memory_mb"].as_u64();
    assert!(peak_mb.unwrap() > u64::from(u32::MAX), "{peak_mb:?}");
}

/// Replicas of one machine are as many as it has GPUs, and memory is a limit on instances, too.
#[test]
fn limits_of_instances_are_their_gpus_and_their_memory() {
    let large = EXPERIMENT.replace("parameters: 1000000", "parameters: 200000000");
    let plan = plan(&large, &["--limits", "--up-to", "100"]);
    let [_, of_many, alone] = plan["limits"].as_array().unwrap().as_slice() else {
        panic!("{:#}", plan["limits"]);
    };
    assert_eq!(
        of_many["then"]["infeasible"]["limit"], "memory",
        "{of_many:#}"
    );
    assert_eq!(
        (&alone["feasible_up_to"], &alone["fails_at"]),
        (&1.into(), &2.into())
    );
    let reason = alone["then"]["failed"].as_str().unwrap();
    assert!(reason.ends_with("g4dn.xlarge has 1"), "{reason}");
}

/// What begins with a hyphen is a value that cannot be read, not an option that is not known.
#[test]
fn a_negative_time_is_refused_with_the_units() {
    for options in [
        &["--deadline", "-1h"][..],
        &["--limits", "--limits-within", "-1h"],
    ] {
        let said = refusal(EXPERIMENT, options);
        assert!(said.contains("give a time with its unit"), "{said}");
    }
    let said = refusal(EXPERIMENT, &["--budget", "-5usd"]);
    assert!(said.contains("give US dollars"), "{said}");
}

/// One function exchanges with none, whatever the system that it belongs to.
#[test]
fn one_function_is_called_that() {
    let (plan, _) = goal(&["--place", "lambda-x86", "--deadline", "5h"]);
    let what = plan["answer"]["answer"]["what"].as_str().unwrap();
    assert_eq!(what, "one Lambda function (x86, 1,769 MB)");
    let text = plan["answer"].to_string();
    assert!(!text.contains("ScatterReduce with 1 worker"), "{text}");
}

/// What MLLess's functions cost falls with their memory as long as they lack a part of a vCPU, and rises from there
/// on, where a model uses one only. That size is no multiple of the 64 MB that others are searched by.
#[test]
fn the_size_of_exactly_one_vcpu_is_tried() {
    let experiment = EXPERIMENT
        .replace("[scatterreduce, gpu_baseline]", "[mlless]")
        .replace("parameters: 1000000", "parameters: 100000");
    let directory = directory(&(experiment + "simulation: {compute: [serial.yaml]}\n"));
    let serial = PROFILE
        .replace("cuda", "cpu")
        .replace("parallel: 0.9", "parallel: 0");
    fs::write(directory.path().join("serial.yaml"), serial).unwrap();
    let (plan, _) = plan_in(directory.path(), &["--cheapest-memory"]);
    assert_eq!(plan["cheapest_memory"][0]["memory_mb"], 1769, "{plan:#}");
}
