use std::sync::Arc;

use async_trait::async_trait;
use epochcost_channels::{Channel, Command, Fare, OperationKind, Reply, Result, TensorCommand};

use crate::compute::at_once;
use crate::network::Direction;
use crate::services::Tensors;
use crate::station::Station;

/// A tensor store, reached from one station.
pub(super) struct SimTensors {
    pub(super) tensors: Arc<Tensors>,
    pub(super) station: Arc<Station>,
}

impl SimTensors {
    async fn transfer(&self, bytes: u64, direction: Direction) {
        let (server, users) = (&self.tensors.server, self.station.alike_at_store(direction));
        self.station.transfer(server, users, bytes, direction).await;
    }
}

#[async_trait]
impl Channel<TensorCommand> for SimTensors {
    async fn run(&self, command: TensorCommand) -> Result<Reply> {
        let reply = self.answer(command).await?;
        self.tensors.server.keeps(self.station.spec.network.since)?;
        Ok(reply)
    }
}

impl SimTensors {
    async fn answer(&self, command: TensorCommand) -> Result<Reply> {
        let (server, fare) = (&self.tensors.server, command.fare());
        if let Fare::Put(bytes) = fare {
            let limit = self.tensors.model.value_bytes_limit;
            let services = &self.station.services;
            services.check_size(server, bytes, limit)?;
        }
        let connected = self.station.spec.network.since;
        let asked = self.station.request(server, Direction::Read, connected);
        asked.await?;
        if let Fare::Put(bytes) = fare {
            self.transfer(bytes, Direction::Write).await;
        }
        if let TensorCommand::Compute { operation, sent } = &command {
            let vector_bytes = match (sent, operation.kind) {
                (Some(sent), _) => sent.len(),
                (None, OperationKind::Step(_)) => self.tensors.bytes(&operation.target),
                _ => {
                    let read = operation.sources.first().unwrap_or(&operation.target);
                    self.tensors.bytes(read)
                }
            };
            let passes = operation.passes() as u64;
            self.tensors.compute(vector_bytes * passes).await;
        }
        let texts = match command {
            TensorCommand::JsonMean { count, .. } => Some(count),
            _ => None,
        };
        let reply = at_once(self.tensors.store.run(command))?;
        let Some(bytes) = reply.bytes() else {
            return Ok(reply);
        };
        if let Some(texts) = texts {
            // Every text is about as long as their mean, which is written as text again.
            let bytes = (bytes * (texts + 1)) as f64;
            let seconds = bytes / self.tensors.model.json_bytes_per_s;
            self.tensors.work(seconds).await;
        }
        self.transfer(bytes, Direction::Read).await;
        Ok(reply)
    }
}
