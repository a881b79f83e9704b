//! Files of a run directory: read back, refused.

use epochcost_record::ResultsError;

use super::*;

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
    let written = outcome.records.into_iter();
    let written = written.filter_map(|record| match record {
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
    let below = RunDirectory::create(Some(&file.join("run")), new()).unwrap_err();
    assert!(matches!(below, ResultsError::Unwritable { .. }), "{below}");
    let full = RunDirectory::create(Some(directory.path()), new()).unwrap_err();
    assert!(matches!(full, ResultsError::NotEmpty(_)), "{full}");
    assert!(full.is_usage(), "{full}");
    let empty = RunDirectory::open(&directory.path().join("none")).unwrap_err();
    assert!(matches!(empty, ResultsError::NotARun(_)), "{empty}");
    let run = directory.path().join("run");
    drop(RunDirectory::create(Some(&run), new()).unwrap());
    let other = RunDirectory::resume(&run, &fixture::new_run("[]", 2)).unwrap_err();
    assert!(matches!(other, ResultsError::Different { .. }), "{other}");
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
