//! The plain alternative of every plan for a model of one's own: one instance alone,
//! which trains the same samples and exchanges nothing.

use epochcost_experiment::{Document, Experiment, Options};
use epochcost_spec::rows::Row;
use epochcost_systems::{Host, Launch, find};

use super::{on_simulator, quoted, work};
use crate::error::Error;

/// System that trains on one instance; with one worker, it exchanges nothing.
pub(super) const SYSTEM: &str = "mirrored";

/// Name of such a row.
const NAME: &str = "one-instance-alone";

/// A setting that one instance alone has to train as well.
#[derive(Clone, PartialEq)]
struct Setting {
    model: String,
    batch_size: usize,
    epochs: usize,
    /// Most samples of a row of this setting.
    samples: usize,
}

/// Returns one row for each of the experiment's own models and settings: one instance
/// alone, unless a row is one already.
///
/// # Errors
/// When such a row cannot be checked.
pub(super) fn rows(experiment: &Experiment) -> Result<Vec<Row>, Error> {
    let settings = settings(experiment);
    let several = settings.len() > 1;
    let mut rows = Vec::with_capacity(settings.len());
    for setting in settings {
        let document = document(&experiment.document, &setting, several)?;
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

fn settings(experiment: &Experiment) -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    let own = || experiment.rows.iter().filter(|row| row.own_model.is_some());
    for row in own() {
        let job = &row.job;
        let samples = work::samples(job);
        let known = settings.iter_mut().find(|known| {
            let same = (&known.model, known.batch_size, known.epochs);
            same == (&job.model, job.batch_size, job.epochs)
        });
        match known {
            Some(known) => known.samples = known.samples.max(samples),
            None => settings.push(Setting {
                model: job.model.clone(),
                batch_size: job.batch_size,
                epochs: job.epochs,
                samples,
            }),
        }
    }
    settings.retain(|setting| {
        !own().any(|row| {
            let job = &row.job;
            is_alone(row) && job.model == setting.model && job.batch_size == setting.batch_size
        })
    });
    settings
}

/// Returns the experiment with this row alone.
fn document(from: &Document, setting: &Setting, several: bool) -> Result<Document, Error> {
    let mut document = from.clone();
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
    let mut name = NAME.to_owned();
    if several {
        name += &format!("-{}-b{}", setting.model, setting.batch_size);
    }
    let row = format!("[{{system: {SYSTEM}, name: {}}}]", quoted(&name));
    let values = [
        ("systems", row),
        ("model", quoted(&setting.model)),
        ("workers", "1".to_owned()),
        ("batch_size", setting.batch_size.to_string()),
        ("epochs", setting.epochs.to_string()),
        ("samples", setting.samples.to_string()),
    ];
    for (field, value) in values {
        document.set_option("plan", field, &value)?;
    }
    Ok(document)
}
