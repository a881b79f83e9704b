//! Every experiment that is shipped is valid.
use std::collections::BTreeSet;
use std::path::PathBuf;

use epochcost_experiment::{Experiment, Options, yaml_files};
use epochcost_spec::claims::own::{OverRows, Place};
use epochcost_spec::rows::Row;
use epochcost_systems::Device;

use crate::support::{Scene, holds, load, root, sized};

fn shipped() -> Vec<PathBuf> {
    let files = yaml_files(&root().join("experiments")).unwrap();
    assert!(!files.is_empty());
    files
}

fn named(name: &str) -> Experiment {
    load(&root().join(format!("experiments/{name}.yaml")))
}

#[test]
fn every_shipped_experiment_is_valid_and_named_like_its_file() {
    for file in shipped() {
        let experiment = load(&file);
        assert_eq!(file.file_stem().unwrap().to_str().unwrap(), experiment.name);
        assert!(!experiment.description.is_empty(), "{}", file.display());
    }
}

/// Every system is compared with itself on the other device.
#[test]
fn the_run_on_a_gpu_compares_every_system() {
    let experiment = named("cuda");
    let rows: Vec<&Row> = experiment.rows.iter().collect();
    let formula = experiment.claims[0].formula.as_deref();
    let places = OverRows::new(formula.unwrap(), &rows).unwrap().places;
    for system in epochcost_systems::systems() {
        let of_system = rows.iter().filter(|row| row.job.system == system.name());
        let mut rows: Vec<&&Row> = of_system.collect();
        rows.sort_by_key(|row| row.job.device == Device::Cuda);
        let devices: Vec<Device> = rows.iter().map(|row| row.job.device).collect();
        assert_eq!(devices, [Device::Cpu, Device::Cuda], "{}", system.name());
        let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
        let compared = |place: &Place| place.rows().into_iter().collect::<BTreeSet<_>>() == ids;
        let count = places.iter().filter(|place| compared(place)).count();
        assert_eq!(count, 1, "{ids:?}");
    }
}

/// MobileNet's run has every system at one size; the smoke run all but those that only aggregate otherwise.
#[test]
fn the_first_runs_have_every_system() {
    let known = epochcost_systems::systems().iter();
    let known: Vec<&str> = known.map(|system| system.name()).collect();
    let [smoke, mobilenet] = ["smoke", "mobilenet"].map(named);
    for experiment in [&smoke, &mobilenet] {
        let rows = experiment.rows.iter();
        let systems: Vec<&str> = rows.map(|row| row.job.system.as_str()).collect();
        let mut expected = known.clone();
        if experiment.name == "smoke" {
            let aggregation = ["grads_sharding", "lambda_fl", "lifl"];
            expected.retain(|system| !aggregation.contains(system));
        }
        assert_eq!(systems, expected, "{}", experiment.name);
    }
    // Systems with many short epochs are evaluated after each tenth of them.
    for row in smoke.rows.iter().filter(|row| row.job.epochs >= 50) {
        let (job, tenth) = (&row.job, row.job.epochs / 10);
        let evaluated = (0..job.epochs).filter(|epoch| job.evaluates_after(*epoch));
        let expected = (1..=10).map(|part| part * tenth - 1);
        assert!(evaluated.eq(expected), "{}", row.id);
    }
    for row in &mobilenet.rows {
        let job = &row.job;
        assert_eq!(job.model, "mobilenet");
        assert_eq!((job.workers, job.epochs, job.batches_per_worker), (4, 2, 3));
    }
}

#[test]
fn the_last_epoch_is_evaluated_too() {
    let scene = Scene::empty();
    let with = |every: &str| {
        let own = format!("epochs: 8\nevaluate: {{every: {every}}}\nsystems: [allreduce]\n");
        scene.write("some.yaml", &sized(&own));
        Experiment::load(&scene.file("some.yaml"), &Options::default())
    };
    let experiment = with("3").unwrap();
    let job = &experiment.rows[0].job;
    let evaluated: Vec<usize> = (0..8).filter(|epoch| job.evaluates_after(*epoch)).collect();
    assert_eq!(evaluated, [2, 5, 7]);
    let refused = with("0").unwrap_err().to_string();
    holds(&refused, &["a whole number of 1 or more"]);
}
