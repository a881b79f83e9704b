//! Recorded local runs as something to simulate: on the profile of their machine, with steps that
//! take what the run recorded, less what they waited for the host's cores (`steps`).

mod steps;

use std::path::Path;

use epochcost_experiment::{Document, Experiment, Options};
use epochcost_judge::analysis::{self, RowAnalysis};
use epochcost_platform::{Site, site_of};
use epochcost_record::{EXPERIMENT, MANIFEST, Machine, RunDirectory};
use epochcost_simulator::profile::{ComputeProfile, Constant, FunctionDevice, Profile};
use epochcost_spec::format::shell_word;
use epochcost_spec::profiles;
use epochcost_spec::rows::{STATED_BY_EXPERIMENT, TrialPlan};

pub use self::steps::disagreement;
use crate::error::{Error, Result};

/// Profile of the machine that local runs are recorded on.
const MACHINE: &str = "laptop";

/// A finished local run, with what is simulated in its place.
pub(super) struct RecordedRun {
    pub(super) directory: RunDirectory,
    pub(super) rows: Vec<RowAnalysis>,
    /// The machine of the run.
    machine: Profile<Constant>,
}

/// Returns whether a path is that of a run, and of no file.
pub fn is_run(path: &Path) -> bool {
    path.join(MANIFEST).is_file()
}

/// Returns the compute profile that follows from a local run's steps; none where `path` is no run, or
/// one in a cloud.
///
/// # Errors
/// When the run cannot be read, measured nothing or has not ended, or no step computed a gradient.
pub fn recorded_steps(path: &Path) -> Result<Option<ComputeProfile>> {
    if !is_run(path) {
        return Ok(None);
    }
    let directory = RunDirectory::open_whole(path)?;
    if site_of(&directory.manifest().platform).is_some_and(Site::is_cloud) {
        return Ok(None);
    }
    RecordedRun::of(directory)?.steps().map(Some)
}

impl RecordedRun {
    /// Reads a run.
    ///
    /// # Errors
    /// As [`recorded_steps`].
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::of(RunDirectory::open_whole(path)?)
    }

    fn of(directory: RunDirectory) -> Result<Self> {
        check(&directory)?;
        Ok(Self {
            rows: analysis::summarise(&directory)?.rows,
            machine: of_machine(&profiles::platform(MACHINE)?, directory.machine()),
            directory,
        })
    }

    /// Returns the run's experiment, with the client of its machine unless another profile is asked for.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn document(&self, profile: Option<&str>) -> Result<Document> {
        let mut document = Document::read(&self.directory.path().join(EXPERIMENT))?;
        if profile.is_none() {
            document.set_option("the run", "simulation.client", "compiled")?;
        }
        Ok(document)
    }

    /// Checks an experiment and puts the machine of the run and its steps into it, unless other profiles are
    /// asked for.
    ///
    /// # Errors
    /// When it cannot be simulated, or the run's steps are none of the profile's devices.
    pub(super) fn experiment(
        &self,
        mut document: Document,
        options: &Options,
        profile: Option<&str>,
        compute: &[String],
    ) -> Result<Experiment> {
        super::on_profiles(&mut document, profile.or(Some(MACHINE)), compute)?;
        let mut experiment = Experiment::from_document(document, options)?;
        // A run's own steps are the CPU's, also of rows that asked for a GPU.
        (experiment.rows.iter_mut()).for_each(|row| row.cpu_fallback = true);
        let Some(simulation) = &mut experiment.simulation else {
            return Ok(experiment);
        };
        if profile.is_none() {
            simulation.profile = of_machine(&simulation.profile, self.directory.machine());
        }
        let platform = &simulation.profile;
        if compute.is_empty() && platform.function_device == FunctionDevice::Cuda {
            return Err(Error::Usage {
                problem: format!(
                    "functions of the profile {} compute on a GPU, and the run recorded steps on a CPU",
                    platform.name
                ),
                remedy: "name a compute profile that knows that GPU with --compute".into(),
            });
        }
        if compute.is_empty() {
            simulation.compute = vec![self.steps()?];
        }
        Ok(experiment)
    }

    /// Returns a trial of a row as it is simulated: with the name and the seed of its first.
    fn plan(row: &RowAnalysis) -> TrialPlan {
        let mut first = row.planned.row.clone();
        first.job.trial = format!("{}-t0", first.id);
        if let Some(trial) = row.succeeded().next() {
            first.job.seed = trial.trial.seed;
        }
        first.cpu_fallback = true;
        TrialPlan {
            sizes: first.sizes(),
            trial: 0,
            row: first,
        }
    }
}

/// Refuses a run that nothing can be learnt from.
fn check(run: &RunDirectory) -> Result<()> {
    let path = run.path();
    let refused = |problem: String, remedy: String| {
        Err(Error::Usage {
            problem: format!("failed to simulate the run {}: {problem}", path.display()),
            remedy,
        })
    };
    let experiment = path.join(EXPERIMENT);
    let experiment = shell_word(&experiment.to_string_lossy());
    let (platform, out) = (
        &run.manifest().platform,
        shell_word(&path.to_string_lossy()),
    );
    if site_of(platform) != Some(Site::ThisMachine) {
        return refused(
            format!(
                "it ran on the platform `{platform}`, and steps of --platform local are needed"
            ),
            format!("plan its experiment: epochcost plan {experiment}"),
        );
    }
    let planned = run.rows().iter().filter(|row| row.infeasible.is_none());
    let planned: usize = planned.map(|row| row.trials).sum();
    let finished = run.finished_trials()?.len();
    if finished < planned {
        return refused(
            format!("{finished} of its {planned} trials have ended"),
            format!("finish it first: epochcost run {experiment} --out {out} --resume"),
        );
    }
    Ok(())
}

/// Returns the profile of one host with the cores of `machine`: as far as cores that work at the same
/// time slow each other down, they do so there, too. What an experiment states of them stays.
fn of_machine(profile: &Profile<Constant>, machine: &Machine) -> Profile<Constant> {
    let factor = machine.cores as f64 / profile.instance.vcpus.value;
    profile.map(&mut |path, constant| match path {
        "host.cores" | "instance.vcpus" | "function.vcpus_limit"
            if factor != 1.0 && !constant.source.starts_with(STATED_BY_EXPERIMENT) =>
        {
            Constant {
                value: constant.value * factor,
                low: constant.low.map(|low| low * factor),
                high: constant.high.map(|high| high * factor),
                source: format!(
                    "{}; scaled to the {} cores of the run's machine",
                    constant.source, machine.cores
                ),
                ..constant.clone()
            }
        }
        _ => constant.clone(),
    })
}
