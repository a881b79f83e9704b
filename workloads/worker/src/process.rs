//! Resources that this process uses, as the kernel counts them.

use std::fs;
use std::time::Duration;

use epochcost_systems::{Reading, Resources, process};
use rustix::time::{ClockId, clock_gettime};

/// The resources of this process: its CPU clock, and `/proc/self`.
///
/// The clock counts nanoseconds over all threads, those that ended included, where
/// `/proc/self/stat` has steps of 10 ms, longer than many a stage.
pub struct OwnProcess;

impl Resources for OwnProcess {
    fn read(&self) -> Option<Reading> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        Some(Reading {
            cpu: Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).ok()?,
            resident_mb: process::memory_kib(&status, "VmRSS:")? as f64 / 1024.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;

    use super::*;

    fn work(rounds: u64) -> u64 {
        (0..rounds).fold(0, |sum, number| sum ^ black_box(number))
    }

    #[test]
    fn this_process_uses_something() {
        let before = OwnProcess.read().unwrap();
        assert!(before.resident_mb > 1.0);
        black_box(work(100_000));
        assert!(OwnProcess.read().unwrap().cpu > before.cpu);
    }

    /// Work of less than a step of `/proc/self/stat`, by a thread that is gone afterwards,
    /// counts: no two readings are equal, and they never go back.
    #[test]
    fn threads_that_ended_count_in_less_than_ten_milliseconds() {
        let mut readings = vec![OwnProcess.read().unwrap().cpu];
        for _ in 0..50 {
            thread::spawn(|| black_box(work(1_000))).join().unwrap();
            readings.push(OwnProcess.read().unwrap().cpu);
        }
        assert!(readings.is_sorted_by(|a, b| a < b), "{readings:?}");
        let is_coarse = |cpu: &Duration| cpu.subsec_nanos().is_multiple_of(10_000_000);
        assert!(!readings.iter().all(is_coarse), "{readings:?}");
    }
}
