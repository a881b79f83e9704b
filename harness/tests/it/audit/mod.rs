//! `epochcost audit`: findings are computed from the files of published
//! figures, and follow them.
mod sentences;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::program;

use serde_json::Value;
use tempfile::TempDir;

fn epochcost(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/published")
}

/// A copy of the published figures with one text in one file replaced.
fn with(file: &str, before: &str, after: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(shipped()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let path = directory.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches(before).count(), 1, "{before} in {file}");
    fs::write(&path, text.replace(before, after)).unwrap();
    directory
}

/// Every finding of figures in that directory.
#[track_caller]
fn findings(directory: &Path) -> Vec<Value> {
    let output = epochcost(&[
        "audit",
        "--json",
        "--published",
        directory.to_str().unwrap(),
    ]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    let audited: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(audited["schema_version"]["major"], 1);
    audited["findings"].as_array().unwrap().clone()
}

/// The one finding of that item, check and row (or how they begin).
#[track_caller]
fn finding(findings: &[Value], [item, check, row]: [&str; 3]) -> Value {
    let is_it = |finding: &&Value| {
        finding["item"] == item
            && finding["check"].as_str().unwrap().starts_with(check)
            && finding["row"].as_str().unwrap().starts_with(row)
    };
    let found: Vec<&Value> = findings.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{item}: {check}: {row}");
    found[0].clone()
}

fn text<'a>(finding: &'a Value, field: &str) -> &'a str {
    finding[field].as_str().unwrap()
}

#[track_caller]
fn near(finding: &Value, computed: f64) {
    let found = finding["computed"].as_f64().unwrap();
    assert!(
        (found / computed - 1.0).abs() < 1e-9,
        "{found} is not {computed}"
    );
}

const FUNCTION: [&str; 3] = ["Table 2", "cost of a function", "MobileNet, ScatterReduce"];

#[test]
fn two_costs_of_table_2_are_a_tenth_under_its_formula() {
    let all = findings(&shipped());
    for (framework, seconds, printed) in [
        ("ScatterReduce", 14.343, 0.000442),
        ("AllReduce", 14.382, 0.000445),
    ] {
        let row = format!("MobileNet, {framework}");
        let found = finding(&all, ["Table 2", "cost of a function", &row]);
        near(&found, seconds * 2.048 * 0.0000166667);
        assert_eq!(found["printed"]["value"], printed);
        assert_eq!(found["outcome"], "differs");
        let ratio = found["ratio"].as_f64().unwrap();
        assert!((0.90..0.91).contains(&ratio), "{ratio}");
        assert!(text(&found, "consequence").contains("total costs survives"));
        assert!(text(&found, "consequence").contains("printed -21.6 %, recomputed -12.6 %"));
    }
    let resnet = finding(
        &all,
        ["Table 2", "cost of a function", "ResNet-18, AllReduce"],
    );
    assert_eq!(resnet["outcome"], "differs");
    let agreeing = all.iter().filter(|finding| {
        finding["check"] == "cost of a function" && finding["outcome"] == "agrees"
    });
    assert_eq!(agreeing.count(), 5);
}

#[test]
fn a_changed_cell_changes_its_finding() {
    let right = with("cp_table2.csv", "0.000442", "0.000490");
    let mended = finding(&findings(right.path()), FUNCTION);
    assert_eq!(mended["outcome"], "agrees");
    assert_eq!(mended["within_rounding"], true);
    let slower = with("cp_table2.csv", "14.343,24,344.23", "28.686,24,688.46");
    let found = findings(slower.path());
    near(&finding(&found, FUNCTION), 28.686 * 2.048 * 0.0000166667);
    // Twice the time makes it dearer than the GPU, and the order another.
    let consequence = finding(&found, FUNCTION);
    assert!(text(&consequence, "consequence").contains("does not survive"));
    let inputs = consequence["inputs"].as_array().unwrap();
    let place = inputs[0]["place"].as_str().unwrap();
    assert!(
        place.ends_with("cp_table2.csv:3:seconds_per_batch"),
        "{place}"
    );
}

#[test]
fn parallel_functions_are_summed_as_if_serial() {
    let all = findings(&shipped());
    let found = finding(&all, ["Table 2", "wall time of SPIRT", "ResNet-18"]);
    near(&found, 28.55 + 37.41 + 4.8);
    assert_eq!(found["outcome"], "differs");
    let consequence = text(&found, "consequence");
    assert!(consequence.contains("does not survive"), "{consequence}");
    assert!(consequence.contains("SPIRT 70.8 < GPU (g4dn.xlarge) 139"));
    // Were the databases much slower, the GPU would stay first.
    let slow = with("cp_communication.csv", "67.32,37.41", "67.32,137.41");
    let found = finding(
        &findings(slow.path()),
        ["Table 2", "wall time of SPIRT", "ResNet-18"],
    );
    near(&found, 28.55 + 137.41 + 4.8);
    assert!(text(&found, "consequence").contains("GPU (g4dn.xlarge) 139 < SPIRT 171"));
}

#[test]
fn the_heading_says_80_percent_and_the_text_the_final_accuracy() {
    let what = "time to 80 %";
    let all = findings(&shipped());
    for framework in ["SPIRT", "MLLess", "ScatterReduce", "AllReduce", "GPU-based"] {
        let found = finding(&all, ["Table 3", what, framework]);
        assert_eq!(found["outcome"], "differs", "{framework}");
    }
    let other = with("cp_table3.csv", "84.96,83.2", "61.2,83.2");
    let found = finding(&findings(other.path()), ["Table 3", what, "SPIRT"]);
    assert_eq!(found["outcome"], "agrees");
}

#[test]
fn times_to_accuracy_hide_different_numbers_of_epochs() {
    let all = findings(&shipped());
    let found = finding(&all, ["Table 3", "epochs behind", "AllReduce"]);
    near(&found, 1367.01 * 60.0 / 345.17);
    assert!(text(&found, "explanation").contains("a factor of 5.18 is more epochs"));
    assert!(text(&found, "consequence").contains("is not that of costs to accuracy"));
}

#[test]
fn parameter_counts_are_those_of_another_head() {
    let all = findings(&shipped());
    for (model, parameters) in [
        ("MobileNet", 3_217_226.0),
        ("ResNet-18", 11_173_962.0),
        ("VGG-11", 128_807_306.0),
    ] {
        let found = finding(&all, ["models", "parameters", model]);
        near(&found, parameters);
        assert_eq!(found["outcome"], "differs", "{model}");
        assert!(text(&found, "explanation").contains("1000 classes"));
    }
    let right = with("stated.csv", "MobileNet,4200000", "MobileNet,3200000");
    let found = finding(
        &findings(right.path()),
        ["models", "parameters", "MobileNet"],
    );
    assert_eq!(found["outcome"], "agrees");
}

#[test]
fn requests_change_which_exchange_is_cheapest() {
    let all = findings(&shipped());
    let of = |row| finding(&all, ["Table 2", "total cost with the requests", row]);
    // 24 steps of 16 PUTs and 24 GETs.
    let (puts, gets) = (24.0 * 16.0, 24.0 * 24.0);
    let functions = 14.343 * 2.048 * 0.0000166667 * 24.0 * 4.0;
    near(
        &of("MobileNet, ScatterReduce"),
        functions + puts * 5e-6 + gets * 4e-7,
    );
    let consequence = of("MobileNet, ScatterReduce");
    assert!(text(&consequence, "consequence").contains("does not survive"));
    assert!(text(&of("ResNet-18, ScatterReduce"), "consequence").contains("do not change"));
}

#[test]
fn the_caption_names_a_model_that_cannot_be() {
    let all = findings(&shipped());
    let of = |row| finding(&all, ["§4.2", "latency of a request", row]);
    assert!(of("ResNet-18")["computed"].as_f64().unwrap() < 0.0);
    assert_eq!(of("ResNet-18")["outcome"], "differs");
    assert_eq!(of("ResNet-50")["outcome"], "agrees");
}

#[test]
fn the_p2p_papers_costs_and_ratios() {
    let all = findings(&shipped());
    let cost = |size| finding(&all, ["Table II", "cost per peer", size]);
    near(
        &cost("batch size 128"),
        (0.0000233 * 118.0 + 0.00000639) * 12.9,
    );
    assert_eq!(cost("batch size 128")["outcome"], "differs");
    assert_eq!(cost("batch size 1024")["outcome"], "agrees");
    let ratio = |item| {
        let what = "serverless cost over instance cost";
        finding(&all, ["abstract, text, conclusion", what, item])
    };
    near(&ratio("abstract"), 0.03567 / 0.00665);
    assert_eq!(ratio("abstract")["outcome"], "agrees");
    assert_eq!(ratio("text")["outcome"], "differs");
    assert!(text(&ratio("text"), "explanation").contains("batch size 64"));
    let saved = |setting| finding(&all, ["text", "gradient computation time", setting]);
    near(
        &saved("VGG-11, MNIST, 4 workers"),
        (1.0 - 10.5 / 394.8) * 100.0,
    );
    assert_eq!(saved("VGG-11, MNIST, 4 workers")["outcome"], "agrees");
    assert_eq!(
        saved("VGG-11, MNIST, 8 workers")["outcome"],
        "cannot_be_checked"
    );
}

#[test]
fn a_damaged_file_is_located() {
    let refused = |directory: &Path| {
        let output = epochcost(&["audit", "--published", directory.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let word = with("cp_table2.csv", "14.343", "fast");
    let message = refused(word.path());
    assert!(
        message.contains("cp_table2.csv:3:25") && message.contains("\"fast\""),
        "{message}"
    );
    let short = with("cp_table3.csv", "MLLess,189.68,83.48", "MLLess,189.68");
    assert!(refused(short.path()).contains("cp_table3.csv:3:1"));
    let gone = with("cp_table3.csv", "MLLess", "MLMore");
    let message = refused(gone.path());
    assert!(
        message.contains("MLLess") || message.contains("MLMore"),
        "{message}"
    );
    let empty = tempfile::tempdir().unwrap();
    assert!(refused(empty.path()).contains("stated.csv"));
}

#[test]
fn papers_are_chosen_by_name() {
    let output = epochcost(&["audit", "p2p", "--json"]);
    let audited: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = audited["findings"].as_array().unwrap();
    assert!(!all.is_empty() && all.iter().all(|finding| finding["paper"] == "p2p"));
    assert_eq!(epochcost(&["audit", "p3p"]).status.code(), Some(2));
    let plain = epochcost(&["audit", "cost-performance"]);
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert!(plain.contains("Barrak et al. 2025") && !plain.contains("Barrak et al. 2023"));
    let markdown = epochcost(&["audit", "--markdown"]);
    assert!(
        String::from_utf8(markdown.stdout)
            .unwrap()
            .starts_with("# Audit")
    );
}
