//! Rankings of simulated rows over draws of the profile's constants, by the
//! program itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use epochcost_platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost_record::{RowDraws, RunDirectory};
use serde_json::Value;

use crate::support::{Ended, Scene, holds, items, sized};

/// Two exchanges whose order depends on S3's latency, and one claim on each side.
const EXPERIMENT: &str = "\
batches_per_worker: 2
trials: 1
simulation: {profile: aws-us-east-1, draws: 60}
systems: [spirt, scatterreduce, allreduce]
findings:
  - {says: close, formula: \"synchronise[scatterreduce] <= synchronise[allreduce]\", open_since: abc1234}
  - {says: far, formula: \"bytes[allreduce] >= 1.0e-9 * bytes[spirt]\"}
  - {says: wrong, formula: \"bytes[allreduce] <= 1.0e-9 * bytes[spirt]\", fails_since: abc1234}
  - {says: value, formula: \"bytes[allreduce] >= 0\"}
";

/// LeNet-5, trained in virtual time; MLLess sends what its filter passes.
const TRAINED: &str = "\
dataset: {name: synthetic-mnist, train: 128, test: 32}
model: lenet5
workers: 2
batch_size: 16
batches_per_worker: 4
epochs: 2
evaluate: every_epoch
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

fn scene(experiment: &str) -> Scene {
    Scene::of("experiment.yaml", &sized(experiment))
}

fn ended(scene: &Scene, out: &str, arguments: &str) -> Ended {
    let mut run = scene.command(&format!("run experiment.yaml --out {out} {arguments}"));
    let worker = find_or_build().unwrap().path.canonicalize().unwrap();
    scene.end(run.env(WORKER_VARIABLE, worker))
}

/// Runs into the directory `out`, and ends well.
#[track_caller]
fn run(scene: &Scene, out: &str, arguments: &str) -> PathBuf {
    ended(scene, out, arguments).ends(0);
    scene.file(out)
}

fn verdicts(scene: &Scene, run: &str) -> Vec<Value> {
    let summary = scene.value(&format!("{run}/summary.json"));
    items(&summary, "verdicts").to_vec()
}

fn draws(run: &Path) -> Vec<RowDraws> {
    RunDirectory::open(run).unwrap().draws().unwrap()
}

#[test]
fn a_ranking_in_doubt_is_undecided_with_its_share() {
    let scene = scene(EXPERIMENT);
    let run = run(&scene, "run", "");
    let verdicts = verdicts(&scene, "run");
    let words = verdicts.iter().map(|verdict| &verdict["verdict"]);
    assert!(
        words.eq(["open", "holds", "fails", "holds"]),
        "{verdicts:?}"
    );
    let close = &verdicts[0];
    let share = close["draws"]["share"].as_f64().unwrap();
    assert!((0.05..0.95).contains(&share), "{close}");
    assert_eq!(close["draws"]["draws"], 60);
    let percent = format!("{:.1} %", 100.0 * share);
    holds(close["reason"].as_str().unwrap(), &[&percent]);
    assert_eq!(verdicts[1]["draws"]["agree"], 60);
    assert_eq!(verdicts[2]["draws"]["agree"], 0);
    assert!(verdicts[3].get("draws").is_none(), "a value is no ranking");
    // Only what rankings compare is kept, and the page says the share.
    let drawn = draws(&run);
    assert_eq!(drawn.len(), 3);
    let mut figures = drawn.iter().flat_map(|row| &row.figures);
    assert!(figures.all(|figure| figure.values.len() == 60));
    let page = scene.read("run/report.html");
    assert!(page.contains(&percent), "{percent}");
}

#[test]
fn draws_are_the_same_bytes_for_a_seed_and_for_any_order_of_rows() {
    let experiment = EXPERIMENT.replace("trials: 1", "trials: 3");
    let drawn = scene(&experiment);
    let [first, second, other_seed] = [("first", ""), ("second", ""), ("seed", "--set seed=7")]
        .map(|(out, seed)| {
            run(&drawn, out, seed);
            drawn.read(&format!("{out}/draws.jsonl"))
        });
    assert!(first == second);
    assert!(first != other_seed);
    let order = "[allreduce, gpu_baseline, scatterreduce, spirt]";
    let reversed = scene(&experiment.replace("[spirt, scatterreduce, allreduce]", order));
    let other = draws(&run(&reversed, "run", ""));
    let one = draws(&drawn.file("first"));
    assert_eq!(one.len(), other.len());
    for row in &one {
        assert!(other.contains(row), "{}", row.row);
    }
    let shares = [verdicts(&drawn, "first"), verdicts(&reversed, "run")];
    assert_eq!(shares[0][0]["draws"], shares[1][0]["draws"]);
}

/// Another seed or another constant makes other draws.
#[test]
fn draws_of_another_run_are_refused() {
    let scene = scene(EXPERIMENT);
    let first = run(&scene, "run", "");
    let constant = "{function.cold_start_s: {value: 0.5, stated_by: test}}";
    let constants = format!("simulation.constants={constant}");
    for (name, set, is_refused) in [
        ("same", "description=same", false),
        ("seed", "seed=7", true),
        ("constant", &constants, true),
    ] {
        let other = run(&scene, name, &format!("--set '{set}'"));
        fs::copy(first.join("draws.jsonl"), other.join("draws.jsonl")).unwrap();
        let opened = RunDirectory::open_whole(&other).map_err(|error| error.to_string());
        let names = |said: String| said.contains("draws.jsonl, line 1: the draws of spirt-");
        assert_eq!(opened.err().is_some_and(names), is_refused, "{name}");
    }
}

#[test]
fn an_interrupted_run_draws_what_is_missing() {
    let scene = scene(EXPERIMENT);
    let run = run(&scene, "run", "");
    let file = run.join("draws.jsonl");
    let (whole, summary) = (fs::read(&file).unwrap(), verdicts(&scene, "run"));
    // Killed in the middle of the second row's line.
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&file, &whole[..first + 40]).unwrap();
    assert_eq!(draws(&run).len(), 1);
    let printed = ended(&scene, "run", "--resume -v").ends(0).message();
    assert_eq!(printed.matches("draws of").count(), 4, "{printed}");
    assert!(fs::read(&file).unwrap() == whole);
    assert_eq!(verdicts(&scene, "run"), summary);
    // Without its draws, a ranking is not decided by one trial.
    fs::remove_file(&file).unwrap();
    let directory = RunDirectory::open(&run).unwrap();
    let analysis = epochcost_judge::analysis::summarise(&directory).unwrap();
    let verdict = &analysis.summary.verdicts[1];
    assert_eq!(verdict.verdict.as_str(), "open");
    holds(&verdict.reason, &["no draws"]);
    // Another number of draws is another run.
    let other = ended(&scene, "run", "--resume --set simulation.draws=61");
    assert!(!other.output.status.success());
}

#[test]
fn fewer_draws_than_decide_are_refused() {
    let scene = scene(EXPERIMENT);
    for draws in [0, 1, 58, 10_001] {
        let refused = ended(&scene, "run", &format!("--set simulation.draws={draws}"));
        refused.ends(2).says(&["59 to 10000"]);
    }
}

#[test]
fn trained_rows_are_timed_again_and_not_trained_again() {
    let scene = scene(TRAINED);
    let run = run(&scene, "run", "");
    let drawn = draws(&run);
    assert_eq!(drawn.len(), 3);
    for row in &drawn {
        assert_eq!(row.refused, None, "{}", row.row);
        for figure in &row.figures {
            assert_eq!(figure.values.len(), 60);
            assert!(figure.values.iter().all(Option::is_some), "{}", row.row);
        }
    }
    let verdicts = verdicts(&scene, "run");
    for (verdict, is_drawn) in verdicts.iter().zip([true, true, true, false]) {
        assert_eq!(verdict.get("draws").is_some(), is_drawn, "{verdict}");
    }
    // Two trainings take turns: MLLess's bytes have two values, its seconds as many as draws.
    let of = |row: usize, name: &str| {
        let mut figures = drawn[row].figures.iter();
        let figure = figures.find(|figure| figure.metric.name() == name);
        let values = figure.unwrap().values.iter();
        let values = values.map(|value| value.unwrap().to_bits());
        values.collect::<BTreeSet<u64>>().len()
    };
    assert!(of(0, "bytes") <= 2);
    assert!(of(0, "seconds_per_epoch") > 50);
}
