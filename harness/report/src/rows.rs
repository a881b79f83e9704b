//! The tables of a report that are about rows and trials.

use epochcost_judge::analysis::TrialAnalysis;
use epochcost_judge::analysis::findings::is_too_short;
use epochcost_judge::analysis::names::MINIMUM;
use epochcost_judge::analysis::summary::{RowSummary, TrafficMeans};
use epochcost_judge::analysis::titles::model_title;
use epochcost_spec::claims::{COLUMNS, Estimate, Format, Metric, MetricColumn};
use epochcost_spec::cost::Bill;
use epochcost_spec::format;

use super::charts::{Labelled, STAGES};
use super::table::{Cell, Column, Line, NOT_RUN, Table};
use super::tables::mean_items;

/// Text of a loss that is not a finite number.
const DIVERGED: &str = "diverged";

/// Returns dollars with everything billed, marked where they hold a minimum charge.
fn marked(row: &RowSummary, usd: Option<f64>) -> String {
    let text = format::or_unknown(usd, format::usd);
    let is_marked = row.instance_minimum && usd.is_some();
    text + if is_marked { MINIMUM } else { "" }
}

/// Returns a line of a row, which begins with its name.
pub(super) fn line(labelled: &Labelled<'_>, cells: impl IntoIterator<Item = Cell>) -> Line {
    let name = std::iter::once(Cell::text(labelled.name));
    Line {
        system: labelled.system.clone(),
        cells: name.chain(cells).collect(),
        ..Line::default()
    }
}

/// Returns the table of all rows: seconds and cost of one basis, to the target accuracy or per
/// epoch, those of the whole trial where that basis is a part of it, and [`COLUMNS`]. Columns
/// in which nothing is known are left out, as is what is no more than chance.
pub(super) fn summary(
    labelled: &[Labelled<'_>],
    rows: &[RowSummary],
    target: Option<f64>,
) -> Table {
    let lines = labelled.iter().zip(rows);
    let lines = lines.map(|(labelled, row)| summary_line(labelled, row, target.is_some()));
    let mut table = Table {
        columns: columns(target),
        ..Table::of("summary", "Every row of the experiment", "").with_lines(lines)
    };
    let (differs, is_short) = (fidelity_differs(rows), is_too_short(rows, target));
    table.retain(|column, cells| match column.name.as_str() {
        "system" => true,
        "trials" => cells.iter().any(|cell| cell.text != "1"),
        "fidelity" => differs,
        "train loss" | "accuracy" if is_short => false,
        _ => cells.is_empty() || cells.iter().any(|cell| !cell.is_unknown()),
    });
    table.notes = table.legend();
    table
}

fn summary_line(labelled: &Labelled<'_>, row: &RowSummary, has_target: bool) -> Line {
    let mut trials = labelled.row.succeeded();
    let may_differ = trials.any(|trial| trial.trial.replicas_may_differ.is_some());
    let figure = |column: &MetricColumn| {
        let estimate = labelled.row.estimate(column.metric);
        match column.metric {
            Metric::TrainLoss if row.diverged_trials > 0 => Cell::text(DIVERGED),
            _ => Cell::with(estimate.mean, format::figure(estimate, column.format)),
        }
    };
    // What it takes to the target accuracy, or per epoch where there is none.
    let [total_usd, total_paper_usd] =
        [Metric::CostFullUsd, Metric::CostPaperUsd].map(|cost| row.mean(cost));
    let per_epoch = |usd: Option<f64>| usd.map(|usd| usd / row.epochs as f64);
    let (seconds, usd, paper_usd) = match row.seconds_to_target {
        Some(seconds) => (
            seconds,
            row.cost_to_target_full_usd,
            row.cost_to_target_paper_usd,
        ),
        None => (
            labelled.row.estimate(Metric::SecondsPerEpoch),
            per_epoch(total_usd),
            per_epoch(total_paper_usd),
        ),
    };
    let mut cells = vec![
        Cell::text(row.described()),
        Cell::with(seconds.mean, format::estimate(seconds)),
        Cell::with(usd, marked(row, usd)),
        Cell::of(paper_usd, format::usd),
    ];
    if has_target {
        let walls = labelled.row.succeeded().map(|trial| trial.trial.wall_s);
        let total_s = Estimate::of(&walls.collect::<Vec<_>>()).mean;
        cells.push(Cell::of(total_s, format::number));
        cells.push(Cell::with(total_usd, marked(row, total_usd)));
    }
    cells.extend(COLUMNS.iter().map(figure));
    let replicas = Cell::text(match row.replicas_identical {
        Some(false) if may_differ => "no, by design".into(),
        known => format::yes(known),
    });
    let stale = row.mean(Metric::Staleness).filter(|_| may_differ);
    let stale = stale.map(|epochs| format!("gradients {epochs:.2} epochs old"));
    cells.push(replicas.above(stale.unwrap_or_default()));
    cells.push(Cell::with(Some(row.trials as f64), row.outcomes()));
    let instead = row.infeasible.as_ref();
    Line {
        class: match (instead, row.surprising_failures()) {
            (Some(_), _) => "infeasible",
            (None, 0) => "",
            (None, _) => "failed",
        },
        instead: instead.map_or(String::new(), |why| format!("{NOT_RUN}{why}")),
        ..line(labelled, cells)
    }
}

fn columns(target: Option<f64>) -> Vec<Column> {
    let (basis, short) = match target.map(format::goal) {
        Some(target) => (format!("to {target}"), format!(" to {target}")),
        None => ("per epoch".to_owned(), "/epoch".to_owned()),
    };
    let mut columns = vec![
        Column::of("system:"),
        Column::of("fidelity:").in_terminal("", 1),
        Column::figure(format!("seconds {basis}"), "").in_terminal(format!("s{short}"), 10),
        Column::figure(format!("cost {basis}"), "USD").in_terminal(format!("cost{short}"), 10),
        Column::figure(format!("cost {basis}, paper's formula"), "USD")
            .in_terminal(format!("paper's cost{short}"), 4),
    ];
    if target.is_some() {
        columns.push(Column::figure("total seconds", "").in_terminal("total s", 5));
        columns.push(Column::figure("total cost", "USD").in_terminal("", 5));
    }
    columns.extend(COLUMNS.iter().map(|column| {
        let unit = match column.format {
            Format::Percent => "share",
            _ => column.metric.unit(),
        };
        Column::figure(column.title, unit).in_terminal(column.short, column.keep)
    }));
    columns.push(Column::of("replicas identical:").in_terminal("identical", 3));
    columns.push(Column::of("trials").in_terminal("", 9));
    columns
}

/// Returns whether rows follow different descriptions, or compute in different precisions.
fn fidelity_differs(rows: &[RowSummary]) -> bool {
    let first = rows.first().map(RowSummary::described);
    rows.iter().any(|row| Some(row.described()) != first)
}

/// Returns the settings of a row in words.
pub(super) fn setting(row: &RowSummary) -> String {
    let memory = row.memory_mb.map(|mb| format::megabytes(mb.into()));
    format!(
        "{}, {}, W = {}, batch {}, {} × {} batches{}",
        model_title(&row.model),
        row.dataset,
        row.workers,
        row.batch_size,
        row.epochs,
        row.batches_per_worker,
        memory.map_or(String::new(), |memory| format!(", {memory}"))
    )
}

/// Returns the seconds of every stage, and of the parts of synchronising.
pub(super) fn stages(labelled: &[Labelled<'_>]) -> Table {
    let parts = || STAGES.iter().flat_map(|(_, parts)| parts.iter());
    let seconds = parts().map(|(name, _)| Column::figure(*name, "s"));
    let lines = labelled.iter().map(|row| {
        let cells = parts().map(|(_, seconds)| Cell::of(row.row.stage(seconds), format::seconds));
        line(row, cells)
    });
    let caption = "Seconds by stage, per worker and epoch";
    let mut table = Table::of("stages", caption, "system:").with_lines(lines);
    table.columns.extend(seconds);
    table
}

/// Returns the mean bills of rows, line by line.
pub(super) fn costs(labelled: &[Labelled<'_>]) -> Table {
    type Of = fn(&TrialAnalysis) -> &Bill;
    let bills: [(&str, Of); 2] = [
        ("paper", |trial| &trial.paper),
        ("full", |trial| &trial.full),
    ];
    let mut lines = Vec::new();
    for row in labelled {
        for (model, bill) in bills {
            let items = mean_items(row.row, bill).into_iter();
            lines.extend(items.map(|item| {
                let cells = [
                    Cell::text(model),
                    Cell::text(item.dimension),
                    Cell::of(Some(item.quantity), format::count),
                    Cell::text(item.unit),
                    Cell::of(Some(item.unit_price_usd), |usd| format!("${usd}")),
                    Cell::of(Some(item.usd), format::usd),
                ];
                line(row, cells)
            }));
        }
    }
    let caption = "Cost of a trial by both cost models, mean over trials";
    let heading = "system: | cost model: | dimension: | quantity | unit:";
    let mut table = Table::of("costs", caption, heading).with_lines(lines);
    let dollars = ["unit price", "cost"].map(|name| Column::figure(name, "USD"));
    table.columns.extend(dollars);
    table
}

/// Returns the traffic of the exchange, as metered and below it by closed form.
pub(super) fn traffic(labelled: &[Labelled<'_>], rows: &[RowSummary]) -> Table {
    let cells = |traffic: &TrafficMeans, equal: String| {
        let counts = [
            traffic.puts,
            traffic.gets,
            traffic.messages,
            traffic.deliveries,
            traffic.in_store,
            traffic.bytes_up,
            traffic.bytes_down,
        ];
        let counts = counts.map(|value| Cell::of(value, format::count));
        counts.into_iter().chain([Cell::text(equal)])
    };
    let lines = labelled.iter().zip(rows).flat_map(|(labelled, row)| {
        let own = cells(&row.traffic, format::yes(row.traffic_matches));
        let mut metered = line(labelled, own);
        if row.traffic_matches == Some(false) {
            metered.class = "failed";
        }
        let expected = row.closed_form.map(|form| {
            let name = std::iter::once(Cell::text("closed form"));
            Line {
                class: "expected",
                system: labelled.system.clone(),
                cells: name
                    .chain(cells(&TrafficMeans::of(&[form]), String::new()))
                    .collect(),
                follows: true,
                ..Line::default()
            }
        });
        std::iter::once(metered).chain(expected)
    });
    let caption = "Traffic of the exchange of one trial, as metered and by closed form";
    let heading =
        "system: | puts | gets | messages | deliveries | in store | bytes up | bytes down | equal:";
    Table {
        is_grouped: true,
        ..Table::of("traffic", caption, heading).with_lines(lines)
    }
}

/// Returns loss and accuracy after each evaluated epoch, and after the last.
pub(super) fn epochs(labelled: &[Labelled<'_>]) -> Table {
    let caption =
        "Evaluated epochs and the last one, mean over trials; all epochs are in epochs.tsv";
    let heading = "system: | epoch | train loss | accuracy";
    Table::of("epochs", caption, heading).with_lines(labelled.iter().flat_map(epochs_of))
}

fn epochs_of(labelled: &Labelled<'_>) -> Vec<Line> {
    let trials = labelled.row.succeeded();
    let diverged = trials.filter_map(|trial| trial.trial.diverged).min();
    let losses = labelled.row.by_epoch(|epoch| epoch.train_loss);
    let accuracies = labelled.row.by_epoch(|epoch| epoch.accuracy);
    let of = |known: &[(usize, f64)], epoch: usize| {
        let found = known.iter().find(|(known, _)| *known == epoch);
        found.map(|(_, value)| *value)
    };
    let last = losses.last().map(|(epoch, _)| *epoch);
    let mut epochs: Vec<usize> = accuracies.iter().map(|(epoch, _)| *epoch).collect();
    epochs.extend(last.filter(|last| !epochs.contains(last)));
    let cells = |epoch| {
        let is_diverged = diverged.is_some_and(|first| epoch >= first);
        [
            Cell::whole(epoch + 1),
            loss(of(&losses, epoch), is_diverged),
            Cell::of(of(&accuracies, epoch), format::percent),
        ]
    };
    let epochs = epochs.into_iter();
    epochs.map(|epoch| line(labelled, cells(epoch))).collect()
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

/// Returns every trial.
pub(super) fn trials(labelled: &[Labelled<'_>]) -> Table {
    let heading = "system: | trial | seed | seconds per epoch | total seconds | total cost | CPU | \
                   cold starts | train loss | accuracy | outcome:";
    let lines = labelled.iter().flat_map(|row| {
        let trials = row.row.trials.iter();
        trials.map(move |trial| trial_line(row, trial))
    });
    Table::of("trials", "Every trial, failed ones included", heading).with_lines(lines)
}

fn trial_line(labelled: &Labelled<'_>, trial: &TrialAnalysis) -> Line {
    let metric = |metric| trial.metric(metric, &labelled.row.planned.row.job);
    let cold = trial.cold_starts();
    let failure = trial.trial.failure.as_ref();
    let cells = [
        Cell::whole(trial.trial.id.trial),
        Cell::whole(trial.trial.seed),
        Cell::of(metric(Metric::SecondsPerEpoch), format::number),
        Cell::of(Some(trial.trial.wall_s), format::seconds),
        Cell::of(metric(Metric::CostFullUsd), format::usd),
        Cell::of(trial.cpu_ms(), |ms| format::seconds(ms / 1e3)),
        Cell::with(Some(cold as f64), format!("{cold} of {}", trial.calls())),
        loss(metric(Metric::TrainLoss), trial.trial.diverged.is_some()),
        Cell::of(metric(Metric::Accuracy), format::percent),
        Cell::text(failure.map_or_else(|| outcome(trial), |why| format!("failed: {why}"))),
    ];
    Line {
        class: if failure.is_some() { "failed" } else { "" },
        ..line(labelled, cells)
    }
}
