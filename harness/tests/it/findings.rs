//! Checks and findings: formulas over the rows of an experiment, by the program itself.
use std::fs;

use serde_json::Value;

use crate::support::{Scene, items, sized};

/// Simulated, with sizes only.
const SIMULATED: &str = "\
batch_size: 512
epochs: 2
memory_mb: 3000
systems: [spirt, allreduce, gpu_baseline]
simulation: {compute: [stated-flops], limits: false}
";

/// One with a finding of this formula.
fn finding(formula: &str) -> Scene {
    scene(&format!(
        "findings:\n  - {{says: it puts, formula: \"{formula}\"}}\n"
    ))
}

fn scene(own: &str) -> Scene {
    Scene::of("item.yaml", &sized(&format!("{SIMULATED}{own}")))
}

/// Runs it and returns its summary.
#[track_caller]
fn run(scene: &Scene, code: i32) -> Value {
    scene.run("run item.yaml --out out").ends(code);
    scene.value("out/summary.json")
}

#[test]
fn checks_and_findings_are_judged_row_by_row() {
    let own = "checks: [\"traffic_matches[not spirt] = 1\"]\n\
               findings:\n\
               \x20 - {says: nobody puts, formula: puts <= 0, fails_since: abc1234}\n\
               \x20 - {says: AllReduce sends less, formula: \"bytes[allreduce] <= 1.5 * bytes[gpu_baseline]\"}\n";
    let summary = run(&scene(own), 0);
    let verdicts = items(&summary, "verdicts").iter();
    let judged = verdicts
        .map(|verdict| ["claim", "row", "verdict"].map(|field| verdict[field].as_str().unwrap()));
    let check = "traffic_matches[not spirt] = 1";
    let [spirt, allreduce, gpu] =
        ["spirt", "allreduce", "gpu-baseline"].map(|system| format!("{system}-mobilenet-paper"));
    assert_eq!(
        judged.collect::<Vec<_>>(),
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

/// No compute profile knows the model on a GPU: the row is marked, and its cost decides no finding.
#[test]
fn a_finding_compares_no_cost_of_a_cpu_in_a_gpus_place() {
    let scene = finding("cost_full_usd[allreduce] < 1000 * cost_full_usd[gpu_baseline]");
    let verdict = |code| run(&scene, code)["verdicts"][0]["verdict"].clone();
    assert_eq!(verdict(0), "holds");
    scene.edit("item.yaml", "[stated-flops]", "[epochcost-vcpu]");
    fs::remove_dir_all(scene.file("out")).unwrap();
    assert_eq!(verdict(3), "open");
}

/// Every system has its own memory: nobody is left out for it. What else differs is to be named.
#[test]
fn what_a_formula_leaves_out_parts_no_named_rows() {
    let with = |systems: &str, formula: &str| {
        let scene = finding(formula);
        scene.edit("item.yaml", "[spirt, allreduce, gpu_baseline]", systems);
        scene
    };
    let all = with(
        "[{system: spirt, memory_mb: 2000}, {system: allreduce, memory_mb: 4000}, gpu_baseline]",
        "puts[not gpu_baseline] >= 0 * puts[gpu_baseline]",
    );
    assert_eq!(items(&run(&all, 0), "verdicts").len(), 2);
    // Rows that differ in nothing else are compared at equal memory.
    let swept = with(
        "[spirt, allreduce]\nsweep: {memory_mb: [2000, 4000]}",
        "puts[spirt] >= 0 * puts[allreduce]",
    );
    assert_eq!(items(&run(&swept, 0), "verdicts").len(), 2);
    let others = with(
        "[spirt, {system: allreduce, workers: 8}, gpu_baseline]",
        "puts[spirt|allreduce] >= 0 * puts[gpu_baseline]",
    );
    let refused = others.run("check item.yaml").ends(2);
    refused
        .says(&["item.yaml:", "findings.0.formula", "name what differs"])
        .says(&["nothing is compared of `allreduce`", "help: "]);
}

/// The largest, the smallest and the best of several rows are looked for among all of them, in whichever
/// order they stand, and in each draw; where one has no figure, nothing is known.
#[test]
fn the_largest_of_several_rows_is_that_of_all() {
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
    let told = holds.map(|formula| format!("  - {{says: {formula:?}, formula: {formula:?}}}\n"));
    let findings = told.concat();
    let drawn = scene(&format!("findings:\n{findings}"));
    let row = |workers| format!("{{name: w{workers}, system: allreduce, workers: {workers}}}");
    let rows = [2, 8, 4].map(row).join(", ");
    drawn.edit("item.yaml", "spirt, allreduce, gpu_baseline", &rows);
    drawn.edit("item.yaml", "limits: false", "limits: false, draws: 59");
    let summary = run(&drawn, 0);
    assert_eq!(items(&summary, "verdicts").len(), holds.len());
    for verdict in items(&summary, "verdicts") {
        assert_eq!(verdict["verdict"], "holds", "{verdict}");
    }
    // An instance has no cost per function, whichever of the two stands first.
    let rows = "spirt-mobilenet-paper|gpu-baseline-mobilenet-paper";
    let costly = finding(&format!("max(row, cost_per_function_usd[{rows}]) > 0"));
    let summary = run(&costly, 3);
    assert_eq!(summary["verdicts"][0]["verdict"], "not_run");
}

#[test]
fn a_finding_that_no_row_has_figures_for_fails() {
    let summary = run(&scene("checks: [accuracy >= 0]\n"), 3);
    for verdict in items(&summary, "verdicts") {
        assert_eq!(verdict["verdict"], "not_run");
    }
    // One that failed, and holds again, is to be said so.
    let finding = "findings:\n  - {says: all put, formula: puts >= 1, fails_since: abc1234}\n";
    let summary = run(&scene(finding), 3);
    assert_eq!(summary["verdicts"][0]["verdict"], "holds");
}

#[test]
fn a_formula_is_checked_where_it_stands() {
    let misspelt = finding("putts >= 1").run("check item.yaml").ends(2);
    misspelt.says(&["item.yaml:15:30: ", "no `putts`", "did you mean `puts`"]);
    let formulas = [
        "puts[spirt >= 1",
        "puts[spirrt] >= 1",
        "puts[workers: 8] >= 1",
        "puts = puts",
    ];
    let twice = scene("checks: [puts >= 1, puts >= 1]\n");
    let refused = formulas.map(finding).into_iter().chain([twice]);
    let said = refused.map(|scene| scene.run("check item.yaml").refusal());
    insta::assert_snapshot!(said.collect::<String>());
    // Rows that an option leaves out are no mistake of the file.
    let checked = finding("puts[not spirt] >= 1").run("check item.yaml --set systems=[allreduce]");
    checked.says(&["\n1 claims: 1 own findings"]);
}

/// 3 batches a worker an epoch, 2 epochs, 4 workers of 3,000 MB.
#[test]
fn the_columns_of_the_table_agree_with_each_other() {
    let times = ["seconds_per_batch", "total_seconds", "seconds_per_epoch"];
    let costs = [
        "cost_per_function_usd",
        "cost_per_worker_usd",
        "total_cost_usd",
    ];
    let claim = |metric: &str| format!("  - {{says: {metric}, formula: {metric} >= 0}}\n");
    let claims = [times, costs].concat().into_iter().map(claim);
    // No function of the GPU baseline computes a mini-batch: that finding does not hold.
    let claims = claims.collect::<String>();
    let summary = run(&scene(&format!("findings:\n{claims}")), 3);
    for row in items(&summary, "rows") {
        let observed = |metric: &str| {
            let mut verdicts = items(row, "verdicts").iter();
            let verdict = verdicts.find(|verdict| verdict["metric"] == metric);
            verdict.unwrap()["observed"].as_f64()
        };
        let of = |metric: &str| observed(metric).unwrap_or_else(|| panic!("{metric} of {row}"));
        let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} and {b}: {row}");
        close(of("total_seconds"), 3.0 * of("seconds_per_batch"));
        close(of("total_cost_usd"), 4.0 * of("cost_per_worker_usd"));
        if row["system"] == "gpu_baseline" {
            // An instance is no function.
            assert_eq!(observed("cost_per_function_usd"), None);
            close(of("total_seconds"), of("seconds_per_epoch"));
            let usd = of("total_seconds") * 0.526 / 3600.0;
            close(of("cost_per_worker_usd"), usd);
        } else {
            let usd = of("seconds_per_batch") * 3.0 * 0.0000166667;
            close(of("cost_per_function_usd"), usd);
            close(of("cost_per_worker_usd"), 3.0 * usd);
            // SPIRT's functions run at the same time, and are added up all the same.
            let is_serial = of("total_seconds") > of("seconds_per_epoch");
            assert_eq!(is_serial, row["system"] == "spirt");
        }
    }
}

#[test]
fn averaging_and_updating_are_those_of_the_functions_that_do_so() {
    let claims = "findings:\n\
                  \x20 - {says: averaging, formula: \"gradient_averaging[spirt] >= 0\"}\n\
                  \x20 - {says: updating, formula: \"model_update[spirt] >= 0\"}\n\
                  \x20 - {says: none, formula: \"gradient_averaging[allreduce] >= 0\"}\n";
    // What has no such figure does not hold.
    let summary = run(&scene(claims), 3);
    let verdicts = items(&summary, "verdicts");
    // Of 3 gradients of 12,868,904 bytes 4 vectors are read and written at 5e9 bytes a second,
    // of an update 3; and a request takes 1 ms.
    for (verdict, vectors) in verdicts.iter().zip([4.0, 3.0]) {
        let expected = 0.001 + vectors * 12_868_904.0 / 5.0e9;
        let observed = verdict["observed"].as_f64().unwrap();
        assert!((observed - expected).abs() < 1e-6, "{observed}");
    }
    assert_eq!(verdicts[2]["verdict"], "not_run");
}
