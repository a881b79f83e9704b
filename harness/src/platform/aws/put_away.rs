//! What runs made, removed, and a look whether anything is left.

use std::path::Path;

use epochcost_aws::resource::{Found, Kind};
use epochcost_aws::{AwsError, Clients, Journal, RunFilter, survey, tear_down};

use super::JOURNAL_PREFIX;

/// Something that is still there.
#[derive(Debug)]
pub struct Left {
    /// What.
    pub found: Found,
    /// Why it could not be removed, where that was tried.
    pub refusal: Option<AwsError>,
}

/// Removes everything of the journals in `directory`, and looks for what is
/// left of their runs; `say` is told of what takes long. May be repeated;
/// nothing happens where all is gone.
///
/// # Errors
/// When a journal cannot be read, or a service could not be asked.
pub async fn put_away(
    directory: &Path,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Left>, AwsError> {
    let mut left = Vec::new();
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
            say(
                "removing the run's network last: network interfaces of functions can hold it for \
                 up to 40 minutes, and cost nothing",
            );
        }
        let scope = journal.scope().clone();
        let clients = Clients::load(Some(&scope.region)).await?;
        let removed = tear_down(&clients, &mut journal).await?;
        left.extend(removed.leftovers.into_iter().map(|(found, error)| Left {
            found,
            refusal: Some(error),
        }));
        // By tags and names, whatever the journal says.
        let still = survey(&clients, &[scope.region], &RunFilter::Run(scope.run)).await?;
        for found in still {
            if !left.iter().any(|known| known.found.id == found.id) {
                left.push(Left {
                    found,
                    refusal: None,
                });
            }
        }
    }
    Ok(left)
}

/// Whether the process died before the first line was whole: nothing was
/// created under it.
fn is_unbegun(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| !text.contains('\n'))
}

fn journals(directory: &Path) -> Result<Vec<std::path::PathBuf>, AwsError> {
    let unreadable = |error: std::io::Error| AwsError::Journal {
        doing: "find",
        path: directory.to_path_buf(),
        reason: error.to_string(),
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(JOURNAL_PREFIX) && name.ends_with(".jsonl")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
