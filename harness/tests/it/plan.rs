//! `epochcost plan` says what an experiment would take, from simulations alone.
//! Nothing here depends on how long anything takes.
use std::fs;
use std::path::Path;

use crate::support::epochcost;

use serde_json::Value;
use tempfile::TempDir;

/// Five systems, for a platform that is not simulated and data that is not there.
const EXPERIMENT: &str = "\
schema: 1
name: planned
platform: local
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 32
batches_per_worker: 3
epochs: 2
memory_mb: 3008
systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]
";

const ROWS: [&str; 5] = [
    "spirt",
    "mlless",
    "scatterreduce",
    "allreduce",
    "gpu_baseline",
];

fn directory(experiment: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x.yaml"), experiment).unwrap();
    directory
}

#[track_caller]
fn plan_in(directory: &Path, arguments: &[&str]) -> String {
    let output = epochcost(directory, &[&["plan", "x.yaml"], arguments].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

/// The plan of the experiment as JSON.
#[track_caller]
fn plan(experiment: &str, arguments: &[&str]) -> Value {
    let directory = directory(experiment);
    let text = plan_in(directory.path(), &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().unwrap()
}

fn shipped(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn an_experiment_of_any_platform_is_planned_without_its_data() {
    let directory = directory(EXPERIMENT);
    let text = plan_in(directory.path(), &[]);
    for row in ROWS {
        let id = format!("{}-mobilenet-paper", row.replace('_', "-"));
        assert!(text.contains(&id), "no {id} in:\n{text}");
    }
    let says = [
        "every figure is simulated",
        "Profile aws-us-east-1-2024 (compiled client): on measured whole functions and runs",
        "stated-flops",
        // What is billed is said in words; its names in bills stand in `-v`.
        "function time $",
        "Fastest (simulated): ",
        "Cheapest (simulated): ",
    ];
    for word in says {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
    // Nothing but the experiment is there.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(text, plan_in(directory.path(), &[]));
}

/// A plan is what a simulated run measures.
#[test]
fn a_plan_has_the_figures_of_a_simulated_run() {
    let directory = directory(EXPERIMENT);
    let run = [
        "run",
        "x.yaml",
        "--platform",
        "sim",
        "--out",
        "out",
        "--json",
    ];
    let output = epochcost(directory.path(), &run);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    let plan: Value = serde_json::from_str(&plan_in(directory.path(), &["--json"])).unwrap();
    assert_eq!(plan["schema_version"]["major"], 1);
    assert_eq!(items(&plan, "rows").len(), 5);
    for (planned, row) in items(&plan, "rows").iter().zip(items(&run, "rows")) {
        assert_eq!(planned["id"], row["id"]);
        let estimate = &planned["estimate"];
        let equal = |a: &Value, b: &Value| {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!(
                (a - b).abs() <= 1e-9 * b.abs(),
                "{}: {a} and {b}",
                row["id"]
            );
        };
        equal(
            &estimate["seconds_per_epoch"],
            &row["figures"]["seconds_per_epoch"]["mean"],
        );
        for field in [
            "cost_paper_usd",
            "cost_full_usd",
            "billed_ms",
            "peak_memory_mb",
        ] {
            equal(&estimate[field], &row["figures"][field]["mean"]);
        }
        for stage in ["compute_gradients", "synchronise"] {
            equal(
                &estimate["stage_seconds"][stage],
                &row["figures"][stage]["mean"],
            );
        }
        for count in [
            "puts",
            "gets",
            "lists",
            "messages",
            "bytes_up",
            "bytes_down",
        ] {
            equal(&estimate["traffic"][count], &row["traffic"][count]);
        }
        for (bill, total) in items(estimate, "bills")
            .iter()
            .zip(["cost_paper_usd", "cost_full_usd"])
        {
            let lines = items(bill, "items")
                .iter()
                .map(|item| item["usd"].as_f64().unwrap());
            equal(&Value::from(lines.sum::<f64>()), &estimate[total]);
        }
    }
}

#[test]
fn the_shipped_description_of_a_model_is_planned_and_valid() {
    let text = shipped("experiments/own-model.yaml");
    let plan = plan(&text, &[]);
    // Those of the file, and one instance alone.
    assert_eq!(items(&plan, "rows").len(), 6);
    for row in items(&plan, "rows") {
        assert_eq!(row["infeasible"], Value::Null, "{row:#}");
        assert!(
            row["estimate"]["seconds"].as_f64().unwrap() > 0.0,
            "{row:#}"
        );
        assert_eq!(row["compute"]["origin"], "stated");
    }
    assert!(
        items(&plan, "rows")
            .iter()
            .any(|row| row["on_frontier"] == true)
    );
    let directory = directory(&text);
    // A simulation reads no data: none are here.
    let check = epochcost(directory.path(), &["check", "x.yaml"]);
    assert_eq!(check.status.code(), Some(0), "{check:?}");
}

/// A model that is only described costs what a known one of the same sizes
/// and durations does.
#[test]
fn a_described_model_is_planned_as_a_known_one() {
    let (parameters, statistics) = (3_217_226, 21_888);
    // One instance alone is among the rows of either.
    let alone = "  - {system: mirrored, name: alone, workers: 1}\n";
    let experiment = EXPERIMENT.replace("systems: [", "systems:\n  - ");
    let experiment = experiment.replace(", allreduce", "\n  - allreduce");
    let experiment =
        experiment.replace(", mlless, scatterreduce", "\n  - mlless\n  - scatterreduce");
    let experiment = experiment.replace(", gpu_baseline]", "\n  - gpu_baseline") + alone;
    // A model that is only described is evaluated where that is asked for.
    let described = experiment.replace("model: mobilenet", "model: mine\nevaluate: last")
        + &format!(
            "models:\n  - {{name: mine, parameters: {parameters}, statistics: {statistics}, \
             input: [3, 32, 32], flops_per_sample: 1.0e+8, activation_bytes_per_sample: 1048576, \
             cpu_flops_per_s: 2.0e+10, gpu_flops_per_s: 2.0e+12}}\n"
        );
    let cost = |device: &str, forward_s: f64| {
        let vectors = if device == "cuda" {
            "vector_bytes_per_s: 2.2e+11, "
        } else {
            ""
        };
        format!(
            "  - {{model: mobilenet, device: {device}, fixed_s: 0, sample_s: {}, parallel: 0.9, \
             evaluate_sample_s: {forward_s}, build_s: 0, fixed_mb: {}, sample_mb: 1, {vectors}\
             source: test, date: 2026-11-21}}\n",
            3.0 * forward_s,
            16.0 * f64::from(parameters) / f64::from(1 << 20)
        )
    };
    let profile = format!(
        "schema: 1\nname: same\nabout: test\norigin: stated\nmodels:\n{}{}",
        cost("cpu", 1e8 / 2e10),
        cost("cuda", 1e8 / 2e12)
    );
    let directory = directory(&experiment);
    fs::write(directory.path().join("same.yaml"), profile).unwrap();
    let text = plan_in(directory.path(), &["--compute", "./same.yaml", "--json"]);
    let known: Value = serde_json::from_str(&text).unwrap();
    let described = plan(&described, &[]);
    assert_eq!(items(&described, "rows").len(), items(&known, "rows").len());
    for (described, known) in items(&described, "rows").iter().zip(items(&known, "rows")) {
        assert_eq!(described["model"], "mine");
        assert_eq!(described["estimate"], known["estimate"], "{}", known["id"]);
        assert_eq!(described["smallest_memory_mb"], known["smallest_memory_mb"]);
        assert_eq!(described["on_frontier"], known["on_frontier"]);
    }
}

#[test]
fn infeasible_settings_of_a_sweep_are_rows_that_name_the_limit() {
    let sweep = ["--sweep", "workers=2,4", "--sweep", "memory_mb=64,160,2048"];
    let plan = plan(EXPERIMENT, &sweep);
    assert_eq!(items(&plan, "rows").len(), 5 * 2 * 3);
    for row in items(&plan, "rows") {
        let id = row["id"].as_str().unwrap();
        let is_feasible = row["system"] == "gpu_baseline" || id.ends_with("-2048");
        assert_eq!(row["estimate"].is_object(), is_feasible, "{row:#}");
        if !is_feasible {
            assert_eq!(row["infeasible"]["limit"], "memory", "{row:#}");
            assert_eq!(row["on_frontier"], false);
        }
        if row["system"] != "gpu_baseline" {
            // What it would take is the same, however little it was given.
            let smallest = row["smallest_memory_mb"].as_u64().unwrap();
            assert!((161..2048).contains(&smallest), "{row:#}");
        }
    }
    let directory = directory(EXPERIMENT);
    let text = plan_in(directory.path(), &sweep);
    assert!(text.contains("infeasible (memory): "), "{text}");
    assert!(
        text.contains("64 MB is outside the sizes of a function"),
        "{text}"
    );
}

/// The smallest size is feasible, and one MB less is not.
#[test]
fn the_smallest_size_is_the_smallest() {
    let planned = plan(EXPERIMENT, &[]);
    for row in items(&planned, "rows").iter().take(4) {
        let smallest = row["smallest_memory_mb"].as_u64().unwrap();
        let sizes = format!("memory_mb={},{smallest}", smallest - 1);
        let one = EXPERIMENT.replace(&ROWS.join(", "), row["system"].as_str().unwrap());
        let around = plan(&one, &["--sweep", &sizes]);
        let feasible: Vec<bool> = items(&around, "rows")
            .iter()
            .map(|row| row["infeasible"].is_null())
            .collect();
        assert_eq!(feasible, [false, true], "{around:#}");
    }
}

/// With a limit of 8 functions: 8 workers, but 7 of MLLess, whose supervisor is
/// a function as well; instances are no functions.
#[test]
fn the_boundary_of_a_limit_is_exact() {
    let aws = shipped("harness/profiles/aws-us-east-1.yaml");
    let tiny = aws.replace(
        "concurrency_limit:\n    value: 1000\n",
        "concurrency_limit:\n    value: 8\n",
    );
    assert_ne!(tiny, aws);
    let directory = directory(EXPERIMENT);
    fs::write(directory.path().join("tiny.yaml"), tiny).unwrap();
    let options = [
        "--profile",
        "./tiny.yaml",
        "--limits",
        "--up-to",
        "20",
        "--json",
    ];
    let plan: Value = serde_json::from_str(&plan_in(directory.path(), &options)).unwrap();
    let expected = [
        ("spirt", 8),
        ("mlless", 7),
        ("scatterreduce", 8),
        ("allreduce", 8),
        ("gpu_baseline", 20),
    ];
    for ((system, workers), boundary) in expected.into_iter().zip(items(&plan, "limits")) {
        assert_eq!(boundary["feasible_up_to"], workers, "{boundary:#}");
        assert_eq!(boundary["is_cut"], false, "{boundary:#}");
        let then = &boundary["then"];
        if workers == 20 {
            assert_eq!(
                (then, &boundary["not_simulated"]),
                (&Value::Null, &Value::Null)
            );
        } else {
            assert_eq!(then["infeasible"]["limit"], "concurrency", "{boundary:#}");
        }
        // A row of either size says the same.
        let one = EXPERIMENT.replace(&ROWS.join(", "), system);
        fs::write(directory.path().join("x.yaml"), one).unwrap();
        let sizes = format!("workers={workers},{}", workers + 1);
        let options = ["--profile", "./tiny.yaml", "--sweep", &sizes, "--json"];
        let rows: Value = serde_json::from_str(&plan_in(directory.path(), &options)).unwrap();
        let rows = items(&rows, "rows");
        assert!(rows[0]["infeasible"].is_null(), "{:#}", rows[0]);
        assert_eq!(rows[1]["infeasible"], then["infeasible"], "{:#}", rows[1]);
    }
}

/// Rows that are not settled when the time is over are named, and say that nothing is known.
#[test]
fn rows_without_time_for_their_limits_are_named() {
    let directory = directory(EXPERIMENT);
    let options = ["--limits", "--limits-within", "0.000000001s"];
    let text = plan_in(directory.path(), &options);
    let line = text
        .lines()
        .find(|line| line.contains("not settled within"))
        .unwrap();
    let json = plan_in(directory.path(), &[&options[..], &["--json"]].concat());
    let plan: Value = serde_json::from_str(&json).unwrap();
    let limits = items(&plan, "limits");
    assert_eq!(limits.len(), ROWS.len());
    for boundary in limits {
        let id = boundary["id"].as_str().unwrap();
        assert!(line.contains(id), "{line}");
        assert_eq!(boundary["is_cut"], true, "{boundary:#}");
        assert_eq!(boundary["feasible_up_to"], 0, "{boundary:#}");
        assert!(boundary["not_simulated"].is_string(), "{boundary:#}");
    }
}

/// A time-out is met on the way, and not before: the boundary is searched for.
#[test]
fn a_limit_that_only_a_simulation_meets_is_found_exactly() {
    let slow = EXPERIMENT.replace(&ROWS.join(", "), "allreduce") + "timeout_s: 60\n";
    let limits = plan(&slow, &["--limits", "--up-to", "500"]);
    let boundary = &items(&limits, "limits")[0];
    assert_eq!(
        boundary["then"]["infeasible"]["limit"], "duration",
        "{boundary:#}"
    );
    let workers = boundary["feasible_up_to"].as_u64().unwrap();
    assert!((2..500).contains(&workers), "{boundary:#}");
    let around = plan(
        &slow,
        &["--sweep", &format!("workers={workers},{}", workers + 1)],
    );
    let feasible: Vec<bool> = items(&around, "rows")
        .iter()
        .map(|row| row["infeasible"].is_null())
        .collect();
    assert_eq!(feasible, [true, false], "{around:#}");
}

#[test]
fn the_cheapest_memory_is_no_dearer_than_any_of_a_sweep() {
    let three = EXPERIMENT.replace(&ROWS.join(", "), "spirt, allreduce");
    let found = plan(&three, &["--cheapest-memory", "--account", "paper"]);
    let sizes = (2..=40)
        .map(|step| (256 * step).to_string())
        .collect::<Vec<_>>()
        .join(",");
    let swept = plan(&three, &["--sweep", &format!("memory_mb={sizes}")]);
    for (index, cheapest) in items(&found, "cheapest_memory").iter().enumerate() {
        let usd = cheapest["estimate"]["cost_paper_usd"].as_f64().unwrap();
        let rows = &items(&swept, "rows")[index * 39..(index + 1) * 39];
        for row in rows.iter().filter(|row| row["infeasible"].is_null()) {
            let other = row["estimate"]["cost_paper_usd"].as_f64().unwrap();
            assert!(usd <= other * (1.0 + 1e-12), "{cheapest:#}\n{row:#}");
        }
        assert!(
            cheapest["memory_mb"].as_u64()
                >= items(&found, "rows")[index]["smallest_memory_mb"].as_u64()
        );
    }
    // Instances have no memory size to choose.
    assert_eq!(
        items(&plan(EXPERIMENT, &["--cheapest-memory"]), "cheapest_memory").len(),
        4
    );
}

/// 16 MB of an empty worker, 2,027 MB of weights, and 0.7 MB per sample, rounded up: what Table II
/// of the P2P paper is compared with. The peer's process on its instance holds more, which a
/// t2.large has.
#[test]
fn the_memory_of_table_ii_is_the_least_that_works() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let file = "experiments/p2p/table2-memory.yaml";
    let large = ["--set", "instance_type=t2.large"];
    let arguments = ["plan", file, "--cheapest-memory", "--json"];
    let output = epochcost(&root, &[&arguments[..], &large].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (place, (batch, mb)) in [(1024, 2760), (512, 2402), (128, 2133), (64, 2088)]
        .into_iter()
        .enumerate()
    {
        let row = &items(&found, "rows")[place];
        assert_eq!(
            row["smallest_memory_mb"].as_u64(),
            Some(mb),
            "batches of {batch}"
        );
        let of_peer = row["estimate"]["peak_memory_mb"].as_u64();
        assert!(of_peer > Some(mb), "batches of {batch}: {of_peer:?}");
        let cheapest = &items(&found, "cheapest_memory")[place];
        assert!(cheapest["memory_mb"].as_u64() >= Some(mb), "{cheapest:#}");
    }
}

#[test]
fn uncertainty_is_a_function_of_its_seed() {
    let directory = directory(EXPERIMENT);
    let drawn = |seed: &str| -> String {
        plan_in(
            directory.path(),
            &["--uncertainty", "12", "--seed", seed, "--json"],
        )
    };
    let first = drawn("7");
    assert_eq!(first, drawn("7"));
    let (first, other): (Value, Value) = (
        serde_json::from_str(&first).unwrap(),
        serde_json::from_str(&drawn("8")).unwrap(),
    );
    let (first, other) = (&first["uncertainty"], &other["uncertainty"]);
    let ranged: Vec<&str> = items(first, "ranged")
        .iter()
        .map(|p| p.as_str().unwrap())
        .collect();
    assert!(
        ranged.contains(&"object_store.service.request_latency_s"),
        "{ranged:?}"
    );
    assert!(!ranged.contains(&"function.memory_mb_limit"), "{ranged:?}");
    for (row, another) in items(first, "rows").iter().zip(items(other, "rows")) {
        assert_eq!(row["feasible_samples"], 12, "{row:#}");
        for field in [
            "seconds_per_epoch",
            "seconds",
            "cost_paper_usd",
            "cost_full_usd",
        ] {
            let at = |share: &str| row[field][share].as_f64().unwrap();
            let (low, median, high) = (at("p5"), at("p50"), at("p95"));
            assert!(
                0.0 < low && low < median && median < high,
                "{field}: {row:#}"
            );
            assert_ne!(row[field], another[field]);
        }
    }
}

/// A serverless GPU is paid by the second, at a price of its own.
#[test]
fn functions_are_billed_by_the_price_of_their_platform() {
    let gpu = EXPERIMENT.replace("memory_mb: 3008", "memory_mb: 16384");
    let plan = plan(&gpu, &["--profile", "serverless-gpu"]);
    for row in items(&plan, "rows").iter().take(4) {
        for bill in items(&row["estimate"], "bills") {
            let lines = items(bill, "items")
                .iter()
                .map(|item| item["dimension"].as_str().unwrap());
            let lines: Vec<&str> = lines.collect();
            assert!(lines.contains(&"serverless_gpu/cloud_run_l4"), "{lines:?}");
            assert!(
                !lines.iter().any(|line| line.starts_with("lambda")),
                "{lines:?}"
            );
        }
        assert_eq!(row["compute"]["device"], "cuda");
    }
}

#[test]
fn bad_options_are_refused_where_they_stand() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let directory = directory(EXPERIMENT);
        let output = epochcost(directory.path(), &[&["plan", "x.yaml"], arguments].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        for word in words {
            assert!(message.contains(word), "no {word:?} in:\n{message}");
        }
        assert!(output.stdout.is_empty());
    };
    refused(
        &["--sweep", "worker=2"],
        &["--sweep worker=2", "unknown field `worker`", "`workers`"],
    );
    refused(&["--sweep", "workers"], &["--sweep workers", "no values"]);
    refused(
        &["--sweep", "workers=2,none"],
        &["--sweep workers=2,none", "workers"],
    );
    refused(
        &["--profile", "aws"],
        &["--profile aws", "no platform profile `aws`"],
    );
    refused(
        &["--compute", "./none.yaml"],
        &["--compute ./none.yaml", "./none.yaml"],
    );
    refused(&["--up-to", "5"], &["--limits"]);
    refused(&["--limits", "--up-to", "0"], &["--up-to"]);
    refused(&["--limits-within", "9s"], &["--limits"]);
    refused(
        &["--limits", "--limits-within", "soon"],
        &["--limits-within", "90min"],
    );
    refused(&["--uncertainty", "0"], &["--uncertainty"]);
}

#[track_caller]
fn refused(arguments: &[&str], expected: &[&str]) {
    let directory = directory(EXPERIMENT);
    let output = epochcost(directory.path(), &[&["plan", "x.yaml"], arguments].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for expected in expected {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_bandwidth_at_which_nothing_ends_is_refused_where_it_stands() {
    for path in [
        "object_store.service.stream_bytes_per_s",
        "tensor_store.service.server_bytes_per_s",
        "function.arithmetic_bytes_per_s",
    ] {
        for value in ["0", "1e-6"] {
            let set =
                format!("simulation.constants={{{path}: {{value: {value}, assumed: a test}}}}");
            refused(
                &["--set", &set],
                &["--set", path, "never end", "at least 1000"],
            );
        }
    }
}

#[test]
fn an_interpreted_client_needs_a_profile_that_describes_one() {
    let interpreted = ["--set", "simulation.client=interpreted"];
    let fitted = ["--profile", "aws-us-east-1"];
    let problem = "aws-us-east-1 describes no interpreted client";
    refused(
        &[&fitted[..], &interpreted].concat(),
        &[problem, "aws-us-east-1-2024"],
    );
    let of = |client: &[&str]| {
        let plan = plan(EXPERIMENT, client);
        let rows = items(&plan, "rows").iter();
        rows.map(|row| row["estimate"]["seconds"].as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    for (compiled, interpreted) in of(&[]).into_iter().zip(of(&interpreted)) {
        assert!(compiled < interpreted, "{compiled} and {interpreted}");
    }
}

/// An instance type is known if the price book has it that is given, not only the shipped one.
#[test]
fn an_instance_type_is_one_of_the_price_book_that_is_given() {
    let experiment = EXPERIMENT.replace(
        "systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]",
        "systems: [{system: gpu_baseline, instance_type: g6.4xlarge}]",
    );
    let directory = directory(&experiment);
    let output = epochcost(directory.path(), &["plan", "x.yaml"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--prices FILE"), "{message}");
    let book = shipped("harness/prices/us-east-1-2026-11-21.yaml");
    let book = book.replace("dimension: ec2/g6.xlarge", "dimension: ec2/g6.4xlarge");
    fs::write(directory.path().join("book.yaml"), book).unwrap();
    plan_in(directory.path(), &["--prices", "book.yaml"]);
}

#[test]
fn a_plan_names_the_region_and_day_of_its_prices() {
    let book = include_str!("../../prices/us-east-1-2026-11-21.yaml");
    let elsewhere = book.replacen("region: us-east-1", "region: eu-west-1", 1);
    let directory = directory(EXPERIMENT);
    fs::write(directory.path().join("book.yaml"), elsewhere).unwrap();
    let plain = plan_in(directory.path(), &[]);
    assert!(plain.contains("\nprices: us-east-1, 2026-11-21"), "{plain}");
    let other = plan_in(directory.path(), &["--prices", "book.yaml"]);
    assert!(other.contains("\nprices: eu-west-1, 2026-11-21"), "{other}");
}
