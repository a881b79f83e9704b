use std::sync::Arc;

use async_trait::async_trait;
use epochcost_channels::{Channel, LinkCommand, Reply, Result};

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
impl Channel<LinkCommand> for SimLinks {
    async fn run(&self, command: LinkCommand) -> Result<Reply> {
        let queues = &self.station.services.queues;
        match command {
            LinkCommand::Listen { rank } => return Ok(Reply::Address(format!("sim:{rank}"))),
            LinkCommand::Connect { .. } => self.station.link(0).await,
            LinkCommand::Send { rank, to, message } => {
                self.station.link(message.len()).await;
                for (from, to) in self.station.services.population.ways(rank, to) {
                    queues.push(&way(from, to), message.clone());
                }
            }
            LinkCommand::Receive { rank, from } => {
                self.station.settle().await;
                let way = way(from, rank);
                loop {
                    if let Some(message) = queues.take(&way) {
                        return Ok(Reply::Value(Some(message)));
                    }
                    queues.arrival(&way).await;
                }
            }
        }
        Ok(Reply::Done)
    }
}
