//! One process that measures one point.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use epochcost_platform::local::environment::of_cuda;
use epochcost_platform::local::worker::Worker;
use epochcost_simulator::profile::median;
use epochcost_systems::{Device, find_model};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::error::{Error, Result};

/// Steps for so long come before those that are timed.
const WARM_UP_S: f64 = 0.5;
/// The timed steps of one process take so long at least, however many that is.
const MEASURE_S: f64 = 0.5;
/// Seed of parameters and images. Times do not depend on it.
const SEED: u64 = 1;

/// What one process measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Setting {
    /// The model's name.
    pub(super) model: &'static str,
    /// What it computes on.
    pub(super) device: Device,
    /// Samples of a step.
    pub(super) batch_size: usize,
    /// Threads that it computes on.
    #[serde(skip)]
    pub(super) threads: usize,
    /// Fewest steps that are timed.
    pub(super) steps: usize,
}

/// What the worker reads (`workloads/worker/src/profile.rs`).
#[derive(Serialize)]
struct Request {
    #[serde(flatten)]
    setting: Setting,
    measure_s: f64,
    warm_up_s: f64,
    seed: u64,
}

/// What it answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    pub(super) model: String,
    pub(super) parameters: usize,
    /// Wall seconds of building the model.
    pub(super) build_s: f64,
    /// Wall seconds of each step.
    pub(super) step_s: Vec<f64>,
    /// CPU seconds of each step, in ticks of 10 ms.
    pub(super) step_cpu_s: Vec<f64>,
    /// Wall seconds of each evaluation of one batch.
    pub(super) evaluate_s: Vec<f64>,
    /// Most memory resident, MB.
    pub(super) peak_mb: f64,
    /// Memory resident before there was a model, MB.
    pub(super) resident_mb: f64,
}

/// What one process measured.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    /// What it was asked for.
    pub(super) setting: Setting,
    /// What it found.
    pub(super) answer: Answer,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, threads, .. } = self;
        if self.device == Device::Cuda {
            return write!(f, "{model}, batch {}, on the GPU", self.batch_size);
        }
        let noun = if *threads == 1 { "thread" } else { "threads" };
        write!(f, "{model}, batch {}, {threads} {noun}", self.batch_size)
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, peak_mb) = (&self.answer.step_s, self.answer.peak_mb);
        let step_s = median(steps).unwrap_or(f64::NAN);
        let count = steps.len();
        let setting = self.setting;
        write!(
            f,
            "{setting}: {step_s:.4} s a step ({count}), {peak_mb:.0} MB"
        )
    }
}

/// How the times were taken.
pub(super) fn method(steps: usize, rounds: usize) -> String {
    format!(
        "medians of {rounds} processes a point, each of {steps} steps at least and \
         {MEASURE_S} s, after {WARM_UP_S} s of warm-up"
    )
}

/// Runs one process; it is killed where this is dropped.
pub(super) async fn measure(worker: &Worker, setting: Setting) -> Result<Measurement> {
    let failed = |source| Error::Io {
        doing: format!("measure {setting}"),
        source,
    };
    // Nothing of the user's environment reaches it, as on the local platform:
    // the allocator's variables would change times and memory.
    let mut child = Command::new(worker.program())
        .arg("--profile")
        .env_clear()
        .envs(of_cuda().filter(|_| setting.device == Device::Cuda))
        .env("RAYON_NUM_THREADS", setting.threads.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let request = Request {
        setting,
        measure_s: MEASURE_S,
        warm_up_s: WARM_UP_S,
        seed: SEED,
    };
    let mut line = serde_json::to_vec(&request).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    // Stays open: its end would signal the worker that this program has ended.
    let mut input = child.stdin.take();
    if let Some(input) = &mut input {
        // A process that does not read has ended; its exit status and output give the reason.
        let _ = input.write_all(&line).await;
        let _ = input.flush().await;
    }
    let ended = child.wait_with_output().await.map_err(failed)?;
    if !ended.status.success() {
        return Err(refused(setting, ended.status, &ended.stderr));
    }
    let answer: Answer =
        serde_json::from_slice(&ended.stdout).map_err(|error| failed(error.into()))?;
    let planned = find_model(setting.model).map(|model| model.sizes.parameters);
    if answer.model != setting.model || planned != Some(answer.parameters) {
        return Err(failed(std::io::Error::other(format!(
            "the worker measured {} of {} parameters: is it of this version?",
            answer.model, answer.parameters
        ))));
    }
    Ok(Measurement { setting, answer })
}

/// Why a process measured nothing.
fn refused(setting: Setting, status: ExitStatus, stderr: &[u8]) -> Error {
    /// What the kernel ends a process with when memory runs out.
    const KILLED: i32 = 9;
    let output = String::from_utf8_lossy(stderr);
    let last_line = output.lines().last().unwrap_or("it printed nothing").trim();
    if status.signal() == Some(KILLED) {
        return Error::Lacks {
            what: format!("the process for {setting} was killed, for its memory in all likelihood"),
            remedy: "leave the largest batches out with --batch, or measure fewer models".into(),
        };
    }
    Error::Io {
        doing: format!("measure {setting}"),
        source: std::io::Error::other(format!("the worker ended with {status}: {last_line}")),
    }
}
