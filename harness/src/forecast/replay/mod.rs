//! Replays: a recorded local run again in virtual time, on the same machine's
//! profile or under another memory size, worker count or platform.
//!
//! Without `--compute`, steps take what the run itself recorded, taken apart
//! from what they waited for the host's cores (`calibrate.rs`): everything else
//! is then predicted. With it, compute times are a profile's, and the run is
//! predicted from what was measured without it.

mod calibrate;
mod compare;
mod page;
mod setting;
mod show;

use std::path::Path;

use epochcost_simulator::profile::{ComputeProfile, Constant, FunctionDevice, Profile};

use crate::analysis::{self, RowAnalysis};
use crate::error::Error;
use crate::experiment::{Document, Experiment, Options};
use crate::format::shell_word;
use crate::platform::local::worker::find_or_build;
use crate::platform::sim::RealCompute;
use crate::platform::{Site, site_of};
use crate::profiles;
use crate::results::{Machine, ResultsError, RunDirectory};

pub use compare::Comparison;
pub use show::{check, text, write};

/// The profile of the machine that local runs were recorded on.
const SAME_MACHINE: &str = "laptop";

/// What is to be replayed, and how.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The directory of a finished run on the local platform.
    pub run: &'a Path,
    /// The platform profile, by name or file; the run's machine if left out.
    pub profile: Option<&'a str>,
    /// The compute profile, by name or file; the run's own steps if left out.
    pub compute: Option<&'a str>,
    /// Memory size of every function, MB, if it is another.
    pub memory_mb: Option<u32>,
    /// Number of workers, if it is another.
    pub workers: Option<usize>,
    /// Share by which a wall time may be off.
    pub within: Option<f64>,
}

/// What is replayed, on what.
pub struct Replay {
    run: RunDirectory,
    rows: Vec<RowAnalysis>,
    /// What it is replayed on.
    platform: Profile<Constant>,
    /// Whether that is the machine of the run.
    is_same_machine: bool,
    /// The machine of the run.
    recorded_on: Profile<Constant>,
    compute: Option<ComputeProfile>,
    memory_mb: Option<u32>,
    workers: Option<usize>,
    within: Option<f64>,
    /// What it takes to train for real; none where the data is gone.
    real: Option<RealCompute>,
}

impl Replay {
    /// Simulates every row and compares it with what was recorded.
    ///
    /// # Errors
    /// Whatever kept a row from being simulated.
    pub async fn compare(&self) -> Result<Comparison, Error> {
        Comparison::of(self).await
    }

    /// Reads the run and its profiles: everything that can be refused before
    /// anything is simulated.
    ///
    /// # Errors
    /// [`Error::Usage`] for what cannot be replayed.
    pub async fn new(request: &Request<'_>) -> Result<Self, Error> {
        let run = RunDirectory::open_whole(request.run)?;
        check_run(&run, request.run)?;
        let recorded_on = of_machine(named(profiles::platform(SAME_MACHINE))?, run.machine());
        let platform = match request.profile {
            None => recorded_on.clone(),
            Some(name) => named(profiles::platform(name))?,
        };
        let compute = request.compute.map(profiles::compute);
        let compute = compute.map(named).transpose()?;
        if compute.is_none() && platform.function_device == FunctionDevice::Cuda {
            return Err(Error::Usage {
                problem: format!(
                    "functions of the profile {} compute on a GPU, and the run recorded steps on a CPU",
                    platform.name
                ),
                remedy: "name a compute profile that knows that GPU with --compute".into(),
            });
        }
        if let Some(dimension) = &platform.function_price {
            let price = run.prices().price(dimension);
            price.map_err(ResultsError::from)?;
        }
        let rows = analysis::summarise(&run)?.rows;
        Ok(Self {
            real: real_compute(request.run, &rows, request.workers.is_some()).await?,
            rows,
            run,
            is_same_machine: request.profile.is_none(),
            platform,
            recorded_on,
            compute,
            memory_mb: request.memory_mb,
            workers: request.workers,
            within: request.within,
        })
    }
}

fn named<T>(found: Result<T, profiles::ProfileError>) -> Result<T, Error> {
    found.map_err(|error| Error::Usage {
        problem: error.problem,
        remedy: error.remedy,
    })
}

/// Refuses a run that nothing can be learnt from.
fn check_run(run: &RunDirectory, path: &Path) -> Result<(), Error> {
    let refused = |problem: String, remedy: String| {
        Err(Error::Usage {
            problem: format!("failed to replay {}: {problem}", path.display()),
            remedy,
        })
    };
    let platform = &run.manifest().platform;
    if site_of(platform) != Some(Site::ThisMachine) {
        return refused(
            format!("it ran on the platform `{platform}`, where no durations were measured"),
            "replay a run of --platform local; to simulate the experiment under other \
             settings, run it again with --platform sim"
                .into(),
        );
    }
    let planned = run.rows().iter().filter(|row| row.infeasible.is_none());
    let planned: usize = planned.map(|row| row.trials).sum();
    let finished = run.finished_trials()?.len();
    if finished < planned {
        let experiment = path.join("experiment.yaml");
        return refused(
            format!("{finished} of its {planned} trials have ended"),
            format!(
                "finish it first: epochcost run {} --out {} --resume",
                shell_word(&experiment.to_string_lossy()),
                shell_word(&path.to_string_lossy())
            ),
        );
    }
    Ok(())
}

/// The profile of one host with the cores of `machine`: as far as cores that
/// work at the same time slow each other down, they do so there, too.
fn of_machine(profile: Profile<Constant>, machine: &Machine) -> Profile<Constant> {
    let factor = machine.cores as f64 / profile.instance.vcpus.value;
    if factor == 1.0 {
        return profile;
    }
    profile.map(&mut |path, constant| match path {
        "host.cores" | "instance.vcpus" | "function.vcpus_limit" => Constant {
            value: constant.value * factor,
            low: constant.low.map(|low| low * factor),
            high: constant.high.map(|high| high * factor),
            source: format!(
                "{}; scaled to the {} cores of the run's machine",
                constant.source, machine.cores
            ),
            date: constant.date.clone(),
            fitted_to: constant.fitted_to.clone(),
        },
        _ => constant.clone(),
    })
}

/// The data and the worker, where a row's traffic depends on what was learnt:
/// sizes alone do not determine how much such a system sends. The recorded data are
/// too few for other numbers of workers.
async fn real_compute(
    path: &Path,
    rows: &[RowAnalysis],
    resizes: bool,
) -> Result<Option<RealCompute>, Error> {
    if resizes || !rows.iter().any(setting::sends_what_it_learns) {
        return Ok(None);
    }
    let file = path.join("experiment.yaml");
    let loaded = Document::read(&file)
        .and_then(|document| Experiment::from_document(document, &Options::default()));
    let Ok(experiment) = loaded else {
        return Ok(None);
    };
    let directory = experiment.data.directory.clone();
    if !directory.is_dir() {
        return Ok(None);
    }
    let found = tokio::task::spawn_blocking(find_or_build).await;
    let worker = found.map_err(|error| Error::Io {
        doing: "find the worker".into(),
        source: std::io::Error::other(error),
    })?;
    Ok(worker.ok().map(|worker| RealCompute { worker, directory }))
}
