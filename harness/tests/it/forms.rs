//! Forms of experiments: what they change, what is refused, and the plan of a reproduction on AWS.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use epochcost_channels::Allowance;
use epochcost_experiment::{Experiment, Form, FormName, Options, yaml_files};
use epochcost_platform::aws_plan::{Limits, Training, bound, training};
use epochcost_platform::{Figures, Invoked, RowUsage, simulator};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::rows::Row;
use serde_json::{Value, json};

use crate::support::{Scene, cases, items, root, sized};

/// Every shipped file with a form for AWS that is not left out.
fn with_form() -> Vec<(PathBuf, Form)> {
    let files = yaml_files(&root().join("experiments")).unwrap();
    let of = |file: PathBuf| {
        let experiment = Experiment::load(&file, &Options::default()).ok()?;
        let form = experiment.forms.get(FormName::Aws)?.clone();
        form.leave_out.is_none().then_some((file, form))
    };
    let files: Vec<_> = files.into_iter().filter_map(of).collect();
    assert!(files.len() >= 10);
    files
}

/// The form for AWS on the platform that it names, or simulated.
fn of_form(is_simulated: bool) -> Options {
    Options {
        form: Some(FormName::Aws),
        platform: is_simulated.then(simulator),
        ..Options::default()
    }
}

fn load(file: &Path, options: &Options) -> Experiment {
    Experiment::load(file, options).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Paths of the values in which two rows differ.
fn differing(a: &Value, b: &Value, path: &str, found: &mut BTreeSet<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()) {
                let (a, b) = (a.get(key), b.get(key));
                let (a, b) = (a.unwrap_or(&Value::Null), b.unwrap_or(&Value::Null));
                differing(a, b, &format!("{path}.{key}"), found);
            }
        }
        (a, b) if a == b => {}
        _ => {
            found.insert(path.trim_start_matches('.').to_owned());
        }
    }
}

/// Fields of a row that a form may change by setting `path`.
fn changed_by(path: &str) -> Vec<&str> {
    let of_system = path.strip_prefix("systems.");
    let of_row = of_system.and_then(|rest| Some(rest.split_once('.')?.1));
    match of_row.unwrap_or(path) {
        "dataset" => vec!["job.data"],
        "device" => vec!["job.device", "cpu_fallback"],
        "settings" => vec!["job.settings"],
        field => vec![field],
    }
}

fn row<'a>(experiment: &'a Experiment, id: &str) -> Option<&'a Row> {
    experiment.rows.iter().find(|row| row.id == id)
}

#[test]
fn a_form_for_aws_changes_nothing_else_than_it_says() {
    let mut changed = 0;
    for (file, form) in with_form() {
        let base = load(&file, &Options::default());
        let [simulated, real] =
            [true, false].map(|is_simulated| load(&file, &of_form(is_simulated)));
        assert_eq!(real.platform.as_str(), "aws");
        assert_eq!((base.seed, &base.name), (real.seed, &real.name));
        let fields: Vec<&str> = form.fields().collect();
        assert_eq!(base.trials == real.trials, !fields.contains(&"trials"));
        for base_row in &base.rows {
            let id = &base_row.id;
            let is_left_out = form.without.contains_key(id);
            assert_eq!(row(&real, id).is_none(), is_left_out, "{id} of {file:?}");
            let Some(of_form) = row(&real, id) else {
                continue;
            };
            assert!(of_form.constants.is_empty() && of_form.client.is_none());
            let mut found = BTreeSet::new();
            let json = |row: &Row| serde_json::to_value(row).unwrap();
            differing(&json(base_row), &json(of_form), "", &mut found);
            // A forecast keeps the constants of the form.
            let of_forecast = row(&simulated, id).unwrap();
            let mut dropped = BTreeSet::new();
            differing(&json(of_form), &json(of_forecast), "", &mut dropped);
            let is_simulated = ["constants", "job.data", "one_machine"];
            dropped.retain(|path| !is_simulated.iter().any(|part| path.starts_with(part)));
            assert!(dropped.is_empty(), "{id} of {file:?}: {dropped:?}");
            found.retain(|path| !path.starts_with("constants") && !path.starts_with("client"));
            for path in found {
                let mut said = fields.iter().flat_map(|field| changed_by(field));
                let is_said = said.any(|field| path.starts_with(field));
                assert!(is_said, "{id} of {file:?} differs by {path}: {fields:?}");
                changed += 1;
            }
        }
    }
    assert!(changed > 20, "{changed}");
}

#[test]
fn limits_hold_in_every_forecast_of_a_form_for_aws() {
    for (file, _) in with_form() {
        let simulation = load(&file, &of_form(true)).simulation.unwrap();
        assert!(simulation.limits, "{file:?}");
        assert_eq!(simulator().site().figures(), Figures::Simulated);
    }
}

const BASE: &str = "\
simulation: {constants: {function.cold_start_s: {value: 1, assumed: a test}}}
systems:
  - allreduce
  - {system: scatterreduce, constants: {function.init_s: {value: 1, assumed: a test}}}
";

#[test]
fn a_form_says_what_it_drops_and_names_rows() {
    let check = |form: &str| {
        let base = sized(&format!("{BASE}forms: {{aws: {form}}}\n"));
        Scene::of("base.yaml", &base).run("check base.yaml")
    };
    let dropped = "set: {platform: aws}, drop: [constants]";
    let without = ", without: {allreduce-mobilenet-paper: a}";
    for without in ["", without] {
        check(&format!("{{{dropped}{without}}}")).ends(0);
    }
    for ([form], words) in cases(&[
        "{set: {platform: aws}} | it keeps `constants`",
        "{set: {platform: aws}, drop: [constants, client]} | nothing states the `client`",
        "{set: {platform: aws}, drop: [constants], without: {allreduce-mobilenet-papre: a}} | \
         did you mean `allreduce-mobilenet-paper`?",
        "{set: {platform: aws}, leave_out: a} | leave_out",
        "{drop: [constants], without: {allreduce-mobilenet-paper: ' '}} | reason",
        "{set: {platform: asw}, drop: [constants]} | asw",
    ]) {
        let refused = check(form).ends(2);
        refused.says(&["base.yaml:1"]).says(&words);
    }
}

/// The plan needs neither clients nor data; its bound is that of a run, and ends with its rows.
#[test]
fn a_dry_run_on_aws_says_what_items_need_and_what_budgets_buy() {
    let scene = Scene::empty();
    let papers =
        "cost-performance kubeml/figure3 kubeml/figure4 kubeml/jobs p2p/models p2p/peers p2p/text";
    let plan = scene.json(&format!(
        "reproduce --platform aws --dry-run --json --directory '{}' {papers}",
        root().join("experiments").display()
    ));
    assert!(!scene.has("results"), "nothing is written");
    let all = items(&plan, "items");
    let of = |id: &str| {
        let id = format!("{id}.aws");
        all.iter().find(|item| item["id"] == *id).unwrap()
    };
    let usd = |item: &Value, p: &str| item["usd"][p].as_f64().unwrap();
    for item in all {
        let at_most = item["at_most_usd"].as_f64().unwrap();
        let [p5, p50, p95] = ["p5", "p50", "p95"].map(|share| usd(item, share));
        assert!(p5 <= p50 && p50 <= p95 && p95 < at_most, "{item}");
        assert!(at_most <= 10.0 * p50 + 1.0, "{item}");
        let parts = item["at_most_by"].as_object().unwrap().values();
        let parts: f64 = parts.map(|usd| usd.as_f64().unwrap()).sum();
        assert!((parts / at_most - 1.0).abs() < 1e-9, "{item}");
        assert_eq!(item["impossible"], json!({}), "{item}");
        // Under a limit the least that is started is a trial; what is likely to be spent is bounded.
        let of_trial = item["trial_at_most_usd"].as_f64().unwrap();
        assert!(of_trial <= at_most, "{item}");
    }
    let worth = |item: &Value| item["verdicts"].as_f64().unwrap() / usd(item, "p50");
    assert!(all.is_sorted_by(|a, b| worth(a) >= worth(b)), "{all:#?}");
    // Four peers of SPIRT have 24 functions each; four workers a GPU each.
    let table2 = of("cost-performance/table2-own-steps");
    assert_eq!(table2["needs"]["concurrency"], 96);
    assert_eq!(table2["needs"]["gpu_vcpus"], 16);
    assert_eq!(table2["instances"]["g4dn.xlarge"], 4);
    assert_eq!(table2["memory_mb"], json!([2048, 3630]));
    assert_eq!(table2["rows"], 10);
    assert_eq!(table2["trials"], 30);
    // AllReduce and ScatterReduce, four workers each, in 3,008 MB or less; MLLess has more.
    assert_eq!(table2["new_account_rows"], 4);
    assert_eq!(of("cost-performance/figure2")["new_account_rows"], 0);
    // Four peers with a function for each of 235 mini-batches.
    assert_eq!(of("p2p/text")["needs"]["concurrency"], 940);
    // One machine has functions, services and GPUs.
    let kubeml = of("kubeml/figure4");
    assert_eq!(kubeml["needs"]["concurrency"], 0);
    assert_eq!(kubeml["instances"], json!({"g4dn.12xlarge": 1}));
    let only = |by: &str| by.starts_with("ec2/g4dn") || !by.starts_with("ec2/");
    let mut charged = kubeml["at_most_by"].as_object().unwrap().keys();
    assert!(charged.all(|by| only(by) && by != "lambda_gb_second"));
    let why = plan["left_out"]["kubeml/jobs.aws"].as_str().unwrap();
    assert!(why.contains("at once"), "{why}");
    assert!(plan["left_out"]["cost-performance/table2"].is_string());
    // More money buys no less, and never more than it is.
    let budgets = items(&plan, "budgets");
    for budget in budgets {
        assert!(budget["expected_usd"].as_f64() <= budget["usd"].as_f64());
    }
    assert!(budgets.is_sorted_by_key(|budget| items(budget, "alone").len()));
}

/// A row of two functions, one epoch.
fn usage() -> RowUsage {
    let file = root().join("experiments/aws-first.yaml");
    let mut experiment = load(&file, &Options::default());
    let mut row = experiment.rows.remove(0);
    row.timeout_s = 900;
    RowUsage {
        row,
        trials: 1,
        uses_tensor_store: false,
        uses_queue: false,
        puts: 10,
        bytes_up: 1_000,
        gets: 10,
        data_gets: 2,
        most: BTreeMap::new(),
        seconds: 0.0,
        usd: 0.0,
    }
}

/// The same row, whose first function takes so much.
fn usage_of(first: Invoked) -> RowUsage {
    let mut usage = usage();
    let calls = training(&usage).calls().unwrap();
    usage.most.insert(calls[0].function.to_owned(), first);
    usage
}

/// Returns the limits of the first function.
fn of_first(row: &Training) -> Limits {
    row.limits(row.calls().unwrap()[0].function)
}

/// A worker may ask eight times as often as it is forecast to, and so often where that is little.
#[test]
fn an_invocation_may_ask_eight_times_as_often_as_forecast() {
    for (of_each, lists, reads) in [(0, 500, 2_000), (100, 800, 2_000), (1_000, 8_000, 16_000)] {
        let mut first = Invoked::default();
        let asked = &mut first.requests;
        (asked.lists, asked.gets, asked.missed_gets) = (of_each, of_each, of_each);
        let row = training(&usage_of(first));
        assert_eq!(of_first(&row).allowance, Allowance { lists, reads });
        assert_eq!(row.limits("another").allowance.reads, 2_000);
    }
}

#[test]
fn time_limits_follow_from_the_forecast_and_never_exceed_the_row_s() {
    let prices = PriceBook::shipped().unwrap();
    let mut before_usd = 0.0;
    for (function_s, trial_s, timeout_s, deadline_s) in [
        (0.0, 0.0, 60, 600),
        (7.5, 20.0, 60, 600),
        (25.0, 60.0, 200, 600),
        (100.0, 145.0, 800, 1_160),
        (112.5, 150.0, 900, 1_200),
        (5_000.0, 5_000.0, 900, 1_800),
    ] {
        let mut usage = usage_of(Invoked {
            seconds: function_s,
            ..Invoked::default()
        });
        usage.seconds = trial_s;
        let row = training(&usage);
        assert_eq!(of_first(&row).timeout_s, timeout_s, "{function_s}");
        assert_eq!(row.deadline_s().unwrap(), deadline_s, "{trial_s}");
        let lines = bound(&[usage], &prices).unwrap();
        let usd: f64 = lines.iter().map(|line| line.usd).sum();
        assert!(usd >= before_usd, "{function_s}");
        before_usd = usd;
    }
}
