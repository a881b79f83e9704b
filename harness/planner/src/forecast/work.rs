//! How much is trained, and what its steps stand on.

use epochcost_systems::{Job, find};
use serde::Serialize;

use epochcost_experiment::document::Value;
use epochcost_experiment::{Document, Experiment, ExperimentError};
use epochcost_record::ComputeUsed;
use epochcost_spec::rows::Simulation;
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
        document.set_option(&option, field, &count.to_string())
    }
}

/// Returns whether a document leaves open the epochs, or the samples of described data.
fn is_open(document: &Document, field: &str) -> bool {
    let root = &document.root;
    match field {
        "epochs" => {
            let in_sweep = root.get("sweep").and_then(|sweep| sweep.get("epochs"));
            let in_rows = match root.get("systems").map(|node| &node.value) {
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
    let (origin, what, remedy) = match (open("dataset.samples"), open("epochs")) {
        (false, false) => return Ok(()),
        (true, true) => (
            document.root.origin_of("dataset"),
            "how many samples an epoch has, and how many epochs are trained",
            "give both in one: --samples N (samples of an epoch x epochs), or each: --set \
             dataset.samples=N --epochs N",
        ),
        (true, false) => (
            document.root.origin_of("dataset"),
            "how many samples an epoch has",
            "give --samples N (samples of an epoch x epochs), or --set dataset.samples=N",
        ),
        (false, true) => (
            document.root.origin_of("epochs"),
            "how many epochs are trained",
            "give --epochs N, or --samples N (samples of an epoch x epochs)",
        ),
    };
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
    let used: Vec<String> = (experiment.rows.iter())
        .filter_map(|row| ComputeUsed::of(stands, row))
        .map(|used| used.profile)
        .collect();
    let mut trained: Vec<&str> = (experiment.rows.iter())
        .map(|row| row.job.model.as_str())
        .collect();
    trained.sort_unstable();
    trained.dedup();
    let unused = stands.compute.iter().filter(|p| !used.contains(&p.name));
    let unused: Vec<UnusedCompute> = unused
        .map(|profile| {
            let mut models: Vec<_> = profile.models.iter().map(|c| c.model.clone()).collect();
            models.dedup();
            UnusedCompute {
                profile: profile.name.clone(),
                models,
            }
        })
        .collect();
    for UnusedCompute { profile, models } in &unused {
        output.message(format_args!(
            "warning: no row uses the compute profile {profile}: it knows {}, and the rows train {} \
             on other devices or models; name the model in the profile as the experiment does",
            models.join(", "),
            trained.join(", ")
        ));
    }
    unused
}
