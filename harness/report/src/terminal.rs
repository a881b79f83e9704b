//! What a run and a reproduction print on the terminal: the answer, a table, and
//! what a reader must know of it.

use epochcost_judge::analysis::Analysis;
use epochcost_judge::analysis::answer::Answer;
use epochcost_judge::analysis::counts::Counts;
use epochcost_judge::analysis::names::names;
use epochcost_judge::analysis::overview::Overview;
use epochcost_judge::analysis::warnings::Warning;
use epochcost_spec::claims::VerdictKind;
use epochcost_spec::format::wrapped;

use super::charts::labelled;
use super::table::{Cell, Column, Table};
use super::tally::by_origin;
use super::view::{class_and_sign, excluded};

/// Lines that warnings take.
const WARNING_LINES: usize = 3;

/// Returns the answer, a table of the rows that is no wider than `width`, and a
/// line for each row that is infeasible and each verdict that is not as expected.
pub fn terminal_table(analysis: &Analysis, width: Option<usize>) -> String {
    let summary = &analysis.summary;
    let rows = &summary.rows;
    let mut text = answer(&summary.answer);
    let names = names(rows);
    let table = super::rows::summary(&labelled(analysis, &names), rows, summary.target_accuracy);
    let (shown, left_out) = table.text(width);
    text.push_str(&shown);
    for (name, row) in names.iter().zip(rows) {
        if let Some(why) = &row.infeasible {
            text.push_str(&format!("\n{name}: {why}"));
        }
    }
    // What the figures are, and what was compared with them.
    let misses = analysis.misses.as_ref();
    let has_findings = !summary.answer.findings.is_empty();
    let left_out =
        (!left_out.is_empty()).then(|| format!("--wide also shows {}", left_out.join(", ")));
    let notes = table.notes.into_iter().map(Some).chain([
        left_out,
        misses.map(|misses| wrapped("", &format!("Every figure is simulated. {misses}"))),
        summary.counts.checks_hold().filter(|_| !has_findings),
        Some(excluded(&summary.excluded)).filter(|text| !text.is_empty()),
    ]);
    for note in notes.flatten() {
        text.push_str(&format!("\n{note}"));
    }
    let unexpected = summary.verdicts.iter().filter(|verdict| !verdict.holds());
    for verdict in unexpected {
        let row = verdict.row.as_deref().unwrap_or("no row");
        let (word, claim, reason) = (verdict.verdict, &verdict.claim, &verdict.reason);
        text.push_str(&format!("\n{word}: {claim} ({row}): {reason}"));
    }
    text
}

/// Returns the answer, a sentence a line, with an empty line behind it.
fn answer(answer: &Answer) -> String {
    let sentences = answer.sentences().into_iter();
    let text: String = sentences.map(|one| wrapped("", one) + "\n").collect();
    match text.as_str() {
        "" => text,
        _ => text + "\n",
    }
}

/// Returns warnings in three lines at most: the rest is counted, and `place` says
/// where it is.
pub fn terminal_warnings(warnings: &[Warning], place: &str) -> Vec<String> {
    let shown = match warnings.len() {
        few if few <= WARNING_LINES => few,
        _ => WARNING_LINES - 1,
    };
    let lines = (warnings.iter().take(shown)).map(|warning| format!("warning: {}", warning.line()));
    let mut lines: Vec<String> = lines.collect();
    let rest: usize = warnings.iter().skip(shown).map(|one| one.times).sum();
    if rest > 0 {
        lines.push(format!("warning: {rest} more: {place}"));
    }
    lines
}

/// Returns the answer, a plain-text table of the items with their verdicts by kind,
/// and a line for each item that is not done and each verdict that is not as
/// expected.
pub fn terminal_overview(overview: &Overview) -> String {
    let mut text = answer(&overview.answer);
    text.push_str(&items_table(overview).text(None).0);
    let record = overview.record.text();
    if !record.is_empty() {
        text.push_str(&format!("\n{record}\n"));
    }
    // The signs' meaning, items that are not done, unexpected verdicts.
    let legend = overview.counts.all().into_keys();
    let legend = legend.map(|kind| format!("{} {kind}", class_and_sign(kind).1));
    let legend: Vec<String> = legend.collect();
    text.push_str(&format!("\n{}", legend.join("  ")));
    for misses in overview.misses() {
        text.push_str(&format!("\n{}", wrapped("", &misses)));
    }
    for (origin, counts) in by_origin(overview) {
        for (name, counts) in counts.named() {
            let of_kind = counts.iter().map(|(kind, count)| format!("{count} {kind}"));
            let of_kind: Vec<String> = of_kind.collect();
            if !of_kind.is_empty() {
                let origin = origin.as_str();
                text.push_str(&format!(
                    "\n{origin}, verdicts on {name}: {}",
                    of_kind.join(", ")
                ));
            }
        }
    }
    for item in overview.asked_for() {
        if let Some(why) = &item.why {
            text.push_str(&format!("\n{} ({}): {why}", item.id, item.state.as_str()));
        }
        for claim in item.claims.iter().filter(|claim| claim.unexpected) {
            let verdict = &claim.verdict;
            let expected = verdict.expect;
            let expected = expected.map_or(String::new(), |kind| format!(", expected {kind}"));
            let (id, word, reason) = (&item.id, verdict.verdict, &verdict.reason);
            text.push_str(&format!(
                "\n{id}: {word}{expected}: {}: {reason}",
                verdict.claim
            ));
        }
    }
    text
}

/// Returns a line per item, and sums of those of one origin.
fn items_table(overview: &Overview) -> Table {
    let kinds: Vec<VerdictKind> = overview.counts.all().into_keys().collect();
    let mut table = Table::new("Items", &["item:", "state:"]);
    let signs = kinds.iter().map(|kind| class_and_sign(*kind).1);
    (table.columns).extend(signs.chain(["trials"]).map(|name| Column::figure(name, "")));
    for item in &overview.items {
        let state = match (&item.run, item.platform.as_deref()) {
            (Some(_), Some(platform)) => format!("{}, {platform}", item.state.as_str()),
            _ => item.state.as_str().to_owned(),
        };
        let mut cells = vec![Cell::text(&item.id), Cell::text(state)];
        cells.extend(by_kind(&item.counts, &kinds));
        cells.push(Cell::text(match item.failed_trials {
            0 => item.trials.to_string(),
            failed => format!("{}, {failed} failed", item.trials),
        }));
        table.row(cells);
    }
    for (origin, counts) in by_origin(overview) {
        let name = format!("all {}", origin.as_str());
        let mut all = vec![Cell::text(name), Cell::default()];
        all.extend(by_kind(&counts, &kinds));
        let items = overview.items.iter().filter(|item| item.origin() == origin);
        all.push(Cell::whole(items.map(|item| item.trials).sum::<usize>()));
        table.row(all);
    }
    table
}

/// Returns the number of verdicts of each kind, on claims of every kind; nothing
/// where there are none.
fn by_kind(counts: &Counts, kinds: &[VerdictKind]) -> Vec<Cell> {
    let all = counts.all();
    let cell = |kind| all.get(kind).map_or_else(Cell::default, Cell::whole);
    kinds.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(text: &str) -> Warning {
        Warning {
            text: text.to_owned(),
            rows: vec!["a".to_owned()],
            times: 2,
        }
    }

    #[test]
    fn warnings_take_three_lines_at_most() {
        let warnings: Vec<Warning> = ["w", "x", "y", "z"].map(warning).into();
        assert_eq!(terminal_warnings(&warnings[..3], "p").len(), 3);
        let lines = terminal_warnings(&warnings, "p");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[2], "warning: 4 more: p");
        assert!(terminal_warnings(&[], "p").is_empty());
    }
}
