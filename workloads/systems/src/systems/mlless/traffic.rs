use std::collections::BTreeMap;

use epochcost_channels::Traffic;

use super::message::{FINISH_BYTES, REPORT_BYTES, START_BYTES, UPDATE_BYTES, barrier_bytes};
use super::update::encoded_bytes;
use super::{FinalModel, Settings};
use crate::mechanics::traffic::{gets, messages, puts, sum};
use crate::{Job, Sizes, StepRecord};

/// Updates that all workers sent in all steps of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Updates: ΣW_s, W_s being the workers that had one in step s.
    pub updates: u64,
    /// Bytes of the updates: ΣS.
    pub bytes: u64,
}

impl Sent {
    /// Every worker sends a whole update in every step.
    pub fn whole(job: &Job, settings: &Settings, sizes: Sizes) -> Self {
        let updates = (job.workers * job.epochs * job.batches_per_worker) as u64;
        let n = sizes.parameters as u64;
        Self {
            updates,
            bytes: updates * encoded_bytes(settings.form(), n, n),
        }
    }

    /// Sums up the density that each worker recorded in each step.
    pub fn recorded(
        settings: &Settings,
        sizes: Sizes,
        densities: impl IntoIterator<Item = f64>,
    ) -> Self {
        let form = settings.form();
        let n = sizes.parameters as u64;
        let mut sent = Self::default();
        for density in densities {
            let entries = (density * n as f64).round() as u64;
            if entries > 0 {
                sent.updates += 1;
                sent.bytes += encoded_bytes(form, entries, n);
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
/// announcement is delivered to it too, like any other. Slack changes nothing: a worker
/// that runs ahead reads every announcement, update and barrier by the end, and none twice.
pub fn traffic(job: &Job, settings: &Settings, sizes: Sizes, sent: Sent) -> Traffic {
    let w = job.workers as u64;
    let steps = (job.epochs * job.batches_per_worker) as u64;
    sum([
        messages(1, w, START_BYTES),
        of_steps(settings, sent, steps, w, barrier_bytes(job.workers)),
        final_mean(settings, w, w, sizes.gradient_bytes()),
    ])
}

/// Updates and barriers of so many steps, of `a` workers each.
fn of_steps(settings: &Settings, sent: Sent, steps: u64, a: u64, barrier: u64) -> Traffic {
    let readers = a.saturating_sub(u64::from(!settings.reads_own_update));
    let updates = Traffic {
        puts: sent.updates,
        gets: readers * sent.updates,
        bytes_up: sent.bytes,
        bytes_down: readers * sent.bytes,
        ..Traffic::default()
    };
    sum([
        updates,
        messages(sent.updates, a * sent.updates, UPDATE_BYTES),
        messages(steps * a, steps * a, REPORT_BYTES),
        messages(steps, steps * a, barrier),
    ])
}

/// The final mean, if there is one, of the `left` of `w` workers that have not left.
fn final_mean(settings: &Settings, left: u64, w: u64, p: u64) -> Traffic {
    if settings.final_model != FinalModel::Mean {
        return Traffic::default();
    }
    let (peers, models) = (left.saturating_sub(1), w.saturating_sub(1));
    sum([
        puts(peers, p),
        gets(models, p),
        messages(peers, peers, UPDATE_BYTES),
    ])
}

/// Traffic of a trial in which workers left or training ended early, from the steps that
/// workers recorded: in step s A_s workers take part, W_s of them with an update.
///
/// | | puts | gets | messages | deliveries | up | down |
/// | --- | --- | --- | --- | --- | --- | --- |
/// | start, once | | | 1 | W | start | W·start |
/// | updates of step s | W_s | (A_s − 1)W_s | W_s | A_sW_s | S_s + UW_s | (A_s − 1)S_s + A_sUW_s |
/// | barrier of step s | | | A_s + 1 | 2A_s | A_sI + C | A_s(I + C) |
/// | a worker leaves | 1 | A_s − 1 | 2 | 2A_s − 1 | P + 2U | (A_s − 1)P + (2A_s − 1)U |
/// | an end before its time | | | 1 | A | F | AF |
/// | final mean of A, once | A − 1 | W − 1 | A − 1 | A − 1 | (A − 1)(P + U) | (W − 1)P + (A − 1)U |
///
/// A worker that downloads its own update makes the updates' A_s − 1 an A_s.
pub(super) fn of_course(
    job: &Job,
    settings: &Settings,
    sizes: Sizes,
    steps: &[&StepRecord],
) -> Traffic {
    let (w, p) = (job.workers as u64, sizes.gradient_bytes());
    let barrier = barrier_bytes(job.workers);
    // Densities of each step, by epoch and place in it: one per worker.
    let mut by_step: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for step in steps {
        if let (Some(batch), Some(density)) = (step.batch, step.update_density) {
            by_step
                .entry((step.epoch, batch))
                .or_default()
                .push(density);
        }
    }
    let alive: Vec<u64> = by_step
        .values()
        .map(|densities| densities.len() as u64)
        .collect();

    let mut total = messages(1, w, START_BYTES);
    // Updates and barriers.
    for densities in by_step.values() {
        let sent = Sent::recorded(settings, sizes, densities.iter().copied());
        total += of_steps(settings, sent, 1, densities.len() as u64, barrier);
    }
    // Workers that left.
    for pair in alive.windows(2).filter(|pair| pair[1] < pair[0]) {
        let others = pair[0] - 1;
        total += sum([
            puts(1, p),
            gets(others, p),
            messages(2, pair[0] + others, UPDATE_BYTES),
        ]);
    }
    // An end before its time.
    let left = alive.last().copied().unwrap_or(w);
    if settings.may_stop() && !is_natural_end(job, &by_step, left) {
        total += messages(1, left, FINISH_BYTES);
    }
    total += final_mean(settings, left, w, p);
    total
}

/// Whether the last step is that of the last epoch, after which fewer mini-batches are left
/// than workers.
fn is_natural_end(job: &Job, by_step: &BTreeMap<(usize, usize), Vec<f64>>, left: u64) -> bool {
    let last = job.epochs.saturating_sub(1);
    let of_last = by_step.iter().filter(|((epoch, _), _)| *epoch == last);
    let taken: u64 = of_last.map(|(_, densities)| densities.len() as u64).sum();
    taken > 0 && taken + left > (job.workers * job.batches_per_worker) as u64
}
