//! Charts of learning against time, cost and epochs.

use epochcost_judge::analysis::{EpochAnalysis, TrialAnalysis, by_epoch};
use epochcost_spec::format;

use super::{Chart, Labelled};
use crate::chart::{Axis, End, Line, Lines};
use crate::provenance::Provenance;

/// What a trial had used from its first step to the evaluation after an epoch.
type Taken = fn(&TrialAnalysis, &EpochAnalysis) -> Option<f64>;

/// Draws test accuracy against the seconds since the trial's first step.
pub(super) fn accuracy_by_time(
    rows: &[Labelled<'_>],
    target: Option<f64>,
    provenance: Provenance,
) -> Option<Chart> {
    let name = match provenance {
        Provenance::Simulated => "simulated seconds of training",
        _ => "seconds of training",
    };
    let x = Axis::linear(name, format::seconds);
    let taken = "seconds from the trial's first step to the end of the evaluation";
    accuracy(["accuracy", "time", taken], rows, target, x, seconds)
}

/// Draws test accuracy against the cost until then.
pub(super) fn accuracy_by_cost(rows: &[Labelled<'_>], target: Option<f64>) -> Option<Chart> {
    let x = Axis::linear("cost of training, paper's cost model, USD", format::usd);
    let taken = "the trial's cost by the paper's cost model, in proportion to its seconds so far";
    accuracy(["accuracy-cost", "cost", taken], rows, target, x, dollars)
}

/// Draws training loss by epoch.
pub(super) fn loss(rows: &[Labelled<'_>]) -> Option<Chart> {
    let title = "Training loss by epoch";
    let epoch = |_: &TrialAnalysis, epoch: &EpochAnalysis| Some(epoch.epoch as f64 + 1.0);
    let line = |labelled: &Labelled<'_>| Line {
        points: mean_points(labelled.row.succeeded(), epoch, |epoch| epoch.train_loss),
        ..named(labelled, labelled.name.to_owned(), End::Complete)
    };
    let drawn = Lines {
        id: "loss",
        label: title,
        x: Axis {
            whole: true,
            ..Axis::linear("epoch", |epoch| format!("{epoch:.0}"))
        },
        y: Axis::linear("training loss", format::number),
        lines: rows.iter().map(line).collect(),
        target: None,
        crossings: Vec::new(),
    };
    let caption = "Mean over trials, up to the last epoch that all of them have.";
    drawn.chart(title, caption.into())
}

/// Draws accuracies against what was taken for them; nothing without a line of two points: one
/// alone is no curve, and stands in the table.
fn accuracy(
    [id, against, what]: [&str; 3],
    rows: &[Labelled<'_>],
    target: Option<f64>,
    x: Axis<'_>,
    taken: Taken,
) -> Option<Chart> {
    let lines_of = |labelled| accuracy_lines(labelled, taken, target);
    let lines: Vec<Line> = rows.iter().flat_map(lines_of).collect();
    if lines.iter().all(|line| line.points.len() < 2) {
        return None;
    }
    let goal = |target| format!("to be reached: {}", format::percent(target));
    let drawn = Lines {
        id,
        label: &format!("Test accuracy against {against}"),
        x,
        y: Axis {
            most: Some(1.0),
            ..Axis::linear("test accuracy", format::percent)
        },
        lines,
        target: target.map(|target| (target, goal(target))),
        crossings: Vec::new(),
    };
    let title = format!("Accuracy against {against}");
    drawn.chart(&title, caption(rows, target, what))
}

/// Returns the mean over the trials that ended well, and each failed one that
/// got as far as an evaluation.
fn accuracy_lines(labelled: &Labelled<'_>, taken: Taken, target: Option<f64>) -> Vec<Line> {
    let points = mean_points(labelled.row.succeeded(), taken, |epoch| epoch.accuracy);
    let reached = |target: f64| points.iter().any(|[_, accuracy]| *accuracy >= target);
    let end = if target.is_some_and(|target| !reached(target)) {
        End::Censored
    } else {
        End::Complete
    };
    let mut lines = vec![Line {
        points,
        ..named(labelled, labelled.name.to_owned(), end)
    }];
    let trials = labelled.row.trials.iter();
    let failed = trials.filter(|trial| trial.trial.failure.is_some());
    lines.extend(failed.map(|trial| {
        let name = format!("{}, trial {}", labelled.name, trial.trial.id.trial);
        Line {
            points: mean_points([trial].into_iter(), taken, |epoch| epoch.accuracy),
            ..named(labelled, name, End::Failed)
        }
    }));
    lines.retain(|line| !line.points.is_empty());
    lines
}

fn named(labelled: &Labelled<'_>, name: String, end: End) -> Line {
    Line {
        name,
        system: labelled.system.clone(),
        look: labelled.look,
        points: Vec::new(),
        end,
    }
}

/// Returns the mean of a figure after each epoch, at the mean of what it had
/// taken, while every trial has it.
fn mean_points<'a>(
    trials: impl Iterator<Item = &'a TrialAnalysis>,
    taken: Taken,
    figure: fn(&EpochAnalysis) -> Option<f64>,
) -> Vec<[f64; 2]> {
    let trials: Vec<&TrialAnalysis> = trials.collect();
    let point =
        |trial: &TrialAnalysis, epoch: &EpochAnalysis| Some([taken(trial, epoch)?, figure(epoch)?]);
    let points = by_epoch(&trials, point).into_iter();
    points.map(|(_, point)| point).collect()
}

/// Returns the seconds from the start of the trial's first step to the end of the evaluation
/// after an epoch.
fn seconds(trial: &TrialAnalysis, epoch: &EpochAnalysis) -> Option<f64> {
    Some(epoch.evaluated_s? - trial.began_s?)
}

/// Returns the cost in proportion to these seconds, of those to the trial's last step.
fn dollars(trial: &TrialAnalysis, epoch: &EpochAnalysis) -> Option<f64> {
    let ends = trial.epochs.iter().map(|epoch| epoch.ended_s);
    let whole_s = ends.reduce(f64::max)? - trial.began_s?;
    Some(trial.paper.total_usd() * (seconds(trial, epoch)? / whole_s).min(1.0))
}

fn caption(rows: &[Labelled<'_>], target: Option<f64>, taken: &str) -> String {
    let mut caption = format!("Test accuracy, mean over trials, against {taken}.");
    if target.is_some() {
        caption.push_str(
            " A row that ended below the dotted line is censored: its arrow shows that nothing is \
             known of when it would have got there.",
        );
    }
    let is_failed =
        |trial: &TrialAnalysis| trial.trial.failure.is_some() && !trial.epochs.is_empty();
    let mut trials = rows.iter().flat_map(|labelled| &labelled.row.trials);
    if trials.any(is_failed) {
        caption.push_str(" A cross ends a trial that failed; it is in no mean.");
    }
    caption
}
