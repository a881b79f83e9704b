//! Measured limits of sandboxes: a worker uses all that it can get, and its usage is
//! measured from outside, to check that the limits hold on this machine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::limits::{Limits, Size, vcpus};
use super::process::{Exit, Launch, LineSink, Process};
use super::worker::Worker;
use super::{PlatformError, environment};

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

/// A limit and its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredLimit {
    /// Description of the limit.
    pub what: String,
    /// Requested limit, vCPUs or MB.
    pub asked: f64,
    /// Measured limit, in the same unit; `None` where the sandbox reached none.
    pub measured: Option<f64>,
    /// Whether it holds: a CPU share within 10 %, memory and storage at their size.
    pub holds: bool,
    /// Description of the measurement.
    pub found: String,
}

/// Measures every limit in sandboxes of `worker`, one after another.
///
/// # Errors
/// When a sandbox could not be started.
pub async fn measure_limits(worker: &Worker) -> Result<Vec<MeasuredLimit>, PlatformError> {
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

impl Probe<'_> {
    fn start(&self, what: &str, memory_mb: u32) -> Result<(Process, Lines), PlatformError> {
        let lines = Lines::default();
        let written = lines.clone();
        let sink: LineSink = Arc::new(move |line| {
            written
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line);
        });
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
        process
            .map(|process| (process, lines))
            .map_err(|source| PlatformError::Io {
                doing: "start a sandbox".into(),
                source,
            })
    }

    /// Measures a CPU share. The probe computes on every core; only a limit keeps it from
    /// using them.
    async fn cpu(&self, memory_mb: u32) -> Result<MeasuredLimit, PlatformError> {
        let (process, _) = self.start("cpu", memory_mb)?;
        sleep(SETTLE).await;
        let (before, began) = (process.usage().cpu, Instant::now());
        sleep(MEASURE).await;
        let used = process.usage().cpu.saturating_sub(before);
        let share = used.as_secs_f64() / began.elapsed().as_secs_f64();
        process.kill();
        ended(&process).await;
        let asked = vcpus(memory_mb);
        Ok(MeasuredLimit {
            what: format!("CPU share of {memory_mb} MB"),
            asked,
            measured: Some(share),
            holds: (share / asked - 1.0).abs() <= TOLERANCE,
            found: format!("{share:.3} vCPU, asked for {asked:.3}"),
        })
    }

    async fn memory(&self) -> Result<MeasuredLimit, PlatformError> {
        let (process, lines) = self.start("memory", MEMORY_MB)?;
        let exit = ended(&process).await;
        let out_of_memory = exit.is_some_and(|exit| exit.out_of_memory);
        let peak_mb = process.usage().peak_mb;
        Ok(MeasuredLimit {
            what: format!("memory of {MEMORY_MB} MB"),
            asked: MEMORY_MB.into(),
            measured: out_of_memory.then_some(peak_mb.into()),
            holds: out_of_memory,
            found: if out_of_memory {
                format!("ended when it took more ({peak_mb} MB were seen)")
            } else {
                printed(&lines)
            },
        })
    }

    /// Measures the size of `/tmp`. The sandbox has memory enough: files in memory count
    /// towards its own.
    async fn storage(&self) -> Result<MeasuredLimit, PlatformError> {
        let (process, lines) = self.start("storage", 2 * STORAGE_MB)?;
        let exit = ended(&process).await;
        let watched = exit.is_some_and(|exit| exit.out_of_storage);
        let printed = printed(&lines);
        let written_mb = printed.strip_suffix(" MB written");
        let written_mb: Option<f64> = written_mb.and_then(|mb| mb.parse().ok());
        let full = written_mb.is_some_and(|mb| mb == f64::from(STORAGE_MB));
        Ok(MeasuredLimit {
            what: format!("/tmp of {STORAGE_MB} MB"),
            asked: STORAGE_MB.into(),
            measured: written_mb,
            holds: watched || full,
            found: if watched {
                "ended when it wrote more".to_owned()
            } else {
                printed
            },
        })
    }
}

async fn ended(process: &Process) -> Option<Exit> {
    timeout(BOUND, process.ended()).await.ok().flatten()
}

/// Returns the last line that a probe wrote.
fn printed(lines: &Lines) -> String {
    let lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    let last = lines.last().cloned();
    last.unwrap_or_else(|| "it ended without a word".to_owned())
}
