//! Petrescu et al. 2023: figures that stand alone.

use super::finding::{Check, Input};
use super::{Findings, Paper, Sources};

/// Lists the ratios of the text, which gives nothing that they are made of.
pub(super) fn ratios(sources: Sources<'_>) -> Findings {
    let check = Check {
        paper: Paper::Kubeml,
        item: "text",
        what: "ratios over TensorFlow",
        formula: "one figure / the other",
        unit: "",
    };
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
