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

use crate::support::Scene;

/// Five systems and two trials, simulated with sizes alone: no data, no worker.
const SIZES: &str = "\
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
    let computed = [
        "epochs.tsv",
        "cost.json",
        "summary.json",
        "trace.json",
        "report.html",
        "report.md",
        "junit.xml",
        "ro-crate-metadata.json",
    ];
    let mut found: Vec<PathBuf> = files(run.to_path_buf())
        .chain(files(run.join("events")))
        .collect();
    found.retain(|path| computed.iter().all(|name| !path.ends_with(name)));
    found.sort();
    found
}
