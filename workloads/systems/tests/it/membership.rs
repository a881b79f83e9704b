//! SPIRT goes on without a peer that fails, or fails as published.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_kernels::optimizer::{OptimizerSpec, Sgd};
use epochcost_systems::testing::{self, Failures, Trial};
use epochcost_systems::{Fidelity, Job, Record, Task, find};
use futures_util::future::join_all;
use serde_json::{Map, Value, json};

const STAGES: [&str; 8] = [
    "authenticate",
    "compute_gradients",
    "average_gradients",
    "check_heartbeat",
    "aggregate_gradients",
    "update_model",
    "check_convergence",
    "trigger_next",
];

/// The epoch in which peers are killed, or join.
const EPOCH: usize = 1;

/// Kills the functions of some peers, at their start, in one stage of an epoch.
struct Killed {
    ranks: Vec<usize>,
    stage: &'static str,
    epoch: usize,
}

#[async_trait]
impl Failures for Killed {
    async fn killed(&self, task: &Task) {
        let is_it = task.function == self.stage && task.epoch == self.epoch;
        if !(is_it && self.ranks.contains(&task.rank)) {
            std::future::pending::<()>().await;
        }
    }
}

fn job(workers: usize, settings: Value) -> Job {
    let mut settings: Map<String, Value> = serde_json::from_value(settings).unwrap();
    settings.insert("poll_interval_ms".into(), json!(1));
    testing::job("spirt", Fidelity::Paper, workers, &settings).unwrap()
}

fn surviving(workers: usize) -> Job {
    job(
        workers,
        json!({"membership": true, "heartbeat_timeout_ms": 1500}),
    )
}

async fn run(job: &Job, ranks: &[usize], stage: &'static str) -> Result<Trial, String> {
    run_in(job, ranks, stage, EPOCH).await
}

async fn run_in(
    job: &Job,
    ranks: &[usize],
    stage: &'static str,
    epoch: usize,
) -> Result<Trial, String> {
    let ranks = ranks.to_vec();
    let killed = Arc::new(Killed {
        ranks,
        stage,
        epoch,
    });
    let trial = testing::run_failing(job, testing::compute, killed).await;
    trial.map_err(|error| error.to_string())
}

/// Ranks and digests after the last epoch.
fn ends(trial: &Trial, job: &Job) -> Vec<(usize, String)> {
    let steps = trial.steps();
    let last = steps.iter().filter(|step| step.epoch + 1 == job.epochs);
    let mut ends: Vec<_> = last
        .filter_map(|step| Some((step.rank, step.parameters_digest.clone()?)))
        .collect();
    ends.sort();
    ends
}

fn warnings(trial: &Trial) -> Vec<String> {
    let text = |record: &Record| match record {
        Record::Warning { text, .. } => Some(text.clone()),
        _ => None,
    };
    trial.records.iter().filter_map(text).collect()
}

#[tokio::test]
async fn nobody_is_voted_out_where_nobody_fails() {
    for workers in [1, 2, 5] {
        let member = surviving(workers);
        let trial = testing::run(&member).await.unwrap();
        let other = job(workers, json!({}));
        let published = testing::run(&other).await.unwrap();
        assert_eq!(ends(&trial, &member), ends(&published, &other));
        assert!(warnings(&trial).is_empty());
        let bound = find("spirt").unwrap().bind(&member).unwrap();
        let form = bound.traffic(testing::SIZES).unwrap();
        assert_eq!(
            form,
            bound.traffic_of(testing::SIZES, &trial.steps()).unwrap()
        );
        assert_eq!(trial.exchange(), form);
    }
}

/// Any peer of 8, at any stage: training ends, the living are identical, the record says who
/// is lost, and traffic has its closed form.
#[tokio::test]
async fn training_goes_on_without_any_one_peer() {
    let job = &surviving(8);
    // Two stages at a time: all at once would keep one thread from answering in time.
    for stages in STAGES.chunks(2) {
        let killings = stages
            .iter()
            .flat_map(|stage| (0..8).map(move |rank| (*stage, rank)));
        let trials = killings.map(|(stage, rank)| async move {
            let trial = run(job, &[rank], stage).await;
            (stage, rank, trial)
        });
        for (stage, rank, trial) in join_all(trials).await {
            let trial = trial.unwrap_or_else(|error| panic!("{stage} of {rank}: {error}"));
            check_survival(job, &trial, stage, rank);
        }
    }
}

fn check_survival(job: &Job, trial: &Trial, stage: &str, rank: usize) {
    let ends = ends(trial, job);
    let living: Vec<usize> = ends.iter().map(|(rank, _)| *rank).collect();
    let expected: Vec<usize> = (0..8).filter(|other| *other != rank).collect();
    assert_eq!(living, expected, "{stage} of {rank}");
    assert!(
        ends.iter().all(|end| end.1 == ends[0].1),
        "{stage} of {rank}"
    );
    let warnings = warnings(trial);
    assert_eq!(warnings.len(), 1, "{stage} of {rank}: {warnings:?}");
    let told = format!("no heartbeat of peers {rank}; they were voted out");
    assert!(warnings[0].contains(&told), "{warnings:?}");
    // The last epoch was evaluated by the first of the living.
    assert_eq!(trial.evaluations().last().unwrap().0, job.epochs - 1);
    let bound = find("spirt").unwrap().bind(job).unwrap();
    let form = bound.traffic_of(testing::SIZES, &trial.steps()).unwrap();
    assert_eq!(trial.exchange(), form, "{stage} of {rank}");
}

/// A dead peer counts among those that a rule survives: 5 peers and f = 1 are 4 and 0.
#[tokio::test]
async fn rules_follow_the_members() {
    for rule in ["median", "krum", "centred_clipping"] {
        let settings = json!({
            "membership": true, "heartbeat_timeout_ms": 1000, "robust": rule, "f": 1,
        });
        let job = job(5, settings);
        let trial = run(&job, &[2], "compute_gradients").await.unwrap();
        let ends = ends(&trial, &job);
        assert_eq!(ends.len(), 4, "{rule}");
        assert!(ends.iter().all(|end| end.1 == ends[0].1), "{rule}");
        let bound = find("spirt").unwrap().bind(&job).unwrap();
        let form = bound.traffic_of(testing::SIZES, &trial.steps()).unwrap();
        assert_eq!(trial.exchange(), form, "{rule}");
    }
}

/// Any peer of 5, at any stage, with every state that a model has: it is called back, and its
/// replica is the others' from then on.
#[tokio::test]
async fn a_peer_comes_back_with_the_model_of_the_living() {
    let settings = json!({
        "membership": true, "rejoin": true, "heartbeat_timeout_ms": 1500,
        "robust": "centred_clipping", "f": 1, "clipping_radius": 0.5,
    });
    let sgd = Sgd {
        learning_rate: 0.1,
        momentum: 0.9,
        weight_decay: 0.0,
    };
    let job = &Job {
        epochs: 5,
        optimizer: OptimizerSpec::Sgd(sgd),
        ..job(5, settings)
    };
    for stages in STAGES.chunks(2) {
        let killings = stages
            .iter()
            .flat_map(|stage| (0..5).map(move |rank| (*stage, rank)));
        let trials = killings.map(|(stage, rank)| async move {
            let trial = run(job, &[rank], stage).await;
            (stage, rank, trial)
        });
        for (stage, rank, trial) in join_all(trials).await {
            let trial = trial.unwrap_or_else(|error| panic!("{stage} of {rank}: {error}"));
            check_return(job, &trial, stage, rank);
        }
    }
}

fn check_return(job: &Job, trial: &Trial, stage: &str, rank: usize) {
    let ends = ends(trial, job);
    let ranks: Vec<usize> = ends.iter().map(|(rank, _)| *rank).collect();
    assert_eq!(ranks, [0, 1, 2, 3, 4], "{stage} of {rank}");
    let same = ends.iter().all(|end| end.1 == ends[0].1);
    assert!(same, "{stage} of {rank}: {ends:?}");
    let (first, warnings) = (usize::from(rank == 0), warnings(trial));
    let back = format!("peer {rank} came back, with the model of peer {first}");
    let out = format!("no heartbeat of peers {rank}; they were voted out");
    assert_eq!(warnings.len(), 2, "{stage} of {rank}: {warnings:?}");
    assert!(warnings.iter().any(|text| text.contains(&out)));
    assert!(warnings.iter().any(|text| text.contains(&back)));
    let bound = find("spirt").unwrap().bind(job).unwrap();
    let steps = trial.steps();
    let form = bound.traffic_of(testing::SIZES, &steps).unwrap();
    assert_eq!(trial.exchange(), form, "{stage} of {rank}");
    // The return itself: model, momentum and centre, statistics, the members twice, who came in, the
    // caller and the own heartbeat.
    let taken = steps.iter().filter_map(|step| {
        let state = step.traffic.state.total();
        (step.function == "authenticate" && state.bytes_up > 0).then_some((step.rank, state))
    });
    let (values, members, came_in) = (4 * (3 * 37 + 6), 4 * 5, 4 * 2);
    let taken: Vec<_> = taken
        .map(|(rank, state)| (rank, state.bytes_up, state.bytes_down))
        .collect();
    let up = values + members + came_in;
    let expected = (rank, up, up + members + 4 + 4);
    assert_eq!(taken, [expected], "{stage} of {rank}");
}

fn joining(workers: usize, peers: usize, further: Value) -> Job {
    let mut settings = json!({
        "membership": true, "heartbeat_timeout_ms": 1500, "joins": {"peers": peers, "epoch": EPOCH},
    });
    let further: Map<String, Value> = serde_json::from_value(further).unwrap();
    settings.as_object_mut().unwrap().extend(further);
    let sgd = Sgd {
        learning_rate: 0.1,
        momentum: 0.9,
        weight_decay: 0.0,
    };
    Job {
        optimizer: OptimizerSpec::Sgd(sgd),
        ..job(workers, settings)
    }
}

/// With every state that a model and its rule have: replicas are the same from then on, and traffic is
/// the closed form of the two numbers of peers.
#[tokio::test]
async fn peers_join_with_the_model_of_the_others() {
    for (workers, peers, further) in [
        (2, 1, json!({})),
        (6, 3, json!({})),
        (6, 5, json!({"update": "fetch"})),
        (5, 2, json!({"averaging": "on_arrival"})),
        (
            5,
            2,
            json!({"robust": "centred_clipping", "f": 1, "clipping_radius": 0.5}),
        ),
        (
            4,
            1,
            json!({"signatures": "end", "gradient_format": "json"}),
        ),
    ] {
        let job = joining(workers, peers, further);
        let trial = testing::run(&job).await.unwrap();
        let case = format!("{workers} {peers} {}", job.settings);
        let ends = ends(&trial, &job);
        assert_eq!(ends.len(), workers, "{case}");
        assert!(ends.iter().all(|end| end.1 == ends[0].1), "{case}");
        let warnings = warnings(&trial);
        let joined = (workers - peers..workers).map(|rank| {
            let told = format!("epoch {EPOCH}: peer {rank} joined, with the model of peer 0");
            warnings.iter().filter(|text| **text == told).count()
        });
        assert!(
            joined.eq(vec![1; peers]) && warnings.len() == peers,
            "{case}: {warnings:?}"
        );
        let bound = find("spirt").unwrap().bind(&job).unwrap();
        let steps = trial.steps();
        let form = bound.traffic_of(testing::SIZES, &steps).unwrap();
        if bound.states_bytes() {
            assert_eq!(form, bound.traffic(testing::SIZES).unwrap(), "{case}");
            assert_eq!(trial.exchange(), form, "{case}");
        }
        let early = steps
            .iter()
            .filter(|step| step.epoch < EPOCH && step.batch.is_some());
        assert!(
            early.into_iter().all(|step| step.rank < workers - peers),
            "{case}"
        );
    }
}

/// One of three that join, all of them, and the peer that calls them, at any stage of the epoch of the
/// call and of the first one after: who is left trains on.
#[tokio::test]
async fn who_dies_on_joining_stops_nobody() {
    let job = &joining(6, 3, json!({}));
    // Behind their first barrier three of six are half of the members, and no minority.
    let own = |stage: &'static str| {
        let is_new = STAGES[..3].contains(&stage);
        let all = is_new.then_some((stage, vec![3, 4, 5], EPOCH));
        [(stage, vec![4], EPOCH)].into_iter().chain(all)
    };
    let call = [("trigger_next", vec![0], EPOCH - 1)];
    let deaths: Vec<_> = STAGES.into_iter().flat_map(own).chain(call).collect();
    for deaths in deaths.chunks(4) {
        let trials = deaths.iter().map(|(stage, ranks, epoch)| async move {
            (stage, ranks, run_in(job, ranks, stage, *epoch).await)
        });
        for (stage, ranks, trial) in join_all(trials).await {
            let trial = trial.unwrap_or_else(|error| panic!("{stage} of {ranks:?}: {error}"));
            let ends = ends(&trial, job);
            let living: Vec<usize> = ends.iter().map(|(rank, _)| *rank).collect();
            // Nobody else calls those that a dead caller did not.
            let lost = |rank: &usize| ranks.contains(rank) || (ranks[0] == 0 && *rank > 2);
            let expected: Vec<usize> = (0..6).filter(|rank| !lost(rank)).collect();
            assert_eq!(living, expected, "{stage} of {ranks:?}");
            assert!(
                ends.iter().all(|end| end.1 == ends[0].1),
                "{stage} of {ranks:?}"
            );
            let bound = find("spirt").unwrap().bind(job).unwrap();
            let form = bound.traffic_of(testing::SIZES, &trial.steps()).unwrap();
            assert_eq!(trial.exchange(), form, "{stage} of {ranks:?}");
        }
    }
    // Those that a dead caller did not call are called an epoch later, as all that are voted out.
    let job = &joining(6, 3, json!({"rejoin": true}));
    let trial = run_in(job, &[0], "trigger_next", EPOCH - 1).await.unwrap();
    let ends = ends(&trial, job);
    assert_eq!(ends.len(), 6, "{:?}", warnings(&trial));
    assert!(ends.iter().all(|end| end.1 == ends[0].1));
}

#[test]
fn peers_that_cannot_join_are_refused() {
    for (joins, epochs) in [((0, 1), 3), ((4, 1), 3), ((1, 0), 3), ((1, 3), 3)] {
        let mut job = joining(4, 1, json!({}));
        job.epochs = epochs;
        job.settings["joins"] = json!({"peers": joins.0, "epoch": joins.1});
        let refused = find("spirt").unwrap().bind(&job).err().unwrap().to_string();
        assert!(
            refused.contains("joins") && refused.contains("1 to 3"),
            "{refused}"
        );
    }
    let mut job = joining(4, 1, json!({}));
    job.settings["membership"] = json!(false);
    let refused = find("spirt").unwrap().bind(&job).err().unwrap().to_string();
    assert!(refused.contains("membership: true"), "{refused}");
}

/// Who dies whenever it is called is voted out once an epoch, and the others go on.
#[tokio::test]
async fn a_peer_that_never_comes_back_keeps_nobody() {
    struct Dead;
    #[async_trait]
    impl Failures for Dead {
        async fn killed(&self, task: &Task) {
            if task.rank != 2 || task.epoch < EPOCH {
                std::future::pending::<()>().await;
            }
        }
    }
    let job = job(
        4,
        json!({"membership": true, "rejoin": true, "heartbeat_timeout_ms": 500}),
    );
    let trial = testing::run_failing(&job, testing::compute, Arc::new(Dead)).await;
    let trial = trial.map_err(|error| error.to_string()).unwrap();
    let ends = ends(&trial, &job);
    let living: Vec<usize> = ends.iter().map(|(rank, _)| *rank).collect();
    assert_eq!(living, [0, 1, 3]);
    assert!(ends.iter().all(|end| end.1 == ends[0].1));
    assert_eq!(warnings(&trial).len(), job.epochs - EPOCH);
}

#[tokio::test]
async fn half_of_the_peers_are_no_majority() {
    let job = surviving(4);
    let error = run(&job, &[1, 3], "compute_gradients").await.err().unwrap();
    assert!(!error.is_empty());
    // Of five, three go on without two.
    let job = surviving(5);
    let trial = run(&job, &[0, 3], "average_gradients").await.unwrap();
    assert_eq!(ends(&trial, &job).len(), 3);
}

#[tokio::test]
async fn as_published_a_failed_peer_ends_the_trial() {
    let job = job(4, json!({}));
    for stage in STAGES {
        let error = run(&job, &[2], stage);
        let error = tokio::time::timeout(Duration::from_secs(20), error).await;
        let error = error.unwrap().err().unwrap();
        assert!(
            error.contains(&format!("{stage} of worker 2 failed")),
            "{error}"
        );
    }
}
