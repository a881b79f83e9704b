//! Removal of everything that runs created, and a check that nothing is left.

use std::path::Path;

use epochcost_aws::resource::{Found, Kind};
use epochcost_aws::{AwsError, Clients, Journal, RunFilter, survey, tear_down};

use super::JOURNAL_PREFIX;

/// Resource of a run that still exists after its teardown.
#[derive(Debug)]
pub struct AwsLeftover {
    /// The resource, from the survey or the failed removal.
    pub found: Found,
    /// Error of its removal, if one was tried.
    pub refusal: Option<AwsError>,
}

/// Removes everything that the journals in `directory` list, and returns what is
/// left of their runs. `report` receives a message before a step that takes long.
/// May be repeated; does nothing where everything is gone.
///
/// # Errors
/// When a journal cannot be read, or a request failed.
pub async fn tear_down_runs(
    directory: &Path,
    report: &(dyn Fn(&str) + Sync),
) -> Result<Vec<AwsLeftover>, AwsError> {
    let mut leftovers = Vec::new();
    for path in journals(directory)? {
        if is_unbegun(&path) {
            continue;
        }
        let mut journal = Journal::resume(&path)?;
        if journal.outstanding().is_empty() {
            continue;
        }
        if journal
            .outstanding()
            .iter()
            .any(|held| held.kind == Kind::Vpc)
        {
            report(
                "removing the run's network last: network interfaces of functions can hold it for \
                 up to 40 minutes, and cost nothing",
            );
        }
        let scope = journal.scope().clone();
        let clients = Clients::load(Some(&scope.region)).await?;
        let removed = tear_down(&clients, &mut journal).await?;
        leftovers.extend(
            removed
                .leftovers
                .into_iter()
                .map(|(found, error)| AwsLeftover {
                    found,
                    refusal: Some(error),
                }),
        );
        // The survey goes by tags and names, not by the journal.
        let still = survey(&clients, &[scope.region], &RunFilter::Run(scope.run)).await?;
        for found in still {
            if !leftovers.iter().any(|known| known.found.id == found.id) {
                leftovers.push(AwsLeftover {
                    found,
                    refusal: None,
                });
            }
        }
    }
    Ok(leftovers)
}

/// Returns what the runs in `directory`, and in directories within it, have spent or reserved, US dollars.
///
/// # Errors
/// When a directory or a journal cannot be read.
pub(super) fn spent_usd(directory: &Path) -> Result<f64, AwsError> {
    let mut usd = 0.0;
    for path in journals(directory)? {
        usd += Journal::usd_in(&path)?;
    }
    for path in entries(directory)? {
        // Directories that are linked to may hold themselves.
        if path.is_dir() && !path.is_symlink() {
            usd += spent_usd(&path)?;
        }
    }
    Ok(usd)
}

/// Returns whether the process died before it completed the journal's first line:
/// such a journal lists nothing.
fn is_unbegun(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| !text.contains('\n'))
}

/// Returns the paths of the journals in `directory`, sorted.
fn journals(directory: &Path) -> Result<Vec<std::path::PathBuf>, AwsError> {
    let mut found = entries(directory)?;
    found.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(JOURNAL_PREFIX) && name.ends_with(".jsonl"))
    });
    found.sort();
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<std::path::PathBuf>, AwsError> {
    let unreadable = |error: std::io::Error| AwsError::Journal {
        doing: "find",
        path: directory.to_path_buf(),
        reason: error.to_string(),
    };
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    let paths = entries.map(|entry| Ok(entry.map_err(unreadable)?.path()));
    paths.collect()
}
