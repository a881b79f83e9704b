//! Petrescu et al. 2023: figures that stand alone, and sentences.

use super::finding::{Check, Input, Statement};
use super::{AuditError, Findings, Paper, Sources};

const fn check(what: &'static str, formula: &'static str, unit: &'static str) -> Check {
    Check {
        paper: Paper::Kubeml,
        item: "text",
        what,
        formula,
        unit,
    }
}

fn says(sources: Sources<'_>, key: &str) -> Result<Statement, AuditError> {
    let place = [Paper::Kubeml.cited(), "section 4.2", key];
    Ok(sources.published.statement(place)?)
}

/// Lists the ratios of the text, which gives nothing that they are made of.
pub(super) fn ratios(sources: Sources<'_>) -> Findings {
    let check = check("ratios over TensorFlow", "one figure / the other", "");
    let mut findings = Vec::new();
    for row in sources.published.table("kubeml_text.csv")?.rows() {
        let name = format!(
            "{}, {}: {}, {}",
            row.text("model")?,
            row.text("dataset")?,
            row.text("metric")?,
            row.text("setting")?
        );
        findings.push(
            check
                .unchecked(name, Vec::<Input>::new())
                .with_printed(&row.number("value")?)
                .explained("what it is a ratio of is not among the paper's numbers"),
        );
    }
    Ok(findings)
}

/// Checks that the speed-up over TensorFlow grows as batches shrink.
pub(super) fn small_batches(sources: Sources<'_>) -> Findings {
    let formula = "speed-up with the smaller batches / speed-up with the larger";
    let check = check("speed-up by size of batch", formula, "");
    let table = sources.published.table("kubeml_text.csv")?;
    let mut findings = Vec::new();
    // Both speed-ups of each model, the smaller batches first.
    for (model, small, large) in [
        (
            "LeNet-5",
            "local batch 16, parallelism 8, K = infinity",
            "local batch 32, parallelism 8, K = infinity",
        ),
        (
            "ResNet-34",
            "local batch 32",
            "best of each: batch 128 against batch 256",
        ),
    ] {
        let of = |setting| {
            let row = table.row(&[("model", model), ("setting", setting)])?;
            row.number("value")
        };
        let (small, large) = (of(small)?, of(large)?);
        let growth = small.value / large.value;
        let inputs = vec![
            Input::of("smaller batches", &small),
            Input::of("larger batches", &large),
        ];
        findings.push(
            check
                .unchecked(model, inputs)
                .stating([says(sources, "batches")?])
                .with_computed(growth)
                .judged(growth > 1.0)
                .explained(
                    "that TensorFlow is faster with large batches is drawn and not printed; \
                     claims of experiments/kubeml/batches.yaml run it",
                ),
        );
    }
    Ok(findings)
}

/// Lists what the text says of a merge and of the accuracies at which training
/// stops to improve.
pub(super) fn merge(sources: Sources<'_>) -> Findings {
    let paper = Paper::Kubeml.cited();
    let mut findings = Vec::new();
    for (what, quantity, subject, unit, remark) in [
        (
            "time of a merge",
            "time of a merge at most",
            "",
            "ms",
            "the text says seconds of another system or model; the transcription does not say which",
        ),
        (
            "plateau of accuracy",
            "accuracy of the plateau",
            "LeNet-5",
            "%",
            "a result of training, not of arithmetic",
        ),
        (
            "plateau of accuracy",
            "accuracy of the plateau",
            "ResNet-34",
            "%",
            "a result of training, not of arithmetic",
        ),
    ] {
        let stated = sources
            .published
            .stated([paper, "text", quantity, subject])?;
        let row = if subject.is_empty() {
            "KubeML"
        } else {
            subject
        };
        findings.push(
            check(what, "", unit)
                .unchecked(row, Vec::new())
                .with_printed(&stated)
                .explained(remark),
        );
    }
    Ok(findings)
}

/// Lists what the paper concludes from figures that it draws and does not
/// print.
pub(super) fn drawn(sources: Sources<'_>) -> Findings {
    let mut findings = Vec::new();
    for (key, file) in [
        ("interval", "kubeml/interval.yaml"),
        ("validation loss", "kubeml/figures.yaml"),
    ] {
        let finding = check("conclusion from a drawing", "", "").unchecked(key, Vec::new());
        findings.push(finding.stating([says(sources, key)?]).explained(format!(
            "the paper prints no numbers of it; it is a claim of experiments/{file}"
        )));
    }
    Ok(findings)
}
