//! Memory and CPU time of a running process, from the kernel.

use std::fs;
use std::time::Duration;

use epochcost_systems::process;

/// Memory and CPU time of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Current resident memory, MB, rounded up.
    pub(super) resident_mb: u32,
    /// Largest resident memory so far, MB, rounded up.
    pub(super) peak_mb: u32,
    /// CPU time, user and system.
    pub(super) cpu: Duration,
}

/// Returns what a process has used so far; `None` once it has ended.
pub(super) fn of(pid: u32) -> Option<Usage> {
    let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let status = read("status")?;
    Some(Usage {
        resident_mb: mb(process::memory_kib(&status, "VmRSS:")?),
        peak_mb: mb(process::memory_kib(&status, "VmHWM:")?),
        cpu: process::cpu(&read("stat")?)?,
    })
}

/// Returns MB, rounded up.
fn mb(kib: u64) -> u32 {
    u32::try_from(kib.div_ceil(1_024)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_up_to_mb() {
        assert_eq!((mb(131_073), mb(1_024), mb(1)), (129, 1, 1));
    }

    #[test]
    fn this_process_is_seen() {
        let own = of(std::process::id()).unwrap();
        assert!(own.peak_mb >= own.resident_mb && own.resident_mb > 0);
        // No process has this id: Linux ends at 4,194,304.
        assert_eq!(of(4_999_999), None);
    }
}
