//! A changed bit in any file that a report reads is refused with the file's name.

use std::time::{SystemTime, UNIX_EPOCH};

use epochcost_judge::analysis::overview::AnalysedRun;
use epochcost_record::{DrawnFigure, ResultsError, RowDraws};
use epochcost_spec::claims::Metric;
use epochcost_testing::mangled::Drawn;

use super::*;

/// Changed bits of the whole test, in all files together.
const FLIPS: usize = 440;

/// Numbers from a seed that differs from run to run; a failure names file and bit.
fn random() -> Drawn {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    eprintln!("seed {}", now.as_nanos() as u64);
    Drawn::new(now.as_nanos() as u64)
}

/// Changes one bit of a file, and returns which, and the file's content before.
fn flip(file: &Path, random: &mut Drawn) -> (usize, Vec<u8>) {
    let before = fs::read(file).unwrap();
    let bit = random.below(8 * before.len());
    let mut changed = before.clone();
    changed[bit / 8] ^= 1 << (bit % 8);
    fs::write(file, changed).unwrap();
    (bit, before)
}

/// All that `report` makes of a run but its files.
fn figures(run: &Path) -> Result<AnalysedRun, ResultsError> {
    AnalysedRun::analyse(RunDirectory::open_whole(run)?)
}

/// Invocations and draws of another run of the same experiment changed its costs.
#[test]
fn lines_of_another_run_are_refused() {
    let [one, other] = [1, 2].map(|count| {
        let change = |_: &str, _, outcome: &mut TrialOutcome| {
            let calls = outcome.invocations.iter_mut();
            calls.for_each(|call| call.billed_ms *= count);
        };
        run_of("[]", &fixture::SYSTEMS, 1, change).0
    });
    assert!(figures(one.path()).is_ok());
    let file = "invocations.jsonl";
    fs::copy(other.file(file), one.file(file)).unwrap();
    let Err(error) = figures(one.path()) else {
        panic!("invocations of another run went unseen");
    };
    let said = "in invocations.jsonl are of another run";
    holds(error.to_string(), &["trials.jsonl, line 1", said]);
}

#[test]
fn every_changed_bit_of_a_run_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), fixture::CLAIMS);
    let figure = DrawnFigure {
        metric: Metric::Bytes,
        target: None,
        values: vec![Some(1.0), Some(2.5)],
    };
    let drawn = RowDraws {
        of: None,
        row: "spirt-paper".into(),
        draws: 2,
        figures: vec![figure],
        refused: None,
    };
    run.append_draws(&drawn).unwrap();
    drop(run);
    assert!(figures(directory.path()).is_ok());
    let files: Vec<PathBuf> = kept_files(directory.path());
    // Seven files of the run as a whole, its trials and invocations, and ten files of events.
    assert_eq!(files.len(), 6 + 3 + 10, "{files:?}");
    let mut random = random();
    for count in 0..FLIPS {
        let file = &files[count % files.len()];
        let (bit, before) = flip(file, &mut random);
        let Err(error) = figures(directory.path()) else {
            panic!("bit {bit} of {} went unseen", file.display());
        };
        let name = file.file_name().unwrap().to_str().unwrap();
        let is_named = error.is_usage() && error.to_string().contains(name);
        assert!(is_named, "bit {bit} of {name}: {error}");
        fs::write(file, before).unwrap();
    }
    assert!(figures(directory.path()).is_ok());
}

/// Verbs that read a run end with exit code 2, and so does going on with it.
#[test]
fn every_verb_refuses_a_file_that_was_changed_or_is_missing() {
    let scene = finished();
    let mut random = random();
    for file in kept_files(&scene.file("run")) {
        let (bit, before) = flip(&file, &mut random);
        let name = file.file_name().unwrap().to_str().unwrap();
        // The end of a line that is gone looks like one that was never written.
        let is_cut = bit / 8 == before.len() - 1 && name.ends_with(".jsonl");
        scene.run("report run").ends(2).says(&[name]);
        if !is_cut {
            scene.run(RESUME).ends(2).says(&[name]);
        }
        fs::remove_file(&file).unwrap();
        let ended = scene.run("report run");
        match name {
            // A run whose first trial has not ended has none: no row has figures.
            "trials.jsonl" => assert_ne!(ended.output.status.code(), Some(1)),
            "invocations.jsonl" => drop(ended.ends(2).says(&["trials.jsonl, line 1", name])),
            _ => drop(ended.ends(2).says(&[name])),
        }
        fs::write(&file, before).unwrap();
    }
    scene.run("report run").ends(0);
    // Its trials were counted twice once.
    let twice = scene.run("report run run").ends(2);
    twice.says(&["run is a run that was given before"]);
}
