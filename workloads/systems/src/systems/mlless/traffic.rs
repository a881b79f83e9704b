use epochcost_channels::Traffic;

use super::message::{REPORT_BYTES, START_BYTES, UPDATE_BYTES, barrier_bytes};
use super::update::encoded_bytes;
use super::{Encoding, Filter, FinalModel, Settings};
use crate::{Job, Sizes};

/// Updates that all workers sent in all steps of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Updates: ΣW_s, W_s being the workers that had one in step s.
    pub updates: u64,
    /// Bytes of the updates: ΣS.
    pub bytes: u64,
}

impl Sent {
    /// Every worker sends a whole, dense update in every step.
    pub fn dense(job: &Job, sizes: Sizes) -> Self {
        let updates = (job.workers * job.epochs * job.batches_per_worker) as u64;
        Self {
            updates,
            bytes: updates * sizes.gradient_bytes(),
        }
    }

    /// Sums up the density that each worker recorded in each step.
    pub fn recorded(
        settings: &Settings,
        sizes: Sizes,
        densities: impl IntoIterator<Item = f64>,
    ) -> Self {
        let encoding = match settings.filter {
            Filter::PerParameter => settings.encoding,
            Filter::Norm | Filter::None => Encoding::Dense,
        };
        let n = sizes.parameters as u64;
        let mut sent = Self::default();
        for density in densities {
            let entries = (density * n as f64).round() as u64;
            if entries > 0 {
                sent.updates += 1;
                sent.bytes += encoded_bytes(encoding, entries, n);
            }
        }
        sent
    }
}

/// Traffic of one trial, exactly: W workers, E·B steps, W_s of them with an
/// update in step s, ΣS bytes of updates in all; U, I, C and start are the
/// sizes of messages ([`UPDATE_BYTES`], [`REPORT_BYTES`], [`barrier_bytes`],
/// [`START_BYTES`]).
///
/// | | puts | gets | messages | deliveries | up | down |
/// | --- | --- | --- | --- | --- | --- | --- |
/// | start, once | | | 1 | W | start | W·start |
/// | updates | ΣW_s | (W − 1)ΣW_s | ΣW_s | WΣW_s | ΣS + UΣW_s | (W − 1)ΣS + WUΣW_s |
/// | barriers | | | EB(W + 1) | 2EBW | EB(WI + C) | EBW(I + C) |
/// | final mean, once | W − 1 | W − 1 | W − 1 | W − 1 | (W − 1)(P + U) | (W − 1)(P + U) |
///
/// A worker that downloads its own update makes the updates' W − 1 a W. The
/// last line is only there with [`FinalModel::Mean`]. A worker's own
/// announcement is delivered to it too, like any other.
pub fn traffic(job: &Job, settings: &Settings, sizes: Sizes, sent: Sent) -> Traffic {
    let w = job.workers as u64;
    let steps = (job.epochs * job.batches_per_worker) as u64;
    let barrier = barrier_bytes(job.workers);
    let readers = if settings.reads_own_update {
        w
    } else {
        w.saturating_sub(1)
    };

    // Start.
    let mut total = Traffic {
        messages: 1,
        deliveries: w,
        bytes_up: START_BYTES,
        bytes_down: w * START_BYTES,
        ..Traffic::default()
    };
    // Updates.
    total += Traffic {
        puts: sent.updates,
        gets: readers * sent.updates,
        messages: sent.updates,
        deliveries: w * sent.updates,
        bytes_up: sent.bytes + UPDATE_BYTES * sent.updates,
        bytes_down: readers * sent.bytes + w * UPDATE_BYTES * sent.updates,
        ..Traffic::default()
    };
    // Barriers.
    total += Traffic {
        messages: steps * (w + 1),
        deliveries: 2 * steps * w,
        bytes_up: steps * (w * REPORT_BYTES + barrier),
        bytes_down: steps * w * (REPORT_BYTES + barrier),
        ..Traffic::default()
    };
    // Final mean.
    if settings.final_model == FinalModel::Mean {
        let peers = w.saturating_sub(1);
        let bytes = peers * (sizes.gradient_bytes() + UPDATE_BYTES);
        total += Traffic {
            puts: peers,
            gets: peers,
            messages: peers,
            deliveries: peers,
            bytes_up: bytes,
            bytes_down: bytes,
            ..Traffic::default()
        };
    }
    total
}
