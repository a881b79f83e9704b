//! Fields of an experiment, and options that change them.

use super::*;

#[test]
fn the_good_experiment_is_good() {
    let directory = with("epochs: 2", "epochs: 2");
    let output = epochcost(directory.path(), &["check", "bad.yaml", "--json"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked[0]["rows"].as_array().unwrap().len(), 2);
    // LambdaML's AllReduce: W + 1 puts and 2W gets a step (Jiang et al. 2021).
    assert_eq!(checked[0]["rows"][0]["traffic"]["puts"], 5 * 3 * 2);
    assert_eq!(checked[0]["rows"][0]["traffic"]["gets"], 8 * 3 * 2);
}

#[test]
fn unknown_field() {
    refused(
        "epochs: 2",
        "epoch: 2",
        &["bad.yaml:8:", "`epoch`", "did you mean `epochs`"],
    );
    refused(
        "- system: allreduce",
        "- {system: allreduce, wrokers: 2}",
        &[
            "bad.yaml:12:",
            "systems.0.wrokers",
            "did you mean `workers`",
        ],
    );
    refused(
        "train: 600",
        "training: 600",
        &["bad.yaml:3:", "dataset.training", "did you mean `train`"],
    );
}

#[test]
fn wrong_type() {
    refused(
        "epochs: 2",
        "epochs: two",
        &["bad.yaml:8:9", "epochs", "\"two\"", "a whole number"],
    );
    refused(
        "workers: 4",
        "workers: -4",
        &["bad.yaml:5:", "workers", "-4", "a whole number"],
    );
    refused(
        "workers: 4",
        "workers: [4]",
        &["bad.yaml:5:", "workers", "a list", "a whole number"],
    );
    refused(
        "epochs: 2",
        "epochs: 2\naugment: 3",
        &["bad.yaml:9:", "augment", "true or false"],
    );
}

/// A replica of one machine computes on a GPU of its own, which the machine must have.
#[test]
fn replicas_that_would_share_a_gpu() {
    let system = "- system: allreduce";
    refused_between_fields(
        system,
        "- system: mirrored",
        &[
            "bad.yaml:5:",
            "workers: mirrored keeps 4 replicas",
            "g4dn.xlarge has 1",
            "`instance_type` to g4dn.12xlarge or g6.12xlarge",
            "`device: {kind: cpu}`",
        ],
    );
    refused_between_fields(
        system,
        "- {system: mirrored, instance_type: t2.small}",
        &["bad.yaml:12:", "systems.0.instance_type", "t2.small has 0"],
    );
    for suitable in [
        "instance_type: g6.12xlarge",
        "workers: 1",
        "device: {kind: cpu}",
    ] {
        let directory = with(system, &format!("- {{system: mirrored, {suitable}}}"));
        let output = epochcost(directory.path(), &["check", "bad.yaml"]);
        assert_eq!(output.status.code(), Some(0), "{suitable}");
    }
}

#[test]
fn missing_field() {
    refused_between_fields(
        "workers: 4\n",
        "",
        &["bad.yaml:", "missing field `workers`", "add `workers:`"],
    );
    refused(
        "name: bad-input\n",
        "",
        &["missing field `name`", "add `name:`"],
    );
}

#[test]
fn duplicate_key() {
    refused(
        "workers: 4",
        "workers: 4\nworkers: 2",
        &["bad.yaml:6:", "duplicate key `workers`", "keep one"],
    );
    // Of two models of one name, one would be trained without a word.
    let model = "\n  - {name: mine, parameters: 1000, flops_per_sample: 1e4, activation_bytes_per_sample: 1e3}";
    refused_between_fields(
        "epochs: 2",
        &format!("epochs: 2\nmodels:{model}{model}"),
        &["bad.yaml:11:", "`mine` is listed twice, first in line 10"],
    );
}

#[test]
fn not_yaml() {
    refused(
        "epochs: 2",
        "epochs: [2",
        &["bad.yaml:", "not valid YAML", "indentation"],
    );
    // The parser blames the line before a tab.
    refused(
        "epochs: 2",
        "\tepochs: 2",
        &["bad.yaml:8:1:", "a tab indents this line", "with spaces"],
    );
}

#[test]
fn unknown_names() {
    refused(
        "system: allreduce",
        "system: allreduc",
        &[
            "bad.yaml:12:",
            "systems.0.system",
            "unknown system `allreduc`",
            "did you mean `allreduce`",
            "gpu_baseline",
        ],
    );
    refused_between_fields(
        "model: mobilenet",
        "model: mobilnet",
        &[
            "bad.yaml:4:",
            "unknown model",
            "did you mean `mobilenet`",
            "resnet18",
        ],
    );
    refused_between_fields(
        "synthetic-cifar10",
        "cifar11",
        &["bad.yaml:3:", "dataset.name", "did you mean `cifar10`"],
    );
    refused(
        "poll_interval_ms",
        "poll_interval",
        &[
            "bad.yaml:14:",
            "systems.1.settings.poll_interval",
            "did you mean `poll_interval_ms`",
        ],
    );
    refused(
        "epochs: 2",
        "epochs: 2\nplatform: azure",
        &["platform", "azure", "local, sim, aws"],
    );
}

#[test]
fn zeros() {
    refused(
        "workers: 4",
        "workers: 0",
        &["bad.yaml:5:10", "zero workers", "1 or more"],
    );
    refused(
        "batch_size: 8",
        "batch_size: 0",
        &["bad.yaml:6:", "zero batch_size", "1 or more"],
    );
    refused(
        "epochs: 2",
        "epochs: 0",
        &["bad.yaml:8:", "zero epochs", "1 or more"],
    );
    refused(
        "epochs: 2",
        "epochs: 2\ntrials: 0",
        &["bad.yaml:9:", "zero trials", "1 or more"],
    );
}

/// 600 samples are 150 for each of 4 workers: 18 batches of 8.
#[test]
fn more_batches_than_the_data_holds() {
    refused_between_fields(
        "batches_per_worker: 3",
        "batches_per_worker: 19",
        &[
            "bad.yaml:7:",
            "batches_per_worker",
            "600 training samples, 150 for each",
            "at most 18 batches fit",
        ],
    );
    refused_between_fields(
        "batch_size: 8",
        "batch_size: 151",
        &["bad.yaml:6:", "batch_size", "smaller batch"],
    );
}

/// 150 samples are 18 batches of 8 and the rest, on which peers train, too.
#[test]
fn peers_train_on_the_rest_of_their_share() {
    let peers = "  - system: p2p\n    batches_per_worker: 19\n  - {system: p2p_lambda, batches_per_worker: 19}\n  - system: allreduce\n";
    let directory = with("  - system: allreduce\n", peers);
    let output = epochcost(directory.path(), &["check", "bad.yaml"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{message}");
    let more = peers.replacen("19", "20", 1);
    refused_between_fields(
        "  - system: allreduce\n",
        &more,
        &["at most 19 batches fit", "set batches_per_worker to 19"],
    );
}

#[test]
fn outside_lambdas_limits() {
    refused_between_fields(
        "memory_mb: 2048",
        "memory_mb: 64",
        &["bad.yaml:9:12", "memory_mb", "128 to 10240"],
    );
    refused_between_fields(
        "memory_mb: 2048",
        "memory_mb: 2048\nfunction_memory_mb: {update_model: 64}",
        &["bad.yaml:10:", "function_memory_mb", "has no function"],
    );
    refused_between_fields(
        "memory_mb: 2048",
        "memory_mb: 10241",
        &["bad.yaml:9:", "memory_mb", "128 to 10240"],
    );
    refused(
        "timeout_s: 900",
        "timeout_s: 901",
        &["bad.yaml:10:", "timeout_s", "1 to 900"],
    );
}

#[test]
fn a_model_that_does_not_fit_the_images() {
    refused_between_fields(
        "model: mobilenet",
        "model: lenet5",
        &["bad.yaml:4:", "1x28x28", "3x32x32", "synthetic-mnist"],
    );
}

/// A head of other classes has sizes, and no code that trains it.
#[test]
fn a_head_of_other_classes_that_would_be_trained() {
    refused_between_fields(
        "model: mobilenet",
        "model: mobilenet\nclasses: 1000",
        &[
            "bad.yaml:5:",
            "classes",
            "exists as sizes alone",
            "--platform sim",
        ],
    );
    let directory = with("model: mobilenet", "model: mobilenet\nclasses: 1000");
    let arguments = ["check", "bad.yaml", "--platform", "sim", "--json"];
    let output = epochcost(directory.path(), &arguments);
    let checked: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // W + 1 puts a step of as many parameters as torchvision's MobileNet with its own head.
    let bytes = &checked[0]["rows"][0]["traffic"]["bytes_up"];
    assert_eq!(bytes.as_u64().unwrap(), 5 * 3 * 2 * 4 * 4_231_976);
}

#[test]
fn an_unsuitable_optimizer() {
    refused_between_fields(
        "epochs: 2",
        "epochs: 2\noptimizer: {adam: {learning_rate: 0.1}}",
        &["bad.yaml:9:", "optimizer", "SGD only"],
    );
    refused(
        "epochs: 2",
        "epochs: 2\noptimizer: {sgd: {learning_rate: -1}}",
        &[
            "bad.yaml:9:",
            "optimizer.sgd.learning_rate",
            "0 to 1000000000",
        ],
    );
    refused(
        "epochs: 2",
        "epochs: 2\noptimizer: {lars: {}}",
        &["bad.yaml:9:", "lars", "sgd, adam"],
    );
}

#[test]
fn a_precision_that_no_cpu_has() {
    for precision in ["tf32", "bf16"] {
        let by =
            format!("epochs: 2\nfidelity: tuned\ndevice: {{kind: cpu, precision: {precision}}}");
        let words = ["bad.yaml:10:", "device", "in fp32", precision, "kind: cuda"];
        refused_between_fields("epochs: 2", &by, &words);
    }
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
    let directory = with(
        "systems:\n  - system: allreduce\n  - system: spirt\n    settings: {poll_interval_ms: 50}\n",
        &format!("device: {{kind: cuda}}\nsystems:\n{systems}"),
    );
    let check = |set: &[&str]| {
        let set = set.iter().flat_map(|set| ["--set", *set]);
        let words: Vec<&str> = ["check", "bad.yaml"].into_iter().chain(set).collect();
        epochcost(directory.path(), &words)
    };
    let cloud_run = "simulation.profile=serverless-gpu";
    for accepted in [
        &[][..],
        &["platform=sim", cloud_run],
        &["platform=sim", "device.fallback=true"],
    ] {
        let output = check(accepted);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{accepted:?}: {message}");
    }
    let places = [
        "bad.yaml:11:",
        "device",
        "no GPU",
        "serverless-gpu (cloud-run-l4",
    ];
    assert_refused(&check(&["platform=sim"]), &places);
    let words = ["bad.yaml", "device", "serverless-gpu", "compute on a GPU"];
    assert_refused(
        &check(&["platform=sim", cloud_run, "device.kind=cpu"]),
        &words,
    );
    // Systems whose workers need links are refused on AWS before their device is.
    let directory = with(
        "epochs: 2",
        "epochs: 2\ndevice: {kind: cuda, fallback: true}",
    );
    let output = epochcost(
        directory.path(),
        &["check", "bad.yaml", "--set", "platform=aws"],
    );
    let words = [
        "bad.yaml:9:",
        "device",
        "AWS",
        "no GPU",
        "--platform local",
        "serverless-gpu",
    ];
    assert_refused(&output, &words);
}

#[test]
fn a_value_of_set_names_the_option() {
    let directory = with("epochs: 2", "epochs: 2");
    let output = epochcost(directory.path(), &["run", "bad.yaml", "--set", "workers=0"]);
    assert_refused(&output, &["bad.yaml", "--set workers=0", "zero workers"]);
}

/// A number has the unit of its field's name; 0 is not offered where it is refused next.
#[test]
fn a_remedy_names_the_unit_and_the_least_number() {
    let directory = with("epochs: 2", "epochs: 2");
    for (set, words) in [
        (
            "memory_mb=2GB",
            [
                "\"2GB\"",
                "a whole number of megabytes, as 2048, without a unit",
            ],
        ),
        (
            "timeout_s=15m",
            ["\"15m\"", "seconds, as 900, without a unit"],
        ),
        ("workers=-2", ["-2", "a whole number of 1 or more"]),
        ("epochs=two", ["\"two\"", "a whole number of 1 or more"]),
    ] {
        let output = epochcost(directory.path(), &["run", "bad.yaml", "--set", set]);
        assert_refused(&output, &[&format!("--set {set}"), words[0], words[1]]);
    }
    let output = epochcost(directory.path(), &["run", "bad.yaml", "--trials", "-3"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("'-3'") && message.contains("a whole number of 1 or more"),
        "{message}"
    );
}

/// The option is to blame, not the line of the file that it no longer fits.
#[test]
fn an_option_that_leaves_too_few_samples_is_named_itself() {
    let directory = with("epochs: 2", "epochs: 2");
    let output = epochcost(
        directory.path(),
        &["run", "bad.yaml", "--set", "workers=64"],
    );
    assert_refused(
        &output,
        &[
            "--set workers=64: workers: 3 batches of 8 are more than the data holds",
            "9 for each of 64 workers",
            "set batches_per_worker to 1, or leave it out",
        ],
    );
    let output = epochcost(
        directory.path(),
        &["run", "bad.yaml", "--set", "workers=600"],
    );
    assert_refused(
        &output,
        &["--set workers=600: workers: not one batch of 8 fits"],
    );
}

#[test]
fn the_size_of_an_image_is_asked_for_in_words() {
    let directory = with("epochs: 2", "epochs: 2");
    let own =
        "{name: mine, parameters: 1000, input: [1024], classes: 10, flops_per_sample: 1000000}";
    let file = directory.path().join("bad.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("model: mobilenet", &format!("models: [{own}]\nmodel: mine"));
    fs::write(&file, text).unwrap();
    let output = epochcost(directory.path(), &["check", "bad.yaml"]);
    let words = "a list of 3 values: channels, height and width, as [3, 32, 32]";
    assert_refused(&output, &["input", "a list of 1", words]);
}

#[test]
fn no_experiment() {
    let directory = tempfile::tempdir().unwrap();
    let output = epochcost(directory.path(), &["run", "none.yaml"]);
    assert_refused(&output, &["none.yaml", "list experiments"]);
    assert_eq!(epochcost(directory.path(), &["run"]).status.code(), Some(2));
}
