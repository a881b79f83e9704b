//! Constants of a row's own, by the program itself.
use crate::support::Scene;

/// Simulated, with sizes only.
const EXPERIMENT: &str = "\
schema: 1
name: gap
platform: sim
dataset: {name: cifar10}
model: mobilenet
workers: 4
batch_size: 64
batches_per_worker: 3
epochs: 1
evaluate: never
simulation: {compute: [stated-flops], limits: false}
systems:
  - {system: allreduce, name: plain}
  - {system: allreduce, name: log, settings: {rewrites_log: true}}
  - {system: allreduce, name: slow, constants: {function.arithmetic_bytes_per_s: {value: 1.0e7, assumed: slow sums}}}
";

#[test]
fn constants_of_a_row_are_of_the_profile_and_of_simulations() {
    let refused = |from: &str, to: &str| {
        let scene = Scene::of("gap.yaml", EXPERIMENT);
        scene.edit("gap.yaml", from, to);
        scene.run("check gap.yaml").ends(2)
    };
    let misspelt = refused("arithmetic_bytes", "arithmetics_bytes");
    misspelt.says(&[
        "gap.yaml:15:83: ",
        "did you mean `function.arithmetic_bytes_per_s`",
    ]);
    let stated = "{value: 1.0e7, assumed: slow sums}";
    let sim = "platform: sim\ndataset: {name: ";
    let said = [
        ("value: 1.0e7", "value: -1"),
        (stated, "1.0e7"),
        (stated, "{value: 1.0e7, assumed: \"\"}"),
        ("assumed: slow sums", "assumed: a, stated_by: b"),
        (sim, "platform: local\ndataset: {name: synthetic-"),
    ]
    .map(|(from, to)| refused(from, to).shown());
    insta::assert_snapshot!(said.concat());
}
