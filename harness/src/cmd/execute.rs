//! One experiment from its plan to its report: what `run` and `reproduce` share.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use epochcost_datasets::{
    Dataset, MANIFEST_FILE, Manifest as DatasetManifest, ManifestFile, Origin,
};
use tokio::signal::unix::{SignalKind, signal};

use super::Output;
use super::aws::{self, Agreed, Terms};
use super::progress::{Following, TrialProgress};
use crate::analysis::{self, Analysis};
use crate::error::Error;
use crate::experiment::{Experiment, PlatformKind, Services};
use crate::platform::local::{Enforced, Enforcement, Local, check};
use crate::platform::sim::{RealCompute, Sim};
use crate::platform::{Platform, TrialData};
use crate::report;
use crate::results::{
    ComputeUsed, DatasetRecord, FileHash, Limit, NewRun, PlannedRow, RunDirectory, Server,
    SimulationRecord, TrialId,
};

/// Where a run goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Destination<'a> {
    /// Into a new directory under `results/`.
    New,
    /// Into this directory, which is empty or absent.
    At(&'a Path),
    /// Into this directory, after the trials that it holds.
    After(&'a Path),
}

impl Destination<'_> {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::New => None,
            Self::At(path) | Self::After(path) => Some(path),
        }
    }
}

/// How a run ended.
pub(super) enum Ended {
    /// With all its trials; the reports are written.
    Whole(Box<RunDirectory>, Box<Analysis>),
    /// By a signal. There is a directory if it came to that.
    Stopped(Option<RunDirectory>),
    /// By an error. Trials that had ended are kept.
    Failed(Option<RunDirectory>, Error),
}

/// A signal that ends the work, if it comes.
pub(super) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs an experiment until it ends or a signal comes. Dropping the work stops
/// every process that it started; what it made on AWS is removed however it ended.
pub(super) async fn execute(
    experiment: &Experiment,
    destination: Destination<'_>,
    terms: Terms,
    output: Output,
    stop: &mut Stop,
) -> Ended {
    let mut directory = None;
    let ended = tokio::select! {
        result = work(experiment, destination, terms, output, &mut directory) => match result {
            Ok((directory, analysis)) => Ended::Whole(Box::new(directory), Box::new(analysis)),
            Err(error) => Ended::Failed(directory.clone(), error),
        },
        () = stop => Ended::Stopped(directory.clone()),
    };
    let Some(directory) = directory.filter(|_| experiment.platform == PlatformKind::Aws) else {
        return ended;
    };
    match (aws::put_away(directory.path(), output).await, ended) {
        (Ok(()), ended) => ended,
        // Why it failed comes first; what is left was said.
        (Err(_), Ended::Failed(directory, error)) => Ended::Failed(directory, error),
        (Err(error), _) => Ended::Failed(Some(directory), error),
    }
}

async fn work(
    experiment: &Experiment,
    destination: Destination<'_>,
    terms: Terms,
    output: Output,
    place: &mut Option<RunDirectory>,
) -> Result<(RunDirectory, Analysis), Error> {
    let mut prepared = Prepared::of(experiment, terms, output).await?;
    let directory = place.insert(open_directory(destination, experiment, &prepared)?);
    output.message(format_args!("results go to {}", directory.path().display()));
    if let Some(agreed) = prepared.agreed.take() {
        // What a run that was cut off left goes first.
        aws::put_away(directory.path(), output).await?;
        prepared.platform = Some(aws::begin(agreed, directory.path()).await?);
    }
    trials(experiment, &prepared, directory, output).await?;
    let analysis = analysis::summarise(directory)?;
    report::write(directory, &analysis)?;
    Ok((directory.clone(), analysis))
}

/// Refuses what no platform of this build can run.
pub(super) fn runnable(experiment: &Experiment) -> Result<(), Error> {
    match (experiment.platform, experiment.services) {
        (PlatformKind::Local, Services::Embedded) | (PlatformKind::Sim, _) => Ok(()),
        (PlatformKind::Local, Services::Real) => Ok(check(&experiment.rows)?),
        (PlatformKind::Aws, _) => aws::runnable(experiment),
    }
}

/// Waits for SIGINT or SIGTERM, from now on.
pub(super) fn stop_signal() -> Result<Stop, Error> {
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
    Ok(Box::pin(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }))
}

/// A platform with what it needs, and what results say of it.
struct Prepared {
    /// None where there is nothing to run, and on AWS before it is begun.
    platform: Option<Box<dyn Platform>>,
    /// Consent to a run on AWS, of which nothing exists yet.
    agreed: Option<Agreed>,
    data: TrialData,
    datasets: Vec<DatasetRecord>,
    worker: Option<PathBuf>,
    limits: Vec<Limit>,
    servers: Vec<Server>,
    /// Of each row, why it is impossible, if it is.
    infeasible: Vec<Option<String>>,
}

impl Prepared {
    async fn of(experiment: &Experiment, terms: Terms, output: Output) -> Result<Self, Error> {
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
                agreed: None,
                data,
                datasets,
                worker: None,
                limits: Vec::new(),
                servers: Vec::new(),
                infeasible: Vec::new(),
            });
        }
        if experiment.platform == PlatformKind::Aws {
            let worker = Local::new().await?.worker().path.clone();
            let agreed = aws::agree(experiment, worker.clone(), terms, output).await?;
            return Ok(Self {
                platform: None,
                agreed: Some(agreed),
                data,
                datasets,
                worker: Some(worker),
                limits: Vec::new(),
                servers: Vec::new(),
                infeasible: vec![None; experiment.rows.len()],
            });
        }
        let Some(simulation) = &experiment.simulation else {
            let platform = local(experiment, output).await?;
            return Ok(Self {
                worker: Some(platform.worker().path.clone()),
                limits: limits(&platform),
                servers: servers(&platform).await,
                infeasible: vec![None; experiment.rows.len()],
                platform: Some(Box::new(platform)),
                agreed: None,
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
            agreed: None,
            data,
            datasets,
            worker,
            limits: Vec::new(),
            servers: Vec::new(),
            infeasible,
        })
    }
}

/// This machine, with the services that the experiment asks for.
async fn local(experiment: &Experiment, output: Output) -> Result<Local, Error> {
    let platform = Local::new().await?;
    for row in &experiment.rows {
        platform.check_device(row)?;
    }
    if experiment.services == Services::Embedded {
        return Ok(platform);
    }
    output.message("starting Redis, RabbitMQ and the S3 server");
    Ok(platform.with_servers(&experiment.rows).await?)
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
    destination: Destination<'_>,
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
    let simulation = simulation_record(experiment);
    if let Destination::After(path) = destination
        && path.join("manifest.json").exists()
    {
        return Ok(RunDirectory::resume(path, &rows, simulation.as_ref())?);
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
        servers: prepared.servers.clone(),
        simulation,
    };
    Ok(RunDirectory::create(destination.path(), run)?)
}

/// What a simulation of the experiment stands on.
pub(super) fn simulation_record(experiment: &Experiment) -> Option<SimulationRecord> {
    let simulation = experiment.simulation.as_ref()?;
    Some(SimulationRecord::of(simulation, &experiment.rows))
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
    let Enforcement {
        cpu,
        memory,
        storage,
    } = platform.enforcement();
    vec![
        limit("cpu", cpu),
        limit("memory", memory),
        limit("storage", storage),
    ]
}

/// The real servers that trials run on.
async fn servers(platform: &Local) -> Vec<Server> {
    let used = platform.servers().await.into_iter();
    used.map(|server| Server {
        name: server.name,
        version: server.version,
        settings: server.settings,
    })
    .collect()
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
