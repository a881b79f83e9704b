//! SPIRT goes on without a peer that fails, or fails as published.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_systems::testing::{self, Failures, Trial};
use epochcost_systems::{Fidelity, Job, Task, find};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{
    are_same, closed_form, form_of, job_of, overrides, refusal, run, sgd, warnings,
};

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

fn job(workers: usize, mut settings: Value) -> Job {
    settings["poll_interval_ms"] = json!(1);
    job_of("spirt", Fidelity::Paper, workers, settings)
}

fn surviving(workers: usize) -> Job {
    job(
        workers,
        json!({"membership": true, "heartbeat_timeout_ms": 1500}),
    )
}

/// Runs a job of which peers are killed.
async fn run_killing(
    job: &Job,
    ranks: &[usize],
    stage: &'static str,
    epoch: usize,
) -> Result<Trial, String> {
    let killed = Arc::new(Killed {
        ranks: ranks.to_vec(),
        stage,
        epoch,
    });
    let trial = testing::run_failing(job, testing::compute, killed).await;
    trial.map_err(|error| error.to_string())
}

/// Kills every peer at every stage, each in a trial of its own.
async fn each_killed(job: &Job, check: impl Fn(&Trial, usize, &str)) {
    // Two stages at a time: all at once would keep one thread from answering in time.
    for stages in STAGES.chunks(2) {
        let killings = stages
            .iter()
            .flat_map(|stage| (0..job.workers).map(move |rank| (*stage, rank)));
        let trials = killings.map(|(stage, rank)| async move {
            let trial = run_killing(job, &[rank], stage, EPOCH).await;
            (rank, format!("{stage} of {rank}"), trial)
        });
        for (rank, case, trial) in join_all(trials).await {
            let trial = trial.unwrap_or_else(|error| panic!("{case}: {error}"));
            check(&trial, rank, &case);
        }
    }
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

/// Returns the peers that end training, all with one model.
fn living(trial: &Trial, job: &Job, case: &str) -> Vec<usize> {
    let (living, digests): (Vec<_>, Vec<_>) = ends(trial, job).into_iter().unzip();
    assert!(are_same(&digests), "{case}: {digests:?}");
    living
}

fn assert_closed_form(trial: &Trial, job: &Job, case: &str) {
    assert_eq!(trial.exchange(), form_of(job, trial), "{case}");
}

#[tokio::test]
async fn nobody_is_voted_out_where_nobody_fails() {
    for workers in [1, 2, 5] {
        let member = surviving(workers);
        let trial = run(&member).await;
        let other = job(workers, json!({}));
        assert_eq!(ends(&trial, &member), ends(&run(&other).await, &other));
        assert!(warnings(&trial).is_empty());
        assert_eq!(closed_form(&member), form_of(&member, &trial));
        assert_closed_form(&trial, &member, "");
    }
}

/// Any peer of 8, at any stage: training ends, the living are identical, the record says who
/// is lost, and traffic has its closed form.
#[tokio::test]
async fn training_goes_on_without_any_one_peer() {
    let job = &surviving(8);
    each_killed(job, |trial, rank, case| {
        let expected: Vec<usize> = (0..8).filter(|other| *other != rank).collect();
        assert_eq!(living(trial, job, case), expected, "{case}");
        let warnings = warnings(trial);
        assert_eq!(warnings.len(), 1, "{case}: {warnings:?}");
        let told = format!("no heartbeat of peers {rank}; they were voted out");
        assert!(warnings[0].contains(&told), "{warnings:?}");
        // The last epoch was evaluated by the first of the living.
        assert_eq!(trial.evaluations().last().unwrap().0, job.epochs - 1);
        assert_closed_form(trial, job, case);
    })
    .await;
}

/// A dead peer counts among those that a rule survives: 5 peers and f = 1 are 4 and 0.
#[tokio::test]
async fn rules_follow_the_members() {
    for rule in ["median", "krum", "centred_clipping"] {
        let settings = json!({
            "membership": true, "heartbeat_timeout_ms": 1000, "robust": rule, "f": 1,
        });
        let job = job(5, settings);
        let trial = run_killing(&job, &[2], "compute_gradients", EPOCH).await;
        let trial = trial.unwrap();
        assert_eq!(living(&trial, &job, rule).len(), 4, "{rule}");
        assert_closed_form(&trial, &job, rule);
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
    let job = &Job {
        epochs: 5,
        optimizer: sgd(0.1, 0.9),
        ..job(5, settings)
    };
    each_killed(job, |trial, rank, case| {
        check_return(job, trial, rank, case)
    })
    .await;
}

fn check_return(job: &Job, trial: &Trial, rank: usize, case: &str) {
    assert_eq!(living(trial, job, case), [0, 1, 2, 3, 4], "{case}");
    let (first, warnings) = (usize::from(rank == 0), warnings(trial));
    let back = format!("peer {rank} came back, with the model of peer {first}");
    let out = format!("no heartbeat of peers {rank}; they were voted out");
    assert_eq!(warnings.len(), 2, "{case}: {warnings:?}");
    assert!(warnings.iter().any(|text| text.contains(&out)));
    assert!(warnings.iter().any(|text| text.contains(&back)));
    assert_closed_form(trial, job, case);
    // The return itself: model, momentum and centre, statistics, the members twice, who came in, the
    // caller and the own heartbeat.
    let steps = trial.steps().into_iter();
    let taken = steps.filter_map(|step| {
        let state = step.traffic.state.total();
        (step.function == "authenticate" && state.bytes_up > 0).then_some((
            step.rank,
            state.bytes_up,
            state.bytes_down,
        ))
    });
    let (values, members, came_in) = (4 * (3 * 37 + 6), 4 * 5, 4 * 2);
    let up = values + members + came_in;
    let expected = (rank, up, up + members + 4 + 4);
    assert_eq!(taken.collect::<Vec<_>>(), [expected], "{case}");
}

fn joining(workers: usize, peers: usize, further: Value) -> Job {
    let mut settings = json!({
        "membership": true, "heartbeat_timeout_ms": 1500, "joins": {"peers": peers, "epoch": EPOCH},
    });
    settings.as_object_mut().unwrap().extend(overrides(further));
    Job {
        optimizer: sgd(0.1, 0.9),
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
        let trial = run(&job).await;
        let case = format!("{workers} {peers} {}", job.settings);
        assert_eq!(living(&trial, &job, &case).len(), workers, "{case}");
        let warnings = warnings(&trial);
        let joined = (workers - peers..workers).map(|rank| {
            let told = format!("epoch {EPOCH}: peer {rank} joined, with the model of peer 0");
            warnings.iter().filter(|text| **text == told).count()
        });
        assert!(
            joined.eq(vec![1; peers]) && warnings.len() == peers,
            "{case}: {warnings:?}"
        );
        let steps = trial.steps();
        if find("spirt").unwrap().bind(&job).unwrap().states_bytes() {
            assert_eq!(form_of(&job, &trial), closed_form(&job), "{case}");
            assert_closed_form(&trial, &job, &case);
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
            (stage, ranks, run_killing(job, ranks, stage, *epoch).await)
        });
        for (stage, ranks, trial) in join_all(trials).await {
            let case = format!("{stage} of {ranks:?}");
            let trial = trial.unwrap_or_else(|error| panic!("{case}: {error}"));
            // Nobody else calls those that a dead caller did not.
            let lost = |rank: &usize| ranks.contains(rank) || (ranks[0] == 0 && *rank > 2);
            let expected: Vec<usize> = (0..6).filter(|rank| !lost(rank)).collect();
            assert_eq!(living(&trial, job, &case), expected, "{case}");
            assert_closed_form(&trial, job, &case);
        }
    }
    // Those that a dead caller did not call are called an epoch later, as all that are voted out.
    let job = &joining(6, 3, json!({"rejoin": true}));
    let trial = run_killing(job, &[0], "trigger_next", EPOCH - 1).await;
    assert_eq!(living(&trial.unwrap(), job, "rejoin").len(), 6);
}

#[test]
fn peers_that_cannot_join_are_refused() {
    for (joins, epochs) in [((0, 1), 3), ((4, 1), 3), ((1, 0), 3), ((1, 3), 3)] {
        let mut job = joining(4, 1, json!({}));
        job.epochs = epochs;
        job.settings["joins"] = json!({"peers": joins.0, "epoch": joins.1});
        let refused = refusal(&job);
        assert!(
            refused.contains("joins") && refused.contains("1 to 3"),
            "{refused}"
        );
    }
    let mut job = joining(4, 1, json!({}));
    job.settings["membership"] = json!(false);
    let refused = refusal(&job);
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
    assert_eq!(living(&trial, &job, "dead"), [0, 1, 3]);
    assert_eq!(warnings(&trial).len(), job.epochs - EPOCH);
}

#[tokio::test]
async fn half_of_the_peers_are_no_majority() {
    let job = surviving(4);
    let trial = run_killing(&job, &[1, 3], "compute_gradients", EPOCH).await;
    assert!(!trial.err().unwrap().is_empty());
    // Of five, three go on without two.
    let job = surviving(5);
    let trial = run_killing(&job, &[0, 3], "average_gradients", EPOCH).await;
    assert_eq!(living(&trial.unwrap(), &job, "two of five").len(), 3);
}

#[tokio::test]
async fn as_published_a_failed_peer_ends_the_trial() {
    let job = job(4, json!({}));
    for stage in STAGES {
        let trial = run_killing(&job, &[2], stage, EPOCH);
        let trial = tokio::time::timeout(Duration::from_secs(20), trial).await;
        let error = trial.unwrap().err().unwrap();
        assert!(
            error.contains(&format!("{stage} of worker 2 failed")),
            "{error}"
        );
    }
}
