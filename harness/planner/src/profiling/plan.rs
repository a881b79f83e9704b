//! What is measured, on what: everything that can be refused beforehand.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use epochcost_record::{Machine, probe_file};
use epochcost_spec::format;
use epochcost_spec::suggest::did_you_mean;
use epochcost_systems::{Device, ModelSizes, find_model, models};

use super::measure::Setting;
use super::names;
use crate::error::{Error, Result};

/// Load of others, in cores, from which a measurement is disturbed.
const DISTURBING_LOAD: f64 = 0.5;
/// More parameters than models have that are measured unless others are named.
const DEFAULT_PARAMETERS: usize = 100_000_000;

/// What is to be measured.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Models by name; those of fewer than 100 million parameters, if there is none.
    pub models: &'a [String],
    /// Batch sizes.
    pub batches: &'a [NonZeroUsize],
    /// Device that computes.
    pub device: Device,
    /// Numbers of threads; 1 and all cores, if there is none.
    pub threads: &'a [NonZeroUsize],
    /// Fewest steps that each process times.
    pub steps: NonZeroUsize,
    /// Processes for each point.
    pub rounds: NonZeroUsize,
    /// The file to write; one under `results/profiles/` if left out.
    pub out: Option<&'a Path>,
    /// Whether a file that is there is replaced.
    pub force: bool,
    /// Whether a bad fit is written.
    pub allows_bad_fit: bool,
}

/// What is measured, on what.
#[derive(Debug)]
pub struct Plan {
    pub(super) models: Vec<&'static str>,
    pub(super) device: Device,
    /// Rising.
    pub(super) batches: Vec<usize>,
    /// Rising, 1 first.
    pub(super) threads: Vec<usize>,
    pub(super) steps: usize,
    pub(super) rounds: usize,
    pub(super) allows_bad_fit: bool,
    pub(super) machine: Machine,
    pub(super) out: PathBuf,
}

impl Plan {
    /// Makes the plan: everything that can be refused before any work starts.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be measured and for a file that is there.
    pub fn new(request: &Request<'_>, machine: Machine) -> Result<Self> {
        let device = request.device;
        let most_threads = match device {
            Device::Cpu => machine.cores.max(1),
            Device::Cuda => 1,
        };
        let default_threads = [1, most_threads];
        let plan = Self {
            device,
            models: known_models(request.models)?,
            batches: rising(request.batches),
            threads: if request.threads.is_empty() {
                sorted(default_threads.into())
            } else {
                rising(request.threads)
            },
            steps: request.steps.get(),
            rounds: request.rounds.get(),
            allows_bad_fit: request.allows_bad_fit,
            out: (request.out).map_or_else(|| default_file(&machine, device), Path::to_owned),
            machine,
        };
        plan.check_threads()?;
        if plan.out.exists() && !request.force {
            return Err(Error::Usage {
                problem: format!("{} is there already", plan.out.display()),
                remedy: "replace it with --force, or name another file with --out".into(),
            });
        }
        probe_file(&plan.out, "--out")?;
        Ok(plan)
    }

    fn check_threads(&self) -> Result<()> {
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
    pub(super) fn settings(&self) -> Vec<Setting> {
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
    pub(super) fn most_threads(&self) -> usize {
        self.threads.last().copied().unwrap_or(1)
    }

    /// Whether the machine has something else to do.
    pub(super) fn busy(&self) -> Option<String> {
        let load = self.machine.load_average?;
        let (cores, threads) = (self.machine.cores, self.most_threads());
        is_busy(load, threads, cores).then(|| {
            format!(
                "the host is busy (load average {load} before the first process, and {threads} \
                 threads are to have {cores} cores): the times will be too long; measure again \
                 on an idle machine"
            )
        })
    }
}

/// Whether `threads` of ours and a load of `load` before them are more than the
/// machine has.
pub(super) fn is_busy(load: f64, threads: usize, cores: usize) -> bool {
    load + threads as f64 > cores as f64 + DISTURBING_LOAD
}

/// The models that are measured where none is named: others take minutes a point, and
/// gigabytes.
pub(super) fn default_models() -> Vec<&'static str> {
    let is_small = |model: &&ModelSizes| model.sizes.parameters < DEFAULT_PARAMETERS;
    models()
        .iter()
        .filter(is_small)
        .map(|model| model.name)
        .collect()
}

/// The models of those names.
fn known_models(names: &[String]) -> Result<Vec<&'static str>> {
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

pub(super) fn default_file(machine: &Machine, device: Device) -> PathBuf {
    let computes = match device {
        Device::Cpu => machine.cpu.as_deref().unwrap_or("unknown-cpu").to_owned(),
        Device::Cuda => (machine.gpus.first()).map_or("unknown-gpu".into(), Clone::clone),
    };
    let name = format!("{}-{}.yaml", format::slug(&computes), names::today());
    Path::new("results/profiles").join(name)
}
