//! Computation that takes the time that a compute profile gives.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use async_trait::async_trait;
use epochcost_systems::{Batch, Compute, Device, Evaluation, GradientOutput, Result, Vector};

use crate::functions::Trial;
use crate::gpus::GpuWork;
use crate::profile::ModelCost;
use crate::station::Station;

/// A model of which only sizes and durations exist, or a real one whose
/// durations are the profile's.
pub(crate) struct ModelledCompute {
    pub(crate) trial: Arc<Trial>,
    pub(crate) station: Arc<Station>,
    /// Whether this sandbox has built the model already.
    pub(crate) is_built: Arc<AtomicBool>,
    pub(crate) real: Option<Box<dyn Compute>>,
}

impl ModelledCompute {
    fn samples(&self, batch: &Batch) -> usize {
        let record_bytes = self.trial.simulation.job.data.record_bytes;
        batch.records.len() as usize / record_bytes.max(1)
    }

    fn cost(&self) -> &ModelCost {
        &self.trial.simulation.cost
    }

    /// Returns a vector of as many elements as the model has parameters, without values.
    fn phantom(&self) -> Vector {
        let len = self.parameters();
        Vector::Phantom { len }
    }

    async fn build(&self) {
        if !self.is_built.swap(true, Ordering::Relaxed) {
            // One thread builds it.
            let core_s = self.cost().build_s;
            let seconds = core_s / self.station.vcpus().min(1.0);
            self.station.compute(core_s, seconds).await;
        }
    }

    /// Waits for the time of a batch's step.
    async fn pass(&self, batch: &Batch) {
        self.build().await;
        let samples = self.samples(batch);
        self.station.held.note_step(samples);
        if self.cost().device == Device::Cuda {
            let work = self.work(self.station.rank(), samples);
            return self.station.compute_on(&self.trial.gpus, work).await;
        }
        let core_s = self.cost().step_s(samples, 1.0);
        let seconds = self.cost().step_s(samples, self.station.vcpus());
        self.station.compute(core_s, seconds).await;
    }

    /// Returns the step of so many samples on the GPU of worker `rank`.
    fn work(&self, rank: usize, samples: usize) -> GpuWork {
        GpuWork {
            rank,
            shares: self.station.spec.shares_gpu,
            seconds: self.cost().step_s(samples, 1.0),
            busy_s: samples as f64 * self.cost().sample_s,
            memory_mb: self.cost().peak_mb(samples),
        }
    }

    /// Returns the real model's gradient, or one of which only the size exists.
    fn computed_gradient(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput> {
        match &mut self.real {
            Some(real) => at_once(real.gradient(parameters, statistics, batch)),
            None => Ok(GradientOutput {
                loss: None,
                gradient: self.phantom(),
            }),
        }
    }
}

#[async_trait]
impl Compute for ModelledCompute {
    fn parameters(&self) -> usize {
        self.trial.simulation.sizes.parameters
    }

    fn statistics(&self) -> usize {
        self.trial.simulation.sizes.statistics
    }

    async fn initial_parameters(&mut self, seed: u64) -> Result<Vector> {
        self.build().await;
        match &mut self.real {
            Some(real) => at_once(real.initial_parameters(seed)),
            None => Ok(self.phantom()),
        }
    }

    fn initial_statistics(&self) -> Vector {
        match &self.real {
            Some(real) => real.initial_statistics(),
            None => Vector::Phantom {
                len: self.trial.simulation.sizes.statistics,
            },
        }
    }

    async fn gradient(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
    ) -> Result<GradientOutput> {
        self.pass(batch).await;
        self.computed_gradient(parameters, statistics, batch)
    }

    /// Computes all gradients in the time of one on GPUs, of which each batch has its
    /// own; in the time of one after another on CPUs, which are shared.
    async fn gradients(
        &mut self,
        parameters: &Vector,
        statistics: &mut [Vector],
        batches: &[Batch],
    ) -> Result<Vec<GradientOutput>> {
        let mut outputs = Vec::with_capacity(batches.len());
        self.station.note_replicas(batches.len());
        let paid = match self.cost().device {
            Device::Cuda => batches.len().min(1),
            Device::Cpu => batches.len(),
        };
        for (index, (statistics, batch)) in statistics.iter_mut().zip(batches).enumerate() {
            if index < paid {
                self.pass(batch).await;
            } else if self.cost().device == Device::Cuda {
                // The replicas of one process compute side by side, on a GPU each.
                self.trial.gpus.note(&self.work(index, self.samples(batch)));
            }
            outputs.push(self.computed_gradient(parameters, statistics, batch)?);
        }
        Ok(outputs)
    }

    async fn evaluate(
        &mut self,
        parameters: &Vector,
        statistics: &Vector,
        test: &Batch,
    ) -> Result<Option<Evaluation>> {
        let samples = self.samples(test);
        let core_s = self.cost().evaluate_s(samples, 1.0);
        let seconds = self.cost().evaluate_s(samples, self.station.vcpus());
        match self.cost().device {
            Device::Cuda => {
                let work = GpuWork {
                    seconds,
                    busy_s: seconds,
                    ..self.work(self.station.rank(), 0)
                };
                self.station.compute_on(&self.trial.gpus, work).await;
            }
            Device::Cpu => self.station.compute(core_s, seconds).await,
        }
        match &mut self.real {
            Some(real) => at_once(real.evaluate(parameters, statistics, test)),
            None => {
                let recorded = self.trial.recorded.as_ref();
                let found = recorded
                    .and_then(|recorded| recorded.evaluation(test.index, test.rank, test.epoch));
                // Of shares of a split, the result of all was recorded: the first share gives it.
                let is_share = |found: &Evaluation| samples < found.samples;
                Ok(found.filter(|found| test.rank == 0 || !is_share(found)))
            }
        }
    }

    fn recorded_density(&self, epoch: usize, batch: Option<usize>) -> Option<f64> {
        self.trial
            .recorded
            .as_ref()?
            .density(self.station.rank(), epoch, batch)
    }
}

/// Blocks until a real computation ends, while virtual time stands still: another
/// thread may do the work, outside the event queue.
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // A runtime's task has a budget, which would not be renewed here.
    let mut future = pin!(tokio::task::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
