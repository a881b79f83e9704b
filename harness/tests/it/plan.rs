//! `epochcost plan` says what an experiment would take, from simulations alone.
//! Nothing here depends on how long anything takes.
use std::fs;

use serde_json::Value;

use crate::support::{Scene, cases, holds, items, lacks, shipped};

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

const SYSTEMS: &str = "spirt, mlless, scatterreduce, allreduce, gpu_baseline";

fn of_systems(systems: &str) -> String {
    EXPERIMENT.replace(SYSTEMS, systems)
}

pub fn scene(experiment: &str) -> Scene {
    Scene::of("x.yaml", experiment)
}

/// The plan of the experiment as JSON.
#[track_caller]
pub fn plan(experiment: &str, arguments: &str) -> Value {
    scene(experiment).json(&format!("plan x.yaml --json {arguments}"))
}

fn is_feasible(plan: &Value) -> Vec<bool> {
    let rows = items(plan, "rows").iter();
    rows.map(|row| row["infeasible"].is_null()).collect()
}

#[track_caller]
pub fn refused(experiment: &str, arguments: &str, words: &[&str]) {
    let refused = scene(experiment).run(&format!("plan x.yaml {arguments}"));
    assert_eq!(refused.text(), "");
    refused.ends(2).says(words);
}

#[test]
fn an_experiment_of_any_platform_is_planned_without_its_data() {
    let scene = scene(EXPERIMENT);
    let text = scene.text("plan x.yaml");
    for system in SYSTEMS.split(", ") {
        let id = format!("{}-mobilenet-paper", system.replace('_', "-"));
        holds(&text, &[&id]);
    }
    let said = [
        "every figure is simulated",
        "Profile aws-us-east-1-2024 (compiled client): on measured whole functions and runs",
        "stated-flops",
        // What is billed is said in words; its names in bills stand in `-v`.
        "function time $",
        "Fastest (simulated): ",
        "Cheapest (simulated): ",
        "\nprices: us-east-1, 2026-11-21",
    ];
    holds(&text, &said);
    // Nothing but the experiment is there.
    assert_eq!(fs::read_dir(scene.path()).unwrap().count(), 1);
    assert_eq!(text, scene.text("plan x.yaml"));
}

#[test]
fn no_winner_is_named_where_none_can_be() {
    let fastest = ["Fastest", "Cheapest"];
    let said = |experiment: &str| scene(experiment).text("plan x.yaml");
    // Rows are compared at an accuracy, which a plan does not know.
    let checks = "checks: [accuracy >= 0.8]\n";
    let text = said(&format!("{EXPERIMENT}{checks}"));
    holds(&text, &["none is called fastest or cheapest"]);
    lacks(&text, &fastest);
    // Alike rows tie. An epoch of fewer steps is another training.
    let twice = "{system: allreduce, name: one}, {system: allreduce, name: other}";
    let text = said(&of_systems(&format!("{twice}, spirt")));
    let fewer = "spirt-mobilenet-paper takes 1 where others take 3";
    holds(&text, &[fewer]);
    let text = said(&of_systems(twice));
    assert_eq!(text.matches("; it ties with other").count(), 2, "{text}");
    lacks(&text, &["Optimizer steps per epoch differ"]);
}

#[test]
fn what_only_stands_without_limits_is_said() {
    let scene = scene(&of_systems("allreduce").replace("3008", "128"));
    let off = "--set simulation.limits=false";
    let words = ["with them AllReduce would not be possible: it uses 204 of its"];
    holds(scene.text(&format!("plan x.yaml {off}")), &words);
    lacks(scene.text("plan x.yaml"), &words);
    let long = "--set batches_per_worker=90 --set timeout_s=3";
    let run = scene.json(&format!("run x.yaml --platform sim --json {off} {long}"));
    let switched_off = "limits of functions are switched off, and a function uses";
    let words = [switched_off, "of its 128 MB", " s, of 3 s at most"];
    holds(&run["warnings"], &words);
}

/// A legend stands under its table, by the name of the column; database hosts of a row without
/// instances have addresses and volumes.
#[test]
fn legends_and_bills_name_what_stands_there() {
    let text = scene(&of_systems("spirt, scatterreduce")).text("plan x.yaml");
    let text = text.replace('\n', " ");
    let words = "s/epoch|compute s and sync s: |detect s |detect s: |smallest MB |smallest MB: ";
    let places: Vec<_> = words.split('|').map(|words| text.find(words)).collect();
    let are_in_order = places[0].is_some() && places.is_sorted();
    assert!(are_in_order, "{places:?} in {text}");
    let parts = ["databases $", "addresses and volumes $", "object store $"];
    holds(&text, &parts);
    lacks(&text, &["instances $", "eval: "]);
}

#[test]
fn a_plan_has_the_figures_of_a_simulated_run() {
    let scene = scene(EXPERIMENT);
    let run = scene.json("run x.yaml --platform sim --out out --json");
    let plan = scene.json("plan x.yaml --json");
    assert_eq!(plan["schema_version"]["major"], 1);
    assert_eq!(items(&plan, "rows").len(), 5);
    for (planned, row) in items(&plan, "rows").iter().zip(items(&run, "rows")) {
        let (id, estimate, figures) = (&row["id"], &planned["estimate"], &row["figures"]);
        assert_eq!(&planned["id"], id);
        let equal = |a: &Value, b: &Value| {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-9 * b.abs(), "{id}: {a} and {b}");
        };
        let fields = "seconds_per_epoch cost_paper_usd cost_full_usd billed_ms peak_memory_mb";
        for field in fields.split(' ') {
            equal(&estimate[field], &figures[field]["mean"]);
        }
        for stage in ["compute_gradients", "synchronise"] {
            equal(&estimate["stage_seconds"][stage], &figures[stage]["mean"]);
        }
        for count in "puts gets lists messages bytes_up bytes_down".split(' ') {
            equal(&estimate["traffic"][count], &row["traffic"][count]);
        }
        let totals = ["cost_paper_usd", "cost_full_usd"];
        for (bill, total) in items(estimate, "bills").iter().zip(totals) {
            let lines = items(bill, "items").iter();
            let usd: f64 = lines.map(|line| line["usd"].as_f64().unwrap()).sum();
            equal(&usd.into(), &estimate[total]);
        }
    }
}

#[test]
fn a_described_model_is_planned_as_a_known_one() {
    let (parameters, statistics) = (3_217_226, 21_888);
    // One instance alone is among the rows of either.
    let alone = "{system: mirrored, name: alone, workers: 1}";
    let experiment = of_systems(&format!("{SYSTEMS}, {alone}"));
    // A model that is only described is evaluated where that is asked for.
    let described = experiment.replace("model: mobilenet", "model: mine\nevaluate: last")
        + &format!(
            "models:\n  - {{name: mine, parameters: {parameters}, statistics: {statistics}, \
             input: [3, 32, 32], flops_per_sample: 1.0e+8, activation_bytes_per_sample: 1048576, \
             cpu_flops_per_s: 2.0e+10, gpu_flops_per_s: 2.0e+12}}\n"
        );
    let cost = |device: &str, vectors: &str, forward_s: f64| {
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
        cost("cpu", "", 1e8 / 2e10),
        cost("cuda", "vector_bytes_per_s: 2.2e+11, ", 1e8 / 2e12)
    );
    let scene = scene(&experiment).with("same.yaml", &profile);
    let known = scene.json("plan x.yaml --compute ./same.yaml --json");
    let described = plan(&described, "");
    assert_eq!(items(&described, "rows").len(), items(&known, "rows").len());
    for (described, known) in items(&described, "rows").iter().zip(items(&known, "rows")) {
        assert_eq!(described["model"], "mine");
        for field in ["estimate", "smallest_memory_mb", "on_frontier"] {
            assert_eq!(described[field], known[field], "{field} of {}", known["id"]);
        }
    }
}

#[test]
fn infeasible_settings_of_a_sweep_are_rows_that_name_the_limit() {
    let scene = scene(EXPERIMENT);
    let sweep = "plan x.yaml --sweep workers=2,4 --sweep memory_mb=64,160,2048";
    let plan = scene.json(&format!("{sweep} --json"));
    assert_eq!(items(&plan, "rows").len(), 5 * 2 * 3);
    for row in items(&plan, "rows") {
        let is_function = row["system"] != "gpu_baseline";
        let is_feasible = !is_function || row["id"].as_str().unwrap().ends_with("-2048");
        assert_eq!(row["estimate"].is_object(), is_feasible, "{row:#}");
        if !is_feasible {
            assert_eq!(row["infeasible"]["limit"], "memory", "{row:#}");
            assert_eq!(row["on_frontier"], false);
        }
        if is_function {
            // What it would take is the same, however little it was given.
            let smallest = row["smallest_memory_mb"].as_u64().unwrap();
            assert!((161..2048).contains(&smallest), "{row:#}");
        }
    }
    let outside = "64 MB is outside the sizes of a function";
    holds(scene.text(sweep), &["infeasible (memory): ", outside]);
}

#[test]
fn the_smallest_size_is_the_smallest() {
    for row in items(&plan(EXPERIMENT, ""), "rows").iter().take(4) {
        let smallest = row["smallest_memory_mb"].as_u64().unwrap();
        let sizes = format!("--sweep memory_mb={},{smallest}", smallest - 1);
        let around = plan(&of_systems(row["system"].as_str().unwrap()), &sizes);
        assert_eq!(is_feasible(&around), [false, true], "{around:#}");
    }
}

/// With a limit of 8 functions: 8 workers, but 7 of MLLess, whose supervisor is
/// a function as well; instances are no functions.
#[test]
fn the_boundary_of_a_limit_is_exact() {
    let aws = shipped("harness/profiles/aws-us-east-1.yaml");
    let scene = scene(EXPERIMENT).with("tiny.yaml", &aws);
    let limit = "concurrency_limit:\n    value: 1000\n";
    scene.edit("tiny.yaml", limit, &limit.replace("1000", "8"));
    let plan = "plan x.yaml --profile ./tiny.yaml --json";
    let limits = scene.json(&format!("{plan} --limits --up-to 20"));
    let expected = [8, 7, 8, 8, 20].iter().zip(SYSTEMS.split(", "));
    for ((workers, system), boundary) in expected.zip(items(&limits, "limits")) {
        assert_eq!(boundary["feasible_up_to"], *workers, "{boundary:#}");
        assert_eq!(boundary["is_cut"], false, "{boundary:#}");
        let then = &boundary["then"];
        if system == "gpu_baseline" {
            assert_eq!(then, &Value::Null);
            assert_eq!(boundary["not_simulated"], Value::Null);
        } else {
            assert_eq!(then["infeasible"]["limit"], "concurrency", "{boundary:#}");
        }
        // A row of either size says the same.
        scene.write("x.yaml", &of_systems(system));
        let swept = scene.json(&format!("{plan} --sweep workers={workers},{}", workers + 1));
        let rows = items(&swept, "rows");
        assert!(rows[0]["infeasible"].is_null(), "{:#}", rows[0]);
        assert_eq!(rows[1]["infeasible"], then["infeasible"], "{:#}", rows[1]);
    }
}

#[test]
fn rows_without_time_for_their_limits_are_named() {
    let scene = scene(EXPERIMENT);
    let limits = "plan x.yaml --limits --limits-within 0.000000001s";
    let text = scene.text(limits);
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains("not settled within"));
    let plan = scene.json(&format!("{limits} --json"));
    assert_eq!(items(&plan, "limits").len(), 5);
    for boundary in items(&plan, "limits") {
        holds(line.unwrap(), &[boundary["id"].as_str().unwrap()]);
        assert_eq!(boundary["is_cut"], true, "{boundary:#}");
        assert_eq!(boundary["feasible_up_to"], 0, "{boundary:#}");
        assert!(boundary["not_simulated"].is_string(), "{boundary:#}");
    }
}

/// A time-out is met on the way, and not before: the boundary is searched for.
#[test]
fn a_limit_that_only_a_simulation_meets_is_found_exactly() {
    let slow = of_systems("allreduce") + "timeout_s: 60\n";
    let limits = plan(&slow, "--limits --up-to 500");
    let boundary = &items(&limits, "limits")[0];
    let then = &boundary["then"]["infeasible"]["limit"];
    assert_eq!(then, "duration", "{boundary:#}");
    let workers = boundary["feasible_up_to"].as_u64().unwrap();
    assert!((2..500).contains(&workers), "{boundary:#}");
    let sweep = format!("--sweep workers={workers},{}", workers + 1);
    let around = plan(&slow, &sweep);
    assert_eq!(is_feasible(&around), [true, false], "{around:#}");
}

#[test]
fn the_cheapest_memory_is_no_dearer_than_any_of_a_sweep() {
    let two = of_systems("spirt, allreduce");
    let found = plan(&two, "--cheapest-memory --account paper");
    let sizes = (2..=40).map(|step| (256 * step).to_string());
    let sizes = sizes.collect::<Vec<_>>().join(",");
    let swept = plan(&two, &format!("--sweep memory_mb={sizes}"));
    let usd = |row: &Value| row["estimate"]["cost_paper_usd"].as_f64().unwrap();
    let swept = items(&swept, "rows").chunks(39).zip(items(&found, "rows"));
    for ((sizes, row), cheapest) in swept.zip(items(&found, "cheapest_memory")) {
        for other in sizes.iter().filter(|size| size["infeasible"].is_null()) {
            let is_cheapest = usd(cheapest) <= usd(other) * (1.0 + 1e-12);
            assert!(is_cheapest, "{cheapest:#}\n{other:#}");
        }
        assert!(cheapest["memory_mb"].as_u64() >= row["smallest_memory_mb"].as_u64());
    }
    // Instances have no memory size to choose.
    let all = plan(EXPERIMENT, "--cheapest-memory");
    assert_eq!(items(&all, "cheapest_memory").len(), 4);
}

/// 16 MB of an empty worker, 2,027 MB of weights, and 0.7 MB per sample, rounded up: what Table II
/// of the P2P paper is compared with. The peer's process on its instance holds more, which a
/// t2.large has.
#[test]
fn the_memory_of_table_ii_is_the_least_that_works() {
    let large = "--cheapest-memory --set instance_type=t2.large --json";
    let found = Scene::empty().json(&format!("plan p2p/table2-memory {large}"));
    let rows = items(&found, "rows").iter();
    let expected = [(1024, 2760), (512, 2402), (128, 2133), (64, 2088)];
    let rows = rows.zip(items(&found, "cheapest_memory")).zip(expected);
    assert_eq!(rows.len(), 4);
    for ((row, cheapest), (batch, mb)) in rows {
        assert_eq!(row["smallest_memory_mb"], mb, "batches of {batch}");
        let of_peer = row["estimate"]["peak_memory_mb"].as_u64();
        assert!(of_peer > Some(mb), "batches of {batch}: {of_peer:?}");
        assert!(cheapest["memory_mb"].as_u64() >= Some(mb), "{cheapest:#}");
    }
}

#[test]
fn uncertainty_is_a_function_of_its_seed() {
    let scene = scene(EXPERIMENT);
    let plan = "plan x.yaml --json --uncertainty 12 --seed";
    let [first, again, other] = [7, 7, 8].map(|seed| scene.run(&format!("{plan} {seed}")).ends(0));
    assert_eq!(first.text(), again.text());
    let [first, other] = [first, other].map(|plan| plan.json()["uncertainty"].take());
    let (first, other) = (&first, &other);
    let ranged = items(first, "ranged");
    assert!(ranged.contains(&"object_store.service.request_latency_s".into()));
    assert!(!ranged.contains(&"function.memory_mb_limit".into()));
    for (row, another) in items(first, "rows").iter().zip(items(other, "rows")) {
        assert_eq!(row["feasible_samples"], 12, "{row:#}");
        for field in "seconds_per_epoch seconds cost_paper_usd cost_full_usd".split(' ') {
            let [low, median, high] = ["p5", "p50", "p95"].map(|share| row[field][share].as_f64());
            let is_range = Some(0.0) < low && low < median && median < high;
            assert!(is_range, "{field}: {row:#}");
            assert_ne!(row[field], another[field]);
        }
    }
}

/// A serverless GPU is paid by the second, at a price of its own.
#[test]
fn functions_are_billed_by_the_price_of_their_platform() {
    let gpu = EXPERIMENT.replace("memory_mb: 3008", "memory_mb: 16384");
    let plan = plan(&gpu, "--profile serverless-gpu");
    for row in items(&plan, "rows").iter().take(4) {
        for bill in items(&row["estimate"], "bills") {
            let lines = items(bill, "items").iter();
            let lines: String = lines.map(|line| line["dimension"].to_string()).collect();
            holds(&lines, &["\"serverless_gpu/cloud_run_l4\""]);
            lacks(&lines, &["\"lambda"]);
        }
        assert_eq!(row["compute"]["device"], "cuda");
    }
}

#[test]
fn bad_options_are_refused_where_they_stand() {
    for ([arguments], words) in cases(&[
        "--sweep worker=2 | --sweep worker=2 | unknown field `worker` | `workers`",
        "--sweep workers | --sweep workers | no values",
        "--sweep workers=2,none | --sweep workers=2,none | sweep.workers.1",
        "--profile aws | --profile aws | no platform profile `aws`",
        "--compute ./none.yaml | --compute ./none.yaml | profile ./none.yaml",
        "--up-to 5 | --limits",
        "--limits --up-to 0 | --up-to",
        "--limits-within 9s | --limits",
        "--limits --limits-within soon | --limits-within | 90min",
        "--uncertainty 0 | --uncertainty",
        // What begins with a hyphen is a value that cannot be read, not an option that is not known.
        "--deadline -1h | give a time with its unit",
        "--limits --limits-within -1h | give a time with its unit",
        "--budget -5usd | give US dollars",
        // What would be dropped.
        "--place lambda-cloud-h10 | --place lambda-cloud-h10 needs a goal | --deadline TIME",
        "--any-steps | --any-steps needs a goal | --budget USD",
        "--trials 3 | --trials 3 is of a cloud | --platform aws",
        "--sweep workers=2 --sweep workers=4 | `workers` is given twice: by --sweep workers=2 and by --sweep workers=4",
        "--sweep workers=2 --set workers=4 | `workers` is given twice | --set workers=4",
        "--epochs 3 --sweep epochs=1,2 | `epochs` is given twice | --epochs 3",
        "--samples 9 --set samples=8 | `samples` is given twice | --samples 9",
        "--profile laptop --set simulation={} | `simulation` is given twice | --profile laptop",
    ]) {
        refused(EXPERIMENT, arguments, &words);
    }
}

#[test]
fn a_bandwidth_at_which_nothing_ends_is_refused_where_it_stands() {
    for ([path], words) in cases(&[
        "object_store.service.stream_bytes_per_s | never end | at least 1000",
        "tensor_store.service.server_bytes_per_s | never end | at least 1000",
        "function.arithmetic_bytes_per_s | never end | at least 1000",
    ]) {
        for value in ["0", "1e-6"] {
            let constant = format!("{{{path}: {{value: {value}, assumed: a test}}}}");
            let set = format!("--set 'simulation.constants={constant}'");
            refused(EXPERIMENT, &set, &[&["--set", path], &words[..]].concat());
        }
    }
}

#[test]
fn an_interpreted_client_needs_a_profile_that_describes_one() {
    let interpreted = "--set simulation.client=interpreted";
    let problem = "aws-us-east-1 describes no interpreted client";
    let fitted = format!("--profile aws-us-east-1 {interpreted}");
    refused(EXPERIMENT, &fitted, &[problem, "aws-us-east-1-2024"]);
    let [compiled, slower] = ["", interpreted].map(|client| plan(EXPERIMENT, client));
    let seconds = |row: &Value| row["estimate"]["seconds"].as_f64().unwrap();
    for (compiled, slower) in items(&compiled, "rows").iter().zip(items(&slower, "rows")) {
        let is_slower = seconds(compiled) < seconds(slower);
        assert!(is_slower, "{compiled} and {slower}");
    }
}

/// Not only of the shipped one; and a plan names the region of its prices.
#[test]
fn an_instance_type_is_one_of_the_price_book_that_is_given() {
    let book = shipped("harness/prices/us-east-1-2026-11-21.yaml");
    let book = book.replace("dimension: ec2/g6.xlarge", "dimension: ec2/g6.4xlarge");
    let book = book.replacen("region: us-east-1", "region: eu-west-1", 1);
    let experiment = of_systems("{system: gpu_baseline, instance_type: g6.4xlarge}");
    let scene = scene(&experiment).with("book.yaml", &book);
    scene.run("plan x.yaml").ends(2).says(&["--prices FILE"]);
    let text = scene.text("plan x.yaml --prices book.yaml");
    holds(text, &["\nprices: eu-west-1, 2026-11-21"]);
}
