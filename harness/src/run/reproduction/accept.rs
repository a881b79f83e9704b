//! New recorded verdicts: `verdicts.csv` of each paper's folder.

use std::collections::BTreeMap;
use std::path::Path;

use epochcost_judge::analysis::items::ItemOverview;
use epochcost_judge::analysis::overview::Overview;
use epochcost_planner::error::Error;
use epochcost_record::{ItemState, Reproduction, write_whole};
use epochcost_spec::chain::chain;
use epochcost_spec::claims::VerdictKind;
use epochcost_spec::published::{PublishedError, RECORDED, Recorded, Table};
use epochcost_spec::shipped;
use jiff::Zoned;

use super::Request;

/// Refuses what cannot be recorded.
///
/// # Errors
/// For shipped experiments, whose files are part of the program, and without a reason.
pub(super) fn check(request: &Request<'_>) -> Result<(), Error> {
    if shipped::is_shipped(request.directory) {
        return Err(Error::usage(
            "shipped experiments keep their recorded verdicts",
            "name a directory of your own with --directory",
        ));
    }
    if request.accept.is_some_and(|why| why.trim().is_empty()) {
        return Err(Error::usage(
            "--accept has no reason",
            "say why verdicts changed",
        ));
    }
    Ok(())
}

/// Records the verdicts of items that were asked for and run whole, and forgets those that are gone.
///
/// # Errors
/// When a file cannot be read or written.
pub(super) fn write(
    directory: &Path,
    record: &mut Reproduction,
    overview: &Overview,
    why: &str,
) -> Result<(), Error> {
    let mut papers: BTreeMap<&str, Vec<&ItemOverview>> = BTreeMap::new();
    let asked_for = overview.asked_for().into_iter();
    for item in asked_for.filter(|item| item.is_told()) {
        papers.entry(&item.paper).or_default().push(item);
    }
    record.items.retain(|item| item.state != ItemState::Gone);
    let date = Zoned::now().date().to_string();
    for (paper, items) in papers {
        let path = directory.join(paper).join(RECORDED);
        let mut recorded = read(&path)?;
        for item in items {
            let name = item.id.rsplit('/').next().unwrap_or_default();
            let claims = (item.claims.iter()).filter(|claim| claim.verdict.kind.is_of_paper());
            let verdicts: BTreeMap<&str, VerdictKind> = claims
                .map(|claim| (claim.verdict.claim.as_str(), claim.verdict.verdict))
                .collect();
            for own in record.items.iter_mut().filter(|own| own.id == item.id) {
                own.lost.clear();
                for claim in &mut own.claims {
                    if let Some(verdict) = verdicts.get(claim.claim.as_str()) {
                        claim.expect = Some(*verdict);
                    }
                }
            }
            recorded.accept(name, verdicts.into_iter(), &date, why);
        }
        // A paper without claims needs no file.
        if recorded != Recorded::default() || path.is_file() {
            write_whole(&path, recorded.text().as_bytes())?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Recorded, Error> {
    if !path.is_file() {
        return Ok(Recorded::default());
    }
    let table = Table::read(path).and_then(|table| Recorded::of(&table));
    table.map_err(|error: PublishedError| {
        Error::usage(chain(&error), "correct that line, or remove the file")
    })
}
