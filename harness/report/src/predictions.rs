//! What was predicted of a paper's claims, and how many came true.

use epochcost_judge::analysis::items::ItemOverview;
use epochcost_judge::analysis::summary::Verdict;
use epochcost_spec::format;
use epochcost_spec::published::{Paper, Prediction};

use super::overview::link_to;
use super::page::Section;
use super::paper::name;
use super::table::{Cell, Table};

/// Returns what was predicted of a claim of an item.
pub(super) fn of<'a>(paper: &'a Paper, item: &ItemOverview, claim: &str) -> Option<&'a Prediction> {
    let mut all = paper.predictions.iter();
    all.find(|one| one.experiment == name(item) && one.claim == claim)
}

/// Returns how many predictions came true, and each of them; none without one.
pub(super) fn section(paper: &Paper, items: &[ItemOverview]) -> Option<(String, Section)> {
    let heading = "claim: | predicted: | observed: | came true: | since: | where:";
    let mut table = Table::headed("", heading);
    let (mut right, mut wrong) = (0, 0);
    for one in &paper.predictions {
        let id = format!("{}/{}", paper.name, one.experiment);
        let item = items.iter().find(|item| item.id == id);
        let verdict = item.and_then(|item| verdict(item, &one.claim));
        let came_true = verdict.and_then(|own| one.came_true(own.verdict, own.observed));
        let told = match came_true {
            Some(true) => {
                right += 1;
                Cell::badge("good", "yes")
            }
            Some(false) => {
                wrong += 1;
                Cell::badge("bad", "no")
            }
            None => Cell::text("undecided"),
        };
        let observed = verdict.and_then(|own| own.observed);
        let report = item.map(|item| link_to(item, one.experiment.clone()));
        let report = report.filter(|link| !link.href.is_empty());
        table.row(vec![
            Cell::text(&one.claim),
            Cell::text(&one.predicts),
            Cell::text(observed.map_or_else(String::new, format::number)),
            told,
            Cell::text(&one.commit),
            Cell::default().with_links(report.into_iter().collect()),
        ]);
    }
    let all = table.lines.len();
    table.caption = format!("{all} predictions");
    table.is_folded = true;
    let open = all - right - wrong;
    let are = if open == 1 { "is" } else { "are" };
    let sentence = format!(
        "Of {all} outcomes that were predicted before they were first recorded, {right} came true, {wrong} \
         did not, and {open} {are} undecided."
    );
    let section = Section::of("predictions", "Predictions", vec![table]);
    (all > 0).then_some((sentence, section))
}

fn verdict<'a>(item: &'a ItemOverview, claim: &str) -> Option<&'a Verdict> {
    let mut verdicts = item.claims.iter().map(|claim| &claim.verdict);
    verdicts.find(|verdict| verdict.claim == claim)
}
