//! A row that cannot be run does not keep others from being planned or simulated.
use serde_json::Value;

use crate::support::{Scene, holds, items, lacks, sized};

/// KubeML's functions would share one document of 64 samples.
const EXPERIMENT: &str = "\
batch_size: 4
evaluate: last
systems: [allreduce, kubeml, gpu_baseline]
sweep: {workers: [2, 4]}
";

fn scene() -> Scene {
    Scene::of("x.yaml", &sized(EXPERIMENT))
}

/// Ids of rows, and whether each has figures.
fn planned(plan: &Value) -> Vec<(String, bool)> {
    let rows = items(plan, "rows").iter();
    let planned = rows.map(|row| {
        let has_figures = row["estimate"].is_object();
        assert_eq!(row["impossible"].is_null(), has_figures);
        (row["id"].as_str().unwrap().to_owned(), has_figures)
    });
    planned.collect()
}

#[test]
fn a_row_that_its_system_refuses_is_listed_and_the_others_are_planned() {
    let scene = scene();
    let plan = scene.json("plan x.yaml --json --limits --up-to 6 --cheapest-memory");
    let expected = [
        ("allreduce", true),
        ("kubeml", false),
        ("gpu-baseline", true),
    ]
    .map(|(system, is)| {
        [2, 4].map(|workers| (format!("{system}-mobilenet-paper-workers-{workers}"), is))
    });
    assert_eq!(planned(&plan), expected.concat());
    let words = [
        "kubeml-mobilenet-paper-workers-2: cannot be run: ",
        "2 functions share 1 documents",
    ];
    let text = scene.text("plan x.yaml");
    holds(&text, &words);
    // That word is of limits of a platform.
    lacks(&text, &["infeasible"]);
    // Checked or run, the file is refused at its place.
    scene.run("check x.yaml").ends(2).says(&["x.yaml:"]);
}

#[test]
fn a_plan_without_a_possible_row_is_refused() {
    let scene = scene();
    scene.edit("x.yaml", "allreduce, kubeml, gpu_baseline", "kubeml");
    scene.run("plan x.yaml").ends(2).says(&["help: "]);
}

/// No compute profile says what a step costs on a GPU: the row has no simulation.
#[test]
fn a_row_without_a_compute_time_is_listed_and_the_others_are_planned_and_simulated() {
    let scene = scene();
    let on_gpu = "{system: gpu_baseline, device: {kind: cuda}}";
    scene.edit("x.yaml", "kubeml, gpu_baseline", on_gpu);
    scene.edit("x.yaml", "[2, 4]", "[2]");
    let plan = scene.json("plan x.yaml --compute laptop --json");
    let expected = [("allreduce", true), ("gpu-baseline", false)];
    let expected = expected.map(|(system, is)| (format!("{system}-mobilenet-paper-workers-2"), is));
    assert_eq!(planned(&plan), expected);
    let text = scene.text("plan x.yaml --compute laptop");
    holds(&text, &["profile --model mobilenet --device cuda"]);
    let run = scene.json("run x.yaml --set simulation.compute=[laptop] --json");
    let [possible, impossible] = items(&run, "rows") else {
        panic!("{run:#}");
    };
    assert_eq!(possible["infeasible"], Value::Null);
    let usd = possible["figures"]["cost_full_usd"]["mean"].as_f64();
    assert!(usd > Some(0.0));
    let reason = impossible["infeasible"].as_str().unwrap();
    holds(reason, &["what a step of mobilenet costs"]);
}

#[test]
fn a_setting_of_too_many_steps_is_refused_before_any_is_run() {
    let scene = scene();
    // A million steps, whose records would fill a memory.
    let too_much = "{system: gpu_baseline, batch_size: 1, batches_per_worker: 250000}";
    let reason = "gpu_baseline takes 1000000 steps of the workers that are simulated, and 500000 are the most; use \
                  fewer epochs";
    let run = |systems: &str| {
        let set = format!("--set 'systems=[{systems}]' --set 'sweep={{workers: [4]}}'");
        scene.run(&format!("run x.yaml {set}"))
    };
    // Alone, a usage error. Beside others, one of the rows, and they run.
    let alone = run(too_much).ends(2);
    holds(alone.message(), &[&format!("error: {reason}")]);
    let beside = run(&format!("{too_much}, allreduce")).ends(0);
    let line = format!("GPU baseline: infeasible: {reason}");
    holds(beside.text(), &[&line]);
}
