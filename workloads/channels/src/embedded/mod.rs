//! Servers that run inside this process: an object store over S3's HTTP, a
//! tensor store and a queue over the Redis protocol.
//!
//! Servers listen on a free port of 127.0.0.1, so that no other machine reaches them. Started
//! with `start_private`, they ask for a random password, so that no other user of this machine
//! does. A server stops when it is dropped. `docs/FORMAT.md` describes the protocols.

mod connection;
mod http;
mod objects;
mod queue;
mod request;
pub mod strangers;
mod tensors;
mod xml;

pub use http::access_key;
pub use objects::ObjectServer;
pub use queue::QueueServer;
pub use tensors::TensorServer;

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

use crate::{ChannelError, Result};

/// Listens on a free port of the loopback interface.
async fn listen(service: &'static str) -> Result<(TcpListener, SocketAddr)> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listening = async {
        let listener = TcpListener::bind(wanted).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listening.await.map_err(|error: std::io::Error| {
        ChannelError::unreachable(service, wanted, format!("failed to listen there: {error}"))
    })
}
