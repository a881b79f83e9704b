//! Datasets that are missing or damaged.

use super::*;

const GENERATED: &str = "{name: synthetic-cifar10, train: 600, test: 100}";

/// A data directory of CIFAR-10's form, with files of that many zeros in place of its own.
fn cifar(bytes: usize) -> Scene {
    let scene = with(GENERATED, "{name: cifar10, directory: cifar}");
    fs::create_dir(scene.file("cifar")).unwrap();
    let batches = (1..=5).map(|batch| format!("data_batch_{batch}"));
    for name in batches.chain(["test_batch".to_owned()]) {
        fs::write(scene.file(&format!("cifar/{name}.bin")), vec![0; bytes]).unwrap();
    }
    scene
}

#[test]
fn a_missing_data_file() {
    assert_snapshot!(refused(&[(GENERATED, "{name: cifar10}")]));
}

#[test]
fn a_truncated_cifar_file() {
    let scene = cifar(3073);
    let message = refusal(scene.run("run bad.yaml"));
    assert_eq!(message, refusal(scene.run("check bad.yaml")));
    assert_snapshot!(message);
}

/// Right sizes, wrong bytes: only reading the file can tell, so only `run` does.
#[test]
fn a_corrupted_cifar_file() {
    assert_snapshot!(refusal(cifar(30_730_000).run("run bad.yaml --out out")));
}

#[test]
fn a_corrupted_generated_file() {
    let directory = "{name: synthetic-cifar10, train: 600, test: 100, directory: made}";
    let scene = with(GENERATED, directory);
    let made = scene.run("run bad.yaml --out first");
    assert!(scene.has("made"), "{}", made.message());
    let file = scene.file("made/data_batch_3.bin");
    let mut bytes = fs::read(&file).unwrap();
    bytes[5] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_snapshot!(refusal(scene.run("run bad.yaml --out out")));
}
