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
use std::process::Output;

use crate::support::{epochcost, program};

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

/// A directory with an experiment, and a finished run of it in `run`.
struct Scene(tempfile::TempDir);

impl Scene {
    fn new(experiment: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("sizes.yaml"), experiment).unwrap();
        Self(directory)
    }

    /// A finished run.
    fn finished() -> Self {
        let scene = Self::new(SIZES);
        let output = scene.epochcost(&["run", "sizes.yaml", "--out", "run"]);
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        scene
    }

    fn epochcost(&self, arguments: &[&str]) -> Output {
        epochcost(self.0.path(), arguments)
    }

    fn resume(&self) -> Output {
        self.epochcost(&["run", "sizes.yaml", "--out", "run", "--resume"])
    }

    fn report(&self) -> Output {
        self.epochcost(&["report", "run"])
    }

    /// Resumes with a limit on the size of files, in blocks of 512 or 1,024 bytes.
    fn resume_with_limit(&self, blocks: usize) -> Output {
        let epochcost = program();
        let mut shell = std::process::Command::new("sh");
        let script = format!("ulimit -f {blocks}; exec \"$0\" run sizes.yaml --out run --resume");
        shell.args(["-c", &script]).arg(epochcost.get_program());
        shell.current_dir(self.0.path()).output().unwrap()
    }

    fn run(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.run().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Files that a run keeps: all but those that a report computes.
fn kept_files(run: &Path) -> Vec<PathBuf> {
    let files = |directory: PathBuf| {
        let entries = fs::read_dir(directory).unwrap().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.is_file())
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

/// Fails unless the program ended with exit code 2 and says these words.
#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let message = errors(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?} in:\n{message}");
    }
}
