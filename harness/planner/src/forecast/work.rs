//! How much is trained, and what its steps stand on.

use std::collections::{BTreeMap, BTreeSet};

use epochcost_systems::{Job, find};
use serde::Serialize;

use epochcost_experiment::document::{Node, Value};
use epochcost_experiment::{Document, Experiment, ExperimentError};
use epochcost_record::ComputeUsed;
use epochcost_spec::format::count;
use epochcost_spec::rows::{Row, Simulation};
use epochcost_spec::ui::Output;

/// An amount of training that the workers of every row share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Samples, over all epochs and workers.
    Samples(u64),
    /// Passes over the data.
    Epochs(u64),
}

impl Work {
    /// Lays the work over a document in the place of its mini-batches per worker, which
    /// are work per worker.
    ///
    /// # Errors
    /// When the document does not take it.
    pub(super) fn lay(self, document: &mut Document) -> Result<(), ExperimentError> {
        document.root.remove("batches_per_worker");
        let (field, count) = match self {
            Self::Samples(count) => {
                // One pass over so many, where the file leaves open what an epoch is.
                for (field, value) in [("dataset.samples", count), ("epochs", 1)] {
                    if is_open(document, field) {
                        let option = format!("--samples {count}");
                        document.set_option(&option, field, &value.to_string())?;
                    }
                }
                ("samples", count)
            }
            Self::Epochs(count) => {
                document.root.remove("samples");
                ("epochs", count)
            }
        };
        let option = format!("--{field} {count}");
        let mut fields = vec![field.to_owned()];
        if let (Self::Epochs(_), Some(Value::List(rows))) = (self, systems(document)) {
            // All rows share it, those with epochs of their own among them.
            let own: Vec<usize> = (0..rows.len())
                .filter(|row| rows[*row].get(field).is_some())
                .collect();
            if own.len() == rows.len() {
                fields.clear();
            }
            fields.extend(own.iter().map(|row| format!("systems.{row}.{field}")));
        }
        for field in fields {
            document.set_option(&option, &field, &count.to_string())?;
        }
        Ok(())
    }
}

fn systems(document: &Document) -> Option<&Value> {
    document.root.get("systems").map(|node| &node.value)
}

/// Returns whether a document leaves open the epochs, or the samples of described data.
fn is_open(document: &Document, field: &str) -> bool {
    let root = &document.root;
    match field {
        "epochs" => {
            let in_sweep = root.get("sweep").and_then(|sweep| sweep.get("epochs"));
            let in_rows = match systems(document) {
                Some(Value::List(rows)) => rows.iter().any(|row| row.get("epochs").is_some()),
                _ => false,
            };
            root.get("epochs").is_none() && in_sweep.is_none() && !in_rows
        }
        _ => root.get("dataset").is_some_and(|dataset| {
            dataset.get("bytes_per_sample").is_some() && dataset.get("samples").is_none()
        }),
    }
}

/// Asks how much is trained where a document leaves it open, as the plan of a profiled program
/// does.
///
/// # Errors
/// Names what is open, and the options that say it.
pub(super) fn ask(document: &Document, set: &[String]) -> Result<(), ExperimentError> {
    let open = |field: &str| {
        let is_set = set
            .iter()
            .any(|text| text.split('=').next().map(str::trim) == Some(field));
        is_open(document, field) && !is_set
    };
    let (field, what, remedy) = match (open("dataset.samples"), open("epochs")) {
        (false, false) => return Ok(()),
        (true, true) => (
            "dataset",
            "how many samples an epoch has, and how many epochs are trained",
            "give both in one: --samples N (samples of an epoch x epochs), or each: --set \
             dataset.samples=N --epochs N",
        ),
        (true, false) => (
            "dataset",
            "how many samples an epoch has",
            "give --samples N (samples of an epoch x epochs), or --set dataset.samples=N",
        ),
        (false, true) => (
            "epochs",
            "how many epochs are trained",
            "give --epochs N, or --samples N (samples of an epoch x epochs)",
        ),
    };
    let origin = document.root.origin_of(field);
    Err(document.error(origin, format!("nothing says {what}"), remedy))
}

/// Returns the samples that all workers of a job train on, over all epochs.
pub(super) fn samples(job: &Job) -> usize {
    job.workers * job.samples_per_worker() * job.epochs
}

/// Returns the optimizer steps of a worker in an epoch; of an unknown system, its mini-batches.
pub(super) fn steps_per_epoch(job: &Job) -> usize {
    let bound = find(&job.system).and_then(|system| system.bind(job).ok());
    bound.map_or(job.batches_per_worker, |bound| bound.steps_per_epoch())
}

/// Samples that are trained in the place of those that were asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Rounded {
    /// Samples that were asked for, over all epochs.
    asked: usize,
    /// The fewest that a row trains.
    least: usize,
    /// The most that a row trains.
    most: usize,
    /// The same as a sentence.
    pub(super) text: String,
}

impl Rounded {
    /// Returns what samples were rounded to; nothing if they were not.
    pub(super) fn of(asked: usize, [least, most]: [usize; 2]) -> Option<Self> {
        let number = |samples: usize| count(samples as f64);
        let trained = if least == most {
            number(least)
        } else {
            format!("{} to {}", number(least), number(most))
        };
        let way = match (least < asked, most > asked) {
            (false, false) => return None,
            (true, false) => " down",
            (false, true) => " up",
            (true, true) => "",
        };
        Some(Self {
            asked,
            least,
            most,
            text: format!(
                "{trained} samples: {} rounded{way} to whole mini-batches of all workers.",
                number(asked)
            ),
        })
    }
}

/// Returns what the samples of an experiment's rows were rounded to, for each number that was asked
/// for.
pub(super) fn rounded(experiment: &Experiment) -> Vec<Rounded> {
    let mut trained: BTreeMap<usize, [usize; 2]> = BTreeMap::new();
    for row in &experiment.rows {
        let Some(asked) = asked(experiment, row) else {
            continue;
        };
        let own = samples(&row.job);
        let range = trained.entry(asked).or_insert([own, own]);
        *range = [range[0].min(own), range[1].max(own)];
    }
    let rounded = trained.into_iter();
    rounded
        .filter_map(|(asked, range)| Rounded::of(asked, range))
        .collect()
}

/// Returns the samples over all epochs that a row was asked to train: those that the experiment
/// states, or all of its data in each epoch. None where mini-batches are asked for, or each row has
/// samples of its own.
pub(super) fn asked(experiment: &Experiment, row: &Row) -> Option<usize> {
    let root = &experiment.document.root;
    if root.get("batches_per_worker").is_some() || stated_of_rows(root).is_some() {
        return None;
    }
    match root.get("samples").map(|node| &node.value) {
        None => Some(experiment.data.train * row.job.epochs),
        Some(Value::Unsigned(samples)) => usize::try_from(*samples).ok(),
        Some(_) => None,
    }
}

/// Returns what an experiment says of how much its rows train, of all or of some of them; none
/// where each trains all data.
pub(super) fn stated(root: &Node) -> Option<&Node> {
    let of_all = AMOUNTS.into_iter().find_map(|field| root.get(field));
    of_all.or_else(|| stated_of_rows(root))
}

/// Fields that say how much is trained.
const AMOUNTS: [&str; 2] = ["samples", "batches_per_worker"];

fn stated_of_rows(root: &Node) -> Option<&Node> {
    let places = ["systems", "sweep", "forms"].into_iter();
    let places = places.filter_map(|field| root.get(field));
    let mut found = places.flat_map(|node| AMOUNTS.map(|field| below(node, field)));
    found.find_map(|node| node)
}

/// Returns the first field of that name anywhere below a node.
fn below<'a>(node: &'a Node, field: &str) -> Option<&'a Node> {
    match &node.value {
        Value::Map(entries) => entries.iter().find_map(|entry| {
            let own = (entry.key == field).then_some(&entry.node);
            own.or_else(|| below(&entry.node, field))
        }),
        Value::List(items) => items.iter().find_map(|item| below(item, field)),
        _ => None,
    }
}

/// Returns the models of an experiment's rows, in the order of their names.
pub(super) fn models(experiment: &Experiment) -> Vec<&str> {
    let models = experiment.rows.iter().map(|row| row.job.model.as_str());
    models.collect::<BTreeSet<_>>().into_iter().collect()
}

/// A compute profile that was named and that no row uses.
#[derive(Debug, Serialize)]
pub(super) struct UnusedCompute {
    /// Name of the profile.
    profile: String,
    /// Models that it knows.
    models: Vec<String>,
}

/// Returns the compute profiles that the experiment or the command line names and no row
/// uses, and warns of each.
pub(super) fn unused_compute(
    experiment: &Experiment,
    stands: &Simulation,
    output: Output,
) -> Vec<UnusedCompute> {
    let named = experiment.document.root.get("simulation");
    if named.and_then(|node| node.get("compute")).is_none() {
        return Vec::new();
    }
    let used = (experiment.rows.iter()).filter_map(|row| ComputeUsed::of(stands, row));
    let used: Vec<String> = used.map(|used| used.profile).collect();
    let trained = models(experiment);
    let unused = stands.compute.iter().filter(|p| !used.contains(&p.name));
    let unused = unused.map(|profile| {
        let mut models: Vec<_> = profile.models.iter().map(|c| c.model.clone()).collect();
        models.dedup();
        let profile = profile.name.clone();
        output.message(format_args!(
            "warning: no row uses the compute profile {profile}: it knows {}, and the rows train {} \
             on other devices or models; name the model in the profile as the experiment does",
            models.join(", "),
            trained.join(", ")
        ));
        UnusedCompute { profile, models }
    });
    unused.collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_is_rounded_is_said() {
        for (asked, trained, said) in [
            (3, [32, 32], "32 samples: 3 rounded up"),
            (
                50_000,
                [49_664, 49_664],
                "49,664 samples: 50,000 rounded down",
            ),
            (
                50_000,
                [49_664, 50_000],
                "49,664 to 50,000 samples: 50,000 rounded down",
            ),
            (1_000, [960, 1_024], "960 to 1,024 samples: 1,000 rounded"),
        ] {
            let rounded = Rounded::of(asked, trained).unwrap();
            let said = format!("{said} to whole mini-batches of all workers.");
            assert_eq!(rounded.text, said);
        }
        assert_eq!(Rounded::of(64, [64, 64]), None);
    }
}
