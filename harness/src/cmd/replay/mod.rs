//! `replay`: a recorded local run again in virtual time, on the same machine's
//! profile or under another memory size, worker count or platform.
//!
//! Without `--compute`, steps take what the run itself recorded, taken apart
//! from what they waited for the host's cores (`calibrate.rs`): everything else
//! is then predicted. With it, compute times are a profile's, and the run is
//! predicted from what was measured without it.

mod calibrate;
mod compare;
mod setting;
mod show;

use std::path::{Path, PathBuf};

use epochcost_simulator::profile::{ComputeProfile, Constant, FunctionDevice, Profile};

use super::Output;
use super::execute::stop_signal;
use crate::analysis::{self, RowAnalysis};
use crate::error::{Error, Exit};
use crate::experiment::{Document, Experiment, Options};
use crate::platform::local::worker::find_or_build;
use crate::platform::sim::{RealCompute, profiles};
use crate::results::{Machine, RunDirectory};
use compare::Comparison;

/// The profile of the machine that local runs were recorded on.
const SAME_MACHINE: &str = "laptop";

/// `replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory of a finished run on the local platform.
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The platform profile, by name or file; by default `laptop` with as many
    /// cores as the run's machine, so that both can be compared.
    #[arg(long, value_name = "NAME|FILE")]
    profile: Option<String>,
    /// A compute profile, by name or file, in the place of the steps that the
    /// run recorded: a prediction that knows nothing of the run.
    #[arg(long, value_name = "NAME|FILE")]
    compute: Option<String>,
    /// Another memory size of every function.
    #[arg(long, value_name = "MB")]
    memory: Option<u32>,
    /// Another number of workers; each keeps its mini-batches.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Exit with 3 if the simulated wall time of any row is off by more than
    /// this share of the recorded one.
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with_all = ["memory", "workers"])]
    within: Option<f64>,
    /// Write the comparison to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long, requires = "out")]
    force: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("give a share of more than 0, as 0.25".to_owned()),
    }
}

/// What is replayed, on what.
struct Plan {
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

/// Simulates every row of a run again and compares.
///
/// # Errors
/// [`Error::Usage`] for what cannot be replayed; then whatever kept a row from
/// being simulated.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(out) = &args.out {
        show::check(out, args.force)?;
    }
    let plan = Plan::new(args).await?;
    let stopped = stop_signal()?;
    tokio::select! {
        done = execute(&plan, args.out.as_deref(), output) => done,
        () = stopped => {
            super::complain("interrupted; nothing was written");
            Ok(Exit::Interrupted)
        }
    }
}

async fn execute(plan: &Plan, out: Option<&Path>, output: Output) -> Result<Exit, Error> {
    let comparison = Comparison::of(plan).await?;
    if let Some(out) = out {
        show::write(&comparison, out)?;
    }
    output.text(show::text(&comparison));
    output.json(&comparison);
    if let Some(out) = out {
        output.message(format_args!("record: {}", out.display()));
    }
    Ok(comparison.exit())
}

impl Plan {
    /// Everything that can be refused before anything is simulated.
    async fn new(args: &Args) -> Result<Self, Error> {
        let run = RunDirectory::open_whole(&args.run)?;
        check_run(&run, &args.run)?;
        let recorded_on = of_machine(named(profiles::platform(SAME_MACHINE))?, run.machine());
        let platform = match &args.profile {
            None => recorded_on.clone(),
            Some(name) => named(profiles::platform(name))?,
        };
        let compute = args.compute.as_deref().map(profiles::compute);
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
        let rows = analysis::summarise(&run)?.rows;
        Ok(Self {
            real: real_compute(&args.run, &rows, args.workers.is_some()).await?,
            rows,
            run,
            is_same_machine: args.profile.is_none(),
            platform,
            recorded_on,
            compute,
            memory_mb: args.memory,
            workers: args.workers.map(usize::from),
            within: args.within,
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
    if platform != "local" {
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
                experiment.display(),
                path.display()
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
        },
        _ => constant.clone(),
    })
}

/// The data and the worker, where a row's traffic depends on what was learnt:
/// sizes alone do not say how much such a system sends. The recorded data are
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
