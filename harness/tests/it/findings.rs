//! Checks and findings: formulas over the rows of an experiment, by the program itself.
use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::program;

use serde_json::Value;
use tempfile::TempDir;

/// Simulated, with sizes only.
const SIMULATED: &str = "\
schema: 1
name: simulated
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 512
batches_per_worker: 3
epochs: 2
evaluate: never
memory_mb: 3000
systems: [spirt, allreduce, gpu_baseline]
simulation: {compute: [stated-flops], limits: false}
";

/// A directory with an experiment.
fn scene(experiment: &str) -> TempDir {
    let scene = tempfile::tempdir().unwrap();
    fs::create_dir(scene.path().join("paper")).unwrap();
    fs::write(scene.path().join("paper/item.yaml"), experiment).unwrap();
    scene
}

fn epochcost(scene: &TempDir, arguments: &[&str]) -> Output {
    program()
        .args(arguments)
        .current_dir(scene.path().join("paper"))
        .output()
        .unwrap()
}

#[track_caller]
fn refused(experiment: &str, words: &[&str]) {
    let output = epochcost(&scene(experiment), &["check", "item.yaml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words.iter().chain(&["item.yaml:", "help: "]) {
        assert!(message.contains(word), "no {word:?} in:\n{message}");
    }
}

#[track_caller]
fn run(scene: &TempDir, code: i32) -> Value {
    let output = epochcost(scene, &["run", "item.yaml", "--out", "out"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    summary(&scene.path().join("paper/out"))
}

fn summary(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn checks_and_findings_are_judged_row_by_row() {
    let own = "checks: [\"traffic_matches[not spirt] = 1\"]\n\
               findings:\n\
               \x20 - {says: nobody puts, formula: puts <= 0, fails_since: abc1234}\n\
               \x20 - {says: AllReduce sends less, formula: \"bytes[allreduce] <= 1.5 * bytes[gpu_baseline]\"}\n";
    let without_claims = SIMULATED.to_owned();
    let summary = run(&scene(&format!("{without_claims}{own}")), 0);
    let verdicts = summary["verdicts"].as_array().unwrap().iter();
    let judged: Vec<[&str; 3]> = verdicts
        .map(|verdict| ["claim", "row", "verdict"].map(|field| verdict[field].as_str().unwrap()))
        .collect();
    let check = "traffic_matches[not spirt] = 1";
    let [spirt, allreduce, gpu] = ["spirt", "allreduce", "gpu-baseline"];
    let row = |system: &str| format!("{system}-mobilenet-paper");
    let [spirt, allreduce, gpu] = [spirt, allreduce, gpu].map(row);
    assert_eq!(
        judged,
        [
            [check, &allreduce, "holds"],
            [check, &gpu, "holds"],
            ["nobody puts", &spirt, "fails"],
            ["nobody puts", &allreduce, "fails"],
            ["nobody puts", &gpu, "fails"],
            ["AllReduce sends less", &allreduce, "holds"],
        ]
    );
}

/// Every system has its own memory: nobody is left out for it. What else differs is to be named.
#[test]
fn what_a_formula_leaves_out_parts_no_named_rows() {
    let with = |systems: &str, formula: &str| {
        let own = SIMULATED.to_owned();
        let own = own.replace("[spirt, allreduce, gpu_baseline]", systems);
        format!("{own}findings:\n  - {{says: it puts, formula: \"{formula}\"}}\n")
    };
    let systems =
        "[{system: spirt, memory_mb: 2000}, {system: allreduce, memory_mb: 4000}, gpu_baseline]";
    let all = with(systems, "puts[not gpu_baseline] >= 0 * puts[gpu_baseline]");
    let summary = run(&scene(&all), 0);
    assert_eq!(summary["verdicts"].as_array().unwrap().len(), 2);
    // Rows that differ in nothing else are compared at equal memory.
    let both = "{memory_mb: [2000, 4000]}";
    let swept = with("[spirt, allreduce]", "puts[spirt] >= 0 * puts[allreduce]");
    let summary = run(&scene(&format!("{swept}sweep: {both}\n")), 0);
    assert_eq!(summary["verdicts"].as_array().unwrap().len(), 2);
    let others = "[spirt, {system: allreduce, workers: 8}, gpu_baseline]";
    refused(
        &with(others, "puts[spirt|allreduce] >= 0 * puts[gpu_baseline]"),
        &[
            "findings.0.formula",
            "nothing is compared of `allreduce`",
            "name what differs",
        ],
    );
}

/// The largest, the smallest and the best of several rows are looked for among all of them, in whichever
/// order they stand, and in each draw; where one has no figure, nothing is known.
#[test]
fn the_largest_of_several_rows_is_that_of_all() {
    let row =
        |workers: usize| format!("{{name: w{workers}, system: allreduce, workers: {workers}}}");
    let rows = [2, 8, 4].map(row).join(", ");
    let own = SIMULATED
        .replace("[spirt, allreduce, gpu_baseline]", &format!("[{rows}]"))
        .replace("limits: false", "limits: false, draws: 59");
    let holds = [
        "max(row, puts[w2|w8]) > puts[w4]",
        "max(row, puts[w2|w8]) = puts[w8]",
        "min(row, puts[w8|w2]) = puts[w2]",
        "puts[w4] < max(row, puts) / 1.5",
        "max(row, seconds_per_epoch[w2|w8]) > seconds_per_epoch[w4]",
        "min(row, total_cost_usd[w8|w2]) < total_cost_usd[w4] < max(row, total_cost_usd[w2|w8])",
        "argmax(row, total_cost_usd) = w8",
        "argmin(row, total_cost_usd) = w2",
    ];
    let told = |(place, formula): (usize, &&str)| {
        format!("  - {{says: finding {place}, formula: \"{formula}\"}}\n")
    };
    let findings: String = holds.iter().enumerate().map(told).collect();
    let summary = run(&scene(&format!("{own}findings:\n{findings}")), 0);
    let verdicts = summary["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), holds.len());
    for (verdict, formula) in verdicts.iter().zip(holds) {
        assert_eq!(verdict["verdict"], "holds", "{formula}: {verdict}");
    }
    // An instance has no cost per function, whichever of the two stands first.
    let finding = "findings:\n  - {says: it costs, formula: \"max(row, cost_per_function_usd[spirt-mobilenet-paper|gpu-baseline-mobilenet-paper]) > 0\"}\n";
    let summary = run(&scene(&format!("{SIMULATED}{finding}")), 3);
    assert_eq!(summary["verdicts"][0]["verdict"], "not_run");
}

#[test]
fn a_finding_that_no_row_has_figures_for_fails() {
    let without_claims = SIMULATED.to_owned();
    let summary = run(
        &scene(&format!("{without_claims}checks: [accuracy >= 0]\n")),
        3,
    );
    for verdict in summary["verdicts"].as_array().unwrap() {
        assert_eq!(verdict["verdict"], "not_run");
    }
    // One that failed, and holds again, is to be said so.
    let finding = "findings:\n  - {says: all put, formula: puts >= 1, fails_since: abc1234}\n";
    let summary = run(&scene(&format!("{without_claims}{finding}")), 3);
    assert_eq!(summary["verdicts"][0]["verdict"], "holds");
}

#[test]
fn a_formula_is_checked_where_it_stands() {
    let without_claims = SIMULATED.to_owned();
    let finding = |formula: &str| {
        format!("{without_claims}findings:\n  - {{says: it puts, formula: \"{formula}\"}}\n")
    };
    for (formula, words) in [
        ("puts[spirt >= 1", &["findings.0.formula", "column 16"][..]),
        ("putts >= 1", &["no `putts`", "did you mean `puts`"]),
        (
            "puts[spirrt] >= 1",
            &["no row `spirrt`", "did you mean `spirt`"],
        ),
        ("puts[workers: 8] >= 1", &["no row `8`"]),
        ("puts = puts", &["no instance"]),
    ] {
        refused(&finding(formula), words);
    }
    refused(
        &format!("{}checks: [puts >= 1, puts >= 1]\n", without_claims),
        &["two claims are"],
    );
    // Rows that an option leaves out are no mistake of the file.
    let checked = epochcost(
        &scene(&finding("puts[not spirt] >= 1")),
        &["check", "item.yaml", "--set", "systems=[allreduce]"],
    );
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("\n1 claims: 1 own findings"), "{text}");
}

/// 3 batches a worker an epoch, 2 epochs, 4 workers of 3,000 MB.
#[test]
fn the_columns_of_the_table_agree_with_each_other() {
    let metrics = [
        "seconds_per_batch",
        "total_seconds",
        "cost_per_function_usd",
        "cost_per_worker_usd",
        "total_cost_usd",
        "seconds_per_epoch",
    ];
    let claims: String = metrics
        .iter()
        .map(|metric| format!("  - {{says: {metric}, formula: {metric} >= 0}}\n"))
        .collect();
    let experiment = format!("{SIMULATED}findings:\n");
    let scene = scene(&format!("{experiment}{claims}"));
    // No function of the GPU baseline computes a mini-batch: that finding does not hold.
    let summary = run(&scene, 3);
    for row in summary["rows"].as_array().unwrap() {
        let observed = |metric: &str| {
            let mut verdicts = row["verdicts"].as_array().unwrap().iter();
            let verdict = verdicts
                .find(|verdict| verdict["metric"] == metric)
                .unwrap();
            verdict["observed"].as_f64()
        };
        let of = |metric: &str| observed(metric).unwrap_or_else(|| panic!("{metric} of {row}"));
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} and {b}: {row}");
        close(of("total_seconds"), 3.0 * of("seconds_per_batch"));
        close(of("total_cost_usd"), 4.0 * of("cost_per_worker_usd"));
        match row["system"].as_str().unwrap() {
            "gpu_baseline" => {
                assert_eq!(
                    observed("cost_per_function_usd"),
                    None,
                    "an instance is no function"
                );
                close(of("total_seconds"), of("seconds_per_epoch"));
                close(
                    of("cost_per_worker_usd"),
                    of("total_seconds") * 0.526 / 3600.0,
                );
            }
            system => {
                let usd = of("seconds_per_batch") * 3.0 * 0.0000166667;
                close(of("cost_per_function_usd"), usd);
                close(of("cost_per_worker_usd"), 3.0 * usd);
                // SPIRT's functions run at the same time, and are added up all the same.
                let serial = of("total_seconds") > of("seconds_per_epoch");
                assert_eq!(serial, system == "spirt");
            }
        }
    }
}

#[test]
fn averaging_and_updating_are_those_of_the_functions_that_do_so() {
    let claims: String = [
        "{says: averaging, formula: \"gradient_averaging[spirt] >= 0\"}",
        "{says: updating, formula: \"model_update[spirt] >= 0\"}",
        "{says: none, formula: \"gradient_averaging[allreduce] >= 0\"}",
    ]
    .map(|claim| format!("  - {claim}\n"))
    .concat();
    let experiment = format!("{SIMULATED}findings:\n");
    let scene = scene(&format!("{experiment}{claims}"));
    // What has no such figure does not hold.
    let verdicts = run(&scene, 3)["verdicts"].clone();
    let observed = |index: usize| verdicts[index]["observed"].as_f64().unwrap();
    // Of 3 gradients of 12,868,904 bytes 4 vectors are read and written at 5e9 bytes a second,
    // of an update 3; and a request takes 1 ms.
    let vectors = |count: f64| 0.001 + count * 12_868_904.0 / 5.0e9;
    assert!((observed(0) - vectors(4.0)).abs() < 1e-6, "{}", observed(0));
    assert!((observed(1) - vectors(3.0)).abs() < 1e-6, "{}", observed(1));
    assert_eq!(verdicts[2]["verdict"], "not_run");
}
