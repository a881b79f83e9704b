//! Free ports.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// As many ports of loopback as are asked for, all different, which were free
/// when looked at. Another process may take one before a server does: see
/// [`crate::start::with_ports`].
pub(crate) fn free<const N: usize>() -> io::Result<[u16; N]> {
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// A port's address on loopback.
pub(crate) fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
