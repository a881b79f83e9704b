//! One file over HTTP, which goes on where it was cut off.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};
use thiserror::Error;

/// Patience with a server.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Attempts in a row that bring nothing, after which a server is given up.
    pub attempts: u32,
    /// Pause before the second of them; every further pause is twice as long.
    pub pause: Duration,
    /// Longest wait for an answer, or for the next bytes of it.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            attempts: 4,
            pause: Duration::from_millis(500),
            silence: Duration::from_secs(30),
        }
    }
}

/// Why a file was not transferred.
#[derive(Debug, Error)]
pub enum TransferError {
    /// The server does not have it, or does not give it.
    #[error("the server answers {0}")]
    Refused(StatusCode),
    /// The server cannot be reached, or the connection was cut.
    #[error("{0}")]
    Cut(String),
    /// The file on disk could not be written.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

impl TransferError {
    /// Returns whether another attempt may end otherwise.
    fn may_pass(&self) -> bool {
        match *self {
            Self::Refused(StatusCode::TOO_MANY_REQUESTS) | Self::Cut(_) => true,
            Self::Refused(status) => status.is_server_error(),
            Self::Disk(_) => false,
        }
    }
}

/// Transfers a file to `part`, after the bytes that are there. `progress` is told the bytes
/// that are there and those of the whole file, where these are known.
///
/// # Errors
/// When the server does not have the file, brings nothing after all attempts, or the file
/// cannot be written. What arrived is kept.
pub async fn transfer(
    client: &Client,
    url: &str,
    part: &Path,
    patience: Patience,
    progress: &(dyn Fn(u64, Option<u64>) + Sync),
) -> Result<(), TransferError> {
    let (mut failures, mut pause) = (0, patience.pause);
    loop {
        let before = length(part);
        let error = match attempt(client, url, part, patience.silence, progress).await {
            Ok(true) => return Ok(()),
            // What is on disk is not a part of the file any more.
            Ok(false) => TransferError::Cut("the file changed while it was fetched".to_owned()),
            Err(error) => error,
        };
        if length(part) > before {
            (failures, pause) = (0, patience.pause);
        } else {
            failures += 1;
        }
        if !error.may_pass() || failures >= patience.attempts {
            return Err(error);
        }
        if failures > 0 {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

/// Returns the bytes of a file; 0 where there is none.
fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// Asks once. Returns whether the file is whole; otherwise it begins anew.
async fn attempt(
    client: &Client,
    url: &str,
    part: &Path,
    silence: Duration,
    progress: &(dyn Fn(u64, Option<u64>) + Sync),
) -> Result<bool, TransferError> {
    let offset = length(part);
    let mut request = client.get(url);
    if offset > 0 {
        request = request.header(RANGE, format!("bytes={offset}-"));
    }
    let mut response = in_time(silence, request.send()).await?;
    let (first, length) = range(&response);
    let mut file = match response.status() {
        StatusCode::PARTIAL_CONTENT if first == Some(offset) => {
            OpenOptions::new().append(true).open(part)?
        }
        StatusCode::RANGE_NOT_SATISFIABLE if length == Some(offset) => return Ok(true),
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
            let _ = fs::remove_file(part);
            return Ok(false);
        }
        StatusCode::OK => File::create(part)?,
        other => return Err(TransferError::Refused(other)),
    };
    let mut written = file.metadata()?.len();
    let whole = response.content_length().map(|rest| written + rest);
    while let Some(bytes) = in_time(silence, response.chunk()).await? {
        file.write_all(&bytes)?;
        written += bytes.len() as u64;
        progress(written, whole);
    }
    Ok(true)
}

/// Waits for an answer, and not for ever.
async fn in_time<T>(
    silence: Duration,
    answer: impl Future<Output = reqwest::Result<T>>,
) -> Result<T, TransferError> {
    let answer = match tokio::time::timeout(silence, answer).await {
        Ok(answer) => answer.map_err(|error| causes(&error.without_url())),
        Err(_) => Err(format!("no answer in {} s", silence.as_secs())),
    };
    answer.map_err(TransferError::Cut)
}

/// Returns an error with its causes, each text once.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}

/// Reads the first byte that is sent and the bytes of the whole file in the header
/// `Content-Range`: `bytes 5-9/10` or `bytes */10`.
fn range(response: &Response) -> (Option<u64>, Option<u64>) {
    let text = response.headers().get(CONTENT_RANGE);
    let text = text.and_then(|value| value.to_str().ok());
    let parts = text.and_then(|text| text.strip_prefix("bytes ")?.split_once('/'));
    let (sent, length) = parts.unwrap_or_default();
    let first = sent.split_once('-').map_or("", |(first, _)| first);
    (first.parse().ok(), length.parse().ok())
}
