//! Ends of trials that are neither as asked nor a failure: training that diverges, functions
//! that failed and were called again.

use std::fs;

use serde_json::Value;

use super::{Scene, errors};
use crate::fixture;

use epochcost::results::RunDirectory;

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
optimizer: {sgd: {learning_rate: 1.0e+30}}
systems: [allreduce, gpu_baseline]
claims:
  - {kind: own, claim: it diverges, select: {system: allreduce}, metric: diverged, at_least: 1, expect: holds}
";

fn summary(scene: &Scene) -> Value {
    serde_json::from_str(&scene.read("summary.json")).unwrap()
}

#[test]
fn training_that_diverges_is_an_outcome_with_its_step() {
    for evaluate in ["never", "every_epoch"] {
        let scene = Scene::new(&DIVERGES.replace("EVALUATE", evaluate));
        let output = scene.epochcost(&["run", "sizes.yaml", "--out", "run"]);
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(0), "{message}");
        assert!(
            message.contains("diverged: the loss of epoch 0, mini-batch 1"),
            "{message}"
        );
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("1, 1 diverged"), "{printed}");
        let trial: Value = scene
            .read("trials.jsonl")
            .lines()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(
            (&trial["diverged"], &trial["diverged_batch"]),
            (&0.into(), &1.into())
        );
        assert!(trial["failure"].is_null());
        let summary = summary(&scene);
        for row in summary["rows"].as_array().unwrap() {
            assert_eq!(row["diverged_trials"], 1, "{row}");
            assert_eq!(row["failed_trials"], 0, "{row}");
        }
        assert_eq!(summary["verdicts"][0]["verdict"], "holds");
        for page in ["report.md", "report.html"] {
            let page = scene.read(page);
            assert!(page.contains("diverged: the loss of epoch 0, mini-batch 1"));
            assert!(page.contains("1, 1 diverged"));
        }
    }
}

const RETRIES: &str = r#"[
  {"kind": "own", "claim": "it is called again", "select": {"system": "scatterreduce"}, "metric": "retries",
   "at_least": 1, "expect": "holds"}
]"#;

/// Two functions of one trial failed, and were called again; a third failed with its trial.
#[test]
fn functions_that_were_called_again_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run(RETRIES, 2)).unwrap();
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
    let analysis = epochcost::analysis::summarise(&run).unwrap();
    epochcost::report::write(&run, &analysis).unwrap();
    let counts = |row: usize| {
        let row = &analysis.summary.rows[row];
        (row.retries, row.retried_trials, row.outcomes())
    };
    assert_eq!(counts(0), (0, 0, "2".into()));
    assert_eq!(counts(1), (0, 0, "2, 1 failed".into()));
    assert_eq!(counts(2), (2, 1, "2, 1 with retries".into()));
    let warning = "2 functions failed and were called again, in 1 of 2 trials";
    assert!(
        analysis
            .warnings()
            .iter()
            .any(|known| known.text.contains(warning))
    );
    let page = fs::read_to_string(directory.path().join("report.md")).unwrap();
    assert!(page.contains("done; 2 functions failed and were called again"));
    assert_eq!(
        analysis.summary.verdicts[0].observed,
        Some(1.0),
        "a mean over trials"
    );
}
