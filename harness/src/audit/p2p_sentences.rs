//! Sentences of Barrak et al. 2023 against the figures of its tables.

use super::finding::{Finding, Input, Statement};
use super::p2p::check;
use super::{AuditError, Findings, Paper, Sources};
use crate::format;
use crate::published::Quantity;

/// The stage whose share the paper's design moves to Lambda.
const GRADIENTS: &str = "compute gradients (per batch)";

fn says(sources: Sources<'_>, item: &str, key: &str) -> Result<Statement, AuditError> {
    Ok(sources
        .published
        .statement([Paper::P2p.cited(), item, key])?)
}

/// The stage of one model and dataset with the largest figure.
struct Largest<'a> {
    model: &'a str,
    dataset: &'a str,
    stage: &'a str,
    most: Quantity,
    gradients: Option<Quantity>,
}

/// Returns the largest figure of a column of Table I, by model and dataset.
fn largest<'a>(sources: Sources<'a>, column: &str) -> Result<Vec<Largest<'a>>, AuditError> {
    let mut all: Vec<Largest<'a>> = Vec::new();
    for row in sources.published.table("p2p_table1.csv")?.rows() {
        let (model, dataset) = (row.text("model")?, row.text("dataset")?);
        let (stage, value) = (row.text("stage")?, row.number(column)?);
        let known = all
            .iter()
            .position(|one| (one.model, one.dataset) == (model, dataset));
        let index = known.unwrap_or_else(|| {
            all.push(Largest {
                model,
                dataset,
                stage,
                most: value.clone(),
                gradients: None,
            });
            all.len() - 1
        });
        let one = &mut all[index];
        if value.value > one.most.value {
            (one.stage, one.most) = (stage, value.clone());
        }
        if stage == GRADIENTS {
            one.gradients = Some(value);
        }
    }
    Ok(all)
}

/// Checks that computing gradients needs most, in time, processor and memory.
pub(super) fn stages(sources: Sources<'_>) -> Findings {
    let formula = "pairs of model and dataset whose largest figure is that of computing gradients";
    let check = check("Table I", "costliest stage", formula, "");
    let mut findings = Vec::new();
    for (name, column, unit) in [
        ("seconds", "seconds", "s"),
        ("CPU", "cpu_percent", "%"),
        ("memory", "memory_mb", "MB"),
    ] {
        let all = largest(sources, column)?;
        let others: Vec<&Largest<'_>> = all.iter().filter(|one| one.stage != GRADIENTS).collect();
        let mut inputs = Vec::new();
        for one in &all {
            inputs.extend(one.gradients.iter().map(|own| Input::of("gradients", own)));
        }
        inputs.extend(others.iter().map(|one| Input::of("larger", &one.most)));
        let count = (all.len() - others.len()) as f64;
        let finding = check
            .unchecked(format!("{name}: {} pairs", all.len()), inputs)
            .stating([says(sources, "section V-A", "stages")?])
            .with_computed(count)
            .judged(others.is_empty());
        findings.push(exceptions(finding, &others, unit));
    }
    Ok(findings)
}

fn exceptions(finding: Finding, others: &[&Largest<'_>], unit: &str) -> Finding {
    if others.is_empty() {
        return finding;
    }
    let each = others.iter().map(|one| {
        let own = one.gradients.as_ref().map_or(f64::NAN, |own| own.value);
        format!(
            "{} on {}: {} {} {unit}, gradients {} {unit}",
            one.model,
            one.dataset,
            one.stage,
            format::exact(one.most.value),
            format::exact(own)
        )
    });
    let each: Vec<String> = each.collect();
    finding.explained(each.join("; ")).concluding(
        "gradients take longest in every pair, which is what the paper's design rests on",
    )
}

/// Checks that Lambda saves less with more peers, at the batch size that the
/// tables and the text have in common.
pub(super) fn savings(sources: Sources<'_>) -> Findings {
    let formula = "1 - with Lambda / on instances, of 4 peers";
    let check = check("section V-B1", "savings and peers", formula, "%");
    let size = "128";
    let seconds = |file: &str| {
        let table = sources.published.table(file)?;
        table.row(&[("batch_size", size)])?.number("seconds")
    };
    let lambda = seconds("p2p_table2_serverless.csv")?;
    let instances = seconds("p2p_table3_instance.csv")?;
    let setting = "VGG-11, MNIST, 8 workers, batch 128";
    let eight = sources.published.table("p2p_text.csv")?;
    let eight = eight.row(&[("setting", setting)])?.number("value")?;
    let four = (1.0 - lambda.value / instances.value) * 100.0;
    let inputs = vec![
        Input::of("with Lambda, s", &lambda),
        Input::of("on instances, s", &instances),
    ];
    Ok(vec![
        check
            .unchecked(format!("{setting}, against 4"), inputs)
            .stating([says(sources, "section V-B1", "savings")?])
            .with_computed(four)
            .with_printed(&eight)
            .judged(eight.value < four)
            .explained(
                "twice the peers have half of the batches each, which is less to run in parallel",
            ),
    ])
}

/// Lists what the paper concludes from figures that it draws and does not
/// print.
pub(super) fn drawn(sources: Sources<'_>) -> Findings {
    let mut findings = Vec::new();
    for (item, key, file) in [
        ("section V-C1", "peers", "p2p/peers.yaml"),
        ("section V-C2", "compression", "p2p/compression-vgg11.yaml"),
        ("section V-D", "modes", "p2p/asynchronous.yaml"),
    ] {
        let finding = check(item, "conclusion from a drawing", "", "").unchecked(key, Vec::new());
        findings.push(
            finding
                .stating([says(sources, item, key)?])
                .explained(format!(
                    "the paper prints no numbers of it; claims of experiments/{file} run it"
                )),
        );
    }
    Ok(findings)
}
