//! A page for each paper of a reproduction.

use std::collections::BTreeSet;
use std::path::Path;

use epochcost_experiment::{FormName, deviations as deviations_of};
use epochcost_judge::analysis::overview::{AnalysedRun, Overview, is_named};
use epochcost_judge::audit::AuditError;
use epochcost_planner::error::Error;
use epochcost_record::Item;
use epochcost_report::{self as report, Deviations, Rows};
use epochcost_spec::chain::chain;
use epochcost_spec::cost::PriceBook;
use epochcost_spec::published::{PAPER, Paper};
use epochcost_spec::shipped;

use super::task::with_form;

/// Returns an item for each experiment that has recorded verdicts and no file, of the papers that
/// are asked for as a whole.
///
/// # Errors
/// When a paper's folder is damaged.
pub(super) fn gone(
    directory: &Path,
    asked: &[String],
    catalogue: &[String],
) -> Result<Vec<Item>, Error> {
    let is_asked_for = |paper: &&str| {
        let id = format!("{paper}/");
        asked.is_empty() || asked.iter().any(|name| is_named(name, &id))
    };
    let papers: BTreeSet<&str> = (catalogue.iter())
        .filter_map(|id| id.split('/').next())
        .filter(is_asked_for)
        .collect();
    let mut items = Vec::new();
    for name in papers {
        let Some(paper) = read(&directory.join(name))? else {
            continue;
        };
        for experiment in paper.recorded.experiments() {
            let id = format!("{name}/{experiment}");
            let file = id.split_once('.').map_or(&*id, |(file, _)| file);
            if !catalogue.iter().any(|own| own == file) {
                items.push(Item::gone(id, paper.lost(experiment, |_| false)));
            }
        }
    }
    Ok(items)
}

/// Reads a paper's folder; none where there is no [`PAPER`] in it.
fn read(folder: &Path) -> Result<Option<Paper>, Error> {
    if !shipped::is_file(&folder.join(PAPER)) {
        return Ok(None);
    }
    let prices = PriceBook::shipped().map_err(|error| damaged(&AuditError::from(error)))?;
    let paper = Paper::read(folder, None, &prices);
    paper.map(Some).map_err(|error| damaged(&error))
}

fn damaged(error: &dyn std::error::Error) -> Error {
    Error::usage(chain(error), "correct that file of the paper")
}

/// Writes `PAPER.html` for each paper that has a folder with [`PAPER`].
///
/// # Errors
/// When a paper's folder is damaged, or a page cannot be written.
pub(super) fn write(
    directory: &Path,
    out: &Path,
    overview: &Overview,
    runs: &[Option<AnalysedRun>],
) -> Result<(), Error> {
    let rows = overview.items.iter().zip(runs).filter_map(|(item, run)| {
        let rows = &run.as_ref()?.analysis.summary.rows;
        Some((item.id.as_str(), &rows[..]))
    });
    let rows: Rows<'_> = rows.collect();
    let names = overview.items.iter().map(|item| item.paper.as_str());
    for name in names.collect::<BTreeSet<&str>>() {
        let Some(paper) = read(&directory.join(name))? else {
            continue;
        };
        let mut deviations = Deviations::new();
        let items = overview.items.iter().filter(|item| item.paper == name);
        for item in items {
            let (id, form) = match item.id.strip_suffix(&with_form("", FormName::Aws)) {
                Some(id) => (id, Some(FormName::Aws)),
                None => (item.id.as_str(), None),
            };
            let file = directory.join(format!("{id}.yaml"));
            // What cannot be read any more was said when the item was run.
            let left = deviations_of(&file, form).unwrap_or_default();
            deviations.push((item.id.clone(), left));
        }
        let page = report::paper_page(&paper, overview, &rows, &deviations);
        let page = page.map_err(|error| damaged(&error))?;
        report::write_page(&out.join(format!("{name}.html")), &page)?;
    }
    Ok(())
}
