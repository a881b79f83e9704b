//! One trial of each row with every step of it, for timelines and traces.

use epochcost_systems::StepRecord;

use crate::analysis::{Analysis, TrialAnalysis};
use crate::results::{ResultsError, RunDirectory};

/// A trial with its steps.
pub(super) struct Sample<'a> {
    /// The row's place in the analysis.
    pub row: usize,
    pub trial: &'a TrialAnalysis,
    pub steps: Vec<StepRecord>,
}

/// Returns the first trial of each row that ended well, or else the first that
/// left anything.
///
/// # Errors
/// When a file of events is missing or damaged.
pub(super) fn samples<'a>(
    run: &RunDirectory,
    analysis: &'a Analysis,
) -> Result<Vec<Sample<'a>>, ResultsError> {
    let mut samples = Vec::new();
    for (row, analysed) in analysis.rows.iter().enumerate() {
        let left_something = |trial: &&TrialAnalysis| !trial.invocations.is_empty();
        let mut well = analysed.succeeded().filter(left_something);
        let any = || analysed.trials.iter().find(left_something);
        if let Some(trial) = well.next().or_else(any) {
            samples.push(Sample {
                row,
                trial,
                steps: run.steps(&trial.trial)?,
            });
        }
    }
    Ok(samples)
}
