//! A run directory from its first file to its report.

mod files;
mod pages;
mod trace;
mod verdicts;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use epochcost_judge::analysis::{self, Analysis, TrialAnalysis};
use epochcost_record::RunDirectory;
use epochcost_report as report;
use epochcost_spec::claims::{Metric, VerdictKind};
use epochcost_spec::exit::Exit;
use epochcost_spec::metering::TrialOutcome;
use epochcost_systems::{Host, Record, StageSeconds};
use serde_json::Value;

use crate::fixture;
use crate::reliability::run_of;
use crate::support::{Scene, holds, items};

fn analysed(run: &RunDirectory) -> Analysis {
    let analysis = analysis::summarise(run).unwrap();
    report::write(run, &analysis).unwrap();
    analysis
}

/// A run of the fixture, and its report.
struct Reported {
    run: RunDirectory,
    analysis: Analysis,
    scene: Scene,
}

impl Reported {
    /// A whole one.
    fn of(claims: &str) -> Self {
        let scene = Scene::empty();
        let run = fixture::finished(scene.path(), claims);
        Self::new(scene, run)
    }

    /// One trial of each of these systems, with something changed in it.
    fn with(claims: &str, systems: &[&str], change: impl Fn(&mut TrialOutcome, &str)) -> Self {
        let change = |system: &str, _, outcome: &mut TrialOutcome| change(outcome, system);
        let (scene, run) = run_of(claims, systems, 1, change);
        Self::new(scene, run)
    }

    fn new(scene: Scene, run: RunDirectory) -> Self {
        let analysis = analysed(&run);
        Self {
            run,
            analysis,
            scene,
        }
    }

    fn read(&self, name: &str) -> String {
        self.scene.read(name)
    }

    fn terminal(&self) -> String {
        report::terminal_table(&self.analysis, None)
    }
}

/// A directory that stays after the test, so that its report can be looked at.
fn kept(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    path
}

#[test]
fn a_run_becomes_a_summary() {
    let run = fixture::finished(&kept("report-fixture"), fixture::CLAIMS);
    let analysis = analysed(&run);
    let text = fs::read_to_string(run.path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["schema_version"]["major"], 4);
    let rows = items(&summary, "rows");
    assert_eq!(rows.len(), 5);
    let fields = "system model dataset fidelity platform workers batch_size batches_per_worker epochs trials \
                  failed_trials memory_mb figures traffic replicas_identical verdicts";
    for field in fields.split(' ') {
        assert!(rows[0].get(field).is_some(), "{field} is missing");
    }
    // Every metric that a trial has, and no other.
    let analysed = &analysis.rows[0];
    for metric in Metric::ALL {
        let figure = &rows[0]["figures"][metric.name()];
        let known = analysed.estimate(metric).mean;
        let mean = figure["mean"].as_f64();
        let is_same = |(a, b): (f64, f64)| (a - b).abs() <= 1e-12 * b.abs();
        assert!(mean.zip(known).map_or(mean == known, is_same), "{metric:?}");
    }
    let allreduce = &rows[3];
    assert_eq!(allreduce["system"], "allreduce");
    let (p, steps) = (4 * fixture::sizes().parameters as u64, 2 * 3);
    let fields = "puts gets bytes_up bytes_down missed_gets".split(' ');
    let traffic: Vec<_> = fields
        .map(|field| allreduce["traffic"][field].as_u64())
        .collect();
    let expected = [5 * steps, 8 * steps, 5 * p * steps, 8 * p * steps, 0];
    assert_eq!(traffic, expected.map(Some));
    assert_eq!(allreduce["dataset_traffic"]["gets"], 24);
    assert_eq!(allreduce["traffic_matches"], true);
    assert_eq!(allreduce["replicas_identical"], true);
    let accuracy = &allreduce["figures"]["accuracy"]["mean"];
    assert_eq!(*accuracy, f64::from(200 + 120 + 60) / 512.0);
    assert_eq!(allreduce["memory_mb"], 2048);
    assert_eq!(rows[4]["memory_mb"], Value::Null);
    assert!(allreduce["figures"]["seconds_per_epoch"]["ci95"].is_array());
    let mlless = &rows[1];
    let trials = (&mlless["trials"], &mlless["failed_trials"]);
    assert_eq!(trials, (&2.into(), &1.into()));
    let interval = &mlless["figures"]["seconds_per_epoch"]["ci95"];
    assert_eq!(*interval, Value::Null);
    assert_eq!(analysis.exit_status(), Exit::Failed);
}

/// A process on an instance is no function, however much memory it takes.
#[test]
fn memory_of_functions_is_apart_from_that_of_instances() {
    let analysis = Reported::of("[]").analysis;
    let mut hosts = BTreeSet::new();
    for row in &analysis.rows {
        let job = &row.planned.row.job;
        for trial in row.succeeded() {
            let both = |trial: &TrialAnalysis| {
                let of = |metric| trial.metric(metric, job);
                (of(Metric::FunctionPeakMemoryMb), of(Metric::PeakMemoryMb))
            };
            let (of_functions, of_all) = both(trial);
            assert!(of_all > Some(0.0), "{}", row.planned.row.id);
            let expected = of_all.filter(|_| row.on_functions());
            assert_eq!(of_functions, expected, "{}", row.planned.row.id);
            hosts.insert(row.on_functions());
            // A peer on an instance beside them, with more memory than each.
            let mut beside = trial.clone();
            let mut peer = beside.invocations[0].clone();
            peer.host = Host::Instance;
            peer.memory_mb = None;
            peer.peak_memory_mb = Some(9_999);
            beside.invocations.push(peer);
            assert_eq!(both(&beside), (of_functions, Some(9_999.0)));
        }
    }
    assert_eq!(hosts.len(), 2, "functions and instances");
}

/// Three batches that start 2 + 0.4 · 3 s apart; the last lasts 3.32 s at rank 3.
#[test]
fn an_epoch_lasts_from_its_first_start_to_its_last_end() {
    let analysis = Reported::of("[]").analysis;
    let first = &analysis.rows[3].trials[0];
    let last_step = 0.02 + 1.25 + 0.01 + 0.14 + 1.0 + 0.2 + 0.05 + 0.03 + 0.4;
    let expected = 2.0 * (2.0 + 3.0 * 0.4) + last_step;
    let seconds = first.epochs[0].seconds();
    assert!((seconds - expected).abs() < 1e-9, "{seconds}");
}

/// Rank 0 evaluates 10 s after the first step begins, both times: 39 % and 62.5 %.
#[test]
fn a_time_to_accuracy_is_known_only_once_it_is_reached() {
    let claims = r#"[
      {"kind": "own", "claim": "reached", "metric": "time_to_accuracy", "target": 0.6,
       "formula": "time_to_accuracy(0.6)[spirt] >= 0"},
      {"kind": "own", "claim": "never reached", "metric": "time_to_accuracy", "target": 0.9, "expect": "open",
       "formula": "time_to_accuracy(0.9)[spirt] >= 0"},
      {"kind": "published", "claim": "of a paper", "metric": "accuracy", "source": "a paper",
       "formula": "accuracy[spirt] <= 2 * accuracy[mlless]"}
    ]"#;
    let verdicts = Reported::of(claims).analysis.summary.verdicts;
    assert_eq!(verdicts[0].verdict, VerdictKind::Holds);
    assert!((verdicts[0].observed.unwrap() - 10.0).abs() < 1e-9);
    let found = (verdicts[1].verdict, verdicts[1].observed);
    assert_eq!(found, (VerdictKind::Open, None));
    let never = "90.0 % accuracy was not reached in 2 epochs";
    holds(&verdicts[1].reason, &[never, "62.5 %"]);
    // A paper's ranking is one of the original data.
    assert_eq!(verdicts[2].verdict, VerdictKind::Open);
    holds(&verdicts[2].reason, &["generated", "; there it is"]);
}

/// Three workers take 10 s per epoch and go on, the fourth takes 40: the trial lasts 80 s, its
/// epochs 40 and 70, since they overlap. 74 % is reached after 20 s.
#[test]
fn seconds_and_dollars_are_by_the_trials_clock_where_epochs_overlap() {
    let claims = r#"[{"kind": "own", "claim": "reached", "metric": "time_to_accuracy", "target": 0.7,
        "formula": "time_to_accuracy(0.7)[allreduce] >= 0"}]"#;
    let reported = Reported::with(claims, &["allreduce"], |outcome, _| {
        let is_first =
            |record: &Record| !matches!(record, Record::Step(step) if step.batch != Some(0));
        outcome.records.retain(is_first);
        for record in &mut outcome.records {
            match record {
                Record::Step(step) => {
                    let epoch_s = if step.rank == 3 { 40.0 } else { 10.0 };
                    step.started_s = 1000.0 + step.epoch as f64 * epoch_s;
                    step.seconds = StageSeconds {
                        compute_gradients: epoch_s,
                        ..StageSeconds::default()
                    };
                }
                Record::Evaluated { epoch, at_s, .. } => *at_s = 1010.0 + *epoch as f64 * 10.0,
                _ => {}
            }
        }
        outcome.wall_s = 80.0;
        for call in &mut outcome.invocations {
            (call.ended_s, call.duration_ms, call.billed_ms) = (1080.0, 80e3, 80_000);
        }
    });
    let row = &reported.analysis.summary.rows[3];
    let [paper, whole] =
        [Metric::CostPaperUsd, Metric::CostFullUsd].map(|metric| row.mean(metric).unwrap());
    for (found, expected) in [
        (row.mean(Metric::SecondsPerEpoch), 40.0),
        (row.seconds_to_target.unwrap().mean, 20.0),
        (row.cost_to_target_paper_usd, paper / 4.0),
    ] {
        let found = found.unwrap();
        let is = (found / expected - 1.0).abs() < 1e-9;
        assert!(is, "{found} for {expected}");
    }
    // A quarter of the time, and requests that are not divided by it.
    let share = row.cost_to_target_full_usd.unwrap() / whole;
    assert!(share > 1.0 / 4.0 && share < 1.0 / 3.5, "{share}");
}

#[test]
fn replicas_that_differ_and_traffic_that_differs_are_seen() {
    let systems = ["allreduce", "scatterreduce"];
    let reported = Reported::with("[]", &systems, |outcome, system| {
        if system == "scatterreduce" {
            let is_told = |record: &Record| !matches!(record, Record::Step(step) if step.rank == 3);
            outcome.records.retain(is_told);
            return;
        }
        let Some(Record::Step(step)) = outcome.records.last_mut() else {
            panic!("no step")
        };
        step.parameters_digest = Some("another".into());
        step.traffic.exchange.objects.puts += 1;
    });
    let rows = &reported.analysis.summary.rows;
    let found = (rows[3].replicas_identical, rows[3].traffic_matches);
    assert_eq!(found, (Some(false), Some(false)));
    assert_eq!(rows[2].replicas_identical, None, "one worker told nothing");
    let none = (rows[0].mean(Metric::Accuracy), rows[0].traffic.puts);
    assert_eq!((rows[0].trials, none), (0, (None, None)));
    let mut warnings = reported.analysis.warnings().iter();
    assert!(warnings.any(|warning| warning.text.contains("closed form")));
}
