//! Properties of generated sets.

use std::fs;
use std::path::Path;

use epochcost_datasets::{
    DATASETS, Dataset, DatasetError, Generate, MANIFEST_FILE, Origin, ensure, find, inspect, open,
};

const SMALL: Generate = Generate {
    train: 103,
    test: 21,
    seed: 7,
};

fn make(name: &str, dir: &Path, spec: Generate) -> Dataset {
    ensure(name, dir, spec).unwrap();
    open(name, dir).unwrap()
}

/// Fingerprints of [`SMALL`]: they hold on every machine, and change only
/// together with `GENERATOR_VERSION`.
#[test]
fn a_seed_gives_the_same_bytes_everywhere() {
    let golden = [
        (
            "synthetic-cifar10",
            "45802863d2ef45e7d2fb517247818d8c02f6844afd3b6841e73ffd0db3dc0c8c",
        ),
        (
            "synthetic-mnist",
            "8cff08c8eb65a0112a183e150a0eeadee24f9e527f3d8fab5177265790dbecfe",
        ),
    ];
    for (name, sha256) in golden {
        let root = tempfile::tempdir().unwrap();
        let set = make(name, &root.path().join("set"), SMALL);
        assert_eq!(set.sha256, sha256, "{name}");
    }
}

#[test]
fn other_seeds_give_other_images() {
    let root = tempfile::tempdir().unwrap();
    let one = make("synthetic-mnist", &root.path().join("one"), SMALL);
    let other = Generate { seed: 8, ..SMALL };
    let two = make("synthetic-mnist", &root.path().join("two"), other);
    for image in (0..SMALL.test).map(|index| &one.test.record(index)[1..]) {
        for train in [&one.train, &two.train] {
            assert!((0..SMALL.train).all(|other| train.record(other)[1..] != *image));
        }
    }
}

#[test]
fn counts_and_classes_are_as_asked() {
    for name in ["synthetic-cifar10", "synthetic-mnist"] {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("nested/set");
        let set = make(name, &dir, SMALL);
        assert_eq!((set.train.samples(), set.test.samples()), (103, 21));
        assert_eq!(set.generated, Some(SMALL));
        for split in [&set.train, &set.test] {
            let mut counts = [0usize; 10];
            (0..split.samples()).for_each(|index| counts[usize::from(split.record(index)[0])] += 1);
            let fair = split.samples() / 10;
            let is_fair = |count: &usize| (fair..=fair + 1).contains(count);
            assert!(counts.iter().all(is_fair), "{counts:?}");
        }
        let seen = inspect(name, &dir).unwrap();
        assert_eq!((seen.train, seen.test), (103, 21));
    }
}

#[test]
fn files_are_in_the_published_formats() {
    let root = tempfile::tempdir().unwrap();
    let cifar = root.path().join("cifar");
    let set = make("synthetic-cifar10", &cifar, SMALL);
    let size = |name: &String| fs::metadata(cifar.join(name)).unwrap().len();
    let batches = (1..6).map(|number| format!("data_batch_{number}.bin"));
    let files: Vec<String> = batches.chain(["test_batch.bin".into()]).collect();
    let records = [21, 21, 21, 20, 20, 21].map(|records| records * 3073);
    assert_eq!(files.iter().map(size).collect::<Vec<_>>(), records);
    assert_eq!(
        fs::read(cifar.join("data_batch_1.bin")).unwrap(),
        set.train.records()[..21 * 3073]
    );

    let mnist = root.path().join("mnist");
    let set = make("synthetic-mnist", &mnist, SMALL);
    let images = fs::read(mnist.join("t10k-images-idx3-ubyte")).unwrap();
    let labels = fs::read(mnist.join("t10k-labels-idx1-ubyte")).unwrap();
    assert_eq!(
        images[..16],
        [0, 0, 8, 3, 0, 0, 0, 21, 0, 0, 0, 28, 0, 0, 0, 28]
    );
    assert_eq!(labels[..8], [0, 0, 8, 1, 0, 0, 0, 21]);
    assert_eq!(images[16..][5 * 784..6 * 784], set.test.record(5)[1..]);
    assert_eq!(labels[8..][5], set.test.record(5)[0]);
}

#[test]
fn the_table_knows_the_pixel_statistics() {
    for info in DATASETS {
        let Origin::Generated { default } = info.origin else {
            continue;
        };
        let root = tempfile::tempdir().unwrap();
        let set = make(info.name, &root.path().join("set"), default);
        let plane = info.format.height * info.format.width;
        for channel in 0..info.format.channels {
            let values = || {
                (0..set.train.samples())
                    .flat_map(|index| &set.train.record(index)[1..][channel * plane..][..plane])
                    .map(|&byte| f64::from(byte) / 255.0)
            };
            let count = values().count() as f64;
            let mean = values().sum::<f64>() / count;
            let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
            assert!((mean - f64::from(info.pixel_mean[channel])).abs() < 1e-3);
            assert!((variance.sqrt() - f64::from(info.pixel_deviation[channel])).abs() < 1e-3);
        }
    }
}

#[test]
fn an_intact_set_is_reused_and_another_is_not_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("set");
    fs::create_dir(&dir).unwrap();
    let name = "synthetic-mnist";
    ensure(name, &dir, SMALL).unwrap();
    let before = fs::metadata(dir.join(MANIFEST_FILE)).unwrap();
    ensure(name, &dir, SMALL).unwrap();
    let after = fs::metadata(dir.join(MANIFEST_FILE)).unwrap();
    assert_eq!(before.modified().unwrap(), after.modified().unwrap());

    let other = Generate { seed: 8, ..SMALL };
    let error = ensure(name, &dir, other).unwrap_err();
    assert!(matches!(error, DatasetError::OtherSet { .. }), "{error}");
    assert!(error.to_string().contains("seed 7") && error.to_string().contains("seed 8"));
    let error = ensure("synthetic-cifar10", &dir, SMALL).unwrap_err();
    assert!(matches!(error, DatasetError::OtherSet { .. }), "{error}");
    // Nothing but the set is left behind.
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn what_cannot_be_made_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("set");
    let error = ensure("mnist", &dir, SMALL).unwrap_err();
    assert!(
        matches!(error, DatasetError::NotGenerated { .. }),
        "{error}"
    );
    for (train, test) in [(9, 100), (100, 0), (65_537, 100)] {
        let seed = 1;
        let spec = Generate { train, test, seed };
        let error = ensure("synthetic-mnist", &dir, spec).unwrap_err();
        assert!(matches!(error, DatasetError::SampleCount { .. }), "{error}");
    }
    assert!(!dir.exists());
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("thesis.tex"), "years of work").unwrap();
    let error = ensure("synthetic-mnist", &dir, SMALL).unwrap_err();
    assert!(matches!(error, DatasetError::Occupied { .. }), "{error}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    assert!(!find("synthetic-mnist").unwrap().published());
}
