//! Workers on instances: one process each, run once. Booting is not simulated.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use async_trait::async_trait;
use epochcost_spec::metering::Invocation;
use epochcost_spec::metering::log::OUTCOME_PREFIX;
use epochcost_systems::{Device, Functions, Host as HostKind, InvokeError, Outcome, Task};
use uuid::Uuid;

use super::environment::of_cuda_worker;
use super::host::Host;
use super::process::Exit;
use super::sandbox::{milliseconds, with_tail};
use crate::locked;

/// The instances of one trial, all on this machine.
pub(super) struct Instances {
    host: Arc<Host>,
    threads: usize,
}

impl Instances {
    /// Returns instances whose processes each compute on their share of `cores`.
    pub(super) fn new(host: Arc<Host>, workers: usize, cores: usize) -> Self {
        Self {
            host,
            threads: (cores / workers.max(1)).max(1),
        }
    }

    async fn run(&self, task: &Task) -> Result<Outcome, String> {
        let input = serde_json::to_string(task)
            .map_err(|error| format!("failed to write the task: {error}"))?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let written = lines.clone();
        let mut environment = vec![("RAYON_NUM_THREADS".to_owned(), self.threads.to_string())];
        if task.job.device == Device::Cuda {
            environment.extend(of_cuda_worker(task.rank));
        }
        let (began, started_s) = (Instant::now(), self.host.clock.unix_s());
        let process = self
            .host
            .start(
                &["--instance"],
                environment,
                format!("{input}\n"),
                None,
                move |line| locked(&written).push(line),
            )
            .await
            .map_err(|error| format!("failed to start an instance's process: {error}"))?;
        let exit = process.ended().await.ok_or("its process was lost")?;
        let duration = began.elapsed();
        let lines = std::mem::take(&mut *locked(&lines));
        let result = outcome(exit, &lines).map_err(|reason| with_tail(reason, &lines));
        let duration_ms = milliseconds(duration);
        let usage = process.usage();
        self.host.collector.invocation(Invocation {
            request_id: Uuid::new_v4().to_string(),
            host: HostKind::Instance,
            function: task.function.clone(),
            rank: task.rank,
            alike: 1,
            epoch: task.epoch,
            batch: task.batch,
            sandbox: format!("instance-{}", task.rank),
            started_s,
            ended_s: started_s + duration.as_secs_f64(),
            cold: true,
            init_ms: None,
            duration_ms,
            billed_ms: duration_ms.ceil() as u64,
            memory_mb: None,
            peak_memory_mb: Some(usage.peak_mb).filter(|peak_mb| *peak_mb > 0),
            cpu_ms: Some(milliseconds(usage.cpu)),
            error: result.as_ref().err().cloned(),
        });
        result
    }
}

#[async_trait]
impl Functions for Instances {
    async fn invoke(&self, task: Task) -> Result<Outcome, InvokeError> {
        self.run(&task).await.map_err(|reason| InvokeError {
            function: task.function,
            rank: task.rank,
            reason,
        })
    }
}

/// Returns the outcome in the last line of a process's output.
fn outcome(exit: Exit, lines: &[String]) -> Result<Outcome, String> {
    let mut lines = lines.iter().rev();
    let printed = lines.find_map(|line| line.strip_prefix(OUTCOME_PREFIX));
    match printed.map(serde_json::from_str::<Result<Outcome, String>>) {
        Some(Ok(outcome)) => outcome,
        Some(Err(error)) => Err(format!("its outcome cannot be read: {error}")),
        None => Err(format!("its process ended without an outcome: {exit}")),
    }
}
