//! Workers that share the GPUs of this machine.

use epochcost_spec::rows::Row;
use epochcost_systems::{Device, Machines, find};

use super::worker::Gpu;
use crate::PlatformError;

/// Least memory of a CUDA context, MB: assumed, the low end of `serverless-gpu`'s constant.
const CONTEXT_MB: f64 = 200.0;

/// Vectors as long as the parameters that a step holds at least: parameters and gradient.
const VECTORS: usize = 2;

/// Refuses a row whose workers do not fit on the GPUs that they are dealt out over, even by the
/// least that each takes: a context, its parameters, their gradient and a batch.
///
/// # Errors
/// [`PlatformError::Lacks`] with the GPU and the remedy.
pub(super) fn check(row: &Row, gpus: &[Gpu]) -> Result<(), PlatformError> {
    let is_one_process =
        find(&row.job.system).is_some_and(|one| one.deployment().machines == Machines::Shared);
    if row.job.device != Device::Cuda || gpus.is_empty() {
        return Ok(());
    }
    let processes = if is_one_process { 1 } else { row.job.workers };
    let each_mb = least_mb(row);
    for (position, gpu) in gpus.iter().enumerate() {
        let Some(memory_mb) = gpu.memory_mb else {
            continue;
        };
        // Worker r has GPU r modulo their number.
        let sharing = row.jobs * ((processes + gpus.len() - 1 - position) / gpus.len());
        let needed_mb = sharing as f64 * each_mb;
        if needed_mb > memory_mb {
            return Err(PlatformError::Lacks {
                what: format!(
                    "memory of {} for {}: {sharing} of its workers share the GPU and take {needed_mb:.0} \
                     MB or more of {memory_mb:.0}",
                    gpu.name, row.id
                ),
                remedy:
                    "lower `workers` or `batch_size`, or list more GPUs in CUDA_VISIBLE_DEVICES"
                        .into(),
            });
        }
    }
    Ok(())
}

/// Returns the least memory of one worker, MB of 1,048,576 bytes.
fn least_mb(row: &Row) -> f64 {
    let sizes = row.sizes();
    let values = VECTORS * sizes.parameters
        + sizes.statistics
        + row.job.batch_size * row.job.data.record_bytes.saturating_sub(1);
    CONTEXT_MB + 4.0 * values as f64 / 1_048_576.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::tests::{job, row};
    use crate::testing::holds;

    /// Counted one by one: a row is refused if the workers of some GPU take more than it has.
    #[test]
    fn workers_are_counted_by_the_gpu_that_they_share() {
        let mut refused = 0;
        for (system, workers) in [
            ("spirt", 1),
            ("gpu_baseline", 5),
            ("allreduce", 9),
            ("mirrored", 9),
        ] {
            let mut row = row(&job());
            row.job.device = Device::Cuda;
            row.job.workers = workers;
            row.job.system = system.into();
            let each_mb = least_mb(&row);
            assert!(each_mb > CONTEXT_MB);
            for memories in [&[1.5][..], &[4.5], &[9.5], &[2.5, 3.5], &[3.5, 2.5, 0.5]] {
                let gpu = |least: &f64| Gpu {
                    name: "NVIDIA L4".into(),
                    memory_mb: Some(least * each_mb),
                };
                let gpus: Vec<Gpu> = memories.iter().map(gpu).collect();
                let processes = if system == "mirrored" { 1 } else { workers };
                let mut sharing = vec![0.0; gpus.len()];
                (0..processes).for_each(|rank| sharing[rank % gpus.len()] += 1.0);
                let mut pairs = sharing.iter().zip(memories);
                let fits = pairs.all(|(sharing, least)| sharing < least);
                let checked = check(&row, &gpus);
                let what = format!("{system} {workers} {memories:?}: {checked:?}");
                assert_eq!(checked.is_ok(), fits, "{what}");
                if let Err(error) = checked {
                    refused += 1;
                    holds(error, &["NVIDIA L4", "CUDA_VISIBLE_DEVICES"]);
                }
                row.job.device = Device::Cpu;
                assert!(check(&row, &gpus).is_ok());
                row.job.device = Device::Cuda;
            }
        }
        assert!(refused > 3);
        let software = Gpu {
            name: "software".into(),
            memory_mb: None,
        };
        assert!(check(&row(&job()), &[software]).is_ok());
    }
}
