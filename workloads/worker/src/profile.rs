//! One point of a machine's compute profile: time and memory of a model's steps at
//! one batch size, on as many threads as `RAYON_NUM_THREADS` states.
//!
//! A process measures one point, so that its peak of memory is that point's. It
//! computes where [`crate::compute`] does, on a thread that may block: the
//! allocator serves the main thread differently.

use std::fs;
use std::time::{Duration, Instant};

use epochcost_kernels::hash;
use epochcost_models::{Device, ModelError, Trainer};
use epochcost_systems::{SystemError, process};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::host::WorkerError;
use crate::lifeline;
use crate::output::Output;

/// Largest number of timed steps, however short they are.
const STEPS_LIMIT: usize = 10_000;

/// The point to measure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Name of the model.
    model: String,
    /// Device to compute on.
    device: Device,
    /// Samples per step.
    batch_size: usize,
    /// Smallest number of timed steps.
    steps: usize,
    /// Shortest total time of the timed steps, seconds.
    measure_s: f64,
    /// Duration of the steps before the timed ones, at least one step, seconds.
    warm_up_s: f64,
    /// Seed of parameters and images.
    seed: u64,
}

/// The measurements of a point.
#[derive(Debug, Serialize)]
struct Answer {
    model: &'static str,
    parameters: usize,
    /// Wall seconds to build the model and its first parameters.
    build_s: f64,
    /// Wall seconds of each step.
    step_s: Vec<f64>,
    /// CPU seconds of each step, all threads together, in the kernel's ticks of
    /// 10 ms: single ones are coarse, their sum is not.
    step_cpu_s: Vec<f64>,
    /// Wall seconds of each evaluation of `batch_size` samples.
    evaluate_s: Vec<f64>,
    /// Peak of resident memory before the first evaluation, MB of 2²⁰ bytes.
    peak_mb: f64,
    /// Resident memory before the model was built, MB of 2²⁰ bytes.
    resident_mb: f64,
}

/// Measures the point that standard input describes, and prints the measurements.
///
/// # Errors
/// [`WorkerError`] when the request is malformed or cannot be computed.
pub async fn run() -> Result<(), WorkerError> {
    let malformed = |error: serde_json::Error| WorkerError::Task(error.to_string());
    let request: Request = serde_json::from_str(&lifeline::first_line()?).map_err(malformed)?;
    let measured = spawn_blocking(move || measure(&request)).await;
    let answer = measured.map_err(|error| SystemError::Compute(error.to_string()))??;
    Output.line(&serde_json::to_string(&answer).map_err(malformed)?);
    Ok(())
}

fn measure(request: &Request) -> Result<Answer, SystemError> {
    let resident_mb = status_mb("VmRSS:")?;
    let began = Instant::now();
    let mut point = Point::build(request)?;
    let build_s = began.elapsed().as_secs_f64();
    let (images, labels) = synthetic(&point.trainer, request);
    let step = |point: &mut Point| point.step(&images, &labels);
    warm_up(request, || step(&mut point))?;
    let (step_s, step_cpu_s) = repeat(request, || step(&mut point))?;
    let peak_mb = status_mb("VmHWM:")?;
    point.evaluate(&images, &labels)?;
    let (evaluate_s, _) = repeat(request, || point.evaluate(&images, &labels))?;
    let info = point.trainer.info();
    Ok(Answer {
        model: info.name,
        parameters: info.parameters,
        build_s,
        step_s,
        step_cpu_s,
        evaluate_s,
        peak_mb,
        resident_mb,
    })
}

/// A model and its initial state.
struct Point {
    trainer: Trainer,
    parameters: Vec<f32>,
    statistics: Vec<f32>,
}

impl Point {
    fn build(request: &Request) -> Result<Self, SystemError> {
        let trainer = Trainer::new(&request.model, request.device).map_err(failed)?;
        Ok(Self {
            parameters: trainer.initial_parameters(request.seed),
            statistics: trainer.initial_statistics(),
            trainer,
        })
    }

    /// Computes a gradient like [`crate::compute::JobModel`], its copies included.
    fn step(&mut self, images: &[f32], labels: &[u8]) -> Result<(), SystemError> {
        let parameters = self.parameters.clone();
        let mut moved = self.statistics.clone();
        let step = self
            .trainer
            .gradient(&parameters, &mut moved, images, labels, 0);
        step.map(drop).map_err(failed)
    }

    fn evaluate(&mut self, images: &[f32], labels: &[u8]) -> Result<(), SystemError> {
        let (parameters, statistics) = (self.parameters.clone(), self.statistics.clone());
        let found = self
            .trainer
            .evaluate(&parameters, &statistics, images, labels);
        found.map(drop).map_err(failed)
    }
}

fn failed(error: ModelError) -> SystemError {
    SystemError::Compute(error.to_string())
}

/// Makes random normalised images, `[batch, channels, height, width]`, and labels.
fn synthetic(trainer: &Trainer, request: &Request) -> (Vec<f32>, Vec<u8>) {
    let info = trainer.info();
    let value = |index| 4.0 * hash::unit_f32(hash::mix(request.seed, index)) - 2.0;
    let values = request.batch_size * info.image_values();
    let images = (0..values as u64).map(value).collect();
    let label = |index| (index % info.classes.min(256)) as u8;
    (images, (0..request.batch_size).map(label).collect())
}

fn warm_up(
    request: &Request,
    mut step: impl FnMut() -> Result<(), SystemError>,
) -> Result<(), SystemError> {
    let began = Instant::now();
    loop {
        step()?;
        if began.elapsed().as_secs_f64() >= request.warm_up_s {
            return Ok(());
        }
    }
}

/// Times as many steps as the request asks for; returns the wall and CPU seconds of
/// each.
fn repeat(
    request: &Request,
    mut step: impl FnMut() -> Result<(), SystemError>,
) -> Result<(Vec<f64>, Vec<f64>), SystemError> {
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    let first = Instant::now();
    while wall.len() < request.steps.max(1)
        || (first.elapsed().as_secs_f64() < request.measure_s && wall.len() < STEPS_LIMIT)
    {
        let (cpu_before, began) = (cpu_time()?, Instant::now());
        step()?;
        wall.push(began.elapsed().as_secs_f64());
        cpu.push(cpu_time()?.saturating_sub(cpu_before).as_secs_f64());
    }
    Ok((wall, cpu))
}

/// Returns the CPU time of this process so far, user and system.
fn cpu_time() -> Result<Duration, SystemError> {
    let unreadable = || SystemError::Compute("failed to read /proc/self/stat".into());
    let stat = fs::read_to_string("/proc/self/stat").map_err(|_| unreadable())?;
    process::cpu(&stat).ok_or_else(unreadable)
}

/// Reads a line of this process's status that counts kB, in MB.
fn status_mb(name: &'static str) -> Result<f64, SystemError> {
    let unreadable = || SystemError::Compute(format!("failed to read {name} /proc/self/status"));
    let status = fs::read_to_string("/proc/self/status").map_err(|_| unreadable())?;
    let kib = process::memory_kib(&status, name).ok_or_else(unreadable)?;
    Ok(kib as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(steps: usize) -> Request {
        Request {
            model: "lenet5".into(),
            device: Device::Cpu,
            batch_size: 12,
            steps,
            measure_s: 0.0,
            warm_up_s: 0.0,
            seed: 7,
        }
    }

    #[test]
    fn a_point_is_measured_as_often_as_asked() {
        let answer = measure(&request(3)).unwrap();
        assert_eq!((answer.model, answer.parameters), ("lenet5", 61_706));
        let counts = [&answer.step_s, &answer.step_cpu_s, &answer.evaluate_s].map(Vec::len);
        assert_eq!(counts, [3, 3, 3]);
        assert!(answer.step_s.iter().all(|seconds| *seconds > 0.0));
        assert!(answer.build_s > 0.0);
        assert!(answer.peak_mb >= answer.resident_mb && answer.resident_mb > 0.0);
    }

    #[test]
    fn images_are_of_the_models_shape_and_follow_the_seed() {
        let trainer = Trainer::new("lenet5", Device::Cpu).unwrap();
        let mut request = request(1);
        let (images, labels) = synthetic(&trainer, &request);
        assert_eq!(images.len(), 12 * 28 * 28);
        assert_eq!(labels, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
        assert_eq!(synthetic(&trainer, &request).0, images);
        request.seed += 1;
        assert_ne!(synthetic(&trainer, &request).0, images);
    }

    #[test]
    fn what_cannot_be_computed_says_why() {
        let mut unknown = request(1);
        unknown.model = "lenet".into();
        let error = measure(&unknown).unwrap_err().to_string();
        assert!(error.contains("lenet5"), "{error}");
        let mut empty = request(1);
        empty.batch_size = 0;
        assert!(measure(&empty).is_err());
    }

    #[test]
    fn a_misspelt_request_is_refused() {
        let text = r#"{"model":"lenet5","batch":8,"steps":1,"measure_s":0,"warm_up_s":0,"seed":1}"#;
        let error = serde_json::from_str::<Request>(text).unwrap_err();
        assert!(error.to_string().contains("`batch`"), "{error}");
    }

    /// Spins for a tick or two.
    #[test]
    fn cpu_time_moves_with_work() {
        let before = cpu_time().unwrap();
        let began = Instant::now();
        let mut spun = 0u64;
        while cpu_time().unwrap() == before && began.elapsed() < Duration::from_secs(30) {
            spun = std::hint::black_box(spun.wrapping_add(1));
        }
        assert!(cpu_time().unwrap() > before);
    }
}
