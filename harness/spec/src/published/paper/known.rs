//! Quantities that formulas may name although no paper prints them: counts of parameters,
//! requests by the systems' closed forms, and list prices.

use std::collections::BTreeMap;

use epochcost_systems::{DataPlan, Device, Evaluate, Fidelity, Job, find, find_model};

use crate::cost::PriceBook;
use crate::formula::{Cell, Column, Grid, KNOWN, Unit};

/// Bytes of one scalar of a gradient.
const SCALAR_BYTES: f64 = 4.0;

/// Classes of the heads that parameters are counted with: of CIFAR-10 and MNIST, of ImageNet.
const CLASSES: [usize; 2] = [10, 1000];

/// Adds the columns of `known.`: all for the models and systems under `names`.
pub(super) fn add(
    grid: &mut Grid,
    names: &BTreeMap<String, Vec<String>>,
    setups: &BTreeMap<String, String>,
    prices: &PriceBook,
) {
    parameters(grid, names);
    requests(grid, names, setups);
    let mut usd = Column::new(KNOWN, "usd", &["price".to_owned()], false);
    for price in prices.prices() {
        let cell = cell(price.usd, &format!("USD per {}", price.unit), &price.source);
        usd.insert(vec![price.dimension.clone()], cell);
    }
    grid.add_column(usd);
}

fn cell(value: f64, unit: &str, place: &str) -> Cell {
    Cell {
        value,
        half_digit: 0.0,
        unit: Unit::named(unit),
        place: place.to_owned(),
    }
}

/// Adds `parameters` and `gradient_mb`, by model and classes.
fn parameters(grid: &mut Grid, names: &BTreeMap<String, Vec<String>>) {
    let keys = ["model".to_owned(), "classes".to_owned()];
    let mut parameters = Column::new(KNOWN, "parameters", &keys, true);
    let mut megabytes = Column::new(KNOWN, "gradient_mb", &keys, false);
    for name in names.keys() {
        let Some(model) = epochcost_architectures::find(name) else {
            continue;
        };
        for classes in CLASSES {
            let at = vec![grid.canonical(name).to_owned(), classes.to_string()];
            let place = format!("layers of {name} with a head of {classes} classes");
            let count = (model.with_classes)(classes).parameters() as f64;
            parameters.insert(at.clone(), cell(count, "count", &place));
            megabytes.insert(at, cell(count * SCALAR_BYTES / 1e6, "MB", &place));
        }
    }
    grid.add_column(parameters);
    grid.add_column(megabytes);
}

/// Adds `puts` and `gets` of an epoch, by model and framework, if the set-ups say what an
/// epoch is.
fn requests(
    grid: &mut Grid,
    names: &BTreeMap<String, Vec<String>>,
    setups: &BTreeMap<String, String>,
) {
    let keys = ["model".to_owned(), "framework".to_owned()];
    let mut puts = Column::new(KNOWN, "puts", &keys, true);
    let mut gets = Column::new(KNOWN, "gets", &keys, true);
    for system in names.keys() {
        for model in names.keys() {
            let Some((writes, reads)) = traffic(system, model, setups) else {
                continue;
            };
            let at = [model, system]
                .map(|name| grid.canonical(name).to_owned())
                .to_vec();
            let place = format!("closed form of {system}");
            puts.insert(at.clone(), cell(writes, "count", &place));
            gets.insert(at, cell(reads, "count", &place));
        }
    }
    grid.add_column(puts);
    grid.add_column(gets);
}

/// Returns writes and reads of an epoch; `None` for what is no system, no model or no epoch.
fn traffic(system: &str, model: &str, setups: &BTreeMap<String, String>) -> Option<(f64, f64)> {
    let known = find(system)?;
    let sizes = find_model(model)?.sizes;
    let count = |field: &str| {
        let count = setups.get(field)?.parse::<usize>().ok();
        count.filter(|count| *count > 0)
    };
    let (workers, batch_size) = (count("workers")?, count("batch_size")?);
    let train_samples = count("data.train_samples")?;
    let dataset = epochcost_datasets::find(setups.get("dataset.name")?).ok()?;
    let settings = known.settings(Fidelity::Paper, &serde_json::Map::new());
    let job = Job {
        trial: String::new(),
        system: system.to_owned(),
        fidelity: Fidelity::Paper,
        settings: settings.ok()?,
        model: model.to_owned(),
        data: DataPlan {
            dataset: dataset.name.to_owned(),
            record_bytes: dataset.format.record_bytes(),
            train_samples,
            validation_samples: 0,
            test_samples: 0,
            augment: false,
        },
        workers,
        batch_size,
        batches_per_worker: train_samples / workers / batch_size,
        last_batch: None,
        epochs: 1,
        seed: 0,
        optimizer: known.optimizer(Fidelity::Paper),
        evaluate: Evaluate::Never,
        device: Device::Cpu,
        attack: None,
    };
    let traffic = known.bind(&job).ok()?.traffic(sizes).ok()?;
    Some((traffic.puts as f64, traffic.gets as f64))
}
