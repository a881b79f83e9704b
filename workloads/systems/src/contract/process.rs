//! Resources that a process has used, from the text of files of `/proc`.

use std::time::Duration;

/// Returns the CPU time, user and system, from the text of `/proc/<pid>/stat`; `None`
/// where it is malformed.
pub fn cpu(stat: &str) -> Option<Duration> {
    // The command's name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    // USER_HZ is 100 on every architecture that Linux shares with Lambda.
    Some(Duration::from_millis(ticks * 10))
}

/// Returns the line `name` of the text of `/proc/<pid>/status`, KiB: `VmRSS:` is the
/// resident memory now, `VmHWM:` its peak. `None` where there is no such line.
pub fn memory_kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn memory_is_found_by_its_name() {
        let status = "Name:\tx\nVmHWM:\t  131073 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(memory_kib(status, "VmHWM:"), Some(131_073));
        assert_eq!(memory_kib(status, "VmRSS:"), Some(1_024));
        assert_eq!(memory_kib("Name:\tx\nState:\tZ (zombie)\n", "VmRSS:"), None);
    }

    #[test]
    fn cpu_time_survives_odd_names() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 0 0 0 12 30 0 0 20 0 1 0";
        assert_eq!(cpu(stat), Some(Duration::from_millis(420)));
    }
}
