use std::ops::Range;

use epochcost_channels::Payload;
use epochcost_kernels::hash;
use epochcost_kernels::optimizer::Optimizer;
use tokio::sync::mpsc::UnboundedSender;

use crate::contract::arithmetic;
use crate::mechanics::monitor::Monitor;
use crate::{Batch, Result, SystemError, Vector, World};

/// Counts an optimizer step: it reads the parameters, the gradient and the momentum, and writes two
/// of them.
pub(crate) fn note_step(elements: usize) {
    arithmetic::beside_model(|| arithmetic::note(5, elements));
}

/// Returns the seed of a worker's first parameters. Those of unseeded replicas are their own, drawn
/// from the job's seed and the rank so that runs repeat.
pub(crate) fn initial_seed(world: &World, seeded: bool) -> u64 {
    let seed = world.task.job.seed;
    if seeded {
        return seed;
    }
    hash::mix(seed, 1 + world.rank() as u64)
}

/// A worker's model and optimizer.
pub(crate) struct Replica {
    pub(crate) parameters: Vector,
    pub(crate) statistics: Vector,
    optimizer: Optimizer,
}

impl Replica {
    /// The initial replica; unseeded replicas start from parameters of their own.
    pub(crate) async fn initial(world: &mut World, seeded: bool) -> Result<Self> {
        let job = &world.task.job;
        let optimizer = Optimizer::new(job.optimizer);
        let seed = initial_seed(world, seeded);
        Ok(Self {
            parameters: world.compute.initial_parameters(seed).await?,
            statistics: world.compute.initial_statistics(),
            optimizer,
        })
    }

    /// The gradient of a batch, with its loss noted; updates the statistics.
    pub(crate) async fn gradient(&mut self, world: &mut World, batch: &Batch) -> Result<Vector> {
        let computing = world.gradient(&self.parameters, &mut self.statistics, batch);
        computing.await
    }

    /// Computes [`Self::gradient`], with its parts sent when they are known.
    pub(crate) async fn gradient_in_parts(
        &mut self,
        world: &mut World,
        batch: &Batch,
        cuts: &[Range<usize>],
        ready: UnboundedSender<(usize, Vector)>,
    ) -> Result<Vector> {
        let output = world
            .compute
            .gradient_in_parts(&self.parameters, &mut self.statistics, batch, cuts, ready)
            .await?;
        world.note_loss(output.loss);
        Ok(output.gradient)
    }

    /// Takes one optimizer step.
    pub(crate) fn update(&mut self, gradient: &Vector) -> Result<()> {
        note_step(gradient.len());
        if let (Some(parameters), Some(gradient)) = (self.parameters.real_mut(), gradient.real()) {
            self.optimizer.step(parameters, gradient)?;
        }
        Ok(())
    }

    /// Evaluates the model and records the results. Returns the loss on the validation
    /// split, where there is one.
    pub(crate) async fn evaluate(&self, world: &mut World, epoch: usize) -> Result<Option<f64>> {
        let evaluating = world.evaluate(&self.parameters, &self.statistics, epoch);
        evaluating.await
    }

    /// Takes over the monitor's learning rate.
    pub(crate) fn obey(&mut self, monitor: &Monitor) {
        self.optimizer.set_learning_rate(monitor.learning_rate);
    }

    /// Parameters, statistics and optimizer state, each preceded by its length.
    pub(crate) fn checkpoint(&self) -> Result<Payload> {
        let parameters = self.parameters.encode();
        let statistics = self.statistics.encode();
        let state = match self.parameters {
            Vector::Real(_) => Payload::from(self.optimizer.state_bytes()),
            Vector::Phantom { .. } => return Ok(parameters),
        };
        let mut checkpoint = Vec::new();
        for part in [parameters, statistics, state] {
            checkpoint.extend_from_slice(&part.len().to_le_bytes());
            checkpoint.extend_from_slice(part.bytes()?);
        }
        Ok(checkpoint.into())
    }

    pub(crate) fn restore(&mut self, checkpoint: &Payload) -> Result<()> {
        if let Payload::Phantom { .. } = checkpoint {
            return Ok(());
        }
        let mut rest = checkpoint.bytes()?.clone();
        let mut part = || {
            let malformed =
                || SystemError::malformed("a checkpoint", "it is shorter than its lengths state");
            let (length, _) = rest.split_first_chunk::<8>().ok_or_else(malformed)?;
            let length = u64::from_le_bytes(*length) as usize;
            if rest.len() - 8 < length {
                return Err(malformed());
            }
            let mut part = rest.split_to(8 + length);
            Ok(part.split_off(8))
        };
        self.parameters = Vector::decode(&part()?.into())?;
        self.statistics = Vector::decode(&part()?.into())?;
        self.optimizer = Optimizer::from_state(self.optimizer.spec(), &part()?)?;
        Ok(())
    }
}
