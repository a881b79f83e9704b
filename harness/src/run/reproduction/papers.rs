//! A page for each paper of a reproduction.

use std::collections::BTreeSet;
use std::path::Path;

use crate::analysis::overview::Overview;
use crate::audit::AuditError;
use crate::chain::chain;
use crate::cost::PriceBook;
use crate::error::Error;
use crate::experiment::deviations as deviations_of;
use crate::published::{PAPER, Paper};
use crate::report::{self, Deviations};
use crate::shipped;

/// Writes `PAPER.html` for each paper that has a folder with [`PAPER`].
///
/// # Errors
/// When a paper's folder is damaged, or a page cannot be written.
pub(super) fn write(directory: &Path, out: &Path, overview: &Overview) -> Result<(), Error> {
    let names: BTreeSet<&str> = overview
        .items
        .iter()
        .map(|item| item.paper.as_str())
        .collect();
    let prices = PriceBook::shipped().map_err(AuditError::from);
    let damaged = |error: &dyn std::error::Error| Error::Usage {
        problem: chain(error),
        remedy: "correct that file of the paper".to_owned(),
    };
    let prices = prices.map_err(|error| damaged(&error))?;
    for name in names {
        let folder = directory.join(name);
        if !shipped::is_file(&folder.join(PAPER)) {
            continue;
        }
        let paper = Paper::read(&folder, None, &prices).map_err(|error| damaged(&error))?;
        let mut deviations = Deviations::new();
        let items = overview.items.iter().filter(|item| item.paper == name);
        for item in items {
            let file = directory.join(format!("{}.yaml", item.id));
            // What cannot be read any more was said when the item was run.
            for (field, why) in deviations_of(&file).unwrap_or_default() {
                let of_field = deviations.entry(field).or_default();
                of_field.push((item.id.clone(), why));
            }
        }
        let page = report::paper_page(&paper, overview, &deviations);
        let page = page.map_err(|error| damaged(&error))?;
        report::write_page(&out.join(format!("{name}.html")), &page)?;
    }
    Ok(())
}
