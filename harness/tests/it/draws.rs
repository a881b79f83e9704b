//! Rankings of simulated rows over draws of the profile's constants, by the
//! program itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::program;

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost_record::{RowDraws, RunDirectory};
use serde_json::Value;

/// Two exchanges whose order depends on S3's latency, and one claim on each side.
const EXPERIMENT: &str = "\
schema: 1
name: drawn
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 64
batches_per_worker: 2
epochs: 1
evaluate: never
memory_mb: 3008
trials: TRIALS
simulation: {profile: aws-us-east-1, draws: 60}
systems: SYSTEMS
findings:
  - {says: close, formula: \"synchronise[scatterreduce] <= synchronise[allreduce]\"EXPECTED}
  - {says: far, formula: \"bytes[allreduce] >= 1.0e-9 * bytes[spirt]\"}
  - {says: wrong, formula: \"bytes[allreduce] <= 1.0e-9 * bytes[spirt]\", fails_since: abc1234}
  - {says: value, formula: \"bytes[allreduce] >= 0\"}
";

const SYSTEMS: &str = "[spirt, scatterreduce, allreduce]";

/// LeNet-5, trained in virtual time; MLLess sends what its filter passes.
const TRAINED: &str = "\
schema: 1
name: trained
platform: sim
dataset: {name: synthetic-mnist, train: 128, test: 32}
model: lenet5
workers: 2
batch_size: 16
epochs: 2
memory_mb: 1769
trials: 2
simulation: {real_compute: true, draws: 60}
systems: [mlless, allreduce, kubeml]
findings:
  - {says: sent, formula: \"bytes[mlless] <= 1000 * bytes[allreduce]\"}
  - {says: timed, formula: \"seconds_per_epoch[mlless] <= 1000 * seconds_per_epoch[kubeml]\"}
  - {says: reached, formula: \"time_to_accuracy(0)[kubeml] <= 1000 * time_to_accuracy(0)[allreduce]\"}
  - {says: learned, formula: \"train_loss[mlless] >= 0 * train_loss[allreduce]\"}
";

struct Scene(tempfile::TempDir);

impl Scene {
    fn new(experiment: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("experiment.yaml"), experiment).unwrap();
        Self(directory)
    }

    fn output(&self, out: &str, arguments: &[&str]) -> Output {
        let mut command = program();
        command
            .args(["run", "experiment.yaml", "--out", out])
            .args(arguments)
            .current_dir(self.0.path())
            .env(
                WORKER_VARIABLE,
                find_or_build().unwrap().path.canonicalize().unwrap(),
            );
        command.output().unwrap()
    }

    /// Runs into the directory `out`, and ends well.
    fn run(&self, out: &str, arguments: &[&str]) -> PathBuf {
        let output = self.output(out, arguments);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}");
        self.0.path().join(out)
    }
}

fn experiment(systems: &str, trials: usize, expected: &str) -> String {
    let expected = match expected {
        "holds" => String::new(),
        other => format!(", {other}_since: abc1234"),
    };
    EXPERIMENT
        .replace("SYSTEMS", systems)
        .replace("TRIALS", &trials.to_string())
        .replace("EXPECTED", &expected)
}

fn verdicts(run: &Path) -> Vec<Value> {
    let summary = fs::read(run.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    summary["verdicts"].as_array().unwrap().clone()
}

fn draws(run: &Path) -> Vec<RowDraws> {
    RunDirectory::open(run).unwrap().draws().unwrap()
}

#[test]
fn a_ranking_in_doubt_is_undecided_with_its_share() {
    let scene = Scene::new(&experiment(SYSTEMS, 1, "open"));
    let run = scene.run("run", &[]);
    let verdicts = verdicts(&run);
    let words: Vec<&str> = verdicts
        .iter()
        .map(|v| v["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["open", "holds", "fails", "holds"]);
    let close = &verdicts[0];
    let share = close["draws"]["share"].as_f64().unwrap();
    assert!((0.05..0.95).contains(&share), "{close}");
    assert_eq!(close["draws"]["draws"], 60);
    let percent = format!("{:.1} %", 100.0 * share);
    assert!(
        close["reason"].as_str().unwrap().contains(&percent),
        "{close}"
    );
    assert_eq!(verdicts[1]["draws"]["agree"], 60);
    assert_eq!(verdicts[2]["draws"]["agree"], 0);
    assert!(verdicts[3].get("draws").is_none(), "a value is no ranking");
    // Only what rankings compare is kept, and the page says the share.
    let drawn = draws(&run);
    assert_eq!(drawn.len(), 3);
    assert!(
        drawn
            .iter()
            .all(|row| row.figures.iter().all(|f| f.values.len() == 60))
    );
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains(&percent), "{percent}");
}

#[test]
fn draws_are_the_same_bytes_for_a_seed_and_for_any_order_of_rows() {
    let scene = Scene::new(&experiment(SYSTEMS, 3, "open"));
    let [first, second] = ["first", "second"].map(|out| scene.run(out, &[]));
    let read = |run: &Path| fs::read(run.join("draws.jsonl")).unwrap();
    assert!(read(&first) == read(&second));
    let other_seed = scene.run("seed", &["--set", "seed=7"]);
    assert!(read(&first) != read(&other_seed));
    let reversed = Scene::new(&experiment(
        "[allreduce, gpu_baseline, scatterreduce, spirt]",
        3,
        "open",
    ));
    let reversed = reversed.run("run", &[]);
    let (one, other) = (draws(&first), draws(&reversed));
    assert_eq!(one.len(), other.len());
    for row in &one {
        let same = other.iter().find(|other| other.row == row.row);
        assert_eq!(Some(row), same, "{}", row.row);
    }
    let shares = |run: &Path| verdicts(run)[0]["draws"].clone();
    assert_eq!(shares(&first), shares(&reversed));
}

/// Another seed or another constant makes other draws.
#[test]
fn draws_of_another_run_are_refused() {
    let scene = Scene::new(&experiment(SYSTEMS, 1, "open"));
    let run = scene.run("run", &[]);
    let constant = "simulation.constants={function.cold_start_s: {value: 0.5, stated_by: test}}";
    for (name, set, is_refused) in [
        ("same", "description=same", false),
        ("seed", "seed=7", true),
        ("constant", constant, true),
    ] {
        let other = scene.run(name, &["--set", set]);
        fs::copy(run.join("draws.jsonl"), other.join("draws.jsonl")).unwrap();
        let refusal = RunDirectory::open_whole(&other)
            .err()
            .map(|error| error.to_string());
        let names = |said: String| said.contains("draws.jsonl, line 1: the draws of spirt-");
        assert_eq!(refusal.is_some_and(names), is_refused, "{name}");
    }
}

#[test]
fn an_interrupted_run_draws_what_is_missing() {
    let scene = Scene::new(&experiment(SYSTEMS, 1, "open"));
    let run = scene.run("run", &[]);
    let file = run.join("draws.jsonl");
    let (whole, summary) = (fs::read(&file).unwrap(), verdicts(&run));
    // Killed in the middle of the second row's line.
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&file, &whole[..first + 40]).unwrap();
    assert_eq!(draws(&run).len(), 1);
    let output = scene.output("run", &["--resume", "-v"]);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert_eq!(printed.matches("draws of").count(), 4, "{printed}");
    assert!(fs::read(&file).unwrap() == whole);
    assert_eq!(verdicts(&run), summary);
    // Without its draws, a ranking is not decided by one trial.
    fs::remove_file(&file).unwrap();
    let directory = RunDirectory::open(&run).unwrap();
    let analysis = epochcost_judge::analysis::summarise(&directory).unwrap();
    let verdict = &analysis.summary.verdicts[1];
    assert_eq!(verdict.verdict.as_str(), "open");
    assert!(verdict.reason.contains("no draws"), "{}", verdict.reason);
    // Another number of draws is another run.
    let other = scene.output("run", &["--resume", "--set", "simulation.draws=61"]);
    assert!(!other.status.success());
}

#[test]
fn fewer_draws_than_decide_are_refused() {
    let scene = Scene::new(&experiment(SYSTEMS, 1, "open"));
    for draws in [0, 1, 58, 10_001] {
        let output = scene.output("run", &["--set", &format!("simulation.draws={draws}")]);
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains("59 to 10000"), "{printed}");
    }
}

#[test]
fn trained_rows_are_timed_again_and_not_trained_again() {
    let scene = Scene::new(TRAINED);
    let run = scene.run("run", &[]);
    let drawn = draws(&run);
    assert_eq!(drawn.len(), 3);
    for row in &drawn {
        assert_eq!(row.refused, None, "{}", row.row);
        for figure in &row.figures {
            assert_eq!(figure.values.len(), 60);
            assert!(figure.values.iter().all(Option::is_some), "{}", row.row);
        }
    }
    let verdicts = verdicts(&run);
    for (verdict, is_drawn) in verdicts.iter().zip([true, true, true, false]) {
        assert_eq!(verdict.get("draws").is_some(), is_drawn, "{verdict}");
    }
    // Two trainings take turns: MLLess's bytes have two values, its seconds as many as draws.
    let of = |row: usize, name: &str| {
        let figures = &drawn[row].figures;
        let figure = figures
            .iter()
            .find(|figure| figure.metric.name() == name)
            .unwrap();
        let values = figure.values.iter().map(|value| value.unwrap().to_bits());
        values.collect::<std::collections::BTreeSet<u64>>().len()
    };
    assert!(of(0, "bytes") <= 2);
    assert!(of(0, "seconds_per_epoch") > 50);
}
