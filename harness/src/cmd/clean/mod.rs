//! `clean`: finds what runs left on AWS, and removes it. It needs the feature
//! `aws`.

#[cfg(feature = "aws")]
mod aws;

use crate::error::Error;
use crate::exit::Exit;
use crate::ui::Output;

/// `clean`.
#[derive(Debug, clap::Args)]
pub struct Args {
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

/// Finds and removes what runs left.
///
/// # Errors
/// When a service could not be asked, or nobody agreed.
#[cfg(feature = "aws")]
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    aws::run(args, output).await
}

/// Finds and removes what runs left.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
pub async fn run(_: &Args, _: Output) -> Result<Exit, Error> {
    Err(Error::no_aws())
}
