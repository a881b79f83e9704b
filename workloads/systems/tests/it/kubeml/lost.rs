//! A function that is killed after it has posted a report, which is merged before its repeated call
//! reports the same interval again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use epochcost_systems::testing::{self, Around, Failures};
use epochcost_systems::{Batch, ComputeHook, Fidelity, HookedCompute, Result, Task};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::{decaying, job, model, run};

/// Lets every other task of the one thread go on until it waits.
async fn settle() {
    for _ in 0..2_000 {
        yield_now().await;
    }
}

/// What has happened so far.
#[derive(Default)]
struct Course {
    /// Gradients begun: rank, epoch and mini-batch.
    begun: Mutex<BTreeSet<(usize, usize, usize)>>,
    kill: Notify,
    has_failed: AtomicBool,
}

/// Function 1 waits behind function 0 when it is killed, and its second call comes to the same
/// interval when function 0 is in the next one.
struct Scripted(Arc<Course>);

#[async_trait]
impl ComputeHook for Scripted {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        let course = &self.0;
        let when = (batch.rank, batch.epoch, batch.index);
        let is_first = course.begun.lock().unwrap().insert(when);
        if when == (0, 0, 1) && is_first {
            settle().await;
            course.kill.notify_one();
            settle().await;
        }
        if when == (1, 0, 1) && !is_first {
            while !course.begun.lock().unwrap().contains(&(0, 0, 2)) {
                yield_now().await;
            }
            settle().await;
        }
        Ok(())
    }
}

/// Kills the first call of function 1.
struct Killer(Arc<Course>);

#[async_trait]
impl Failures for Killer {
    async fn killed(&self, task: &Task) {
        let is_it = task.function == "train" && (task.rank, task.epoch) == (1, 0);
        if !is_it || self.0.has_failed.swap(true, Relaxed) {
            std::future::pending::<()>().await;
        }
        self.0.kill.notified().await;
    }
}

#[tokio::test]
async fn an_interval_that_is_reported_twice_is_merged_once() {
    for merge_by in ["job", "store"] {
        let mut job = job(Fidelity::Paper, 2, json!({"k": 1, "merge_by": merge_by}));
        // Without momentum, which a repeated call loses.
        (job.epochs, job.optimizer) = (2, decaying(0.0));
        let expected = model(&run(&job).await).await;
        let course = Arc::new(Course::default());
        let around = Around {
            failures: Arc::new(Killer(course.clone())),
            ..Around::new(&job)
        };
        let hooked = course.clone();
        let compute = move || HookedCompute::boxed(Scripted(hooked.clone()), testing::compute());
        let trial = around.run(&job, compute).await.unwrap();
        assert!(course.has_failed.load(Relaxed), "nothing failed");
        assert_eq!(model(&trial).await, expected, "{merge_by}");
    }
}
