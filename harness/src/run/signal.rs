//! Signals that end the work.

use std::future::Future;
use std::pin::Pin;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Error;

/// Receiver of a signal that ends the work.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits for SIGINT, SIGTERM or SIGHUP, from now on.
///
/// # Errors
/// When the signals cannot be listened for.
pub fn stop_signal() -> Result<Stop, Error> {
    let listen = |kind| {
        signal(kind).map_err(|source| Error::Io {
            doing: "listen for signals".to_owned(),
            source,
        })
    };
    let (mut interrupt, mut terminate) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
    );
    // Listening would replace the disposition that ignores it.
    let mut hangup = if ignores_hangup() {
        None
    } else {
        Some(listen(SignalKind::hangup())?)
    };
    Ok(Box::pin(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = arrived(&mut hangup) => {}
        }
    }))
}

/// Waits for a signal; for ever if none is listened for.
async fn arrived(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

/// Returns whether the program was started with SIGHUP ignored, as `nohup` does: then the end
/// of the terminal is not to end the run.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let hangup = 1 << (SignalKind::hangup().as_raw_value() - 1);
    ignored.is_some_and(|mask| mask & hangup != 0)
}
