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
    let path = dir.join(file);
    edit(&path, change);
    let damaged = fs::read(&path).unwrap();
    let error = open(name, &dir).unwrap_err();
    let message = error.to_string();
    assert!(message.contains(file), "{message}");
    assert!(message.contains("makes it again"), "{message}");
    let again = ensure(name, &dir, SPEC).unwrap_err();
    assert_eq!(again.to_string(), message);
    assert_eq!(fs::read(&path).unwrap(), damaged, "it was replaced");
    error
}

macro_rules! assert_is {
    ($error:expr, $pattern:pat) => {
        let error = $error;
        assert!(matches!(error, $pattern), "{error}");
    };
}

/// The remedy names a file that is packed, or where other programs put it.
fn assert_finds(name: &str, dir: &Path, others: [&str; 2]) {
    for other in others.map(|other| dir.join(other)) {
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, "").unwrap();
        let error = inspect(name, dir).unwrap_err().to_string();
        let told = format!("found {}: ", other.display());
        assert!(error.contains(&told), "{error}");
        fs::remove_file(&other).unwrap();
    }
}

#[test]
fn a_truncated_file() {
    for (name, file) in [
        ("synthetic-cifar10", "data_batch_3.bin"),
        ("synthetic-mnist", "t10k-images-idx3-ubyte"),
        ("synthetic-mnist", "train-labels-idx1-ubyte"),
    ] {
        for kept in [0, 1, 7] {
            let error = error_after(name, file, |bytes| bytes.truncate(kept)).to_string();
            let told = format!("found {kept} bytes, expected ");
            let is_told = error.starts_with("truncated") && error.contains(&told);
            assert!(is_told, "{error}");
        }
    }
}

type Damage = fn(&mut Vec<u8>);

#[test]
fn a_file_of_another_size_form_or_content() {
    let cases: [(&str, &str, Damage, &str); 7] = [
        (
            "synthetic-cifar10",
            "test_batch.bin",
            |bytes| bytes.push(0),
            "wrong size of data file",
        ),
        (
            "synthetic-cifar10",
            "data_batch_5.bin",
            |bytes| bytes[500] ^= 0x10,
            "corrupted data file",
        ),
        (
            "synthetic-mnist",
            "t10k-images-idx3-ubyte",
            |bytes| bytes[500] ^= 0x10,
            "corrupted data file",
        ),
        (
            "synthetic-cifar10",
            "data_batch_2.bin",
            |bytes| bytes[4 * 3073] = 10,
            "record 4 has label 10, expected one below 10",
        ),
        (
            "synthetic-mnist",
            "t10k-labels-idx1-ubyte",
            |bytes| bytes[8] = 255,
            "record 0 has label 255, expected one below 10",
        ),
        // What a little-endian writer would have left.
        (
            "synthetic-mnist",
            "train-images-idx3-ubyte",
            |bytes| bytes[..4].reverse(),
            "found 0x03080000, expected 0x00000803",
        ),
        (
            "synthetic-mnist",
            "train-images-idx3-ubyte",
            |bytes| (bytes[11], bytes[15]) = (14, 56),
            "found [50, 14, 56], expected [50, 28, 28]",
        ),
    ];
    for (name, file, change, told) in cases {
        let error = error_after(name, file, change).to_string();
        assert!(error.contains(told), "{error}");
    }
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
    let packed = "data_batch_4.bin.gz";
    let elsewhere = "cifar-10-batches-bin/data_batch_4.bin";
    assert_finds("synthetic-cifar10", &dir, [packed, elsewhere]);
    let (_root, digits) = made("synthetic-mnist");
    fs::remove_file(digits.join("train-images-idx3-ubyte")).unwrap();
    let elsewhere = "MNIST/raw/train-images-idx3-ubyte";
    let otherwise = "train-images.idx3-ubyte";
    assert_finds("synthetic-mnist", &digits, [elsewhere, otherwise]);
    for name in ["cifar10", "mnist", "synthetic-cifar10", "synthetic-mnist"] {
        let error = open(name, &dir.join("nowhere")).unwrap_err();
        assert_is!(error, DatasetError::Missing { .. });
    }
}

#[test]
fn a_published_set_is_held_to_the_published_files() {
    let (_root, dir) = made("synthetic-cifar10");
    // The right form, far too small.
    let error = open("cifar10", &dir).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("cifar-10-binary.tar.gz"), "{told}");
    assert_is!(
        error,
        DatasetError::Size {
            problem: "truncated",
            expected_bytes: 30_730_000,
            ..
        }
    );
    // The right size and form, other content.
    edit(&dir.join("data_batch_1.bin"), |bytes| {
        bytes.resize(30_730_000, 0)
    });
    assert_is!(
        open("cifar10", &dir).unwrap_err(),
        DatasetError::Corrupted {
            algorithm: "SHA-1",
            ..
        }
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
        assert!(error.to_string().contains(reason), "{error}");
        assert_is!(error, DatasetError::Manifest { .. });
    }
}
