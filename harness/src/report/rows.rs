//! The lines of a report's tables that are about rows and trials.

use serde::Serialize;

use super::cell::Cell;
use super::charts::{Labelled, STAGES};
use super::tables::mean_items;
use crate::analysis::names::MINIMUM;
use crate::analysis::summary::{RowSummary, TrafficMeans};
use crate::analysis::{RowAnalysis, TrialAnalysis};
use crate::claims::{COLUMNS, Column, Estimate, Metric};
use crate::cost::Bill;
use crate::format;

/// Text of a loss that is not a finite number.
pub(super) const DIVERGED: &str = "diverged";

#[derive(Debug, Serialize)]
pub(super) struct SummaryLine {
    pub name: String,
    pub system: String,
    /// With the precision, where it is not `fp32`.
    pub fidelity: String,
    pub setting: String,
    /// One cell for each of [`columns`].
    pub figures: Vec<Cell>,
    pub replicas: String,
    pub trials: Cell,
    pub failed: bool,
    pub infeasible: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct StageLine {
    pub name: String,
    pub system: String,
    pub cells: Vec<Cell>,
}

#[derive(Debug, Serialize)]
pub(super) struct BillLine {
    pub name: String,
    pub system: String,
    pub cost_model: &'static str,
    pub dimension: String,
    pub quantity: Cell,
    pub unit: String,
    pub price: Cell,
    pub usd: Cell,
}

#[derive(Debug, Serialize)]
pub(super) struct TrafficLine {
    pub name: String,
    pub system: String,
    pub cells: Vec<Cell>,
    pub expected: Vec<Cell>,
    pub agrees: String,
    pub differs: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct EpochLine {
    pub name: String,
    pub system: String,
    pub epoch: Cell,
    pub loss: Cell,
    pub accuracy: Cell,
}

#[derive(Debug, Serialize)]
pub(super) struct TrialLine {
    pub name: String,
    pub system: String,
    pub trial: Cell,
    pub seed: Cell,
    pub seconds: Cell,
    pub wall: Cell,
    pub cost: Cell,
    pub cold: Cell,
    pub cpu: Cell,
    pub loss: Cell,
    pub accuracy: Cell,
    pub failure: String,
    /// End of a trial that did not fail.
    pub outcome: String,
}

/// Seconds and cost of a row on one basis, and of its whole trial.
pub(super) struct Spent {
    /// Seconds per epoch, or to the target accuracy.
    pub seconds: Estimate,
    /// Cost for the same, with everything billed.
    pub usd: Option<f64>,
    /// Cost for the same by the paper's cost model.
    pub paper_usd: Option<f64>,
    /// Wall seconds of a trial.
    pub total_s: Option<f64>,
    /// Cost of a trial with everything billed.
    pub total_usd: Option<f64>,
}

impl Spent {
    /// Returns what a row takes to the target accuracy, or per epoch where there is none.
    pub(super) fn of(summary: &RowSummary, row: &RowAnalysis) -> Self {
        let per_epoch = |usd: Option<f64>| usd.map(|usd| usd / summary.epochs as f64);
        let (seconds, usd, paper_usd) = match summary.seconds_to_target {
            Some(seconds) => (
                seconds,
                summary.cost_to_target_full_usd,
                summary.cost_to_target_paper_usd,
            ),
            None => (
                summary.seconds_per_epoch,
                per_epoch(summary.cost_full_usd),
                per_epoch(summary.cost_paper_usd),
            ),
        };
        let walls: Vec<f64> = row.succeeded().map(|trial| trial.trial.wall_s).collect();
        Self {
            seconds,
            usd,
            paper_usd,
            total_s: Estimate::of(&walls).mean,
            total_usd: summary.cost_full_usd,
        }
    }
}

/// Returns dollars with everything billed, marked where they hold a minimum charge.
pub(super) fn marked(row: &RowSummary, usd: Option<f64>, format: fn(f64) -> String) -> String {
    let text = format::or_unknown(usd, format);
    if row.instance_minimum && usd.is_some() {
        text + MINIMUM
    } else {
        text
    }
}

pub(super) fn summary_line(labelled: &Labelled<'_>, row: &RowSummary) -> SummaryLine {
    let mut trials = labelled.row.succeeded();
    let may_differ = trials.any(|trial| trial.trial.replicas_may_differ.is_some());
    let figure = |column: &Column| {
        let estimate = labelled.row.estimate(column.metric);
        match column.metric {
            Metric::TrainLoss if row.diverged_trials > 0 => Cell::text(DIVERGED),
            _ => Cell::with(estimate.mean, format::figure(estimate, column.format)),
        }
    };
    let spent = Spent::of(row, labelled.row);
    let seconds = format::estimate(spent.seconds);
    let mut figures = vec![
        Cell::with(spent.seconds.mean, seconds),
        Cell::with(spent.usd, marked(row, spent.usd, format::usd)),
        Cell::of(spent.paper_usd, format::usd),
    ];
    if row.seconds_to_target.is_some() {
        let total = marked(row, spent.total_usd, format::usd);
        figures.push(Cell::of(spent.total_s, format::number));
        figures.push(Cell::with(spent.total_usd, total));
    }
    SummaryLine {
        name: labelled.name.to_owned(),
        system: labelled.system.clone(),
        fidelity: row.described(),
        setting: setting(row),
        figures: figures
            .into_iter()
            .chain(COLUMNS.iter().map(figure))
            .collect(),
        replicas: match row.replicas_identical {
            Some(false) if may_differ => match row.staleness {
                Some(epochs) => format!("no, by design; gradients {epochs:.2} epochs old"),
                None => "no, by design".into(),
            },
            known => format::yes(known),
        },
        trials: Cell::with(Some(row.trials as f64), row.outcomes()),
        failed: row.surprising_failures() > 0,
        infeasible: row.infeasible.clone(),
    }
}

/// Returns the headings of the figures of a row: seconds and cost of one basis, to the target
/// accuracy or per epoch, and those of the whole trial where that basis is a part of it.
pub(super) fn columns(target: Option<f64>) -> Vec<String> {
    let basis = match target {
        Some(target) => format!("to {}", format::goal(target)),
        None => "per epoch".to_owned(),
    };
    let spent = [("seconds", ""), ("cost", ""), ("cost", ", paper's formula")];
    let spent = spent.map(|(what, by)| format!("{what} {basis}{by}"));
    let total = ["total seconds", "total cost"].map(str::to_owned);
    let titles = COLUMNS.iter().map(|column| column.title.to_owned());
    (spent.into_iter())
        .chain(total.into_iter().filter(|_| target.is_some()))
        .chain(titles)
        .collect()
}

/// Returns whether rows follow different descriptions, or compute in different precisions.
pub(super) fn fidelity_differs(rows: &[RowSummary]) -> bool {
    let first = rows.first().map(RowSummary::described);
    rows.iter().any(|row| Some(row.described()) != first)
}

fn setting(row: &RowSummary) -> String {
    format!(
        "{}, {}, W = {}, batch {}, {} × {} batches{}",
        row.model,
        row.dataset,
        row.workers,
        row.batch_size,
        row.epochs,
        row.batches_per_worker,
        row.memory_mb
            .map_or(String::new(), |mb| format!(", {mb} MB"))
    )
}

pub(super) fn stage_line(labelled: &Labelled<'_>) -> StageLine {
    let parts = STAGES.iter().flat_map(|(_, parts)| parts.iter());
    let cell = |seconds| Cell::of(labelled.row.stage(seconds), format::seconds);
    StageLine {
        name: labelled.name.to_owned(),
        system: labelled.system.clone(),
        cells: parts.map(|(_, seconds)| cell(seconds)).collect(),
    }
}

/// Returns the mean bills of a row, line by line.
pub(super) fn bill_lines(labelled: &Labelled<'_>) -> Vec<BillLine> {
    let of = |cost_model: &'static str, bill: fn(&TrialAnalysis) -> &Bill| {
        let items = mean_items(labelled.row, bill);
        items.into_iter().map(move |item| BillLine {
            name: labelled.name.to_owned(),
            system: labelled.system.clone(),
            cost_model,
            dimension: item.dimension,
            quantity: Cell::of(Some(item.quantity), format::count),
            unit: item.unit,
            price: Cell::of(Some(item.unit_price_usd), |usd| format!("${usd}")),
            usd: Cell::of(Some(item.usd), format::usd),
        })
    };
    of("paper", |trial| &trial.paper)
        .chain(of("full", |trial| &trial.full))
        .collect()
}

pub(super) fn traffic_line(labelled: &Labelled<'_>, row: &RowSummary) -> TrafficLine {
    let expected = row.closed_form.map(|form| TrafficMeans::of(&[form]));
    let cells = |traffic: &TrafficMeans| -> Vec<Cell> {
        let counts = [
            traffic.puts,
            traffic.gets,
            traffic.messages,
            traffic.deliveries,
            traffic.in_store,
            traffic.bytes_up,
            traffic.bytes_down,
        ];
        counts.map(|value| Cell::of(value, format::count)).into()
    };
    TrafficLine {
        name: labelled.name.to_owned(),
        system: labelled.system.clone(),
        cells: cells(&row.traffic),
        expected: expected.as_ref().map(cells).unwrap_or_default(),
        agrees: format::yes(row.traffic_matches),
        differs: row.traffic_matches == Some(false),
    }
}

/// Returns loss and accuracy after each evaluated epoch, and after the last.
pub(super) fn epoch_lines(labelled: &Labelled<'_>) -> Vec<EpochLine> {
    let diverged = labelled
        .row
        .succeeded()
        .filter_map(|trial| trial.trial.diverged);
    let diverged = diverged.min();
    let losses = labelled.row.by_epoch(|epoch| epoch.train_loss);
    let accuracies = labelled.row.by_epoch(|epoch| epoch.accuracy);
    let of = |known: &[(usize, f64)], epoch: usize| {
        let found = known.iter().find(|(known, _)| *known == epoch);
        found.map(|(_, value)| *value)
    };
    let last = losses.last().map(|(epoch, _)| *epoch);
    let mut epochs: Vec<usize> = accuracies.iter().map(|(epoch, _)| *epoch).collect();
    epochs.extend(last.filter(|last| !epochs.contains(last)));
    epochs
        .into_iter()
        .map(|epoch| EpochLine {
            name: labelled.name.to_owned(),
            system: labelled.system.clone(),
            epoch: Cell::whole(epoch + 1),
            loss: loss(
                of(&losses, epoch),
                diverged.is_some_and(|first| epoch >= first),
            ),
            accuracy: Cell::of(of(&accuracies, epoch), format::percent),
        })
        .collect()
}

/// Returns a training loss; one of training that diverged is no number.
fn loss(value: Option<f64>, diverged: bool) -> Cell {
    match value {
        None if diverged => Cell::text(DIVERGED),
        value => Cell::of(value, format::number),
    }
}

/// Returns how a trial ended that did not fail.
fn outcome(trial: &TrialAnalysis) -> String {
    let mut parts = vec!["done".to_owned()];
    parts.extend((trial.trial.divergence()).map(|step| format!("diverged: {step}")));
    match trial.retries() {
        0 => {}
        1 => parts.push("1 function failed and was called again".to_owned()),
        count => parts.push(format!("{count} functions failed and were called again")),
    }
    parts.join("; ")
}

pub(super) fn trial_lines(labelled: &Labelled<'_>) -> Vec<TrialLine> {
    let row = labelled.row;
    let line = |trial: &TrialAnalysis| {
        let metric = |metric| trial.metric(metric, &row.planned.row.job);
        let cold = trial.cold_starts();
        TrialLine {
            name: labelled.name.to_owned(),
            system: labelled.system.clone(),
            trial: Cell::whole(trial.trial.id.trial),
            seed: Cell {
                text: trial.trial.seed.to_string(),
                exact: trial.trial.seed.to_string(),
            },
            seconds: Cell::of(metric(Metric::SecondsPerEpoch), format::number),
            wall: Cell::of(Some(trial.trial.wall_s), format::seconds),
            cost: Cell::of(metric(Metric::CostFullUsd), format::usd),
            cold: Cell::with(
                Some(cold as f64),
                format!("{cold} of {}", trial.invocations.len()),
            ),
            cpu: Cell::of(trial.cpu_ms(), |ms| format::seconds(ms / 1e3)),
            loss: loss(metric(Metric::TrainLoss), trial.trial.diverged.is_some()),
            accuracy: Cell::of(metric(Metric::Accuracy), format::percent),
            failure: trial.trial.failure.clone().unwrap_or_default(),
            outcome: outcome(trial),
        }
    };
    row.trials.iter().map(line).collect()
}
