//! Datasets that are missing or damaged.

use super::*;

/// A data directory of CIFAR-10's form, with small files in place of its own.
fn cifar(directory: &Path, bytes: usize) {
    let data = directory.join("cifar");
    fs::create_dir(&data).unwrap();
    for name in [
        "data_batch_1",
        "data_batch_2",
        "data_batch_3",
        "data_batch_4",
        "data_batch_5",
    ] {
        fs::write(data.join(format!("{name}.bin")), vec![0; bytes]).unwrap();
    }
    fs::write(data.join("test_batch.bin"), vec![0; bytes]).unwrap();
}

const GENERATED: &str = "{name: synthetic-cifar10, train: 600, test: 100}";

#[test]
fn a_missing_data_file() {
    refused_between_fields(
        GENERATED,
        "{name: cifar10}",
        &[
            "bad.yaml:3:",
            "dataset.name",
            "missing data file data/cifar10/data_batch_1.bin",
            "download",
        ],
    );
}

#[test]
fn a_truncated_cifar_file() {
    let directory = with(GENERATED, "{name: cifar10, directory: cifar}");
    cifar(directory.path(), 3073);
    for verb in ["check", "run"] {
        let output = epochcost(directory.path(), &[verb, "bad.yaml"]);
        assert_refused(
            &output,
            &[
                "bad.yaml:3:",
                "dataset.directory",
                "truncated data file cifar/data_batch_1.bin",
                "found 3073 bytes, expected 30730000",
            ],
        );
    }
}

/// Right sizes, wrong bytes: only reading the file can tell, so only `run` does.
#[test]
fn a_corrupted_cifar_file() {
    let directory = with(GENERATED, "{name: cifar10, directory: cifar}");
    cifar(directory.path(), 30_730_000);
    let output = epochcost(directory.path(), &["run", "bad.yaml", "--out", "out"]);
    assert_refused(
        &output,
        &[
            "bad.yaml:3:",
            "dataset.directory",
            "corrupted data file cifar/data_batch_1.bin",
            "SHA-1",
        ],
    );
}

#[test]
fn a_corrupted_generated_file() {
    let directory = with(
        GENERATED,
        "{name: synthetic-cifar10, train: 600, test: 100, directory: made}",
    );
    let made = epochcost(directory.path(), &["run", "bad.yaml", "--out", "first"]);
    assert!(directory.path().join("made").exists(), "{made:?}");
    let file = directory.path().join("made/data_batch_3.bin");
    let mut bytes = fs::read(&file).unwrap();
    bytes[5] ^= 1;
    fs::write(&file, bytes).unwrap();
    let output = epochcost(directory.path(), &["run", "bad.yaml", "--out", "out"]);
    assert_refused(
        &output,
        &[
            "bad.yaml:3:",
            "corrupted data file made/data_batch_3.bin",
            "SHA-256",
        ],
    );
}
