use std::sync::Arc;

use async_trait::async_trait;
use epochcost_channels::{Links, Payload, Result};

use crate::station::Station;

/// Connections from one station to others.
///
/// A message takes the latency of a request between instances, which is that of one to a
/// tensor store, and its bytes' time on the network of the sender, which is full duplex:
/// what comes in at the same time does not slow it. All instances of a trial are alike,
/// so that the receiver's network is as fast.
pub(super) struct SimLinks {
    pub(super) station: Arc<Station>,
}

/// Returns the name of the messages from one worker to another, apart from those of queues.
fn way(from: usize, to: usize) -> String {
    format!("\u{0}link {from} {to}")
}

#[async_trait]
impl Links for SimLinks {
    async fn listen(&self, rank: usize) -> Result<String> {
        Ok(format!("sim:{rank}"))
    }

    async fn connect(&self, _rank: usize, _to: usize, _address: &str) -> Result<()> {
        self.station.link(0).await;
        Ok(())
    }

    async fn send(&self, rank: usize, to: usize, message: Payload) -> Result<()> {
        self.station.link(message.len()).await;
        let queues = &self.station.services.queues;
        for (from, to) in self.station.services.population.ways(rank, to) {
            queues.push(&way(from, to), message.clone());
        }
        Ok(())
    }

    async fn receive(&self, rank: usize, from: usize) -> Result<Payload> {
        self.station.settle().await;
        let queues = &self.station.services.queues;
        let way = way(from, rank);
        loop {
            if let Some(message) = queues.take(&way) {
                return Ok(message);
            }
            queues.arrival(&way).await;
        }
    }
}
