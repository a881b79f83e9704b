//! The plain alternative of every plan for a model of one's own: one instance alone,
//! which trains the same samples and exchanges nothing.

use epochcost_experiment::document::{Node, Value};
use epochcost_experiment::{Document, Experiment, Options};
use epochcost_spec::cost::instances::gpus;
use epochcost_spec::rows::Row;
use epochcost_systems::{Host, Launch, find};

use super::{on_simulator, quoted, work};
use crate::error::Result;

/// System that trains on one instance; with one worker, it exchanges nothing.
pub(super) const SYSTEM: &str = "mirrored";

/// Name of such a row.
const NAME: &str = "one-instance-alone";

/// Returns one row for each of the experiment's own models and settings: one instance
/// alone, unless a row is one already.
///
/// # Errors
/// When such a row cannot be checked.
pub(super) fn rows(experiment: &Experiment) -> Result<Vec<Row>> {
    let settings = settings(experiment);
    let several = settings.len() > 1;
    let by_epochs = (settings.iter()).any(|(row, _)| row.job.epochs != settings[0].0.job.epochs);
    let mut rows = Vec::with_capacity(settings.len());
    for (row, samples) in settings {
        let mut name = NAME.to_owned();
        if several {
            name += &format!("-{}-b{}", row.job.model, row.job.batch_size);
        }
        if by_epochs {
            name += &format!("-e{}", row.job.epochs);
        }
        let document = document(&experiment.document, row, samples, &name)?;
        let options = Options {
            prices: experiment.prices.clone(),
            keeps_impossible: true,
            ..on_simulator()
        };
        rows.extend(Experiment::from_document(document, &options)?.rows);
    }
    Ok(rows)
}

/// Returns whether a row is one instance alone.
pub(super) fn is_alone(row: &Row) -> bool {
    row.job.system == SYSTEM && row.job.workers == 1
}

/// Returns whether all of a row's workers are in one machine.
pub(super) fn is_one_machine(row: &Row) -> bool {
    row.job.system == SYSTEM
}

/// Returns whether a row is one function that runs from the start to the end, and has none to
/// exchange with.
pub(super) fn is_one_function(row: &Row) -> bool {
    find(&row.job.system).is_some_and(|system| {
        let on_functions = system.deployment().worker_host() == Host::Function;
        let launch = system.bind(&row.job).map(|bound| bound.launch());
        on_functions && matches!(launch, Ok(Launch::Workers(workers)) if workers.len() == 1)
    })
}

/// Returns the first row of each setting that one instance alone has to train as well, and the most
/// samples of its rows.
fn settings(experiment: &Experiment) -> Vec<(&Row, usize)> {
    let mut settings: Vec<(&Row, usize)> = Vec::new();
    let own = || experiment.rows.iter().filter(|row| row.own_model.is_some());
    let of = |row: &Row| (row.job.model.clone(), row.job.batch_size, row.job.epochs);
    for row in own() {
        let samples = work::samples(&row.job);
        let mut known = settings.iter_mut();
        match known.find(|(known, _)| of(known) == of(row)) {
            Some((_, most)) => *most = samples.max(*most),
            None => settings.push((row, samples)),
        }
    }
    settings.retain(|(setting, _)| !own().any(|row| is_alone(row) && of(row) == of(setting)));
    settings
}

/// Returns whether the instance type of an experiment has what one instance alone computes on: a
/// GPU, unless the experiment asks for the CPU. Rows without a GPU may have a type without one.
fn has_device(document: &Document) -> bool {
    let text = |node: Option<&Node>| match node.map(|node| &node.value) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let root = &document.root;
    let device = text(root.get("device").and_then(|device| device.get("kind")));
    let own = text(root.get("instance_type"));
    device.as_deref() == Some("cpu") || own.is_none_or(|own| gpus(&own) > 0)
}

/// Returns the experiment with this row alone.
fn document(from: &Document, setting: &Row, samples: usize, name: &str) -> Result<Document> {
    let (mut document, job) = (from.clone(), &setting.job);
    let fields = [
        "sweep",
        "forms",
        "settings",
        "batches_per_worker",
        "fidelity",
    ];
    for field in fields {
        document.root.remove(field);
    }
    if !has_device(&document) {
        document.root.remove("instance_type");
    }
    let row = format!("[{{system: {SYSTEM}, name: {}}}]", quoted(name));
    let values = [
        ("systems", row),
        ("model", quoted(&job.model)),
        ("workers", "1".to_owned()),
        ("batch_size", job.batch_size.to_string()),
        ("epochs", job.epochs.to_string()),
        ("samples", samples.to_string()),
    ];
    for (field, value) in values {
        document.set_option("plan", field, &value)?;
    }
    Ok(document)
}
