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
    let claim = "  - {kind: own, claim: c, select: {}, metric: puts, at_least: 1}\n";
    refused(
        &format!("{NOTHING}{claim}"),
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
fn a_claim_for_each_system_or_row_is_judged_by_its_own_sentence() {
    let claims = [
        r#"  - {kind: check, each: system, except: [spirt], claim: "traffic of {system} is known", metric: traffic_matches, at_least: 1}"#,
        r#"  - {kind: own, each: row, only: ["*-paper"], select: {model: mobilenet}, claim: "{row} puts", metric: puts, at_least: 0}"#,
    ]
    .join("\n");
    let summary = run(&scene(&format!("{SIMULATED}{claims}")), 0);
    let of = |verdict: &Value| {
        let text = |field: &str| verdict[field].as_str().unwrap().to_owned();
        (text("claim"), text("row"))
    };
    let judged: Vec<(String, String)> = summary["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect();
    let rows: Vec<&str> = summary["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["id"].as_str().unwrap())
        .collect();
    let expected = [
        (
            "traffic of AllReduce is known".to_owned(),
            rows[1].to_owned(),
        ),
        (
            "traffic of the GPU baseline is known".to_owned(),
            rows[2].to_owned(),
        ),
        (format!("{} puts", rows[0]), rows[0].to_owned()),
        (format!("{} puts", rows[1]), rows[1].to_owned()),
        (format!("{} puts", rows[2]), rows[2].to_owned()),
    ];
    assert_eq!(judged, expected);
}

#[test]
fn a_claim_for_each_system_names_it_and_excepts_what_there_is() {
    let claim =
        |rest: &str| format!("{SIMULATED}  - {{kind: own, metric: puts, at_least: 0, {rest}}}\n");
    let named = "claim: \"{system} puts\"";
    refused(
        &claim(&format!("each: worker, {named}")),
        &["claims.0.each", "unknown value `worker`", "system, row"],
    );
    refused(
        &claim("each: system, claim: it puts"),
        &[
            "claims.0.claim",
            "the same of each system",
            "write {system}",
        ],
    );
    refused(
        &claim("each: system, claim: \"{systm} puts\""),
        &["claims.0.claim", "{systm}", "write {system}"],
    );
    refused(
        &claim(&format!("each: system, except: [alreduce], {named}")),
        &[
            "claims.0.except",
            "no system `alreduce`",
            "did you mean `allreduce`?",
        ],
    );
    refused(
        &claim(&format!("each: row, only: [\"late-*\"], {named}")),
        &["claims.0.only", "no row `late-*`"],
    );
    refused(
        &claim(&format!("each: system, select: {{workers: 8}}, {named}")),
        &["claims.0.each", "no system is left"],
    );
    refused(
        &claim(&format!("select: {{}}, except: [spirt], {named}")),
        &["claims.0.except", "add `each: system`"],
    );
    refused(
        &claim(&format!("eahc: system, {named}")),
        &["unknown field `eahc`", "did you mean `each`?"],
    );
    // Systems that an option leaves out are no mistake of the file.
    let scene = scene(&claim(&format!("each: system, except: [spirt], {named}")));
    let checked = epochcost(
        &scene,
        &["check", "item.yaml", "--set", "systems=[allreduce]"],
    );
    let text = String::from_utf8_lossy(&checked.stdout);
    assert!(text.contains("\n1 claims: 1 own findings"), "{text}");
}

#[test]
fn a_unit_must_fit_its_metric_and_a_target_its_own() {
    let claim = |rest: &str| {
        format!("{SIMULATED}  - {{kind: own, claim: c, select: {{}}, at_least: 0, {rest}}}\n")
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
        .map(|metric| {
            format!(
                "  - {{kind: own, claim: {metric}, select: {{}}, metric: {metric}, at_least: 0}}\n"
            )
        })
        .collect();
    let scene = scene(&format!("{SIMULATED}{claims}"));
    let summary = run(&scene, 0);
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
        "{kind: own, claim: averaging, select: {system: spirt}, metric: gradient_averaging, at_least: 0}",
        "{kind: own, claim: updating, select: {system: spirt}, metric: model_update, at_least: 0}",
        "{kind: own, claim: none, select: {system: allreduce}, metric: gradient_averaging, at_least: 0}",
        "{kind: own, claim: quicker, select: {system: spirt}, metric: model_update, unit: ms, at_least: 0}",
    ]
    .map(|claim| format!("  - {claim}\n"))
    .concat();
    let scene = scene(&format!("{SIMULATED}{claims}"));
    let verdicts = run(&scene, 0)["verdicts"].clone();
    let observed = |index: usize| verdicts[index]["observed"].as_f64().unwrap();
    // Of 3 gradients of 12,868,904 bytes 4 vectors are read and written at 5e9 bytes a second,
    // of an update 3; and a request takes 1 ms.
    let vectors = |count: f64| 0.001 + count * 12_868_904.0 / 5.0e9;
    assert!((observed(0) - vectors(4.0)).abs() < 1e-6, "{}", observed(0));
    assert!((observed(1) - vectors(3.0)).abs() < 1e-6, "{}", observed(1));
    assert_eq!(verdicts[2]["verdict"], "not_run");
    assert!((observed(3) - 1e3 * observed(1)).abs() < 1e-9);
}
