//! Runs on AWS: consent, the platform, and the removal of what a run made. All of
//! it needs the feature `aws`; without it, each says how to get a build that has
//! it.

#[cfg(feature = "aws")]
mod run;

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::experiment::Experiment;
use crate::platform::Platform;
use crate::ui::Output;

/// What a run on AWS may spend, and who agreed to it.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(feature = "aws"), allow(dead_code, reason = "read with AWS only"))]
pub struct Terms {
    /// `--yes`.
    pub yes: bool,
    /// `--max-usd`.
    pub max_usd: Option<f64>,
}

#[cfg(feature = "aws")]
pub(super) use crate::platform::aws::Agreed;

/// A run that somebody agreed to: there is none in this build.
#[cfg(not(feature = "aws"))]
#[derive(Debug)]
pub(super) enum Agreed {}

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
    Err(Error::no_aws())
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
    Err(Error::no_aws())
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
