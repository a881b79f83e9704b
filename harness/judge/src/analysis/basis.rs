//! What simulated figures rest on: published figures that constants and compute
//! profiles were fitted to.

use epochcost_channels::Traffic;
use epochcost_record::SimulationRecord;
use epochcost_simulator::profile::{ComputeOrigin, FittedTo, ModelCost};
use epochcost_systems::{ChannelTraffic, PurposeTraffic};

use super::RowAnalysis;
use super::rules::{Fit, Rests};

/// Returns every fit that figures of `rows` may rest on: of their compute
/// profiles, and of the constants of each service that a row uses, drawn or not.
pub(super) fn fits(rows: &[&RowAnalysis], record: &SimulationRecord) -> Vec<Fit> {
    let of_row = |row: &&RowAnalysis| {
        let mut fits = of_constants(row, record);
        fits.extend(of_compute(row, record));
        fits
    };
    rows.iter().flat_map(of_row).collect()
}

fn of_constants(row: &RowAnalysis, record: &SimulationRecord) -> Vec<Fit> {
    let stated = &row.planned.row.constants;
    let constants = record.constants.iter();
    let kept = constants.filter(|constant| !stated.contains_key(&constant.path));
    let of_profile = kept.filter_map(|known| Some((&known.path, known.fitted_to.as_ref()?)));
    let of_row = (stated.iter()).filter_map(|(path, known)| Some((path, known.fitted_to()?)));
    let fits = of_profile.chain(of_row).filter_map(|(path, to)| {
        Some(Fit {
            what: path.clone(),
            to: Some(to.clone()),
            rests: rests(row, path)?,
        })
    });
    fits.collect()
}

fn of_compute(row: &RowAnalysis, record: &SimulationRecord) -> Option<Fit> {
    let used = row.planned.compute.as_ref()?;
    let to: Option<&FittedTo> = cost_of(row, record).and_then(|cost| cost.fitted_to.as_ref());
    let is_fitted = to.is_some() || used.origin == ComputeOrigin::Published;
    is_fitted.then(|| Fit {
        what: format!("compute profile {}", used.profile),
        to: to.cloned(),
        rests: Rests::Computing,
    })
}

/// Returns what steps of a row cost, by the run's record.
fn cost_of<'a>(row: &RowAnalysis, record: &'a SimulationRecord) -> Option<&'a ModelCost> {
    let used = row.planned.compute.as_ref()?;
    let mut profiles = record.compute.iter();
    let profile = profiles.find(|profile| profile.name == used.profile)?;
    let mut costs = profile.costs.iter();
    costs.find(|cost| cost.model == row.planned.row.job.model && cost.device == used.device)
}

/// Returns which figures of a row rest on the part of the platform that a
/// constant is of; none if the row does not use it.
fn rests(row: &RowAnalysis, path: &str) -> Option<Rests> {
    let channel: fn(&ChannelTraffic) -> Traffic = match path.split('.').next() {
        Some("object_store") => |channels| channels.objects,
        Some("tensor_store") => |channels| channels.tensors,
        Some("queue") => |channels| channels.queue,
        Some("workflow") => {
            let is_used = row.succeeded().any(|trial| trial.trial.transitions > 0);
            return is_used.then_some(Rests::Times);
        }
        _ => return Some(Rests::Times),
    };
    let moved = |purpose: fn(&PurposeTraffic) -> ChannelTraffic| {
        let mut trials = row.succeeded();
        trials.any(|trial| channel(&purpose(&trial.traffic)) != Traffic::default())
    };
    if moved(|traffic| traffic.exchange) {
        return Some(Rests::Times);
    }
    let is_beside = moved(|traffic| traffic.dataset) || moved(|traffic| traffic.state);
    is_beside.then_some(Rests::WorkerTimes)
}
