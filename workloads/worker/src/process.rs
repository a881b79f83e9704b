//! Resources that this process uses, as the kernel counts them.

use std::fs;

use epochcost_systems::{Reading, Resources, process};

/// The resources of this process, from `/proc/self`.
///
/// CPU time is the kernel's exact sum rounded down to 10 ms, so that the use of a stage
/// of a few milliseconds is right only on average over many.
pub struct OwnProcess;

impl Resources for OwnProcess {
    fn read(&self) -> Option<Reading> {
        let read = |file| fs::read_to_string(format!("/proc/self/{file}")).ok();
        Some(Reading {
            cpu: process::cpu(&read("stat")?)?,
            resident_mb: process::memory_kib(&read("status")?, "VmRSS:")? as f64 / 1024.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let before = OwnProcess.read().unwrap();
        assert!(before.resident_mb > 1.0);
        let mut sum = 0_u64;
        while OwnProcess.read().unwrap().cpu == before.cpu {
            sum = (0..100_000).fold(sum, |sum, number| sum ^ std::hint::black_box(number));
        }
        assert!(OwnProcess.read().unwrap().cpu > before.cpu);
    }
}
