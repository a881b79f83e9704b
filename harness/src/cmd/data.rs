//! `data`: make, check and fetch datasets.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use epochcost_datasets::{
    self as datasets, DatasetError, DatasetInfo, Generate, Origin, Outcome, PublishedFile,
};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::download::{self, DownloadError, Event, Patience, Request};
use crate::error::Error;
use crate::exit::Exit;
use crate::experiment::data::default_directory;
use crate::suggest::did_you_mean;
use crate::ui::{Output, bar};

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
    /// Download a published dataset, and check every file.
    ///
    /// Goes on where it was cut off, asks one mirror after another, and goes through the proxy
    /// that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names.
    Fetch {
        /// The dataset, `cifar10` or `mnist`.
        name: String,
        /// Address of a directory that holds the download, in place of the known mirrors. More
        /// than once: they are asked in this order.
        #[arg(long, value_name = "URL")]
        from: Vec<String>,
        /// Directory to write to; by default where experiments expect it, under `data/`.
        #[arg(long)]
        dir: Option<PathBuf>,
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
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    match &args.action {
        Action::Make {
            name,
            train,
            test,
            seed,
            dir,
        } => {
            let info = find(name)?;
            let default = match info.origin {
                Origin::Generated { default } => default,
                Origin::Published { .. } => {
                    return Err(DatasetError::NotGenerated { name: info.name }.into());
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
            let info = find(name)?;
            let spec = match info.origin {
                Origin::Generated { default } => Some(default),
                Origin::Published { .. } => None,
            };
            let dir = dir
                .clone()
                .unwrap_or_else(|| default_directory(info.name, spec));
            show(name, dir, output)
        }
        Action::Fetch { name, from, dir } => fetch(name, from, dir.as_deref(), output).await,
    }
}

/// Returns the dataset of a name.
///
/// # Errors
/// [`Error::Usage`] with the nearest name.
fn find(name: &str) -> Result<&'static DatasetInfo, Error> {
    datasets::find(name).map_err(|_| {
        let known: Vec<&str> = datasets::DATASETS.iter().map(|info| info.name).collect();
        Error::Usage {
            problem: format!("there is no dataset `{name}`"),
            remedy: did_you_mean(name, &known),
        }
    })
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

/// Downloads what is not there, and shows the set.
async fn fetch(
    name: &str,
    from: &[String],
    directory: Option<&Path>,
    output: Output,
) -> Result<Exit, Error> {
    let info = find(name)?;
    let Origin::Published {
        url,
        mirrors,
        downloads,
        files,
        ..
    } = info.origin
    else {
        return Err(Error::Usage {
            problem: format!("{name} is generated, not downloaded"),
            remedy: format!("run `epochcost data make {name}`"),
        });
    };
    if let Some(other) = from.iter().find(|address| !is_address(address)) {
        return Err(Error::Usage {
            problem: format!("--from {other:?} is no address of a server"),
            remedy: "begin it with https:// or http://".to_owned(),
        });
    }
    let own: Vec<String> = mirrors.iter().map(|&mirror| mirror.to_owned()).collect();
    let directory = directory.map_or_else(|| default_directory(info.name, None), Path::to_owned);
    let request = Request {
        downloads,
        files,
        mirrors: if from.is_empty() { own } else { from.to_vec() },
        directory: directory.clone(),
        patience: Patience::default(),
    };
    let template = "{spinner} [{bytes} of {total_bytes}, {eta} left] {msg}";
    let bar = bar(output, Some(0), template);
    let fetched = download::fetch(&request, &|event| show_event(&event, &bar, output)).await;
    bar.finish_and_clear();
    fetched.map_err(|error| match error {
        DownloadError::Write { path, source } => DatasetError::Write { path, source }.into(),
        error @ DownloadError::NoMirror { .. } => Error::Lacks {
            what: error.to_string(),
            remedy: by_hand(name, url, files, &directory),
        },
    })?;
    show(name, directory, output)
}

fn is_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// Returns what to do on a machine that reaches no mirror.
fn by_hand(name: &str, url: &str, files: &[PublishedFile], directory: &Path) -> String {
    let names: Vec<&str> = files.iter().map(|file| file.name).collect();
    format!(
        "set HTTPS_PROXY if there is a proxy, or name a mirror with --from URL; offline, fetch {url} \
         elsewhere, put {}, unpacked, into {}, and run `epochcost data check {name}`",
        names.join(", "),
        directory.display()
    )
}

fn show_event(event: &Event<'_>, bar: &ProgressBar, output: Output) {
    let message = |text: String| bar.suspend(|| output.message(text));
    match event {
        Event::There(download) => message(format!("{download}: its files are there, and intact")),
        Event::Begins(url, 0) => message(format!("fetching {url}")),
        Event::Begins(url, had) => message(format!("fetching {url}, after {had} bytes")),
        Event::Bytes(there, whole) => {
            bar.set_length(whole.unwrap_or(*there));
            bar.set_position(*there);
        }
        Event::Failed(url, why) => message(format!("warning: {url}: {why}")),
    }
}
