//! The embedded servers, reached by the clients over loopback.
#![allow(clippy::unwrap_used)]

mod differential;
mod metering;
mod objects;
mod tensors;
mod wire;

use std::time::Duration;

use epochcost_channels::Payload;

/// Longer than any of this takes: reached only by a failure.
const LONG: Duration = Duration::from_secs(60);

fn payload(content: impl AsRef<[u8]>) -> Payload {
    content.as_ref().to_vec().into()
}

fn names(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}
