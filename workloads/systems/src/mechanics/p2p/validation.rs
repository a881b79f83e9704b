//! Convergence of peers: on the job's validation split, or on a share of it that each peer
//! holds out of its own data (Algorithm 1 of the P2P paper).

use std::time::Duration;

use epochcost_channels::Payload;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::data;
use crate::mechanics::continuation::follow_together;
use crate::mechanics::monitor::Monitor;
use crate::mechanics::polling::Purpose;
use crate::mechanics::replica::Replica;
use crate::mechanics::wire::{Reader, Writer};
use crate::{Evaluation, Result, Stage, SystemError, World};

const BUCKET: &str = "validation";
const POLL: Duration = Duration::from_millis(100);
/// Bytes of a peer's result: loss (f64), correct and all samples (u64).
const RESULT_BYTES: usize = 24;
/// Such a result, in words.
const WHAT: &str = "a peer's validation";

/// Data on which peers detect convergence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// The whole validation split, by peer 0 for all.
    Job,
    /// Each peer's own share of the validation split, which is disjoint from the others' as
    /// its training data is: all peers pool their results, and decide alike. Without a
    /// validation split, or where peers do not wait for each other, as `job`.
    OwnShare,
}

fn key(epoch: usize, rank: usize) -> String {
    format!("{epoch}_{rank}")
}

/// Evaluates the model after `epoch` where the job says so, and follows the loss with all
/// peers.
pub(crate) async fn detect_convergence(
    world: &mut World,
    rule: Validation,
    monitor: &mut Option<Monitor>,
    replica: &mut Replica,
    epoch: usize,
) -> Result<()> {
    world.enter(Stage::DetectConvergence);
    let job = &world.task.job;
    let is_evaluated = job.evaluates_after(epoch);
    if rule == Validation::Job || job.data.validation_samples == 0 {
        let mut loss = None;
        if is_evaluated {
            loss = replica.evaluate(world, epoch).await?;
        }
        return follow_together(world, monitor, replica, loss, epoch).await;
    }
    if !is_evaluated {
        return Ok(());
    }
    // Evaluate the own share, and give the result to all.
    let share = data::validation_share(world, epoch).await?;
    let (parameters, statistics) = (&replica.parameters, &replica.statistics);
    let own = world.evaluate_on(parameters, statistics, share).await?;
    let state = world.state.objects.clone();
    let own_key = key(epoch, world.rank());
    state.put(BUCKET, &own_key, encode(own)).await?;
    // Pool the results of all.
    let mut shares = Vec::with_capacity(world.workers());
    for rank in 0..world.workers() {
        let waiting = world.waiting(format!("validation of peer {rank}"), POLL, None);
        let result = world
            .await_object(Purpose::State, BUCKET, &key(epoch, rank), waiting)
            .await?;
        shares.extend(decode(&result)?);
    }
    world.enter(Stage::DetectConvergence);
    let pooled = pool(&shares);
    if world.rank() == 0 {
        let evaluated = world.evaluate_beside(parameters, statistics, epoch, pooled);
        evaluated.await?;
    }
    if let Some(monitor) = monitor {
        monitor.follow(pooled.map(|pooled| pooled.loss));
        replica.obey(monitor);
    }
    Ok(())
}

/// A peer's result; nothing evaluated is 0 samples.
fn encode(own: Option<Evaluation>) -> Payload {
    let own = own.unwrap_or(Evaluation {
        loss: 0.0,
        correct: 0,
        samples: 0,
    });
    Writer::default().evaluation(own).into()
}

fn decode(result: &Payload) -> Result<Option<Evaluation>> {
    let length = result.bytes()?.len();
    if length != RESULT_BYTES {
        let reason = format!("it has {length} bytes, not {RESULT_BYTES}");
        return Err(SystemError::malformed(WHAT, reason));
    }
    let own = Reader::new(result, WHAT)?.evaluation()?;
    Ok((own.samples > 0).then_some(own))
}

/// Returns the result on all shares together, weighted by samples; `None` of none.
fn pool(shares: &[Evaluation]) -> Option<Evaluation> {
    match shares {
        [share] => Some(*share),
        _ => Evaluation::together(shares),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn share(loss: f64, correct: usize, samples: usize) -> Evaluation {
        Evaluation {
            loss,
            correct,
            samples,
        }
    }

    #[test]
    fn results_survive_and_nothing_evaluated_is_nothing() {
        let own = share(0.25, 3, 7);
        assert_eq!(decode(&encode(Some(own))).unwrap(), Some(own));
        assert_eq!(decode(&encode(None)).unwrap(), None);
        assert_eq!(encode(Some(own)).len(), RESULT_BYTES as u64);
        assert!(decode(&vec![0; 23].into()).is_err());
    }

    #[test]
    fn shares_count_by_their_samples() {
        assert_eq!(pool(&[]), None);
        let pooled = pool(&[share(1.0, 1, 1), share(4.0, 2, 3)]).unwrap();
        assert_eq!(pooled, share(3.25, 3, 4));
    }
}
