//! Trials that are added where a claim on this machine cannot be decided yet.

use serde_json::{Value, json};

use crate::support::Scene;

/// Two rows of one system, and a claim on the loss of the first, which follows from the seeds of the trials
/// and not from the machine: 2.2955, 2.3152 and 2.3318.
fn experiment(limit: &str, most: &str) -> String {
    format!(
        "schema: 1\nname: noise\nplatform: local\nseed: 7\ntrials: 2\n{most}\
         dataset: {{name: synthetic-mnist, train: 64, test: 10, seed: 1}}\n\
         model: lenet5\nworkers: 2\nbatch_size: 8\nbatches_per_worker: 1\nepochs: 1\n\
         evaluate: never\nmemory_mb: 1024\nsystems:\n  \
         - {{system: gpu_baseline, name: a}}\n  - {{system: gpu_baseline, name: b}}\n\
         findings:\n  - {{says: little is learned, formula: \"train_loss[a] >= {limit}}}\n"
    )
}

/// Runs it and returns the summary, and how many trials the run has.
fn run(limit: &str, most: &str) -> (Value, usize) {
    let scene = Scene::of("noise.yaml", &experiment(limit, most));
    scene.run("run noise.yaml --out out").ends(0);
    let trials = scene.read("out/trials.jsonl").lines().count();
    let summary = scene.value("out/summary.json");
    // What was added is read back like everything else.
    scene.run("report out").ends(0);
    (summary, trials)
}

/// The intervals of two trials, 2.18 to 2.43, and of three, 2.27 to 2.36, both cross the edge. The row that the claim
/// does not compare runs no further trials.
#[test]
fn a_claim_in_doubt_gets_as_many_trials_as_there_may_be() {
    let (summary, trials) = run("2.305\", open_since: abc1234", "most_trials: 3\n");
    assert_eq!(trials, 3 + 2);
    let verdict = &summary["verdicts"][0];
    assert_eq!(verdict["verdict"], "open");
    assert_eq!(verdict["undecided_rows"], json!(["a"]));
}

#[test]
fn a_claim_that_is_decided_gets_none() {
    let (summary, trials) = run("0\"", "most_trials: 8\n");
    assert_eq!(trials, 4);
    assert_eq!(summary["verdicts"][0]["verdict"], "holds");
    assert!(summary["verdicts"][0].get("undecided_rows").is_none());
}
