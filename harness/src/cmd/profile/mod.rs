//! `profile`: measure this machine's compute profile, which simulations stand on.
//!
//! Every point (model, batch size, threads) is measured by processes of its
//! own, one a round; a round goes through all points, so that a slow moment of
//! the machine does not fall on one model alone.
//!
//! A line is fitted to the medians of one thread, weighted by 1 / time²: relative
//! errors count, not seconds ([`Line`](epochcost_simulator::profile::Line)).
//! What more threads gain is Amdahl's share at the largest batch size; the
//! seconds of an evaluated sample are those at the largest batch size; memory is
//! a line through the highest peaks, whatever the threads.

mod measure;
mod record;
mod summary;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use epochcost_simulator::profile::ComputeProfile;
use epochcost_systems::{Device, find_model, models};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::Output;
use super::execute::stop_signal;
use super::run::probe;
use super::table::table;
use crate::error::{Error, Exit};
use crate::experiment::suggest::did_you_mean;
use crate::platform::PlatformError;
use crate::platform::local::worker::{Worker, find_or_build};
use crate::results::Machine;
use measure::{Measurement, Setting};
use summary::Point;

/// `profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A model to measure, more than once for more; by default every model of fewer than
    /// 100 million parameters.
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// Batch sizes. A line is fitted to their times, so give two or more.
    #[arg(long = "batch", value_name = "B", value_delimiter = ',', default_values = ["8", "32", "128"])]
    batches: Vec<NonZeroUsize>,
    /// What to compute on. On a GPU, threads are of no account.
    #[arg(long, value_enum, default_value = "cpu")]
    device: DeviceName,
    /// Numbers of threads, 1 among them; by default 1 and all cores.
    #[arg(long, value_name = "T", value_delimiter = ',')]
    threads: Vec<NonZeroUsize>,
    /// Fewest steps that each process times, after its warm-up.
    #[arg(long, value_name = "N", default_value = "3")]
    steps: NonZeroUsize,
    /// Processes for each point.
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: NonZeroUsize,
    /// The file to write; by default one under `results/profiles/`, named for
    /// the CPU and the date.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long)]
    force: bool,
}

/// A device by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DeviceName {
    Cpu,
    Cuda,
}

impl From<DeviceName> for Device {
    fn from(name: DeviceName) -> Self {
        match name {
            DeviceName::Cpu => Self::Cpu,
            DeviceName::Cuda => Self::Cuda,
        }
    }
}

/// More parameters than models have that are measured unless others are named.
const DEFAULT_PARAMETERS: usize = 100_000_000;

/// What is measured, on what.
#[derive(Debug)]
struct Plan {
    models: Vec<&'static str>,
    device: Device,
    /// Rising.
    batches: Vec<usize>,
    /// Rising, 1 first.
    threads: Vec<usize>,
    steps: usize,
    rounds: usize,
    machine: Machine,
    out: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Profiled<'a> {
    file: &'a Path,
    profile: &'a ComputeProfile,
    points: &'a [Point],
    warnings: &'a [String],
}

/// Measures the profile and writes it to a file.
///
/// # Errors
/// [`Error::Usage`] for what cannot be measured and for a file that is there,
/// before any work starts; then whatever kept a process from measuring.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let plan = Plan::new(args, Machine::here(Vec::new()))?;
    let stopped = stop_signal()?;
    tokio::select! {
        done = execute(&plan, output) => done,
        () = stopped => {
            super::complain("interrupted; no profile was written");
            Ok(Exit::Interrupted)
        }
    }
}

async fn execute(plan: &Plan, output: Output) -> Result<Exit, Error> {
    let found = tokio::task::spawn_blocking(find_or_build).await;
    let worker = found.map_err(|error| PlatformError::Worker(error.to_string()))??;
    let described = worker.describe().await?;
    described.offers(plan.device, "`profile`", "measure the CPU")?;
    let busy = plan.busy();
    if let Some(warning) = &busy {
        output.message(format_args!("warning: {warning}"));
    }
    let measurements = measurements(plan, &worker, output).await?;
    let points = summary::points(&measurements);
    let mut warnings = summary::warnings(&points);
    let profile = summary::profile(plan, &points)?;
    warnings.extend(summary::doubts(plan, &profile));
    for warning in &warnings {
        output.message(format_args!("warning: {warning}"));
    }
    warnings.splice(0..0, busy);
    record::write(plan, &worker, &profile, &points, &warnings)?;
    output.text(summary::points_table(&points));
    output.text(format_args!("\n{}", costs_table(&profile)));
    output.json(&Profiled {
        file: &plan.out,
        profile: &profile,
        points: &points,
        warnings: &warnings,
    });
    output.message(format_args!("profile: {}", plan.out.display()));
    Ok(Exit::Done)
}

/// Every point, once a round.
async fn measurements(
    plan: &Plan,
    worker: &Worker,
    output: Output,
) -> Result<Vec<Measurement>, Error> {
    let settings = plan.settings();
    let bar = bar(settings.len(), output);
    let mut measurements = Vec::with_capacity(settings.len());
    for setting in settings {
        bar.set_message(setting.to_string());
        let measurement = measure::measure(worker, setting).await?;
        bar.inc(1);
        bar.suspend(|| output.detail(&measurement));
        measurements.push(measurement);
    }
    bar.finish_and_clear();
    Ok(measurements)
}

fn bar(processes: usize, output: Output) -> ProgressBar {
    let target = match output.draws_progress() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(processes as u64), target);
    if let Ok(style) =
        ProgressStyle::with_template("{spinner} [{pos}/{len} processes, {elapsed}] {msg}")
    {
        bar.set_style(style);
    }
    bar
}

fn costs_table(profile: &ComputeProfile) -> String {
    let rows: Vec<[String; 10]> = profile
        .models
        .iter()
        .map(|cost| {
            let fit = cost.fit.as_ref();
            [
                cost.model.clone(),
                cost.fixed_s.to_string(),
                cost.sample_s.to_string(),
                cost.parallel.to_string(),
                cost.evaluate_sample_s.to_string(),
                cost.build_s.to_string(),
                cost.fixed_mb.to_string(),
                cost.sample_mb.to_string(),
                fit.map_or("-".into(), |fit| fit.r_squared.to_string()),
                fit.map_or("-".into(), |fit| {
                    format!("{:.1} %", 100.0 * fit.largest_error)
                }),
            ]
        })
        .collect();
    let heading = [
        "model",
        "fixed s",
        "s/sample",
        "parallel",
        "evaluate s/sample",
        "build s",
        "fixed MB",
        "MB/sample",
        "r²",
        "largest error",
    ];
    table(heading, &rows)
}

impl Plan {
    /// Everything that can be refused before any work starts.
    fn new(args: &Args, machine: Machine) -> Result<Self, Error> {
        let device = Device::from(args.device);
        let most_threads = match device {
            Device::Cpu => machine.cores.max(1),
            Device::Cuda => 1,
        };
        let default_threads = [1, most_threads];
        let plan = Self {
            device,
            models: known_models(&args.models)?,
            batches: rising(&args.batches),
            threads: match args.threads.is_empty() {
                true => sorted(default_threads.into()),
                false => rising(&args.threads),
            },
            steps: args.steps.get(),
            rounds: args.rounds.get(),
            out: args
                .out
                .clone()
                .unwrap_or_else(|| default_file(&machine, device)),
            machine,
        };
        plan.check_threads()?;
        if plan.out.exists() && !args.force {
            return Err(Error::Usage {
                problem: format!("{} is there already", plan.out.display()),
                remedy: "replace it with --force, or name another file with --out".into(),
            });
        }
        // An empty parent is the current directory.
        let parent = plan.out.parent().filter(|path| *path != Path::new(""));
        probe(parent.unwrap_or(Path::new(".")))?;
        Ok(plan)
    }

    fn check_threads(&self) -> Result<(), Error> {
        let cores = self.machine.cores;
        if let Some(many) = self.threads.iter().find(|threads| **threads > cores) {
            return Err(Error::Usage {
                problem: format!("{many} threads would share this machine's {cores} cores"),
                remedy: format!("give --threads of at most {cores}"),
            });
        }
        if self.threads.first() != Some(&1) {
            return Err(Error::Usage {
                problem: "the times of a profile are those of one thread".into(),
                remedy: "give --threads with 1 among them".into(),
            });
        }
        Ok(())
    }

    /// Every process of every round; what changes slowest is the batch size.
    fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for _ in 0..self.rounds {
            for &batch_size in &self.batches {
                for &threads in &self.threads {
                    settings.extend(self.models.iter().map(|&model| Setting {
                        model,
                        device: self.device,
                        batch_size,
                        threads,
                        steps: self.steps,
                    }));
                }
            }
        }
        settings
    }

    /// The most threads of any process.
    fn most_threads(&self) -> usize {
        self.threads.last().copied().unwrap_or(1)
    }

    /// Whether the machine has something else to do.
    fn busy(&self) -> Option<String> {
        let load = self.machine.load_average?;
        let (cores, threads) = (self.machine.cores, self.most_threads());
        summary::is_busy(load, threads, cores).then(|| {
            format!(
                "the host is busy (load average {load} before the first process, and {threads} \
                 threads are to have {cores} cores): the times will be too long; measure again \
                 on an idle machine"
            )
        })
    }
}

/// The models that are measured where none is named: others take minutes a point, and
/// gigabytes.
fn default_models() -> Vec<&'static str> {
    models()
        .iter()
        .filter(|model| model.sizes.parameters < DEFAULT_PARAMETERS)
        .map(|model| model.name)
        .collect()
}

/// The models of those names.
fn known_models(names: &[String]) -> Result<Vec<&'static str>, Error> {
    let known: Vec<&'static str> = models().iter().map(|model| model.name).collect();
    if names.is_empty() {
        return Ok(default_models());
    }
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let model = find_model(name).ok_or_else(|| Error::Usage {
            problem: format!("there is no model `{name}`"),
            remedy: did_you_mean(name, &known),
        })?;
        if !found.contains(&model.name) {
            found.push(model.name);
        }
    }
    Ok(found)
}

fn rising(numbers: &[NonZeroUsize]) -> Vec<usize> {
    sorted(numbers.iter().map(|number| number.get()).collect())
}

fn sorted(mut numbers: Vec<usize>) -> Vec<usize> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn default_file(machine: &Machine, device: Device) -> PathBuf {
    let computes = match device {
        Device::Cpu => machine.cpu.as_deref().unwrap_or("unknown-cpu").to_owned(),
        Device::Cuda => (machine.gpus.first()).map_or("unknown-gpu".into(), Clone::clone),
    };
    let name = format!("{}-{}.yaml", record::slug(&computes), record::today());
    Path::new("results/profiles").join(name)
}

#[cfg(test)]
mod tests;
