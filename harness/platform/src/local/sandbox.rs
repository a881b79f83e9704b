//! One sandbox of a function: a worker process that serves one invocation at a
//! time.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use epochcost_spec::metering::Invocation;
use epochcost_spec::metering::log::{self, LAST_LINE_PREFIX};
use epochcost_spec::metering::report_line::{Report, Status};
use epochcost_systems::{Device, Host as HostKind, Outcome, Task};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use uuid::Uuid;

use super::clock::TrialClock;
use super::environment;
use super::host::{Host, InvocationLines, LogSink};
use super::lambda::FunctionSpec;
use super::limits::Size;
use super::machine;
use super::process::{Exit, Process};
use super::runtime_api::{Answer, Event, RuntimeApi, Slot};
use crate::locked;

/// Time limit of init. Lambda allows 10 s and then tries again within the
/// invocation; a machine that starts many sandboxes at once is slower.
const INIT_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of an invocation's last line after its answer.
const LAST_LINE: Duration = Duration::from_secs(5);
/// Number of lines of output in the reason of a failure.
const TAIL: usize = 5;

/// A running sandbox.
pub(super) struct Sandbox {
    id: String,
    slot: Arc<Slot>,
    process: Process,
    log: Arc<Log>,
    /// Time from its start to its first request for work; taken by the first
    /// invocation, which is the cold one.
    init: Option<Duration>,
    timeout: Duration,
    clock: TrialClock,
    memory_mb: u32,
    /// The name of its log stream.
    stream: String,
    logs: Option<LogSink>,
}

/// The log stream: lines of the platform and of the process.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    last: watch::Sender<Option<String>>,
}

impl Log {
    fn write(&self, line: String) {
        if let Some(request_id) = line.strip_prefix(LAST_LINE_PREFIX) {
            self.last.send_replace(Some(request_id.to_owned()));
        }
        locked(&self.lines).push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.lines))
    }

    /// Waits for the last line of an invocation.
    async fn complete(&self, request_id: Uuid) {
        let mut last = self.last.subscribe();
        let id = request_id.to_string();
        let complete = last.wait_for(|last| last.as_deref() == Some(&id));
        // Without it, the log may lack lines, which the trial then shows.
        let _ = timeout(LAST_LINE, complete).await;
    }
}

/// End of an invocation.
enum Ending {
    Answered(Answer),
    TimedOut,
    Exited(Exit),
}

/// Result of one invocation.
pub(super) struct Served {
    /// Figures, read from its REPORT line.
    pub(super) invocation: Invocation,
    /// Outcome, or the reason of its failure.
    pub(super) result: Result<Outcome, String>,
    /// Whether the sandbox can serve another invocation.
    pub(super) alive: bool,
}

impl Sandbox {
    /// Starts a sandbox and waits for the end of its init.
    pub(super) async fn start(
        host: &Host,
        api: &RuntimeApi,
        task: &Task,
        spec: &FunctionSpec,
    ) -> Result<Self, String> {
        let function = task.function.as_str();
        let id = Uuid::new_v4().simple().to_string();
        let memory_mb = spec.memory_of(function);
        let slot = api.open(&id, function);
        let log = Arc::new(Log::default());
        let lines = log.clone();
        let mut environment = environment::of_function(&environment::Function {
            name: function,
            memory_mb,
            sandbox: &id,
            runtime_api: &api.endpoint(&id),
            root: host.root.as_deref(),
        });
        environment.extend(spec.environment.clone());
        if task.job.device == Device::Cuda {
            environment.extend(environment::of_cuda_worker(task.rank));
        }
        let started = Instant::now();
        let process = host
            .start(
                &[],
                environment,
                String::new(),
                Some(Size {
                    memory_mb,
                    storage_mb: spec.storage_mb,
                }),
                move |line| lines.write(line),
            )
            .await
            .map_err(|error| machine::explained("start a sandbox", &error))?;
        let ready = tokio::select! {
            biased;
            ready = timeout(INIT_LIMIT, slot.ready()) => ready,
            exit = process.ended() => return Err(init_failed(&slot, exit, &log.take())),
        };
        let Ok(ready) = ready else {
            let limit_s = INIT_LIMIT.as_secs();
            let why = machine::few_threads();
            return Err(format!("init took more than {limit_s} s{why}"));
        };
        let init = Some(ready.saturating_duration_since(started));
        Ok(Self {
            stream: environment::log_stream(&id),
            id,
            slot,
            process,
            log,
            init,
            timeout: spec.timeout,
            clock: host.clock,
            memory_mb,
            logs: host.logs.clone(),
        })
    }

    /// Serves one invocation, which is `request_id`.
    pub(super) async fn serve(&mut self, task: &Task, request_id: Uuid) -> Result<Served, String> {
        let payload = serde_json::to_vec(task)
            .map_err(|error| format!("failed to write the event: {error}"))?;
        let (taken, when_taken) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let before = self.process.usage();
        self.log.write(log::start_line(request_id));
        self.slot.send(Event {
            request_id,
            payload: Bytes::from(payload),
            timeout: self.timeout,
            clock: self.clock,
            taken,
            answer,
        });
        let (began, started_s, ending) = self.run(when_taken, answered).await;
        let ended = match &ending {
            Ending::Answered(answer) => answer.at,
            Ending::TimedOut => began + self.timeout,
            Ending::Exited(_) => Instant::now(),
        };
        let duration = ended.saturating_duration_since(began);
        let usage = self.process.usage();
        let alive = matches!(ending, Ending::Answered(_));
        if alive {
            self.log.complete(request_id).await;
        } else {
            self.process.kill();
        }
        let (result, status) = self.judge(request_id, ending);
        self.log.write(log::end_line(request_id));
        let init = self.init.take();
        self.log.write(
            Report {
                request_id,
                duration_ms: milliseconds(duration),
                billed_ms: billed_ms(duration, init),
                memory_mb: self.memory_mb,
                peak_memory_mb: usage.peak_mb,
                init_ms: init.map(milliseconds),
                status,
            }
            .to_string(),
        );
        let lines = self.log.take();
        if let Some(logs) = &self.logs {
            logs(InvocationLines {
                stream: self.stream.clone(),
                started_s,
                ended_s: started_s + duration.as_secs_f64(),
                lines: lines.clone(),
            });
        }
        let log = log::invocation(&lines, request_id).map_err(|error| error.to_string())?;
        let result = result.map_err(|reason| with_tail(reason, log.output));
        let invocation = Invocation {
            request_id: log.report.request_id.to_string(),
            host: HostKind::Function,
            function: task.function.clone(),
            rank: task.rank,
            alike: 1,
            epoch: task.epoch,
            batch: task.batch,
            sandbox: self.id.clone(),
            started_s,
            ended_s: started_s + duration.as_secs_f64(),
            cold: log.report.init_ms.is_some(),
            init_ms: log.report.init_ms,
            duration_ms: log.report.duration_ms,
            billed_ms: log.report.billed_ms,
            memory_mb: Some(log.report.memory_mb),
            peak_memory_mb: Some(log.report.peak_memory_mb),
            cpu_ms: Some(milliseconds(usage.cpu.saturating_sub(before.cpu))),
            error: result.as_ref().err().cloned(),
        };
        Ok(Served {
            invocation,
            result,
            alive,
        })
    }

    /// Waits for an invocation's end; returns its start on both clocks, and the end.
    async fn run(
        &self,
        taken: oneshot::Receiver<Instant>,
        answered: oneshot::Receiver<Answer>,
    ) -> (Instant, f64, Ending) {
        let (mut began, mut started_s) = (Instant::now(), self.clock.unix_s());
        let running = async {
            if let Ok(at) = taken.await {
                (began, started_s) = (at, self.clock.unix_s() - at.elapsed().as_secs_f64());
            }
            timeout(self.timeout, answered).await
        };
        let ending = tokio::select! {
            biased;
            answer = running => match answer {
                Ok(Ok(answer)) => Ending::Answered(answer),
                // The other end lives in the slot, which lives in `self`: it is not gone.
                Ok(Err(_)) | Err(_) => Ending::TimedOut,
            },
            exit = self.process.ended() => exit.map_or(Ending::TimedOut, Ending::Exited),
        };
        (began, started_s, ending)
    }

    /// Returns the invocation's result and the status in its REPORT line; writes Lambda's
    /// line about a failure.
    fn judge(&self, request_id: Uuid, ending: Ending) -> (Result<Outcome, String>, Option<Status>) {
        match ending {
            // Lambda's REPORT line has no status for errors that a function returns.
            Ending::Answered(answer) => {
                let body = answer.result.map_err(|error| error.error_message);
                let outcome = body.and_then(|body| {
                    serde_json::from_slice(&body)
                        .map_err(|error| format!("its answer is no outcome: {error}"))
                });
                (outcome, None)
            }
            Ending::TimedOut => {
                let limit_s = self.timeout.as_secs_f64();
                let reason = format!("Task timed out after {limit_s:.2} seconds");
                let now = jiff::Timestamp::now();
                self.log.write(format!("{now} {request_id} {reason}"));
                (Err(reason), Some(Status::Timeout))
            }
            Ending::Exited(exit) => {
                let error_type = error_type(exit).to_owned();
                let reason = format!("Runtime exited with error: {exit}");
                let line = format!("RequestId: {request_id} Error: {reason}");
                self.log.write(line);
                self.log.write(error_type.clone());
                let failed = format!("{error_type}: {reason}");
                (Err(failed), Some(Status::Error { error_type }))
            }
        }
    }
}

fn error_type(exit: Exit) -> &'static str {
    if exit.out_of_memory {
        "Runtime.OutOfMemory"
    } else {
        "Runtime.ExitError"
    }
}

fn init_failed(slot: &Slot, exit: Option<Exit>, lines: &[String]) -> String {
    let reason = match (slot.init_error(), exit) {
        (Some(error), _) => format!(": {}", error.error_message),
        (None, Some(exit)) => format!(": {}: Runtime exited with error: {exit}", error_type(exit)),
        (None, None) => String::new(),
    };
    with_tail(format!("init failed{reason}"), lines)
}

/// Returns a reason with the last lines that the worker wrote.
pub(super) fn with_tail(reason: String, output: &[String]) -> String {
    let tail = log::tail(output, TAIL);
    if tail.is_empty() {
        return reason;
    }
    format!("{reason}; it last wrote: {}", tail.join(" | "))
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns whole milliseconds begun, init included (AWS bills the init phase of custom
/// runtimes, and since August 2025 of all).
fn billed_ms(duration: Duration, init: Option<Duration>) -> u64 {
    let billed = duration + init.unwrap_or_default();
    u64::try_from(billed.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begun_millisecond_is_billed_and_init_with_it() {
        let ms = Duration::from_micros;
        assert_eq!(billed_ms(ms(12_340), None), 13);
        assert_eq!(billed_ms(ms(12_000), None), 12);
        assert_eq!(billed_ms(ms(12_340), Some(ms(100_000))), 113);
        assert_eq!(billed_ms(Duration::ZERO, None), 0);
    }
}
