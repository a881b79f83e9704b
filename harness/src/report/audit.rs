//! The audit of the papers' arithmetic as a page.

use super::page::{Page, Section};
use super::table::{Cell, Table};
use crate::audit::text::{
    Group, by_paper, counted, difference, distinct, figure, groups, inputs, sentences, stated,
    statements,
};
use crate::audit::{Finding, Outcome, Paper};

/// Returns the findings as a page: what differs check by check, the rest folded away.
pub fn audit_page(findings: &[Finding]) -> Page {
    Page {
        title: "Audit of the papers' arithmetic".into(),
        about: "figures recomputed from the papers' own inputs".into(),
        answer: sentences(findings),
        notes: vec![
            "A figure differs where neither the rounding of its printed digits nor 1 % explains the \
             gap. Inputs name the file, line and column that they were transcribed to."
                .into(),
        ],
        sections: by_paper(findings)
            .map(|(paper, own)| section(paper, &own))
            .collect(),
        ..Page::default()
    }
}

fn section(paper: Paper, findings: &[&Finding]) -> Section {
    let mut tables: Vec<Table> = groups(findings, Outcome::Differs)
        .iter()
        .map(differing)
        .collect();
    for (outcome, title) in [
        (Outcome::Agrees, "agree"),
        (Outcome::CannotBeChecked, "cannot be checked"),
    ] {
        let groups = groups(findings, outcome);
        if !groups.is_empty() {
            tables.push(others(title, &groups));
        }
    }
    let title = paper.cited();
    Section {
        id: title.to_lowercase().replace(['.', ' '], "-"),
        title: title.into(),
        tables,
        notes: vec![format!("{}.", counted(findings))],
        ..Section::default()
    }
}

/// Returns a check with every figure that differs.
fn differing(group: &Group<'_>) -> Table {
    let mut table = Table::new(
        format!("{}: {}", group.item, group.check),
        &[
            "of:",
            "printed",
            "computed",
            "printed is:",
            "inputs…",
            "remark…",
        ],
    );
    table.is_titled = true;
    for finding in &group.findings {
        let [printed, computed] = both(finding);
        let off = finding.ratio.map_or_else(String::new, difference);
        table.row(vec![
            Cell::text(&finding.row),
            printed,
            computed,
            Cell::text(off.trim_start_matches(": ").replace(" it", "")),
            Cell::text(said(finding)),
            Cell::text(finding.explanation.clone().unwrap_or_default()),
        ]);
    }
    table.notes.push(format!("Computed as {}.", group.formula));
    table.notes.extend(consequences(group));
    table
}

/// Returns all figures of one outcome.
fn others(title: &str, groups: &[Group<'_>]) -> Table {
    let count: usize = groups.iter().map(|group| group.findings.len()).sum();
    let mut table = Table::new(
        format!("{count} figures that {title}"),
        &["check:", "of:", "printed", "computed", "remark…"],
    );
    table.is_folded = true;
    for group in groups {
        for finding in &group.findings {
            let [printed, computed] = both(finding);
            let mut remarks = statements(finding);
            remarks.extend(finding.explanation.clone());
            table.row(vec![
                Cell::text(format!("{}: {}", group.item, group.check)),
                Cell::text(&finding.row),
                printed,
                computed,
                Cell::text(remarks.join("; ")),
            ]);
        }
        table.notes.extend(consequences(group));
    }
    table
}

/// Returns the printed and the computed figure.
fn both(finding: &Finding) -> [Cell; 2] {
    let unit = finding.unit;
    let printed = finding.printed.as_ref().map(|printed| printed.value);
    let of_printed = |value: f64| format!("{} {unit}", stated(value)).trim_end().to_owned();
    [
        Cell::of(printed, of_printed),
        Cell::of(finding.computed, |value| figure(value, unit)),
    ]
}

/// Returns what the figures are compared with and computed from.
fn said(finding: &Finding) -> String {
    let mut parts = statements(finding);
    parts.extend(Some(inputs(finding)).filter(|text| !text.is_empty()));
    parts.join("; ")
}

fn consequences(group: &Group<'_>) -> Vec<String> {
    let texts = distinct(&group.findings, |finding| finding.consequence.as_ref());
    texts
        .iter()
        .map(|text| format!("{}: {text}.", group.item))
        .collect()
}
