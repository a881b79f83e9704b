//! The audit of the papers' figures as a page.

use super::page::{Page, Section};
use super::table::{Cell, Table};
use crate::audit::text::{
    Group, by_paper, counted, difference, groups, inputs, remarks, right, sentences, side,
};
use crate::audit::{Finding, Outcome};
use crate::formula::Compared;

/// Returns the findings as a page: what differs statement by statement, the rest folded away.
pub fn audit_page(findings: &[Finding]) -> Page {
    Page {
        title: "Audit of the papers' figures".into(),
        about: "the papers' statements as formulas over the figures that they print".into(),
        answer: sentences(findings),
        notes: vec![
            "An equality holds within the rounding of the printed digits, or within 1 %; a figure of \
             the text, to its digits. Inputs name the file, line and column that they were \
             transcribed to."
                .into(),
        ],
        sections: by_paper(findings)
            .into_iter()
            .map(|(cite, own)| section(cite, &own))
            .collect(),
        ..Page::default()
    }
}

fn section(cite: &str, findings: &[&Finding]) -> Section {
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
    Section {
        id: cite.to_lowercase().replace(['.', ' '], "-"),
        title: cite.into(),
        tables,
        notes: vec![format!("{}.", counted(findings))],
        ..Section::default()
    }
}

/// Returns a statement with every figure that differs.
fn differing(group: &Group<'_>) -> Table {
    let mut table = Table::new(
        group.heading(),
        &["of:", "left", "right", "left is:", "inputs…"],
    );
    table.is_titled = true;
    for finding in &group.findings {
        let off = finding.compared.iter().map(difference).collect::<Vec<_>>();
        let mut row = vec![Cell::text(&finding.row)];
        row.extend(both(finding));
        row.push(Cell::text(off.join(", ").replace(" it", "")));
        row.push(Cell::text(inputs(finding)));
        table.row(row);
    }
    table.notes.extend(
        group
            .formula()
            .map(|formula| format!("As a formula: {formula}.")),
    );
    table
        .notes
        .extend(group.held().map(|held| format!("It {held}.")));
    table
        .notes
        .extend(group.remarks().iter().map(|remark| (*remark).to_owned()));
    table
}

/// Returns all figures of one outcome.
fn others(title: &str, groups: &[Group<'_>]) -> Table {
    let count: usize = groups.iter().map(|group| group.findings.len()).sum();
    let mut table = Table::new(
        format!("{count} figures that {title}"),
        &["statement:", "of:", "left", "right", "remark…"],
    );
    table.is_folded = true;
    for group in groups {
        for finding in &group.findings {
            let mut row = vec![Cell::text(group.heading()), Cell::text(&finding.row)];
            row.extend(both(finding));
            row.push(Cell::text(remarks(finding).collect::<Vec<_>>().join("; ")));
            table.row(row);
        }
    }
    table
}

/// Returns both sides of what is compared.
fn both(finding: &Finding) -> [Cell; 2] {
    let join = |text: fn(&Compared) -> String| {
        let each = finding.compared.iter().map(text);
        Cell::text(each.collect::<Vec<_>>().join(", "))
    };
    [join(|one| side(&one.left)), join(right)]
}
