//! Experiments with a described model, for unit tests.

use std::path::Path;

use epochcost_experiment::{Document, Experiment, Options};
use epochcost_platform::simulator;

/// On little data: every setting can be simulated whole.
pub(super) const TEXT: &str = "\
schema: 1
name: mine
platform: sim
dataset: {samples: 1000, test: 10, bytes_per_sample: 3073}
models:
  - {name: mine, parameters: 2000000, flops_per_sample: 5.0e+8, activation_bytes_per_sample: 1048576}
model: mine
workers: 4
batch_size: 64
epochs: 1
systems: [scatterreduce]
";

/// The experiment with other values of some of its fields.
pub(super) fn experiment(fields: &[(&str, &str)], keeps_impossible: bool) -> Experiment {
    let mut document = Document::parse(Path::new("mine.yaml"), TEXT.to_owned()).unwrap();
    for (field, value) in fields {
        document.set_option("test", field, value).unwrap();
    }
    let options = Options {
        platform: Some(simulator()),
        keeps_impossible,
        ..Options::default()
    };
    Experiment::from_document(document, &options).unwrap()
}
