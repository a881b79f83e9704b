//! The settings that a search tries: system × workers × memory × place × fidelity.

use std::collections::BTreeSet;

use epochcost_experiment::document::{Entry, Node, Value};
use epochcost_experiment::{Document, Experiment, Options};
use epochcost_spec::rows::Row;
use epochcost_systems::{Host, Machines, find, systems};

use super::bench::Point;
use super::question;
use crate::error::{Error, Result};
use crate::forecast::alone::{self, is_alone};
use crate::forecast::estimate::has_functions;
use crate::forecast::places::Site;
use crate::forecast::{on_simulator, quoted, work};

/// Numbers of workers that are tried, beside the experiment's own.
const WORKERS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Fidelities that are tried: the published code's defects are nobody's choice.
const FIDELITIES: &str = "[paper, tuned]";

/// Systems between instances that are tried whether the experiment names them or not:
/// what is common there.
const OPPONENTS: [&str; 2] = [alone::SYSTEM, "ring"];

/// Returns every setting that the answer is searched among.
///
/// # Errors
/// When the experiment trains more than one model, or none of its rows can be changed.
pub(crate) fn points(experiment: &Experiment, sites: &[Site]) -> Result<Vec<Point>> {
    let rows = rows(experiment)?;
    let mut points = Vec::new();
    for (index, site) in sites.iter().enumerate() {
        for row in &rows {
            points.extend(at(row, index, site));
        }
    }
    Ok(points)
}

/// Returns the experiment's systems, and their opponents, with every number of workers
/// and fidelity that the data allow.
fn rows(experiment: &Experiment) -> Result<Vec<Row>> {
    let models = work::models(experiment);
    let asked = question::asked(&experiment.rows);
    let Some(first) = asked.filter(|_| models.len() == 1) else {
        return Err(Error::Usage {
            problem: format!(
                "an answer is about one model, and the rows train {}",
                models.join(", ")
            ),
            remedy: "choose one: --set model=NAME, and remove it from `sweep`".to_owned(),
        });
    };
    let samples = experiment.rows.iter().map(|row| work::samples(&row.job));
    let samples = samples.max().unwrap_or(0);
    let mut workers: BTreeSet<usize> = experiment.rows.iter().map(|row| row.job.workers).collect();
    workers.extend(WORKERS.into_iter().chain([1]));
    workers.retain(|workers| workers * first.job.batch_size <= samples);
    let workers: Vec<usize> = workers.into_iter().collect();
    let options = Options {
        prices: experiment.prices.clone(),
        keeps_impossible: true,
        ..on_simulator()
    };
    let document = document(experiment, first, samples, &workers)?;
    let mut rows = Experiment::from_document(document, &options)?.rows;
    rows.sort_by_key(|row| row.job.workers);
    Ok(without_twins(rows))
}

/// Drops rows whose fidelity changes nothing.
fn without_twins(rows: Vec<Row>) -> Vec<Row> {
    let mut kept: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        let same = |other: &Row| {
            let (a, b) = (&other.job, &row.job);
            (&a.system, a.workers, &a.settings, &a.optimizer)
                == (&b.system, b.workers, &b.settings, &b.optimizer)
        };
        if !kept.iter().any(same) {
            kept.push(row);
        }
    }
    kept
}

/// Returns the experiment with each of these numbers of workers, which share the samples.
fn document(
    experiment: &Experiment,
    first: &Row,
    samples: usize,
    workers: &[usize],
) -> Result<Document> {
    let mut document = experiment.document.clone();
    for field in [
        "sweep",
        "forms",
        "workers",
        "batches_per_worker",
        "instance_type",
        "device",
    ] {
        document.root.remove(field);
    }
    let values = [
        ("model", quoted(&first.job.model)),
        ("batch_size", first.job.batch_size.to_string()),
        ("epochs", first.job.epochs.to_string()),
        ("samples", samples.to_string()),
        ("sweep.workers", format!("{workers:?}")),
        ("sweep.fidelity", FIDELITIES.to_owned()),
    ];
    for (field, value) in values {
        document.set_option("plan", field, &value)?;
    }
    let listed = document.root.get("systems").cloned();
    let mut entries = listed.map(|node| own_entries(&node)).unwrap_or_default();
    // What the experiment sets is of its own systems: the opponents may not know it.
    if let Some(settings) = document.root.remove("settings") {
        for entry in &mut entries {
            *entry = with_settings(entry, &settings);
        }
    }
    let named: Vec<String> = entries.iter().map(name_of).collect();
    document.set_option("plan", "systems", &text(&entries))?;
    let is_named = |name: &&&str| named.iter().any(|own| own == **name);
    let missing = OPPONENTS.iter().filter(|name| !is_named(name));
    let known = missing.filter(|name| find(name).is_some());
    let opponents: Vec<Node> = known
        .map(|name| document.option_value("plan", "systems", name))
        .collect::<Result<_, _>>()?;
    let all: Vec<Node> = entries.into_iter().chain(opponents).collect();
    document.set_option("plan", "systems", &text(&all))?;
    Ok(document)
}

/// Returns the entries of `systems` without what the search decides.
fn own_entries(systems: &Node) -> Vec<Node> {
    let Value::List(items) = &systems.value else {
        return Vec::new();
    };
    let decided = [
        "workers",
        "fidelity",
        "memory_mb",
        "batches_per_worker",
        "samples",
        "batch_size",
        "epochs",
        "model",
        "instance_type",
        "device",
    ];
    let entry = |item: &Node| {
        let mut item = item.clone();
        for field in decided {
            item.remove(field);
        }
        item
    };
    items.iter().map(entry).collect()
}

/// Returns an entry of `systems` with the experiment's settings below its own.
fn with_settings(entry: &Node, settings: &Node) -> Node {
    let named = |name: &str, value: &Node| Entry {
        key: name.to_owned(),
        place: value.origin.place.clone(),
        node: value.clone(),
    };
    let mut entry = entry.clone();
    if let Value::Text(_) = entry.value {
        entry.value = Value::Map(vec![named("system", &entry)]);
    }
    let mut all = settings.clone();
    for own in entry.get("settings").map_or(&[][..], Node::entries) {
        all.insert(own.clone());
    }
    entry.insert(named("settings", &all));
    entry
}

fn name_of(entry: &Node) -> String {
    let system = entry.get("system").unwrap_or(entry);
    match &system.value {
        Value::Text(name) => name.clone(),
        _ => String::new(),
    }
}

/// Returns entries as YAML.
fn text(entries: &[Node]) -> String {
    // Text, lists and maps with text keys: nothing that JSON could refuse.
    serde_json::to_string(entries).unwrap_or_else(|_| "[]".to_owned())
}

/// Returns a row at a place, once for each memory size; nothing where it cannot run there.
fn at(row: &Row, index: usize, site: &Site) -> Vec<Point> {
    let Some(system) = find(&row.job.system) else {
        return Vec::new();
    };
    let place = &site.place;
    let deployment = system.deployment();
    let on_functions = has_functions(row);
    let machines = deployment.machines.count(row.job.workers);
    let fits = place.workers_limit.is_none_or(|limit| machines <= limit);
    let is_had = site.of_row(row).is_ok();
    if on_functions != (place.host == Host::Function) || !fits || !is_had {
        return Vec::new();
    }
    let mut row = row.clone();
    if on_functions {
        let sizes = place.memory_mb.iter();
        let at = |memory_mb: &u32| {
            let mut row = row.clone();
            row.memory_mb = *memory_mb;
            Point { row, site: index }
        };
        return sizes.map(at).collect();
    }
    match deployment.machines {
        // One machine with all its devices.
        Machines::Shared if is_alone(&row) => share(&mut row, place.devices),
        Machines::Shared => return Vec::new(),
        Machines::PerWorker if place.devices > 1 => return Vec::new(),
        // With one worker nothing is exchanged: that is one instance alone.
        Machines::PerWorker if row.job.workers == 1 => return Vec::new(),
        Machines::PerWorker => {}
    }
    row.job.device = site.device();
    if let Some(instance_type) = &place.instance_type {
        row.instance_type.clone_from(instance_type);
    }
    vec![Point { row, site: index }]
}

/// Divides a row's mini-batches among the devices of one machine.
fn share(row: &mut Row, devices: usize) {
    let job = &mut row.job;
    job.workers = devices;
    job.batches_per_worker = job.batches_per_worker.div_ceil(devices);
    let used = work::samples(job) / job.epochs.max(1);
    job.data.train_samples = job.data.train_samples.max(used);
}

/// Returns the title of a system.
pub(super) fn title(name: &str) -> &'static str {
    let known = systems().iter().find(|system| system.name() == name);
    known.map_or("another system", |system| system.title())
}
