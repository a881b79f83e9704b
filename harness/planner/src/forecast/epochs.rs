//! Trainings of many epochs, carried on from their first ones.

use epochcost_channels::Traffic;
use epochcost_platform::Invoked;
use epochcost_platform::sim::{CLASSES_ABOVE, package_mb};
use epochcost_simulator::{Simulation, refused};
use epochcost_spec::cost::{Bill, LineItem, PriceBook, even_gb_months};
use epochcost_spec::rows::Row;
use epochcost_systems::Job;

use super::estimate::{Estimate, Outcome, StageMeans, estimate_by, sizes_only};
use crate::error::Result;

/// Events of the longer of the two simulations that a training is carried on from, about.
const EVENTS: f64 = 100_000.0;

/// Epochs of the shortest simulation: functions start cold in the first one.
const FEW: usize = 2;

/// Seconds of the shorter one, so that neither the minimum of an instance's bill nor its whole
/// seconds count.
const SECONDS: f64 = 300.0;

/// Relative difference of two growths up to which each epoch is said to repeat the one before.
const REPEATS: f64 = 0.01;

/// What `row` takes under `simulation`, which describes it or a variant of it: carried on from the
/// first epochs where there are many that repeat one another.
///
/// # Errors
/// When the row is none of a known system, or something has no price.
pub(super) fn estimate(
    row: &Row,
    simulation: &Simulation,
    prices: &PriceBook,
) -> Result<Outcome<Estimate>> {
    let by =
        |simulation: &Simulation| estimate_by(row, simulation, prices, sizes_only(CLASSES_ABOVE));
    let whole = || by(simulation);
    // What is refused of the whole is refused of its parts.
    let is_refused = refused(simulation, package_mb())?;
    let job = &simulation.job;
    if job.epochs <= 4 * FEW || is_refused.is_some() || changes(job) {
        return whole();
    }
    let part = |epochs| -> Result<Option<Estimate>> { Ok(by(&cut(simulation, epochs))?.ok()) };
    let Some(few) = part(FEW)? else {
        return whole();
    };
    let each_events = few.events as f64 / FEW as f64;
    let least = (SECONDS / few.seconds_per_epoch).max(EVENTS / 2.0 / each_events);
    // Functions that start anew every few epochs start as often in either part.
    let period = job.settings["epochs_per_invocation"].as_u64().unwrap_or(1) as usize;
    let less = (least.min(job.epochs as f64).ceil() as usize)
        .max(2 * FEW)
        .next_multiple_of(period.max(1));
    let more = 2 * less;
    if job.epochs <= 2 * more {
        return whole();
    }
    let (Some(shorter), Some(longer)) = (part(less)?, part(more)?) else {
        return whole();
    };
    let parts = [&few, &shorter, &longer];
    Ok(match carried(parts, [FEW, less, more], job.epochs) {
        Some(estimate) => Ok(estimate),
        None => whole()?,
    })
}

/// Returns the simulation of a training's first epochs.
pub(super) fn cut(simulation: &Simulation, epochs: usize) -> Simulation {
    let mut cut = simulation.clone();
    cut.job.epochs = epochs;
    cut
}

/// Returns whether later epochs are of other workers than the first.
fn changes(job: &Job) -> bool {
    let settings = &job.settings;
    !settings["joins"].is_null() || settings["static"] == false
}

/// Returns the estimate of so many epochs from those of a few, of more, and of twice as many; none
/// if their epochs do not repeat one another, or a function of all of them may run too long.
fn carried(parts: [&Estimate; 3], of: [usize; 3], epochs: usize) -> Option<Estimate> {
    let ([few, less, more], [n_few, n_less, n_more]) = (parts, of);
    let growth =
        |a: &Estimate, b: &Estimate, epochs: usize| (b.seconds - a.seconds) / epochs as f64;
    let (first, second) = (
        growth(few, less, n_less - n_few),
        growth(less, more, n_more - n_less),
    );
    let repeats = (first - second).abs() <= REPEATS * second;
    let is_long = more.longest_function_s() > less.longest_function_s() * (1.0 + REPEATS);
    let is_bigger = more.peak_memory_mb > less.peak_memory_mb;
    if !repeats || is_long || is_bigger {
        return None;
    }
    let [n_less, n_more, n] = [n_less, n_more, epochs].map(|n| n as f64);
    let line = |less: f64, more: f64| more + (more - less) * (n - n_more) / (n_more - n_less);
    let mean = |less: f64, more: f64| line(n_less * less, n_more * more) / n;
    let stage = |of: fn(&StageMeans) -> f64| mean(of(&less.stage_seconds), of(&more.stage_seconds));
    let traffic = |of: fn(&Estimate) -> Traffic| {
        of(less).zip(of(more), |less, more| {
            line(less as f64, more as f64).round() as u64
        })
    };
    let seconds = line(less.seconds, more.seconds);
    let kept_bytes = line(less.kept_bytes, more.kept_bytes);
    let bill = |at: usize| {
        let (before, after) = (&less.bills[at].items, &more.bills[at].items);
        let names = before.iter().map(|item| &item.dimension);
        let is_same = names.eq(after.iter().map(|item| &item.dimension));
        let items = before.iter().zip(after).map(|(before, after)| {
            // Bytes that stay and time grow, and so their product by square.
            let quantity = if after.is_storage() {
                let beside = |item: &LineItem, of: &Estimate| {
                    item.quantity - even_gb_months(of.kept_bytes, of.seconds)
                };
                line(beside(before, less), beside(after, more))
                    + even_gb_months(kept_bytes, seconds)
            } else {
                line(before.quantity, after.quantity)
            };
            LineItem {
                quantity,
                usd: quantity * after.unit_price_usd,
                ..after.clone()
            }
        });
        is_same.then(|| Bill {
            items: items.collect(),
            ..more.bills[at].clone()
        })
    };
    let bills = [bill(0)?, bill(1)?];
    let most = more.most.iter().map(|(function, of_more)| {
        let of_less = less.most.get(function).copied().unwrap_or_default();
        let requests = of_less.requests.zip(of_more.requests, |less, more| {
            line(less as f64, more as f64).round() as u64
        });
        let seconds = of_more.seconds;
        (function.clone(), Invoked { requests, seconds })
    });
    let most = most.collect();
    Some(Estimate {
        seconds_per_epoch: mean(less.seconds_per_epoch, more.seconds_per_epoch),
        seconds,
        stage_seconds: StageMeans {
            fetch_dataset: stage(|s| s.fetch_dataset),
            compute_gradients: stage(|s| s.compute_gradients),
            synchronise: stage(|s| s.synchronise),
            update_model: stage(|s| s.update_model),
            detect_convergence: stage(|s| s.detect_convergence),
        },
        billed_ms: line(less.billed_ms as f64, more.billed_ms as f64).round() as u64,
        cost_paper_usd: bills[0].total_usd(),
        cost_full_usd: bills[1].total_usd(),
        bills,
        traffic: traffic(|e| e.traffic),
        dataset_traffic: traffic(|e| e.dataset_traffic),
        state_traffic: traffic(|e| e.state_traffic),
        kept_bytes,
        most,
        carried_on_from_epochs: Some(n_more as usize),
        events: few.events + less.events + more.events,
        took: few.took + less.took + more.took,
        ..more.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::{described, rows};

    /// Systems whose functions, or machines, come and go by epoch or stay; described, on little data.
    const SYSTEMS: &str = "[spirt, gpu_baseline, kubeml, p2p, p2p_lambda, \
         {system: gpu_baseline, name: keeping, settings: {delete_previous: false}}, \
         {system: kubeml, name: elastic, settings: {static: false}}, \
         {system: spirt, name: joining, workers: 6, settings: {membership: true, joins: {peers: 3, epoch: 9}}}, \
         {system: allreduce, settings: {epochs_per_invocation: 7}}]";

    /// What is carried on is what the whole takes, also where objects are kept longer and longer.
    #[test]
    fn many_epochs_are_carried_on_from_few() {
        let fields = [
            ("dataset.samples", "2048"),
            ("models.0.parameters", "20000000"),
            ("models.0.flops_per_sample", "5.0e+9"),
            ("epochs", "3000"),
            ("memory_mb", "3008"),
            ("systems", SYSTEMS),
        ];
        let experiment = described::experiment(&fields, false);
        let prices = PriceBook::shipped().unwrap();
        let stands = experiment.simulation.as_ref().unwrap();
        let mut carried_on = Vec::new();
        for candidate in rows::candidates(&experiment, stands).unwrap() {
            let Ok(rows::Candidate { row, simulation }) = candidate else {
                panic!("every row can be simulated");
            };
            let by = |simulation: &Simulation| estimate(&row, simulation, &prices).unwrap();
            // So many that the whole is a few times as long as its parts.
            let epochs = by(&cut(&simulation, 16)).map_or(0, |part| {
                let each = part.events as f64 / 16.0;
                (3.0 * EVENTS / each) as usize
            });
            let long = cut(&simulation, epochs);
            let whole = estimate_by(&row, &long, &prices, sizes_only(CLASSES_ABOVE)).unwrap();
            let Ok(found) = by(&long) else {
                assert!(whole.is_err(), "{}", row.id);
                continue;
            };
            let whole = whole.unwrap();
            if found.carried_on_from_epochs.is_none() {
                continue;
            }
            carried_on.push(row.id.clone());
            assert!(found.events < whole.events, "{}", row.id);
            let figures = |e: &Estimate| {
                let kept = e.bills[1].items.iter().filter(|item| item.is_storage());
                [
                    e.seconds,
                    e.seconds_per_epoch,
                    e.cost_paper_usd,
                    e.cost_full_usd,
                    kept.map(|item| item.usd).sum(),
                    e.traffic.bytes_up as f64,
                    e.state_traffic.puts as f64,
                ]
            };
            for (now, then) in figures(&found).into_iter().zip(figures(&whole)) {
                let is_near = (now - then).abs() <= 0.005 * then;
                assert!(is_near, "{}: {now} and {then}", row.id);
            }
        }
        println!("{carried_on:?}");
        assert!(carried_on.len() > 3, "{carried_on:?}");
    }
}
