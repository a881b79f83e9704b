//! Every experiment that is shipped is valid.
use std::path::{Path, PathBuf};

use epochcost::experiment::{Experiment, Options, yaml_files};

fn shipped() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    let files = yaml_files(&directory).unwrap();
    assert!(!files.is_empty());
    files
}

fn load(file: &Path) -> Experiment {
    Experiment::load(file, &Options::default())
        .unwrap_or_else(|error| panic!("{}", epochcost::error::Error::from(error)))
}

#[test]
fn every_shipped_experiment_is_valid_and_named_like_its_file() {
    for file in shipped() {
        let experiment = load(&file);
        assert_eq!(file.file_stem().unwrap().to_str().unwrap(), experiment.name);
        assert!(!experiment.description.is_empty(), "{}", file.display());
    }
}

/// The smoke run is the whole comparison: every system, MobileNet, 4 workers,
/// two epochs of three batches.
#[test]
fn smoke_runs_every_system_in_full() {
    let experiment = load(
        &shipped()
            .into_iter()
            .find(|file| file.ends_with("smoke.yaml"))
            .unwrap(),
    );
    let systems: Vec<&str> = experiment
        .rows
        .iter()
        .map(|row| row.job.system.as_str())
        .collect();
    let known: Vec<&str> = epochcost_systems::systems()
        .iter()
        .map(|system| system.name())
        .collect();
    assert_eq!(systems, known);
    for row in &experiment.rows {
        let job = &row.job;
        assert_eq!(job.model, "mobilenet");
        assert_eq!((job.workers, job.epochs, job.batches_per_worker), (4, 2, 3));
    }
}

/// A claim that selects no row would silently say nothing, but for those that
/// say that it does not exist yet.
#[test]
fn every_claim_of_a_shipped_experiment_selects_a_row() {
    for file in shipped() {
        let experiment = load(&file);
        for claim in experiment
            .claims
            .iter()
            .filter(|claim| claim.not_run.is_none())
        {
            let mut rows = experiment.rows.iter();
            let selects = rows.any(|row| epochcost::claims::matches(&claim.select, row));
            assert!(
                selects,
                "{}: {:?} selects no row",
                file.display(),
                claim.claim
            );
        }
    }
}
