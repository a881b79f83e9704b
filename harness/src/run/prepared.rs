//! A platform opened and prepared for an experiment, and its description for results.

use epochcost_datasets::{
    Dataset, MANIFEST_FILE, Manifest as DatasetManifest, ManifestFile, Origin,
};

use epochcost_experiment::{Experiment, Services};
use epochcost_planner::error::Error;
use epochcost_planner::forecast;
use epochcost_platform::{
    self as platform, Estimates, Platform, PlatformOptions, SpendingConsent, TrialData,
};
use epochcost_record::{DatasetRecord, FileHash};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::format::usd;
use epochcost_spec::ui::Output;
use serde::Serialize;

/// Data of a run, and the prepared platform's description for results.
pub(super) struct Prepared {
    pub(super) data: TrialData,
    pub(super) datasets: Vec<DatasetRecord>,
    pub(super) platform: platform::Prepared,
}

/// A platform that was opened for an experiment.
pub(super) struct Opened {
    pub(super) platform: Box<dyn Platform>,
    /// Resources that rows will use; none where trials cost nothing.
    estimates: Option<Estimates>,
}

/// Opens the platform that an experiment names. Does no work on it yet.
///
/// # Errors
/// When this build does not have it, or a row cannot be estimated.
pub(super) fn open(experiment: &Experiment, prices: Option<&PriceBook>) -> Result<Opened, Error> {
    let kind = experiment.platform;
    let cloud = kind.cloud()?;
    let estimates = cloud.map(|_| estimates(experiment, prices)).transpose()?;
    let platform = kind.open(PlatformOptions {
        file: experiment.document.file.clone(),
        has_real_services: experiment.services == Services::Real,
        simulation: experiment.simulation.clone(),
        dataset_directory: experiment.data.directory.clone(),
        estimates: estimates.clone(),
    })?;
    Ok(Opened {
        platform,
        estimates,
    })
}

/// Forecast of a run that costs money: trials of each row, at the stated values.
#[derive(Serialize)]
pub(super) struct Forecast<'a> {
    region: &'a str,
    /// Day of the prices.
    prices: String,
    rows: Vec<ForecastRow<'a>>,
}

#[derive(Serialize)]
struct ForecastRow<'a> {
    id: &'a str,
    seconds: f64,
    /// US dollars by the cost model `full`.
    usd: f64,
}

impl Opened {
    /// Returns what a trial of each row is expected to take; none where trials cost nothing.
    pub(super) fn forecast(&self) -> Option<Forecast<'_>> {
        let Estimates { rows, prices } = self.estimates.as_ref()?;
        let rows = rows.iter().map(|used| ForecastRow {
            id: &used.row.id,
            seconds: used.seconds,
            usd: used.usd,
        });
        Some(Forecast {
            region: prices.region(),
            prices: prices.date().to_string(),
            rows: rows.collect(),
        })
    }
}

/// Simulates the rows to estimate what they will use; prints nothing.
fn estimates(experiment: &Experiment, prices: Option<&PriceBook>) -> Result<Estimates, Error> {
    let quiet = Output {
        json: false,
        verbosity: -1,
        wide: false,
    };
    let prices = prices.map_or_else(PriceBook::shipped, |prices| Ok(prices.clone()))?;
    let rows = forecast::usage(experiment, &prices, quiet)?;
    Ok(Estimates { rows, prices })
}

/// Prints the worst-case cost of the rows, where trials cost money.
///
/// # Errors
/// When something has no price.
fn announce(experiment: &Experiment, estimates: &Estimates, output: Output) -> Result<(), Error> {
    let kind = experiment.platform;
    let Some(cloud) = kind.cloud()? else {
        return Ok(());
    };
    let Estimates { rows, prices } = estimates;
    let worst = cloud
        .worst_case(rows, prices)
        .map_err(|none| Error::Lacks {
            what: format!("{}: {none}", experiment.document.file.display()),
            remedy: "the price book lacks it; `epochcost aws prices refresh` writes another"
                .to_owned(),
        })?;
    if let Some(stale) = prices.stale(jiff::Zoned::now().date()) {
        output.message(format_args!("warning: {stale}"));
    }
    let (place, count, most, date) = (kind.title(), rows.len(), usd(worst.usd()), prices.date());
    output.message(format_args!(
        "on {place}, {count} rows cost at most {most} at prices of {date} before tax; `epochcost plan \
         --platform {}` lists it",
        kind.as_str()
    ));
    Ok(())
}

impl Prepared {
    /// Reads or generates the data, and prepares the platform.
    ///
    /// # Errors
    /// When the data or something that the platform needs is lacking, or
    /// without consent.
    pub(super) async fn of(
        experiment: &Experiment,
        opened: &mut Opened,
        consent: SpendingConsent,
        output: Output,
    ) -> Result<Self, Error> {
        let (mut data, mut datasets) = (TrialData::default(), Vec::new());
        if experiment.needs_data() {
            let dataset = open_data(experiment, output).await?;
            datasets.push(dataset_record(experiment, &dataset)?);
            data = TrialData::of(&dataset);
        }
        let platform = if experiment.rows.is_empty() {
            platform::Prepared::default()
        } else {
            let mut first = experiment.trial_plans();
            first.truncate(experiment.rows.len());
            if let Some(estimates) = &opened.estimates {
                announce(experiment, estimates, output)?;
            }
            opened.platform.prepare(&first, &consent, output).await?
        };
        Ok(Self {
            data,
            datasets,
            platform,
        })
    }
}

/// Generates or reads the data on a thread that may block.
async fn open_data(experiment: &Experiment, output: Output) -> Result<Dataset, Error> {
    let directory = experiment.data.directory.display();
    output.detail(format_args!("reading {directory}"));
    let (data, document) = (experiment.data.clone(), experiment.document.clone());
    let opened = tokio::task::spawn_blocking(move || data.open(&document)).await;
    let opened = opened.map_err(std::io::Error::other);
    Ok(opened.map_err(Error::io("read the dataset"))??)
}

/// Returns names and hashes of the data files. Those of a generated set were just
/// compared with the hashes in its manifest.
fn dataset_record(experiment: &Experiment, dataset: &Dataset) -> Result<DatasetRecord, Error> {
    let directory = &experiment.data.directory;
    let failed = Error::io(format!("hash {}", directory.display()));
    let mut files = Vec::new();
    match dataset.info.origin {
        Origin::Published {
            files: published, ..
        } => {
            for file in published {
                files.push(FileHash::of(&directory.join(file.name)).map_err(&failed)?);
            }
        }
        Origin::Generated { .. } => {
            let text = std::fs::read(directory.join(MANIFEST_FILE)).map_err(&failed)?;
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
