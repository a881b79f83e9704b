//! Ends of trials that are neither as asked nor a failure: training that diverges, functions
//! that failed and were called again.

use epochcost_judge::analysis::summarise;
use epochcost_spec::claims::Metric;
use epochcost_systems::Record;
use serde_json::Value;

use super::*;
use crate::support::{LENET5, items};

/// With a learning rate at which no loss stays finite.
const DIVERGES: &str = "\
optimizer: {sgd: {learning_rate: 1.0e+9}}
systems: [allreduce, gpu_baseline]
findings:
  - {says: it diverges, formula: \"diverged[allreduce] >= 1\"}
";

#[test]
fn training_that_diverges_is_an_outcome_with_its_step() {
    let diverged = "diverged: the loss of epoch 0, mini-batch 1";
    for evaluate in ["never", "every_epoch"] {
        let scene = Scene::of(
            "sizes.yaml",
            &format!("{LENET5}{DIVERGES}evaluate: {evaluate}\n"),
        );
        let ended = scene.run(&format!("{RUN} --set epochs=2")).ends(0);
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
    let (scene, run) = run_of(RETRIES, &fixture::SYSTEMS, 2, |system, trial, outcome| {
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
    });
    let analysis = summarise(&run).unwrap();
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
    let (_scene, run) = allreduce(2, |trial, outcome| {
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
    let trials = run.trials().unwrap().into_iter();
    let warnings: Vec<Vec<String>> = trials.map(|trial| trial.warnings).collect();
    let says = |trial: usize, what: &str| warnings[trial].iter().any(|said| said.contains(what));
    assert!(says(0, "nothing was evaluated after epoch"), "{warnings:?}");
    let failed = "that failed and was not called again";
    assert!(says(0, failed), "{warnings:?}");
    for what in ["evaluated", "called again"] {
        assert!(!says(1, what), "{warnings:?}");
    }
    // A terminal shows the first two of all.
    let analysis = summarise(&run).unwrap();
    let all = analysis.warnings();
    let is_first = |place: usize| all[place].text.starts_with("incomplete: ");
    assert!(all.len() > 2 && is_first(0) && is_first(1));
}

/// A run of AllReduce without claims.
fn allreduce(trials: usize, change: impl Fn(usize, &mut TrialOutcome)) -> (Scene, RunDirectory) {
    run_of("[]", &["allreduce"], trials, |_, trial, outcome| {
        change(trial, outcome)
    })
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
    let (_scene, run) = allreduce(5, |trial, outcome| {
        if let Some(change) = impossible.get(trial) {
            change(outcome);
        }
    });
    let trials = run.trials().unwrap().into_iter();
    let failures: Vec<bool> = trials.map(|trial| trial.failure.is_some()).collect();
    assert_eq!(failures, [true, true, true, true, false]);
    assert!(summarise(&run).is_ok());
}

/// The mean of a loss is over all mini-batches and all trials, or there is none.
#[test]
fn training_that_diverges_has_no_loss_and_takes_that_of_its_row() {
    let (scene, run) = allreduce(2, |trial, outcome| {
        if trial == 1 {
            let records = outcome.records.iter_mut();
            let steps = records.filter_map(|record| match record {
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
    let analysis = summarise(&run).unwrap();
    let row = &analysis.rows[3];
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
        let is_evaluation = |record: &&Record| matches!(record, Record::Evaluated { .. });
        let own = outcome.records.iter().filter(is_evaluation);
        let mut theirs: Vec<Record> = own.cloned().collect();
        for record in &mut theirs {
            let Record::Evaluated {
                rank,
                at_s,
                evaluation,
                ..
            } = record
            else {
                continue;
            };
            (*rank, *at_s, evaluation.correct) = (1, *at_s - 5.0, 500);
        }
        outcome.records.splice(0..0, theirs.clone());
        outcome.records.extend(theirs);
        let (rank, evaluation) = outcome.last_evaluation().unwrap();
        assert_eq!((rank, evaluation.correct), (0, 380));
    };
    let (_scene, run) = allreduce(1, better);
    let analysis = summarise(&run).unwrap();
    let row = &analysis.rows[3];
    assert_eq!(row.estimate(Metric::Accuracy).mean, Some(380.0 / 512.0));
    assert_eq!(row.trials[0].best_accuracy(), Some(380.0 / 512.0));
    assert_eq!(row.seconds_to(0.7).mean, Some(10.0));
    assert_eq!(row.seconds_to(0.9).mean, None);
}
