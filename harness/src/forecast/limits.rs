//! The number of workers at which each system meets a limit of the platform.

use epochcost_simulator::{Infeasible, Simulation, refused, simulated_workers};
use epochcost_systems::find;
use serde::Serialize;

use super::estimate::{Outcome, has_functions, probe};
use super::rows::Candidate;
use crate::error::Error;
use crate::platform::sim::{CLASSES_ABOVE, package_mb, unusable};

/// Requests of the workers that are simulated, by closed form, above which a size is not
/// tried: some ten seconds. The search of a row tries at most twice as many sizes as
/// there are powers of two up to its bound.
const MOST_REQUESTS: u64 = 6_000_000;

/// How far a row's system scales.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Boundary {
    /// The row; its own number of workers plays no part.
    pub(super) id: String,
    /// Most workers at which it is feasible; 0 if it never is.
    pub(super) feasible_up_to: usize,
    /// What it meets with one worker more; null if nothing was met.
    pub(super) then: Option<Obstacle>,
    /// Why larger sizes were not simulated, where they were asked for and
    /// nothing was met.
    pub(super) not_simulated: Option<String>,
}

impl Boundary {
    /// Returns the boundary of a row that its system refuses at some number of workers.
    pub(super) fn failed(candidate: &Candidate, error: &Error) -> Self {
        Self {
            id: candidate.row.id.clone(),
            feasible_up_to: 0,
            then: Some(Obstacle::Failed(
                error.to_string().replace("\n  = help: ", "; "),
            )),
            not_simulated: None,
        }
    }
}

/// What keeps a system from a number of workers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Obstacle {
    /// A limit of the platform.
    Infeasible(Infeasible),
    /// The system failed, and no limit is to blame.
    Failed(String),
}

/// Finds the number of workers, up to `up_to`, from which on the row's setting
/// is infeasible: its batch size, batches per worker, epochs and memory stay.
///
/// Every limit weighs more on more workers, so sizes are feasible up to one:
/// it is found by doubling, then bisection. What is refused before anything
/// runs costs nothing to know and bounds the search; each probe below is a
/// simulation, which ends with the first limit that it meets. Nothing beyond
/// twice the boundary is simulated.
///
/// Where calls of a workflow are throttled, more workers can fall into step and
/// be quicker than fewer. What is found is then one crossing: the setting is
/// feasible with that many workers and not with one more.
///
/// # Errors
/// When the row is none of a known system.
pub(super) fn boundary(
    candidate: &Candidate,
    train_samples: usize,
    up_to: usize,
) -> Result<Boundary, Error> {
    let at = |workers: usize| resized(candidate, train_samples, workers);
    let refusal = |workers| -> Result<Option<Infeasible>, Error> {
        Ok(refused(&at(workers), package_mb()).map_err(unusable)?)
    };
    let admitted = largest(up_to, |workers| Ok(refusal(workers)?.is_none()))?;
    let affordable = largest(admitted, |workers| {
        Ok(requests(&at(workers))? <= MOST_REQUESTS)
    })?;
    // Of the probes that met something, that of the fewest workers came last.
    let mut met = None;
    let feasible_up_to = largest(affordable, |workers| {
        let obstacle = match probe(&at(workers))? {
            Outcome::Feasible(_) => return Ok(true),
            Outcome::Infeasible(infeasible) => Obstacle::Infeasible(infeasible),
            Outcome::Failed(reason) => Obstacle::Failed(reason),
        };
        met = Some(obstacle);
        Ok(false)
    })?;
    let mut boundary = Boundary {
        id: candidate.row.id.clone(),
        feasible_up_to,
        then: None,
        not_simulated: None,
    };
    if feasible_up_to < affordable {
        boundary.then = met;
    } else if affordable < admitted {
        boundary.not_simulated = Some(format!(
            "larger ones exchange more than {} million requests",
            MOST_REQUESTS / 1_000_000
        ));
    } else if admitted < up_to {
        boundary.then = refusal(admitted + 1)?.map(Obstacle::Infeasible);
    }
    Ok(boundary)
}

/// The largest number from 1 to `most` of which `holds` is true, if it is true
/// up to one number and false from there on; 0 if it is never true. Asks about
/// nothing beyond twice that number.
fn largest(
    most: usize,
    mut holds: impl FnMut(usize) -> Result<bool, Error>,
) -> Result<usize, Error> {
    let (mut yes, mut no) = (0, most.saturating_add(1));
    while yes < most && no > most {
        let next = (2 * yes).clamp(1, most);
        if holds(next)? { yes = next } else { no = next }
    }
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle)? {
            yes = middle
        } else {
            no = middle
        }
    }
    Ok(yes)
}

/// The row's setting with that many workers, under the platform's limits.
///
/// Instances have no limit of time or memory here, and sizes of values are the
/// same in every step: one step is enough.
fn resized(candidate: &Candidate, train_samples: usize, workers: usize) -> Simulation {
    let mut simulation = candidate.simulation.clone();
    simulation.has_limits = true;
    let job = &mut simulation.job;
    job.workers = workers;
    if !has_functions(&candidate.row) {
        (job.batches_per_worker, job.epochs) = (1, 1);
    }
    let used = workers * job.batches_per_worker * job.batch_size;
    job.data.train_samples = train_samples.max(used);
    simulation
}

/// Reads, writes and messages of the exchange that are simulated: the system's closed form, and
/// of workers that are alike those of their representatives.
fn requests(simulation: &Simulation) -> Result<u64, Error> {
    let Some(system) = find(&simulation.job.system) else {
        return Ok(0);
    };
    let bound = system.bind(&simulation.job);
    let traffic = bound.and_then(|bound| bound.traffic(simulation.sizes));
    let traffic = traffic.map_err(|error| unusable(error.into()))?;
    let all =
        traffic.puts + traffic.gets + traffic.messages + traffic.deliveries + traffic.in_store;
    let workers = simulation.job.workers.max(1) as u64;
    let simulated = simulated_workers(simulation, CLASSES_ABOVE).map_err(unusable)? as u64;
    Ok((u128::from(all) * u128::from(simulated) / u128::from(workers)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_found_and_nothing_beyond_twice_it_is_asked() {
        for most in [1, 2, 3, 7, 8, 100] {
            for boundary in 0..=most {
                let mut asked = Vec::new();
                let found = largest(most, |number| {
                    asked.push(number);
                    Ok(number <= boundary)
                });
                assert_eq!(found.unwrap(), boundary, "of {most}");
                let furthest = asked.iter().copied().max().unwrap();
                assert!(furthest <= most.min((2 * boundary).max(1)), "{asked:?}");
            }
        }
        assert_eq!(largest(0, |_| Ok(true)).unwrap(), 0);
    }

    /// The last question answered with no is that of the fewest workers, which
    /// is whose obstacle is reported.
    #[test]
    fn the_last_no_is_one_above_the_largest() {
        let mut last_no = 0;
        let found = largest(10_000, |number| {
            if number > 137 {
                last_no = number;
            }
            Ok(number <= 137)
        });
        assert_eq!((found.unwrap(), last_no), (137, 138));
    }
}
