//! `data`: make, check and fetch datasets.

use std::path::PathBuf;

use clap::Subcommand;
use epochcost_datasets::{self as datasets, Generate, Origin, Outcome};
use serde::Serialize;

use crate::error::Error;
use crate::exit::Exit;
use crate::experiment::data::default_directory;
use crate::ui::Output;

/// `data`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Generate a set of labelled images in CIFAR-10's or MNIST's own format.
    Make {
        /// The dataset, `synthetic-cifar10` or `synthetic-mnist`.
        name: String,
        /// Training samples.
        #[arg(long)]
        train: Option<usize>,
        /// Test samples.
        #[arg(long)]
        test: Option<usize>,
        /// Everything else follows from it.
        #[arg(long)]
        seed: Option<u64>,
        /// Directory to write to; by default where experiments expect it, under `data/`.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Check every file of a dataset: size, form and checksum.
    Check {
        /// The dataset.
        name: String,
        /// Directory to read; by default where experiments expect it, under `data/`.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Print where a published dataset is available.
    Fetch {
        /// The dataset, `cifar10` or `mnist`.
        name: String,
    },
}

/// What is known of a dataset on disk.
#[derive(Serialize)]
struct Found {
    name: &'static str,
    directory: PathBuf,
    train: usize,
    test: usize,
    sha256: String,
    generated: Option<Generate>,
}

/// Makes, checks or fetches a dataset.
///
/// # Errors
/// Names the dataset or file that is wrong.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    match &args.action {
        Action::Make {
            name,
            train,
            test,
            seed,
            dir,
        } => {
            let info = datasets::find(name)?;
            let default = match info.origin {
                Origin::Generated { default } => default,
                Origin::Published { .. } => {
                    return Err(datasets::DatasetError::NotGenerated { name: info.name }.into());
                }
            };
            let spec = Generate {
                train: train.unwrap_or(default.train),
                test: test.unwrap_or(default.test),
                seed: seed.unwrap_or(default.seed),
            };
            let dir = dir
                .clone()
                .unwrap_or_else(|| default_directory(info.name, Some(spec)));
            let outcome = datasets::ensure(name, &dir, spec)?;
            output.message(match outcome {
                Outcome::Generated => "generated",
                Outcome::Reused => "already there, and intact",
            });
            show(name, dir, output)
        }
        Action::Check { name, dir } => {
            let info = datasets::find(name)?;
            let spec = match info.origin {
                Origin::Generated { default } => Some(default),
                Origin::Published { .. } => None,
            };
            let dir = dir
                .clone()
                .unwrap_or_else(|| default_directory(info.name, spec));
            show(name, dir, output)
        }
        Action::Fetch { name } => fetch(name),
    }
}

fn show(name: &str, directory: PathBuf, output: Output) -> Result<Exit, Error> {
    let dataset = datasets::open(name, &directory)?;
    let found = Found {
        name: dataset.info.name,
        train: dataset.train.samples(),
        test: dataset.test.samples(),
        sha256: dataset.sha256,
        generated: dataset.generated,
        directory,
    };
    output.text(format_args!(
        "{} in {}: {} training and {} test samples, sha256 {}",
        found.name,
        found.directory.display(),
        found.train,
        found.test,
        found.sha256
    ));
    output.json(&found);
    Ok(Exit::Done)
}

/// Reports what to download and where to put it: this build has no HTTP client.
fn fetch(name: &str) -> Result<Exit, Error> {
    let info = datasets::find(name)?;
    match info.origin {
        Origin::Published { url, files, .. } => {
            let names: Vec<&str> = files.iter().map(|file| file.name).collect();
            Err(Error::Lacks {
                what: format!("this build downloads nothing by itself; {name} is at {url}"),
                remedy: format!(
                    "put {}, unpacked, into {}, then run `epochcost data check {name}`",
                    names.join(", "),
                    default_directory(info.name, None).display()
                ),
            })
        }
        Origin::Generated { .. } => Err(Error::Usage {
            problem: format!("{name} is generated, not downloaded"),
            remedy: format!("run `epochcost data make {name}`"),
        }),
    }
}
