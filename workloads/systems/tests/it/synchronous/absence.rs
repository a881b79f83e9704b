//! Workers that never publish, fail, or stay hidden: every wait ends or is
//! known not to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::memory::{MemoryLinks, MemoryObjects, MemoryQueue};
use epochcost_channels::{Links, ObjectStore, Queue};
use epochcost_systems::testing;
use epochcost_systems::{
    Batch, Channels, Clock, Compute, ComputeHook, DATASET_BUCKET, DriveError, Evaluate,
    ExecutionStatus, Fidelity, HookedCompute, Invoke, Job, Outcome, Record, Recorder, Result,
    SystemError, Task, World, find, shard_key, systems,
};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, yield_now};

use super::common::*;

/// How often a worker that waits for ever is let run.
const TURNS: usize = 2_000;

/// A clock on which only sleeping takes time.
#[derive(Default)]
struct Sleeping(AtomicU64);

#[async_trait]
impl Clock for Sleeping {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    async fn sleep(&self, duration: Duration) {
        let milliseconds = duration.as_millis() as u64;
        self.0.fetch_add(milliseconds, Ordering::Relaxed);
        yield_now().await;
    }
}

struct Nowhere;

#[async_trait]
impl Invoke for Nowhere {
    async fn call(&self, _task: Task) -> Result<Outcome> {
        Ok(Outcome::Finished)
    }

    async fn forget(&self, _task: Task) -> Result<()> {
        Ok(())
    }

    async fn start_workflow(&self, _task: Task) -> Result<String> {
        Ok(String::new())
    }

    async fn status(&self, _execution: &str) -> Result<ExecutionStatus> {
        Ok(ExecutionStatus::Succeeded)
    }
}

impl Recorder for Nowhere {
    fn record(&self, _record: Record) {}
}

pub(crate) fn short_job(system: &str, workers: usize, settings: Value) -> Job {
    Job {
        evaluate: Evaluate::Never,
        ..job(system, Fidelity::Paper, workers, settings)
    }
}

/// Channels that hold the shards of `job`.
pub(crate) async fn channels(job: &Job) -> Channels {
    let channels = Channels {
        objects: ObjectStore::new(Arc::new(MemoryObjects::default())),
        tensors: Arc::new(Vec::new()),
        queue: Queue::new(Arc::new(MemoryQueue::default())),
        links: Links::new(Arc::new(MemoryLinks::default())),
    };
    let share = job.batches_per_worker * job.batch_size;
    for rank in 0..job.workers {
        let records = testing::records(job, rank * share, share).into();
        let key = shard_key(rank);
        let put = channels.objects.put(DATASET_BUCKET, &key, records);
        put.await.unwrap();
    }
    channels
}

/// Starts worker `rank` on a clock of its own.
fn start(job: &Job, channels: &Channels, rank: usize) -> JoinHandle<Result<Outcome>> {
    start_with(job, channels, rank, testing::compute())
}

/// Starts worker `rank` on a clock of its own, with the given computation.
pub(crate) fn start_with(
    job: &Job,
    channels: &Channels,
    rank: usize,
    compute: Box<dyn Compute>,
) -> JoinHandle<Result<Outcome>> {
    let mut world = world(job, "train", channels, rank, compute);
    let system = find(&job.system).unwrap();
    tokio::spawn(async move { system.run(&mut world).await })
}

/// What an invocation of `function` sees, on a clock of its own.
fn world(
    job: &Job,
    function: &str,
    channels: &Channels,
    rank: usize,
    compute: Box<dyn Compute>,
) -> World {
    let task = Task {
        job: job.clone(),
        function: function.into(),
        rank,
        epoch: 0,
        batch: None,
        round: 0,
    };
    let (nowhere, clock) = (Arc::new(Nowhere), Arc::new(Sleeping::default()));
    World::new(task, channels, compute, nowhere.clone(), clock, nowhere)
}

#[tokio::test]
async fn functions_that_a_system_lacks_are_refused() {
    for system in systems() {
        let job = short_job(system.name(), 2, json!({}));
        let channels = channels(&job).await;
        let mut world = world(&job, "elsewhere", &channels, 0, testing::compute());
        match system.run(&mut world).await {
            Err(SystemError::UnknownFunction {
                system: by,
                function,
            }) => {
                assert_eq!((by, function.as_str()), (system.name(), "elsewhere"));
            }
            other => panic!("{other:?} of {}", system.name()),
        }
    }
}

async fn assert_times_out(worker: JoinHandle<Result<Outcome>>, awaited: &str, after: Duration) {
    match worker.await.unwrap() {
        Err(SystemError::TimedOut { what, waited }) => {
            assert_eq!((what.as_str(), waited), (awaited, after));
        }
        other => panic!("{other:?} instead of waiting for {awaited}"),
    }
}

async fn assert_waits_for_ever(worker: &JoinHandle<Result<Outcome>>) {
    for _ in 0..TURNS {
        yield_now().await;
    }
    assert!(!worker.is_finished());
}

/// Behaviour as published: the others give up on the merged gradient after a minute, and
/// worker 0 lists for ever.
#[tokio::test]
async fn allreduce_without_its_last_worker() {
    let job = short_job("allreduce", 4, json!({}));
    let channels = channels(&job).await;
    let root = start(&job, &channels, 0);
    let others = [1, 2].map(|rank| start(&job, &channels, rank));
    for other in others {
        let awaited = "merged gradient merged_0_0";
        assert_times_out(other, awaited, Duration::from_secs(60)).await;
    }
    assert_waits_for_ever(&root).await;
    root.abort();
}

/// All wait for ever, as published; with a limit, all give up.
#[tokio::test]
async fn scatterreduce_without_its_last_worker() {
    for limit in [None, Some(5)] {
        let settings = json!({"list_timeout_s": limit, "list_poll_ms": 10});
        let job = short_job("scatterreduce", 4, settings);
        let channels = channels(&job).await;
        for worker in [0, 1, 2].map(|rank| start(&job, &channels, rank)) {
            if let Some(limit) = limit {
                let awaited = "the other workers' chunks";
                assert_times_out(worker, awaited, Duration::from_secs(limit)).await;
            } else {
                assert_waits_for_ever(&worker).await;
                worker.abort();
            }
        }
    }
}

#[tokio::test]
async fn the_baseline_without_its_last_worker() {
    let job = short_job("gpu_baseline", 4, json!({"timeout_s": 7}));
    let channels = channels(&job).await;
    for worker in [0, 1, 2].map(|rank| start(&job, &channels, rank)) {
        let awaited = "gradient minibatch_0_worker_3.pt";
        assert_times_out(worker, awaited, Duration::from_secs(7)).await;
    }
}

/// A thousand older keys hide all others from a listing that never asks for
/// the next page.
#[tokio::test]
async fn keys_beyond_the_first_page_stay_hidden() {
    for system in ["allreduce", "scatterreduce"] {
        for first_page_only in [true, false] {
            let settings = json!({"list_first_page_only": first_page_only});
            let job = short_job(system, 2, settings);
            let channels = channels(&job).await;
            for key in 0..1000 {
                let key = format!("!{key:04}");
                let put = channels.objects.put("tmp-params", &key, vec![0].into());
                put.await.unwrap();
            }
            let workers = [0, 1].map(|rank| start(&job, &channels, rank));
            if first_page_only {
                assert_waits_for_ever(&workers[0]).await;
                workers.iter().for_each(JoinHandle::abort);
            } else {
                for worker in workers {
                    assert_eq!(worker.await.unwrap().unwrap(), Outcome::Finished);
                }
            }
        }
    }
}

/// The last of three workers fails at its second mini-batch.
struct Failing;

#[async_trait]
impl ComputeHook for Failing {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        match (batch.rank, batch.index) {
            (2, 1) => Err(SystemError::Compute("the device is gone".into())),
            _ => Ok(()),
        }
    }
}

/// The job ends with the failure; the workers that wait do not hold it up.
#[tokio::test]
async fn a_worker_that_fails_ends_the_job() {
    for system in SYSTEMS {
        let job = job(system, Fidelity::Paper, 3, json!({}));
        let compute = || HookedCompute::boxed(Failing, testing::compute());
        match testing::run_with(&job, compute).await.err() {
            Some(DriveError::Invoke(error)) => {
                assert_eq!(error.rank, 2, "{system}");
                assert!(error.reason.contains("the device is gone"), "{error}");
            }
            other => panic!("{other:?} instead of the failure of worker 2"),
        }
    }
}
