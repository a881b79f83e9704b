//! What verbs do on AWS. All of it needs the feature `aws`; without it, each
//! says how to get a build that has it.

#[cfg(feature = "aws")]
mod book;
#[cfg(feature = "aws")]
mod clean;
#[cfg(feature = "aws")]
mod doctor;
#[cfg(feature = "aws")]
mod plan;
#[cfg(feature = "aws")]
mod refresh;
#[cfg(feature = "aws")]
mod run;

use std::path::{Path, PathBuf};

use super::Output;
use super::doctor::Finding;
use crate::cost::PriceBook;
use crate::error::{Error, Exit};
use crate::experiment::Experiment;
use crate::platform::Platform;

/// `clean`.
#[derive(Debug, clap::Args)]
pub struct CleanArgs {
    /// Show what is there and what it costs a month, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Look in this region only; may be repeated. By default in all that the
    /// account has enabled.
    #[arg(long, value_name = "REGION")]
    pub region: Vec<String>,
    /// What belongs to this run only: the twelve digits in its names.
    #[arg(long, value_name = "ID", conflicts_with = "expired")]
    pub run: Option<String>,
    /// What has expired only.
    #[arg(long)]
    pub expired: bool,
    /// Remove without asking.
    #[arg(long)]
    pub yes: bool,
}

/// `prices refresh`.
#[derive(Debug, clap::Args)]
pub struct RefreshArgs {
    /// The region that is priced.
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    pub region: String,
    /// Where the price book goes; a file that is there is not overwritten.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// What a run on AWS may spend, and who agreed to it.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "aws"), allow(dead_code, reason = "read with AWS only"))]
pub(super) struct Terms {
    /// `--yes`.
    pub(super) yes: bool,
    /// `--max-usd`.
    pub(super) max_usd: Option<f64>,
}

#[cfg(feature = "aws")]
pub(super) use crate::platform::aws::Agreed;

/// A run that somebody agreed to: there is none in this build.
#[cfg(not(feature = "aws"))]
#[derive(Debug)]
pub(super) enum Agreed {}

/// A row of a plan, as AWS needs it.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "aws"), allow(dead_code, reason = "read with AWS only"))]
pub(super) struct ToDeploy {
    /// The row.
    pub(super) row: crate::plan::Row,
    /// Repetitions.
    pub(super) trials: usize,
    /// Whether anything went over a tensor store.
    pub(super) uses_tensor_store: bool,
    /// Whether anything went over a queue.
    pub(super) uses_queue: bool,
    /// Objects written.
    pub(super) puts: u64,
    /// Bytes of them.
    pub(super) bytes_up: u64,
}

/// What a plan says of AWS.
#[derive(Debug)]
#[cfg_attr(not(feature = "aws"), allow(dead_code, reason = "made with AWS only"))]
pub(super) struct OnAws {
    /// For people.
    pub(super) text: String,
    /// For machines.
    pub(super) json: serde_json::Value,
}

/// That this build has no AWS, and how to get one that has.
#[cfg(not(feature = "aws"))]
fn lacking() -> Error {
    Error::Lacks {
        what: "this build has no AWS clients".to_owned(),
        remedy: "build it with them, which takes minutes and 8 GB of memory: \
                 cargo run --release --features aws -- …"
            .to_owned(),
    }
}

/// Finds and removes what runs left.
///
/// # Errors
/// When a service could not be asked, or nobody agreed.
#[cfg(feature = "aws")]
pub async fn clean(args: &CleanArgs, output: Output) -> Result<Exit, Error> {
    clean::run(args, output).await
}

/// Finds and removes what runs left.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub async fn clean(_: &CleanArgs, _: Output) -> Result<Exit, Error> {
    Err(lacking())
}

/// Writes a price book from the Pricing API.
///
/// # Errors
/// When a price could not be had or read.
#[cfg(feature = "aws")]
pub async fn refresh(args: &RefreshArgs, output: Output) -> Result<Exit, Error> {
    refresh::run(args, output).await
}

/// Writes a price book from the Pricing API.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub async fn refresh(_: &RefreshArgs, _: Output) -> Result<Exit, Error> {
    Err(lacking())
}

/// What the account allows.
///
/// # Errors
/// When no region is configured.
#[cfg(feature = "aws")]
pub(super) async fn look() -> Result<Vec<Finding>, Error> {
    doctor::look().await
}

/// What the account allows.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub(super) async fn look() -> Result<Vec<Finding>, Error> {
    Err(lacking())
}

/// Resources and the worst case of rows.
///
/// # Errors
/// When something has no price.
#[cfg(feature = "aws")]
pub(super) fn plan(rows: &[ToDeploy], prices: &PriceBook) -> Result<OnAws, Error> {
    plan::plan(rows, prices)
}

/// Resources and the worst case of rows.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub(super) fn plan(_: &[ToDeploy], _: &PriceBook) -> Result<OnAws, Error> {
    Err(lacking())
}

/// Refuses what this version cannot run on AWS, before anything happens.
///
/// # Errors
/// Names the row and what it needs.
#[cfg(feature = "aws")]
pub(super) fn runnable(experiment: &Experiment) -> Result<(), Error> {
    run::runnable(experiment)
}

/// Refuses to run on AWS.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub(super) fn runnable(_: &Experiment) -> Result<(), Error> {
    Err(lacking())
}

/// Asks for consent to an experiment's worst case.
///
/// # Errors
/// Over the limit, without consent, or without usable credentials.
#[cfg(feature = "aws")]
pub(super) async fn agree(
    experiment: &Experiment,
    worker: PathBuf,
    terms: Terms,
    output: Output,
) -> Result<Agreed, Error> {
    run::agree(experiment, worker, terms, output).await
}

/// Asks for consent.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub(super) async fn agree(
    _: &Experiment,
    _: PathBuf,
    _: Terms,
    _: Output,
) -> Result<Agreed, Error> {
    Err(lacking())
}

/// Makes what the run's trials share, with a journal in `directory`.
///
/// # Errors
/// When something could not be made; what was is in the journal.
#[cfg(feature = "aws")]
pub(super) async fn begin(agreed: Agreed, directory: &Path) -> Result<Box<dyn Platform>, Error> {
    Ok(Box::new(agreed.begin(directory).await?))
}

/// Makes nothing: nobody can have agreed.
///
/// # Errors
/// None, in this build.
#[cfg(not(feature = "aws"))]
pub(super) async fn begin(agreed: Agreed, _: &Path) -> Result<Box<dyn Platform>, Error> {
    match agreed {}
}

/// Removes everything that the run in `directory` made, and says what is left.
///
/// # Errors
/// When something is left, or it cannot be told whether anything is.
#[cfg(feature = "aws")]
pub(super) async fn put_away(directory: &Path, output: Output) -> Result<(), Error> {
    run::put_away(directory, output).await
}

/// Removes nothing: this build makes nothing.
///
/// # Errors
/// None, in this build.
#[cfg(not(feature = "aws"))]
pub(super) async fn put_away(_: &Path, _: Output) -> Result<(), Error> {
    Ok(())
}
