//! Every model from the command line: listed, and simulated on both image formats.

use epochcost_systems::models;

use crate::support::{Scene, holds, items};

#[test]
fn all_are_listed_with_their_counts() {
    let listed = Scene::empty().json("list models --json");
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
        let rows = taken.clone();
        let rows = rows.map(|model| format!("  - {{system: allreduce, model: {}}}\n", model.name));
        let experiment = format!(
            "schema: 1\nname: all\nplatform: sim\ndataset: {{name: {dataset}}}\nworkers: 2\n\
             batch_size: 8\nbatches_per_worker: 1\nepochs: 1\nevaluate: never\n\
             memory_mb: 10240\nsimulation: {{compute: [stated-flops]}}\nsystems:\n{}",
            rows.collect::<String>()
        );
        let plan = Scene::of("all.yaml", &experiment).json("plan all.yaml --json");
        let text = plan.to_string();
        for model in taken {
            let id = format!("allreduce-{}-paper", model.name.replace('_', "-"));
            holds(&text, &[&id]);
        }
        for row in items(&plan, "rows") {
            assert!(row["infeasible"].is_null(), "{row}");
        }
    }
}
