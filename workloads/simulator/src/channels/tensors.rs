use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use epochcost_channels::{Payload, Result, RobustMean, SgdStep, TensorStore};

use crate::compute::at_once;
use crate::network::{Direction, Peer};
use crate::services::Tensors;
use crate::station::{Server, Station};

/// A tensor store, reached from one station.
pub(super) struct SimTensors {
    pub(super) tensors: Arc<Tensors>,
    pub(super) station: Arc<Station>,
}

impl SimTensors {
    async fn request(&self) -> Result<()> {
        let service = &self.tensors.model.service;
        self.station
            .request(service, Peer::Tensors, Direction::Read)
            .await;
        let Tensors { condition, .. } = &*self.tensors;
        condition.pass(&self.station.engine, "tensor store").await
    }

    async fn transfer(&self, bytes: u64, direction: Direction) {
        let Tensors { model, server, .. } = &*self.tensors;
        let server = Server {
            bandwidth: server,
            users: self.station.alike_at_store(direction),
        };
        self.station
            .transfer(&model.service, server, bytes, direction)
            .await;
    }

    async fn upload(&self, value: &Payload) -> Result<()> {
        let limit = self.tensors.model.value_bytes_limit;
        let services = &self.station.services;
        services.check_size("tensor store", value.len(), limit)?;
        self.request().await?;
        self.transfer(value.len(), Direction::Write).await;
        Ok(())
    }

    async fn fetched(&self, found: Option<Payload>) -> Option<Payload> {
        if let Some(value) = &found {
            self.transfer(value.len(), Direction::Read).await;
        }
        found
    }

    /// Waits for a reduction, which reads its sources and writes one of their size.
    async fn reduce(&self, sources: &[String]) -> Result<()> {
        self.request().await?;
        let each = sources.first().map_or(0, |key| self.tensors.bytes(key));
        self.tensors
            .compute(each * (sources.len() as u64 + 1))
            .await;
        Ok(())
    }

    /// Waits for an SGD step, which reads parameters and gradients and writes
    /// parameters; momentum is read and written, too.
    async fn step(&self, parameters: &str, gradients: usize, step: SgdStep) -> Result<()> {
        self.request().await?;
        let momentum = if step.momentum == 0.0 { 0 } else { 2 };
        let passes = 2 + gradients as u64 + momentum;
        self.tensors
            .compute(self.tensors.bytes(parameters) * passes)
            .await;
        Ok(())
    }
}

#[async_trait]
impl TensorStore for SimTensors {
    async fn set(&self, key: &str, value: Payload) -> Result<()> {
        self.upload(&value).await?;
        self.tensors.store.set(key, value).await
    }

    async fn get(&self, key: &str) -> Result<Option<Payload>> {
        self.request().await?;
        let found = self.tensors.store.get(key).await?;
        Ok(self.fetched(found).await)
    }

    async fn get_range(&self, key: &str, elements: Range<u64>) -> Result<Option<Payload>> {
        self.request().await?;
        let found = self.tensors.store.get_range(key, elements).await?;
        Ok(self.fetched(found).await)
    }

    async fn accumulate(&self, key: &str, value: Payload) -> Result<()> {
        self.upload(&value).await?;
        self.tensors.compute(3 * value.len()).await;
        at_once(self.tensors.store.accumulate(key, value))
    }

    async fn mean(&self, destination: &str, sources: &[String]) -> Result<()> {
        self.reduce(sources).await?;
        at_once(self.tensors.store.mean(destination, sources))
    }

    async fn robust_mean(
        &self,
        destination: &str,
        rule: RobustMean,
        sources: &[String],
    ) -> Result<()> {
        self.request().await?;
        let each = sources.first().map_or(0, |key| self.tensors.bytes(key));
        let passes = rule.passes(sources.len()) as u64;
        self.tensors.compute(each * passes).await;
        at_once(self.tensors.store.robust_mean(destination, rule, sources))
    }

    async fn sgd(&self, parameters: &str, gradient: &str, step: SgdStep) -> Result<()> {
        self.step(parameters, 1, step).await?;
        at_once(self.tensors.store.sgd(parameters, gradient, step))
    }

    async fn mean_sgd(&self, parameters: &str, sources: &[String], step: SgdStep) -> Result<()> {
        self.step(parameters, sources.len(), step).await?;
        at_once(self.tensors.store.mean_sgd(parameters, sources, step))
    }

    async fn push(&self, key: &str, value: Payload) -> Result<()> {
        self.upload(&value).await?;
        self.tensors.store.push(key, value).await
    }

    async fn json_mean(&self, key: &str, count: u64) -> Result<Payload> {
        self.request().await?;
        let mean = at_once(self.tensors.store.json_mean(key, count))?;
        // Every text is about as long as their mean, which is written as text again.
        let bytes = mean.len() * (count + 1);
        self.tensors
            .work(bytes as f64 / self.tensors.model.json_bytes_per_s)
            .await;
        self.transfer(mean.len(), Direction::Read).await;
        Ok(mean)
    }

    async fn delete(&self, keys: &[String]) -> Result<()> {
        self.request().await?;
        self.tensors.store.delete(keys).await
    }

    async fn ping(&self) -> Result<()> {
        self.request().await?;
        self.tensors.store.ping().await
    }
}
