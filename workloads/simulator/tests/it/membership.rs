//! SPIRT without any one of eight peers, whose process ends before any stage that any of its
//! functions enters.

use std::collections::BTreeSet;

use epochcost_channels::Traffic;
use epochcost_kernels::hash;
use epochcost_simulator::{Simulated, Simulation};
use epochcost_systems::testing;
use epochcost_systems::{Fault, FaultKind, Fidelity, Job, Record, Stage, StepRecord, find};
use serde_json::{Value, json};

use crate::support::{self, cost, ideal, overrides, simulation, steps};

const WORKERS: usize = 8;
/// The epoch in which peers are killed, neither the first nor the last.
const EPOCH: usize = 1;

fn job(settings: Value) -> Job {
    testing::job("spirt", Fidelity::Paper, WORKERS, &overrides(settings)).unwrap()
}

fn members() -> Job {
    job(json!({"membership": true, "heartbeat_timeout_ms": 5000}))
}

fn trained(job: &Job, faults: Vec<Fault>) -> Simulated {
    support::trained(&Simulation {
        sizes: testing::SIZES,
        cost: cost(1.0),
        faults,
        ..simulation(job.clone(), testing::SIZES.parameters, &ideal(), 1.0)
    })
}

/// Every entry of a stage in [`EPOCH`], and every gradient, once as a fault of `kind`.
fn everywhere(kind: FaultKind) -> Vec<Fault> {
    let mut faults = Vec::new();
    for function in find("spirt").unwrap().deployment().functions {
        for stage in [None].into_iter().chain(Stage::ALL.map(Some)) {
            for rank in 0..WORKERS {
                faults.extend((0..3).map(|batch| Fault {
                    stage,
                    function: Some(function.name.into()),
                    ..Fault::at_gradient(rank, EPOCH, batch, kind)
                }));
            }
        }
    }
    faults
}

/// Faults that end a peer's process at each place to which it comes.
fn deaths() -> Vec<Fault> {
    let late_by_nothing = trained(&members(), everywhere(FaultKind::StragglerMs(0)));
    assert_eq!(late_by_nothing.failure, None);
    let records = late_by_nothing.records.iter();
    let reached = records.filter_map(|record| match record {
        Record::Fault { fault, .. } => Some(*fault),
        _ => None,
    });
    let reached: BTreeSet<usize> = reached.collect();
    let deaths = everywhere(FaultKind::Crash).into_iter().enumerate();
    let deaths = deaths.filter(|(number, _)| reached.contains(number));
    deaths.map(|(_, fault)| fault).collect()
}

/// Returns the ranks of those that end a training, all with one model, and whose traffic has its
/// closed form with the members of each round.
fn living(ended: &Simulated, job: &Job, case: &str) -> Vec<usize> {
    assert_eq!(ended.failure, None, "{case}");
    let steps: Vec<&StepRecord> = steps(ended).collect();
    let last = steps.iter().filter(|step| step.epoch + 1 == job.epochs);
    let mut ends: Vec<_> = last
        .filter_map(|step| Some((step.rank, step.parameters_digest.clone()?)))
        .collect();
    ends.sort();
    let is_one = ends.iter().all(|end| end.1 == ends[0].1);
    assert!(is_one, "{case}: {ends:?}");
    let bound = find("spirt").unwrap().bind(job).unwrap();
    let mut exchanged = Traffic::default();
    for step in &steps {
        exchanged += step.traffic.exchange.total();
    }
    let form = bound.traffic_of(testing::SIZES, &steps).unwrap();
    assert_eq!(exchanged.untimed(), form, "{case}");
    ends.into_iter().map(|(rank, _)| rank).collect()
}

fn deaths_of_last() -> impl Iterator<Item = Fault> {
    let deaths = deaths().into_iter();
    deaths.filter(|death| death.rank == WORKERS - 1)
}

fn warnings(simulated: &Simulated) -> Vec<&str> {
    let texts = simulated.records.iter().filter_map(|record| match record {
        Record::Warning { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[test]
fn training_goes_on_without_any_one_peer_wherever_it_ends() {
    let job = members();
    let deaths = deaths();
    // Eight functions, most with several stages.
    let places: BTreeSet<_> = deaths
        .iter()
        .map(|fault| (fault.function.clone(), fault.stage, fault.batch))
        .collect();
    assert!(places.len() > 20, "{} places", places.len());
    assert_eq!(deaths.len(), WORKERS * places.len());
    for death in deaths {
        let rank = death.rank;
        let case = format!("{death:?}");
        let ended = trained(&job, vec![death]);
        let others: Vec<usize> = (0..WORKERS).filter(|other| *other != rank).collect();
        assert_eq!(living(&ended, &job, &case), others, "{case}");
        let told = format!("no heartbeat of peers {rank}; they were voted out");
        let warnings = warnings(&ended);
        let is_told = warnings.len() == 1 && warnings[0].contains(&told);
        assert!(is_told, "{case}: {warnings:?}");
        // The last epoch was evaluated by the first of the living.
        let evaluated = ended.records.iter().filter_map(|record| match record {
            Record::Evaluated { epoch, .. } => Some(*epoch),
            _ => None,
        });
        assert_eq!(evaluated.max(), Some(job.epochs - 1), "{case}");
    }
}

/// With every state that a model and its rule have.
#[test]
fn a_peer_that_ends_anywhere_comes_back_with_the_model_of_the_others() {
    let settings = json!({
        "membership": true, "rejoin": true, "heartbeat_timeout_ms": 5000,
        "robust": "centred_clipping", "f": 1, "clipping_radius": 0.5,
    });
    let momentum = json!({"sgd": {"learning_rate": 0.1, "momentum": 0.9}});
    let job = Job {
        epochs: 5,
        optimizer: serde_json::from_value(momentum).unwrap(),
        ..job(settings)
    };
    // The return itself: model, momentum and centre, statistics, the members twice, who came in, the
    // caller and the own heartbeat.
    let (values, members, came_in) = (4 * (3 * 37 + 6), 4 * WORKERS as u64, 4 * 2);
    let up = values + members + came_in;
    let down = up + members + 4 + 4;
    for death in deaths() {
        let (rank, case) = (death.rank, format!("{death:?}"));
        let ended = trained(&job, vec![death]);
        assert_eq!(living(&ended, &job, &case).len(), WORKERS, "{case}");
        let (first, warnings) = (usize::from(rank == 0), warnings(&ended));
        let out = format!("no heartbeat of peers {rank}; they were voted out");
        let back = format!("peer {rank} came back, with the model of peer {first}");
        let is_told = warnings.len() == 2 && warnings[0].contains(&out);
        assert!(
            is_told && warnings[1].contains(&back),
            "{case}: {warnings:?}"
        );
        let returned = steps(&ended).filter_map(|step| {
            let state = step.traffic.state.total();
            (step.function == "authenticate" && state.bytes_up > 0).then_some((
                step.rank,
                state.bytes_up,
                state.bytes_down,
            ))
        });
        assert!(returned.eq([(rank, up, down)]), "{case}");
    }
}

fn joining(further: Value) -> Job {
    let mut settings = json!({
        "membership": true, "heartbeat_timeout_ms": 5000, "joins": {"peers": 5, "epoch": EPOCH},
    });
    settings.as_object_mut().unwrap().extend(overrides(further));
    job(settings)
}

/// Five peers join three; the last of them ends wherever it comes to.
#[test]
fn a_peer_that_ends_anywhere_while_it_joins_stops_nobody() {
    let job = joining(json!({}));
    let told = format!("no heartbeat of peers {}; they were voted out", WORKERS - 1);
    for death in deaths_of_last() {
        let case = format!("{death:?}");
        let ended = trained(&job, vec![death]);
        let living = living(&ended, &job, &case);
        assert!(living.into_iter().eq(0..WORKERS - 1), "{case}");
        let warnings = warnings(&ended);
        let joined = warnings.iter().filter(|text| text.contains(" joined, "));
        assert!((4..=5).contains(&joined.count()), "{case}: {warnings:?}");
        let is_told = warnings.iter().any(|text| text.contains(&told));
        assert!(is_told, "{case}: {warnings:?}");
    }
}

/// Drawn numbers of peers, epochs of joining, and deaths of a minority of those from the start and of
/// any that join: who is left has one model, and traffic its closed form.
#[test]
fn drawn_schedules_of_joins_deaths_and_returns_end_with_one_model() {
    let places = everywhere(FaultKind::Crash);
    for seed in 0..60 {
        let draw = |stream: u64, below: usize| (hash::mix(seed, stream) % below as u64) as usize;
        let first = 3 + draw(0, 3);
        let mut job = joining(json!({"rejoin": draw(1, 2) == 0}));
        job.epochs = 6;
        job.settings["joins"] = json!({"peers": WORKERS - first, "epoch": 1 + draw(2, 4)});
        let mut deaths: Vec<Fault> = Vec::new();
        let mut of_first = 0;
        for stream in 3..6 {
            let mut death = places[draw(stream, places.len())].clone();
            death.epoch = draw(stream + 10, job.epochs);
            let is_first = death.rank < first;
            if is_first && of_first == (first - 1) / 2 {
                continue;
            }
            of_first += usize::from(is_first);
            deaths.push(death);
        }
        let case = format!(
            "seed {seed}: {first} first, {} {deaths:?}",
            job.settings["joins"]
        );
        let ended = trained(&job, deaths.clone());
        let living = living(&ended, &job, &case);
        let stays = |rank: &usize| deaths.iter().all(|death| death.rank != *rank);
        for rank in (0..first).filter(stays) {
            assert!(living.contains(&rank), "{case}: {living:?}");
        }
    }
}

#[test]
fn as_published_a_peer_that_ends_anywhere_ends_the_trial() {
    let job = job(json!({}));
    for death in deaths_of_last() {
        let case = format!("{death:?}");
        let function = death.function.clone().unwrap();
        let told = format!("{function} of worker {} failed", WORKERS - 1);
        let failure = trained(&job, vec![death]).failure.unwrap_or_default();
        let is_told = failure.contains("injected fault: crash") && failure.contains(&told);
        assert!(is_told, "{case}: {failure}");
    }
}
