//! The charts of a report.

use epochcost_systems::StageSeconds;
use serde::Serialize;

use super::chart::{Bar, Bars, Line, Lines, Mark, Scatter, Segment, bars, lines, scatter};
use super::format;
use super::provenance::Provenance;
use super::view::mean_items;
use crate::analysis::claims::Metric;
use crate::analysis::summary::Verdict;
use crate::analysis::{Analysis, RowAnalysis};

/// A chart with what a reader must know of it.
#[derive(Debug, Serialize)]
pub(super) struct Chart {
    pub id: &'static str,
    pub title: &'static str,
    pub caption: String,
    pub svg: String,
}

/// One part of a stage: its name and its seconds.
type Part = (&'static str, fn(&StageSeconds) -> f64);

/// The paper's five stages, and the parts of "synchronise".
pub(super) const STAGES: [(&str, &[Part]); 5] = [
    ("fetch dataset", &[("fetch dataset", |s| s.fetch_dataset)]),
    (
        "compute gradients",
        &[("compute gradients", |s| s.compute_gradients)],
    ),
    (
        "synchronise",
        &[
            ("serialise", |s| s.serialise),
            ("put", |s| s.put),
            ("wait", |s| s.wait),
            ("get", |s| s.get),
            ("aggregate", |s| s.aggregate),
        ],
    ),
    ("update model", &[("update model", |s| s.update_model)]),
    (
        "detect convergence",
        &[("detect convergence", |s| s.detect_convergence)],
    ),
];

/// Families of price dimensions, by the beginning of their names.
const COSTS: [(&str, &[&str]); 8] = [
    ("function time", &["lambda_gb_second", "serverless_gpu"]),
    ("function requests", &["lambda_request"]),
    ("state transitions", &["state_transition"]),
    (
        "object requests",
        &["s3_put", "s3_list", "s3_get", "s3_delete"],
    ),
    ("object storage", &["s3_gb_month"]),
    ("queue", &["sqs_request", "broker/"]),
    ("databases", &["ec2/t2.medium"]),
    ("instances", &["ec2/"]),
];

/// Every chart that the run has figures for.
pub(super) fn all(analysis: &Analysis, names: &[String], platform: &str) -> Vec<Chart> {
    let rows = || names.iter().zip(&analysis.rows).enumerate();
    let charts = [
        time_against_cost(analysis, names, platform),
        stages(&mut rows()),
        costs(&mut rows()),
        traffic(&mut rows()),
        by_epoch(
            &mut rows(),
            "accuracy",
            "Test accuracy by epoch",
            |epoch| epoch.accuracy,
            format::percent,
        ),
        by_epoch(
            &mut rows(),
            "loss",
            "Training loss by epoch",
            |epoch| epoch.train_loss,
            format::number,
        ),
    ];
    charts.into_iter().flatten().collect()
}

/// Rows with their colours and names.
type Rows<'r, 'a> = &'r mut dyn Iterator<Item = (usize, (&'a String, &'a RowAnalysis))>;

fn time_against_cost(analysis: &Analysis, names: &[String], platform: &str) -> Option<Chart> {
    let provenance = Provenance::of_platform(platform);
    let mut marks = Vec::new();
    for (series, (name, row)) in names.iter().zip(&analysis.rows).enumerate() {
        let epochs = row.planned.row.job.epochs as f64;
        let mean = |metric| row.estimate(metric).mean;
        let point = mean(Metric::SecondsPerEpoch).zip(mean(Metric::CostPaperUsd));
        if let Some((x, cost)) = point {
            let y_to = mean(Metric::CostFullUsd).map(|usd| usd / epochs);
            let name = name.clone();
            marks.push(Mark {
                name,
                series,
                provenance,
                x,
                y: cost / epochs,
                y_to,
            });
        }
        let id = &row.planned.row.id;
        let published = |metric| published_for(&analysis.summary.verdicts, id, metric);
        if let Some((x, cost)) =
            published(Metric::SecondsPerEpoch).zip(published(Metric::CostPaperUsd))
        {
            let y = cost / epochs;
            let provenance = Provenance::Published;
            marks.push(Mark {
                name: name.clone(),
                series,
                provenance,
                x,
                y,
                y_to: None,
            });
        }
    }
    let with_published = marks
        .iter()
        .any(|mark| mark.provenance == Provenance::Published);
    let svg = scatter(&Scatter {
        label: "Cost of an epoch against its seconds, on logarithmic axes",
        x: ("wall seconds of an epoch (log)", format::seconds),
        y: ("cost of an epoch, USD (log)", format::usd),
        marks,
    })?;
    let mut caption = "Down and left is better. A point is the paper's account; the line above it \
                       reaches the full account. A dashed step, where there is \
                       one, is the Pareto frontier: nothing of this run is both faster and cheaper."
        .to_owned();
    if with_published {
        caption.push_str(match provenance {
            Provenance::Simulated => {
                " Hollow points with a whole edge are published, with a dotted one simulated."
            }
            _ => " Hollow points are published, not measured.",
        });
    }
    match platform {
        "local" => caption.push_str(" Local durations at list prices."),
        "sim" => caption.push_str(" Simulated durations at list prices."),
        _ => {}
    }
    Some(Chart {
        id: "time-cost",
        title: "Time against cost",
        caption,
        svg,
    })
}

/// The published value that a row is held against, if it is one of its own
/// and not a ratio.
fn published_for(verdicts: &[Verdict], row: &str, metric: Metric) -> Option<f64> {
    verdicts
        .iter()
        .find(|verdict| {
            verdict.row.as_deref() == Some(row)
                && verdict.metric == Some(metric)
                && verdict.unit == metric.unit()
        })
        .and_then(|verdict| verdict.published)
}

fn stages(rows: Rows<'_, '_>) -> Option<Chart> {
    let bars_of = rows.map(|(_, (name, row))| Bar {
        name: name.clone(),
        segments: STAGES
            .iter()
            .enumerate()
            .filter_map(|(series, (_, parts))| {
                let value = row.stage(|seconds| parts.iter().map(|(_, part)| part(seconds)).sum());
                value.map(|value| Segment { series, value })
            })
            .collect(),
        tick: row.estimate(Metric::SecondsPerEpoch).mean,
    });
    let svg = bars(&Bars {
        label: "Seconds by stage, a worker an epoch",
        legend: STAGES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        bars: bars_of.collect(),
        tick_name: Some("wall seconds of an epoch"),
        format: format::seconds,
    })?;
    let caption =
        "Mean seconds of a worker in an epoch, summed over its functions. Functions that \
                   run in parallel (SPIRT's gradients) each count, so that the sum may pass the \
                   wall time; cold starts between functions count in the wall time only."
            .into();
    Some(Chart {
        id: "stages",
        title: "Where the time goes",
        caption,
        svg,
    })
}

fn costs(rows: Rows<'_, '_>) -> Option<Chart> {
    let bars_of = rows.map(|(_, (name, row))| {
        let mut sums = [0.0; COSTS.len()];
        for item in mean_items(row, |trial| &trial.full) {
            let family = COSTS.iter().position(|(_, prefixes)| {
                prefixes
                    .iter()
                    .any(|prefix| item.dimension.starts_with(prefix))
            });
            sums[family.unwrap_or(COSTS.len() - 1)] += item.usd;
        }
        Bar {
            name: name.clone(),
            segments: sums
                .iter()
                .enumerate()
                .filter(|(_, usd)| **usd > 0.0)
                .map(|(series, value)| Segment {
                    series,
                    value: *value,
                })
                .collect(),
            tick: row.estimate(Metric::CostPaperUsd).mean,
        }
    });
    let svg = bars(&Bars {
        label: "Cost of a trial by line item",
        legend: COSTS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        bars: bars_of.collect(),
        tick_name: Some("the paper's account"),
        format: format::usd,
    })?;
    let caption =
        "The full account of one trial. Short runs pay dearly for what is charged by the \
                   minute or hour: databases, brokers and instances (at least 60 s each)."
            .into();
    Some(Chart {
        id: "costs",
        title: "Where the money goes",
        caption,
        svg,
    })
}

fn traffic(rows: Rows<'_, '_>) -> Option<Chart> {
    let bars_of = rows.map(|(_, (name, row))| {
        let workers = row.planned.row.job.workers as f64;
        let bytes = |metric| row.estimate(metric).mean.map(|bytes| bytes / workers);
        let parts = [bytes(Metric::BytesUp), bytes(Metric::BytesDown)];
        Bar {
            name: name.clone(),
            segments: parts
                .into_iter()
                .enumerate()
                .filter_map(|(series, value)| value.map(|value| Segment { series, value }))
                .collect(),
            tick: None,
        }
    });
    let svg = bars(&Bars {
        label: "Bytes of the exchange, a worker a trial",
        legend: vec!["sent".into(), "received".into()],
        bars: bars_of.collect(),
        tick_name: None,
        format: format::bytes,
    })?;
    let caption = "Payload bytes of the exchange, a worker over all epochs of a trial; data and \
                   checkpoints are kept apart."
        .into();
    Some(Chart {
        id: "bytes",
        title: "Bytes a worker",
        caption,
        svg,
    })
}

fn by_epoch(
    rows: Rows<'_, '_>,
    id: &'static str,
    title: &'static str,
    figure: fn(&crate::analysis::EpochAnalysis) -> Option<f64>,
    format: fn(f64) -> String,
) -> Option<Chart> {
    let lines_of = rows
        .map(|(series, (name, row))| Line {
            name: name.clone(),
            series,
            points: row.by_epoch(figure),
        })
        .filter(|line| !line.points.is_empty());
    let chart = Lines {
        label: title,
        axis: id,
        lines: lines_of.collect(),
        format,
    };
    let svg = lines(&chart)?;
    let caption = "Mean over trials.".into();
    Some(Chart {
        id,
        title,
        caption,
        svg,
    })
}

/// Keeps the style's colours and the charts' in step.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_colours_for_every_series() {
        assert!(STAGES.len().max(COSTS.len()) <= super::super::chart::COLOURS);
    }
}
