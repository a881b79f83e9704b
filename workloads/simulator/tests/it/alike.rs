//! Representatives of workers that are alike give what the simulation of every worker gives.

use std::array::from_fn;

use epochcost_simulator::profile::Profile;
use epochcost_simulator::{
    Options, Simulated, Simulation, SimulationError, simulate, simulated_workers,
};
use epochcost_systems::{Fault, FaultKind, Fidelity, Symmetry, find, find_model, systems};
use serde_json::{Value, json};

use crate::support::*;

/// Systems whose requests grow with W², under every setting that changes how they exchange.
fn settings() -> Vec<(&'static str, Fidelity, Value)> {
    use Fidelity::{Code, Paper, Tuned};
    vec![
        ("gpu_baseline", Paper, json!({})),
        ("gpu_baseline", Tuned, json!({})),
        ("scatterreduce", Paper, json!({"finds_by": "name"})),
        ("scatterreduce", Tuned, json!({"over": "objects"})),
        ("p2p", Paper, json!({})),
        ("p2p", Code, json!({})),
        ("p2p_lambda", Paper, json!({})),
        ("mlless", Paper, json!({})),
        ("mlless", Code, json!({"rewrites_log": false})),
        ("spirt", Paper, json!({})),
        ("spirt", Tuned, json!({})),
        ("ring", Paper, json!({})),
    ]
}

fn of(
    (system, fidelity, settings): &(&str, Fidelity, Value),
    workers: usize,
    profile: &Profile<f64>,
) -> Simulation {
    let mut job = job_of(system, *fidelity, workers, 2, settings.clone());
    job.epochs = 2;
    simulation(job, 100_003, profile, 0.5)
}

fn classes(classes_above: Option<usize>) -> Options {
    Options {
        classes_above,
        ..Options::default()
    }
}

fn simulated(simulation: &Simulation, classes_above: Option<usize>) -> Simulated {
    let simulated = simulate(simulation, classes(classes_above)).unwrap();
    assert_eq!(simulated.failure, None, "{}", simulation.job.system);
    simulated
}

fn invocations(simulated: &Simulated) -> u64 {
    simulated.invocations.iter().map(|call| call.alike).sum()
}

const FIGURES: [&str; 4] = ["wall", "synchronise", "billed", "polls"];

/// What is close to the full simulation: seconds, and polls.
fn figures(simulated: &Simulated) -> [f64; 4] {
    let of_functions = simulated.totals.seconds.values();
    let calls = simulated.invocations.iter();
    let total = simulated.totals.traffic.exchange.total();
    [
        simulated.wall_s,
        of_functions.map(|seconds| seconds.synchronise()).sum(),
        calls.map(|call| call.duration_s * call.alike as f64).sum(),
        (total.polls + total.missed_gets) as f64,
    ]
}

/// Compares counts of representatives with those of everyone, and returns how far figures are off.
fn compare(setting: &(&str, Fidelity, Value), workers: usize, profile: &Profile<f64>) -> [f64; 4] {
    let simulation = of(setting, workers, profile);
    let all = simulated(&simulation, None);
    let some = simulated(&simulation, Some(1));
    let name = format!("{setting:?} with {workers}");
    if setting.0 == "ring" {
        // An address is that of another rank, which has other digits.
        let [exchanged, dataset, state] = counts(&all);
        let [alike, alike_dataset, alike_state] = counts(&some);
        assert_eq!((exchanged, dataset), (alike, alike_dataset), "{name}");
        let off = state.bytes_up.abs_diff(alike_state.bytes_up);
        assert!(
            off <= 2 * workers as u64,
            "{name}: {off} bytes of addresses"
        );
        let requests = |one| counts(one).map(|purpose| (purpose.messages, purpose.deliveries));
        assert_eq!(requests(&all), requests(&some), "{name}");
    } else {
        assert_eq!(counts(&all), counts(&some), "{name}");
    }
    // What a worker removes for which another one stands is removed with that one's.
    let kept = [&all, &some].map(|one| one.totals.kept.bytes);
    let is_near = (kept[0] - kept[1]).abs() <= 2.0 * workers as f64;
    assert!(is_near, "{name}: {kept:?} bytes stay");
    // A ring stores addresses alone.
    let within = if setting.0 == "ring" { 0.05 } else { 0.02 };
    let stored = [&all, &some].map(|one| one.totals.kept.byte_s(one.wall_s));
    let is_near = (stored[1] - stored[0]).abs() <= within * stored[0];
    assert!(is_near, "{name}: {stored:?} byte-seconds");
    assert_eq!(all.totals.steps, some.totals.steps, "{name}");
    assert_eq!(all.transitions, some.transitions, "{name}");
    assert_eq!(invocations(&all), invocations(&some), "{name}");
    if workers >= 64 {
        assert!(some.events < all.events, "{name}: {} events", some.events);
    }
    let (full, few) = (figures(&all), figures(&some));
    let found = from_fn(|at| match full[at] {
        0.0 => few[at],
        full => few[at] / full - 1.0,
    });
    println!(
        "{name}: {FIGURES:?} {found:.4?}; {} events of {}",
        some.events, all.events
    );
    found
}

#[test]
fn without_draws_counts_are_equal_and_times_within_two_percent() {
    compare_undrawn(&[8, 20, 64, 128]);
}

#[test]
#[ignore = "as long as all smaller ones together"]
fn without_draws_256_workers_are_within_two_percent() {
    compare_undrawn(&[256]);
}

fn compare_undrawn(sizes: &[usize]) {
    let profile = shipped("aws-us-east-1").values();
    std::thread::scope(|scope| {
        for setting in settings() {
            let profile = &profile;
            scope.spawn(move || {
                for &workers in sizes {
                    let found = compare(&setting, workers, profile);
                    for value in found {
                        assert!(value.abs() < 0.02, "{setting:?} with {workers}: {found:?}");
                    }
                }
            });
        }
    });
}

/// Figures of [`compare`] with single events drawn, one for each seed.
fn over_seeds(
    setting: &(&str, Fidelity, Value),
    workers: usize,
    classes_above: Option<usize>,
    seeds: u64,
) -> Vec<[f64; 4]> {
    let shipped = shipped("aws-us-east-1-2024");
    let of_seed = |seed| {
        let mut simulation = of(setting, workers, &shipped.drawn(seed));
        simulation.job.epochs = 1;
        figures(&simulated(&simulation, classes_above))
    };
    (0..seeds).map(of_seed).collect()
}

/// Mean of a figure over seeds, and its standard deviation.
fn spread_of(figures: &[[f64; 4]], figure: usize) -> (f64, f64) {
    let count = figures.len() as f64;
    let mean = figures.iter().map(|one| one[figure]).sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|one| (one[figure] - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0)).sqrt())
}

/// How far means by classes may be from those of the full simulation: as a share of it, and standard
/// errors; of times, and of polls. Of a few seeds, and of many.
const OF_FEW: [(f64, f64); 2] = [(0.02, 1.0), (0.5, 1.0)];
const OF_MANY: [(f64, f64); 2] = [(0.02, 0.0), (0.02, 3.0)];

/// Compares means over seeds by classes with those of the full simulation, with single events
/// drawn.
fn compare_drawn(sizes: &[(usize, u64)], [times, polls]: [(f64, f64); 2]) {
    std::thread::scope(|scope| {
        for setting in settings() {
            let Symmetry::Alike(alike) = symmetry(&setting) else {
                continue;
            };
            if !alike.drawn {
                continue;
            }
            scope.spawn(move || {
                for (workers, seeds) in sizes {
                    let all = over_seeds(&setting, *workers, None, *seeds);
                    let some = over_seeds(&setting, *workers, Some(1), *seeds);
                    let name = format!("{setting:?} with {workers}");
                    // Seed by seed: both draw the same constants.
                    let differences: Vec<[f64; 4]> = all
                        .iter()
                        .zip(&some)
                        .map(|(all, some)| from_fn(|at| some[at] - all[at]))
                        .collect();
                    for (figure, what) in FIGURES.into_iter().enumerate() {
                        let of = |figures: &[[f64; 4]]| spread_of(figures, figure);
                        let ((full, of_all), (classes, of_some)) = (of(&all), of(&some));
                        let error = of(&differences).1 / (*seeds as f64).sqrt();
                        println!(
                            "{name}: {what} {full:.2} ± {of_all:.2}, by classes {classes:.2} ± \
                             {of_some:.2}, ± {error:.2} apart",
                        );
                        let (share, errors) = if what == "polls" { polls } else { times };
                        let within = share * full + errors * error;
                        let what = format!("{name}: {what} by classes");
                        assert!(
                            (classes - full).abs() <= within,
                            "{what}: {classes} of {full}"
                        );
                    }
                }
            });
        }
    });
}

/// Where single events are drawn, a barrier waits for the slowest of all workers, of which few are
/// simulated: mean times over seeds are those of the full simulation.
#[test]
fn with_draws_means_over_seeds_are_within_two_percent() {
    compare_drawn(&[(64, 10), (128, 4)], OF_FEW);
}

/// P2P's peers wait for all others before they come to their barrier: a worker that is stood for is
/// late there by no more than the last of them, or polls of the barrier grow by a third.
#[test]
fn who_waited_for_several_others_is_late_by_the_last_of_them() {
    let profile = shipped("aws-us-east-1-2024");
    let mut counts = [0, 0];
    for seed in 0..20 {
        let setting = ("p2p", Fidelity::Paper, json!({}));
        let mut simulation = of(&setting, 128, &profile.drawn(seed));
        simulation.job.epochs = 1;
        for (counts, classes) in counts.iter_mut().zip([None, Some(1)]) {
            let waits = simulated(&simulation, classes).totals.waits;
            *counts += waits.counts.requests;
        }
    }
    let [all, classes] = counts.map(|count| count as f64);
    assert_near(classes / all, 1.0, 0.15, "polls");
}

/// Polls in vain are two or three per worker, and differ from seed to seed by a fifth or more:
/// only hundreds of seeds show whether their means differ by less than 2 %.
#[test]
#[ignore = "minutes: several hundred simulations of every worker"]
fn with_draws_polls_over_hundreds_of_seeds_are_within_two_percent() {
    compare_drawn(&[(64, 400), (128, 100), (256, 40)], OF_MANY);
}

fn symmetry(setting: &(&str, Fidelity, Value)) -> Symmetry {
    let simulation = of(setting, 64, &ideal());
    let system = find(setting.0).unwrap();
    system.bind(&simulation.job).unwrap().symmetry()
}

/// Peers of SPIRT share the server of each store and fall into convoys whose size depends on their
/// number, and a late worker of a ring delays all others: with draws, every one is simulated.
#[test]
fn with_draws_every_worker_is_simulated_where_late_ones_delay_more_than_their_readers() {
    let profile = shipped("aws-us-east-1-2024").drawn(7);
    for system in ["spirt", "ring"] {
        let simulation = of(&(system, Fidelity::Paper, json!({})), 40, &profile);
        let all = simulated(&simulation, None);
        assert_eq!(all, simulated(&simulation, Some(1)), "{system}");
    }
}

/// A system whose requests grow faster than its workers says whether they are alike.
#[test]
fn systems_of_quadratic_traffic_state_their_symmetry() {
    for system in systems() {
        let requests = |workers: usize| {
            let mut job = job(system.name(), workers, 1, json!({}));
            // KubeML's tensors are those of a known model, and its documents have 64 samples.
            let model = find_model("lenet5").unwrap();
            job.model = model.name.into();
            job.data.train_samples = 64 * workers;
            job.batch_size = 64;
            let bound = system.bind(&job).unwrap();
            let traffic = bound.traffic(model.sizes).unwrap();
            let is_stated = bound.symmetry() != Symmetry::Everyone;
            (traffic.puts + traffic.gets + traffic.messages, is_stated)
        };
        let ((few, _), (many, is_stated)) = (requests(10), requests(100));
        let name = system.name();
        assert!(
            many <= 20 * few || is_stated,
            "requests of {name} grow with W²: implement `BoundSystem::symmetry`"
        );
    }
}

/// A worker to which something happens is like no other: every one is simulated.
#[test]
fn a_fault_of_one_worker_is_not_lost_among_representatives() {
    let profile = ideal();
    let mut one = of(&("gpu_baseline", Fidelity::Paper, json!({})), 64, &profile);
    let simulated = |one: &Simulation| simulated_workers(one, 16).unwrap();
    assert!(simulated(&one) < 64);
    let whole: Vec<bool> = (0..64)
        .map(|rank| {
            one.faults = vec![Fault::at_gradient(rank, 0, 0, FaultKind::Crash)];
            assert_eq!(simulated(&one), 64);
            let simulated = simulate(&one, classes(Some(16)));
            simulated.unwrap().failure.is_none()
        })
        .collect();
    assert_eq!(whole, [false; 64]);
}

/// A dataset of more objects than fit into memory is refused before they are made.
#[test]
fn more_objects_than_memory_is_meant_for_are_refused() {
    let profile = ideal();
    let mut huge = of(&("spirt", Fidelity::Paper, json!({})), 4, &profile);
    huge.job.data.train_samples = 1_000_000_000;
    let refused = simulate(&huge, Options::default()).unwrap_err();
    let is_told = matches!(refused, SimulationError::TooManyObjects { .. });
    assert!(is_told, "{refused}");
}

/// As many steps as take minutes and gigabytes are refused before the first.
#[test]
fn more_steps_than_memory_is_meant_for_are_refused() {
    let profile = ideal();
    let small = of(&("allreduce", Fidelity::Paper, json!({})), 4, &profile);
    for (keeps_steps, epochs, batches) in [
        (false, 1, 1_000_001),
        (false, 1_000_001, 1),
        (true, 1, 125_001),
        (false, usize::MAX, usize::MAX),
    ] {
        let mut huge = small.clone();
        huge.job.epochs = epochs;
        huge.job.batches_per_worker = batches;
        let options = Options {
            keeps_steps,
            ..Options::default()
        };
        let refused = simulate(&huge, options).unwrap_err();
        let is_told = matches!(
            refused,
            SimulationError::TooManySteps { .. } | SimulationError::TooLong { .. }
        );
        assert!(is_told && refused.is_too_much(), "{refused}");
    }
}

/// Too many workers that are not alike are refused, with the setting that can be simulated.
#[test]
fn workers_that_are_not_alike_are_refused_above_a_bound() {
    let profile = ideal();
    let with = |settings| {
        of(
            &("scatterreduce", Fidelity::Paper, settings),
            5_000,
            &profile,
        )
    };
    let refused = simulate(&with(json!({})), classes(Some(256))).unwrap_err();
    let is_told = matches!(refused, SimulationError::TooMany { .. });
    assert!(
        is_told && refused.to_string().contains("finds_by: name"),
        "{refused}"
    );
    let named = with(json!({"finds_by": "name"}));
    let simulated = simulate(&named, classes(Some(256))).unwrap();
    assert_eq!(exchanged(&simulated), closed_form(&named));
}
