//! How much is trained, and what its steps stand on.

use epochcost_systems::{Job, find};
use serde::Serialize;

use crate::experiment::{Document, Experiment, ExperimentError};
use crate::results::ComputeUsed;
use crate::rows::Simulation;
use crate::ui::Output;

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
            Self::Samples(count) => ("samples", count),
            Self::Epochs(count) => {
                document.root.remove("samples");
                ("epochs", count)
            }
        };
        let option = format!("--{field} {count}");
        document.set_option(&option, field, &count.to_string())
    }
}

/// Returns the samples that all workers of a job train on, over all epochs.
pub(super) fn samples(job: &Job) -> usize {
    job.workers * job.batch_size * job.batches_per_worker * job.epochs
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
