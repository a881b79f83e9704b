//! What the platform profiles under an answer miss by.

use epochcost_record::SimulationRecord;
use epochcost_spec::profiles::misses;
use epochcost_spec::rows::Simulation;

use super::places::Site;

/// Returns the sentence on the profile of a simulation, and one for each place that stands on another.
pub(super) fn sentences<'a>(
    stands: &Simulation,
    places: impl Iterator<Item = &'a Site>,
) -> Vec<String> {
    let mut said = vec![SimulationRecord::of(stands, &[]).misses()];
    let own = stands.profile.name.as_str();
    let others = places.filter(|site| site.profile_name() != own);
    said.extend(others.map(|site| {
        let misses = misses::sentence(site.profile_name(), Some(stands.client));
        let misses = misses.replacen("Profile", "the profile", 1);
        format!("{} stands on {misses}", site.place.name)
    }));
    said.dedup();
    said
}
