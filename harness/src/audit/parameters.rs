//! Parameter counts, against the networks that the papers train.

use epochcost_architectures::Layers;
use epochcost_architectures::models::mobilenet::mobilenet;
use epochcost_architectures::models::resnet::{BASIC18, Stem};
use epochcost_architectures::models::vgg::vgg11;

use super::finding::{Check, Finding, Input};
use super::{Findings, Paper, Sources};
use crate::format;
use crate::published::Quantity;

/// Bytes of one scalar of a gradient.
const SCALAR_BYTES: f64 = 4.0;

const fn check(paper: Paper) -> Check {
    Check {
        paper,
        item: "models",
        what: "parameters of the model that is trained",
        formula: "sum over layers, with the head of the dataset's ten classes",
        unit: "",
    }
}

/// Checks MobileNet and ResNet-18 on CIFAR-10.
pub(super) fn cost_performance(sources: Sources<'_>) -> Findings {
    let paper = Paper::CostPerformance;
    let counts = [
        ("MobileNet", mobilenet(10), mobilenet(1000)),
        (
            "ResNet-18",
            BASIC18.layers(Stem::Cifar, 10),
            BASIC18.layers(Stem::ImageNet, 1000),
        ),
    ];
    let mut findings = Vec::new();
    for (model, ten, thousand) in counts {
        let stated = sources
            .published
            .stated([paper.cited(), "models", "parameters", model])?;
        let finding = held(paper, model, [&ten, &thousand], &stated);
        findings.push(if finding.differs() {
            finding.concluding(
                "no cost or time of the paper is computed from it; a bandwidth or a size of a \
                 message derived from it would be",
            )
        } else {
            finding
        });
    }
    Ok(findings)
}

/// Checks VGG-11 on MNIST.
pub(super) fn p2p(sources: Sources<'_>) -> Findings {
    let paper = Paper::P2p;
    let stated = sources
        .published
        .stated([paper.cited(), "models", "parameters", "VGG-11"])?;
    let limit = sources.published.table("p2p_text.csv")?;
    let limit = limit
        .row(&[("claim", "broker message limit")])?
        .number("value")?;
    let (ten, thousand) = (vgg11(10), vgg11(1000));
    let megabytes = ten.parameters() as f64 * SCALAR_BYTES / 1e6;
    let finding = held(paper, "VGG-11", [&ten, &thousand], &stated);
    let stays = if megabytes > limit.value {
        "is still above"
    } else {
        "falls below"
    };
    Ok(vec![finding.concluding(format!(
        "a gradient of {} MB {stays} the broker's limit of {} MB ({}), beyond which the paper \
         sends it over the object store",
        format::number(megabytes),
        format::number(limit.value),
        limit.place,
    ))])
}

fn held(paper: Paper, model: &str, heads: [&Layers; 2], stated: &Quantity) -> Finding {
    let [ten, thousand] = heads.map(|layers| layers.parameters() as f64);
    let source = "layers of the reference definition";
    let inputs = vec![Input::from("classes", 10.0, source)];
    let finding = check(paper).finding(model, inputs, ten, stated);
    let is_thousand = (stated.value / thousand - 1.0).abs() <= super::TOLERANCE;
    if !finding.differs() {
        return finding;
    }
    let ratio = thousand / ten;
    let explanation = if is_thousand {
        format!(
            "the stated count is that of the head for ImageNet's 1000 classes ({}), whose \
         gradient has {} times the bytes",
            format::count(thousand),
            format::number(ratio),
        )
    } else {
        format!(
            "with a head of 1000 classes it would be {}",
            format::count(thousand)
        )
    };
    finding.explained(explanation)
}
