//! The network of a sandbox: its credit and its connections, which outlive an invocation.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::engine::locked;
use crate::profile::NetworkCredit;

/// The way of a payload, seen from the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// From a service.
    Read,
    /// To a service.
    Write,
}

/// A service to which a sandbox keeps a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Objects,
    Tensors,
    Queue,
}

impl Peer {
    /// Returns the name of the service in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Objects => "object store",
            Self::Tensors => "tensor store",
            Self::Queue => "queue",
        }
    }
}

/// Bytes above the bandwidth that may still move, by direction.
struct Credit {
    left: [f64; 2],
    /// Transfers under way.
    busy: usize,
    /// Instant at which the last transfer ended, nanoseconds.
    idle_since: u64,
}

/// The network of one sandbox.
pub(crate) struct Network {
    model: Option<NetworkCredit<f64>>,
    credit: Mutex<Credit>,
    /// Services that have a connection, one bit each.
    connected: AtomicU8,
    /// Instant at which its process began, nanoseconds: a client of a tensor store or a queue connects
    /// then, and never again.
    pub(crate) since: u64,
}

impl Network {
    /// Makes the network of a sandbox that is new at the instant `since`, with its whole credit.
    pub(crate) fn new(model: Option<&NetworkCredit<f64>>, since: u64) -> Self {
        let full = model.map_or([0.0; 2], |model| [model.download_bytes, model.upload_bytes]);
        Self {
            model: model.cloned(),
            credit: Mutex::new(Credit {
                left: full,
                busy: 0,
                idle_since: 0,
            }),
            connected: AtomicU8::new(0),
            since,
        }
    }

    /// Returns whether this is the first request to `peer`, and keeps its connection.
    pub(crate) fn connects(&self, peer: Peer) -> bool {
        let bit = 1 << peer as u8;
        self.connected.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Drops the connection to `peer`, if there is one.
    pub(crate) fn disconnect(&self, peer: Peer) {
        self.connected
            .fetch_and(!(1 << peer as u8), Ordering::Relaxed);
    }

    /// Returns the bandwidth while credit lasts, bytes per second; none without credits.
    pub(crate) fn burst(&self) -> Option<f64> {
        self.model.as_ref().map(|model| model.burst_bytes_per_s)
    }

    /// Notes that a transfer begins at `now`. What returns while the network is idle, at
    /// `bytes_per_s`, is limited.
    pub(crate) fn begin(&self, now: u64, bytes_per_s: f64) {
        let Some(model) = &self.model else { return };
        let mut credit = locked(&self.credit);
        credit.busy += 1;
        if credit.busy > 1 {
            return;
        }
        let idle_s = now.saturating_sub(credit.idle_since) as f64 * 1e-9;
        for left in &mut credit.left {
            let returned = (*left + idle_s * bytes_per_s).min(model.returned_bytes);
            *left = left.max(returned);
        }
    }

    /// Notes that a transfer ended at `now`.
    pub(crate) fn end(&self, now: u64) {
        let mut credit = locked(&self.credit);
        credit.busy = credit.busy.saturating_sub(1);
        credit.idle_since = now;
    }

    /// Takes `bytes` of the credit, if it has as many.
    pub(crate) fn spend(&self, direction: Direction, bytes: f64) -> bool {
        let left = &mut locked(&self.credit).left[direction as usize];
        let has = *left >= bytes;
        if has {
            *left -= bytes;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        let credit = Some(NetworkCredit {
            download_bytes: 300.0,
            upload_bytes: 100.0,
            burst_bytes_per_s: 1000.0,
            returned_bytes: 150.0,
        });
        Network::new(credit.as_ref(), 0)
    }

    #[test]
    fn credits_are_apart_and_half_of_them_returns() {
        let network = network();
        network.begin(0, 10.0);
        assert!(network.spend(Direction::Read, 300.0) && !network.spend(Direction::Read, 1.0));
        assert!(network.spend(Direction::Write, 100.0) && !network.spend(Direction::Write, 1.0));
        network.end(0);
        // Two seconds at 10 bytes per second, then more than returns at most.
        network.begin(2_000_000_000, 10.0);
        assert!(!network.spend(Direction::Read, 21.0) && network.spend(Direction::Read, 20.0));
        network.end(2_000_000_000);
        network.begin(1_000_000_000_000, 10.0);
        assert!(!network.spend(Direction::Read, 151.0) && network.spend(Direction::Read, 150.0));
    }

    #[test]
    fn a_connection_is_opened_once_for_each_service() {
        let network = network();
        assert!(network.connects(Peer::Objects) && !network.connects(Peer::Objects));
        assert!(network.connects(Peer::Queue) && !network.connects(Peer::Queue));
        network.disconnect(Peer::Objects);
        assert!(network.connects(Peer::Objects) && !network.connects(Peer::Queue));
    }
}
