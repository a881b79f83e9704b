//! P2P and P2P with Lambda against their closed forms, one process, and
//! themselves.

use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::Traffic;
use epochcost_systems::p2p::{Compression, EPOCH_BYTES, KEY_BYTES, Method, TOKEN_BYTES};
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{
    Batch, Compute, ComputeHook, DriveError, Fidelity, HookedCompute, Job, Result, StepRecord,
    SystemError, Vector,
};
use serde_json::json;
use tokio::sync::watch;

use crate::support::{job_of as job, *};

const WORKERS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const P: u64 = 4 * testing::SIZES.parameters as u64;

fn by_epoch(trial: &Trial) -> Vec<&StepRecord> {
    let mut steps: Vec<_> = trial.steps();
    steps.retain(|step| step.function == "peer");
    steps.sort_by_key(|step| (step.epoch, step.rank));
    steps
}

/// What a peer does: begins the first gradient of an epoch, or evaluates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Begins { rank: usize, epoch: usize },
    Evaluates { rank: usize, epoch: usize },
}

/// What peers did, in order.
type Course = watch::Sender<Vec<Event>>;

fn place(course: &Course, event: Event) -> usize {
    let events = course.borrow();
    events.iter().position(|known| *known == event).unwrap()
}

/// Event that a peer waits for before a gradient of an epoch.
type Gate = fn(usize, usize) -> Option<Event>;

/// Goes on only when others have.
struct Gated {
    course: Course,
    gate: Gate,
    /// Milliseconds that a gradient takes: the published barrier needs more
    /// than the pause between two polls of it.
    milliseconds: u64,
}

impl Gated {
    fn new(course: &Course, gate: Gate) -> Self {
        Self {
            course: course.clone(),
            gate,
            milliseconds: 0,
        }
    }
}

#[async_trait]
impl ComputeHook for Gated {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        let (rank, epoch) = (batch.rank, batch.epoch);
        if batch.index == 0 {
            let begins = Event::Begins { rank, epoch };
            self.course.send_modify(|events| events.push(begins));
            if let Some(event) = (self.gate)(rank, epoch) {
                let mut course = self.course.subscribe();
                let come = course.wait_for(|events| events.contains(&event));
                let patience = Duration::from_secs(60);
                assert!(
                    tokio::time::timeout(patience, come).await.is_ok(),
                    "{event:?} never came"
                );
            }
        }
        tokio::time::sleep(Duration::from_millis(self.milliseconds)).await;
        Ok(())
    }

    fn before_evaluation(&mut self, test: &Batch) {
        let (rank, epoch) = (test.rank, test.epoch);
        let evaluates = Event::Evaluates { rank, epoch };
        self.course.send_modify(|events| events.push(evaluates));
    }
}

/// Runs a job whose peers go on when `gate` lets them.
async fn run_gated(
    job: &Job,
    model: fn() -> Box<dyn Compute>,
    gate: Gate,
) -> (Result<Trial, DriveError>, Course) {
    let course = Course::default();
    let peers = course.clone();
    let make = move || HookedCompute::boxed(Gated::new(&peers, gate), model());
    (testing::run_with(job, make).await, course)
}

#[tokio::test]
async fn synchronous_traffic_is_the_closed_form() {
    for workers in WORKERS {
        for fidelity in [Fidelity::Paper, Fidelity::Tuned] {
            for settings in [
                json!({"compression": "none"}),
                json!({"compression": "qsgd"}),
                json!({"compression": "qsgd", "qsgd_levels": 7, "qsgd_bucket": 5}),
                json!({"compression": "qsgd_published"}),
                json!({"compression": "top_k"}),
                json!({"compression": "top_k", "top_k_fraction": 0.1}),
            ] {
                let job = job("p2p", fidelity, workers, settings);
                assert_moves(&job, closed_form(&job)).await;
            }
        }
        // The paper's form, by hand: W·E·(S + T) up, W(W − 1)·E·S down.
        let (w, epochs) = (workers as u64, 3);
        let job = job("p2p", Fidelity::Paper, workers, json!({}));
        let s = Compression::published(Method::Qsgd).bytes(P / 4).unwrap();
        let expected = Traffic {
            messages: 2 * w * epochs,
            deliveries: w * (w - 1) * epochs,
            bytes_up: w * epochs * (s + TOKEN_BYTES),
            bytes_down: w * (w - 1) * epochs * s,
            ..Traffic::default()
        };
        assert_eq!(closed_form(&job), expected);
    }
}

#[tokio::test]
async fn gradients_beyond_the_brokers_limit_go_by_reference() {
    for workers in [1, 2, 4] {
        let (w, epochs) = (workers as u64, 3);
        for (limit, by_reference) in [(P - 1, 1), (P, 0)] {
            let settings = json!({"compression": "none", "message_limit_bytes": limit});
            let job = job("p2p", Fidelity::Paper, workers, settings);
            let form = closed_form(&job);
            assert_moves(&job, form).await;
            assert_eq!(form.puts, by_reference * w * epochs);
            assert_eq!(form.gets, by_reference * w * (w - 1) * epochs);
            let bytes = P + by_reference * KEY_BYTES;
            assert_eq!(form.bytes_down, w * (w - 1) * epochs * bytes);
        }
    }
}

/// The published peers fetch what they have in every poll: at least once each,
/// and every time all bytes of it.
#[tokio::test]
async fn published_peers_fetch_again_and_are_metered() {
    for workers in [1, 2, 4] {
        let (w, epochs) = (workers as u64, 3);
        for model in [testing::compute, testing::phantom] {
            let job = job(
                "p2p",
                Fidelity::Code,
                workers,
                json!({"barrier_settle_ms": 20}),
            );
            let slow = move || {
                let slow = Gated {
                    milliseconds: 15,
                    ..Gated::new(&Course::default(), |_, _| None)
                };
                HookedCompute::boxed(slow, model())
            };
            let trial = testing::run_with(&job, slow).await.unwrap();
            let metered = trial.exchange();
            assert_eq!(metered, form_of(&job, &trial), "{workers}");
            assert!(metered.deliveries >= w * (w - 1) * epochs);
            // One element more than the gradient has.
            assert_eq!(metered.bytes_down, metered.deliveries * (P + 4));
            assert_eq!(metered.bytes_up, w * epochs * (P + 4 + TOKEN_BYTES));
        }
    }
}

#[tokio::test]
async fn lambda_traffic_is_the_closed_form() {
    for workers in WORKERS {
        let (w, b, epochs) = (workers as u64, 3, 3);
        let (sent, read) = (epochs * w, epochs * w * (w - 1));
        // As published: W(2B + W)·P bytes of gradients per epoch.
        let published = Traffic {
            puts: sent * (b + 1),
            gets: sent * b + read,
            messages: sent * (b + 1),
            deliveries: sent * b + read,
            bytes_up: sent * (b + 1) * (P + KEY_BYTES),
            bytes_down: (sent * b + read) * (P + KEY_BYTES),
            ..Traffic::default()
        };
        // The paper's: weights for the functions, means in messages, a token of each peer; where
        // the broker takes no mean, W·(W − 1) more gets of P bytes beside their keys.
        let paper = |by_reference: u64| Traffic {
            puts: sent * (b + 1 + by_reference),
            gets: sent * 2 * b + read * by_reference,
            messages: sent * (b + 2),
            deliveries: sent * b + read,
            bytes_up: sent * (b * (P + KEY_BYTES) + 2 * P + by_reference * KEY_BYTES + TOKEN_BYTES),
            bytes_down: sent * b * (2 * P + KEY_BYTES) + read * (P + by_reference * KEY_BYTES),
            ..Traffic::default()
        };
        for (fidelity, settings, by_hand) in [
            (Fidelity::Code, json!({}), Some(published)),
            (Fidelity::Paper, json!({}), None),
            (
                Fidelity::Paper,
                json!({"message_limit_bytes": P}),
                Some(paper(0)),
            ),
            (
                Fidelity::Paper,
                json!({"message_limit_bytes": P - 1}),
                Some(paper(1)),
            ),
            (Fidelity::Tuned, json!({}), None),
        ] {
            let job = job("p2p_lambda", fidelity, workers, settings);
            let expected = by_hand.unwrap_or_else(|| closed_form(&job));
            for trial in assert_moves(&job, expected).await {
                // One expansion and B gradients of each peer, and the peer itself.
                assert_eq!(trial.driven.invocations, w * (b + 1) * epochs + w);
                assert_eq!(trial.driven.transitions, w * (b + 2) * epochs);
            }
        }
    }
}

/// One process that takes the mean of means: the digest after each epoch. It plays `ranks`.
async fn reference(job: &Job, ranks: Range<usize>) -> Vec<String> {
    let mut process = OneProcess::new(job).await;
    let mut digests = Vec::new();
    for epoch in 0..job.epochs {
        let mut means = Vec::new();
        for rank in ranks.clone() {
            let gradients = gradients(job, rank, epoch, &process.parameters).await;
            means.push(Vector::mean(&gradients).unwrap());
        }
        digests.push(process.step(&means));
    }
    digests
}

#[tokio::test]
async fn peers_with_functions_take_the_step_of_one_process() {
    for workers in [1, 2, 3, 8] {
        let job = job("p2p_lambda", Fidelity::Paper, workers, json!({}));
        let expected = of_each(workers, reference(&job, 0..workers).await);
        assert_eq!(digests(&run(&job).await), expected);
    }
}

/// Top-k reports which share it sends, the others report none.
#[tokio::test]
async fn density_is_told() {
    let settings = json!({"compression": "top_k", "top_k_fraction": 0.5});
    let trial = run(&job("p2p", Fidelity::Paper, 2, settings)).await;
    for step in trial.steps() {
        assert_eq!(step.update_density, Some(19.0 / 37.0));
    }
}

/// Published functions compute at models of their own.
#[tokio::test]
async fn published_functions_never_see_the_weights() {
    let mut settings = json!({"seeded_replicas": true, "peer_queue": "per_epoch"});
    let with = job("p2p_lambda", Fidelity::Paper, 2, settings.clone());
    settings["sends_weights"] = json!(false);
    let without = job("p2p_lambda", Fidelity::Paper, 2, settings);
    assert_ne!(digests(&run(&with).await), digests(&run(&without).await));
}

/// The late peer computes its first gradient only when the others have ended:
/// peers that waited for it would never get there.
#[tokio::test]
async fn a_slow_peer_delays_no_asynchronous_one() {
    for name in ["p2p", "p2p_lambda"] {
        let job = job(name, Fidelity::Paper, 2, json!({"mode": "asynchronous"}));
        let late: Gate = |rank, epoch| {
            (rank == 0 && epoch == 0).then_some(Event::Evaluates { rank: 1, epoch: 2 })
        };
        let (trial, _) = run_gated(&job, testing::compute, late).await;
        let trial = trial.unwrap();
        let steps = by_epoch(&trial);
        let of = |rank| steps.iter().filter(move |step| step.rank == rank);
        // Nothing of the late peer was there to read; of the other, its last.
        assert!(of(1).all(|step| step.staleness.is_none()), "{name}");
        assert!(of(0).all(|step| step.staleness == Some(0.0)), "{name}");
        // What is read is metered: a message of each peer that had sent one.
        let form = form_of(&job, &trial);
        assert_eq!(trial.exchange(), form, "{name}");
        if name == "p2p" {
            assert!(steps.iter().all(|step| step.seconds.wait == 0.0));
            let s = Compression::published(Method::Qsgd).bytes(P / 4).unwrap() + EPOCH_BYTES;
            assert_eq!((form.messages, form.deliveries), (2 * 3, 3));
            assert_eq!((form.bytes_up, form.bytes_down), (6 * s, 3 * s));
        }
    }
}

/// A peer goes on with as many gradients of others as the threshold says.
#[tokio::test]
async fn peers_wait_for_as_many_gradients_as_the_threshold_says() {
    let late: Gate =
        |rank, epoch| (rank == 2 && epoch == 0).then_some(Event::Evaluates { rank: 1, epoch: 0 });
    let settings = json!({"threshold": 1, "barrier_at": "end", "compression": "none"});
    let job = job("p2p", Fidelity::Paper, 3, settings);
    let (trial, _) = run_gated(&job, testing::compute, late).await;
    let trial = trial.unwrap();
    assert_eq!(trial.exchange(), form_of(&job, &trial));
    // The first two had one gradient each beside their own, the late one both.
    let deliveries: Vec<u64> = by_epoch(&trial)[..3]
        .iter()
        .map(|step| step.traffic.exchange.queue.deliveries)
        .collect();
    assert_eq!(deliveries, [1, 1, 2]);
}

/// Without its own, a peer's first step is that of the other's gradient.
#[tokio::test]
async fn the_own_gradient_may_be_left_out_of_the_mean() {
    let settings = json!({"averages_own": false});
    let job = Job {
        epochs: 1,
        ..job("p2p_lambda", Fidelity::Paper, 2, settings)
    };
    let mut expected = reference(&job, 1..2).await;
    expected.extend(reference(&job, 0..1).await);
    assert_eq!(digests(&run(&job).await), expected);
}

#[test]
fn a_threshold_needs_peers_that_wait() {
    let asynchronous = json!({"threshold": 1, "mode": "asynchronous"});
    let without = json!({"threshold": 1, "barrier": "none"});
    for (system, settings, word) in [
        ("p2p", asynchronous, "wait for no gradient"),
        ("p2p", without.clone(), "at_least"),
        ("p2p_lambda", without, "at_least"),
    ] {
        holds(refused(system, settings), &["threshold", word]);
    }
}

/// Each asynchronous peer stops by itself when its loss falls no more.
#[tokio::test]
async fn asynchronous_peers_stop_by_themselves() {
    let stopping = json!({"patience": 1, "min_delta": 1e9});
    let settings = json!({"mode": "asynchronous", "early_stopping": stopping});
    for system in ["p2p", "p2p_lambda"] {
        let mut job = job(system, Fidelity::Paper, 3, settings.clone());
        (job.epochs, job.data.validation_samples) = (6, 6);
        let trial = run(&job).await;
        for rank in 0..3 {
            let own = by_epoch(&trial)
                .into_iter()
                .filter(|step| step.rank == rank);
            assert_eq!(own.count(), 2, "{system}");
        }
    }
}

/// A peer that is ahead reads what the late one sent epochs ago, and reports it.
#[tokio::test]
async fn staleness_is_the_age_of_what_is_read() {
    // Worker 0 begins when worker 1 has sent its first gradient, and worker 1
    // goes on when worker 0 has ended.
    let apart: Gate = |rank, epoch| match (rank, epoch) {
        (0, 0) => Some(Event::Begins { rank: 1, epoch: 1 }),
        (1, 1) => Some(Event::Evaluates { rank: 0, epoch: 3 }),
        _ => None,
    };
    for model in [testing::compute, testing::phantom] {
        let settings = json!({"mode": "asynchronous", "compression": "none"});
        let job = Job {
            epochs: 4,
            ..job("p2p", Fidelity::Paper, 2, settings)
        };
        let (trial, _) = run_gated(&job, model, apart).await;
        let trial = trial.unwrap();
        let ages = |rank| -> Vec<Option<f64>> {
            let steps = by_epoch(&trial).into_iter();
            let own = steps.filter(|step| step.rank == rank);
            own.map(|step| step.staleness).collect()
        };
        assert_eq!(ages(0), [Some(0.0), Some(1.0), Some(2.0), Some(3.0)]);
        // What worker 0 sent last is newer than what worker 1 computes.
        assert_eq!(ages(1), [None, Some(0.0), Some(0.0), Some(0.0)]);
    }
}

/// No peer begins an epoch before all have sent their gradients of the last.
#[tokio::test]
async fn synchronous_peers_wait_for_the_last() {
    let last_to_begin: Gate = |rank, epoch| (rank == 0).then_some(Event::Begins { rank: 2, epoch });
    for (system, fidelity, settings) in [
        ("p2p", Fidelity::Paper, json!({})),
        ("p2p", Fidelity::Paper, json!({"barrier_at": "end"})),
        ("p2p", Fidelity::Tuned, json!({})),
        ("p2p_lambda", Fidelity::Paper, json!({})),
    ] {
        let job = job(system, fidelity, 3, settings.clone());
        let (trial, course) = run_gated(&job, testing::compute, last_to_begin).await;
        trial.unwrap();
        for epoch in 1..3 {
            let before = epoch - 1;
            let first = (0..3).map(|rank| place(&course, Event::Begins { rank, epoch }));
            let first = first.min().unwrap();
            for rank in 0..3 {
                let epoch = before;
                assert!(place(&course, Event::Begins { rank, epoch }) < first);
                // Only a barrier at the end makes them wait for what follows the exchange.
                let is_last = settings.get("barrier_at").is_some();
                assert!(!is_last || place(&course, Event::Evaluates { rank, epoch }) < first);
            }
        }
    }
}

#[tokio::test]
async fn synchronous_peers_wait_with_a_bound() {
    // Worker 0 never computes: it waits for an epoch that there is not.
    let never: Gate = |rank, _| (rank == 0).then_some(Event::Begins { rank: 0, epoch: 9 });
    let job = job("p2p", Fidelity::Paper, 3, json!({"wait_limit_s": 0}));
    let (trial, _) = run_gated(&job, testing::compute, never).await;
    let error = trial.err().expect("a peer waited beyond its bound");
    holds(error, &["gave up waiting for the gradients"]);
}

/// A function that fails ends its execution; the peer asks, and reports it.
#[tokio::test]
async fn a_peer_learns_that_its_execution_failed() {
    let failing = || hooked(|_| Err(SystemError::Compute("no gradient".into())));
    let job = job("p2p_lambda", Fidelity::Paper, 2, json!({}));
    let Err(DriveError::Invoke(error)) = testing::run_with(&job, failing).await else {
        panic!("the failure was not noticed");
    };
    assert_eq!(error.function, "peer");
    holds(error.reason, &["no gradient"]);
}
