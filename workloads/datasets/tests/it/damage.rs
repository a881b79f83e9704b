//! Every kind of damage to a set has an error of its own, which names the file.

use std::fs;
use std::path::{Path, PathBuf};

use epochcost_datasets::{DatasetError, Generate, MANIFEST_FILE, ensure, inspect, open};
use tempfile::TempDir;

const SPEC: Generate = Generate {
    train: 50,
    test: 10,
    seed: 1,
};

fn made(name: &str) -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("set");
    ensure(name, &dir, SPEC).unwrap();
    (root, dir)
}

fn edit(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Damages one file of a fresh set and returns the error, checked to name the
/// file and the remedy.
fn error_after(name: &str, file: &str, change: impl FnOnce(&mut Vec<u8>)) -> DatasetError {
    let (_root, dir) = made(name);
    edit(&dir.join(file), change);
    let error = open(name, &dir).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(file), "{message}");
    assert!(message.contains("makes it again"), "{message}");
    error
}

#[test]
fn a_truncated_file() {
    for (name, file) in [
        ("synthetic-cifar10", "data_batch_3.bin"),
        ("synthetic-mnist", "t10k-images-idx3-ubyte"),
        ("synthetic-mnist", "train-labels-idx1-ubyte"),
    ] {
        for kept in [0, 1, 7] {
            let error = error_after(name, file, |bytes| bytes.truncate(kept));
            let DatasetError::Truncated {
                found_bytes,
                expected_bytes,
                ..
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!(found_bytes, kept as u64);
            assert!(expected_bytes > found_bytes);
        }
    }
}

#[test]
fn a_file_of_the_wrong_size() {
    let error = error_after("synthetic-cifar10", "test_batch.bin", |bytes| bytes.push(0));
    assert!(matches!(error, DatasetError::Oversized { .. }), "{error}");
}

#[test]
fn a_corrupted_pixel() {
    for (name, file) in [
        ("synthetic-cifar10", "data_batch_5.bin"),
        ("synthetic-mnist", "t10k-images-idx3-ubyte"),
    ] {
        let error = error_after(name, file, |bytes| bytes[500] ^= 0x10);
        assert!(matches!(error, DatasetError::Corrupted { .. }), "{error}");
    }
}

#[test]
fn a_label_that_is_no_class() {
    let error = error_after("synthetic-cifar10", "data_batch_2.bin", |bytes| {
        bytes[4 * 3073] = 10;
    });
    assert!(
        matches!(
            error,
            DatasetError::Label {
                record: 4,
                found: 10,
                classes: 10,
                ..
            }
        ),
        "{error}"
    );
    let error = error_after("synthetic-mnist", "t10k-labels-idx1-ubyte", |bytes| {
        bytes[8] = 255;
    });
    assert!(
        matches!(
            error,
            DatasetError::Label {
                record: 0,
                found: 255,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_wrong_magic_number() {
    // What a little-endian writer would have left.
    let error = error_after("synthetic-mnist", "train-images-idx3-ubyte", |bytes| {
        bytes[..4].reverse();
    });
    assert!(
        matches!(
            error,
            DatasetError::Magic {
                found: 0x0308_0000,
                expected: 0x0803,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_header_of_other_dimensions() {
    let error = error_after("synthetic-mnist", "train-images-idx3-ubyte", |bytes| {
        bytes[11] = 14;
        bytes[15] = 56;
    });
    let DatasetError::Dimensions {
        found, expected, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((found, expected), (vec![50, 14, 56], vec![50, 28, 28]));
}

#[test]
fn a_missing_file_or_directory() {
    let (_root, dir) = made("synthetic-cifar10");
    let path = dir.join("data_batch_4.bin");
    fs::remove_file(&path).unwrap();
    for error in [
        open("synthetic-cifar10", &dir).unwrap_err(),
        inspect("synthetic-cifar10", &dir).unwrap_err(),
    ] {
        assert!(matches!(&error, DatasetError::Missing { path: missing, .. } if *missing == path));
    }
    // Packed, or where other programs put it: the remedy names it.
    for other in [
        "data_batch_4.bin.gz",
        "cifar-10-batches-bin/data_batch_4.bin",
    ] {
        let other = dir.join(other);
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, "").unwrap();
        let error = inspect("synthetic-cifar10", &dir).unwrap_err().to_string();
        assert!(
            error.contains(&format!("found {}: ", other.display())),
            "{error}"
        );
        fs::remove_file(&other).unwrap();
    }
    let (_root, digits) = made("synthetic-mnist");
    fs::remove_file(digits.join("train-images-idx3-ubyte")).unwrap();
    for other in [
        "MNIST/raw/train-images-idx3-ubyte",
        "train-images.idx3-ubyte",
    ] {
        let other = digits.join(other);
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, "").unwrap();
        let error = inspect("synthetic-mnist", &digits).unwrap_err().to_string();
        assert!(
            error.contains(&format!("found {}: ", other.display())),
            "{error}"
        );
        fs::remove_file(&other).unwrap();
    }
    for name in ["cifar10", "mnist", "synthetic-cifar10", "synthetic-mnist"] {
        let error = open(name, &dir.join("nowhere")).unwrap_err();
        assert!(matches!(error, DatasetError::Missing { .. }), "{error}");
    }
}

#[test]
fn a_published_set_is_held_to_the_published_files() {
    let (_root, dir) = made("synthetic-cifar10");
    // The right form, far too small.
    let error = open("cifar10", &dir).unwrap_err();
    assert!(
        matches!(
            error,
            DatasetError::Truncated {
                expected_bytes: 30_730_000,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("cifar-10-binary.tar.gz"),
        "{error}"
    );
    // The right size and form, other content.
    edit(&dir.join("data_batch_1.bin"), |bytes| {
        bytes.resize(30_730_000, 0)
    });
    let error = open("cifar10", &dir).unwrap_err();
    assert!(
        matches!(
            error,
            DatasetError::Corrupted {
                algorithm: "SHA-1",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_bad_manifest() {
    let replace = |from: &'static str, to: &'static str| {
        move |bytes: &mut Vec<u8>| {
            let text = String::from_utf8(bytes.clone()).unwrap();
            assert!(text.contains(from));
            *bytes = text.replacen(from, to, 1).into_bytes();
        }
    };
    for (from, to, reason) in [
        ("\"seed\"", "\"sead\"", "sead"),
        ("\"major\": 1", "\"major\": 2", "version is 2"),
        ("\"train\": 50", "\"train\": 51", "does not fit"),
        ("t10k-images", "../t10k-images", "does not fit"),
        ("{", "", "expected"),
    ] {
        let error = error_after("synthetic-mnist", MANIFEST_FILE, replace(from, to));
        assert!(matches!(error, DatasetError::Manifest { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}
