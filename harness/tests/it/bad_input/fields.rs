//! Fields of an experiment, and options that change them.

use super::*;

pub(super) const SYSTEMS: &str =
    "systems:\n  - system: allreduce\n  - system: spirt\n    settings: {poll_interval_ms: 50}\n";

#[test]
fn the_good_experiment_is_good() {
    let checked = with("epochs: 2", "epochs: 2").json("check bad.yaml --json");
    assert_eq!(checked[0]["rows"].as_array().unwrap().len(), 2);
    // LambdaML's AllReduce: W + 1 puts and 2W gets a step (Jiang et al. 2021).
    assert_eq!(checked[0]["rows"][0]["traffic"]["puts"], 5 * 3 * 2);
    assert_eq!(checked[0]["rows"][0]["traffic"]["gets"], 8 * 3 * 2);
}

#[test]
fn names_that_are_not_known() {
    assert_snapshot!(refused(&[
        "epochs: 2 | epoch: 2",
        "- system: allreduce | - {system: allreduce, wrokers: 2}",
        "train: 600 | training: 600",
        "system: allreduce | system: allreduc",
        "model: mobilenet | model: mobilnet",
        "synthetic-cifar10 | cifar11",
        "poll_interval_ms | poll_interval",
        "epochs: 2 | epochs: 2\nplatform: azure",
        "epochs: 2 | epochs: 2\noptimizer: {lars: {}}",
        "epochs: 2 | epochs: 2\nservices: real\ntensor_store: {kind: modul}",
    ]));
}

/// A list of the size of an image is asked for in words.
#[test]
fn wrong_types_and_numbers() {
    assert_snapshot!(refused(&[
        "epochs: 2 | epochs: two",
        "workers: 4 | workers: -4",
        "workers: 4 | workers: [4]",
        "epochs: 2 | epochs: 2\naugment: 3",
        "workers: 4 | workers: 0",
        "batch_size: 8 | batch_size: 0",
        "epochs: 2 | epochs: 0",
        "epochs: 2 | epochs: 2\ntrials: 0",
        "timeout_s: 900 | timeout_s: 901",
        "epochs: 2 | epochs: 2\noptimizer: {sgd: {learning_rate: -1}}",
        "model: mobilenet | \
         models: [{name: mine, parameters: 1000, input: [1024], classes: 10, flops_per_sample: 1000000}]\nmodel: mine",
    ]));
}

#[test]
fn what_is_missing_twice_or_not_yaml() {
    // Of two models of one name, one would be trained without a word.
    let model = "\n  - {name: mine, parameters: 1000, flops_per_sample: 1e4, activation_bytes_per_sample: 1e3}";
    assert_snapshot!(refused(&[
        "workers: 4\n | ",
        "name: bad-input\n | ",
        "workers: 4 | workers: 4\nworkers: 2",
        "epochs: 2 | sweep: {epochs: [2, 2]}",
        &format!("epochs: 2 | epochs: 2\nmodels:{model}{model}"),
        "epochs: 2 | epochs: [2",
        // The parser blames the line before a tab.
        "epochs: 2 | \tepochs: 2",
    ]));
}

/// A replica of one machine computes on a GPU of its own; 600 samples are 150 for each of 4 workers: 18 batches of
/// 8, and the rest, on which peers train, too; and a head of other classes has sizes, and no code that trains it.
#[test]
fn what_does_not_fit_a_model_its_data_or_its_place() {
    let system = "  - system: allreduce\n";
    let peers = "  - system: p2p\n    batches_per_worker: 19\n  - {system: p2p_lambda, batches_per_worker: 19}\n  - system: allreduce\n";
    with(system, peers).run("check bad.yaml").ends(0);
    for suitable in [
        "instance_type: g6.12xlarge",
        "workers: 1",
        "device: {kind: cpu}",
    ] {
        let mirrored = format!("  - {{system: mirrored, {suitable}}}\n");
        with(system, &mirrored).run("check bad.yaml").ends(0);
    }
    assert_snapshot!(refused(&[
        "batches_per_worker: 3 | batches_per_worker: 19",
        "batch_size: 8 | batch_size: 151",
        &format!("{system} | {}", peers.replacen("19", "20", 1)),
        "- system: allreduce | - system: mirrored",
        "- system: allreduce | - {system: mirrored, instance_type: t2.small}",
        "memory_mb: 2048 | memory_mb: 64",
        "memory_mb: 2048 | memory_mb: 10241",
        "memory_mb: 2048 | memory_mb: 2048\nfunction_memory_mb: {update_model: 64}",
        "model: mobilenet | model: lenet5",
        "model: mobilenet | model: mobilenet\nclasses: 1000",
        "epochs: 2 | epochs: 2\noptimizer: {adam: {learning_rate: 0.1}}",
        "epochs: 2 | epochs: 2\nfidelity: tuned\ndevice: {kind: cpu, precision: tf32}",
        "epochs: 2 | epochs: 2\nfidelity: tuned\ndevice: {kind: cpu, precision: bf16}",
        "epochs: 2 | epochs: 2\ntensor_store: {kind: plain}",
    ]));
    let classes = with("model: mobilenet", "model: mobilenet\nclasses: 1000");
    let checked = classes.json("check bad.yaml --platform sim --json");
    // W + 1 puts a step of as many parameters as torchvision's MobileNet with its own head.
    let bytes = &checked[0]["rows"][0]["traffic"]["bytes_up"];
    assert_eq!(bytes.as_u64().unwrap(), 5 * 3 * 2 * 4 * 4_231_976);
}

/// The device is the worker's: every system has it on this machine, and functions in a simulation whose
/// profile states it. What refuses it names the profiles whose functions have a GPU.
#[test]
fn a_gpu_for_functions() {
    let systems: String = epochcost_systems::systems()
        .iter()
        .map(|system| match system.name() {
            "kubeml" => "  - {system: kubeml, settings: {document_samples: 16}}\n".to_owned(),
            name => format!("  - {{system: {name}, instance_type: g4dn.12xlarge}}\n"),
        })
        .collect();
    let systems = format!("device: {{kind: cuda}}\nsystems:\n{systems}");
    let scene = with(SYSTEMS, &systems);
    let cloud_run = "--set platform=sim --set simulation.profile=serverless-gpu";
    let fallback = "--set platform=sim --set device.fallback=true";
    for accepted in ["", cloud_run, fallback] {
        scene.run(&format!("check bad.yaml {accepted}")).ends(0);
    }
    // Systems whose workers need links are refused on AWS before their device is.
    let device = "epochs: 2\ndevice: {kind: cuda, fallback: true}";
    let fallback = with("epochs: 2", device);
    let said = [
        scene.run("check bad.yaml --set platform=sim"),
        scene.run(&format!("check bad.yaml {cloud_run} --set device.kind=cpu")),
        fallback.run("check bad.yaml --set platform=aws"),
    ];
    assert_snapshot!(said.map(refusal).concat());
}

/// The option is to blame, not the line of the file that it no longer fits. A number has the unit of its
/// field's name; 0 is not offered where it is refused next.
#[test]
fn a_value_of_an_option_names_the_option() {
    let scene = with("epochs: 2", "epochs: 2");
    let said = [
        "--set workers=0",
        "--set workers=-2",
        "--set epochs=two",
        "--set memory_mb=2GB",
        "--set timeout_s=15m",
        "--set workers=64",
        "--set workers=600",
        "--trials -3",
    ]
    .map(|option| scene.run(&format!("run bad.yaml {option}")).refusal());
    assert_snapshot!(said.concat());
}

#[test]
fn no_experiment() {
    let scene = Scene::empty();
    let none = scene.run("run none.yaml");
    refusal(none.says(&["none.yaml", "list experiments"]));
    scene.run("run").ends(2);
}
