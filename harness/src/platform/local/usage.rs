//! What the kernel says of a running process.

use std::fs;
use std::time::Duration;

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Memory resident now, MB, rounded up.
    pub(super) resident_mb: u32,
    /// The most memory that was resident so far, MB, rounded up.
    pub(super) peak_mb: u32,
    /// CPU time, user and system.
    pub(super) cpu: Duration,
}

/// What a process has used so far; `None` once it has ended.
pub(super) fn of(pid: u32) -> Option<Usage> {
    let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let (resident_mb, peak_mb) = parse_status(&read("status")?)?;
    Some(Usage {
        resident_mb,
        peak_mb,
        cpu: parse_stat(&read("stat")?)?,
    })
}

/// Resident memory now and at its peak.
fn parse_status(status: &str) -> Option<(u32, u32)> {
    let mb = |name: &str| -> Option<u32> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        u32::try_from(kib.div_ceil(1_024)).ok()
    };
    Some((mb("VmRSS:")?, mb("VmHWM:")?))
}

fn parse_stat(stat: &str) -> Option<Duration> {
    // The command's name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    // USER_HZ is 100 on every architecture that Linux shares with Lambda.
    Some(Duration::from_millis(ticks * 10))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn memory_is_rounded_up_to_mb() {
        let status = "Name:\tx\nVmHWM:\t  131073 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse_status(status), Some((1, 129)));
        assert_eq!(parse_status("Name:\tx\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn cpu_time_survives_odd_names() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 12 30 0 0 20 0 1 0";
        assert_eq!(parse_stat(stat), Some(Duration::from_millis(420)));
    }

    #[test]
    fn this_process_is_seen() {
        let own = of(std::process::id()).unwrap();
        assert!(own.peak_mb >= own.resident_mb && own.resident_mb > 0);
        // No process has this id: Linux ends at 4,194,304.
        assert_eq!(of(4_999_999), None);
    }
}
