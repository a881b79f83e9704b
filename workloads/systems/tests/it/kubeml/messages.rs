//! Messages that come twice or late, and functions that are killed after each of theirs:
//! none shifts an interval or enters the next epoch.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use epochcost_channels::memory::MemoryQueue;
use epochcost_channels::{Channel, Payload, Queue, QueueCommand, Reply, Result as ChannelResult};
use epochcost_systems::testing::{self, Around, Failures, Trial};
use epochcost_systems::{DriveError, Fidelity, Job, Task};
use serde_json::json;
use tokio::sync::Notify;

use super::{decaying, job, model};

/// What a report says of itself: kind, function, epoch, interval.
type Report = (u8, u32, u32, u32);

/// Reads kind, function and position of a report; `None` of other messages.
fn report(message: &Payload) -> Option<Report> {
    let bytes = message.bytes().unwrap();
    let word = |at: usize| -> Option<u32> {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(word.try_into().unwrap()))
    };
    matches!(bytes[0], b'N' | b'T' | b'V')
        .then(|| Some((bytes[0], word(1)?, word(5)?, word(9)?)))
        .flatten()
}

/// What happens to messages.
#[derive(Clone, Copy)]
enum Fate {
    /// Each arrives once.
    Once,
    /// The message of this number arrives a second time, after so many others.
    Again { number: usize, after: usize },
    /// The function that sent the report of this number is killed before it goes on; the
    /// report arrives a second time after so many other messages, if any.
    KilledAfter { report: usize, again: Option<usize> },
}

/// A queue with a fate.
struct Fated {
    queue: Queue,
    fate: Fate,
    published: AtomicUsize,
    reports: Mutex<Vec<Report>>,
    /// Copies on their way: how many messages come before each.
    late: Mutex<Vec<(usize, String, Payload)>>,
    /// The report after which a function is killed.
    kill: Mutex<Option<Report>>,
    killed: Notify,
}

impl Fated {
    fn new(fate: Fate) -> Arc<Self> {
        Arc::new(Self {
            queue: Queue::new(Arc::new(MemoryQueue::default())),
            fate,
            published: AtomicUsize::new(0),
            reports: Mutex::default(),
            late: Mutex::default(),
            kill: Mutex::default(),
            killed: Notify::new(),
        })
    }

    /// Delivers the copies whose time has come.
    async fn deliver_late(&self, number: usize) -> ChannelResult<()> {
        let is_due = |copy: &mut (usize, String, Payload)| copy.0 <= number;
        let due: Vec<_> = self.late.lock().unwrap().extract_if(.., is_due).collect();
        for (_, queue, message) in due {
            self.queue.publish(&queue, message).await?;
        }
        Ok(())
    }

    async fn publish(&self, queue: String, message: Payload) -> ChannelResult<()> {
        let number = self.published.fetch_add(1, Relaxed);
        self.queue.publish(&queue, message.clone()).await?;
        if let Fate::Again { number: of, after } = self.fate
            && of == number
        {
            let copy = (number + after, queue.clone(), message.clone());
            self.late.lock().unwrap().push(copy);
        }
        self.deliver_late(number).await?;
        let Some(report) = report(&message) else {
            return Ok(());
        };
        // Reports are counted in the order in which they were sent.
        let reported = {
            let mut reports = self.reports.lock().unwrap();
            reports.push(report);
            reports.len() - 1
        };
        if let Fate::KilledAfter { report: of, again } = self.fate
            && of == reported
        {
            if let Some(after) = again {
                let copy = (number + after, queue, message);
                self.late.lock().unwrap().push(copy);
            }
            *self.kill.lock().unwrap() = Some(report);
            self.killed.notify_waiters();
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[async_trait]
impl Channel<QueueCommand> for Fated {
    async fn run(&self, command: QueueCommand) -> ChannelResult<Reply> {
        match command {
            QueueCommand::Publish { queue, message } => {
                self.publish(queue, message).await.map(Reply::from)
            }
            other => self.queue.run(other).await,
        }
    }
}

/// Kills the function that sent the report.
struct Killer(Arc<Fated>);

#[async_trait]
impl Failures for Killer {
    async fn killed(&self, task: &Task) {
        let function = match task.function.as_str() {
            "train" => [b'N', b'T'].as_slice(),
            "validate" => b"V",
            _ => return std::future::pending().await,
        };
        loop {
            let notified = self.0.killed.notified();
            let is_it = |(kind, rank, epoch, _): &mut Report| {
                function.contains(kind) && (*rank, *epoch) == (task.rank as u32, task.epoch as u32)
            };
            if self.0.kill.lock().unwrap().take_if(is_it).is_some() {
                return;
            }
            notified.await;
        }
    }
}

async fn run(job: &Job, fate: Fate) -> (Result<Trial, DriveError>, Arc<Fated>) {
    let queue = Fated::new(fate);
    let around = Around {
        failures: Arc::new(Killer(queue.clone())),
        queue: Queue::new(queue.clone()),
        ..Around::new(job)
    };
    let running = around.run(job, testing::compute);
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await;
    (ended.expect("the job waits for ever"), queue)
}

/// Two epochs of two functions with two intervals and three, without momentum, which a
/// repeated call loses.
fn two(settings: serde_json::Value) -> Job {
    let mut job = job(Fidelity::Paper, 2, settings);
    job.epochs = 2;
    job.optimizer = decaying(0.0);
    job
}

fn killed_after(report: usize) -> Fate {
    Fate::KilledAfter {
        report,
        again: None,
    }
}

const RULES: [&str; 3] = ["called_again", "left_out", "stale"];

/// Every message a second time: at once, and after several others.
#[tokio::test]
async fn a_message_that_comes_twice_changes_nothing() {
    for rule in RULES {
        for merge_by in ["job", "store"] {
            let job = two(json!({"k": 1, "failed_function": rule, "merge_by": merge_by}));
            let (whole, queue) = run(&job, Fate::Once).await;
            let expected = model(&whole.unwrap()).await;
            for number in 0..queue.published.load(Relaxed) {
                for after in [0, 1, 3, 7] {
                    let (trial, _) = run(&job, Fate::Again { number, after }).await;
                    let trial = trial.unwrap();
                    let found = model(&trial).await;
                    assert_eq!(found, expected, "{number} after {after}, {rule}");
                    assert_eq!(trial.evaluations().len(), 2);
                }
            }
        }
    }
}

/// A function is killed after each of its reports, before it hears an answer or returns. Of the
/// intervals that functions report, none is skipped, none is of another epoch, and only the interval of
/// the call that was killed comes twice.
#[tokio::test]
async fn a_function_that_is_killed_after_any_report_is_called_again_and_nothing_shifts() {
    for merge_by in ["job", "store"] {
        for k in [1, 2, -1] {
            let job = two(json!({"k": k, "merge_by": merge_by}));
            let (whole, queue) = run(&job, Fate::Once).await;
            let expected = model(&whole.unwrap()).await;
            let reports = queue.reports.lock().unwrap().clone();
            let distinct: BTreeSet<Report> = reports.iter().copied().collect();
            assert_eq!(distinct.len(), reports.len(), "{reports:?}");
            for (number, report) in reports.iter().enumerate() {
                let (trial, queue) = run(&job, killed_after(number)).await;
                assert!(queue.kill.lock().unwrap().is_none(), "nothing was killed");
                assert_eq!(model(&trial.unwrap()).await, expected, "{report:?}");
                let found = queue.reports.lock().unwrap().clone();
                let places: BTreeSet<Report> = found.iter().copied().collect();
                assert_eq!(places, distinct, "{report:?}");
                let of = |place: &Report| found.iter().filter(|other| *other == place).count();
                let twice = places.iter().filter(|place| of(place) > 1).count();
                assert!(twice <= 1, "{found:?}");
            }
        }
    }
}

/// A function that failed for good has posted a report that comes once more, late: it is
/// not waited for, and counts no second time.
#[tokio::test]
async fn a_late_report_of_a_function_that_was_given_up_is_dropped() {
    for rule in ["left_out", "stale"] {
        let job = two(json!({"k": 1, "failed_function": rule}));
        let (_, queue) = run(&job, Fate::Once).await;
        let reports = queue.reports.lock().unwrap().len();
        for report in 0..reports {
            let (once, _) = run(&job, killed_after(report)).await;
            let expected = model(&once.unwrap()).await;
            for after in [1, 2, 4] {
                let again = Some(after);
                let (trial, _) = run(&job, Fate::KilledAfter { report, again }).await;
                let found = model(&trial.unwrap()).await;
                assert_eq!(found, expected, "{rule}, {report} again after {after}");
            }
        }
    }
}
