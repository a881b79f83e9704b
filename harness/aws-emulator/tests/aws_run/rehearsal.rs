//! The papers' forms for AWS, made small: LeNet-5, small batches and few images, under throttles and late
//! logs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cloud::{Cloud, Ended, journaled};
use crate::faults::{Fate, ProxiedRequest, is_invocation, is_log_read, through};

/// Directory of the shipped experiments.
fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the items that have a form for AWS, `PAPER/ITEM`.
fn items() -> Vec<String> {
    let mut items = Vec::new();
    for paper in ["cost-performance", "p2p", "kubeml"] {
        for file in std::fs::read_dir(shipped().join(paper)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|end| end == "yaml")
                && read(&path)["forms"]["aws"]["set"].is_object()
            {
                let name = path.file_stem().unwrap().to_str().unwrap();
                items.push(format!("{paper}/{name}"));
            }
        }
    }
    items.sort();
    items
}

/// What a rehearsal makes of the fields of a row, or of a sweep over them.
fn shrink(fields: &mut Value) {
    let Some(fields) = fields.as_object_mut() else {
        return;
    };
    for (name, small) in [
        ("batch_size", json!(4)),
        ("batches_per_worker", json!(2)),
        ("epochs", json!(2)),
        ("model", json!("lenet5")),
        ("memory_mb", json!(2048)),
    ] {
        if let Some(value) = fields.get_mut(name) {
            *value = if value.is_array() {
                json!([small])
            } else {
                small
            };
        }
    }
    // Late workers are tried elsewhere.
    fields.remove("faults");
}

/// Rows of an item that are rehearsed.
#[derive(Clone, Copy, PartialEq)]
enum Rows {
    All,
    /// The first of each system and fidelity.
    OfEachSystem,
}

/// Returns an item, small, without what it is compared with.
fn small(item: &str, rows: Rows) -> Value {
    let mut text = read(&shipped().join(format!("{item}.yaml")));
    shrink(&mut text);
    shrink(&mut text["sweep"]);
    let (mut known, mut further) = (BTreeSet::new(), Vec::new());
    // Rows that differed in their model have names of their own.
    let systems = text["systems"].as_array_mut().unwrap().iter_mut();
    for (index, row) in systems.enumerate() {
        if let Some(system) = row.as_str() {
            *row = json!({"system": system});
        }
        shrink(row);
        let name = row["name"].as_str().map(str::to_owned);
        let name = name.unwrap_or_else(|| format!("row-{index}"));
        if !known.insert((row["system"].to_string(), row["fidelity"].to_string())) {
            further.push(name.clone());
        }
        row["name"] = json!(name);
    }
    let mut dataset = json!({"name": "synthetic-mnist", "train": 512, "test": 20, "seed": 1});
    // Early stopping follows what is held out.
    if !text["dataset"]["validation"].is_null() {
        (dataset["validation"], dataset["train"]) = (json!(0.1), json!(640));
    }
    let form = &mut text["forms"]["aws"];
    let set = form["set"].as_object_mut().unwrap();
    set.retain(|field, _| !field.starts_with("beside") && field != "statements");
    if set.contains_key("device") {
        set.insert("device".into(), json!({"kind": "cpu"}));
    }
    set.insert("dataset".into(), dataset.clone());
    set.insert("trials".into(), json!(1));
    let on_gpus = set.contains_key("one_machine");
    let mut form = form.clone();
    form.as_object_mut().unwrap().remove("deviates");
    if rows == Rows::OfEachSystem {
        for row in further {
            form["without"][row] = json!("another row of its system is rehearsed");
        }
    }
    let fields = text.as_object_mut().unwrap();
    if on_gpus {
        // There are none here: the profile of functions that have some goes with its constants.
        fields.remove("simulation");
        let rows = fields["systems"].as_array_mut().unwrap().iter_mut();
        rows.for_each(|row| drop(row.as_object_mut().unwrap().remove("constants")));
        form.as_object_mut().unwrap().remove("drop");
    }
    if fields["sweep"].is_null() {
        fields.remove("sweep");
    }
    for field in "beside statements checks findings deviates augment".split(' ') {
        fields.remove(field);
    }
    fields.insert("forms".into(), json!({"aws": form}));
    fields.insert("dataset".into(), dataset);
    fields.insert("device".into(), json!({"kind": "cpu"}));
    fields.insert("timeout_s".into(), json!(120));
    text
}

/// Rehearses items with one command, which is killed when the journals have each of these numbers of
/// lines more, and given again.
fn rehearse(items: &[String], rows: Rows, kills: &[usize]) {
    let Some(cloud) = Cloud::start_with_services() else {
        return;
    };
    let paper = "cite: the papers, small\ntables: {}\n";
    cloud.write("experiments/small/paper.yaml", paper);
    for item in items {
        let (_, name) = item.split_once('/').unwrap();
        let file = format!("experiments/small/{name}.yaml");
        cloud.write(&file, &small(item, rows).to_string());
    }
    // Now and then a request is refused, and a log comes late.
    let count = AtomicUsize::new(0);
    let rule = move |request: &ProxiedRequest<'_>| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        match number % 23 {
            5 if is_invocation(request) => Fate::Refused(429, "TooManyRequestsException"),
            5 if is_log_read(request) => Fate::Refused(400, "ThrottlingException"),
            9 | 10 if is_log_read(request) => Fate::Changed(|_| json!({ "events": [] })),
            _ => Fate::Through,
        }
    };
    let through = through(&cloud, rule);
    let command = || {
        let mut command = cloud.command("reproduce small --platform aws --yes --out out");
        command.envs(through.clone());
        command
    };
    let lines = || -> usize {
        let runs = std::fs::read_dir(cloud.path("out/small"))
            .into_iter()
            .flatten();
        runs.map(|run| journaled(&run.unwrap().path())).sum()
    };
    for more in kills {
        let wanted = lines() + more;
        let mut command = command();
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        while lines() < wanted {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "ended before {wanted} lines");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    Ended::of(&mut command()).ends(0);
    cloud.assert_empty();
    assert_eq!(cloud.states(), vec!["done"; items.len()]);
}

/// An item of each paper: SPIRT and the GPU baseline, KubeML on one machine, P2P with Lambda. Killed twice.
#[test]
fn items_of_the_papers_go_on_after_kills() {
    let items = ["cost-performance/table1", "kubeml/figure4", "p2p/text"];
    rehearse(&items.map(str::to_owned), Rows::OfEachSystem, &[60, 90]);
}

/// Of those whose names have `TEST_ITEM` in them, if it is set.
#[test]
#[ignore = "takes twenty minutes: every item with a form for AWS"]
fn every_item_of_the_papers_is_rehearsed() {
    let named = std::env::var("TEST_ITEM").unwrap_or_default();
    for item in items().into_iter().filter(|item| item.contains(&named)) {
        let since = std::time::Instant::now();
        rehearse(std::slice::from_ref(&item), Rows::All, &[]);
        println!("{item}: {:.0} s", since.elapsed().as_secs_f64());
    }
}
