//! Constants of a row's own, by the program itself.
use crate::support::{Scene, holds, sized};

/// Simulated, with sizes only.
const EXPERIMENT: &str = "\
simulation: {compute: [stated-flops], limits: false}
systems:
  - {system: allreduce, name: plain}
  - {system: allreduce, name: log, settings: {rewrites_log: true}}
  - {system: allreduce, name: slow, constants: {function.arithmetic_bytes_per_s: {value: 1.0e7, assumed: slow sums}}}
";

#[test]
fn constants_of_a_row_are_of_the_profile_and_of_simulations() {
    let refused = |from: &str, to: &str| {
        let scene = Scene::of("gap.yaml", &sized(EXPERIMENT));
        scene.edit("gap.yaml", from, to);
        scene.run("check gap.yaml").refusal()
    };
    let misspelt = refused("arithmetic_bytes", "arithmetics_bytes");
    let meant = "did you mean `function.arithmetic_bytes_per_s`";
    holds(misspelt, &["gap.yaml:16:83: ", meant]);
    let stated = "{value: 1.0e7, assumed: slow sums}";
    let sim = "platform: sim\ndataset: {name: ";
    let said = [
        ("value: 1.0e7", "value: -1"),
        (stated, "1.0e7"),
        (stated, "{value: 1.0e7, assumed: \"\"}"),
        ("assumed: slow sums", "assumed: a, stated_by: b"),
        (sim, "platform: local\ndataset: {name: synthetic-"),
    ]
    .map(|(from, to)| refused(from, to));
    insta::assert_snapshot!(said.concat());
}
