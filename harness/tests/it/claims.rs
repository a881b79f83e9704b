//! Claims that quote published tables, that cannot be run yet, and that are in
//! units of their own, by the program itself.
use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::program;

use serde_json::Value;
use tempfile::TempDir;

const TABLE: &str = "system,seconds,note\nSPIRT,15.44,\"one, of two\"\nP2P,,open\n";

/// Nothing to run, one claim.
const NOTHING: &str = "\
schema: 1
name: nothing
platform: sim
dataset: {name: cifar10}
claims:
  - kind: published
    claim: gossip takes 15.44 s
    select: {system: gossip, model: vgg19}
    metric: seconds_per_epoch
    published: 15.44
    tolerance: 0.1
    source: A, Table 1
    cell: \"table.csv:2:seconds\"
    not_run: gossip is not implemented yet
";

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
claims:
";

/// A directory `published`, and an experiment in a directory beside it.
fn scene(experiment: &str) -> TempDir {
    let scene = tempfile::tempdir().unwrap();
    for directory in ["published", "paper"] {
        fs::create_dir(scene.path().join(directory)).unwrap();
    }
    fs::write(scene.path().join("published/table.csv"), TABLE).unwrap();
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
fn an_experiment_of_what_cannot_be_run_yet_runs_and_says_so() {
    let scene = scene(NOTHING);
    let summary = run(&scene, 0);
    assert_eq!(summary["rows"], Value::Array(Vec::new()));
    let verdict = &summary["verdicts"][0];
    assert_eq!(verdict["verdict"], "not_run");
    assert_eq!(verdict["reason"], "gossip is not implemented yet");
    assert_eq!(verdict["cell"], "table.csv:2:seconds");
    assert!(verdict["observed"].is_null() && verdict["row"].is_null());
    for file in ["report.html", "report.md"] {
        let report = fs::read_to_string(scene.path().join("paper/out").join(file)).unwrap();
        assert!(report.contains("gossip is not implemented yet"), "{file}");
    }
    // The copy in the run directory lies beside no published tables.
    let again = epochcost(&scene, &["report", "out"]);
    assert_eq!(again.status.code(), Some(0));
    let planned = epochcost(&scene, &["plan", "item.yaml"]);
    assert!(
        planned
            .status
            .code()
            .is_some_and(|code| code != 1 && code != 101)
    );
}

#[test]
fn a_cell_must_be_there_and_hold_what_is_quoted() {
    let with = |cell: &str| NOTHING.replace("table.csv:2:seconds", cell);
    refused(
        &NOTHING.replace("published: 15.44", "published: 15.4"),
        &[
            "item.yaml:10:",
            "claims.0.published",
            "quotes 15.4,",
            "holds 15.44",
        ],
    );
    refused(
        &with("other.csv:2:seconds"),
        &["item.yaml:13:", "other.csv"],
    );
    refused(
        &with("table.csv:2:minutes"),
        &["no column \"minutes\"", "system, seconds, note"],
    );
    refused(&with("table.csv:9:seconds"), &["figures in line 9"]);
    refused(
        &with("table.csv:3:seconds"),
        &["table.csv:3:", "\"\", and must be a finite number"],
    );
    refused(&with("table.csv:2"), &["item.yaml:13:", "FILE:LINE:COLUMN"]);
    refused(
        &NOTHING.replace(
            "    published: 15.44\n    tolerance: 0.1\n",
            "    at_most: 1\n",
        ),
        &["gives no `published`"],
    );
    let lonely = tempfile::tempdir().unwrap();
    fs::create_dir(lonely.path().join("paper")).unwrap();
    fs::write(lonely.path().join("paper/item.yaml"), NOTHING).unwrap();
    let output = epochcost(&lonely, &["check", "item.yaml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("no directory `published`"), "{message}");
}

/// So that such claims do not outlive their reason.
#[test]
fn what_could_be_run_may_not_be_called_not_run() {
    let named = |selector: &str| NOTHING.replace("{system: gossip, model: vgg19}", selector);
    let exists = ["item.yaml:14:", "claims.0.not_run", "exists"];
    refused(&named("{system: spirt, model: mobilenet}"), &exists);
    refused(&named("{}"), &exists);
    for selector in [
        "{system: gossip, model: mobilenet}",
        "{system: spirt, model: vgg19}",
    ] {
        let output = epochcost(&scene(&named(selector)), &["check", "item.yaml"]);
        assert_eq!(output.status.code(), Some(0), "{selector}");
    }
    // Nothing that is recorded is the figure, whoever trains.
    let without_metric = named("{system: spirt}").replace("    metric: seconds_per_epoch\n", "");
    let output = epochcost(&scene(&without_metric), &["check", "item.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    refused(
        &without_metric.replace("    not_run: gossip is not implemented yet\n", ""),
        &["names no metric"],
    );
}

#[test]
fn only_claims_that_cannot_be_run_do_without_systems() {
    refused(
        &format!("{NOTHING}checks: [puts >= 1]\n"),
        &["missing field `systems`", "not_run"],
    );
    let without_claims = NOTHING.split("claims:").next().unwrap();
    refused(without_claims, &["missing field `systems`"]);
    refused(
        &format!("{without_claims}systems: []\n"),
        &["not a list with at least one system"],
    );
}

#[test]
fn checks_and_findings_are_judged_row_by_row() {
    let own = "checks: [\"traffic_matches[not spirt] = 1\"]\n\
               findings:\n\
               \x20 - {says: nobody puts, formula: puts <= 0, fails_since: abc1234}\n\
               \x20 - {says: AllReduce sends less, formula: \"bytes[allreduce] <= 1.5 * bytes[gpu_baseline]\"}\n";
    let without_claims = SIMULATED.replace("claims:\n", "");
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
        let own = SIMULATED.replace("claims:\n", "");
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

#[test]
fn a_finding_that_no_row_has_figures_for_fails() {
    let without_claims = SIMULATED.replace("claims:\n", "");
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
    let without_claims = SIMULATED.replace("claims:\n", "");
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
    refused(
        &format!(
            "{SIMULATED}  - {{kind: own, claim: c, select: {{}}, metric: puts, at_least: 0}}\n"
        ),
        &["claims.0.kind", "under `findings`"],
    );
    // Rows that an option leaves out are no mistake of the file.
    let checked = epochcost(
        &scene(&finding("puts[not spirt] >= 1")),
        &["check", "item.yaml", "--set", "systems=[allreduce]"],
    );
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("\n1 claims: 1 own findings"), "{text}");
}

#[test]
fn a_unit_must_fit_its_metric_and_a_target_its_own() {
    let claim = |rest: &str| {
        format!(
            "{SIMULATED}  - {{kind: published, source: \"A, Table 1\", cell: \"table.csv:2:seconds\", published: 1, \
             claim: c, select: {{}}, at_least: 0, {rest}}}\n"
        )
    };
    refused(
        &claim("metric: puts, unit: min"),
        &["claims.0.unit", "\"min\"", "leave the unit out"],
    );
    refused(
        &claim("metric: puts, over: {system: spirt}, unit: s"),
        &["claims.0.unit", "\"% less\""],
    );
    refused(
        &claim("metric: accuracy, target: 0.8"),
        &["time_to_accuracy"],
    );
    refused(&claim("metric: time_to_accuracy"), &["target"]);
    refused(
        &claim("metric: time_to_accuracy, target: 80"),
        &["claims.0.target", "a share, 0 to 1"],
    );
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
    let experiment = SIMULATED.replace("claims:", "findings:");
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
    let experiment = SIMULATED.replace("claims:", "findings:");
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
