//! Ends of trials that are neither as asked nor a failure: training that diverges, functions
//! that failed and were called again.

use serde_json::Value;

use super::RUN;
use crate::fixture;
use crate::support::{Scene, holds, items};

use epochcost_record::RunDirectory;
use epochcost_spec::claims::Metric;
use epochcost_spec::metering::TrialOutcome;
use epochcost_systems::{Evaluation, Record};

/// LeNet-5 on this machine, with a learning rate at which no loss stays finite.
const DIVERGES: &str = "\
schema: 1
name: diverges
dataset: {name: synthetic-mnist, train: 64, test: 10}
model: lenet5
workers: 2
batch_size: 8
batches_per_worker: 2
epochs: 2
evaluate: EVALUATE
optimizer: {sgd: {learning_rate: 1.0e+9}}
systems: [allreduce, gpu_baseline]
findings:
  - {says: it diverges, formula: \"diverged[allreduce] >= 1\"}
";

#[test]
fn training_that_diverges_is_an_outcome_with_its_step() {
    let diverged = "diverged: the loss of epoch 0, mini-batch 1";
    for evaluate in ["never", "every_epoch"] {
        let scene = Scene::of("sizes.yaml", &DIVERGES.replace("EVALUATE", evaluate));
        let ended = scene.run(RUN).ends(0);
        holds(ended.message(), &[diverged]);
        holds(ended.text(), &["1, 1 diverged"]);
        let trials = scene.read("run/trials.jsonl");
        let trial: Value = trials.lines().next().unwrap().parse().unwrap();
        let place = (&trial["diverged"], &trial["diverged_batch"]);
        assert_eq!(place, (&0.into(), &1.into()));
        assert!(trial["failure"].is_null());
        // The first mini-batches had a loss: their mean is not that of the epoch.
        for line in scene.read("run/epochs.tsv").lines().skip(1) {
            assert_eq!(line.split('\t').nth(6), Some(""), "{line}");
        }
        let summary = scene.value("run/summary.json");
        for row in items(&summary, "rows") {
            assert_eq!(row["diverged_trials"], 1, "{row}");
            assert_eq!(row["failed_trials"], 0, "{row}");
        }
        assert_eq!(summary["verdicts"][0]["verdict"], "holds");
        for page in ["run/report.md", "run/report.html"] {
            holds(scene.read(page), &[diverged, "1, 1 diverged"]);
        }
    }
}

/// A function that dies while it evaluates, of three that share the test split.
#[test]
fn an_accuracy_over_a_part_of_the_split_says_so() {
    let scene = Scene::of(
        "sizes.yaml",
        "schema: 1\nname: part\ndataset: {name: synthetic-mnist, train: 128, test: 50}\nmodel: lenet5\n\
         workers: 3\nbatch_size: 8\nepochs: 2\nevaluate: every_epoch\nsystems:\n  - system: kubeml\n    \
         settings: {document_samples: 8, k: 2}\n    faults: [{rank: 1, epoch: 1, batch: 0, kind: crash, \
         stage: fetch_dataset, function: validate}]\n",
    );
    scene.text(RUN);
    let said = "the accuracy after epoch 2 is that over 34 of 50 test samples";
    holds(scene.read("run/report.md"), &[said]);
}

const RETRIES: &str = r#"[
  {"kind": "own", "claim": "it is called again", "metric": "retries", "formula": "retries[scatterreduce] >= 1",
   "expect": "holds"}
]"#;

/// Two functions of one trial failed, and were called again; a third failed with its trial.
#[test]
fn functions_that_were_called_again_are_counted() {
    let scene = Scene::empty();
    let run = RunDirectory::create(Some(scene.path()), fixture::new_run(RETRIES, 2)).unwrap();
    for trial in 0..2 {
        for system in fixture::SYSTEMS {
            let plan = fixture::plan(system, trial);
            let mut outcome = fixture::outcome(&plan, 1.0);
            let mut failed = outcome.invocations[1].clone();
            failed.error = Some("Runtime.ExitError".into());
            if system == "scatterreduce" && trial == 0 {
                for id in ["first", "second"] {
                    failed.request_id = id.into();
                    outcome.invocations.insert(0, failed.clone());
                }
            } else if system == "mlless" && trial == 1 {
                outcome.invocations = vec![failed];
                outcome.failure = Some("a worker died".into());
            }
            run.append_trial(&plan, &outcome).unwrap();
        }
    }
    let analysis = epochcost_judge::analysis::summarise(&run).unwrap();
    epochcost_report::write(&run, &analysis).unwrap();
    let counts = |row: usize| {
        let row = &analysis.summary.rows[row];
        (row.retries, row.retried_trials, row.outcomes())
    };
    assert_eq!(counts(0), (0, 0, "2".into()));
    assert_eq!(counts(1), (0, 0, "2, 1 failed".into()));
    assert_eq!(counts(2), (2, 1, "2, 1 with retries".into()));
    let warning = "2 functions failed and were called again, in 1 of 2 trials";
    let warnings = analysis.warnings();
    assert!(warnings.iter().any(|known| known.text.contains(warning)));
    let done = "done; 2 functions failed and were called again";
    holds(scene.read("report.md"), &[done]);
    let mean_over_trials = analysis.summary.verdicts[0].observed;
    assert_eq!(mean_over_trials, Some(1.0));
}

/// What a trial that ended well lacks is said with its figures.
#[test]
fn what_is_missing_of_a_good_trial_is_a_warning() {
    let (_scene, run) = run_of("allreduce", 2, |trial, outcome| {
        if trial == 1 {
            return;
        }
        let evaluated = |record: &Record| match record {
            Record::Evaluated { epoch, .. } => Some(*epoch),
            _ => None,
        };
        let last = outcome.records.iter().filter_map(evaluated).max();
        outcome.records.retain(|record| evaluated(record) != last);
        outcome.invocations[1].error = Some("Runtime.ExitError".into());
    });
    let warnings: Vec<Vec<String>> = (run.trials().unwrap().into_iter())
        .map(|trial| trial.warnings)
        .collect();
    let says = |trial: usize, what: &str| warnings[trial].iter().any(|said| said.contains(what));
    assert!(says(0, "nothing was evaluated after epoch"), "{warnings:?}");
    let failed = "that failed and was not called again";
    assert!(says(0, failed), "{warnings:?}");
    for what in ["evaluated", "called again"] {
        assert!(!says(1, what), "{warnings:?}");
    }
    // A terminal shows the first two of all.
    let summary = epochcost_judge::analysis::summarise(&run).unwrap();
    let all = summary.warnings();
    let first = all
        .iter()
        .take_while(|one| one.text.starts_with("incomplete: "));
    assert!(all.len() > 2 && first.count() >= 2);
}

/// A run of one system, each of whose trials `change` has changed.
fn run_of(
    system: &str,
    trials: usize,
    change: impl Fn(usize, &mut TrialOutcome),
) -> (Scene, RunDirectory) {
    let scene = Scene::empty();
    let run = RunDirectory::create(Some(scene.path()), fixture::new_run("[]", trials)).unwrap();
    for trial in 0..trials {
        let plan = fixture::plan(system, trial);
        let mut outcome = fixture::outcome(&plan, 1.0);
        change(trial, &mut outcome);
        run.append_trial(&plan, &outcome).unwrap();
    }
    drop(run);
    let run = RunDirectory::open_whole(scene.path()).unwrap();
    (scene, run)
}

/// What no reader would accept fails its trial, and keeps the others.
#[test]
fn a_record_that_cannot_be_is_a_failed_trial() {
    let impossible: [fn(&mut TrialOutcome); 4] = [
        |outcome| outcome.wall_s = -119.8,
        |outcome| outcome.started_s = f64::NAN,
        |outcome| outcome.invocations[1].duration_ms = f64::INFINITY,
        |outcome| outcome.invocations[0].ended_s = f64::NAN,
    ];
    let (_scene, run) = run_of("allreduce", 5, |trial, outcome| {
        if let Some(change) = impossible.get(trial) {
            change(outcome);
        }
    });
    let failures: Vec<bool> = (run.trials().unwrap().iter())
        .map(|trial| trial.failure.is_some())
        .collect();
    assert_eq!(failures, [true, true, true, true, false]);
    assert!(epochcost_judge::analysis::summarise(&run).is_ok());
}

/// The mean of a loss is over all mini-batches and all trials, or there is none.
#[test]
fn training_that_diverges_has_no_loss_and_takes_that_of_its_row() {
    let (scene, run) = run_of("allreduce", 2, |trial, outcome| {
        if trial == 1 {
            let steps = outcome
                .records
                .iter_mut()
                .filter_map(|record| match record {
                    Record::Step(step) if step.epoch == 1 && step.batch > Some(0) => Some(step),
                    _ => None,
                });
            steps.last().unwrap().loss = None;
            outcome.records.push(Record::Diverged {
                rank: 3,
                epoch: 1,
                batch: Some(2),
            });
        }
    });
    let analysis = epochcost_judge::analysis::summarise(&run).unwrap();
    let mut rows = analysis.rows.iter();
    let row = rows.find(|row| !row.trials.is_empty()).unwrap();
    let losses = |trial: usize| -> Vec<bool> {
        let epochs = row.trials[trial].epochs.iter();
        epochs.map(|epoch| epoch.train_loss.is_some()).collect()
    };
    assert_eq!((losses(0), losses(1)), (vec![true; 2], vec![true, false]));
    assert_eq!(row.estimate(Metric::TrainLoss).mean, None);
    let drawn = row.by_epoch(|epoch| epoch.train_loss);
    assert_eq!(drawn.len(), 1, "{drawn:?}");
    epochcost_report::write(&run, &analysis).unwrap();
    holds(scene.read("report.md"), &["| diverged |"]);
}

/// Worker 1's replica is better: accuracy, the time to it and what is printed are worker 0's.
#[test]
fn replicas_that_differ_are_told_apart() {
    let better = |_, outcome: &mut TrialOutcome| {
        let theirs = outcome.records.iter().filter_map(|record| match record {
            Record::Evaluated {
                epoch,
                at_s,
                evaluation,
                ..
            } => Some(Record::Evaluated {
                rank: 1,
                epoch: *epoch,
                at_s: at_s - 5.0,
                evaluation: Evaluation {
                    correct: 500,
                    ..*evaluation
                },
                validation: None,
            }),
            _ => None,
        });
        let theirs: Vec<Record> = theirs.collect();
        outcome.records.splice(0..0, theirs.clone());
        outcome.records.extend(theirs);
        let (rank, evaluation) = outcome.last_evaluation().unwrap();
        assert_eq!((rank, evaluation.correct), (0, 380));
    };
    let (_scene, run) = run_of("allreduce", 1, better);
    let analysis = epochcost_judge::analysis::summarise(&run).unwrap();
    let mut rows = analysis.rows.iter();
    let row = rows.find(|row| !row.trials.is_empty()).unwrap();
    assert_eq!(row.estimate(Metric::Accuracy).mean, Some(380.0 / 512.0));
    assert_eq!(row.trials[0].best_accuracy(), Some(380.0 / 512.0));
    assert_eq!(row.seconds_to(0.7).mean, Some(10.0));
    assert_eq!(row.seconds_to(0.9).mean, None);
}
