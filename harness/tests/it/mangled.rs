//! Shipped files, changed at random: what reads them ends, in time and without a panic.
//!
//! `MANGLED` is the number of changed files (default: 300), `MANGLED_SEED`
//! the seed of the first.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use epochcost_experiment::document::Document;
use epochcost_experiment::{Experiment, Options, yaml_files};
use epochcost_judge::audit;
use epochcost_planner::forecast::{check_place, price_book, priced, validate};
use epochcost_platform::simulator;
use epochcost_spec::metering::log;
use epochcost_spec::metering::report_line::Report;
use epochcost_spec::profiles;
use epochcost_testing::mangled::{Drawn, mangled};

use crate::support::root;

/// Longest that a file may be read.
const LIMIT: Duration = Duration::from_secs(10);

/// Reads a file as its kind is read: the result does not matter.
type Reader = fn(&Path);

fn experiment(path: &Path) {
    let options = Options {
        platform: Some(simulator()),
        keeps_impossible: true,
        ..Options::default()
    };
    let document = Document::read(path);
    if let Ok(read) = document.and_then(|document| Experiment::from_document(document, &options)) {
        drop(priced(&read, None));
        drop(epochcost_experiment::describe(&read));
    }
}

fn paper(path: &Path) {
    let folder = path.parent().unwrap().to_owned();
    if let Ok(papers) = audit::read(&[folder], None) {
        drop(audit::audit(&papers));
    }
}

/// A log as CloudWatch answers: lines of Lambda around those of a worker.
fn answer(path: &Path) {
    let text = fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for line in &lines {
        if let Ok(report) = Report::of_lambda(line) {
            drop(log::invocation(&lines, report.request_id));
        }
        drop(log::record(line));
    }
}

/// The validation file of a table in the folder `data` beside it.
fn measured(path: &Path) {
    let files = path.parent().and_then(Path::parent).unwrap();
    for file in yaml_files(files).unwrap() {
        drop(validate::check(&file));
    }
}

/// Every shipped file, and a log, with its reader.
fn files() -> Vec<(PathBuf, Reader)> {
    let root = root();
    let of = |folder: &str, extension: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(root.join(folder)).unwrap().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|own| own == extension));
        paths
    };
    let mut files: Vec<(PathBuf, Reader)> = Vec::new();
    let mut add = |paths: Vec<PathBuf>, reader: Reader| {
        files.extend(paths.into_iter().map(|path| (path, reader)));
    };
    add(yaml_files(&root.join("experiments")).unwrap(), experiment);
    add(of("harness/profiles", "yaml"), |path| {
        drop(profiles::platform(path.to_str().unwrap()))
    });
    add(of("harness/profiles/compute", "yaml"), |path| {
        drop(profiles::compute(path.to_str().unwrap()))
    });
    add(of("harness/prices", "yaml"), |path| {
        drop(price_book(Some(path)))
    });
    add(of("harness/places", "yaml"), |path| {
        drop(check_place(path.to_str().unwrap()));
    });
    for folder in ["experiments/validation", "experiments/validation/judges"] {
        add(of(folder, "yaml"), |path| drop(validate::check(path)));
        add(of(&format!("{folder}/data"), "csv"), measured);
    }
    add(vec![root.join("harness/tests/it/mangled.log")], answer);
    for name in audit::names() {
        let folder = format!("experiments/{name}");
        add(vec![root.join(&folder).join("paper.yaml")], paper);
        add(of(&folder, "csv"), paper);
    }
    files.sort_by(|(one, _), (other, _)| one.cmp(other));
    files
}

/// Copies the folder of a file into `directory`, and where it is a folder `data`, also that around it;
/// returns the copy of the file.
fn beside_others(path: &Path, directory: &Path) -> PathBuf {
    let folder = path.parent().unwrap();
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().flatten() {
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    };
    let mut to = directory.to_owned();
    if folder.ends_with("data") {
        copy(folder.parent().unwrap(), directory);
        to.push("data");
    } else if folder.join("data").is_dir() {
        copy(&folder.join("data"), &directory.join("data"));
    }
    copy(folder, &to);
    to.join(path.file_name().unwrap())
}

#[test]
fn changed_files_are_read_or_refused() {
    let number =
        |name: &str, default: u64| env::var(name).map_or(default, |text| text.parse().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = number("MANGLED_SEED", now.as_secs());
    let count = number("MANGLED", 300);
    eprintln!("MANGLED_SEED={first}");
    epochcost_testing::watch();
    let files = files();
    assert!(files.len() > 80, "{}", files.len());
    let mut wrong = BTreeMap::new();
    for seed in first..first + count {
        let mut drawn = Drawn::new(seed);
        let (path, reader) = &files[drawn.below(files.len())];
        let directory = tempfile::tempdir().unwrap();
        let own = beside_others(path, directory.path());
        let text = fs::read_to_string(path).unwrap();
        fs::write(&own, mangled(&text, &mut drawn)).unwrap();
        let began = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| reader(&own)));
        let took = began.elapsed();
        if ended.is_err() || took > LIMIT {
            wrong.insert(seed, (path.display().to_string(), ended.is_err(), took));
            if let Ok(keep) = env::var("MANGLED_KEEP") {
                fs::copy(&own, Path::new(&keep).join(format!("{seed}"))).unwrap();
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "seed, file, whether it panicked, and time: {wrong:#?}"
    );
}
