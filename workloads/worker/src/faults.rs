//! Faults for tests of failure behaviour: crashes, errors, stragglers, memory.

use std::time::Duration;
use std::{env, process};

use async_trait::async_trait;
use epochcost_systems::{Batch, Compute, Evaluation, GradientOutput, Result, SystemError, Vector};
use serde::Deserialize;
use tokio::time::sleep;

/// A fault injected into one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The worker.
    pub rank: usize,
    /// The epoch.
    pub epoch: usize,
    /// The mini-batch.
    pub batch: usize,
    /// What happens when it computes that gradient.
    pub kind: FaultKind,
}

/// What happens at a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The process ends at once.
    Crash,
    /// The function returns an error.
    Error,
    /// The worker is late by this many milliseconds.
    StragglerMs(u64),
    /// The worker allocates memory until it is stopped.
    OutOfMemory,
}

/// A model that meets faults on its way.
pub struct Faulty<C> {
    model: C,
    faults: Vec<Fault>,
}

impl<C> Faulty<C> {
    /// Computes on `model`, faults apart.
    pub fn new(model: C, faults: Vec<Fault>) -> Self {
        Self { model, faults }
    }
}

#[async_trait]
impl<C: Compute> Compute for Faulty<C> {
    fn parameters(&self) -> usize {
        self.model.parameters()
    }

    fn statistics(&self) -> usize {
        self.model.statistics()
    }

    async fn initial_parameters(&mut self, seed: u64) -> Result<Vector> {
        self.model.initial_parameters(seed).await
    }

    fn initial_statistics(&self) -> Vector {
        self.model.initial_statistics()
    }

    async fn gradient(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput> {
        let here = |fault: &&Fault| {
            (fault.rank, fault.epoch, fault.batch) == (batch.rank, batch.epoch, batch.index)
        };
        for fault in self.faults.iter().filter(here) {
            happen(fault.kind).await?;
        }
        self.model.gradient(parameters, statistics, batch).await
    }

    async fn evaluate(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>> {
        self.model.evaluate(parameters, statistics, test).await
    }
}

async fn happen(kind: FaultKind) -> Result<()> {
    match kind {
        FaultKind::Crash => {
            eprintln!("injected fault: crash");
            process::exit(1)
        }
        FaultKind::Error => Err(SystemError::Compute("injected fault: error".into())),
        FaultKind::StragglerMs(late_ms) => {
            sleep(Duration::from_millis(late_ms)).await;
            Ok(())
        }
        FaultKind::OutOfMemory => allocate().await,
    }
}

/// Fills memory until the platform ends the process, or until twice the
/// function's memory is taken and the platform evidently does not.
pub async fn allocate() -> Result<()> {
    const BLOCK_MB: usize = 16;
    let memory_mb = env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok();
    let memory_mb: usize = memory_mb.and_then(|mb| mb.parse().ok()).unwrap_or(512);
    let mut taken = Vec::new();
    while taken.len() * BLOCK_MB < 2 * memory_mb {
        taken.push(vec![1u8; BLOCK_MB << 20]);
        sleep(Duration::from_millis(5)).await;
    }
    Err(SystemError::Compute(format!(
        "{} MB were taken and nothing happened",
        taken.len() * BLOCK_MB
    )))
}
