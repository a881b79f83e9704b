//! Peers that SPIRT goes on without, and that join it. The simulator's tests end one at every place.

use async_trait::async_trait;
use epochcost_systems::testing::{Failures, Trial};
use epochcost_systems::{DriveError, Fidelity, Job, StepRecord, Task, find};
use serde_json::{Value, json};

use crate::support::*;

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
) -> Result<Trial, DriveError> {
    let ranks = ranks.to_vec();
    run_failing(
        job,
        Killed {
            ranks,
            stage,
            epoch,
        },
    )
    .await
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
    let clipping = json!({"robust": "centred_clipping", "f": 1, "clipping_radius": 0.5});
    let signed = json!({"signatures": "end", "gradient_format": "json"});
    for (workers, peers, further) in [
        (2, 1, json!({})),
        (6, 3, json!({})),
        (6, 5, json!({"update": "fetch"})),
        (5, 2, json!({"averaging": "on_arrival"})),
        (5, 2, clipping),
        (4, 1, signed),
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
        let is_told = joined.eq(vec![1; peers]) && warnings.len() == peers;
        assert!(is_told, "{case}: {warnings:?}");
        if find("spirt").unwrap().bind(&job).unwrap().states_bytes() {
            assert_eq!(form_of(&job, &trial), closed_form(&job), "{case}");
            assert_closed_form(&trial, &job, &case);
        }
        let mut early = trial.steps().into_iter();
        let is_later = |step: &StepRecord| step.epoch >= EPOCH || step.batch.is_none();
        assert!(
            early.all(|step| is_later(step) || step.rank < workers - peers),
            "{case}"
        );
    }
}

/// All of three that join at once, and the peer that calls them: who is left trains on.
#[tokio::test]
async fn who_dies_on_joining_stops_nobody() {
    let job = &joining(6, 3, json!({}));
    // Behind their first barrier three of six are half of the members, and no minority.
    let deaths = ["authenticate", "compute_gradients", "average_gradients"]
        .map(|stage| (stage, &[3, 4, 5][..], EPOCH))
        .into_iter()
        .chain([("trigger_next", &[0][..], EPOCH - 1)]);
    for (stage, ranks, epoch) in deaths {
        let case = format!("{stage} of {ranks:?}");
        let trial = run_killing(job, ranks, stage, epoch).await;
        let trial = trial.unwrap_or_else(|error| panic!("{case}: {error}"));
        // Nobody else calls those that a dead caller did not.
        let expected = if ranks == [0] {
            vec![1, 2]
        } else {
            vec![0, 1, 2]
        };
        assert_eq!(living(&trial, job, &case), expected, "{case}");
        assert_closed_form(&trial, job, &case);
    }
    // Those that a dead caller did not call are called an epoch later, as all that are voted out.
    let job = &joining(6, 3, json!({"rejoin": true}));
    let trial = run_killing(job, &[0], "trigger_next", EPOCH - 1).await;
    assert_eq!(living(&trial.unwrap(), job, "rejoin").len(), 6);
}

#[test]
fn peers_that_cannot_join_are_refused() {
    // Of four peers and three epochs.
    for (peers, epoch) in [(0, 1), (4, 1), (1, 0), (1, 3)] {
        let mut job = joining(4, 1, json!({}));
        job.settings["joins"] = json!({"peers": peers, "epoch": epoch});
        holds(refusal(&job), &["joins", "1 to 3"]);
    }
    let mut job = joining(4, 1, json!({}));
    job.settings["membership"] = json!(false);
    holds(refusal(&job), &["membership: true"]);
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
    let trial = run_failing(&job, Dead).await.unwrap();
    assert_eq!(living(&trial, &job, "dead"), [0, 1, 3]);
    assert_eq!(warnings(&trial).len(), job.epochs - EPOCH);
}

#[tokio::test]
async fn half_of_the_peers_are_no_majority() {
    let job = surviving(4);
    let trial = run_killing(&job, &[1, 3], "compute_gradients", EPOCH).await;
    assert!(trial.is_err());
    // Of five, three go on without two.
    let job = surviving(5);
    let trial = run_killing(&job, &[0, 3], "average_gradients", EPOCH).await;
    assert_eq!(living(&trial.unwrap(), &job, "two of five").len(), 3);
}
