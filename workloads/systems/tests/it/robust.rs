//! Robust aggregation in SPIRT, and attackers in every system.

use epochcost_kernels::attack as crafted;
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{
    Attack, AttackKind, Attackers, Batch, Fidelity, Job, Record, Vector, find, systems,
};
use serde_json::{Map, Value, json};

fn job(system: &str, fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    let settings: Map<String, Value> = serde_json::from_value(settings).unwrap();
    testing::job(system, fidelity, workers, &settings).unwrap()
}

/// A job of any system, with waiting shortened.
fn quick(system: &str, workers: usize) -> Job {
    let wanted = json!({
        "poll_ms": 1, "merged_poll_ms": 1, "barrier_poll_ms": 1, "barrier_before_ms": 0,
        "barrier_settle_ms": 0, "status_poll_ms": 1, "poll_interval_ms": 1, "settle_ms": 0,
        "document_samples": 1, "k": 1,
    });
    let found = find(system).unwrap();
    let known = found.settings(Fidelity::Paper, &Map::new()).unwrap();
    let mut settings = wanted.as_object().unwrap().clone();
    settings.retain(|name, _| known.get(name).is_some());
    testing::job(system, Fidelity::Paper, workers, &settings).unwrap()
}

fn spirt(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    let mut settings = settings;
    settings["poll_interval_ms"] = json!(1);
    job("spirt", fidelity, workers, settings)
}

fn attack(kind: AttackKind, count: usize) -> Option<Attack> {
    Some(Attack {
        kind,
        workers: Attackers::Last(count),
        from_epoch: 0,
        strength: None,
    })
}

/// Digests of the parameters by epoch, of which all peers have one.
fn digests(trial: &Trial, job: &Job) -> Vec<String> {
    let steps = trial.steps();
    let of_epoch = |epoch: usize| {
        let found: Vec<String> = steps
            .iter()
            .filter(|step| step.epoch == epoch)
            .filter_map(|step| step.parameters_digest.clone())
            .collect();
        assert_eq!(found.len(), job.workers, "epoch {epoch}");
        assert!(
            found.iter().all(|digest| *digest == found[0]),
            "epoch {epoch}"
        );
        found[0].clone()
    };
    (0..job.epochs).map(of_epoch).collect()
}

fn has_diverged(trial: &Trial) -> bool {
    let is = |record: &Record| matches!(record, Record::Diverged { .. });
    trial.records.iter().any(is)
}

const RULES: [&str; 7] = [
    "mean",
    "median",
    "trimmed_mean",
    "krum",
    "multi_krum",
    "geometric_median",
    "centred_clipping",
];

#[tokio::test]
async fn rules_keep_replicas_identical_and_the_closed_form_exact() {
    for fidelity in [Fidelity::Paper, Fidelity::Tuned] {
        for rule in RULES {
            for mixing in [false, true] {
                let mut ends = Vec::new();
                for place in ["store", "function"] {
                    let settings = json!({
                        "robust": rule, "f": 1, "nearest_neighbour_mixing": mixing,
                        "robust_at": place, "rounds_per_epoch": 2,
                    });
                    let job = spirt(fidelity, 5, settings);
                    let trial = testing::run(&job).await.unwrap();
                    let bound = find("spirt").unwrap().bind(&job).unwrap();
                    let expected = bound.traffic(testing::SIZES).unwrap();
                    assert_eq!(trial.exchange(), expected, "{rule} {mixing} {place}");
                    ends.push(last_digests(&trial, &job));
                }
                // Sums grow in the order of arrival, and may differ in their last bits.
                if fidelity == Fidelity::Paper {
                    assert_eq!(ends[0], ends[1], "{rule} {mixing}");
                }
            }
        }
    }
}

/// Digest of the last round of each epoch, of which all peers have one.
fn last_digests(trial: &Trial, job: &Job) -> Vec<String> {
    let steps = trial.steps();
    let of_epoch = |epoch: usize| {
        let of_last = |step: &&&epochcost_systems::StepRecord| {
            step.epoch == epoch && step.batch == Some(job.batches_per_worker - 1)
        };
        let found: Vec<String> = steps
            .iter()
            .filter(of_last)
            .filter_map(|step| step.parameters_digest.clone())
            .collect();
        assert_eq!(found.len(), job.workers, "epoch {epoch}");
        assert!(
            found.iter().all(|digest| *digest == found[0]),
            "epoch {epoch}"
        );
        found[0].clone()
    };
    (0..job.epochs).map(of_epoch).collect()
}

#[tokio::test]
async fn worker_momentum_has_its_closed_form() {
    let settings = json!({"worker_momentum": 0.9, "robust": "median", "f": 1});
    let job = spirt(Fidelity::Paper, 4, settings);
    let trial = testing::run(&job).await.unwrap();
    let bound = find("spirt").unwrap().bind(&job).unwrap();
    assert_eq!(trial.exchange(), bound.traffic(testing::SIZES).unwrap());
    let plain = spirt(Fidelity::Paper, 4, json!({"robust": "median", "f": 1}));
    let other = testing::run(&plain).await.unwrap();
    assert_ne!(digests(&trial, &job), digests(&other, &plain));
}

/// A peer's average at `parameters` in an epoch.
async fn average(job: &Job, rank: usize, epoch: usize, parameters: &Vector) -> Vector {
    let mut compute = testing::compute();
    let mut gradients = Vec::new();
    for index in 0..job.batches_per_worker {
        let records = testing::minibatch_records(job, rank, index);
        let batch = Batch {
            rank,
            epoch,
            index,
            records,
        };
        let mut statistics = compute.initial_statistics();
        let output = compute.gradient(parameters, &mut statistics, &batch).await;
        gradients.push(output.unwrap().gradient);
    }
    Vector::mean(&gradients).unwrap()
}

/// An attacker's message is made of the honest peers' averages of the same round.
#[tokio::test]
async fn attackers_see_what_honest_peers_send() {
    for kind in [
        AttackKind::InnerProduct,
        AttackKind::LittleIsEnough,
        AttackKind::MinMax,
        AttackKind::Mimic,
    ] {
        let job = Job {
            epochs: 1,
            attack: attack(kind, 2),
            ..spirt(Fidelity::Paper, 7, json!({}))
        };
        let trial = testing::run(&job).await.unwrap();
        // The same by hand.
        let mut compute = testing::compute();
        let mut parameters = compute.initial_parameters(job.seed).await.unwrap();
        let mut averages = Vec::new();
        for rank in 0..5 {
            averages.push(average(&job, rank, 0, &parameters).await);
        }
        let honest: Vec<&[f32]> = averages.iter().filter_map(Vector::real).collect();
        let sent = Vector::Real(match kind {
            AttackKind::InnerProduct => crafted::scaled_mean(&honest, -0.1).unwrap(),
            AttackKind::LittleIsEnough => {
                let z = crafted::little_is_enough_z(7, 2);
                assert!(z > 0.0);
                crafted::little_is_enough(&honest, z).unwrap()
            }
            AttackKind::MinMax => crafted::min_max(&honest).unwrap(),
            _ => honest[0].to_vec(),
        });
        averages.extend([sent.clone(), sent]);
        let mean = Vector::mean(&averages).unwrap();
        let mut optimizer = epochcost_kernels::optimizer::Optimizer::new(job.optimizer);
        let stepped = optimizer.step(parameters.real_mut().unwrap(), mean.real().unwrap());
        stepped.unwrap();
        assert_eq!(
            digests(&trial, &job)[0],
            parameters.digest().unwrap(),
            "{kind:?}"
        );
    }
}

/// Stale and replayed averages are those of earlier rounds, from the second on.
#[tokio::test]
async fn earlier_averages_are_sent_again() {
    let ends = |kind| async move {
        let job = Job {
            epochs: 3,
            attack: kind,
            ..spirt(Fidelity::Paper, 3, json!({}))
        };
        digests(&testing::run(&job).await.unwrap(), &job)
    };
    let honest = ends(None).await;
    let stale = ends(attack(AttackKind::Stale, 1)).await;
    let replayed = ends(attack(AttackKind::Replayed, 1)).await;
    assert_eq!((&stale[0], &replayed[0]), (&honest[0], &honest[0]));
    // One round later both send the first average.
    assert!(stale[1] == replayed[1] && stale[1] != honest[1]);
    assert!(stale[2] != replayed[2] && stale[2] != honest[2]);
}

#[tokio::test]
async fn wrong_shapes_and_values_are_refused_by_rules_alone() {
    for kind in [
        AttackKind::Nan,
        AttackKind::Infinite,
        AttackKind::WrongShape,
    ] {
        let with = |settings| Job {
            attack: attack(kind, 1),
            ..spirt(Fidelity::Paper, 5, settings)
        };
        // The mean is spoilt: training fails or diverges, and says why.
        match testing::run(&with(json!({}))).await {
            Ok(trial) => assert!(has_diverged(&trial), "{kind:?}"),
            Err(error) => {
                assert_eq!(kind, AttackKind::WrongShape);
                let reason = error.to_string();
                assert!(reason.contains("36 elements where 37"), "{reason}");
            }
        }
        // A rule goes on without the peer.
        for rule in &RULES[1..] {
            let job = with(json!({"robust": rule, "f": 1}));
            let trial = testing::run(&job).await.unwrap();
            assert_eq!(digests(&trial, &job).len(), job.epochs);
            assert!(!has_diverged(&trial), "{kind:?} {rule}");
            let is_note = |record: &Record| matches!(record, Record::Warning { text, .. } if text.contains("peers 4 "));
            let notes = trial
                .records
                .iter()
                .filter(|record| is_note(record))
                .count();
            assert_eq!(notes, job.epochs, "{kind:?} {rule}");
        }
    }
}

/// Every system trains with attackers; what sets in later leaves earlier epochs alone.
#[tokio::test]
async fn every_system_runs_under_attack() {
    for system in systems() {
        let name = system.name();
        let honest = quick(name, 4);
        for kind in [
            AttackKind::SignFlip,
            AttackKind::Gaussian,
            AttackKind::LittleIsEnough,
        ] {
            let job = Job {
                attack: attack(kind, 2),
                ..honest.clone()
            };
            testing::run(&job)
                .await
                .unwrap_or_else(|error| panic!("{name} {kind:?}: {error}"));
        }
        if name != "spirt" {
            let job = Job {
                attack: attack(AttackKind::Mimic, 1),
                ..honest.clone()
            };
            let refused = system.bind(&job).err().unwrap().to_string();
            assert!(refused.contains("no worker sees"), "{name}: {refused}");
        }
        let nobody = Job {
            attack: attack(AttackKind::SignFlip, 0),
            ..honest.clone()
        };
        assert!(system.bind(&nobody).is_err(), "{name}");
        let never = Job {
            attack: attack(AttackKind::SignFlip, 1).map(|attack| Attack {
                from_epoch: 3,
                ..attack
            }),
            ..honest
        };
        assert!(system.bind(&never).is_err(), "{name}");
    }
}

#[tokio::test]
async fn values_that_are_no_numbers_never_pass_for_success() {
    for system in systems() {
        let name = system.name();
        let job = Job {
            attack: attack(AttackKind::Nan, 1),
            ..quick(name, 4)
        };
        if let Ok(trial) = testing::run(&job).await {
            let losses = trial.evaluations();
            let finite = losses
                .iter()
                .all(|(_, evaluation)| evaluation.loss.is_finite());
            assert!(has_diverged(&trial) || finite, "{name}");
            if name != "mlless" {
                assert!(has_diverged(&trial), "{name}");
            }
        }
    }
}

#[test]
fn rules_refuse_more_attackers_than_they_survive() {
    for (rule, f) in [("krum", 1), ("multi_krum", 1), ("trimmed_mean", 2)] {
        let settings = json!({"robust": rule, "f": f});
        let job = spirt(Fidelity::Paper, 4, settings);
        let refused = find("spirt").unwrap().bind(&job).err().unwrap().to_string();
        assert!(refused.contains("of 4 peers"), "{refused}");
    }
    let settings = json!({"robust": "krum", "f": 0});
    assert!(
        find("spirt")
            .unwrap()
            .bind(&spirt(Fidelity::Paper, 3, settings))
            .is_ok()
    );
}
