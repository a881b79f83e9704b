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
use epochcost_systems::{Host, Record, StageSeconds};

use crate::fixture;

fn analysed(run: &RunDirectory) -> Analysis {
    let analysis = analysis::summarise(run).unwrap();
    report::write(run, &analysis).unwrap();
    analysis
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
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["schema_version"]["major"], 3);
    let rows = summary["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    let fields = [
        "system",
        "model",
        "dataset",
        "fidelity",
        "platform",
        "workers",
        "batch_size",
        "batches_per_worker",
        "epochs",
        "trials",
        "failed_trials",
        "memory_mb",
        "figures",
        "traffic",
        "replicas_identical",
        "verdicts",
    ];
    for field in fields {
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
    assert_eq!(allreduce["traffic"]["puts"], 5 * steps);
    assert_eq!(allreduce["traffic"]["gets"], 8 * steps);
    assert_eq!(allreduce["traffic"]["bytes_up"], 5 * p * steps);
    assert_eq!(allreduce["traffic"]["bytes_down"], 8 * p * steps);
    assert_eq!(allreduce["traffic"]["missed_gets"], 0);
    assert_eq!(allreduce["dataset_traffic"]["gets"], 24);
    assert_eq!(allreduce["traffic_matches"], true);
    assert_eq!(allreduce["replicas_identical"], true);
    let accuracy = &allreduce["figures"]["accuracy"]["mean"];
    assert_eq!(*accuracy, f64::from(200 + 120 + 60) / 512.0);
    assert_eq!(allreduce["memory_mb"], 2048);
    assert_eq!(rows[4]["memory_mb"], serde_json::Value::Null);
    assert!(allreduce["figures"]["seconds_per_epoch"]["ci95"].is_array());
    let mlless = &rows[1];
    assert_eq!(
        (&mlless["trials"], &mlless["failed_trials"]),
        (&2.into(), &1.into())
    );
    let interval = &mlless["figures"]["seconds_per_epoch"]["ci95"];
    assert_eq!(*interval, serde_json::Value::Null);
    assert_eq!(analysis.exit_status(), Exit::Failed);
}

/// A process on an instance is no function, however much memory it takes.
#[test]
fn memory_of_functions_is_apart_from_that_of_instances() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), "[]");
    let analysis = analysed(&run);
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
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), "[]");
    let analysis = analysed(&run);
    let first = &analysis.rows[3].trials[0];
    let last_step = 0.02 + 1.25 + 0.01 + 0.14 + 1.0 + 0.2 + 0.05 + 0.03 + 0.4;
    let expected = 2.0 * (2.0 + 3.0 * 0.4) + last_step;
    assert!(
        (first.epochs[0].seconds() - expected).abs() < 1e-9,
        "{}",
        first.epochs[0].seconds()
    );
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
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), claims);
    let verdicts = analysed(&run).summary.verdicts;
    assert_eq!(verdicts[0].verdict, VerdictKind::Holds);
    assert!((verdicts[0].observed.unwrap() - 10.0).abs() < 1e-9);
    assert_eq!(
        (verdicts[1].verdict, verdicts[1].observed),
        (VerdictKind::Open, None)
    );
    let reason = &verdicts[1].reason;
    assert!(
        reason.contains("90.0 % accuracy was not reached in 2 epochs"),
        "{reason}"
    );
    assert!(reason.contains("62.5 %"), "{reason}");
    // A paper's ranking is one of the original data.
    assert_eq!(verdicts[2].verdict, VerdictKind::Open);
    let reason = &verdicts[2].reason;
    assert!(
        reason.contains("generated") && reason.contains("; there it is"),
        "{reason}"
    );
}

/// Three workers take 10 s per epoch and go on, the fourth takes 40: the trial lasts 80 s, its
/// epochs 40 and 70, since they overlap. 74 % is reached after 20 s.
#[test]
fn seconds_and_dollars_are_by_the_trials_clock_where_epochs_overlap() {
    let claims = r#"[{"kind": "own", "claim": "reached", "metric": "time_to_accuracy", "target": 0.7,
        "formula": "time_to_accuracy(0.7)[allreduce] >= 0"}]"#;
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run(claims, 1)).unwrap();
    let plan = fixture::plan("allreduce", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    outcome
        .records
        .retain(|record| !matches!(record, Record::Step(step) if step.batch != Some(0)));
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
    run.append_trial(&plan, &outcome).unwrap();
    let analysis = analysed(&run);
    let of = |name: &str| {
        let mut rows = analysis.summary.rows.iter();
        rows.find(|row| row.system == name).unwrap()
    };
    let row = of("allreduce");
    let is = |found: Option<f64>, expected: f64| {
        let found = found.unwrap();
        assert!(
            (found / expected - 1.0).abs() < 1e-9,
            "{found} for {expected}"
        );
    };
    is(row.mean(Metric::SecondsPerEpoch), 40.0);
    is(row.seconds_to_target.unwrap().mean, 20.0);
    is(
        row.cost_to_target_paper_usd,
        row.mean(Metric::CostPaperUsd).unwrap() / 4.0,
    );
    // A quarter of the time, and requests that are not divided by it.
    let (until, whole) = (
        row.cost_to_target_full_usd.unwrap(),
        row.mean(Metric::CostFullUsd).unwrap(),
    );
    assert!(
        until > whole / 4.0 && until < whole / 3.5,
        "{until} of {whole}"
    );
}

#[test]
fn replicas_that_differ_and_traffic_that_differs_are_seen() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run("[]", 1)).unwrap();
    let plan = fixture::plan("allreduce", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    let Some(Record::Step(step)) = outcome.records.last_mut() else {
        panic!("no step")
    };
    step.parameters_digest = Some("another".into());
    step.traffic.exchange.objects.puts += 1;
    run.append_trial(&plan, &outcome).unwrap();
    let plan = fixture::plan("scatterreduce", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    outcome
        .records
        .retain(|record| !matches!(record, Record::Step(step) if step.rank == 3));
    run.append_trial(&plan, &outcome).unwrap();
    let analysis = analysed(&run);
    let row = |i: usize| &analysis.summary.rows[i];
    assert_eq!(
        (row(3).replicas_identical, row(3).traffic_matches),
        (Some(false), Some(false))
    );
    assert_eq!(row(2).replicas_identical, None, "one worker told nothing");
    assert_eq!(
        (
            row(0).trials,
            row(0).mean(Metric::Accuracy),
            row(0).traffic.puts
        ),
        (0, None, None)
    );
    assert!(
        analysis
            .warnings()
            .iter()
            .any(|warning| warning.text.contains("closed form"))
    );
}
