//! Signals that end the work.

use std::future::Future;
use std::pin::Pin;

use tokio::signal::unix::{SignalKind, signal};

use crate::error::Error;

/// Receiver of a signal that ends the work.
pub type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits for SIGINT or SIGTERM, from now on.
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
    Ok(Box::pin(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }))
}
