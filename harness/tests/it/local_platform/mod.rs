//! Trials on the local platform with real worker processes: LeNet-5 on a few
//! random images.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use epochcost_channels::Traffic;
use epochcost_kernels::hash;
use epochcost_platform::local::{Local, Worker, worker};
use epochcost_platform::{PlatformError, Progress, TrialData};
use epochcost_spec::metering::{Invocation, TrialOutcome};
use epochcost_spec::rows::{Fault, FaultKind, TrialPlan};
use epochcost_systems::{Device, Evaluate, Host, Record, Stage, StepRecord, find, find_model};
use serde_json::json;

use crate::fixture;
use crate::support::{Scene, holds};

mod surroundings;

/// Bytes of an MNIST record.
const RECORD_BYTES: usize = 785;
const WORKERS: usize = 2;
const BATCHES: usize = 2;
const EPOCHS: usize = 2;
const BATCH_SIZE: usize = 4;
/// Far below the time-out of a function (900 s), which a trial that waits for
/// a dead worker would need.
const BOUND: Duration = Duration::from_secs(100);

fn found() -> Worker {
    static WORKER: OnceLock<Worker> = OnceLock::new();
    WORKER
        .get_or_init(|| worker::find_or_build().unwrap())
        .clone()
}

fn plan(system: &str) -> TrialPlan {
    let mut plan = fixture::plan(system, 0);
    (plan.row.memory_mb, plan.row.cpu_fallback) = (1_769, false);
    plan.sizes = find_model("lenet5").unwrap().sizes;
    let job = &mut plan.row.job;
    job.model = "lenet5".into();
    job.data.dataset = "synthetic-mnist".into();
    job.data.record_bytes = RECORD_BYTES;
    job.data.train_samples = WORKERS * BATCHES * BATCH_SIZE;
    job.data.test_samples = 8;
    (job.workers, job.epochs) = (WORKERS, EPOCHS);
    (job.batch_size, job.batches_per_worker) = (BATCH_SIZE, BATCHES);
    job.optimizer = serde_json::from_value(json!({"sgd": {"learning_rate": 0.05}})).unwrap();
    job.evaluate = Evaluate::Last;
    plan
}

fn with_fault(system: &str, kind: FaultKind) -> TrialPlan {
    let mut plan = plan(system);
    plan.row.faults = vec![Fault::at_gradient(1, 0, 1, kind)];
    plan
}

fn data() -> TrialData {
    let records = |samples: usize, seed: u64| -> bytes::Bytes {
        (0..samples * RECORD_BYTES)
            .map(|at| {
                let byte = (hash::mix(seed, at as u64) >> 56) as u8;
                if at % RECORD_BYTES == 0 {
                    byte % 10
                } else {
                    byte
                }
            })
            .collect()
    };
    let train = WORKERS * BATCHES * BATCH_SIZE;
    TrialData {
        train: records(train, 1),
        test: records(8, 2),
        record_bytes: RECORD_BYTES,
    }
}

#[derive(Default)]
struct Steps(AtomicU64);

impl Progress for Steps {
    fn steps(&self, done: u64) {
        self.0.store(done, Ordering::Relaxed);
    }
}

/// What another machine hands over in files is the trial that this one would have run itself.
#[tokio::test]
async fn a_trial_handed_over_gives_what_it_gives_here() {
    let scene = Scene::empty();
    let missing = scene.run("dev trial .");
    missing.ends(1).says(&["trial.json"]);
    let (plan, data) = (plan("allreduce"), data());
    scene.write("trial.json", &serde_json::to_string(&plan).unwrap());
    std::fs::write(scene.file("train.bin"), &data.train).unwrap();
    std::fs::write(scene.file("test.bin"), &data.test).unwrap();
    scene.text("dev trial .");
    let there: TrialOutcome = serde_json::from_str(&scene.read("outcome.json")).unwrap();
    assert_eq!(there.failure, None);
    let here = run(&plan).await;
    // A reader of JSON may round the last digit of a loss otherwise.
    assert_eq!(digests(&there), digests(&here));
    assert!(!digests(&here).is_empty());
}

async fn run(plan: &TrialPlan) -> TrialOutcome {
    let local = Local::with_worker(found()).await.unwrap();
    let steps = Steps::default();
    let outcome = tokio::time::timeout(BOUND, local.run_trial(plan, &data(), &steps))
        .await
        .expect("no trial waits for a worker that is gone")
        .unwrap();
    assert_eq!(steps.0.into_inner(), step_records(&outcome).len() as u64);
    outcome
}

/// A trial that fails with these words.
async fn failure(plan: &TrialPlan, words: &[&str]) -> TrialOutcome {
    let outcome = run(plan).await;
    holds(outcome.failure.as_ref().unwrap(), words);
    outcome
}

fn step_records(outcome: &TrialOutcome) -> Vec<&StepRecord> {
    let steps = outcome.records.iter().filter_map(|record| match record {
        Record::Step(step) => Some(step.as_ref()),
        _ => None,
    });
    steps.collect()
}

/// Losses and digests by place, without times.
fn course(outcome: &TrialOutcome) -> BTreeMap<String, (Option<f64>, Option<String>)> {
    let course = step_records(outcome).into_iter().map(|step| {
        let (function, rank, epoch) = (&step.function, step.rank, step.epoch);
        let place = format!("{function} {rank} {epoch} {:?}", step.batch);
        (place, (step.loss, step.parameters_digest.clone()))
    });
    course.collect()
}

fn exchanged(outcome: &TrialOutcome) -> Traffic {
    let mut total = Traffic::default();
    for step in step_records(outcome) {
        total += step.traffic.exchange.total();
    }
    total.untimed()
}

fn assert_succeeds(plan: &TrialPlan, outcome: &TrialOutcome) {
    assert_eq!(outcome.failure, None);
    let system = find(&plan.row.job.system).unwrap();
    let expected = system.bind(&plan.row.job).unwrap().traffic(plan.sizes);
    assert_eq!(exchanged(outcome), expected.unwrap().untimed());
    let evaluated = outcome.records.iter().any(|record| match record {
        Record::Evaluated { evaluation, .. } => evaluation.samples == 8,
        _ => false,
    });
    assert!(evaluated);
    let ids = outcome.invocations.iter().map(|call| &call.request_id);
    let ids: HashSet<_> = ids.collect();
    assert_eq!(ids.len(), outcome.invocations.len());
    for invocation in &outcome.invocations {
        assert_eq!(invocation.error, None);
        assert!(invocation.duration_ms > 0.0 && invocation.peak_memory_mb > Some(0));
        assert!(invocation.ended_s >= invocation.started_s);
        if invocation.host == Host::Function {
            assert_eq!(invocation.cold, invocation.init_ms.is_some());
            assert_eq!(invocation.memory_mb, Some(1_769));
            let billed = (invocation.duration_ms + invocation.init_ms.unwrap_or(0.0)).ceil();
            // The REPORT line rounds both to hundredths of a millisecond.
            let rounded = (billed - invocation.billed_ms as f64).abs();
            assert!(rounded <= 1.0, "{invocation:?}");
        }
    }
}

fn digests(outcome: &TrialOutcome) -> BTreeMap<(usize, Option<usize>), BTreeSet<String>> {
    let mut digests = BTreeMap::<_, BTreeSet<_>>::new();
    for step in step_records(outcome) {
        if let Some(digest) = &step.parameters_digest {
            let replicas = digests.entry((step.epoch, step.batch)).or_default();
            replicas.insert(digest.clone());
        }
    }
    digests
}

#[tokio::test(flavor = "multi_thread")]
async fn allreduce_runs_to_its_end_and_the_same_way_twice() {
    let plan = plan("allreduce");
    let outcome = run(&plan).await;
    assert_succeeds(&plan, &outcome);
    let digests = digests(&outcome);
    assert!(!digests.is_empty() && digests.values().all(|replicas| replicas.len() == 1));
    assert_eq!(course(&outcome), course(&run(&plan).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn spirt_runs_to_its_end_and_keeps_sandboxes_warm() {
    let plan = plan("spirt");
    let outcome = run(&plan).await;
    assert_succeeds(&plan, &outcome);
    assert!(outcome.transitions > 0);
    let calls = outcome.invocations.iter();
    let gradients = calls.clone().filter(|call| call.batch.is_some());
    assert_eq!(gradients.clone().count(), WORKERS * BATCHES * EPOCHS);
    assert!(gradients.clone().any(|call| !call.cold));
    for call in calls.clone().filter(|call| !call.cold) {
        let is_first = |other: &&Invocation| other.cold && other.sandbox == call.sandbox;
        let first = calls.clone().find(is_first).unwrap();
        assert!(first.ended_s <= call.started_s && first.function == call.function);
    }
}

/// Every system, on instances and on functions, which share the GPUs.
#[tokio::test(flavor = "multi_thread")]
async fn a_system_on_gpus_falls_back_only_where_it_may() {
    let local = Local::with_worker(found()).await.unwrap();
    for system in epochcost_systems::systems() {
        let mut plan = plan(system.name());
        assert!(local.check_device(&plan.row).is_ok());
        plan.row.job.device = Device::Cuda;
        if let Err(error) = local.check_device(&plan.row) {
            holds(error.to_string(), &["the device cuda"]);
        }
        plan.row.cpu_fallback = true;
        assert!(local.check_device(&plan.row).is_ok());
    }
    for (system, function, host) in [
        ("gpu_baseline", None, Host::Instance),
        ("kubeml", Some("train"), Host::Function),
        ("spirt", Some("compute_gradients"), Host::Function),
        ("scatterreduce", None, Host::Function),
    ] {
        let mut plan = plan(system);
        plan.row.job.device = Device::Cuda;
        if system == "kubeml" {
            // Documents enough for every function.
            plan.row.job.settings["document_samples"] = json!(BATCH_SIZE);
        }
        match local.run_trial(&plan, &data(), &Steps::default()).await {
            Err(PlatformError::Lacks { what, remedy }) => {
                holds(&what, &["cuda", "CUDA"]);
                holds(&remedy, &["EPOCHCOST_WORKER"]);
            }
            Ok(outcome) => {
                assert_succeeds(&plan, &outcome);
                continue;
            }
            other => panic!("{other:?}"),
        }
        plan.row.cpu_fallback = true;
        let outcome = run(&plan).await;
        assert_succeeds(&plan, &outcome);
        let is_worker = |call: &&Invocation| function.is_none_or(|name| call.function == name);
        let of_workers = outcome.invocations.iter().filter(is_worker);
        let hosts: Vec<Host> = of_workers.map(|call| call.host).collect();
        assert!(!hosts.is_empty() && hosts.iter().all(|one| *one == host));
        let warned = |record: &Record| matches!(record, Record::Warning { text, .. } if text.contains("CPU"));
        assert!(outcome.records.iter().any(warned), "{system}");
    }
}

/// In the middle of a gradient, or before a stage of a mini-batch's step.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_fails_the_trial_with_its_words_and_is_recorded() {
    use FaultKind::{Crash, Error, Hang, OutOfMemory, StragglerMs};
    let (put, update) = (Some(Stage::Put), Some(Stage::UpdateModel));
    let late = StragglerMs(600_000);
    let of_crash = ["worker 1", "injected fault: crash", "exit status 1"];
    for (system, kind, stage, says) in [
        ("allreduce", Crash, None, "Runtime.ExitError"),
        ("spirt", Crash, None, "Runtime.ExitError"),
        ("scatterreduce", Crash, None, "Runtime.ExitError"),
        ("mlless", Crash, None, "Runtime.ExitError"),
        ("allreduce", Crash, put, "Runtime.ExitError"),
        ("allreduce", Crash, update, "Runtime.ExitError"),
        ("gpu_baseline", Crash, None, "exit status 1"),
        ("allreduce", Error, None, "injected fault: error"),
        ("gpu_baseline", Error, None, "injected fault: error"),
        ("allreduce", OutOfMemory, None, "Runtime.OutOfMemory"),
        ("allreduce", Hang, put, "timed out"),
        ("allreduce", late, None, "Task timed out after 3.00 seconds"),
    ] {
        let mut plan = with_fault(system, kind);
        plan.row.faults[0].stage = stage;
        let (memory_mb, timeout_s, also) = match kind {
            Hang | StragglerMs(_) => (1_769, 3, &[][..]),
            OutOfMemory => (512, 900, &of_crash[..1]),
            Crash if system != "gpu_baseline" => (1_769, 900, &of_crash[..]),
            _ => (1_769, 900, &of_crash[..1]),
        };
        (plan.row.memory_mb, plan.row.timeout_s) = (memory_mb, timeout_s);
        let outcome = failure(&plan, &[&[says], also].concat()).await;
        assert_eq!(outcome.faults(1), [1], "{system}, {kind:?}");
        let mut calls = outcome.invocations.iter();
        let failed = calls.find(|call| call.error.is_some()).unwrap();
        match kind {
            Crash => assert_eq!(failed.rank, 1, "{system}"),
            StragglerMs(_) => assert_eq!(failed.duration_ms, 3_000.0),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_another_function_does_not_happen() {
    let mut plan = with_fault("spirt", FaultKind::Crash);
    plan.row.faults[0].stage = Some(Stage::Put);
    plan.row.faults[0].function = Some("update_model".into());
    let outcome = run(&plan).await;
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.faults(1), [0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_trial_leaves_no_process() {
    let (_dir, copy) = copied();
    let local = Local::with_worker(copy.clone()).await.unwrap();
    let plan = with_fault("allreduce", FaultKind::StragglerMs(600_000));
    let (data, steps) = (data(), Steps::default());
    tokio::select! {
        _ = local.run_trial(&plan, &data, &steps) => panic!("it waits for the straggler"),
        () = until(|| running(&copy.path) == WORKERS) => {}
    }
    until(|| running(&copy.path) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_harness_leaves_no_process() {
    let (_dir, copy) = copied();
    let mut harness = harness(&copy).spawn().unwrap();
    for system in ["functions", "instances"] {
        until(|| running(&copy.path) == 2 * WORKERS).await;
        assert!(harness.try_wait().unwrap().is_none(), "{system}");
    }
    harness.kill().unwrap();
    harness.wait().unwrap();
    until(|| running(&copy.path) == 0).await;
    // What the dead harness could not remove goes with the next one.
    drop(Local::with_worker(copy).await.unwrap());
}

/// Runs [`waits_to_be_killed`] with a worker.
fn harness(worker: &Worker) -> Command {
    let mut harness = Command::new(std::env::current_exe().unwrap());
    harness.args(["--exact", "local_platform::waits_to_be_killed"]);
    harness.args(["--ignored", "--nocapture"]);
    harness.env(worker::WORKER_VARIABLE, &worker.path);
    harness.stdout(Stdio::null());
    harness
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "is run by another test, which kills it"]
async fn waits_to_be_killed() {
    let local = Local::with_worker(found()).await.unwrap();
    let functions = with_fault("allreduce", FaultKind::StragglerMs(600_000));
    let instances = with_fault("gpu_baseline", FaultKind::StragglerMs(600_000));
    let (data, steps) = (data(), Steps::default());
    let outcomes = tokio::join!(
        local.run_trial(&functions, &data, &steps),
        local.run_trial(&instances, &data, &steps),
    );
    panic!("ended: {outcomes:?}");
}

/// A worker binary at a path of its own, by which its processes are known.
fn copied() -> (tempfile::TempDir, Worker) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bootstrap");
    std::fs::copy(found().path, &path).unwrap();
    let path = path.canonicalize().unwrap();
    (dir, Worker::at(path).unwrap())
}

/// The processes that run `program`.
fn processes(program: &Path) -> impl Iterator<Item = PathBuf> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.map(|entry| entry.path()).filter(move |process| {
        std::fs::read_link(process.join("exe")).is_ok_and(|executable| executable == program)
    })
}

fn running(program: &Path) -> usize {
    processes(program).count()
}

/// The environments of these processes.
fn environments(program: &Path) -> Vec<String> {
    let read = |process: PathBuf| std::fs::read(process.join("environ")).ok();
    let found = processes(program).filter_map(read);
    let texts = found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    texts.collect()
}

async fn until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(BOUND, waiting)
        .await
        .expect("the condition comes true");
}
