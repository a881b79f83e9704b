//! Injected faults in virtual time.

use std::collections::BTreeSet;

use epochcost_simulator::{Simulated, Simulation};
use epochcost_systems::{
    Breakdown, BrokenServer, Fault, FaultKind, Record, Server, Stage, StepRecord, systems,
};
use serde_json::{Value, json};

use crate::support::*;

/// What comes of two mini-batches of a second each, with `faults`.
fn with(system: &str, workers: usize, settings: Value, faults: Vec<Fault>) -> Simulated {
    let job = job(system, workers, 2, settings);
    let simulation = Simulation {
        faults,
        ..simulation(job, 1_000, &ideal(), 1.0)
    };
    kept(&simulation)
}

/// What comes of two workers, or of one machine, with `fault`.
fn faulty(system: &str, fault: Option<Fault>) -> Simulated {
    let workers = if system == "mirrored" { 1 } else { 2 };
    let settings = match system {
        "kubeml" => json!({"document_samples": 2}),
        _ => json!({}),
    };
    with(system, workers, settings, fault.into_iter().collect())
}

fn happened(simulated: &Simulated) -> usize {
    let is_fault = |record: &&Record| matches!(record, Record::Fault { .. });
    simulated.records.iter().filter(is_fault).count()
}

fn names() -> impl Iterator<Item = &'static str> {
    systems().iter().map(|system| system.name())
}

fn at(kind: FaultKind) -> Fault {
    Fault::at_gradient(0, 0, 0, kind)
}

#[test]
fn a_fault_that_is_never_reached_changes_nothing() {
    for system in names() {
        let never = Fault {
            epoch: 7,
            ..at(FaultKind::Crash)
        };
        let without = faulty(system, None);
        let with = faulty(system, Some(never));
        assert_eq!(without.failure, None, "{system}");
        assert_eq!(without, with, "{system}");
    }
}

#[test]
fn a_process_that_ends_ends_the_trial_unless_the_system_goes_on() {
    let kinds = [
        (FaultKind::Crash, "injected fault: crash"),
        (FaultKind::OutOfMemory, "injected fault: lack of memory"),
        (FaultKind::Error, "injected fault: error"),
    ];
    for system in names() {
        for (kind, reason) in kinds {
            let ended = faulty(system, Some(at(kind)));
            assert!(happened(&ended) > 0, "{system}: {kind:?}");
            if system == "kubeml" {
                // The other function's gradient is its epoch.
                assert_eq!(ended.failure, None, "{kind:?}");
                continue;
            }
            let failure = ended.failure.unwrap_or_default();
            assert!(failure.contains(reason), "{system}: {kind:?}: {failure}");
        }
    }
}

/// Some wait for a peer no longer than a minute, the others as long as the platform lets them.
#[test]
fn a_process_that_hangs_is_ended_by_its_time_out() {
    for system in names() {
        let ended = faulty(system, Some(at(FaultKind::Hang)));
        assert!(happened(&ended) > 0, "{system}");
        assert!(ended.wall_s >= 60.0, "{system}: {} s", ended.wall_s);
        if system == "kubeml" {
            assert_eq!(ended.failure, None);
            continue;
        }
        let failure = ended.failure.unwrap_or_default();
        let has_waited = ended.wall_s >= 900.0;
        let said =
            failure.contains("timed out after 900") || failure.contains("did not end within");
        assert_eq!(said, has_waited, "{system}: {failure}");
        assert!(!failure.is_empty(), "{system}");
    }
}

/// Workers that wait for each other are as late as the latest of them: before the gradient
/// and before any stage that all of them enter, as often as they enter it.
#[test]
fn a_late_worker_delays_the_trial_by_what_it_is_late() {
    let late = FaultKind::StragglerMs(5_000);
    for system in ["allreduce", "scatterreduce", "gpu_baseline", "ring"] {
        let without = faulty(system, None);
        let stages = [
            Stage::FetchDataset,
            Stage::ComputeGradients,
            Stage::UpdateModel,
        ];
        for stage in [None].into_iter().chain(stages.map(Some)) {
            let fault = Fault { stage, ..at(late) };
            let ended = faulty(system, Some(fault));
            assert_eq!(ended.failure, None, "{system}");
            let late_s = 5.0 * happened(&ended) as f64;
            assert!(late_s > 0.0, "{system} at {stage:?}");
            let delay_s = ended.wall_s - without.wall_s;
            assert_near(delay_s, late_s, 0.1, &format!("{system} at {stage:?}"));
        }
    }
}

/// Nothing of the stage reaches the services before the fault.
#[test]
fn a_process_that_ends_before_a_put_puts_nothing() {
    for system in ["allreduce", "scatterreduce"] {
        let fault = Fault {
            stage: Some(Stage::Put),
            ..at(FaultKind::Crash)
        };
        let ended = faulty(system, Some(fault));
        assert_eq!(happened(&ended), 1, "{system}");
        assert!(ended.failure.is_some(), "{system}");
        // Its step never ended.
        assert!(steps(&ended).all(|step| step.rank != 0), "{system}");
    }
}

/// The server that a system needs in every step; none where workers talk to each other alone.
fn needed(system: &str) -> Option<Server> {
    match system {
        "spirt" | "kubeml" => Some(Server::TensorStore),
        "p2p" | "p2p_lambda" => Some(Server::Queue),
        "mirrored" | "ring" => None,
        _ => Some(Server::ObjectStore),
    }
}

/// What comes of every system whose server breaks down.
fn broken(does: Breakdown) -> impl Iterator<Item = (&'static str, Server, Simulated)> {
    names().filter_map(move |system| {
        let which = needed(system)?;
        let ended = faulty(
            system,
            Some(at(FaultKind::Server(BrokenServer { which, does }))),
        );
        assert!(happened(&ended) > 0, "{system}: {does}");
        Some((system, which, ended))
    })
}

#[test]
fn a_dead_server_ends_a_trial_and_a_silent_one_keeps_it_until_its_time_out() {
    for (does, least_s) in [(Breakdown::Dies, 0.0), (Breakdown::Hangs, 900.0)] {
        for (system, _, ended) in broken(does) {
            assert!(
                !ended.failure.unwrap_or_default().is_empty(),
                "{system}: {does}"
            );
            assert!(ended.wall_s >= least_s, "{system}: {} s", ended.wall_s);
        }
    }
}

/// Where workers share a store, the fault of any rank is one of that store.
#[test]
fn the_only_tensor_store_dies_whoever_meets_the_fault() {
    let kind = FaultKind::Server(BrokenServer {
        which: Server::TensorStore,
        does: Breakdown::Dies,
    });
    for (system, settings) in [
        ("kubeml", json!({"document_samples": 2})),
        ("allreduce", json!({"over": "tensors"})),
        ("scatterreduce", json!({"over": "tensors"})),
    ] {
        for rank in 0..2 {
            let fault = Fault::at_gradient(rank, 0, 0, kind);
            let ended = with(system, 2, settings.clone(), vec![fault]);
            assert!(happened(&ended) > 0, "{system}: rank {rank}");
            // KubeML goes on without the functions that failed, and says so.
            let calls = &ended.invocations;
            let is_told = ended.failure.is_some() || calls.iter().any(|call| call.error.is_some());
            assert!(is_told, "{system}: rank {rank}");
        }
    }
}

/// A restart ends connections, however short it is: over HTTP a client opens another, and those of
/// tensor stores and queues do not, as on this machine.
#[test]
fn a_restart_ends_the_workers_that_were_connected() {
    let slow = broken(Breakdown::SlowByMs(0));
    for ((system, which, back), (_, _, slow)) in broken(Breakdown::RestartsAfterMs(0)).zip(slow) {
        if which == Server::ObjectStore {
            assert_eq!(slow, back, "{system}");
        } else {
            assert!(back.failure.is_some(), "{system}");
        }
    }
}

#[test]
fn a_server_that_is_slow_loses_nothing() {
    const NANOSECONDS: f64 = 1e-7;
    let of = |late_ms| broken(Breakdown::SlowByMs(late_ms));
    for ((one, more), most) in of(0).zip(of(50)).zip(of(500)) {
        let (system, walls_s) = (one.0, [&one, &more, &most].map(|(.., slow)| slow.wall_s));
        for (.., slow) in [&one, &more, &most] {
            assert_eq!(slow.failure, None, "{system}");
        }
        // A queue that is asked again and again may hide what is shorter than its pauses, but
        // for the nanoseconds by which events of one time are told apart.
        let is_later = |pair: &[f64]| pair[1] >= pair[0] - NANOSECONDS;
        assert!(walls_s.windows(2).all(is_later), "{system}: {walls_s:?}");
        assert!(walls_s[2] > walls_s[0], "{system}: {walls_s:?}");
    }
}

/// Queues deliver at least once: a message that comes again counts once.
#[test]
fn a_message_that_comes_twice_changes_nothing() {
    let rows = [
        ("allreduce", json!({"over": "tensors"})),
        ("scatterreduce", json!({"over": "tensors"})),
        ("mlless", json!({})),
        ("mlless", json!({"slack": 1})),
        ("spirt", json!({"barrier_by": "push"})),
        ("kubeml", json!({"document_samples": 2})),
        ("p2p", json!({"barrier": "none"})),
        ("p2p_lambda", json!({})),
    ];
    for (system, settings) in rows {
        let with = |faults| with(system, 3, settings.clone(), faults);
        let places = |ended: &Simulated| {
            let place = |s: &StepRecord| (s.function.clone(), s.rank, s.epoch, s.batch);
            steps(ended).map(place).collect::<BTreeSet<_>>()
        };
        let without = places(&with(Vec::new()));
        let mut met = 0;
        // SPIRT sends in another function than that of its gradient.
        let of = |stage| [0, 1, 2].map(|rank| (rank, stage));
        for (rank, stage) in of(None).into_iter().chain(of(Some(Stage::Wait))) {
            let doubled = Fault {
                stage,
                ..Fault::at_gradient(rank, 0, 0, FaultKind::DoublesMessage)
            };
            // Whose place another's message must not take.
            let late = Fault::at_gradient((rank + 1) % 3, 0, 0, FaultKind::StragglerMs(5_000));
            let ended = with(vec![doubled, late]);
            assert_eq!(ended.failure, None, "{system} {settings}, worker {rank}");
            assert_eq!(places(&ended), without, "{system} {settings}");
            met += happened(&ended);
        }
        assert!(met > 6, "{system} {settings}: {met}");
    }
}
