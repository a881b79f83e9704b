//! State that the processes of one trial share.

use std::path::PathBuf;
use std::sync::Arc;

use epochcost_environment::worker::CLOCK;
use tokio::sync::{Mutex, watch};
use tokio::time::{Duration, timeout};

use super::clock::TrialClock;
use super::collector::Collector;
use super::environment;
use super::limits::{Limits, Size};
use super::process::{self, Exit, Launch, LineSink, Process};

/// Time limit of the end of a killed process.
const GONE: Duration = Duration::from_secs(5);

/// Log lines of one invocation, as a sandbox's log stream has them.
pub struct InvocationLines {
    /// Name of the log stream.
    pub stream: String,
    /// Start of the invocation, seconds since the Unix epoch.
    pub started_s: f64,
    /// End of the invocation, seconds since the Unix epoch.
    pub ended_s: f64,
    /// Lines from START to REPORT, both included.
    pub lines: Vec<String>,
}

/// Receiver of the log lines of each invocation that ends.
pub type LogSink = Arc<dyn Fn(InvocationLines) + Send + Sync>;

/// Starter of the processes of one trial, which also ends them.
pub(super) struct Host {
    /// Path to start the worker binary by.
    pub(super) program: PathBuf,
    /// Directory of the worker binary.
    pub(super) root: Option<PathBuf>,
    /// Environment variables of workers: addresses of the services, and settings.
    pub(super) environment: Vec<(String, String)>,
    /// Limits of functions.
    pub(super) limits: Arc<Limits>,
    /// Collector of the trial.
    pub(super) collector: Arc<Collector>,
    /// Clock of the trial.
    pub(super) clock: TrialClock,
    /// Receiver of each invocation's log lines, where logs are kept.
    pub(super) logs: Option<LogSink>,
    /// The ends of every process started.
    pub(super) ends: Mutex<Vec<watch::Receiver<Option<Exit>>>>,
}

impl Host {
    /// Starts a worker process; its lines go to the collector and to `lines`.
    pub(super) async fn start(
        &self,
        arguments: &[&str],
        own: Vec<(String, String)>,
        input: String,
        size: Option<Size>,
        lines: impl Fn(String) + Send + Sync + 'static,
    ) -> std::io::Result<Process> {
        let mut environment = environment::of_every_process();
        environment.extend(self.environment.iter().cloned());
        environment.push((CLOCK.to_owned(), self.clock.ahead_ns().to_string()));
        environment.extend(own);
        let launch = Launch {
            program: &self.program,
            arguments,
            environment: &environment,
            input,
            size,
        };
        let collector = self.collector.clone();
        let sink: LineSink = Arc::new(move |line| {
            collector.read(&line);
            lines(line);
        });
        let process = Process::start(&launch, &self.limits, sink)?;
        self.ends.lock().await.push(process.end());
        Ok(process)
    }

    /// Waits until every process is gone, all of which must have been killed.
    pub(super) async fn all_gone(&self) {
        for end in self.ends.lock().await.drain(..) {
            // A process in uninterruptible sleep is left to the system.
            let _ = timeout(GONE, process::ended(end)).await;
        }
    }
}
