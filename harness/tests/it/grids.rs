//! The settings of figure 4 are those that the recorded search chose.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use epochcost_experiment::{Experiment, Options};
use epochcost_systems::Job;
use serde_json::Value;

const RECORD: &str = "results/records/2026-11-22-figure4-grid.csv";
/// Tries per system.
const TRIES: usize = 36;
const GRIDS: [&str; 2] = ["figure4-grid", "figure4-spirt-grid"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn jobs(file: &str) -> Vec<Job> {
    let file = root().join("experiments/cost-performance").join(file);
    let experiment = Experiment::load(&file, &Options::default())
        .unwrap_or_else(|error| panic!("{}", epochcost_planner::error::Error::from(error)));
    experiment.rows.into_iter().map(|row| row.job).collect()
}

/// What a search chooses: rounds per epoch, learning rate and momentum, as written.
type Setting = (String, String, String);

fn setting(job: &Job) -> Setting {
    let optimizer = serde_json::to_value(job.optimizer).unwrap();
    let number = |field: &str| optimizer["sgd"][field].to_string();
    let rounds = match &job.settings["rounds_per_epoch"] {
        Value::Null => String::new(),
        rounds => rounds.to_string(),
    };
    (rounds, number("learning_rate"), number("momentum"))
}

/// The tries of the record by system: setting, and images of the validation split that were
/// classified correctly.
fn tries() -> BTreeMap<String, Vec<(Setting, u32)>> {
    let text = fs::read_to_string(root().join(RECORD)).unwrap();
    let mut tries: BTreeMap<String, Vec<(Setting, u32)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [system, rounds, rate, momentum, correct, ..] = fields[..] else {
            panic!("{line}");
        };
        let setting = (rounds.to_owned(), rate.to_owned(), momentum.to_owned());
        let correct = correct.parse().unwrap();
        tries
            .entry(system.to_owned())
            .or_default()
            .push((setting, correct));
    }
    tries
}

#[test]
fn every_system_had_the_tries_of_the_grids_and_as_many_as_the_others() {
    let mut planned: BTreeMap<String, Vec<Setting>> = BTreeMap::new();
    for job in GRIDS
        .iter()
        .flat_map(|grid| jobs(&format!("grids/{grid}.yaml")))
    {
        planned
            .entry(job.system.clone())
            .or_default()
            .push(setting(&job));
    }
    let tried = tries();
    assert_eq!(planned.len(), tried.len());
    for (system, mut settings) in planned {
        assert_eq!(settings.len(), TRIES, "{system}");
        let mut recorded: Vec<Setting> = tried[&system].iter().map(|(s, _)| s.clone()).collect();
        settings.sort();
        recorded.sort();
        assert_eq!(settings, recorded, "{system}");
    }
}

/// The budget of samples is one, and each system's setting is the first of the best tries.
#[test]
fn figure_4_carries_what_the_search_chose() {
    let searched = &jobs("grids/figure4-grid.yaml")[0];
    let tried = tries();
    for job in jobs("figure4.yaml") {
        let best = tried[&job.system].iter().map(|(_, correct)| correct).max();
        let chosen = tried[&job.system]
            .iter()
            .find(|(_, correct)| Some(correct) == best);
        assert_eq!(setting(&job), chosen.unwrap().0, "{}", job.system);
        let budget = |job: &Job| {
            let steps = job.epochs * job.batches_per_worker;
            (steps * job.workers * job.batch_size, job.data.clone())
        };
        assert_eq!(budget(&job), budget(searched), "{}", job.system);
        assert_ne!(job.seed, searched.seed);
    }
}
