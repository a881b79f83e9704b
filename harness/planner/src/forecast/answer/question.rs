//! The question that an answer is about: what is trained, who said so, and the goal.

use epochcost_experiment::Experiment;
use epochcost_experiment::document::{Node, Place};
use epochcost_spec::format::count;
use epochcost_spec::rows::Row;
use serde::Serialize;

use super::goal::Goal;
use crate::forecast::{alone, work};

/// What is to be trained, and within what.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Question {
    /// Name of the experiment.
    pub(super) experiment: String,
    /// Samples of an epoch.
    pub(super) samples: usize,
    /// Where the samples were stated: the experiment file, or an option.
    pub(super) samples_from: String,
    /// Samples over all epochs that were asked for; none where mini-batches were.
    #[serde(skip)]
    pub(super) asked: Option<usize>,
    /// Whether the data have as many samples as `--samples` asks for.
    #[serde(skip)]
    pub(super) grows_data: bool,
    /// Passes over the samples.
    pub(super) epochs: usize,
    /// Where the epochs were stated.
    pub(super) epochs_from: String,
    /// Optimizer steps per epoch of the experiment's own rows with these epochs and mini-batches.
    pub(super) steps_per_epoch: usize,
    /// The question as a sentence.
    pub(super) text: String,
}

impl Question {
    /// Returns the question that an experiment and a goal ask.
    pub(super) fn of(experiment: &Experiment, goal: Goal) -> Self {
        let root = &experiment.document.root;
        let most = experiment.rows.iter().max_by_key(|row| samples(row));
        let epochs = most.map_or(1, |row| row.job.epochs.max(1));
        let trained = most.map_or(0, |row| samples(row) / epochs);
        // Workers leave out what is no whole mini-batch of each.
        let (samples, samples_from) = match work::stated(root) {
            Some(node) => (trained, source(Some(node))),
            None => {
                let dataset = root.get("dataset");
                let node = dataset.and_then(|node| node.get("samples").or(node.get("train")));
                (experiment.data.train, source(node.or(dataset)))
            }
        };
        let epochs_from = source(root.get("epochs"));
        let plural = if epochs == 1 { "" } else { "s" };
        let of_samples = count(samples as f64);
        let amount = if samples_from == epochs_from {
            format!("{of_samples} samples x {epochs} epoch{plural} (from {samples_from})")
        } else {
            format!(
                "{of_samples} samples (from {samples_from}) x {epochs} epoch{plural} (from \
                 {epochs_from})"
            )
        };
        Self {
            experiment: experiment.name.clone(),
            samples,
            samples_from,
            grows_data: (root.get("dataset"))
                .and_then(|dataset| dataset.get("samples"))
                .is_some_and(|node| source(Some(node)).starts_with("--samples")),
            asked: most.and_then(|row| work::asked(experiment, row)),
            epochs,
            epochs_from,
            steps_per_epoch: own_steps(&experiment.rows),
            text: {
                let (name, within) = (&experiment.name, goal.text());
                let batch = mini_batches(&experiment.rows);
                format!("Question: train {name}, {amount}{batch}, {within}.")
            },
        }
    }
}

/// Returns the row whose epochs and mini-batches are searched for: the first with the epochs of the
/// row that trains the most samples.
pub(crate) fn asked(rows: &[Row]) -> Option<&Row> {
    let most = rows.iter().max_by_key(|row| samples(row))?;
    rows.iter().find(|row| row.job.epochs == most.job.epochs)
}

/// Returns the samples of a mini-batch, and of which row; nothing where all rows have the same
/// ones and the same epochs.
fn mini_batches(rows: &[Row]) -> String {
    let of = |row: &Row| (row.job.batch_size, row.job.epochs);
    match asked(rows).filter(|asked| rows.iter().any(|row| of(row) != of(asked))) {
        Some(row) => format!(", mini-batches of {} as in {}", row.job.batch_size, row.id),
        None => String::new(),
    }
}

fn samples(row: &Row) -> usize {
    work::samples(&row.job)
}

/// Returns where a value was stated.
fn source(node: Option<&Node>) -> String {
    match node.map(|node| &node.origin.place) {
        Some(Place::Option(option)) => option.clone(),
        _ => "the experiment file".to_owned(),
    }
}

/// Returns the optimizer steps per epoch of the rows with the most workers among those that train
/// as the asked one does: in shorter epochs, or with other mini-batches, steps are others. The
/// alternative of one instance alone, which plans add, does not count.
fn own_steps(rows: &[Row]) -> usize {
    let setting = |row: &Row| (row.job.epochs, row.job.batch_size);
    let setting_asked = asked(rows).map(setting);
    let alike = || (rows.iter()).filter(|row| Some(setting(row)) == setting_asked);
    let own = |row: &&Row| !alone::is_alone(row);
    let workers = alike().filter(own).map(|row| row.job.workers).max();
    let counted = |row: &&Row| match workers {
        Some(workers) => own(row) && row.job.workers == workers,
        None => true,
    };
    let steps = alike().filter(counted);
    let steps = steps.map(|row| work::steps_per_epoch(&row.job));
    steps.max().unwrap_or(0)
}
