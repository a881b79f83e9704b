//! What must never happen to a run: a figure that changes unseen, a trial that is lost, two
//! programs in one directory.

mod bits;
mod bounds;
mod disk;
mod lost;
mod outcomes;
mod resume;

use std::fs;
use std::path::{Path, PathBuf};

use epochcost_record::RunDirectory;
use epochcost_spec::metering::TrialOutcome;

use crate::fixture;
use crate::support::{Scene, holds};

/// Five systems and two trials, simulated with sizes alone: no data, no worker.
pub const SIZES: &str = "\
schema: 1
name: sizes
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 2
batch_size: 64
batches_per_worker: 2
epochs: 1
evaluate: never
trials: 2
systems: [spirt, mlless, scatterreduce, allreduce, gpu_baseline]
";

const RUN: &str = "run sizes.yaml --out run";
const RESUME: &str = "run sizes.yaml --out run --resume";

fn sizes() -> Scene {
    Scene::of("sizes.yaml", SIZES)
}

/// With a finished run in `run`.
fn finished() -> Scene {
    let scene = sizes();
    scene.text(RUN);
    scene
}

/// Files that a run keeps: all but those that a report computes.
fn kept_files(run: &Path) -> Vec<PathBuf> {
    let files = |directory: PathBuf| {
        let entries = fs::read_dir(directory).unwrap().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.is_file())
    };
    let computed = "epochs.tsv cost.json summary.json trace.json report.html report.md junit.xml \
                    ro-crate-metadata.json";
    let found = files(run.to_path_buf()).chain(files(run.join("events")));
    let is_kept = |path: &PathBuf| computed.split(' ').all(|name| !path.ends_with(name));
    let mut found: Vec<PathBuf> = found.filter(is_kept).collect();
    found.sort();
    found
}

/// A run of systems, each of whose trials `change` has changed.
pub fn run_of(
    claims: &str,
    systems: &[&str],
    trials: usize,
    change: impl Fn(&str, usize, &mut TrialOutcome),
) -> (Scene, RunDirectory) {
    let scene = Scene::empty();
    let run = RunDirectory::create(Some(scene.path()), fixture::new_run(claims, trials)).unwrap();
    for trial in 0..trials {
        for system in systems {
            let plan = fixture::plan(system, trial);
            let mut outcome = fixture::outcome(&plan, 1.0);
            change(system, trial, &mut outcome);
            run.append_trial(&plan, &outcome).unwrap();
        }
    }
    drop(run);
    let run = RunDirectory::open_whole(scene.path()).unwrap();
    (scene, run)
}
