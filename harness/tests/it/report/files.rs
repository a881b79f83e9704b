//! Files of a run directory: cut off, read back, refused.

use std::fs;

use epochcost_record::{ResultsError, RunDirectory};
use epochcost_systems::Record;

use crate::fixture;
use crate::support::holds;

#[test]
fn a_run_that_was_cut_off_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run("[]", 2)).unwrap();
    let plan = fixture::plan("spirt", 0);
    run.append_trial(&plan, &fixture::outcome(&plan, 1.0))
        .unwrap();
    let trials = run.path().join("trials.jsonl");
    let mut text = fs::read(&trials).unwrap();
    text.extend_from_within(..100);
    fs::write(&trials, text).unwrap();
    let calls = run.path().join("invocations.jsonl");
    let orphans = fs::read_to_string(&calls)
        .unwrap()
        .replace(r#""trial":0"#, r#""trial":1"#);
    fs::write(&calls, fs::read_to_string(&calls).unwrap() + &orphans).unwrap();
    fixture::reseal(run.path());

    let path = directory.path();
    let busy = RunDirectory::resume(path, &fixture::new_run("[]", 2)).unwrap_err();
    assert!(matches!(busy, ResultsError::InUse { .. }), "{busy}");
    drop(run);
    let opened = RunDirectory::open(path).unwrap();
    holds(&opened.warnings()[0], &["trials.jsonl"]);
    let run = RunDirectory::resume(path, &fixture::new_run("[]", 2)).unwrap();
    let finished = run.finished_trials().unwrap();
    let finished: Vec<_> = finished.iter().map(|id| (&*id.row, id.trial)).collect();
    assert_eq!(finished, [("spirt-paper", 0)]);
    let calls = run.invocations().unwrap().len();
    assert_eq!(calls, 4, "an unfinished trial's are dropped");
    let plan = fixture::plan("spirt", 1);
    run.append_trial(&plan, &fixture::outcome(&plan, 1.0))
        .unwrap();
    assert_eq!(run.trials().unwrap().len(), 2);
    drop(run);
    assert!(matches!(
        RunDirectory::resume(path, &fixture::new_run("[]", 3)),
        Err(ResultsError::Different { .. })
    ));
}

#[test]
fn steps_survive_their_file() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run("[]", 1)).unwrap();
    let plan = fixture::plan("mlless", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    if let Some(Record::Step(step)) = outcome.records.first_mut() {
        step.batch = None;
        step.loss = None;
        step.update_density = Some(0.25);
        step.parameters_digest = None;
        step.traffic.state.queue.polls = u64::MAX;
    }
    let row = run.append_trial(&plan, &outcome).unwrap();
    let written = outcome
        .records
        .into_iter()
        .filter_map(|record| match record {
            Record::Step(step) => Some(*step),
            _ => None,
        });
    assert_eq!(run.steps(&row).unwrap(), written.collect::<Vec<_>>());
    let names: Vec<_> = fs::read_dir(run.path().join("events")).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file stays behind");
}

#[test]
fn directories_that_cannot_be_used_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    let new = || fixture::new_run("[]", 1);
    let below_a_file = RunDirectory::create(Some(&file.join("run")), new()).unwrap_err();
    assert!(
        matches!(below_a_file, ResultsError::Unwritable { .. }),
        "{below_a_file}"
    );
    let full = RunDirectory::create(Some(directory.path()), new()).unwrap_err();
    assert!(
        matches!(full, ResultsError::NotEmpty(_)) && full.is_usage(),
        "{full}"
    );
    let empty = RunDirectory::open(&directory.path().join("none")).unwrap_err();
    assert!(matches!(empty, ResultsError::NotARun(_)), "{empty}");
}

/// A bare "No such file" was once all that was said.
#[test]
fn a_run_directory_that_is_deleted_in_mid_run_is_said_to_be() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let run = RunDirectory::create(Some(&path), fixture::new_run("[]", 2)).unwrap();
    let plan = fixture::plan("spirt", 0);
    fs::remove_dir_all(&path).unwrap();
    let failed = run.append_trial(&plan, &fixture::outcome(&plan, 1.0));
    let message = failed.unwrap_err().to_string();
    holds(&message, &["deleted or moved while it was in use"]);
}
