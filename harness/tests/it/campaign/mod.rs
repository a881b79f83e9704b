//! Seeded faults over all systems: what comes of each, and that nothing is lost or left over.
//!
//! A survey in virtual time finds the places to which workers come: stages and gradients of all
//! functions of all systems. A campaign then has every kind of fault at every one of them first,
//! and any of these again after that.
//!
//! `CAMPAIGN_FAULTS` is the number of faults on this machine (default: one a system),
//! `CAMPAIGN_SIMULATED` that of further ones in virtual time (default: eight a system), and
//! `CAMPAIGN_SEED` the seed. `CAMPAIGN_TABLE` names a file to which the table of places and
//! outcomes is written, `CAMPAIGN_PROGRAM` another build of the program: `just campaign` does
//! all of it.

mod cases;
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use epochcost::results::{RunDirectory, TrialRow};
use epochcost_systems::find;

use self::cases::{Case, MEMBERS, Survey, row, subjects, system_of};
use self::scene::{Scene, declared_s};

/// Faults in one run, each between two trials without.
const FAULTS_PER_RUN: usize = 26;
/// Systems whose replicas depend on who comes first.
const TIMED: [&str; 2] = ["lambdaml_async", "mlless"];

/// Rank, epoch and mini-batch of an update, and the digest of the parameters after it.
type Digest = (usize, usize, Option<usize>, String);

/// Digests of the parameters after every update of a trial, in a fixed order.
fn digests(run: &RunDirectory, trial: &TrialRow) -> Vec<Digest> {
    let steps = run.steps(trial).unwrap();
    let digests = steps.into_iter().filter_map(|step| {
        let digest = step.parameters_digest?;
        Some((step.rank, step.epoch, step.batch, digest))
    });
    let mut digests: Vec<_> = digests.collect();
    digests.sort();
    digests
}

/// Whether all replicas of a trial are the same after its last update.
fn ends_alike(digests: &[Digest]) -> bool {
    let last = digests.iter().map(|(_, epoch, batch, _)| (epoch, batch));
    let last = last.max();
    let ends = digests
        .iter()
        .filter(|(_, epoch, batch, _)| Some((epoch, batch)) == last);
    ends.map(|(.., digest)| digest)
        .collect::<BTreeSet<_>>()
        .len()
        == 1
}

/// What became of the faults of one kind at one place of one system.
#[derive(Default)]
struct Tally {
    injected: usize,
    happened: usize,
    failed: usize,
    completed: usize,
}

/// By platform, system, kind, function and stage.
type Table = BTreeMap<
    (
        &'static str,
        &'static str,
        String,
        &'static str,
        &'static str,
    ),
    Tally,
>;

/// Digests of the parameters of systems without faults, which every run must repeat, on either
/// platform.
type Expected = BTreeMap<&'static str, Vec<Digest>>;

/// What must hold and does not.
struct Findings<'a> {
    found: Vec<String>,
    platform: &'static str,
    case: &'a Case,
    why: String,
}

impl Findings<'_> {
    fn must(&mut self, holds: bool, what: &str) {
        if holds {
            return;
        }
        let (platform, why) = (self.platform, &self.why);
        let Case {
            subject,
            rank,
            batch,
            kind,
            place,
        } = self.case;
        let kind = kind.name();
        self.found.push(format!(
            "{platform}: {subject} {kind} at {} of {}, rank {rank}, mini-batch {batch}: {what} \
             ({why})",
            place.stage(),
            place.function,
        ));
    }
}

/// The trials of one run.
struct Trials<'a> {
    platform: &'static str,
    run: &'a RunDirectory,
    all: Vec<TrialRow>,
}

impl Trials<'_> {
    fn of(&self, name: &str) -> Option<&TrialRow> {
        self.all.iter().find(|trial| trial.id.row == name)
    }

    /// Whether the record of a trial shows that a process of it failed.
    fn shows_a_loss(&self, trial: &TrialRow) -> bool {
        let calls = self.run.invocations().unwrap();
        let mut own = calls.iter().filter(|call| call.trial == trial.id);
        own.any(|call| call.invocation.error.is_some())
    }

    /// Judges a trial with a fault and its neighbour without.
    fn judge(
        &self,
        case: &Case,
        (faulty, neighbour): (&TrialRow, &TrialRow),
        expected: &mut Expected,
    ) -> Vec<String> {
        let happened = faulty.faults.iter().sum::<usize>() > 0;
        let failed = faulty.failure.is_some();
        let harmless = case.kind.is_delay();
        let mut findings = Findings {
            found: Vec::new(),
            platform: self.platform,
            case,
            why: faulty.failure.clone().unwrap_or("it completed".into()),
        };
        findings.must(happened, "it did not happen");
        findings.must(!failed || !harmless, "failed without a cause");
        // Who needs a broken server no more, or asks it later, ends as if nothing had happened.
        let of_server = case.kind.is_of_server();
        let is_false = !failed && !harmless && happened && !case.may_survive() && !of_server;
        findings.must(!is_false, "a success although a process stopped");
        let survived = !failed && !harmless && happened && case.may_survive();
        let is_recorded = !survived || of_server || self.shows_a_loss(faulty);
        findings.must(is_recorded, "what was lost is not in the record");
        let warned = (faulty.warnings.iter()).any(|warning| warning.contains("did not happen"));
        findings.must(warned != happened, "whether it happened is not said");
        let functions = (find(system_of(case.subject))
            .unwrap()
            .deployment()
            .functions)
            .len();
        let epochs = if case.subject == MEMBERS { 2 } else { 1 };
        let declared_s = declared_s(self.platform, epochs, functions);
        findings.must(faulty.wall_s <= declared_s, "past the declared time");
        findings.must(neighbour.failure.is_none(), "its neighbour failed");
        if TIMED.contains(&case.subject) || neighbour.failure.is_some() {
            return findings.found;
        }
        let (found, own) = (digests(self.run, neighbour), digests(self.run, faulty));
        let known = expected
            .entry(case.subject)
            .or_insert_with(|| found.clone());
        let same = !found.is_empty() && found == *known;
        findings.must(same, "its neighbour learned something else");
        let same = failed || survived || own == found;
        findings.must(same, "a success with other parameters");
        let alike = !survived || case.subject != MEMBERS || ends_alike(&own);
        findings.must(alike, "replicas of the living differ");
        findings.found
    }
}

/// Runs `cases` on `platform`, each with a neighbour without faults, and adds what became of
/// them to `table`. Returns what must not be.
fn campaign(
    platform: &'static str,
    cases: &[Case],
    table: &mut Table,
    expected: &mut Expected,
) -> Vec<String> {
    let scene = Scene::new();
    let mut rows = String::new();
    for (index, case) in cases.iter().enumerate() {
        rows += &case.row(&format!("fault-{index}"));
        rows += &row(case.subject, &format!("neighbour-{index}"), "");
    }
    let (output, left) = scene.run(platform, &rows);
    let mut wrong: Vec<String> = left.into_iter().collect();
    let run = RunDirectory::open_whole(&scene.path("run"));
    let run = run.unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let trials = Trials {
        platform,
        run: &run,
        all: run.trials().unwrap(),
    };
    if trials.all.len() != 2 * cases.len() {
        let (found, asked) = (trials.all.len(), 2 * cases.len());
        wrong.push(format!("{found} of {asked} trials"));
    }
    let mut some_failed = false;
    for (index, case) in cases.iter().enumerate() {
        let (Some(faulty), Some(neighbour)) = (
            trials.of(&format!("fault-{index}")),
            trials.of(&format!("neighbour-{index}")),
        ) else {
            wrong.push(format!("case {index} has no trial"));
            continue;
        };
        let failed = faulty.failure.is_some();
        some_failed |= failed || neighbour.failure.is_some();
        let place = case.place;
        let tally = table
            .entry((
                platform,
                case.subject,
                case.kind.name(),
                place.function,
                place.stage(),
            ))
            .or_default();
        tally.injected += 1;
        tally.happened += usize::from(faulty.faults.iter().sum::<usize>() > 0);
        tally.failed += usize::from(failed);
        tally.completed += usize::from(!failed);
        wrong.extend(trials.judge(case, (faulty, neighbour), expected));
    }
    let code = if some_failed { 3 } else { 0 };
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

/// Finds out where the workers of each system come.
fn survey() -> Survey {
    let scene = Scene::new();
    let (output, _) = scene.run("sim", &Survey::rows());
    let run = RunDirectory::open_whole(&scene.path("run")).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let mut survey = Survey::default();
    for trial in run.trials().unwrap() {
        assert_eq!(trial.failure, None, "{}", trial.id);
        let subject = (subjects().into_iter()).find(|name| trial.id.row == name.replace('_', "-"));
        survey.note(subject.unwrap(), &trial.faults);
    }
    survey
}

/// A number from the environment.
fn number(name: &str, default: usize) -> usize {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn write_table(path: &Path, seed: u64, table: &Table) {
    let mut text =
        String::from("platform,system,kind,function,place,injected,happened,failed,completed\n");
    for ((platform, system, kind, function, place), tally) in table {
        let Tally {
            injected,
            happened,
            failed,
            completed,
        } = tally;
        writeln!(
            text,
            "{platform},{system},{kind},{function},{place},{injected},{happened},{failed},\
             {completed}"
        )
        .unwrap();
    }
    writeln!(text, "# seed {seed}").unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn seeded_faults_end_as_they_must_and_leave_nothing() {
    let seed = number("CAMPAIGN_SEED", 20) as u64;
    let count = number("CAMPAIGN_FAULTS", subjects().len());
    let simulated = number("CAMPAIGN_SIMULATED", 8 * subjects().len());
    let survey = survey();
    let possible = survey.all().len();
    eprintln!(
        "seed {seed}, {count} faults here and {simulated} in virtual time; {possible} kinds and \
         places are possible"
    );
    let parts: [(&str, Vec<Case>); 2] = [
        ("sim", Case::draw(&survey, seed, simulated)),
        ("local", Case::draw(&survey, seed + 1, count)),
    ];
    let (mut table, mut expected) = (Table::new(), Expected::new());
    let mut wrong = Vec::new();
    for (platform, cases) in &parts {
        for (index, some) in cases.chunks(FAULTS_PER_RUN).enumerate() {
            let found = campaign(platform, some, &mut table, &mut expected);
            let done = index * FAULTS_PER_RUN + some.len();
            eprintln!("{platform}: {done} of {}: {found:?}", cases.len());
            wrong.extend(found);
            if let Ok(path) = env::var("CAMPAIGN_TABLE") {
                write_table(Path::new(&path), seed, &table);
            }
        }
    }
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
}

/// A thousand faults are every kind at every place of every system, from any seed.
#[test]
fn a_thousand_faults_are_every_kind_at_every_place() {
    let survey = survey();
    let all = survey.all();
    assert!(all.len() > 300, "{} kinds and places", all.len());
    for seed in [0, 1, 20] {
        let cases = Case::draw(&survey, seed, 1_000);
        let drawn: BTreeSet<_> = cases
            .iter()
            .map(|case| (case.subject, case.kind, case.place))
            .collect();
        assert_eq!(drawn, all, "seed {seed}");
    }
    // Every function of every system is among them but those that take no step.
    let functions: BTreeSet<_> = all
        .iter()
        .map(|(subject, _, place)| (*subject, place.function))
        .collect();
    for subject in subjects() {
        let deployment = find(system_of(subject)).unwrap().deployment();
        let reached = (deployment.functions.iter())
            .filter(|function| functions.contains(&(subject, function.name)));
        assert!(reached.count() > 0, "{subject}");
    }
}
