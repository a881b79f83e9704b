//! Parameter counts, against the networks that the papers train.

use epochcost_architectures::models::mobilenet::mobilenet;
use epochcost_architectures::models::resnet::{BASIC18, Stem};
use epochcost_architectures::models::vgg::vgg11;
use epochcost_architectures::{Layers, find};

use super::finding::{Check, Finding, Input};
use super::{AuditError, Findings, Paper, Sources};
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

/// Item of the findings on the P2P paper's two small models.
const SMALL_MODELS: &str = "small models";

/// Models of the P2P paper on CIFAR and MNIST, by the paper's name and ours.
const SMALL: [(&str, &str); 2] = [
    ("SqueezeNet 1.1", "squeezenet1_1"),
    ("MobileNet V3 Small", "mobilenet_v3_small"),
];

/// Returns the layers of one of our models for ten and for a thousand classes.
fn heads(name: &'static str) -> Result<[Layers; 2], AuditError> {
    let model = find(name).ok_or(AuditError::Model(name))?;
    Ok([10, 1000].map(model.with_classes))
}

/// Checks SqueezeNet and MobileNet V3 Small.
pub(super) fn p2p_small_models(sources: Sources<'_>) -> Findings {
    let paper = Paper::P2p;
    let mut findings = Vec::new();
    for (model, name) in SMALL {
        let stated = sources
            .published
            .stated([paper.cited(), "models", "parameters", model])?;
        let [ten, thousand] = heads(name)?;
        let finding = Finding {
            item: SMALL_MODELS,
            ..held(paper, model, [&ten, &thousand], &stated)
        };
        findings.push(if finding.differs() {
            finding.concluding(
                "the gradients that the paper's peers exchange are smaller than those of the stated models",
            )
        } else {
            finding
        });
    }
    Ok(findings)
}

/// Checks the stated bound of a small model's size.
pub(super) fn p2p_sizes(sources: Sources<'_>) -> Findings {
    let key = [Paper::P2p.cited(), "models", "size at most", "small models"];
    let bound = sources.published.stated(key)?;
    let check = Check {
        item: SMALL_MODELS,
        what: "size of a small model",
        formula: "parameters × 4 bytes, at most the bound",
        unit: "MB",
        ..check(Paper::P2p)
    };
    let source = "layers of the reference definition";
    let mut findings = Vec::new();
    for (model, name) in SMALL {
        for (classes, layers) in [10, 1000].into_iter().zip(heads(name)?) {
            let parameters = layers.parameters() as f64;
            let megabytes = parameters * SCALAR_BYTES / 1e6;
            let inputs = vec![Input::from("parameters", parameters, source)];
            let finding = check
                .unchecked(format!("{model}, {classes} classes"), inputs)
                .with_computed(megabytes)
                .with_printed(&bound)
                .judged(megabytes <= bound.value);
            findings.push(if finding.differs() {
                finding.explained(
                    "our transcription does not say of which model the bound is: of SqueezeNet alone it holds",
                )
            } else {
                finding
            });
        }
    }
    Ok(findings)
}

fn held(paper: Paper, model: &str, heads: [&Layers; 2], stated: &Quantity) -> Finding {
    let [ten, thousand] = heads.map(|layers| layers.parameters() as f64);
    let source = "layers of the reference definition";
    let inputs = vec![Input::from("classes", 10.0, source)];
    let finding = check(paper).finding(model, inputs, ten, stated);
    let is_thousand = (stated.value / thousand - 1.0).abs() <= super::TOLERANCE
        || (stated.value - thousand).abs() <= stated.half_digit;
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
