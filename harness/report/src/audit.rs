//! The audit of the papers' figures as a page.

use epochcost_judge::audit::text::{answer, by_paper, counted, difference, inputs, right, side};
use epochcost_judge::audit::{Finding, Mark, Outcome, Reading, sentences};
use epochcost_spec::formula::Compared;

use super::page::{Page, Section};
use super::table::{Cell, Table};

/// Returns the findings as a page: what differs sentence by sentence, the rest folded away; a part
/// of the findings in full.
pub fn audit_page(findings: &[Finding], is_part: bool) -> Page {
    let papers = by_paper(findings).into_iter();
    let sections = papers.map(|(cite, own)| section(cite, &own, is_part));
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
        sections: sections.collect(),
        ..Page::default()
    }
}

fn section(cite: &str, findings: &[&Finding], is_part: bool) -> Section {
    let columns = ["statement:", "outcome:", "of:", "left", "right", "remark…"];
    let mut folded = Table::new("", &columns);
    folded.is_folded = true;
    let mut tables = Vec::new();
    for sentence in sentences(findings) {
        let is_full = is_part || sentence.foremost() == Outcome::Differs;
        for (heading, reading) in sentence.headed() {
            let is_own = |one: &&Finding| is_part || one.outcome != Outcome::Agrees;
            let (own, others): (Vec<&Finding>, Vec<&Finding>) =
                (reading.findings.iter()).partition(|one| is_full && is_own(one));
            // Its block is elsewhere.
            let Mark { place, says, .. } = &reading.mark;
            let whole = format!("{place}: {says}");
            for finding in others {
                folded.row(in_a_line(if is_full { &whole } else { &heading }, finding));
            }
            if is_full {
                tables.push(in_full(&heading, reading, &own));
            }
        }
    }
    if !folded.lines.is_empty() {
        let count = folded.lines.len();
        folded.caption = format!("{count} figures that agree or cannot be checked");
        tables.push(folded);
    }
    let id = cite.to_lowercase().replace(['.', ' '], "-");
    Section {
        notes: vec![format!("{}.", counted(findings))],
        ..Section::of(&id, cite, tables)
    }
}

/// Returns a reading with some of its figures; the sentence's own has a heading.
fn in_full(heading: &str, reading: &Reading<'_>, findings: &[&Finding]) -> Table {
    let caption = format!("{} – {heading}", reading.mark.outcome.word());
    let columns = ["outcome:", "of:", "left", "right", "left is:", "inputs…"];
    let mut table = Table::new(caption, &columns);
    // Without a line, there is no caption.
    table.is_titled = reading.mark.reading_of.is_none() || findings.is_empty();
    for finding in findings {
        let off = finding.compared.iter().map(difference).collect::<Vec<_>>();
        let words = [finding.outcome.word(), &finding.row];
        let mut row: Vec<Cell> = words.into_iter().map(Cell::text).collect();
        row.extend(both(finding));
        row.push(Cell::text(off.join(", ").replace(" it", "")));
        row.push(Cell::text(inputs(finding)));
        table.row(row);
    }
    let formula = reading.formula();
    let formula = formula.map(|formula| format!("As a formula: {formula}."));
    let held = reading.held().map(|held| format!("It {held}."));
    let remarks = reading.remarks().into_iter().map(str::to_owned);
    table.notes = formula.into_iter().chain(held).chain(remarks).collect();
    table
}

/// Returns a figure in a line.
fn in_a_line(heading: &str, finding: &Finding) -> Vec<Cell> {
    let words = [heading, finding.outcome.word(), &finding.row];
    let mut row: Vec<Cell> = words.into_iter().map(Cell::text).collect();
    row.extend(both(finding));
    row.push(Cell::text(finding.remarks().collect::<Vec<_>>().join("; ")));
    row
}

/// Returns both sides of what is compared.
fn both(finding: &Finding) -> [Cell; 2] {
    let join = |text: fn(&Compared) -> String| {
        let each = finding.compared.iter().map(text);
        Cell::text(each.collect::<Vec<_>>().join(", "))
    };
    [join(|one| side(&one.left)), join(right)]
}
