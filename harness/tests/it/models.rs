//! Every model from the command line: listed, and simulated on both image formats.

use std::fs;
use std::path::Path;

use crate::support::program;

use epochcost_systems::models;
use serde_json::Value;

fn epochcost(directory: &Path, arguments: &[&str]) -> Value {
    let mut command = program();
    let output = command.args(arguments).current_dir(directory).output();
    let output = output.unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn all_are_listed_with_their_counts() {
    let directory = tempfile::tempdir().unwrap();
    let listed = epochcost(directory.path(), &["list", "models", "--json"]);
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), models().len());
    for (line, model) in listed.iter().zip(models()) {
        assert_eq!(line["name"], model.name);
        assert_eq!(line["classes"], model.classes);
        assert_eq!(line["parameters"], model.sizes.parameters);
    }
}

/// By stated rates, so that none needs a measurement; a single-channel set as well, whose
/// images are enlarged.
#[test]
fn all_are_planned_on_every_dataset_that_they_take() {
    for (dataset, shape) in [("mnist", [1, 28, 28]), ("cifar10", [3, 32, 32])] {
        let taken = models().iter().filter(|model| model.takes(shape, 10));
        let rows: String = taken
            .clone()
            .map(|model| format!("  - {{system: allreduce, model: {}}}\n", model.name))
            .collect();
        let experiment = format!(
            "schema: 1\nname: all\nplatform: sim\ndataset: {{name: {dataset}}}\nworkers: 2\n\
             batch_size: 8\nbatches_per_worker: 1\nepochs: 1\nevaluate: never\n\
             memory_mb: 10240\nsimulation: {{compute: [stated-flops]}}\nsystems:\n{rows}"
        );
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("all.yaml"), experiment).unwrap();
        let plan = epochcost(directory.path(), &["plan", "all.yaml", "--json"]);
        let text = plan.to_string();
        for model in taken {
            assert!(text.contains(&format!("allreduce-{}-paper", model.name.replace('_', "-"))));
        }
        for row in plan["rows"].as_array().unwrap() {
            assert!(row["infeasible"].is_null(), "{row}");
        }
    }
}
