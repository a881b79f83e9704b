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
fn missing_and_damaged_files() {
    let cut = cifar(3073);
    let truncated = refusal(cut.run("run bad.yaml"));
    assert_eq!(truncated, refusal(cut.run("check bad.yaml")));
    // Right sizes, wrong bytes: only reading the file can tell, so only `run` does.
    let corrupted = refusal(cifar(30_730_000).run("run bad.yaml --out out"));
    let directory = "{name: synthetic-cifar10, train: 600, test: 100, directory: made}";
    let scene = with(GENERATED, directory);
    let made = scene.run("run bad.yaml --out first");
    assert!(scene.has("made"), "{}", made.message());
    let file = scene.file("made/data_batch_3.bin");
    let mut bytes = fs::read(&file).unwrap();
    bytes[5] ^= 1;
    fs::write(&file, bytes).unwrap();
    let generated = refusal(scene.run("run bad.yaml --out out"));
    let missing = refused(&[&format!("{GENERATED} | {{name: cifar10}}")]);
    assert_snapshot!([missing, truncated, corrupted, generated].concat());
}
