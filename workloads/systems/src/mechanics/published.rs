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
    OptimizerSpec::Sgd(Sgd {
        learning_rate: 0.01,
        momentum: 0.9,
        weight_decay: 5e-4,
    })
}

/// SGD as in LambdaML's own deep-learning jobs.
pub(crate) fn plain_sgd() -> OptimizerSpec {
    OptimizerSpec::Sgd(Sgd {
        learning_rate: 0.01,
        momentum: 0.0,
        weight_decay: 0.0,
    })
}

const LOG_BUCKET: &str = "cnn-logs";

/// Writes a log line as the comparison paper's code does: the whole log object
/// is read from the store, grown by a line and written again.
pub(crate) async fn log_line(world: &World, text: &str) -> Result<()> {
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
