//! Section 4.2 of Barrak et al. 2025: filter, database, exchanges.

use epochcost_architectures::Layers;
use epochcost_architectures::models::mobilenet::mobilenet;
use epochcost_architectures::models::resnet::{BASIC18, Stem, resnet50};

use super::finding::{Check, Input, Outcome};
use super::{AuditError, Findings, Paper, Sources};
use crate::format;
use crate::published::{Quantity, Row};

const SECONDS_PER_MINUTE: f64 = 60.0;

/// Bytes of one scalar of a gradient.
const SCALAR_BYTES: f64 = 4.0;

/// Classes of CIFAR-10.
const CLASSES: usize = 10;

const fn check(what: &'static str, formula: &'static str, unit: &'static str) -> Check {
    Check {
        paper: Paper::CostPerformance,
        item: "§4.2",
        what,
        formula,
        unit,
    }
}

fn row<'a>(sources: Sources<'a>, wanted: &[(&str, &str)]) -> Result<Row<'a>, AuditError> {
    let table = sources.published.table("cp_communication.csv")?;
    Ok(table.row(wanted)?)
}

fn convergence(sources: Sources<'_>) -> Result<[Quantity; 2], AuditError> {
    let row = row(sources, &[("metric", "convergence time")])?;
    Ok([row.number("baseline")?, row.number("optimised")?])
}

/// Returns the speed-up of MLLess's filter.
pub(super) fn filter(sources: Sources<'_>) -> Findings {
    let check = check("speed-up by MLLess's filter", "without / with", "");
    let [without, with] = convergence(sources)?;
    let key = [
        Paper::CostPerformance.cited(),
        "§4.2",
        "speed-up of convergence",
        "MLLess",
    ];
    let stated = sources.published.stated(key)?;
    let inputs = vec![
        Input::of("without, s", &without),
        Input::of("with, s", &with),
    ];
    Ok(vec![check.finding(
        "MobileNet",
        inputs,
        without.value / with.value,
        &stated,
    )])
}

/// Compares MLLess's two statements of its time to accuracy.
pub(super) fn filter_against_table3(sources: Sources<'_>) -> Findings {
    let what = "MLLess's time to convergence against Table 3";
    let check = check(what, "minutes of Table 3 × 60", "s");
    let [without, with] = convergence(sources)?;
    let table3 = sources.published.table("cp_table3.csv")?;
    let minutes = table3
        .row(&[("framework", "MLLess")])?
        .number("time_to_80_minutes")?;
    let seconds = minutes.value * SECONDS_PER_MINUTE;
    let inputs = vec![Input::of("minutes", &minutes)];
    let finding = check.finding("MobileNet, with the filter", inputs, seconds, &with);
    if !finding.differs() {
        return Ok(vec![finding]);
    }
    let factor = without.value / seconds;
    Ok(vec![
        finding
            .explained(
                "both are MobileNet with MLLess until it converges; the text does not say what \
                 differs between the two runs",
            )
            .concluding(format!(
                "with Table 3's time the filter's speed-up would be {} instead of {}",
                format::number(factor),
                format::number(without.value / with.value)
            )),
    ])
}

/// Returns what working inside the database saves; the paper prints the times
/// only.
pub(super) fn in_database(sources: Sources<'_>) -> Findings {
    let what = "share of time saved inside the database";
    let check = check(what, "1 - inside / outside", "%");
    let mut findings = Vec::new();
    for metric in ["gradient averaging time", "model update time"] {
        let row = row(sources, &[("metric", metric)])?;
        let (outside, inside) = (row.number("baseline")?, row.number("optimised")?);
        let inputs = vec![
            Input::of("outside, s", &outside),
            Input::of("inside, s", &inside),
        ];
        let saved = 1.0 - inside.value / outside.value;
        findings.push(
            check
                .unchecked(format!("{}, {metric}", row.text("model")?), inputs)
                .with_computed(saved * 100.0)
                .explained(format!(
                    "the paper prints no factor to compare that of the times ({}) with",
                    format::number(outside.value / inside.value)
                )),
        );
    }
    Ok(findings)
}

/// Latency of a request and bandwidth of a stream that two exchanges imply.
struct Channel {
    latency_s: f64,
    bytes_per_s: f64,
}

impl Channel {
    /// Returns the channel from the times of two gradients, where an exchange takes `requests` × a
    /// + `gradients` × P / w.
    fn of([small, large]: [(f64, f64); 2], [requests, gradients]: [f64; 2]) -> Self {
        let ((p, t), (p2, t2)) = (small, large);
        let bytes_per_s = gradients * (p2 - p) / (t2 - t);
        Self {
            latency_s: (t - gradients * p / bytes_per_s) / requests,
            bytes_per_s,
        }
    }
}

/// Notes that the figure's caption says ResNet-18 where the text says
/// ResNet-50.
pub(super) fn caption(sources: Sources<'_>) -> Findings {
    let what = "latency of a request that AllReduce's times imply";
    let formula = "(W + 2)(a + P / w) for both models, solved for a";
    let check = check(what, formula, "s");
    // The two times of the figure.
    let technique = ("technique", "AllReduce vs ScatterReduce (LambdaML)");
    let small = row(sources, &[technique, ("model", "MobileNet")])?;
    let large = row(sources, &[technique, ("model", "ResNet-50")])?;
    let (t, t2) = (small.number("baseline")?, large.number("baseline")?);
    let workers = large.number("workers")?;
    let bytes = |layers: &Layers| layers.parameters() as f64 * SCALAR_BYTES;
    let path = [workers.value + 2.0; 2];
    let mut findings = Vec::new();
    for (model, layers) in [
        // Either model that the larger one could be.
        ("ResNet-50 (the text)", resnet50(Stem::Cifar, CLASSES)),
        (
            "ResNet-18 (the caption)",
            BASIC18.layers(Stem::Cifar, CLASSES),
        ),
    ] {
        let points = [
            (bytes(&mobilenet(CLASSES)), t.value),
            (bytes(&layers), t2.value),
        ];
        let channel = Channel::of(points, path);
        let source = "layers of the reference definition";
        let inputs = vec![
            Input::exact("W", &workers),
            Input::of("time of MobileNet, s", &t),
            Input::of("time of the larger model, s", &t2),
            Input::from("P of MobileNet, bytes", points[0].0, source),
            Input::from("P of the larger model, bytes", points[1].0, source),
        ];
        let is_possible = channel.latency_s > 0.0 && channel.bytes_per_s > 0.0;
        let bandwidth = format!("{} MB/s", format::number(channel.bytes_per_s / 1e6));
        let finding = check
            .unchecked(model, inputs)
            .with_computed(channel.latency_s);
        findings.push(if is_possible {
            finding
                .with_outcome(Outcome::Agrees)
                .explained(format!("with a stream of {bandwidth}"))
        } else {
            finding
                .with_outcome(Outcome::Differs)
                .explained(format!(
                    "a request cannot take less than no time (with a stream of {bandwidth}): \
             the larger model is not this one",
                ))
                .concluding(
                    "the crossing of AllReduce and ScatterReduce lies between MobileNet and \
             ResNet-50, as the text says",
                )
        });
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_times_give_back_their_channel() {
        let (latency, bandwidth) = (0.1, 90e6);
        let time = |bytes: f64| 18.0 * (latency + bytes / bandwidth);
        let points = [12e6, 94e6].map(|bytes| (bytes, time(bytes)));
        let channel = Channel::of(points, [18.0; 2]);
        assert!((channel.latency_s - latency).abs() < 1e-12);
        assert!((channel.bytes_per_s / bandwidth - 1.0).abs() < 1e-12);
    }
}
