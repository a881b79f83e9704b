//! Memory sizes of functions: the smallest that works, and the cheapest.

use std::cell::RefCell;
use std::collections::BTreeMap;

use epochcost_simulator::Simulation;
use epochcost_spec::cost::{CostModel, PriceBook};
use epochcost_spec::rows::Row;
use epochcost_systems::Host;
use serde::Serialize;

use super::epochs::estimate;
use super::estimate::{Estimate, peak_mb, probe};
use crate::error::Result;

/// The grid on which the cheapest size is searched for, MB.
const GRID_MB: u32 = 64;

/// Intervals that the range of sizes is first cut into.
const COARSE: u32 = 10;

/// The smallest memory size, in whole MB, at which a setting is feasible: the
/// peak memory of its functions, or more where a slower function would run into
/// the limit of time. None if no size is.
///
/// Processes on instances have no memory size, so that their peak does not count.
///
/// A larger function is never slower and never has less room, so that sizes
/// are feasible from one on: it is found by bisection.
///
/// # Errors
/// When the setting is none of a known system.
pub(super) fn smallest(simulation: &Simulation, known_peak_mb: Option<u32>) -> Result<Option<u32>> {
    let largest = simulation.profile.function.memory_mb_limit as u32;
    let peak_mb = match known_peak_mb {
        Some(peak_mb) => peak_mb,
        None => match probe(&sized(simulation, largest))? {
            Ok(simulated) => peak_mb(&simulated, Some(Host::Function)) as u32,
            Err(_) => return Ok(None),
        },
    };
    let least = peak_mb.max(simulation.profile.function.memory_mb_minimum.ceil() as u32);
    if least > largest {
        return Ok(None);
    }
    let works = |memory_mb| -> Result<bool> { Ok(probe(&sized(simulation, memory_mb))?.is_ok()) };
    if !simulation.has_limits || works(least)? {
        return Ok(Some(least));
    }
    if !works(largest)? {
        return Ok(None);
    }
    let (mut fails, mut works_at) = (least, largest);
    while works_at - fails > 1 {
        let middle = fails + (works_at - fails) / 2;
        let end = if works(middle)? {
            &mut works_at
        } else {
            &mut fails
        };
        *end = middle;
    }
    Ok(Some(works_at))
}

/// The cheapest memory size of a row's functions.
#[derive(Debug, Serialize)]
pub(super) struct Cheapest {
    /// The row.
    pub(super) id: String,
    /// The size, MB; null if none is feasible in 95 % of draws.
    pub(super) memory_mb: Option<u32>,
    /// What the row takes at that size.
    pub(super) estimate: Option<Estimate>,
    /// Sizes that were simulated.
    pub(super) simulated_sizes: usize,
}

/// Finds the memory size of the least dollars.
///
/// Dollars fall with memory as long as time falls faster than the price of a
/// second rises, and rise from there on. So a coarse grid over the feasible
/// sizes is refined around its best point, down to multiples of 64 MB. Three
/// sizes off the grid are tried as well: the smallest feasible one, the row's
/// own, and that of exactly one vCPU, where the gain from more memory changes
/// at once. Of equally cheap sizes, the fastest counts, then the smallest. What
/// `holds` refuses is left out: a size that just ends within the limits at the
/// stated values may not in draws.
///
/// # Errors
/// When the row is none of a known system, or something has no price.
pub(super) fn cheapest(
    row: &Row,
    simulation: &Simulation,
    smallest_mb: Option<u32>,
    account: CostModel,
    prices: &PriceBook,
    holds: impl Fn(u32) -> Result<bool>,
) -> Result<Cheapest> {
    let function = &simulation.profile.function;
    let largest_mb = function.memory_mb_limit as u32;
    let tried: RefCell<BTreeMap<u32, Option<Estimate>>> = RefCell::default();
    let cost = |memory_mb: u32| -> Result<f64> {
        if !tried.borrow().contains_key(&memory_mb) {
            let ended = estimate(row, &sized(simulation, memory_mb), prices)?;
            tried.borrow_mut().insert(memory_mb, ended.ok());
        }
        let tried = tried.borrow();
        let known = tried.get(&memory_mb).and_then(Option::as_ref);
        Ok(known.map_or(f64::INFINITY, |estimate| estimate.usd(account)))
    };
    let one_vcpu_mb = function.mb_per_vcpu.ceil() as u32;
    if let Some(smallest_mb) = smallest_mb {
        for memory_mb in [smallest_mb, simulation.memory_mb, one_vcpu_mb] {
            if (smallest_mb..=largest_mb).contains(&memory_mb) {
                cost(memory_mb)?;
            }
        }
        refine(smallest_mb, largest_mb, cost)?;
    }
    let tried = tried.into_inner();
    let simulated_sizes = tried.len();
    let tried = tried.into_iter();
    let feasible = tried.filter_map(|(mb, found)| Some((mb, found?)));
    let mut feasible: Vec<(u32, Estimate)> = feasible.collect();
    feasible.sort_by(|(_, a), (_, b)| {
        let by_usd = a.usd(account).total_cmp(&b.usd(account));
        by_usd.then(a.seconds.total_cmp(&b.seconds))
    });
    let mut best = None;
    for (memory_mb, estimate) in feasible {
        if !simulation.has_limits || holds(memory_mb)? {
            best = Some((memory_mb, estimate));
            break;
        }
    }
    let (memory_mb, estimate) = best.unzip();
    Ok(Cheapest {
        id: row.id.clone(),
        memory_mb,
        estimate,
        simulated_sizes,
    })
}

/// Calls `cost` on a grid from `low` to `high`, then on finer ones around the
/// best point so far.
fn refine(low: u32, high: u32, mut cost: impl FnMut(u32) -> Result<f64>) -> Result<()> {
    let on_grid = |size: u32| size.next_multiple_of(GRID_MB);
    let mut step = on_grid(((high - low) / COARSE).max(1));
    let (mut from, mut to) = (on_grid(low), high);
    loop {
        let mut best: Option<(u32, f64)> = None;
        for size in (from..=to).step_by(step as usize) {
            let usd = cost(size)?;
            if best.is_none_or(|(_, least)| usd < least) {
                best = Some((size, usd));
            }
        }
        let Some((size, _)) = best.filter(|_| step > GRID_MB) else {
            return Ok(());
        };
        from = size.saturating_sub(step).max(on_grid(low));
        to = size.saturating_add(step).min(high);
        step = on_grid(step / 4);
    }
}

/// The same setting with functions of another size.
fn sized(simulation: &Simulation, memory_mb: u32) -> Simulation {
    Simulation {
        memory_mb,
        ..simulation.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that are tried, and the best of them, of a cost with its
    /// least at `least`.
    fn search(low: u32, high: u32, least: u32) -> (usize, u32) {
        let mut tried = BTreeMap::new();
        refine(low, high, |size| {
            let usd = f64::from(size.abs_diff(least));
            tried.insert(size, usd);
            Ok(usd)
        })
        .unwrap();
        let best = tried.iter().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        (tried.len(), *best.0)
    }

    /// The cheapest size is none that draws make impossible.
    #[test]
    fn a_size_that_does_not_hold_is_not_recommended() {
        let experiment = crate::forecast::described::experiment(&[], false);
        let stands = experiment.simulation.clone().unwrap();
        let prices = PriceBook::shipped().unwrap();
        let rows = crate::forecast::rows::candidates(&experiment, &stands).unwrap();
        let one = rows
            .into_iter()
            .filter_map(std::result::Result::ok)
            .next()
            .unwrap();
        let least = smallest(&one.simulation, None).unwrap();
        let found = |holds: &dyn Fn(u32) -> bool| {
            let holds = |mb| Ok(holds(mb));
            let (row, simulation, account) = (&one.row, &one.simulation, CostModel::Full);
            let found = cheapest(row, simulation, least, account, &prices, holds).unwrap();
            found.memory_mb
        };
        let first = found(&|_| true).unwrap();
        let second = found(&|mb| mb > first).unwrap();
        assert!(second > first, "{second} {first}");
        assert_eq!(found(&|_| false), None);
    }

    #[test]
    fn the_least_of_a_valley_is_found_on_the_grid() {
        for least in (128..=10_240).step_by(64) {
            let (tried, best) = search(128, 10_240, least);
            assert_eq!(best, least);
            assert!(tried <= 40, "{tried} sizes for {least}");
        }
        assert_eq!(search(1_000, 10_240, 128).1, 1_024);
        assert_eq!(search(10_200, 10_240, 128).1, 10_240);
    }
}
