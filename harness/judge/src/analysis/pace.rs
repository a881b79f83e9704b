//! Pace at which the polls of a run are billed.

use epochcost_platform::{Site, site_of};
use epochcost_record::Manifest;
use epochcost_spec::cost::Pace;
use epochcost_spec::profiles;

/// Returns the pace of the services that bills are about, those of the default profile; none if
/// it cannot be read.
pub fn of_services() -> Option<Pace> {
    let profile = profiles::platform(profiles::DEFAULT).ok()?.values();
    Some(Pace {
        objects_s: profile.object_store.service.request_latency_s,
        queue_s: profile.queue.service.request_latency_s,
    })
}

/// Returns the pace at which polls of a run are billed: that of the services, where
/// the run had others. Services of a local run, and those of a simulation of one
/// machine that everything shares, answer at this machine's pace.
pub fn of_run(manifest: &Manifest) -> Option<Pace> {
    let is_local = match &manifest.simulation {
        Some(record) => {
            let mut constants = record.constants.iter();
            constants.any(|constant| constant.path.starts_with("host."))
        }
        None => matches!(site_of(&manifest.platform), Some(Site::ThisMachine)),
    };
    if is_local { of_services() } else { None }
}
