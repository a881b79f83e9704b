//! Clients of HTTP, and the cryptography of HTTPS below them.

use reqwest::Client;

use crate::{ChannelError, Result};

/// Makes ring the cryptography of this process, unless another was chosen
/// before. `reqwest` has no default of its own here and refuses to make a
/// client without one.
pub(super) fn use_ring() {
    // It fails only where a choice was made already, and that choice stands.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Returns a client for requests over plain HTTP. It trusts no certificate, so
/// that a machine without any can use it.
///
/// # Errors
/// [`ChannelError::Endpoint`] when no client can be made.
pub fn plain_http() -> Result<Client> {
    use_ring();
    let client = Client::builder().tls_certs_only([]).build();
    client.map_err(|error| unusable(&error))
}

/// Returns a client for requests over HTTPS that trusts the certificates of the
/// system.
///
/// # Errors
/// [`ChannelError::Endpoint`] when no client can be made, or the system has no
/// certificates.
pub fn https() -> Result<Client> {
    use_ring();
    let client = Client::builder().build();
    client.map_err(|error| unusable(&error))
}

fn unusable(error: &reqwest::Error) -> ChannelError {
    ChannelError::endpoint(format!("no HTTP client can be made: {}", causes(error)))
}

/// Formats an error with its chain of causes, each text once.
pub(super) fn causes(error: &dyn std::error::Error) -> String {
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
