//! Invocations that fail after their function has posted a report: what they
//! posted is not taken for a report of the call that follows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use epochcost_systems::testing::{self, Failures};
use epochcost_systems::{Batch, Compute, ComputeHook, Fidelity, HookedCompute, Job, Result, Task};
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::{When, job, model, run, sgd};

/// Lets every other task of the one thread go on until it waits.
async fn settle() {
    for _ in 0..2_000 {
        yield_now().await;
    }
}

/// How invocations end, and what their gradients wait for.
#[derive(Default)]
struct Course {
    /// Gradients begun so far.
    begun: Mutex<BTreeMap<When, usize>>,
    /// Whether function 0 has begun the gradient that others wait for.
    is_ahead: AtomicBool,
    kill: Notify,
    has_failed: AtomicBool,
}

impl Course {
    fn begins(&self, when: When) -> usize {
        let mut begun = self.begun.lock().unwrap();
        let times = begun.entry(when).or_default();
        *times += 1;
        *times
    }

    async fn after_function_0(&self) {
        while !self.is_ahead.load(Relaxed) {
            yield_now().await;
        }
        settle().await;
    }
}

/// What happens before a gradient: its rank, epoch and mini-batch, and how often
/// it was begun.
type Script = fn(When, usize) -> Act;

enum Act {
    Nothing,
    /// Function 1 has time to report, is killed, and is called again.
    Kill,
    /// Function 1 has time to be called again.
    Wait,
    /// Function 0 is so far that a repeated call of function 1 comes too late.
    GetAhead,
    /// Waits until then.
    ComeLate,
}

struct Scripted {
    course: Arc<Course>,
    script: Script,
}

#[async_trait]
impl ComputeHook for Scripted {
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()> {
        let when = (batch.rank, batch.epoch, batch.index);
        let times = self.course.begins(when);
        match (self.script)(when, times) {
            Act::Nothing => {}
            Act::Kill => {
                settle().await;
                self.course.kill.notify_one();
                settle().await;
            }
            Act::Wait => settle().await,
            Act::GetAhead => self.course.is_ahead.store(true, Relaxed),
            Act::ComeLate => self.course.after_function_0().await,
        }
        Ok(())
    }
}

/// Which invocation fails, once, and whether it is killed or lost after its end.
struct Failing {
    course: Arc<Course>,
    function: &'static str,
    is_killed: bool,
}

impl Failing {
    fn fails(&self, task: &Task) -> bool {
        let is_it = task.function == self.function && (task.rank, task.epoch) == (1, 0);
        is_it && !self.course.has_failed.swap(true, Relaxed)
    }
}

#[async_trait]
impl Failures for Failing {
    async fn killed(&self, task: &Task) {
        if self.is_killed && self.fails(task) {
            self.course.kill.notified().await;
        } else {
            std::future::pending().await
        }
    }

    fn is_lost(&self, task: &Task) -> bool {
        !self.is_killed && self.fails(task)
    }
}

/// Two epochs of two functions, without momentum, which a repeated call loses.
fn two(k: i64, merge_by: &str) -> Job {
    let mut job = job(Fidelity::Paper, 2, json!({"k": k, "merge_by": merge_by}));
    job.epochs = 2;
    job.optimizer = sgd(0.0);
    job
}

async fn fails(job: &Job, function: &'static str, is_killed: bool, script: Script) -> Vec<f32> {
    let course = Arc::new(Course::default());
    let failing = Failing {
        course: course.clone(),
        function,
        is_killed,
    };
    let compute = {
        let course = course.clone();
        move || -> Box<dyn Compute> {
            let course = course.clone();
            HookedCompute::boxed(Scripted { course, script }, testing::compute())
        }
    };
    let trial = testing::run_failing(job, compute, Arc::new(failing)).await;
    assert!(course.has_failed.load(Relaxed), "nothing failed");
    model(&trial.unwrap()).await
}

async fn assert_that_nothing_changes(
    k: i64,
    function: &'static str,
    is_killed: bool,
    script: Script,
) {
    for merge_by in ["job", "store"] {
        let job = two(k, merge_by);
        let expected = model(&run(&job).await).await;
        let found = fails(&job, function, is_killed, script).await;
        assert_eq!(found, expected, "{merge_by}");
    }
}

/// Function 1 has posted /next and waits behind function 0 when it is killed. Its
/// second call reports the same interval again, after that has been merged.
#[tokio::test]
async fn an_interval_that_is_reported_twice_is_merged_once() {
    let script: Script = |when, times| match (when, times) {
        ((0, 0, 1), 1) => Act::Kill,
        ((1, 0, 1), 2) => Act::ComeLate,
        ((0, 0, 2), 1) => Act::GetAhead,
        _ => Act::Nothing,
    };
    assert_that_nothing_changes(1, "train", true, script).await;
}

/// Function 1 has returned its last model, but its invocation is lost. Its second
/// call returns a model when the epoch is over.
#[tokio::test]
async fn a_report_of_a_past_epoch_is_dropped() {
    let script: Script = |when, times| match (when, times) {
        ((0, 0, 0), 1) => Act::Wait,
        ((1, 0, 0), 2) => Act::ComeLate,
        ((0, 0, 2), 1) => Act::GetAhead,
        _ => Act::Nothing,
    };
    assert_that_nothing_changes(-1, "train", false, script).await;
}

/// A validation that was posted, and whose invocation is lost, is no failure of
/// the next epoch's training.
#[tokio::test]
async fn a_lost_validation_fails_no_training() {
    assert_that_nothing_changes(-1, "validate", false, |_, _| Act::Nothing).await;
}
