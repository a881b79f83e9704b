//! `--fetch`: downloads of published datasets.

use std::collections::BTreeSet;
use std::path::Path;

use epochcost_datasets::{self as datasets, DatasetError, Origin, PublishedFile};
use epochcost_experiment::Experiment;
use epochcost_planner::error::Error;
use epochcost_spec::ui::{Output, bar};
use indicatif::ProgressBar;

use crate::download::{self, DownloadError, Event, Patience, Request};

/// Downloads of data, and where from.
#[derive(Debug, clap::Args)]
pub struct Fetch {
    /// Download the published datasets that are trained on, as far as they are not there, and check
    /// every file. Goes on where it was cut off, asks one mirror after another, and goes through the
    /// proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names.
    #[arg(long, help_heading = "Data")]
    fetch: bool,
    /// Address of a directory that holds the download, in place of the known mirrors. More
    /// than once: they are asked in this order.
    #[arg(long, value_name = "URL", requires = "fetch", help_heading = "Data")]
    from: Vec<String>,
}

impl Fetch {
    /// Downloads what experiments train on, each set once.
    ///
    /// # Errors
    /// When no mirror has a set, or it cannot be written.
    pub async fn run(&self, experiments: &[Experiment], output: Output) -> Result<(), Error> {
        if !self.fetch {
            return Ok(());
        }
        if let Some(other) = self.from.iter().find(|address| !is_address(address)) {
            return Err(Error::usage(
                format!("--from {other:?} is no address of a server"),
                "begin it with https:// or http://",
            ));
        }
        let data = experiments.iter().map(|experiment| &experiment.data);
        let data = data.filter(|data| data.bytes_per_sample.is_none());
        let sets = data.map(|data| (data.name.as_str(), &data.directory));
        for (name, directory) in sets.collect::<BTreeSet<_>>() {
            fetch(name, &self.from, directory, output).await?;
        }
        Ok(())
    }
}

/// Downloads what is not there of a published set.
async fn fetch(name: &str, from: &[String], directory: &Path, output: Output) -> Result<(), Error> {
    let Origin::Published {
        url,
        mirrors,
        downloads,
        files,
        ..
    } = datasets::find(name)?.origin
    else {
        return Ok(());
    };
    let own: Vec<String> = mirrors.iter().map(|&mirror| mirror.to_owned()).collect();
    let request = Request {
        downloads,
        files,
        mirrors: if from.is_empty() { own } else { from.to_vec() },
        directory: directory.to_owned(),
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
            remedy: by_hand(url, files, directory),
        },
    })?;
    let read = datasets::open(name, directory)?;
    let (train, test, sha256) = (read.train.samples(), read.test.samples(), read.sha256);
    let directory = directory.display();
    output.message(format_args!(
        "{name} in {directory}: {train} training and {test} test samples, sha256 {sha256}"
    ));
    Ok(())
}

fn is_address(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

/// Returns what to do on a machine that reaches no mirror.
fn by_hand(url: &str, files: &[PublishedFile], directory: &Path) -> String {
    let names: Vec<&str> = files.iter().map(|file| file.name).collect();
    format!(
        "set HTTPS_PROXY if there is a proxy, or name a mirror with --from URL; offline, fetch {url} \
         elsewhere, put {}, unpacked, into {}",
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
