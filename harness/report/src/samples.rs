//! One trial of each row with every step of it, for timelines and traces.

use epochcost_judge::analysis::{Analysis, TrialAnalysis};
use epochcost_record::{ResultsError, RunDirectory};
use epochcost_systems::StepRecord;

use super::activity::{Worker, workers};
use super::charts::Labelled;

/// A trial with its steps.
pub(super) struct Sample<'a> {
    /// The row's place in the analysis.
    pub row: usize,
    pub trial: &'a TrialAnalysis,
    pub steps: &'a [StepRecord],
    pub workers: Vec<Worker<'a>>,
    /// Steps of no invocation that was recorded.
    pub orphans: usize,
}

/// Returns the first trial of each row that ended well, or else the first that left anything,
/// with the row's place in the analysis.
pub(super) fn chosen(analysis: &Analysis) -> Vec<(usize, &TrialAnalysis)> {
    let mut chosen = Vec::new();
    for (row, analysed) in analysis.rows.iter().enumerate() {
        let left_something = |trial: &&TrialAnalysis| !trial.invocations.is_empty();
        let mut well = analysed.succeeded().filter(left_something);
        let any = || analysed.trials.iter().find(left_something);
        chosen.extend(well.next().or_else(any).map(|trial| (row, trial)));
    }
    chosen
}

/// Shows each of the `chosen` trials to `look`. The steps of one are in memory at a time.
///
/// # Errors
/// When a file of events is missing or damaged.
pub(super) fn each(
    run: &RunDirectory,
    rows: &[Labelled<'_>],
    chosen: &[(usize, &TrialAnalysis)],
    mut look: impl FnMut(&Labelled<'_>, &Sample<'_>),
) -> Result<(), ResultsError> {
    for (row, trial) in chosen {
        let Some(labelled) = rows.get(*row) else {
            continue;
        };
        let steps = run.steps(&trial.trial)?;
        let (workers, orphans) = workers(&trial.invocations, &steps);
        let sample = Sample {
            row: *row,
            trial,
            steps: &steps,
            workers,
            orphans,
        };
        look(labelled, &sample);
    }
    Ok(())
}
