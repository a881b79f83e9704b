//! What the publications of several systems share: who describes them, their
//! optimizers, and habits of the published code.

use epochcost_channels::Payload;
use epochcost_kernels::optimizer::{OptimizerSpec, Sgd};

use crate::{Result, World};

/// Publication that describes a system that two publications have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Barrak et al. 2025, which compares it.
    Comparison,
    /// Jiang et al. 2021, where it is from.
    LambdaMl,
}

impl Source {
    pub(crate) fn optimizer(self) -> OptimizerSpec {
        match self {
            Self::Comparison => published_sgd(),
            Self::LambdaMl => plain_sgd(),
        }
    }
}

/// Description of the original systems.
pub(crate) const ORIGINAL: &str = "Jiang et al. 2021 themselves: plain SGD, gradients or models \
    averaged. code: checkpoints after three epochs, listings of 1,000 keys at most";

/// Epochs after which a published worker re-invokes itself.
pub(crate) const EPOCHS_PER_INVOCATION: usize = 3;

/// SGD as in LambdaML's archived CNN handlers, inherited by the comparison paper.
pub(crate) fn published_sgd() -> OptimizerSpec {
    sgd(0.01, 0.9, 5e-4)
}

/// SGD as in LambdaML's own deep-learning jobs.
pub(crate) fn plain_sgd() -> OptimizerSpec {
    sgd(0.01, 0.0, 0.0)
}

pub(crate) fn sgd(learning_rate: f64, momentum: f64, weight_decay: f64) -> OptimizerSpec {
    OptimizerSpec::Sgd(Sgd {
        learning_rate,
        momentum,
        weight_decay,
    })
}

const LOG_BUCKET: &str = "cnn-logs";

/// Writes a log line as the comparison paper's code does: the whole log object
/// is read from the store, grown by a line and written again.
async fn log_line(world: &World, text: &str) -> Result<()> {
    let key = format!("log_{}.txt", world.rank());
    let line = format!("worker {}: {text}\n", world.rank());
    let before = world.state.objects.get(LOG_BUCKET, &key).await?;
    let after = match before {
        None => Payload::from(line.into_bytes()),
        Some(phantom @ (Payload::Phantom { .. } | Payload::Headed { .. })) => Payload::Phantom {
            bytes: phantom.len() + line.len() as u64,
        },
        Some(Payload::Bytes(bytes)) => {
            let mut log = bytes.to_vec();
            log.extend_from_slice(line.as_bytes());
            log.into()
        }
    };
    world.state.objects.put(LOG_BUCKET, &key, after).await?;
    Ok(())
}

/// Writes log lines, if a worker `rewrites_log`. The published versions write five or six lines per
/// step; two are written at each of the three places where this is called.
pub(crate) async fn log(world: &World, rewrites_log: bool, text: &str) -> Result<()> {
    if rewrites_log {
        log_line(world, text).await?;
        log_line(world, text).await?;
    }
    Ok(())
}
