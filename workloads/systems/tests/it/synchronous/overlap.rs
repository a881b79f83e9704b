//! Parts of a gradient that are put while the rest is computed.

use std::ops::Range;

use async_trait::async_trait;
use epochcost_channels::ObjectStore;
use epochcost_systems::testing;
use epochcost_systems::{
    Batch, Compute, Evaluation, Fidelity, GradientOutput, HookedCompute, Job, Outcome, Result,
    SystemError, Vector,
};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::yield_now;

use super::absence::{channels, short_job, start_with};
use super::common::*;

/// What a worker does with the parts of its gradient.
#[derive(Clone, Copy, PartialEq)]
enum Course {
    /// Gives one, computes on until it is stored, and gives the one before it.
    Gated,
    /// Fails when all but the first were given.
    Fails,
    /// Gives none but the last.
    Forgets,
}

struct InParts {
    model: Box<dyn Compute>,
    objects: ObjectStore,
    course: Course,
}

impl InParts {
    async fn stored(&self, batch: &Batch, part: usize) {
        // Epochs of these jobs have three mini-batches.
        let step = 3 * batch.epoch + batch.index;
        let key = format!("minibatch_{step}_worker_{}.pt.{part}", batch.rank);
        while self.objects.get("gradients", &key).await.unwrap().is_none() {
            yield_now().await;
        }
    }
}

#[async_trait]
impl Compute for InParts {
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
        _parameters: &Vector,
        _statistics: &mut Vector,
        _batch: &Batch,
    ) -> Result<GradientOutput> {
        Err(SystemError::Compute("the whole was asked for".into()))
    }

    async fn gradient_in_parts(
        &mut self,
        parameters: &Vector,
        statistics: &mut Vector,
        batch: &Batch,
        cuts: &[Range<usize>],
        ready: UnboundedSender<(usize, Vector)>,
    ) -> Result<GradientOutput> {
        let output = self.model.gradient(parameters, statistics, batch).await?;
        for (part, cut) in cuts.iter().enumerate().rev() {
            match self.course {
                Course::Fails if part == 0 => {
                    return Err(SystemError::Compute("the device is gone".into()));
                }
                Course::Forgets if part + 1 < cuts.len() => continue,
                _ => {}
            }
            let values = output.gradient.slice(cut.clone())?;
            ready.send((part, values)).unwrap();
            if self.course == Course::Gated {
                self.stored(batch, part).await;
            }
        }
        Ok(output)
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

fn tuned(workers: usize) -> Job {
    let settings = json!({"parts": 4, "transfers_at_once": 16, "uploads_while_computing": true});
    Job {
        fidelity: Fidelity::Tuned,
        ..short_job("gpu_baseline", workers, settings)
    }
}

/// The workers' outcomes.
async fn run_in_parts(workers: usize, course: Course) -> Vec<Result<Outcome>> {
    let job = tuned(workers);
    let channels = channels(&job).await;
    let start = |rank| {
        let compute = InParts {
            model: testing::compute(),
            objects: channels.objects.clone(),
            course,
        };
        // A worker's model is wrapped like this, to meet faults.
        let compute = HookedCompute::boxed(Before(|_: &Batch| Ok(())), Box::new(compute));
        start_with(&job, &channels, rank, compute)
    };
    let mut outcomes = vec![];
    for worker in (0..workers).map(start).collect::<Vec<_>>() {
        outcomes.push(worker.await.unwrap());
    }
    outcomes
}

/// Each waits, while it computes, for its last part to be stored, then for the one before.
#[tokio::test]
async fn a_part_is_stored_while_the_gradient_is_computed() {
    for outcome in run_in_parts(2, Course::Gated).await {
        assert_eq!(outcome.unwrap(), Outcome::Finished);
    }
}

#[tokio::test]
async fn a_gradient_that_fails_or_lacks_parts_ends_the_worker() {
    for (course, expected) in [
        (Course::Fails, "the device is gone"),
        (Course::Forgets, "1 of a gradient's 4 parts"),
    ] {
        for outcome in run_in_parts(2, course).await {
            holds(outcome.unwrap_err(), &[expected]);
        }
    }
}

/// What is sent, and what comes of it, does not depend on when it is sent.
#[tokio::test]
async fn overlap_changes_no_bit_and_no_request() {
    for workers in WORKERS {
        let of = |fidelity, settings| job("gpu_baseline", fidelity, workers, settings);
        let paper = run(&of(Fidelity::Paper, json!({}))).await;
        let whole = json!({"uploads_while_computing": false});
        let whole = run(&of(Fidelity::Tuned, whole)).await;
        let tuned = run(&of(Fidelity::Tuned, json!({}))).await;
        assert_eq!(digests(&tuned), digests(&paper));
        assert_eq!(losses(&tuned), losses(&paper));
        assert_eq!(tuned.exchange(), whole.exchange());
        let left = keys(&tuned.channels, "gradients").await;
        assert_eq!(left, keys(&whole.channels, "gradients").await);
    }
}
