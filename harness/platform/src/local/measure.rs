//! Measured limits of sandboxes: a worker uses all that it can get, and its usage is
//! measured from outside, to check that the limits hold on this machine.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::limits::{Limits, Size, vcpus};
use super::process::{Exit, Launch, LineSink, Process};
use super::worker::Worker;
use super::{PlatformError, environment};
use crate::{Finding, locked};

/// Sizes whose CPU share is measured, MB: half a vCPU, and one.
const CPU_SIZES_MB: [u32; 2] = [885, 1_769];
/// Duration of a measurement of a CPU share.
const MEASURE: Duration = Duration::from_secs(3);
/// Time excluded at the beginning: the start, and the first periods.
const SETTLE: Duration = Duration::from_millis(500);
/// Largest relative deviation of a measured CPU share.
const TOLERANCE: f64 = 0.1;
/// Memory size of the measured sandbox, MB.
const MEMORY_MB: u32 = 256;
/// Size of `/tmp` of the measured sandbox, MB.
const STORAGE_MB: u32 = 512;
/// Time limit of a probe that ends by itself.
const BOUND: Duration = Duration::from_secs(60);

/// Measures every limit in sandboxes of `worker`, one after another.
///
/// # Errors
/// When a sandbox could not be started.
pub(super) async fn limits(worker: &Worker) -> Result<Vec<Finding>, PlatformError> {
    let probe = Probe {
        worker,
        limits: Limits::detect(),
    };
    let mut measured = Vec::new();
    for memory_mb in CPU_SIZES_MB {
        measured.push(probe.cpu(memory_mb).await?);
    }
    measured.push(probe.memory().await?);
    measured.push(probe.storage().await?);
    Ok(measured)
}

struct Probe<'a> {
    worker: &'a Worker,
    limits: Limits,
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Returns the finding on a limit, vCPUs or MB, and its measurement: whether a CPU share is
/// within 10 %, memory and storage at their size. `measured` is none where none was reached.
fn finding(
    limit: &str,
    asked: f64,
    (measured, holds): (Option<f64>, bool),
    found: String,
) -> Finding {
    Finding {
        what: format!("measured: {limit}"),
        ok: holds,
        found,
        remedy: (!holds).then(|| {
            "close other programs and measure again; if it stays, times and failures of functions \
             are not those of their size"
                .to_owned()
        }),
        asked: Some(asked),
        measured,
    }
}

impl Probe<'_> {
    fn start(&self, what: &str, memory_mb: u32) -> Result<(Process, Lines), PlatformError> {
        let lines = Lines::default();
        let written = lines.clone();
        let sink: LineSink = Arc::new(move |line| locked(&written).push(line));
        let mut environment = environment::of_every_process();
        let size = ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory_mb.to_string());
        environment.push((size.0.to_owned(), size.1));
        let launch = Launch {
            program: self.worker.program(),
            arguments: &["--probe", what],
            environment: &environment,
            input: String::new(),
            size: Some(Size {
                memory_mb,
                storage_mb: STORAGE_MB,
            }),
        };
        let process = Process::start(&launch, &self.limits, sink);
        Ok((
            process.map_err(PlatformError::io("start a sandbox"))?,
            lines,
        ))
    }

    /// Measures a CPU share. The probe computes on every core; only a limit keeps it from
    /// using them.
    async fn cpu(&self, memory_mb: u32) -> Result<Finding, PlatformError> {
        let (process, _) = self.start("cpu", memory_mb)?;
        sleep(SETTLE).await;
        let (before, began) = (process.usage().cpu, Instant::now());
        sleep(MEASURE).await;
        let used = process.usage().cpu.saturating_sub(before);
        let share = used.as_secs_f64() / began.elapsed().as_secs_f64();
        process.kill();
        ended(&process).await;
        let asked = vcpus(memory_mb);
        let holds = (share / asked - 1.0).abs() <= TOLERANCE;
        Ok(finding(
            &format!("CPU share of {memory_mb} MB"),
            asked,
            (Some(share), holds),
            format!("{share:.3} vCPU, asked for {asked:.3}"),
        ))
    }

    async fn memory(&self) -> Result<Finding, PlatformError> {
        let (process, lines) = self.start("memory", MEMORY_MB)?;
        let exit = ended(&process).await;
        let out_of_memory = exit.is_some_and(|exit| exit.out_of_memory);
        let peak_mb = process.usage().peak_mb;
        Ok(finding(
            &format!("memory of {MEMORY_MB} MB"),
            MEMORY_MB.into(),
            (out_of_memory.then_some(peak_mb.into()), out_of_memory),
            if out_of_memory {
                format!("ended when it took more ({peak_mb} MB were seen)")
            } else {
                printed(&lines)
            },
        ))
    }

    /// Measures the size of `/tmp`. The sandbox has memory enough: files in memory count
    /// towards its own.
    async fn storage(&self) -> Result<Finding, PlatformError> {
        let (process, lines) = self.start("storage", 2 * STORAGE_MB)?;
        let exit = ended(&process).await;
        let watched = exit.is_some_and(|exit| exit.out_of_storage);
        let printed = printed(&lines);
        let written_mb = printed.strip_suffix(" MB written");
        let written_mb: Option<f64> = written_mb.and_then(|mb| mb.parse().ok());
        let full = written_mb.is_some_and(|mb| mb == f64::from(STORAGE_MB));
        Ok(finding(
            &format!("/tmp of {STORAGE_MB} MB"),
            STORAGE_MB.into(),
            (written_mb, watched || full),
            if watched {
                "ended when it wrote more".to_owned()
            } else {
                printed
            },
        ))
    }
}

async fn ended(process: &Process) -> Option<Exit> {
    timeout(BOUND, process.ended()).await.ok().flatten()
}

/// Returns the last line that a probe wrote.
fn printed(lines: &Lines) -> String {
    let last = locked(lines).last().cloned();
    last.unwrap_or_else(|| "it ended without a word".to_owned())
}
