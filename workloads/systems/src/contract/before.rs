//! Something that happens before a model computes: faults on purpose, or a test's
//! own doing.

use std::ops::Range;

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedSender;

use crate::{Batch, Compute, Evaluation, GradientOutput, Result, Vector};

/// What happens before a model computes.
#[async_trait]
pub trait Before: Send + Sync {
    /// Before the gradient of a batch; an error is the gradient's outcome.
    async fn gradient(&mut self, batch: &Batch) -> Result<()>;

    /// Before an evaluation.
    fn evaluation(&mut self, _test: &Batch) {}
}

/// `model`, before which something happens, and which is itself in all else.
pub fn after(before: impl Before + 'static, model: Box<dyn Compute>) -> Box<dyn Compute> {
    Box::new(After { before, model })
}

struct After<B> {
    before: B,
    model: Box<dyn Compute>,
}

#[async_trait]
impl<B: Before> Compute for After<B> {
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
        self.before.gradient(batch).await?;
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
        self.before.gradient(batch).await?;
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
            self.before.gradient(batch).await?;
        }
        self.model.gradients(parameters, statistics, batches).await
    }

    async fn evaluate(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>> {
        self.before.evaluation(test);
        self.model.evaluate(parameters, statistics, test).await
    }
}
