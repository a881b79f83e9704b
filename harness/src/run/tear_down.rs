//! The end of a platform: what a run created is removed, and leftovers are reported.

use std::path::Path;

use epochcost_planner::error::Error;
use epochcost_platform::Platform;
use epochcost_spec::format::usd;
use epochcost_spec::ui::Output;

use super::signal::stop_signal;

/// Removes everything that runs in `directory` created, and reports what is left.
///
/// # Errors
/// When something is left, it cannot be determined whether anything is, or a
/// signal cuts the removal short.
pub(super) async fn tear_down(
    platform: &dyn Platform,
    directory: &Path,
    output: Output,
) -> Result<(), Error> {
    // Waiting for network interfaces may be cut short: what costs is gone by then.
    let stop = stop_signal()?;
    let leftovers = tokio::select! {
        biased;
        leftovers = platform.tear_down(directory, output) => leftovers?,
        () = stop => return Err(Error::Lacks {
            what: "interrupted before all of the run was removed".to_owned(),
            remedy: "`epochcost aws clean` removes what is left".to_owned(),
        }),
    };
    if leftovers.is_empty() {
        return Ok(());
    }
    for leftover in &leftovers {
        let resource = &leftover.resource;
        let month = (resource.usd_per_month).map_or("no price is known".to_owned(), usd);
        let why = (leftover.refusal.as_ref()).map_or(String::new(), |error| format!(": {error}"));
        output.message(format_args!(
            "still there, {month} per month: {} {} in {}{why}",
            resource.kind, resource.name, resource.region
        ));
    }
    Err(Error::Lacks {
        what: format!("{} resources of the run are still there", leftovers.len()),
        remedy: "`epochcost aws clean` removes them".to_owned(),
    })
}
