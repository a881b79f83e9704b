//! Seeded faults over all systems: what comes of each, and that nothing is lost or left over.
//!
//! `CAMPAIGN_FAULTS` is the number of faults on this machine (default 13, one a system),
//! `CAMPAIGN_SIMULATED` that of further ones in virtual time (default 104), and
//! `CAMPAIGN_SEED` the seed. `CAMPAIGN_TABLE` names a file to which the
//! table of places and outcomes is written: `just campaign` does all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use std::{env, fs, thread};

use epochcost::platform::local::worker::{WORKER_VARIABLE, find_or_build};
use epochcost::results::{RunDirectory, TrialRow};
use epochcost_kernels::hash;
use epochcost_systems::{Host, Stage, find, systems};

use crate::support::program;

const WORKERS: usize = 3;
const BATCHES: usize = 2;
/// Time-out of an invocation, seconds: far above what one takes here, and what a hang costs.
const TIMEOUT_S: usize = 15;
/// The same in virtual time, where instances boot first.
const SIMULATED_TIMEOUT_S: usize = 900;
/// Faults in one run, each between two trials without.
const FAULTS_PER_RUN: usize = 26;
const KINDS: [&str; 4] = ["crash", "hang", "error", "{straggler_ms: 300}"];

/// One fault of one system.
struct Case {
    system: &'static str,
    rank: usize,
    batch: usize,
    kind: &'static str,
    /// None: at the gradient.
    stage: Option<Stage>,
}

impl Case {
    /// Draws the fault number `index` of a campaign: systems in turns, the rest from the seed.
    fn draw(seed: u64, index: usize) -> Self {
        let all = systems();
        let system = all[index % all.len()].name();
        let drawn = |what: u64, below: usize| {
            let random = hash::mix(seed ^ (what << 32), index as u64);
            (random % below as u64) as usize
        };
        let kind = KINDS[drawn(1, KINDS.len())];
        // An error happens at gradients alone.
        let stage = match drawn(2, 2 + Stage::ALL.len()) {
            place if place < 2 || kind == "error" => None,
            place => Some(Stage::ALL[place - 2]),
        };
        Self {
            system,
            rank: if system == "mirrored" {
                0
            } else {
                drawn(3, WORKERS)
            },
            batch: drawn(4, BATCHES),
            kind,
            stage,
        }
    }

    fn place(&self) -> &'static str {
        self.stage.map_or("gradient", Stage::as_str)
    }

    fn is_delay(&self) -> bool {
        self.kind.starts_with('{')
    }

    /// Its row in an experiment.
    fn row(&self, name: &str) -> String {
        let Self {
            rank, batch, kind, ..
        } = self;
        let stage = (self.stage).map_or(String::new(), |stage| {
            format!(", stage: {}", stage.as_str())
        });
        let fault = format!("{{rank: {rank}, epoch: 0, batch: {batch}, kind: {kind}{stage}}}");
        row(self.system, name, &format!(", faults: [{fault}]"))
    }

    /// Whether its system may end with a model although the fault stops a process.
    fn may_survive(&self) -> bool {
        // KubeML's job goes on with the functions that are left.
        self.system == "kubeml"
    }
}

fn row(system: &str, name: &str, more: &str) -> String {
    let own = match system {
        "kubeml" => ", settings: {document_samples: 8}",
        "mirrored" => ", instance_type: g4dn.12xlarge",
        _ => "",
    };
    format!("  - {{system: {system}, name: {name}{own}{more}}}\n")
}

/// Everything of one run.
struct Scene {
    directory: tempfile::TempDir,
    worker: PathBuf,
}

impl Scene {
    /// A directory with a worker of its own, by which its processes are known, and a
    /// directory of its own for temporary files.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("tmp")).unwrap();
        let worker = directory.path().join("bootstrap");
        fs::copy(find_or_build().unwrap().path, &worker).unwrap();
        let worker = worker.canonicalize().unwrap();
        Self { directory, worker }
    }

    fn run(&self, platform: &str, rows: &str) -> Output {
        let timeout_s = match platform {
            "sim" => SIMULATED_TIMEOUT_S,
            _ => TIMEOUT_S,
        };
        let experiment = format!(
            "schema: 1\nname: campaign\nplatform: {platform}\n\
             dataset: {{name: synthetic-mnist, train: 96, test: 16}}\n\
             model: lenet5\nworkers: {WORKERS}\nbatch_size: 8\nbatches_per_worker: {BATCHES}\n\
             epochs: 1\nmemory_mb: 1769\ntimeout_s: {timeout_s}\nsystems:\n{rows}"
        );
        let path = self.directory.path();
        fs::write(path.join("campaign.yaml"), experiment).unwrap();
        program()
            .args(["run", "campaign.yaml", "--out", "run"])
            .current_dir(path)
            .env("TMPDIR", path.join("tmp"))
            .env(WORKER_VARIABLE, &self.worker)
            .output()
            .unwrap()
    }

    fn processes(&self) -> usize {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|entry| fs::read_link(entry.path().join("exe")).ok())
            .filter(|executable| *executable == self.worker)
            .count()
    }

    /// Checks that nothing outlives the run. The kernel may take a moment to reap.
    fn is_clean(&self) -> bool {
        let tmp = self.directory.path().join("tmp");
        (0..100).any(|_| {
            let clean = self.processes() == 0 && fs::read_dir(&tmp).unwrap().next().is_none();
            if !clean {
                thread::sleep(Duration::from_millis(50));
            }
            clean
        })
    }
}

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

/// What became of the faults of one kind at one place of one system.
#[derive(Default)]
struct Tally {
    injected: usize,
    happened: usize,
    failed: usize,
    completed: usize,
}

/// By platform, system, kind and place.
type Table = BTreeMap<(&'static str, &'static str, &'static str, &'static str), Tally>;

/// Digests of the parameters of systems without faults, which every run must repeat.
type Expected = BTreeMap<&'static str, Vec<Digest>>;

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
        rows += &row(case.system, &format!("neighbour-{index}"), "");
    }
    let output = scene.run(platform, &rows);
    let mut wrong = Vec::new();
    let run = RunDirectory::open(&scene.directory.path().join("run"));
    let run = run.unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let trials = run.trials().unwrap();
    if trials.len() != 2 * cases.len() {
        wrong.push(format!("{} of {} trials", trials.len(), 2 * cases.len()));
    }
    if !scene.is_clean() {
        wrong.push(format!(
            "left over: {} processes, or files",
            scene.processes()
        ));
    }
    let trial = |name: String| trials.iter().find(|trial| trial.id.row == name);
    let mut some_failed = false;
    for (index, case) in cases.iter().enumerate() {
        let (Some(faulty), Some(neighbour)) = (
            trial(format!("fault-{index}")),
            trial(format!("neighbour-{index}")),
        ) else {
            wrong.push(format!("case {index} has no trial"));
            continue;
        };
        let happened = faulty.faults.first().copied().unwrap_or_default() > 0;
        let failed = faulty.failure.is_some();
        some_failed |= failed;
        let tally = table
            .entry((platform, case.system, case.kind, case.place()))
            .or_default();
        tally.injected += 1;
        tally.happened += usize::from(happened);
        tally.failed += usize::from(failed);
        tally.completed += usize::from(!failed);
        let mut must = |holds: bool, what: &str| {
            if !holds {
                let why = faulty.failure.as_deref().unwrap_or("it completed");
                wrong.push(format!(
                    "{platform}: {} {} at {} of rank {}, batch {}: {what} ({why})",
                    case.system,
                    case.kind,
                    case.place(),
                    case.rank,
                    case.batch
                ));
            }
        };
        let harmless = case.is_delay() || !happened;
        must(!failed || !harmless, "failed without a cause");
        must(
            failed || harmless || case.may_survive(),
            "a success although a process stopped",
        );
        let warned = (faulty.warnings.iter()).any(|warning| warning.contains("did not happen"));
        must(warned != happened, "whether it happened is not said");
        must(neighbour.failure.is_none(), "its neighbour failed");
        let is_deterministic = !matches!(case.system, "lambdaml_async" | "mlless");
        if is_deterministic && neighbour.failure.is_none() {
            let found = digests(&run, neighbour);
            // Where nothing is trained there are none.
            if !found.is_empty() {
                let expected = expected.entry(case.system).or_insert_with(|| found.clone());
                must(found == *expected, "its neighbour learned something else");
            }
            if harmless && !failed {
                let same = digests(&run, faulty) == found;
                must(same, "a delay changed the parameters");
            }
        }
    }
    let code = if some_failed { 3 } else { 0 };
    if output.status.code() != Some(code) {
        wrong.push(format!(
            "exit {:?} in place of {code}",
            output.status.code()
        ));
    }
    wrong
}

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn write_table(path: &Path, seed: u64, table: &Table) {
    let mut text = String::from("platform,system,kind,place,injected,happened,failed,completed\n");
    for ((platform, system, kind, place), tally) in table {
        let kind = kind.trim_matches(['{', '}']).replace(": ", "=");
        let Tally {
            injected,
            happened,
            failed,
            completed,
        } = tally;
        writeln!(
            text,
            "{platform},{system},{kind},{place},{injected},{happened},{failed},{completed}"
        )
        .unwrap();
    }
    writeln!(text, "# seed {seed}").unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn seeded_faults_end_as_they_must_and_leave_nothing() {
    let seed = number("CAMPAIGN_SEED", 20);
    let count = number("CAMPAIGN_FAULTS", systems().len() as u64) as usize;
    let simulated = number("CAMPAIGN_SIMULATED", 104) as usize;
    eprintln!("seed {seed}, {count} faults here and {simulated} in virtual time");
    let cases = |range: std::ops::Range<usize>| range.map(|index| Case::draw(seed, index));
    let parts: [(&str, Vec<Case>); 2] = [
        ("sim", cases(count..count + simulated).collect()),
        ("local", cases(0..count).collect()),
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

/// The campaign's draws reach every system, kind and place.
#[test]
fn a_thousand_draws_reach_every_place() {
    let drawn: BTreeSet<_> = (0..1_000)
        .map(|index| {
            let case = Case::draw(20, index);
            (case.kind, case.place())
        })
        .collect();
    assert_eq!(drawn.len(), 3 * (1 + Stage::ALL.len()) + 1);
    let on_functions = |name: &str| find(name).unwrap().deployment().runs_on(Host::Function);
    let hosts: BTreeSet<bool> = (systems().iter())
        .map(|system| on_functions(system.name()))
        .collect();
    assert_eq!(hosts.len(), 2, "systems on functions and on instances");
}
