use std::num::NonZeroUsize;

use epochcost_record::Machine;
use epochcost_spec::exit::Exit;
use epochcost_systems::Device;

use super::measure::{Answer, Setting};
use super::plan::{default_file, default_models, is_busy};
use super::*;
use crate::testing::holds;

/// A machine of four idle cores.
pub(super) fn machine() -> Machine {
    let machine = serde_json::json!({
        "cpu": "Abacus(R) 9000 @ 1 Hz", "cores": 4, "memory_bytes": 8_000_000_000_u64,
        "load_average": 0.0, "gpus": [], "limits": [], "servers": [],
    });
    serde_json::from_value(machine).unwrap()
}

/// The plan of a request that is written as the options of `profile`.
fn plan(directory: &Path, arguments: &[&str]) -> Result<Plan> {
    let number = |text: &str| NonZeroUsize::new(text.parse().unwrap()).unwrap();
    let numbers = |text: &str| -> Vec<NonZeroUsize> { text.split(',').map(number).collect() };
    let (mut models, mut threads, mut force) = (Vec::new(), Vec::new(), false);
    let mut batches = numbers("8,32,128");
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || *words.next().unwrap();
        match *word {
            "--force" => force = true,
            "--model" => models.push(value().to_owned()),
            "--threads" => threads = numbers(value()),
            "--batch" => batches = numbers(value()),
            unknown => panic!("{unknown}"),
        }
    }
    let request = Request {
        models: &models,
        batches: &batches,
        device: Device::Cpu,
        threads: &threads,
        steps: number("3"),
        rounds: number("3"),
        out: Some(&directory.join("abacus.yaml")),
        force,
        allows_bad_fit: false,
    };
    Plan::new(&request, machine())
}

#[track_caller]
fn refused(directory: &Path, arguments: &[&str], words: &[&str]) {
    let error = plan(directory, arguments).unwrap_err();
    assert_eq!(error.exit(), Exit::Usage);
    holds(error, words);
}

/// A machine on which a step takes exactly 0.1 + 0.01 b seconds, of which 80 %
/// are parallel, in the first and last round; others are `slow` times as long.
fn measured(plan: &Plan, slow: f64) -> Vec<Measurement> {
    let settings = plan.settings();
    let a_round = settings.len() / plan.rounds;
    let measurement = |(index, setting): (usize, &Setting)| {
        let (batch, threads) = (setting.batch_size as f64, setting.threads as f64);
        let round = index / a_round;
        let is_slow = round != 0 && round + 1 != plan.rounds;
        let factor = if is_slow { slow } else { 1.0 };
        let step_s = factor * (0.1 + 0.01 * batch) * (0.2 + 0.8 / threads);
        Measurement {
            setting: *setting,
            answer: Answer {
                model: setting.model.into(),
                parameters: 1,
                build_s: 0.25,
                step_s: vec![step_s; 10],
                step_cpu_s: vec![step_s; 10],
                evaluate_s: vec![0.002 * batch],
                // The more threads, the more memory.
                peak_mb: 5.0 + 40.0 + 2.0 * batch + threads,
                resident_mb: 5.0,
            },
        }
    };
    settings.iter().enumerate().map(measurement).collect()
}

#[test]
fn by_default_all_but_the_largest_are_measured_in_every_round() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path(), &[]).unwrap();
    assert_eq!(plan.models, default_models());
    assert!(plan.models.contains(&"resnet50"));
    assert!(!plan.models.contains(&"vgg11"));
    assert_eq!(&*plan.batches, [8, 32, 128]);
    assert_eq!(&*plan.threads, [1, 4]);
    let settings = plan.settings();
    assert_eq!(settings.len(), 3 * 3 * 2 * plan.models.len());
    let (first, second) = settings.split_at(settings.len() / 3);
    assert_eq!(first, &second[..first.len()]);
    assert_ne!(first[0].model, first[1].model);
}

#[test]
fn a_known_machine_gives_its_own_numbers_back() {
    let directory = tempfile::tempdir().unwrap();
    let options = ["--threads", "4,1,2", "--batch", "64,4,16"];
    let plan = plan(directory.path(), &options).unwrap();
    // One disturbed round of three does not move a median.
    let points = summary::points(&measured(&plan, 1.5));
    let profile = summary::profile(&plan, &points).unwrap();
    assert_eq!(profile.name, "abacus");
    assert!(profile.faults().is_empty(), "{:?}", profile.faults());
    assert_eq!(profile.models.len(), plan.models.len());
    for cost in &profile.models {
        assert_eq!((cost.fixed_s, cost.sample_s), (0.1, 0.01));
        assert_eq!(cost.parallel, 0.8);
        assert_eq!((cost.evaluate_sample_s, cost.build_s), (0.002, 0.25));
        assert_eq!((cost.fixed_mb, cost.sample_mb), (44.0, 2.0));
        let fit = cost.fit.as_ref().unwrap();
        assert_eq!((fit.points, fit.r_squared), (3, 1.0));
        assert!(fit.largest_error < 1e-9, "{fit:?}");
        assert!(cost.source.contains("Abacus(R)"), "{}", cost.source);
    }
    // The disturbance shows.
    let warnings = summary::warnings(&points);
    let count = points.len();
    let expected = format!("{count} of {count} points differ");
    holds(&warnings[0], &[&expected, "(50 %)"]);
    holds(&profile.models[0].source, &["differ by up to 50 %"]);
    assert!(summary::doubts(&plan, &profile).is_empty());
}

#[test]
fn the_file_says_how_it_came_about_and_reads_back() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path(), &["--model", "lenet5"]).unwrap();
    let points = summary::points(&measured(&plan, 1.0));
    let profile = summary::profile(&plan, &points).unwrap();
    let worker = Worker::at(std::env::current_exe().unwrap()).unwrap();
    let warnings = ["a busy host".to_owned()];
    record::write(&plan, &worker, &profile, &points, &warnings).unwrap();
    let text = std::fs::read_to_string(&plan.out).unwrap();
    let by = format!("# worker: SHA-256 {}", worker.sha256);
    holds(&text, &["# machine: Abacus(R)", &by]);
    holds(&text, &["# warning: a busy host"]);
    let read: ComputeProfile = serde_yaml::from_str(&text).unwrap();
    assert!(read.models[0].source.contains("idle host"), "{text}");
    assert_eq!(read, profile);
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 1);
}

#[test]
fn a_profile_is_never_overwritten_unasked() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("abacus.yaml"), "precious").unwrap();
    refused(directory.path(), &[], &["abacus.yaml", "--force"]);
    assert!(plan(directory.path(), &["--force"]).is_ok());
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], words: &[&str]| refused(directory.path(), arguments, words);
    let unknown = ["`resnet-18`", "did you mean `resnet18`"];
    refused(&["--model", "resnet-18"], &unknown);
    refused(&["--threads", "1,5"], &["5 threads", "at most 4"]);
    refused(&["--threads", "2"], &["one thread", "1 among them"]);
}

#[test]
fn too_few_points_are_doubted() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path(), &["--batch", "8", "--threads", "1"]).unwrap();
    let points = summary::points(&measured(&plan, 1.0));
    let profile = summary::profile(&plan, &points).unwrap();
    let cost = &profile.models[0];
    assert_eq!((cost.fixed_s, cost.parallel), (0.0, 0.0));
    let doubts = summary::doubts(&plan, &profile).join("\n");
    holds(doubts, &["--batch", "--threads"]);
}

#[test]
fn a_process_that_shared_its_core_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(directory.path(), &["--model", "lenet5", "--threads", "1"]).unwrap();
    let mut measurements = measured(&plan, 1.0);
    assert!(summary::warnings(&summary::points(&measurements)).is_empty());
    for measurement in &mut measurements {
        let steps = measurement.answer.step_cpu_s.iter_mut();
        steps.for_each(|s| *s *= 0.6);
    }
    let points = summary::points(&measurements);
    let warnings = summary::warnings(&points);
    assert!(warnings[0].contains("it got 60 %"), "{warnings:?}");
    let profile = summary::profile(&plan, &points).unwrap();
    assert!(profile.models[0].source.contains("BUSY"));
}

#[test]
fn a_host_is_busy_when_our_threads_do_not_fit_beside_others() {
    assert!(!is_busy(0.4, 2, 2));
    assert!(is_busy(0.6, 2, 2));
    assert!(!is_busy(2.4, 2, 4));
    assert!(is_busy(2.6, 2, 4));
}

#[test]
fn the_default_file_is_named_for_cpu_and_date() {
    let file = default_file(&machine(), Device::Cpu).display().to_string();
    let date = names::today();
    let expected = format!("results/profiles/abacus-r-9000-1-hz-{date}.yaml");
    assert_eq!(file, expected);
}
