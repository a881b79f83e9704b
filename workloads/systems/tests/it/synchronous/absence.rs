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
    Channels, Clock, Compute, DATASET_BUCKET, DriveError, Evaluate, Fidelity, Job, Outcome, Record,
    Recorder, Result, SystemError, Task, World, find, requests, shard_key, systems,
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
    let (nobody, clock) = (Arc::new(requests().0), Arc::new(Sleeping::default()));
    World::new(task, channels, compute, nobody, clock, Arc::new(Nowhere))
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

async fn assert_waits_for_ever(worker: &JoinHandle<Result<Outcome>>) {
    for _ in 0..TURNS {
        yield_now().await;
    }
    assert!(!worker.is_finished());
    worker.abort();
}

/// What each of the others waits for, and after how many seconds it gives up. As published, worker 0 of
/// AllReduce and all of ScatterReduce list for ever.
#[tokio::test]
async fn workers_without_the_last_one_give_up_or_wait_for_ever() {
    let merged = Some(("merged gradient merged_0_0", 60));
    let chunks = Some(("the other workers' chunks", 5));
    let gradient = Some(("gradient minibatch_0_worker_3.pt", 7));
    let listing = |limit: Value| json!({"list_timeout_s": limit, "list_poll_ms": 10});
    for (system, settings, waits) in [
        ("allreduce", json!({}), [None, merged, merged]),
        ("scatterreduce", listing(json!(null)), [None; 3]),
        ("scatterreduce", listing(json!(5)), [chunks; 3]),
        ("gpu_baseline", json!({"timeout_s": 7}), [gradient; 3]),
    ] {
        let job = short_job(system, 4, settings);
        let channels = channels(&job).await;
        let workers = [0, 1, 2].map(|rank| start_with(&job, &channels, rank, testing::compute()));
        let (for_ever, others): (Vec<_>, Vec<_>) = workers
            .into_iter()
            .zip(waits)
            .partition(|(_, wait)| wait.is_none());
        for (worker, wait) in others {
            match worker.await.unwrap() {
                Err(SystemError::TimedOut { what, waited }) => {
                    assert_eq!(Some((what.as_str(), waited.as_secs())), wait);
                }
                other => panic!("{other:?} instead of waiting for {wait:?}"),
            }
        }
        for (worker, _) in for_ever {
            assert_waits_for_ever(&worker).await;
        }
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
            let workers = [0, 1].map(|rank| start_with(&job, &channels, rank, testing::compute()));
            if first_page_only {
                assert_waits_for_ever(&workers[0]).await;
                workers[1].abort();
            } else {
                for worker in workers {
                    assert_eq!(worker.await.unwrap().unwrap(), Outcome::Finished);
                }
            }
        }
    }
}

/// The last of three workers fails at its second mini-batch: the job ends with the failure; the workers
/// that wait do not hold it up.
#[tokio::test]
async fn a_worker_that_fails_ends_the_job() {
    for system in SYSTEMS {
        let job = job(system, Fidelity::Paper, 3, json!({}));
        let compute = || {
            hooked(|batch| match (batch.rank, batch.index) {
                (2, 1) => Err(SystemError::Compute("the device is gone".into())),
                _ => Ok(()),
            })
        };
        match testing::run_with(&job, compute).await.err() {
            Some(DriveError::Invoke(error)) => {
                assert_eq!(error.rank, 2, "{system}");
                holds(error, &["the device is gone"]);
            }
            other => panic!("{other:?} instead of the failure of worker 2"),
        }
    }
}
