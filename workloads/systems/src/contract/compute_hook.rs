//! Code that runs before a model computes: injected faults, or a test's own.

use std::ops::Range;

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedSender;

use crate::{Batch, Compute, Evaluation, GradientOutput, Result, Vector};

/// Code that runs before a model computes.
#[async_trait]
pub trait ComputeHook: Send + Sync {
    /// Runs before the gradient of a batch.
    ///
    /// # Errors
    /// Becomes the outcome of the gradient, which is not computed.
    async fn before_gradient(&mut self, batch: &Batch) -> Result<()>;

    /// Runs before an evaluation.
    fn before_evaluation(&mut self, _test: &Batch) {}
}

/// A model that calls a [`ComputeHook`] first and is otherwise unchanged.
pub struct HookedCompute<H> {
    hook: H,
    model: Box<dyn Compute>,
}

impl<H: ComputeHook + 'static> HookedCompute<H> {
    /// Puts `hook` before `model`.
    pub fn boxed(hook: H, model: Box<dyn Compute>) -> Box<dyn Compute> {
        Box::new(Self { hook, model })
    }
}

#[async_trait]
impl<H: ComputeHook> Compute for HookedCompute<H> {
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
        self.hook.before_gradient(batch).await?;
        self.model.gradient(parameters, statistics, batch).await
    }

    async fn gradient_in_parts(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
        cuts: &[Range<usize>],
        ready: UnboundedSender<(usize, Vector)>,
    ) -> Result<GradientOutput> {
        self.hook.before_gradient(batch).await?;
        let model = &mut self.model;
        model
            .gradient_in_parts(parameters, statistics, batch, cuts, ready)
            .await
    }

    async fn gradients(
        &mut self,
        parameters: &Vector,
        statistics: &mut [Vector],
        batches: &[Batch],
    ) -> Result<Vec<GradientOutput>> {
        for batch in batches {
            self.hook.before_gradient(batch).await?;
        }
        self.model.gradients(parameters, statistics, batches).await
    }

    async fn evaluate(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>> {
        self.hook.before_evaluation(test);
        self.model.evaluate(parameters, statistics, test).await
    }

    fn recorded_density(&self, epoch: usize, batch: Option<usize>) -> Option<f64> {
        self.model.recorded_density(epoch, batch)
    }
}
