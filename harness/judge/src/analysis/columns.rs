//! The columns of Barrak et al. 2025, Table 2: an epoch's seconds and cost, by
//! mini-batch, by worker and in all.
//!
//! The table takes each mini-batch of a worker for a function of its own and
//! adds them up as if they ran one after another, SPIRT's parallel ones too.
//! Functions that compute no mini-batch (SPIRT's other stages, MLLess's
//! supervisor) and everything but their run time are left out. Of peers, the
//! columns are those of Barrak et al. 2023 (P2P), Tables II and III.

use epochcost_systems::{Host, Job, PaperAccount, find};

use epochcost_spec::cost::{self, PriceBook, PriceBookError, Usage};
use epochcost_spec::metering::Invocation;
use epochcost_spec::rows::Row;

/// The table's figures of one trial, a mean over its epochs; null where the
/// trial does not have them, or the table has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Columns {
    /// Seconds of a mini-batch.
    pub seconds_per_batch: Option<f64>,
    /// `seconds_per_batch` times the mini-batches per worker and epoch.
    pub total_seconds: Option<f64>,
    /// Cost of a mini-batch's function; null on instances.
    pub cost_per_function_usd: Option<f64>,
    /// Cost of a worker's mini-batches, or of its instance.
    pub cost_per_worker_usd: Option<f64>,
    /// Cost of all workers, or of the one machine that they share.
    pub total_cost_usd: Option<f64>,
}

impl Columns {
    /// Returns the columns of a trial whose epochs take `seconds_per_epoch` of
    /// wall time, `gradients_s` of them to compute a worker's gradients.
    ///
    /// # Errors
    /// When the price book lacks a price.
    pub fn new(
        row: &Row,
        host: Host,
        [seconds_per_epoch, gradients_s]: [Option<f64>; 2],
        usage: &Usage<'_>,
        prices: &PriceBook,
    ) -> Result<Self, PriceBookError> {
        let (job, memory_mb) = (&row.job, row.memory_mb);
        if usage.paper_account == PaperAccount::PeerToPeer {
            return of_peers(row, gradients_s, usage, prices);
        }
        let batches = job.batches_per_worker as f64;
        let of_functions = mean_batch_s(&usage.invocations);
        let Some(seconds) = of_functions.or(seconds_per_epoch.map(|epoch| epoch / batches)) else {
            return Ok(Self::default());
        };
        let (cost_per_function, cost_per_worker) = match host {
            Host::Function => {
                let usd =
                    cost::function_usd(seconds, memory_mb, usage.rates.function_price, prices)?;
                (Some(usd), usd * batches)
            }
            Host::Instance => {
                let epoch = seconds * batches;
                let usd = cost::instance_usd(epoch, usage.instance_type, prices)?;
                (None, usd)
            }
        };
        Ok(Self {
            seconds_per_batch: Some(seconds),
            total_seconds: Some(seconds * batches),
            cost_per_function_usd: cost_per_function,
            cost_per_worker_usd: Some(cost_per_worker),
            total_cost_usd: Some(cost_per_worker * machines(&job.system, job.workers) as f64),
        })
    }
}

/// Returns the number of functions or instances that train side by side for
/// `workers` workers.
fn machines(system: &str, workers: usize) -> usize {
    let machines = find(system).map(|system| system.deployment().machines);
    machines.map_or(workers, |machines| machines.count(workers))
}

/// Returns what seconds of all steps are divided by, so that they are those of
/// one worker, or of the machine that all share, in one epoch.
pub fn machine_epochs(job: &Job) -> f64 {
    (machines(&job.system, job.workers) * job.epochs) as f64
}

/// Returns the columns of the P2P paper's Tables II and III, which price the
/// phase in which a peer's gradients are computed: (λ·B + e)·T.
fn of_peers(
    row: &Row,
    gradients_s: Option<f64>,
    usage: &Usage<'_>,
    prices: &PriceBook,
) -> Result<Columns, PriceBookError> {
    let Some(seconds) = gradients_s else {
        return Ok(Columns::default());
    };
    let (job, account) = (&row.job, usage.paper_account);
    let of_batches = usage.invocations.iter().filter(|call| call.batch.is_some());
    let functions = of_batches.map(|call| call.alike).sum::<u64>() as f64 / machine_epochs(job);
    let rate = cost::function_rate_usd(account, row.memory_mb, usage.rates.function_price, prices)?;
    let instance = cost::instance_usd(seconds, usage.instance_type, prices)?;
    let peer = rate * functions * seconds + instance;
    let of_functions = mean_batch_s(&usage.invocations);
    Ok(Columns {
        seconds_per_batch: of_functions.or(Some(seconds / job.batches_per_worker as f64)),
        total_seconds: Some(seconds),
        cost_per_function_usd: (functions > 0.0).then_some(rate * seconds),
        cost_per_worker_usd: Some(peer),
        total_cost_usd: Some(peer * machines(&job.system, job.workers) as f64),
    })
}

/// Returns the mean duration of the functions that compute one mini-batch each;
/// none where workers compute theirs in one long invocation.
fn mean_batch_s(invocations: &[&Invocation]) -> Option<f64> {
    let of_batches = invocations.iter().filter(|call| call.batch.is_some());
    let (seconds, calls) = of_batches.fold((0.0, 0), |(seconds, calls), call| {
        let alike = call.duration_ms / 1e3 * call.alike as f64;
        (seconds + alike, calls + call.alike)
    });
    (calls > 0).then(|| seconds / calls as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_share_a_machine_are_one() {
        assert_eq!(machines("allreduce", 4), 4);
        assert_eq!(machines("mirrored", 4), 1);
    }
}
