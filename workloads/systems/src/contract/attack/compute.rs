use std::collections::VecDeque;
use std::ops::Range;

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedSender;

use super::{Attack, AttackKind, KNOWN, Known};
use crate::{Batch, Compute, Evaluation, GradientOutput, Job, Result, Vector};

/// A model whose gradients are those that an attacker sends, where its worker is one.
pub(crate) struct AttackedCompute {
    attack: Attack,
    job: Job,
    model: Box<dyn Compute>,
    /// Whether only labels are changed here, and the system does the rest.
    is_left_to_system: bool,
    /// Own gradients under attack, the latest last: of [`AttackKind::Replayed`] the first
    /// only.
    own: VecDeque<Vec<f32>>,
}

impl AttackedCompute {
    pub(super) fn new(attack: Attack, job: Job, model: Box<dyn Compute>) -> Self {
        Self {
            attack,
            job,
            model,
            is_left_to_system: false,
            own: VecDeque::new(),
        }
    }

    fn attacks(&self, worker: usize, batch: &Batch) -> bool {
        self.attack.is_by(worker, batch.epoch, self.job.workers)
    }

    /// Returns the batch that `worker` computes with.
    fn computed(&self, worker: usize, batch: &Batch) -> Result<Batch> {
        if self.attacks(worker, batch) {
            return self.attack.batch(&self.job, batch);
        }
        Ok(batch.clone())
    }

    /// Returns what `worker` sends instead of the gradient of `batch`. Of a gradient without
    /// values there is nothing to change.
    fn sent(&mut self, worker: usize, batch: &Batch, gradient: Vector) -> Result<Vector> {
        let Vector::Real(own) = gradient else {
            return Ok(gradient);
        };
        if self.is_left_to_system || !self.attacks(worker, batch) {
            return Ok(Vector::Real(own));
        }
        // What was sent before, and what passes for the gradients of others.
        let earlier = self.own.back().cloned();
        let is_kept = self.attack.kind != AttackKind::Replayed || self.own.is_empty();
        if is_kept {
            self.own.push_back(own.clone());
        }
        if self.own.len() > KNOWN {
            self.own.pop_front();
        }
        let honest: Vec<&[f32]> = self.own.iter().map(Vec::as_slice).collect();
        let known = Known {
            own: &own,
            honest: &honest,
            earlier: earlier.as_deref(),
            at: [worker, batch.epoch, batch.index],
        };
        self.attack.sent(&self.job, &known).map(Vector::Real)
    }
}

#[async_trait]
impl Compute for AttackedCompute {
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
        let computed = self.computed(batch.rank, batch)?;
        let model = &mut self.model;
        let output = model.gradient(parameters, statistics, &computed).await?;
        let gradient = self.sent(batch.rank, batch, output.gradient)?;
        Ok(GradientOutput { gradient, ..output })
    }

    /// An attacker knows no part of its message before the whole gradient.
    async fn gradient_in_parts(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
        cuts: &[Range<usize>],
        ready: UnboundedSender<(usize, Vector)>,
    ) -> Result<GradientOutput> {
        if !self.attacks(batch.rank, batch) {
            let model = &mut self.model;
            let parts = model.gradient_in_parts(parameters, statistics, batch, cuts, ready);
            return parts.await;
        }
        let output = self.gradient(parameters, statistics, batch).await?;
        output.send_parts(cuts, &ready)?;
        Ok(output)
    }

    /// Batches of as many replicas as there are workers are theirs, in order; other batches
    /// name their worker.
    async fn gradients(
        &mut self,
        parameters: &Vector,
        statistics: &mut [Vector],
        batches: &[Batch],
    ) -> Result<Vec<GradientOutput>> {
        let are_replicas = batches.len() == self.job.workers;
        let positions = batches.iter().enumerate();
        let of_workers = positions
            .map(|(position, batch)| (if are_replicas { position } else { batch.rank }, batch));
        let computed: Result<Vec<Batch>> = (of_workers.clone())
            .map(|(worker, batch)| self.computed(worker, batch))
            .collect();
        let model = &mut self.model;
        let computed = computed?;
        let outputs = model.gradients(parameters, statistics, &computed).await?;
        let sent = of_workers.zip(outputs);
        let sent = sent.map(|((worker, batch), output)| {
            let gradient = self.sent(worker, batch, output.gradient)?;
            Ok(GradientOutput { gradient, ..output })
        });
        sent.collect()
    }

    async fn evaluate(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>> {
        self.model.evaluate(parameters, statistics, test).await
    }

    fn recorded_density(&self, epoch: usize, batch: Option<usize>) -> Option<f64> {
        self.model.recorded_density(epoch, batch)
    }

    fn leave_attack_to_system(&mut self) {
        self.is_left_to_system = true;
    }
}
