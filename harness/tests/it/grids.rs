//! The settings of figure 4 are those that the recorded search chose.
use std::collections::BTreeMap;

use epochcost_systems::Job;
use serde_json::Value;

use crate::support::{load, root, shipped};

const RECORD: &str = "results/records/2026-11-22-figure4-grid.csv";
/// Tries per system.
const TRIES: usize = 36;
const GRIDS: [&str; 2] = ["grids/figure4-grid.yaml", "grids/figure4-spirt-grid.yaml"];

fn jobs(file: &str) -> Vec<Job> {
    let file = root().join("experiments/cost-performance").join(file);
    load(&file).rows.into_iter().map(|row| row.job).collect()
}

/// What a search chooses: rounds per epoch, learning rate and momentum, as written.
type Setting = [String; 3];

fn setting(job: &Job) -> Setting {
    let optimizer = serde_json::to_value(job.optimizer).unwrap();
    let number = |field: &str| optimizer["sgd"][field].to_string();
    let rounds = match &job.settings["rounds_per_epoch"] {
        Value::Null => String::new(),
        rounds => rounds.to_string(),
    };
    [rounds, number("learning_rate"), number("momentum")]
}

/// The tries of the record by system: setting, and images of the validation split that were
/// classified correctly.
fn tries() -> BTreeMap<String, Vec<(Setting, u32)>> {
    let text = shipped(RECORD);
    let mut tries: BTreeMap<String, Vec<(Setting, u32)>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [system, rounds, rate, momentum, correct, ..] = fields[..] else {
            panic!("{line}");
        };
        let setting = [rounds, rate, momentum].map(str::to_owned);
        let of_system = tries.entry(system.to_owned()).or_default();
        of_system.push((setting, correct.parse().unwrap()));
    }
    tries
}

#[test]
fn every_system_had_the_tries_of_the_grids_and_as_many_as_the_others() {
    let mut planned: BTreeMap<String, Vec<Setting>> = BTreeMap::new();
    for job in GRIDS.iter().flat_map(|grid| jobs(grid)) {
        let setting = setting(&job);
        planned.entry(job.system).or_default().push(setting);
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
    let searched = &jobs(GRIDS[0])[0];
    let tried = tries();
    for job in jobs("figure4.yaml") {
        let mut tries = tried[&job.system].iter();
        let best = tries.clone().map(|(_, correct)| correct).max();
        let chosen = tries.find(|(_, correct)| Some(correct) == best);
        assert_eq!(setting(&job), chosen.unwrap().0, "{}", job.system);
        let budget = |job: &Job| {
            let steps = job.epochs * job.batches_per_worker;
            (steps * job.workers * job.batch_size, job.data.clone())
        };
        assert_eq!(budget(&job), budget(searched), "{}", job.system);
        assert_ne!(job.seed, searched.seed);
    }
}
