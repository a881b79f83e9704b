//! `run`: from experiments to run directories and reports.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
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
use crate::platform::{Platform, TrialData};
use crate::report;
use crate::results::{
    DatasetRecord, FileHash, Limit, NewRun, PlannedRow, ResultsError, RunDirectory, TrialId,
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
        experiment.data.inspect(&experiment.document)?;
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
        (PlatformKind::Local, Services::Embedded) => Ok(()),
        (PlatformKind::Local, Services::Real) => lacks(
            "`services: real` is not in this build",
            "use --services embedded: nothing needs to be installed for it",
        ),
        (platform, _) => lacks(
            &format!("the platform `{}` is not in this build", platform.as_str()),
            "use --platform local",
        ),
    }
}

/// Refuses a directory that cannot be written to, before any work starts.
fn probe(directory: &Path) -> Result<(), ResultsError> {
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
fn stop_signal() -> Result<impl Future<Output = ()>, Error> {
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
    let dataset = open_data(experiment, output).await?;
    let platform = Local::new().await?;
    let directory = place.insert(open_directory(args, experiment, &platform, &dataset)?);
    output.message(format_args!("results go to {}", directory.path().display()));
    let data = TrialData {
        train: Bytes::copy_from_slice(dataset.train.records()),
        test: Bytes::copy_from_slice(dataset.test.records()),
        record_bytes: dataset.info.format.record_bytes(),
    };
    drop(dataset);
    trials(experiment, &platform, &data, directory, output).await?;
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
    platform: &Local,
    dataset: &Dataset,
) -> Result<RunDirectory, Error> {
    let rows: Vec<PlannedRow> = experiment
        .rows
        .iter()
        .map(|row| PlannedRow {
            row: row.clone(),
            trials: experiment.trials,
            infeasible: None,
        })
        .collect();
    let resumed = args.out.as_deref().filter(|_| args.resume);
    if let Some(out) = resumed.filter(|out| out.join("manifest.json").exists()) {
        return Ok(RunDirectory::resume(out, &rows)?);
    }
    let run = NewRun {
        experiment: experiment.name.clone(),
        platform: experiment.platform.as_str().to_owned(),
        services: experiment.services.as_str().to_owned(),
        experiment_yaml: experiment.document.resolved(),
        rows,
        claims: experiment.claims.clone(),
        datasets: vec![dataset_record(experiment, dataset)?],
        seeds: (0..experiment.trials)
            .map(|trial| experiment.trial_seed(trial))
            .collect(),
        command: std::env::args().collect(),
        worker: Some(platform.worker().path.clone()),
        limits: limits(platform),
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
    platform: &dyn Platform,
    data: &TrialData,
    directory: &RunDirectory,
    output: Output,
) -> Result<(), Error> {
    let finished = directory.finished_trials()?;
    let plans = experiment.trial_plans();
    let following = Following::new(plans.len(), output);
    for (index, plan) in plans.iter().enumerate() {
        if finished.contains(&TrialId::of(plan)) {
            following.skipped(index, plan);
            continue;
        }
        let progress: Arc<TrialProgress> = following.trial(index, plan);
        let outcome = platform.run_trial(plan, data, progress.as_ref()).await?;
        directory.append_trial(plan, &outcome)?;
        following.ended(index, plan, &outcome);
    }
    following.finish();
    Ok(())
}
