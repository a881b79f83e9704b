//! No change of a claim's kind, source, metric or `of` improves its verdict: for
//! every claim of every experiment, the changed file is refused, or the verdict
//! says no more for the paper than before.
use std::path::{Path, PathBuf};

use epochcost::analysis::{Circumstances, Fit, Rests, decide};
use epochcost::claims::{Claim, ClaimKind, Estimate, VerdictKind};
use epochcost::experiment::{Document, Experiment, Options, yaml_files};
use epochcost_simulator::profile::FittedTo;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

/// An experiment file, up to its claims, and the claims.
struct File {
    path: PathBuf,
    head: String,
    claims: Vec<Claim>,
    is_simulated: bool,
}

fn files() -> Vec<File> {
    let paths = yaml_files(&experiments()).unwrap();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let head = text.split("\nclaims:").next().unwrap().to_owned();
        let experiment = Experiment::load(&path, &Options::default());
        let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
        // Formulas have no terms that could be changed so.
        let mut claims = experiment.claims;
        claims.retain(|claim| claim.formula.is_none());
        for claim in &mut claims {
            claim.history.clear();
        }
        File {
            path,
            head,
            claims,
            is_simulated: experiment.simulation.is_some(),
        }
    };
    paths
        .into_iter()
        .map(read)
        .filter(|file| !file.claims.is_empty())
        .collect()
}

impl File {
    /// Whether the file with these claims is valid.
    fn accepts(&self, claims: &[Claim]) -> bool {
        let claims = serde_json::to_string(claims).unwrap();
        let text = format!("{}\nclaims: {claims}\n", self.head);
        let document = Document::parse(&self.path, text).unwrap();
        Experiment::from_beside(document, &Options::default()).is_ok()
    }
}

/// The ways to change one claim that could hide what it says.
fn changed(claim: &Claim, others: &[Claim]) -> Vec<(&'static str, Claim)> {
    let with = |change: &dyn Fn(&mut Claim)| {
        let mut changed = claim.clone();
        change(&mut changed);
        changed
    };
    let mut all = vec![
        ("without source", with(&|claim| claim.source = None)),
        (
            "of another paper",
            with(&|claim| {
                claim.source = claim
                    .source
                    .as_ref()
                    .map(|_| "Else et al. 2020, Table 1".into());
            }),
        ),
        ("without metric", with(&|claim| claim.metric = None)),
        (
            "not run, without metric",
            with(&|claim| {
                claim.metric = None;
                claim.target = None;
                claim.expect = None;
                claim.explanation = None;
                claim.not_run = Some("nothing to see".into());
            }),
        ),
        ("without put_in", with(&|claim| claim.put_in = None)),
        ("without of", with(&|claim| claim.of.clear())),
        ("without cell", with(&|claim| claim.cell = None)),
        (
            "own, without its source",
            with(&|claim| {
                claim.kind = ClaimKind::Own;
                claim.source = None;
                claim.statement = None;
                claim.expect = None;
                claim.explanation = None;
            }),
        ),
    ];
    for kind in ClaimKind::ALL {
        all.push((
            "of another kind",
            with(&|claim| {
                claim.kind = kind;
                claim.expect = None;
                claim.explanation = None;
            }),
        ));
    }
    let base = others
        .iter()
        .find(|other| other.kind == ClaimKind::Published && other.claim != claim.claim);
    if let Some(base) = base.filter(|base| !claim.of.contains(&base.claim)) {
        let name = base.claim.clone();
        all.push((
            "of another claim",
            with(&|claim| {
                if !claim.of.is_empty() {
                    claim.of = vec![name.clone()];
                }
            }),
        ));
    }
    all.retain(|(_, other)| other != claim);
    all
}

/// Everything that can decide a verdict beside the observed value.
fn circumstances(claim: &Claim, is_simulated: bool) -> Vec<Circumstances> {
    let fit = |source: &str, cells: Vec<String>| Fit {
        what: "constant".into(),
        to: Some(FittedTo {
            source: source.into(),
            cells,
        }),
        rests: Rests::Times,
    };
    let mut all = vec![
        Circumstances::default(),
        Circumstances {
            generated: Some("synthetic".into()),
            ..Circumstances::default()
        },
        Circumstances {
            is_one_seed: true,
            ..Circumstances::default()
        },
        Circumstances {
            machine: Some("this machine".into()),
            ..Circumstances::default()
        },
    ];
    if let (true, Some(source)) = (is_simulated, &claim.source) {
        let own = claim.cell.iter().map(ToString::to_string).collect();
        for cells in [Vec::new(), own] {
            all.push(Circumstances {
                fits: vec![fit(source, cells)],
                ..Circumstances::default()
            });
        }
    }
    all
}

#[test]
fn no_change_of_a_claim_improves_its_verdict() {
    let mut runner = TestRunner::new(Config::with_cases(12));
    for file in files() {
        for (index, claim) in file.claims.iter().enumerate() {
            for (how, other) in changed(claim, &file.claims) {
                let mut claims = file.claims.clone();
                claims[index] = other.clone();
                // A file is read once at most, and only where its claim would gain.
                let accepted = std::cell::OnceCell::new();
                // Values around the band's ends, and far from them.
                let scale = claim
                    .published
                    .or(claim.at_least)
                    .or(claim.at_most)
                    .unwrap_or(1.0);
                let near = prop_oneof![0.5..1.5_f64, 0.001..1000.0_f64];
                let result = runner.run(&near, |factor| {
                    let value = scale.abs().max(1e-6) * factor;
                    let observed = Estimate {
                        mean: Some(value),
                        ci95: None,
                        n: 1,
                    };
                    for at in circumstances(claim, file.is_simulated) {
                        let (before, _) = decide(claim, &file.claims, observed, &at);
                        let (after, reason) = decide(&other, &claims, observed, &at);
                        prop_assert!(
                            after.support() <= before.support()
                                || !accepted.get_or_init(|| file.accepts(&claims)),
                            "{}: {}, {how}: {before} becomes {after} ({reason})",
                            file.path.display(),
                            claim.claim
                        );
                    }
                    Ok(())
                });
                result.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}

#[test]
fn a_claim_that_quotes_a_cell_is_a_papers() {
    for file in files() {
        for claim in &file.claims {
            let quotes =
                claim.cell.is_some() || claim.source.is_some() || claim.published.is_some();
            assert_eq!(
                quotes,
                claim.kind.is_of_paper(),
                "{}: {}",
                file.path.display(),
                claim.claim
            );
        }
    }
}

/// One seed says nothing of the next, which another processor's rounding amounts to.
#[test]
fn a_ranking_by_the_time_to_an_accuracy_takes_two_seeds() {
    let claim: Claim = serde_json::from_str(
        r#"{"claim": "c", "kind": "own", "select": {}, "over": {}, "metric": "time_to_accuracy",
            "target": 0.8, "at_most": 1.0}"#,
    )
    .unwrap();
    let observed = Estimate {
        mean: Some(0.5),
        ci95: None,
        n: 1,
    };
    let verdict = |is_one_seed| {
        let at = Circumstances {
            is_one_seed,
            decided: Some((VerdictKind::Reproduced, "every draw agrees".into())),
            ..Circumstances::default()
        };
        decide(&claim, &[], observed, &at).0
    };
    assert_eq!(verdict(true), VerdictKind::Undecided);
    assert_eq!(verdict(false), VerdictKind::Holds);
}

/// What a stage gets of a processor is decided by whatever else it computes.
#[test]
fn a_ranking_by_use_of_the_processor_decides_nothing_on_one_machine() {
    let ranking = r#"{"kind": "published", "claim": "c", "select": {}, "over": {},
        "over_metric": "put_cpu_percent", "metric": "compute_gradients_cpu_percent", "at_least": 1}"#;
    let ranking: Claim = serde_json::from_str(ranking).unwrap();
    let on_one_machine = Circumstances {
        machine: Some("this machine".into()),
        ..Circumstances::default()
    };
    for (mean, falls) in [(4.0, "it is as published"), (0.5, "it is not as published")] {
        let observed = Estimate {
            mean: Some(mean),
            ci95: Some([mean, mean]),
            n: 3,
        };
        let (verdict, reason) = decide(&ranking, &[], observed, &on_one_machine);
        assert_eq!(verdict, VerdictKind::Undecided);
        assert!(reason.contains(falls), "{reason}");
        let (elsewhere, _) = decide(&ranking, &[], observed, &Circumstances::default());
        assert_ne!(elsewhere, VerdictKind::Undecided);
    }
}
