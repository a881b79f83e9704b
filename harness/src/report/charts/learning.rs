//! Charts of learning against time, cost and epochs.

use std::collections::BTreeMap;

use super::{Chart, Labelled};
use crate::analysis::{EpochAnalysis, TrialAnalysis};
use crate::claims::{Claim, Metric};
use crate::format;
use crate::report::chart::{Axis, End, Line, Lines, lines};
use crate::report::provenance::Provenance;

/// What a trial had used by the end of an epoch, from the trial's start.
type Taken = fn(&TrialAnalysis, usize) -> f64;

/// Draws test accuracy against the seconds of the epochs so far.
pub(super) fn accuracy_by_time(
    rows: &[Labelled<'_>],
    target: Option<f64>,
    provenance: Provenance,
) -> Option<Chart> {
    let name = match provenance {
        Provenance::Simulated => "simulated seconds of training",
        _ => "seconds of training",
    };
    let x = Axis {
        name,
        format: format::seconds,
        whole: false,
    };
    let svg = accuracy(
        "accuracy-chart",
        "Test accuracy against time",
        rows,
        target,
        x,
        seconds,
    )?;
    let caption = caption(rows, target, "wall seconds of the epochs so far");
    Some(Chart::of_all(
        "accuracy",
        "Accuracy against time",
        caption,
        svg,
    ))
}

/// Draws test accuracy against the cost of the epochs so far.
pub(super) fn accuracy_by_cost(rows: &[Labelled<'_>], target: Option<f64>) -> Option<Chart> {
    let x = Axis {
        name: "cost of training, paper's cost model, USD",
        format: format::usd,
        whole: false,
    };
    let svg = accuracy(
        "accuracy-cost-chart",
        "Test accuracy against cost",
        rows,
        target,
        x,
        dollars,
    )?;
    let caption = caption(
        rows,
        target,
        "the trial's cost by the paper's cost model, divided among its epochs by their wall seconds",
    );
    Some(Chart::of_all(
        "accuracy-cost",
        "Accuracy against cost",
        caption,
        svg,
    ))
}

/// Draws training loss by epoch.
pub(super) fn loss(rows: &[Labelled<'_>]) -> Option<Chart> {
    let line = |labelled: &Labelled<'_>| Line {
        points: mean_points(
            labelled.row.succeeded(),
            |_, epoch| epoch as f64 + 1.0,
            |epoch| epoch.train_loss,
        ),
        ..named(labelled, labelled.name.to_owned(), End::Complete)
    };
    let svg = lines(&Lines {
        id: "loss-chart",
        label: "Training loss by epoch",
        x: Axis {
            name: "epoch",
            format: |epoch| format!("{epoch:.0}"),
            whole: true,
        },
        y: Axis {
            name: "loss",
            format: format::number,
            whole: false,
        },
        lines: rows.iter().map(line).collect(),
        target: None,
    })?;
    Some(Chart::of_all(
        "loss",
        "Training loss by epoch",
        "Mean over trials.".into(),
        svg,
    ))
}

fn accuracy(
    id: &str,
    label: &str,
    rows: &[Labelled<'_>],
    target: Option<f64>,
    x: Axis<'_>,
    taken: Taken,
) -> Option<String> {
    let lines_of = |labelled| accuracy_lines(labelled, taken, target);
    lines(&Lines {
        id,
        label,
        x,
        y: Axis {
            name: "accuracy",
            format: format::percent,
            whole: false,
        },
        lines: rows.iter().flat_map(lines_of).collect(),
        target: target.map(|target| {
            (
                target,
                format!("to be reached: {}", format::percent(target)),
            )
        }),
    })
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
    let failed = labelled
        .row
        .trials
        .iter()
        .filter(|trial| trial.trial.failure.is_some());
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
        series: labelled.series,
        points: Vec::new(),
        end,
    }
}

/// Returns the mean of a figure after each epoch, at the mean of what it had
/// taken, over the trials that have it.
fn mean_points<'a>(
    trials: impl Iterator<Item = &'a TrialAnalysis>,
    taken: Taken,
    figure: fn(&EpochAnalysis) -> Option<f64>,
) -> Vec<[f64; 2]> {
    let mut sums: BTreeMap<usize, (f64, f64, f64)> = BTreeMap::new();
    for trial in trials {
        for epoch in &trial.epochs {
            if let Some(value) = figure(epoch) {
                let sum = sums.entry(epoch.epoch).or_default();
                sum.0 += taken(trial, epoch.epoch);
                sum.1 += value;
                sum.2 += 1.0;
            }
        }
    }
    sums.into_values()
        .map(|(taken, value, n)| [taken / n, value / n])
        .collect()
}

fn seconds(trial: &TrialAnalysis, epoch: usize) -> f64 {
    let so_far = trial.epochs.iter().filter(|known| known.epoch <= epoch);
    so_far.map(|known| known.seconds).sum()
}

fn dollars(trial: &TrialAnalysis, epoch: usize) -> f64 {
    let all: f64 = trial.epochs.iter().map(|known| known.seconds).sum();
    trial.paper.total_usd() * seconds(trial, epoch) / all
}

/// Returns the accuracy, in 0..=1, that claims require, by its
/// time or at all; the highest of several.
pub(super) fn target(claims: &[Claim]) -> Option<f64> {
    let least = |claim: &Claim| {
        let is_accuracy = claim.metric == Some(Metric::Accuracy) && claim.over.is_none();
        let unit = claim.unit.as_deref().unwrap_or_default();
        let mut units = Metric::Accuracy.units().iter();
        let (_, factor) = units.find(|(name, _)| *name == unit)?;
        claim
            .at_least
            .filter(|_| is_accuracy)
            .map(|least| least / factor)
    };
    claims
        .iter()
        .filter_map(|claim| claim.target.or_else(|| least(claim)))
        .max_by(f64::total_cmp)
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
    if rows
        .iter()
        .any(|labelled| labelled.row.trials.iter().any(is_failed))
    {
        caption.push_str(" A cross ends a trial that failed; it is in no mean.");
    }
    caption
}
