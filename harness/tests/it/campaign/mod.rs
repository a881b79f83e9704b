//! Seeded faults over all systems: what comes of each, and that nothing is lost or left over.
//!
//! `CAMPAIGN_FAULTS` is the number of faults on this machine (default: one a row),
//! `CAMPAIGN_SCHEDULES` that of schedules in virtual time (default: eight a row), and
//! `CAMPAIGN_SEED` the seed: `just campaign` does both.

mod scene;

use std::{env, fs};

use epochcost::run::faults::{Observed, Search};
use epochcost_experiment::{Experiment, Options, document::Document};
use epochcost_platform::simulator;
use epochcost_record::{RunDirectory, TrialRow};
use epochcost_spec::rows::{Fault, FaultKind};
use epochcost_spec::ui::Output;
use epochcost_systems::{Breakdown, systems};

use self::scene::{Scene, declared_s};
use crate::support::holds;

/// Faults in one run, each between two trials without.
const FAULTS_PER_RUN: usize = 26;

/// Functions of the system that has most.
const MOST_FUNCTIONS: usize = 10;

/// The rows of a campaign: names, and what an experiment says of them.
fn rows() -> Vec<(String, String)> {
    let row = |system: &'static str| {
        let own = match system {
            "kubeml" => ", settings: {document_samples: 8}",
            "mirrored" => ", instance_type: g4dn.12xlarge",
            _ => "",
        };
        (system.replace('_', "-"), format!("system: {system}{own}"))
    };
    let mut rows: Vec<_> = systems().iter().map(|system| row(system.name())).collect();
    // Where messages are counted by their senders.
    let members = "membership: true, heartbeat_timeout_ms: 4000, rejoin: ";
    for (name, system, settings) in [
        ("allreduce-tensors", "allreduce", "over: tensors".to_owned()),
        ("spirt-push", "spirt", "barrier_by: push".to_owned()),
        // Who failed in the first epoch is voted out in the second at the latest.
        ("members", "spirt", format!("{members}false")),
        ("rejoin", "spirt", format!("{members}true")),
    ] {
        let entry = format!("system: {system}, epochs: 2, settings: {{{settings}}}");
        rows.push((name.into(), entry));
    }
    rows
}

fn entry(system: &str, name: &str, faults: &[Fault]) -> String {
    let faults = serde_json::to_string(faults).unwrap();
    format!("  - {{{system}, name: {name}, faults: {faults}}}\n")
}

fn experiment(platform: &str) -> String {
    let entries = rows()
        .into_iter()
        .map(|(name, system)| entry(&system, &name, &[]));
    scene::experiment(platform, &entries.collect::<String>())
}

/// A search of all rows.
async fn search(scene: &Scene, text: String, seed: u64) -> Search {
    let document = Document::parse(&scene.path("campaign.yaml"), text).unwrap();
    let data = scene.path("data");
    let options = Options {
        set: vec![format!("dataset.directory={}", data.display())],
        platform: Some(simulator()),
        ..Options::default()
    };
    let experiment = Experiment::from_document(document, &options).unwrap();
    let output = Output {
        json: false,
        verbosity: -1,
        wide: false,
    };
    Search::open(experiment, seed, output).await.unwrap()
}

/// A number from the environment.
fn number(name: &str, default: usize) -> usize {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

#[test]
fn schedules_in_virtual_time_break_no_promise() {
    let seed = number("CAMPAIGN_SEED", 20);
    let count = number("CAMPAIGN_SCHEDULES", 8 * rows().len());
    let scene = Scene::new();
    scene.directory.write("campaign.yaml", &experiment("sim"));
    let faults = format!("dev faults campaign.yaml --seed {seed} --schedules {count}");
    eprintln!("{faults}");
    let ended = scene.directory.end(&mut scene.command(&faults)).ends(0);
    ended.says(&[&format!("seed {seed}: {count} schedules")]);
}

/// Each promise, by a trial that breaks it; what breaks one is shrunk, and is an experiment that
/// has the same faults.
#[test]
fn broken_promises_are_seen_and_their_schedules_can_be_run() {
    let scene = Scene::new();
    block_on(async {
        let search = search(&scene, experiment("sim"), 1).await;
        let whole = search.whole("allreduce").unwrap();
        let crash = Fault::at_gradient(0, 0, 0, FaultKind::Crash);
        let late = Fault::at_gradient(0, 0, 0, FaultKind::StragglerMs(5));
        assert_eq!(whole.broken(&[], whole), None);
        let missed = Fault::at_gradient(0, 0, 0, FaultKind::LosesMessage);
        let broken = |fault: &Fault, times, change: &dyn Fn(&mut Observed)| {
            let mut seen = whole.clone();
            seen.trial.faults = vec![times];
            change(&mut seen);
            seen.broken(std::slice::from_ref(fault), whole).unwrap()
        };
        let warned = |seen: &mut Observed| seen.trial.warnings.push("less".into());
        let short = |seen: &mut Observed| drop(seen.steps.pop());
        holds(broken(&crash, 0, &|_| ()), &["did not happen"]);
        holds(broken(&crash, 1, &|_| ()), &["does not say"]);
        holds(broken(&missed, 0, &warned), &["warning without"]);
        holds(broken(&missed, 0, &short), &["other figures"]);
        holds(broken(&late, 1, &warned), &["warning without"]);
        holds(broken(&late, 1, &short), &["other figures"]);
        for (failure, says) in [
            ("deadlock: (train of worker 1)", "no worker could go on"),
            ("too late", "names no worker"),
            ("train of worker 1 failed", "failure without"),
        ] {
            let failed = |seen: &mut Observed| seen.trial.failure = Some(failure.into());
            holds(broken(&late, 1, &failed), &[says]);
        }
        let learned = |seen: &mut Observed| seen.trial.evaluations[0].evaluation.correct += 1;
        holds(broken(&late, 1, &learned), &["other figures"]);
        let saved = |seen: &mut Observed| seen.steps[0].traffic.exchange.objects.bytes_up -= 1;
        holds(broken(&late, 1, &saved), &["less traffic"]);
        let mut told = whole.clone();
        told.trial.faults = vec![0];
        told.trial.warnings.push(missed.did_not_happen());
        assert_eq!(told.broken(std::slice::from_ref(&missed), whole), None);
        // Whatever follows a crash is a violation here, which needs one of the three.
        let only = [late.clone(), crash.clone(), late.clone()];
        let fewest = Search::shrunk(only.to_vec(), async |faults: &[Fault]| {
            faults.contains(&crash)
        });
        let crash = std::slice::from_ref(&crash);
        assert_eq!(fewest.await, crash);
        let text = search.replay("kubeml", crash).unwrap();
        let document = Document::parse(&scene.path("campaign.yaml"), text).unwrap();
        let again = Experiment::from_document(document, &Options::default()).unwrap();
        let rows = again.rows.iter().map(|row| (&*row.id, &*row.faults));
        assert_eq!(rows.collect::<Vec<_>>(), [("kubeml", crash)]);
    });
}

/// Whether a fault costs seconds on this machine, too, not minutes.
fn is_quick(fault: &Fault) -> bool {
    match fault.kind {
        FaultKind::StragglerMs(ms) => ms < 1_000,
        FaultKind::Server(broken) => match broken.does {
            Breakdown::RestartsAfterMs(ms) | Breakdown::SlowByMs(ms) => ms < 1_000,
            _ => true,
        },
        _ => true,
    }
}

/// What a run knows of a trial.
fn observed(run: &RunDirectory, all: &[TrialRow], name: &str) -> Observed {
    let trial = all.iter().find(|trial| trial.id.row == name).cloned();
    let trial = trial.unwrap_or_else(|| panic!("{name} has no trial"));
    let steps = run.steps(&trial).unwrap();
    Observed { trial, steps }
}

/// Runs faults on this machine, each with a neighbour without, and returns what must not be.
fn campaign(search: &Search, cases: &[(String, Vec<Fault>)]) -> Vec<String> {
    let scene = Scene::new();
    let mut entries = String::new();
    for (index, (row, faults)) in cases.iter().enumerate() {
        let (_, system) = rows().into_iter().find(|(name, _)| name == row).unwrap();
        entries += &entry(&system, &format!("fault-{index}"), faults);
        entries += &entry(&system, &format!("neighbour-{index}"), &[]);
    }
    let (output, left) = scene.run("local", &entries);
    let mut wrong: Vec<String> = left.into_iter().collect();
    let run = RunDirectory::open_whole(&scene.path("run")).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let all = run.trials().unwrap();
    for (index, (row, faults)) in cases.iter().enumerate() {
        let faulty = observed(&run, &all, &format!("fault-{index}"));
        let neighbour = observed(&run, &all, &format!("neighbour-{index}"));
        let mut whole = search.whole(row).unwrap().clone();
        // Some are of this machine, whatever happens.
        whole.trial.warnings.clone_from(&neighbour.trial.warnings);
        let mut found: Vec<String> = faulty.broken(faults, &whole).into_iter().collect();
        let beside = neighbour.broken(&[], &whole);
        found.extend(beside.map(|broken| format!("its neighbour: {broken}")));
        let took_s = faulty.trial.wall_s;
        if took_s > declared_s("local", 2, MOST_FUNCTIONS) {
            found.push(format!("{took_s} s are past the declared time"));
        }
        let why = faulty.trial.failure.as_deref().unwrap_or("it completed");
        let found = found.iter();
        wrong.extend(found.map(|found| format!("{row}, {}: {found} ({why})", faults[0])));
    }
    let has_failed = all.iter().any(|trial| trial.failure.is_some());
    let code = if has_failed { 3 } else { 0 };
    let before = fs::read(scene.path("run/trials.jsonl")).unwrap();
    for (what, output) in [("run", output), ("report", scene.report())] {
        if output.status.code() != Some(code) {
            let found = output.status.code();
            wrong.push(format!("{what}: exit {found:?} in place of {code}"));
        }
    }
    if fs::read(scene.path("run/trials.jsonl")).unwrap() != before {
        wrong.push("a report changed the trials".into());
    }
    wrong
}

#[test]
fn seeded_faults_end_as_they_must_and_leave_nothing() {
    let seed = number("CAMPAIGN_SEED", 20);
    let count = number("CAMPAIGN_FAULTS", rows().len());
    let scene = Scene::new();
    let search = block_on(search(&scene, experiment("sim"), seed as u64));
    let cases = (0..).map(|number| search.schedule(number));
    let cases = cases.map(|(row, faults)| (row.to_owned(), faults));
    let cases: Vec<_> = cases
        .filter(|(_, faults)| faults.iter().all(is_quick))
        .take(count)
        .collect();
    eprintln!("seed {seed}, {count} faults");
    let mut wrong = Vec::new();
    for some in cases.chunks(FAULTS_PER_RUN) {
        wrong.extend(campaign(&search, some));
    }
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
}
