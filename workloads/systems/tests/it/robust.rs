//! Robust aggregation in SPIRT, and attackers in every system.

use epochcost_kernels::attack as crafted;
use epochcost_systems::testing::{self, Trial};
use epochcost_systems::{Attack, AttackKind, Attackers, Fidelity, Job, Vector, find, systems};
use serde_json::{Value, json};

use crate::support::*;

fn quick(system: &str, attack: Option<Attack>) -> Job {
    Job {
        attack,
        ..job_of(system, Fidelity::Paper, 4, json!({}))
    }
}

fn spirt(fidelity: Fidelity, workers: usize, settings: Value) -> Job {
    job_of("spirt", fidelity, workers, settings)
}

fn attack(kind: AttackKind, count: usize) -> Option<Attack> {
    Some(Attack {
        kind,
        workers: Attackers::Last(count),
        from_epoch: 0,
        strength: None,
    })
}

/// Digest of the parameters after the last round of each epoch, of which all peers have one.
fn replica(trial: &Trial, job: &Job) -> Vec<String> {
    let rounds = job.settings["rounds_per_epoch"].as_u64().unwrap() as usize;
    let found = digests(trial);
    assert_eq!(found.len(), job.epochs * rounds * job.workers);
    let of_rounds = found.chunks(job.workers);
    assert!(of_rounds.clone().all(are_same), "{found:?}");
    of_rounds
        .skip(rounds - 1)
        .step_by(rounds)
        .map(|round| round[0].clone())
        .collect()
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
                    let trial = run(&job).await;
                    assert_eq!(
                        trial.exchange(),
                        closed_form(&job),
                        "{rule} {mixing} {place}"
                    );
                    ends.push(replica(&trial, &job));
                }
                // Sums grow in the order of arrival, and may differ in their last bits.
                if fidelity == Fidelity::Paper {
                    assert_eq!(ends[0], ends[1], "{rule} {mixing}");
                }
            }
        }
    }
}

#[tokio::test]
async fn worker_momentum_has_its_closed_form() {
    let settings = json!({"worker_momentum": 0.9, "robust": "median", "f": 1});
    let job = spirt(Fidelity::Paper, 4, settings);
    let trial = run(&job).await;
    assert_eq!(trial.exchange(), closed_form(&job));
    let plain = spirt(Fidelity::Paper, 4, json!({"robust": "median", "f": 1}));
    let other = run(&plain).await;
    assert_ne!(replica(&trial, &job), replica(&other, &plain));
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
        let trial = run(&job).await;
        // The same by hand.
        let mut process = OneProcess::new(&job).await;
        let mut averages = Vec::new();
        for rank in 0..5 {
            let own = gradients(&job, rank, 0, &process.parameters).await;
            averages.push(Vector::mean(&own).unwrap());
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
        let expected = process.step(&averages);
        assert_eq!(replica(&trial, &job), [expected], "{kind:?}");
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
        replica(&run(&job).await, &job)
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
                holds(error, &["36 elements where 37"]);
            }
        }
        // A rule goes on without the peer.
        for rule in &RULES[1..] {
            let job = with(json!({"robust": rule, "f": 1}));
            let trial = run(&job).await;
            assert_eq!(replica(&trial, &job).len(), job.epochs);
            assert!(!has_diverged(&trial), "{kind:?} {rule}");
            let warnings = warnings(&trial);
            let notes = warnings.iter().filter(|text| text.contains("peers 4 "));
            assert_eq!(notes.count(), job.epochs, "{kind:?} {rule}");
        }
    }
}

/// Every system trains with attackers; what sets in later leaves earlier epochs alone.
#[tokio::test]
async fn every_system_runs_under_attack() {
    for system in systems() {
        let name = system.name();
        for kind in [
            AttackKind::SignFlip,
            AttackKind::Gaussian,
            AttackKind::LittleIsEnough,
        ] {
            let trial = testing::run(&quick(name, attack(kind, 2))).await;
            trial.unwrap_or_else(|error| panic!("{name} {kind:?}: {error}"));
        }
        if name != "spirt" {
            let refused = refusal(&quick(name, attack(AttackKind::Mimic, 1)));
            holds(refused, &["no worker sees"]);
        }
        let nobody = quick(name, attack(AttackKind::SignFlip, 0));
        assert!(system.bind(&nobody).is_err(), "{name}");
        let never = attack(AttackKind::SignFlip, 1).map(|attack| Attack {
            from_epoch: 3,
            ..attack
        });
        assert!(system.bind(&quick(name, never)).is_err(), "{name}");
    }
}

#[tokio::test]
async fn values_that_are_no_numbers_never_pass_for_success() {
    for system in systems() {
        let name = system.name();
        if let Ok(trial) = testing::run(&quick(name, attack(AttackKind::Nan, 1))).await {
            let mut found = trial.evaluations().into_iter();
            let is_finite = found.all(|(_, evaluation)| evaluation.loss.is_finite());
            assert!(
                has_diverged(&trial) || is_finite && name == "mlless",
                "{name}"
            );
        }
    }
}

#[test]
fn rules_refuse_more_attackers_than_they_survive() {
    for (rule, f) in [("krum", 1), ("multi_krum", 1), ("trimmed_mean", 2)] {
        let settings = json!({"robust": rule, "f": f});
        let refused = refusal(&spirt(Fidelity::Paper, 4, settings));
        holds(refused, &["of 4 peers"]);
    }
    let fits = spirt(Fidelity::Paper, 3, json!({"robust": "krum", "f": 0}));
    assert!(find("spirt").unwrap().bind(&fits).is_ok());
}
