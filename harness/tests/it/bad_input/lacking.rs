//! What this machine, this build or a directory lacks.

use super::*;

/// Before any work: the data has not been generated yet.
#[test]
fn an_unwritable_output_directory() {
    let scene = with("epochs: 2", "epochs: 2").with("file", "");
    let ended = scene.run("run bad.yaml --out file/out").ends(2);
    ended.says(&["file/out", "--out"]);
    assert!(!scene.has("data"));
}

#[test]
fn what_is_not_in_this_build_is_lacking() {
    let ended = with("epochs: 2", "epochs: 2").run("run bad.yaml --platform aws");
    let words = [
        "error: this build has no AWS clients\n",
        "build it with them, which takes minutes and 8 GB of memory: cargo run --release --features aws -- …",
    ];
    ended.ends(5).says(&words);
}

/// `run` before the run's directory is made, `plan` where no profile speaks of a GPU.
#[test]
fn a_gpu_that_is_not_there_is_lacking_where_nothing_may_take_its_place() {
    let systems = "device: {kind: cuda}\nsystems:\n  - system: gpu_baseline\n";
    let scene = with(fields::SYSTEMS, systems);
    let said = [
        "run bad.yaml --out out",
        "profile --device cuda --model lenet5",
        "plan bad.yaml --compute laptop",
    ]
    .map(|arguments| {
        let mut command = scene.command(arguments);
        // No driver's library is found there, whatever this machine has.
        let command = command.env("LD_LIBRARY_PATH", "");
        let command = command.env("CUDA_VISIBLE_DEVICES", "");
        scene.end(command).ends(5).shown()
    });
    assert!(!scene.has("out/manifest.json"));
    assert_snapshot!(said.concat());
}

#[test]
fn real_services_that_are_missing_are_named_with_the_command_that_installs_them() {
    let scene = with("epochs: 2", "epochs: 2");
    let said = [
        ("EPOCHCOST_S3_SERVER", "nowhere"),
        // An address that was given holds a password, which is never repeated.
        ("EPOCHCOST_REAL_REDIS", "amqp://user:canary@host"),
    ]
    .map(|(variable, value)| {
        let mut command = scene.command("run bad.yaml --services real");
        command.env("PATH", "").env(variable, value);
        let said = scene.end(&mut command).ends(5).shown();
        assert!(!said.contains("canary"), "{said}");
        said
    });
    assert!(!scene.has("results"));
    assert_snapshot!(said.concat());
}

#[test]
fn nothing_to_list() {
    Scene::empty().run("list experiments --directory .").ends(4);
}
