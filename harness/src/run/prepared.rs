//! A platform made ready for an experiment, and what results say of it.

use std::path::PathBuf;

use epochcost_datasets::{
    Dataset, MANIFEST_FILE, Manifest as DatasetManifest, ManifestFile, Origin,
};

use super::aws::{self, Agreed, Terms};
use crate::error::Error;
use crate::experiment::{Experiment, PlatformKind, Services};
use crate::platform::local::{Enforced, Enforcement, Local};
use crate::platform::sim::{RealCompute, Sim};
use crate::platform::{Platform, TrialData};
use crate::results::{DatasetRecord, FileHash, Limit, Server};
use crate::ui::Output;

/// A platform with what it needs, and what results say of it.
pub(super) struct Prepared {
    /// None where there is nothing to run, and on AWS before it is begun.
    pub(super) platform: Option<Box<dyn Platform>>,
    /// Consent to a run on AWS, of which nothing exists yet.
    pub(super) agreed: Option<Agreed>,
    pub(super) data: TrialData,
    pub(super) datasets: Vec<DatasetRecord>,
    pub(super) worker: Option<PathBuf>,
    pub(super) limits: Vec<Limit>,
    pub(super) servers: Vec<Server>,
    /// Of each row, why it is impossible, if it is.
    pub(super) infeasible: Vec<Option<String>>,
}

impl Prepared {
    pub(super) async fn of(
        experiment: &Experiment,
        terms: Terms,
        output: Output,
    ) -> Result<Self, Error> {
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
