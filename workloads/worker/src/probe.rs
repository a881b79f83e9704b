//! Probes of a sandbox's limits (`--probe cpu`, `memory` or `storage`): the worker takes
//! as much of one resource as it can, and the platform checks whether its limit holds.

use std::fs::File;
use std::io::Write;
use std::{env, hint, thread};

use crate::faults;
use crate::host::WorkerError;
use crate::lifeline;
use crate::output::Output;

/// Content of one write to a file.
static BLOCK: [u8; 1 << 20] = [1; 1 << 20];

/// Takes the resource `what` until the platform ends this process or no more is left.
///
/// # Errors
/// [`WorkerError`] when there is no such resource, or it has no limit.
pub async fn run(what: Option<&str>) -> Result<(), WorkerError> {
    lifeline::watch_if_piped();
    match what {
        Some("cpu") => burn(),
        Some("memory") => {
            let taken = faults::allocate().await;
            // Allocation returns only where the platform does not limit memory.
            taken.map_err(WorkerError::System)
        }
        Some("storage") => fill(),
        _ => Err(WorkerError::Usage("--probe".to_owned())),
    }
}

/// Computes on every core until the process is ended.
fn burn() -> Result<(), WorkerError> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for _ in 1..cores {
        // On as many as can be had.
        let _ = thread::Builder::new().spawn(spin);
    }
    spin()
}

fn spin() -> ! {
    let mut number = 0u64;
    loop {
        number = hint::black_box(
            number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
    }
}

/// Writes a file until it cannot grow or has 16 GiB, and prints its size.
fn fill() -> Result<(), WorkerError> {
    const MOST_MB: u64 = 16_384;
    let path = env::temp_dir().join("probe");
    let mut file = File::create(&path)?;
    let mut written_mb = 0;
    while written_mb < MOST_MB && file.write_all(&BLOCK).is_ok() {
        written_mb += 1;
    }
    Output.line(&format!("{written_mb} MB written"));
    Ok(std::fs::remove_file(path)?)
}
