//! The audit of the papers' figures as a page.

use super::page::{Page, Section};
use super::table::{Cell, Table};
use crate::audit::text::{answer, by_paper, counted, difference, inputs, right, side};
use crate::audit::{Finding, Outcome, Reading, Sentence, sentences};
use crate::formula::Compared;

/// Returns the findings as a page: what differs sentence by sentence, the rest folded away; a part
/// of the findings in full.
pub fn audit_page(findings: &[Finding], is_part: bool) -> Page {
    Page {
        title: "Audit of the papers' figures".into(),
        about: "the papers' statements as formulas over the figures that they print".into(),
        answer: answer(findings, is_part),
        notes: vec![
            "An equality holds within the rounding of the printed digits, or within 1 %; a figure of \
             the text, to its digits. Inputs name the file, line and column that they were \
             transcribed to."
                .into(),
        ],
        sections: by_paper(findings)
            .into_iter()
            .map(|(cite, own)| section(cite, &own, is_part))
            .collect(),
        ..Page::default()
    }
}

fn section(cite: &str, findings: &[&Finding], is_part: bool) -> Section {
    let is_full = |one: &Sentence<'_>| is_part || one.foremost() == Outcome::Differs;
    let (full, others): (Vec<_>, Vec<_>) = sentences(findings).into_iter().partition(is_full);
    let headed = full.iter().flat_map(Sentence::headed);
    let mut tables: Vec<Table> = headed.map(|(heading, own)| in_full(heading, own)).collect();
    if !others.is_empty() {
        tables.push(in_lines(&others));
    }
    Section {
        id: cite.to_lowercase().replace(['.', ' '], "-"),
        title: cite.into(),
        tables,
        notes: vec![format!("{}.", counted(findings))],
        ..Section::default()
    }
}

/// Returns a reading with every figure; the sentence's own has a heading.
fn in_full(heading: String, reading: &Reading<'_>) -> Table {
    let caption = format!("{} – {heading}", reading.mark.outcome.word());
    let columns = ["of:", "outcome:", "left", "right", "left is:", "inputs…"];
    let mut table = Table::new(caption, &columns);
    table.is_titled = reading.mark.reading_of.is_none();
    for finding in &reading.findings {
        let off = finding.compared.iter().map(difference).collect::<Vec<_>>();
        let mut row = vec![Cell::text(&finding.row), Cell::text(finding.outcome.word())];
        row.extend(both(finding));
        row.push(Cell::text(off.join(", ").replace(" it", "")));
        row.push(Cell::text(inputs(finding)));
        table.row(row);
    }
    let formula = reading
        .formula()
        .map(|formula| format!("As a formula: {formula}."));
    let held = reading.held().map(|held| format!("It {held}."));
    let remarks = reading.remarks().into_iter().map(str::to_owned);
    table.notes = formula.into_iter().chain(held).chain(remarks).collect();
    table
}

/// Returns every figure of these sentences in a line.
fn in_lines(sentences: &[Sentence<'_>]) -> Table {
    let columns = ["statement:", "outcome:", "of:", "left", "right", "remark…"];
    let mut table = Table::new("", &columns);
    table.is_folded = true;
    for (heading, reading) in sentences.iter().flat_map(Sentence::headed) {
        for finding in &reading.findings {
            let words = [&heading, finding.outcome.word(), &finding.row];
            let mut row: Vec<Cell> = words.into_iter().map(Cell::text).collect();
            row.extend(both(finding));
            row.push(Cell::text(finding.remarks().collect::<Vec<_>>().join("; ")));
            table.row(row);
        }
    }
    table.caption = format!(
        "{} figures that agree or cannot be checked",
        table.lines.len()
    );
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
