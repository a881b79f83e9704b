//! `run`: from experiments to run directories and reports.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use epochcost_datasets::{
    Dataset, MANIFEST_FILE, Manifest as DatasetManifest, ManifestFile, Origin,
};
use tokio::signal::unix::{SignalKind, signal};

use super::progress::{Following, TrialProgress};
use super::{Output, check};
use crate::analysis;
use crate::cli::RunArgs;
use crate::error::{Error, Exit};
use crate::experiment::{Experiment, PlatformKind, Services};
use crate::platform::local::{Enforced, Enforcement, Local};
use crate::platform::sim::{RealCompute, Sim};
use crate::platform::{Platform, TrialData};
use crate::report;
use crate::results::{
    ComputeUsed, DatasetRecord, FileHash, Limit, NewRun, PlannedRow, ResultsError, RunDirectory,
    SimulationRecord, TrialId,
};

/// Runs every experiment, each into a directory of its own.
///
/// # Errors
/// Whatever kept an experiment from being run; trials that had ended are kept.
pub async fn run(args: &RunArgs, output: Output) -> Result<Exit, Error> {
    let experiments = load(args)?;
    if args.dry_run {
        experiments
            .iter()
            .for_each(|experiment| output.text(check::describe(experiment)));
        output.json(&experiments.iter().map(check::expand).collect::<Vec<_>>());
        return Ok(Exit::Done);
    }
    probe(args.out.as_deref().unwrap_or(Path::new("results")))?;
    let mut exit = Exit::Done;
    for experiment in &experiments {
        exit = exit.max(one(args, experiment, output).await?);
    }
    Ok(exit)
}

/// Everything that can be refused before any work starts, but the directory.
fn load(args: &RunArgs) -> Result<Vec<Experiment>, Error> {
    let files = &args.selection.experiments;
    if args.out.is_some() && files.len() > 1 {
        return Err(Error::Usage {
            problem: format!(
                "--out names one run directory, and there are {} experiments",
                files.len()
            ),
            remedy: "run them one at a time, or leave --out out".to_owned(),
        });
    }
    let options = args.selection.options();
    let load = |file: &PathBuf| -> Result<Experiment, Error> {
        let experiment = Experiment::load(file, &options)?;
        runnable(&experiment)?;
        if experiment.needs_data() {
            experiment.data.inspect(&experiment.document)?;
        }
        Ok(experiment)
    };
    files.iter().map(load).collect()
}

fn runnable(experiment: &Experiment) -> Result<(), Error> {
    let lacks = |what: &str, remedy: &str| {
        Err(Error::Lacks {
            what: format!("{}: {what}", experiment.document.file.display()),
            remedy: remedy.to_owned(),
        })
    };
    match (experiment.platform, experiment.services) {
        (PlatformKind::Local, Services::Embedded) | (PlatformKind::Sim, _) => Ok(()),
        (PlatformKind::Local, Services::Real) => lacks(
            "`services: real` is not in this build",
            "use --services embedded: nothing needs to be installed for it",
        ),
        (PlatformKind::Aws, _) => lacks(
            "the platform `aws` is not in this build",
            "use --platform local or --platform sim",
        ),
    }
}

/// Refuses a directory that cannot be written to, before any work starts.
pub(super) fn probe(directory: &Path) -> Result<(), ResultsError> {
    let unwritable = |source| ResultsError::Unwritable {
        path: directory.to_path_buf(),
        source,
    };
    std::fs::create_dir_all(directory).map_err(unwritable)?;
    tempfile::tempfile_in(directory)
        .map(drop)
        .map_err(unwritable)
}

/// One experiment, until it ends or a signal comes. Dropping the work stops
/// every process that it started.
async fn one(args: &RunArgs, experiment: &Experiment, output: Output) -> Result<Exit, Error> {
    let stopped = stop_signal()?;
    let mut directory = None;
    tokio::select! {
        result = execute(args, experiment, output, &mut directory) => return result,
        () = stopped => {}
    }
    let Some(directory) = directory else {
        return Err(Error::Interrupted {
            kept: 0,
            directory: args.out.clone().unwrap_or_else(|| PathBuf::from("results")),
        });
    };
    let kept = directory.finished_trials()?.len();
    if kept > 0 {
        report::write(&directory, &analysis::summarise(&directory)?)?;
    }
    Err(Error::Interrupted {
        kept,
        directory: directory.path().to_path_buf(),
    })
}

/// Waits for SIGINT or SIGTERM.
pub(super) fn stop_signal() -> Result<impl Future<Output = ()>, Error> {
    let listen = |kind| {
        signal(kind).map_err(|source| Error::Io {
            doing: "listen for signals".to_owned(),
            source,
        })
    };
    let (mut interrupt, mut terminate) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
    );
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

async fn execute(
    args: &RunArgs,
    experiment: &Experiment,
    output: Output,
    place: &mut Option<RunDirectory>,
) -> Result<Exit, Error> {
    let prepared = Prepared::of(experiment, output).await?;
    let directory = place.insert(open_directory(args, experiment, &prepared)?);
    output.message(format_args!("results go to {}", directory.path().display()));
    trials(experiment, &prepared, directory, output).await?;
    let analysis = analysis::summarise(directory)?;
    report::write(directory, &analysis)?;
    for warning in &analysis.warnings {
        output.message(format_args!("warning: {warning}"));
    }
    output.text(report::terminal_table(&analysis));
    output.json(&analysis.summary);
    output.message(format_args!(
        "report: {}",
        directory.path().join("report.html").display()
    ));
    Ok(analysis.exit_status())
}

/// A platform with what it needs, and what results say of it.
struct Prepared {
    /// None where there is nothing to run.
    platform: Option<Box<dyn Platform>>,
    data: TrialData,
    datasets: Vec<DatasetRecord>,
    worker: Option<PathBuf>,
    limits: Vec<Limit>,
    /// Of each row, why it is impossible, if it is.
    infeasible: Vec<Option<String>>,
}

impl Prepared {
    async fn of(experiment: &Experiment, output: Output) -> Result<Self, Error> {
        let (data, datasets) = if experiment.needs_data() {
            let dataset = open_data(experiment, output).await?;
            let records = vec![dataset_record(experiment, &dataset)?];
            (TrialData::of(&dataset), records)
        } else {
            (TrialData::default(), Vec::new())
        };
        if experiment.rows.is_empty() {
            return Ok(Self {
                platform: None,
                data,
                datasets,
                worker: None,
                limits: Vec::new(),
                infeasible: Vec::new(),
            });
        }
        let Some(simulation) = &experiment.simulation else {
            let platform = Local::new().await?;
            return Ok(Self {
                worker: Some(platform.worker().path.clone()),
                limits: limits(&platform),
                infeasible: vec![None; experiment.rows.len()],
                platform: Some(Box::new(platform)),
                data,
                datasets,
            });
        };
        let real = match simulation.real_compute {
            true => Some(RealCompute {
                worker: Local::new().await?.worker().clone(),
                directory: experiment.data.directory.clone(),
            }),
            false => None,
        };
        let worker = real.as_ref().map(|real| real.worker.path.clone());
        let platform = Sim::new(simulation.clone(), real);
        let mut infeasible = Vec::with_capacity(experiment.rows.len());
        for plan in experiment.trial_plans().iter().take(experiment.rows.len()) {
            let limit = platform.infeasible(plan).await?;
            infeasible.push(limit.map(|limit| limit.to_string()));
        }
        Ok(Self {
            platform: Some(Box::new(platform)),
            data,
            datasets,
            worker,
            limits: Vec::new(),
            infeasible,
        })
    }
}

/// Generates or reads the data on a thread that may block.
async fn open_data(experiment: &Experiment, output: Output) -> Result<Dataset, Error> {
    output.detail(format_args!(
        "reading {}",
        experiment.data.directory.display()
    ));
    let (data, document) = (experiment.data.clone(), experiment.document.clone());
    let opened = tokio::task::spawn_blocking(move || data.open(&document)).await;
    let opened = opened.map_err(|error| Error::Io {
        doing: "read the dataset".to_owned(),
        source: std::io::Error::other(error),
    })?;
    Ok(opened?)
}

fn open_directory(
    args: &RunArgs,
    experiment: &Experiment,
    prepared: &Prepared,
) -> Result<RunDirectory, Error> {
    let planned = experiment.rows.iter().zip(&prepared.infeasible);
    let rows: Vec<PlannedRow> = planned
        .map(|(row, infeasible)| PlannedRow {
            row: row.clone(),
            trials: experiment.trials,
            infeasible: infeasible.clone(),
            compute: (experiment.simulation.as_ref())
                .and_then(|simulation| ComputeUsed::of(simulation, row)),
        })
        .collect();
    let simulation = (experiment.simulation.as_ref())
        .map(|simulation| SimulationRecord::of(simulation, &experiment.rows));
    let resumed = args.out.as_deref().filter(|_| args.resume);
    if let Some(out) = resumed.filter(|out| out.join("manifest.json").exists()) {
        return Ok(RunDirectory::resume(out, &rows, simulation.as_ref())?);
    }
    let run = NewRun {
        experiment: experiment.name.clone(),
        platform: experiment.platform.as_str().to_owned(),
        services: experiment.services.as_str().to_owned(),
        experiment_yaml: experiment.document.resolved(),
        rows,
        claims: experiment.claims.clone(),
        datasets: prepared.datasets.clone(),
        seeds: (0..experiment.trials)
            .map(|trial| experiment.trial_seed(trial))
            .collect(),
        command: std::env::args().collect(),
        worker: prepared.worker.clone(),
        limits: prepared.limits.clone(),
        simulation,
    };
    Ok(RunDirectory::create(args.out.as_deref(), run)?)
}

/// Files by name and hash. Those of a generated set were just held against the
/// hashes in its manifest.
fn dataset_record(experiment: &Experiment, dataset: &Dataset) -> Result<DatasetRecord, Error> {
    let directory = &experiment.data.directory;
    let failed = |source| Error::Io {
        doing: format!("hash {}", directory.display()),
        source,
    };
    let mut files = Vec::new();
    match dataset.info.origin {
        Origin::Published {
            files: published, ..
        } => {
            for file in published {
                files.push(FileHash::of(&directory.join(file.name)).map_err(failed)?);
            }
        }
        Origin::Generated { .. } => {
            let text = std::fs::read(directory.join(MANIFEST_FILE)).map_err(failed)?;
            let manifest: DatasetManifest =
                serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
            let hash = |file: ManifestFile| FileHash {
                name: file.name,
                sha256: file.sha256,
            };
            files.extend(manifest.files.into_iter().map(hash));
        }
    }
    Ok(DatasetRecord {
        name: dataset.info.name.to_owned(),
        generated: dataset.generated.is_some(),
        files,
    })
}

/// How the machine holds functions to their size.
fn limits(platform: &Local) -> Vec<Limit> {
    let limit = |what: &str, enforced| {
        let (enforced, how) = match enforced {
            Enforced::Yes { how } => (true, how),
            Enforced::No { why } => (false, why),
        };
        Limit {
            what: what.to_owned(),
            enforced,
            how,
        }
    };
    let Enforcement { cpu, memory } = platform.enforcement();
    vec![limit("cpu", cpu), limit("memory", memory)]
}

/// Runs every trial that has not ended yet; each is on the disk when it has.
async fn trials(
    experiment: &Experiment,
    prepared: &Prepared,
    directory: &RunDirectory,
    output: Output,
) -> Result<(), Error> {
    let Some(platform) = &prepared.platform else {
        return Ok(());
    };
    let finished = directory.finished_trials()?;
    let impossible = experiment.rows.iter().zip(&prepared.infeasible);
    let impossible: Vec<&str> = impossible
        .filter_map(|(row, why)| why.as_ref().map(|_| row.id.as_str()))
        .collect();
    let mut plans = experiment.trial_plans();
    plans.retain(|plan| !impossible.contains(&plan.row.id.as_str()));
    let following = Following::new(plans.len(), output);
    for (index, plan) in plans.iter().enumerate() {
        if finished.contains(&TrialId::of(plan)) {
            following.skipped(index, plan);
            continue;
        }
        let progress: Arc<TrialProgress> = following.trial(index, plan);
        let data = &prepared.data;
        let outcome = platform.run_trial(plan, data, progress.as_ref()).await?;
        directory.append_trial(plan, &outcome)?;
        following.ended(index, plan, &outcome);
    }
    following.finish();
    Ok(())
}
