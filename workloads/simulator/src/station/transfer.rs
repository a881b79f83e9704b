//! Transfers between a station and a server: bandwidth, credit, and what an interpreted client
//! makes of the bytes.

use futures_util::future::join;

use super::Station;
use crate::engine::locked;
use crate::network::Direction;
use crate::profile::ServiceModel;
use crate::services::Backend;

/// Bytes that a function's network passes at a time when its credit is used up: one
/// quantum per 0.1 s (Skyrise, network_throughput/lambda, refill_quantum_MB).
const QUANTUM: f64 = 8.4e6;

impl Station {
    /// Moves `bytes` between this station and a server, as so many workers do at the same time.
    pub(crate) async fn transfer(
        &self,
        server: &Backend,
        users: u64,
        bytes: u64,
        direction: Direction,
    ) {
        if bytes == 0 {
            return;
        }
        let service = &*server.model;
        let limited = limited_bytes(service, bytes, direction);
        let stream = self.stream(service, limited, direction);
        let client = self.client_bytes_per_s(direction);
        let transfer = Transfer::begin(self);
        match &self.host {
            Some(host) if service.host_core_s_per_byte > 0.0 => {
                let own = self.spec.bytes_per_s.min(client) / *locked(&self.transfers) as f64;
                let (cost, rate) = (service.host_core_s_per_byte, stream.min(own));
                host.consume(bytes as f64 * cost, rate * cost).await;
            }
            _ => match self.spec.network.burst() {
                None => {
                    let own = self.spec.bytes_per_s.min(client) / *locked(&self.transfers) as f64;
                    let rate = stream.min(own);
                    self.pass_through(server, users, limited, rate).await;
                }
                Some(burst) => {
                    let burst = burst.min(client);
                    self.move_on_credit(server, users, limited, [stream, burst], direction)
                        .await;
                }
            },
        }
        drop(transfer);
        self.convert(bytes, direction).await;
    }

    /// Moves `bytes` through the server and, where there is one, the network of the VPC, whichever
    /// takes longer: exact as long as one of both is the narrower one throughout.
    async fn pass_through(&self, server: &Backend, users: u64, bytes: f64, rate: f64) {
        let through_server = server.bandwidth.consume_as(users, bytes, rate);
        match &self.vpc {
            None => through_server.await,
            Some(vpc) => {
                join(through_server, vpc.consume_as(users, bytes, rate)).await;
            }
        }
    }

    /// Returns the bytes per second that an interpreted client keeps up with, all streams of
    /// the function together.
    fn client_bytes_per_s(&self, direction: Direction) -> f64 {
        let Some(client) = &self.spec.interpreted else {
            return f64::INFINITY;
        };
        let core_s_per_byte = match direction {
            Direction::Read => client.receive_core_s_per_byte,
            Direction::Write => client.send_core_s_per_byte,
        };
        self.spec.vcpus.min(1.0) / core_s_per_byte
    }

    /// Returns the bandwidth of one transfer of `bytes` by the service.
    fn stream(&self, service: &ServiceModel<f64>, bytes: f64, direction: Direction) -> f64 {
        let (rate, spread) = match direction {
            Direction::Read => (service.stream_bytes_per_s, &service.read_stream_spread),
            Direction::Write => (
                (service.write_stream_bytes_per_s).unwrap_or(service.stream_bytes_per_s),
                &service.write_stream_spread,
            ),
        };
        rate / self.drawn(spread.as_ref(), bytes / rate)
    }

    /// Moves `bytes` in parts, each at the burst's bandwidth as long as there is credit for
    /// it.
    async fn move_on_credit(
        &self,
        server: &Backend,
        users: u64,
        bytes: f64,
        [stream, burst]: [f64; 2],
        direction: Direction,
    ) {
        // Transfers of one instant are all counted before the first of them moves.
        self.engine.until(self.engine.now() + 1).await;
        let mut left = bytes;
        while left > 0.0 {
            let own = *locked(&self.transfers) as f64;
            let sustained = stream.min(self.spec.bytes_per_s.min(burst) / own);
            let wanted = stream.min(burst / own);
            let above = |bytes: f64| bytes * (1.0 - sustained / wanted).max(0.0);
            let is_alone = own == 1.0;
            let part = if is_alone { left } else { left.min(QUANTUM) };
            if self.spec.network.spend(direction, above(part)) {
                self.pass_through(server, users, part, wanted).await;
                left -= part;
                continue;
            }
            let part = left.min(QUANTUM);
            let has_credit = self.spec.network.spend(direction, above(part));
            let rate = if has_credit { wanted } else { sustained };
            self.pass_through(server, users, part, rate).await;
            left -= part;
        }
    }

    /// Takes the time in which an interpreted client turns a payload into vectors, or
    /// vectors into a payload.
    async fn convert(&self, bytes: u64, direction: Direction) {
        let interpreted = self.spec.interpreted.as_ref();
        let Some(client) = interpreted.filter(|_| self.spec.has_codec) else {
            return;
        };
        let core_s_per_byte = match direction {
            Direction::Read => client.decode_core_s_per_byte,
            Direction::Write => client.encode_core_s_per_byte,
        };
        let seconds = bytes as f64 * core_s_per_byte / self.spec.vcpus.min(1.0);
        self.engine.seconds(seconds).await;
    }
}

/// Returns the bytes of a payload that a stream's bandwidth limits.
fn limited_bytes(service: &ServiceModel<f64>, bytes: u64, direction: Direction) -> f64 {
    match direction {
        Direction::Read => (bytes as f64 - service.unlimited_bytes.unwrap_or(0.0)).max(0.0),
        Direction::Write => bytes as f64,
    }
}

/// A transfer, counted until it is dropped.
struct Transfer<'a>(&'a Station);

impl<'a> Transfer<'a> {
    fn begin(station: &'a Station) -> Self {
        *locked(&station.transfers) += 1;
        let now = station.engine.now();
        station.spec.network.begin(now, station.spec.bytes_per_s);
        Self(station)
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        *locked(&self.0.transfers) -= 1;
        self.0.spec.network.end(self.0.engine.now());
    }
}
