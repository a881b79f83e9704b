//! Stacked bars: where time, money and bytes go.

use epochcost_spec::claims::Metric;
use epochcost_spec::format;

use super::{Chart, Labelled, STAGES};
use crate::chart::{Bar, Bars, Segment};
use crate::tables::mean_items;

/// Families of price dimensions, by the beginning of their names: the items of METHODOLOGY, as many as
/// there are colours.
const COSTS: [(&str, &[&str]); 8] = [
    ("function time", &["lambda_gb_second", "serverless_gpu"]),
    ("function requests", &["lambda_request"]),
    ("state transitions", &["state_transition"]),
    ("object store", &["s3_"]),
    ("queue", &["sqs_request", "broker/"]),
    ("databases", &["ec2/t2.medium"]),
    // Of database hosts, too, which rows without instances have.
    ("addresses and volumes", &["ipv4_address", "ebs_"]),
    ("instances", &["ec2/"]),
];

/// Names of the families of price dimensions, in their order.
pub const COST_NAMES: [&str; COSTS.len()] = {
    let mut names = [""; COSTS.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = COSTS[place].0;
        place += 1;
    }
    names
};

/// Returns the dollars of each family; what belongs to none is of instances.
pub fn cost_parts<'a>(items: impl Iterator<Item = (&'a str, f64)>) -> [f64; COSTS.len()] {
    let mut sums = [0.0; COSTS.len()];
    for (dimension, usd) in items {
        let is_of = |prefixes: &[&str]| prefixes.iter().any(|prefix| dimension.starts_with(prefix));
        let family = COSTS.iter().position(|(_, prefixes)| is_of(prefixes));
        sums[family.unwrap_or(COSTS.len() - 1)] += usd;
    }
    sums
}

/// Draws seconds by stage.
pub(super) fn stages(rows: &[Labelled<'_>]) -> Option<Chart> {
    let bar = |labelled: &Labelled<'_>| {
        let row = labelled.row;
        let seconds = STAGES.iter().map(|(_, parts)| {
            row.stage(|seconds| parts.iter().map(|(_, part)| part(seconds)).sum())
        });
        let epoch = row.estimate(Metric::SecondsPerEpoch).mean;
        bar(labelled, seconds, epoch)
    };
    let drawn = Bars {
        id: "stages",
        label: "Seconds by stage, per worker and epoch",
        legend: STAGES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        bars: rows.iter().map(bar).collect(),
        tick_name: Some("wall seconds of an epoch"),
        unit: "seconds per worker and epoch",
        format: format::seconds,
    };
    let caption = "Mean seconds per worker and epoch, summed over its functions. Functions that \
                   run in parallel (SPIRT's gradients) each count, so that the sum may pass the \
                   wall time; cold starts between functions count in the wall time only."
        .into();
    drawn.chart("Where the time goes", caption)
}

/// Draws dollars by what is charged for.
pub(super) fn costs(rows: &[Labelled<'_>]) -> Option<Chart> {
    let bar = |labelled: &Labelled<'_>| {
        let items = mean_items(labelled.row, |trial| &trial.full);
        let sums = cost_parts(items.iter().map(|item| (item.dimension.as_str(), item.usd)));
        let sums = sums.into_iter().map(|usd| (usd > 0.0).then_some(usd));
        let paper = labelled.row.estimate(Metric::CostPaperUsd).mean;
        bar(labelled, sums, paper)
    };
    let drawn = Bars {
        id: "costs",
        label: "Cost of a trial by line item",
        legend: COST_NAMES.map(str::to_owned).into(),
        bars: rows.iter().map(bar).collect(),
        tick_name: Some("cost by the paper's cost model"),
        unit: "USD per trial",
        format: format::usd,
    };
    let caption =
        "The cost of one trial by the full cost model. Short runs pay most for what is charged by the \
                   minute or hour: databases, brokers and instances (at least 60 s each)."
            .into();
    drawn.chart("Where the money goes", caption)
}

/// Draws bytes per worker, by direction.
pub(super) fn traffic(rows: &[Labelled<'_>]) -> Option<Chart> {
    let bar = |labelled: &Labelled<'_>| {
        let workers = labelled.row.planned.row.job.workers as f64;
        let estimate = |metric| labelled.row.estimate(metric);
        let bytes = |metric| estimate(metric).mean.map(|bytes| bytes / workers);
        let parts = [bytes(Metric::BytesUp), bytes(Metric::BytesDown)];
        bar(labelled, parts.into_iter(), None)
    };
    let drawn = Bars {
        id: "bytes",
        label: "Bytes of the exchange, per worker and trial",
        legend: vec!["sent".into(), "received".into()],
        bars: rows.iter().map(bar).collect(),
        tick_name: None,
        unit: "bytes per worker and trial",
        format: format::bytes,
    };
    let caption = "Payload bytes of the exchange, per worker over all epochs of a trial; data and \
                   checkpoints are kept apart."
        .into();
    drawn.chart("Bytes per worker", caption)
}

/// Returns a row's bar of the parts that are known.
fn bar(
    labelled: &Labelled<'_>,
    parts: impl Iterator<Item = Option<f64>>,
    tick: Option<f64>,
) -> Bar {
    let segment =
        |(series, value): (usize, Option<f64>)| value.map(|value| Segment { series, value });
    Bar {
        name: labelled.name.to_owned(),
        system: labelled.system.clone(),
        segments: parts.enumerate().filter_map(segment).collect(),
        tick,
    }
}

/// Keeps the style's colours and the charts' in step.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_colours_for_every_series() {
        assert!(STAGES.len().max(COSTS.len()) <= crate::chart::COLOURS);
    }
    #[test]
    fn every_dimension_is_of_its_family() {
        for (dimension, family) in [
            ("lambda_gb_second_arm", "function time"),
            ("s3_put", "object store"),
            ("s3_gb_month", "object store"),
            ("ec2/t2.medium", "databases"),
            ("ipv4_address_hour", "addresses and volumes"),
            ("ebs_gp3_gb_month", "addresses and volumes"),
            ("ec2/g4dn.xlarge", "instances"),
            ("another/machine", "instances"),
        ] {
            let sums = cost_parts([(dimension, 1.0)].into_iter());
            let named = COST_NAMES.into_iter().zip(sums);
            let named: Vec<_> = named.filter(|(_, usd)| *usd > 0.0).collect();
            assert_eq!(named, [(family, 1.0)], "{dimension}");
        }
    }
}
