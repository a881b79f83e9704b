//! Downloads of published datasets: from the first mirror that has the right files, each
//! compared with its checksum.

mod transfer;

use std::fs;
use std::path::{Path, PathBuf};

use epochcost_channels::client::{https, plain_http};
use epochcost_datasets::{DatasetError, Download, PublishedFile, is_whole, unpack};
use reqwest::Client;
use thiserror::Error;

pub use transfer::{Patience, TransferError, transfer};

/// What to fetch, and from where.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is downloaded.
    pub downloads: &'static [Download],
    /// Files of the set.
    pub files: &'static [PublishedFile],
    /// Addresses of directories that hold the downloads, in the order in which they are asked.
    pub mirrors: Vec<String>,
    /// Directory of the unpacked files.
    pub directory: PathBuf,
    /// Patience with each mirror.
    pub patience: Patience,
}

/// Progress of a request.
#[derive(Debug)]
pub enum Event<'a> {
    /// The files of a download are there and right.
    There(&'a str),
    /// A download begins at this address, after so many bytes.
    Begins(&'a str, u64),
    /// So many bytes are there, of so many where that is known.
    Bytes(u64, Option<u64>),
    /// A mirror did not have the right files, and why.
    Failed(&'a str, &'a str),
}

/// Why a dataset was not fetched.
#[derive(Debug, Error)]
pub enum DownloadError {
    /// No mirror had the right files.
    #[error("failed to fetch {name}: {}", reasons.join("; "))]
    NoMirror {
        /// The download.
        name: &'static str,
        /// Each address, and what came of it.
        reasons: Vec<String>,
    },
    /// The directory or a file in it could not be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}

/// Fetches what is not there yet.
///
/// # Errors
/// When no mirror has a download with the right files, or the directory cannot be written.
pub async fn fetch(
    request: &Request,
    report: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), DownloadError> {
    let directory = &request.directory;
    fs::create_dir_all(directory).map_err(|source| DownloadError::Write {
        path: directory.clone(),
        source,
    })?;
    for download in request.downloads {
        if is_whole(download, request.files, directory) {
            report(Event::There(download.name));
        } else {
            one(request, *download, report).await?;
        }
    }
    Ok(())
}

/// Fetches one download from the first mirror that has the right one.
async fn one(
    request: &Request,
    download: Download,
    report: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), DownloadError> {
    let part = request.directory.join(format!(".{}.part", download.name));
    let mut reasons = Vec::new();
    for mirror in &request.mirrors {
        let url = format!("{}/{}", mirror.trim_end_matches('/'), download.name);
        // A part of an earlier download may be damaged: the same mirror is asked for all of it.
        loop {
            let had = fs::metadata(&part).map_or(0, |found| found.len());
            report(Event::Begins(&url, had));
            let (reason, again) = match from_mirror(request, download, &url, &part, report).await {
                Ok(()) => return Ok(()),
                Err(Failure::Disk(path, source)) => {
                    return Err(DownloadError::Write { path, source });
                }
                Err(Failure::Transfer(reason)) => (reason, false),
                Err(Failure::Content(reason)) => (reason, had > 0),
            };
            report(Event::Failed(&url, &reason));
            if !again {
                reasons.push(format!("{url}: {reason}"));
                break;
            }
        }
    }
    Err(DownloadError::NoMirror {
        name: download.name,
        reasons,
    })
}

/// Why one mirror did not do.
enum Failure {
    /// It was not reached, or did not send everything.
    Transfer(String),
    /// It sent something else.
    Content(String),
    /// Nothing can be written.
    Disk(PathBuf, std::io::Error),
}

async fn from_mirror(
    request: &Request,
    download: Download,
    url: &str,
    part: &Path,
    report: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), Failure> {
    let client = client(url).map_err(Failure::Transfer)?;
    let progress = |bytes, whole| report(Event::Bytes(bytes, whole));
    let transferred = transfer(&client, url, part, request.patience, &progress).await;
    transferred.map_err(|error| match error {
        TransferError::Disk(source) => Failure::Disk(part.to_owned(), source),
        other => Failure::Transfer(other.to_string()),
    })?;
    let (packed, directory, files) = (part.to_owned(), request.directory.clone(), request.files);
    let unpacking = move || unpack(&download, files, &packed, &directory);
    let unpacked = tokio::task::spawn_blocking(unpacking).await;
    let _ = fs::remove_file(part);
    match unpacked {
        Ok(Ok(())) => Ok(()),
        Ok(Err(DatasetError::Write { path, source })) => Err(Failure::Disk(path, source)),
        Ok(Err(error)) => Err(Failure::Content(with_cause(&error))),
        Err(error) => Err(Failure::Content(error.to_string())),
    }
}

fn with_cause(error: &DatasetError) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Returns a client. It goes through the proxy that the environment names.
fn client(url: &str) -> Result<Client, String> {
    let client = if url.starts_with("http://") {
        plain_http()
    } else {
        https()
    };
    client.map_err(|error| error.to_string())
}
