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
use crate::{Evaluation, Result, Stage, SystemError, World};

const BUCKET: &str = "validation";
const POLL: Duration = Duration::from_millis(100);
/// Bytes of a peer's result: loss (f64), correct and all samples (u64).
const RESULT_BYTES: usize = 24;

/// Data on which peers detect convergence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Validation {
    /// The whole validation split, by peer 0 for all.
    #[default]
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
    let own = match data::validation_share(world, epoch).await? {
        Some(share) => {
            let (parameters, statistics) = (&replica.parameters, &replica.statistics);
            world
                .compute
                .evaluate(parameters, statistics, &share)
                .await?
        }
        None => None,
    };
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
        let (parameters, statistics) = (&replica.parameters, &replica.statistics);
        world
            .evaluate_beside(parameters, statistics, epoch, pooled)
            .await?;
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
    let mut bytes = Vec::with_capacity(RESULT_BYTES);
    bytes.extend_from_slice(&own.loss.to_le_bytes());
    bytes.extend_from_slice(&(own.correct as u64).to_le_bytes());
    bytes.extend_from_slice(&(own.samples as u64).to_le_bytes());
    bytes.into()
}

fn decode(result: &Payload) -> Result<Option<Evaluation>> {
    let bytes = result.bytes()?;
    let (words, rest) = bytes.as_chunks::<8>();
    let (&[loss, correct, samples], []) = (words, rest) else {
        return Err(SystemError::Malformed {
            what: "a peer's validation".into(),
            reason: format!("it has {} bytes, not {RESULT_BYTES}", bytes.len()),
        });
    };
    let samples = u64::from_le_bytes(samples) as usize;
    Ok((samples > 0).then(|| Evaluation {
        loss: f64::from_le_bytes(loss),
        correct: u64::from_le_bytes(correct) as usize,
        samples,
    }))
}

/// Returns the result on all shares together, weighted by samples; `None` of none.
fn pool(shares: &[Evaluation]) -> Option<Evaluation> {
    if let [share] = shares {
        return Some(*share);
    }
    let samples: usize = shares.iter().map(|share| share.samples).sum();
    let weighted = |share: &Evaluation| share.loss * share.samples as f64;
    (samples > 0).then(|| Evaluation {
        loss: shares.iter().map(weighted).sum::<f64>() / samples as f64,
        correct: shares.iter().map(|share| share.correct).sum(),
        samples,
    })
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
