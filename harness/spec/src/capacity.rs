//! CPU time and memory that this process may use: those of the machine, or of the container
//! where that has less. Limits of control groups hold for everything below them, so that the
//! smallest of the own group and of all groups above counts.

use std::fs;
use std::path::{Path, PathBuf};

/// Version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy for each controller.
    One,
    /// One hierarchy.
    Two,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One => "cgroup v1",
            Self::Two => "cgroup v2",
        })
    }
}

/// Control group of this process in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnGroup {
    /// Directory of the group.
    pub path: PathBuf,
    /// Directory of the highest group that can be seen.
    pub top: PathBuf,
}

/// CPU time and memory that this process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacity {
    /// CPUs' worth of time that a group allows; none without such a limit.
    pub cpu_quota: Option<f64>,
    /// Memory, bytes: the machine's, or less where a group has a limit.
    pub memory_bytes: Option<u64>,
}

impl OwnGroup {
    /// Returns the group of `controller` in a hierarchy of `version`, if there is one.
    pub fn of(version: Version, controller: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        find(&mounts, &own, version, controller)
    }

    /// Returns this group and those above it.
    fn upwards(&self) -> impl Iterator<Item = &Path> {
        let above = self.path.ancestors();
        above.take_while(|group| group.starts_with(&self.top))
    }
}

impl Capacity {
    /// Returns the capacity of this process.
    pub fn here() -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total = total.and_then(|kib| kib.trim().trim_end_matches(" kB").parse::<u64>().ok());
        let groups = [
            OwnGroup::of(Version::One, "cpu"),
            OwnGroup::of(Version::One, "memory"),
            OwnGroup::of(Version::Two, ""),
        ];
        Self::within(total.map(|kib| kib * 1024), groups.iter().flatten())
    }

    /// Returns how many of `vcpus` a process gets here.
    pub fn share(&self, vcpus: f64) -> f64 {
        vcpus.min(self.cpu_quota.unwrap_or(f64::INFINITY))
    }

    /// Returns the capacity of a process in `groups`, on a machine of `memory_bytes`.
    fn within<'a>(
        memory_bytes: Option<u64>,
        groups: impl Iterator<Item = &'a OwnGroup> + Clone,
    ) -> Self {
        let directories = || groups.clone().flat_map(OwnGroup::upwards);
        let limits = directories().filter_map(memory_limit).chain(memory_bytes);
        Self {
            cpu_quota: directories().filter_map(cpu_quota).reduce(f64::min),
            memory_bytes: limits.min(),
        }
    }
}

/// Returns the CPUs' worth of time that one group allows.
fn cpu_quota(group: &Path) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    let text = read("cpu.max").or_else(|| {
        let (quota, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
        Some(format!("{quota} {period}"))
    })?;
    // `max` and -1 stand for no quota.
    let mut numbers = text.split_whitespace().map(|text| text.parse::<f64>().ok());
    let mut number = || numbers.next()?.filter(|us| *us > 0.0);
    Some(number()? / number()?)
}

/// Returns the memory limit of one group, bytes.
fn memory_limit(group: &Path) -> Option<u64> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    // No limit is `max`, or a number beyond every machine.
    let text = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
    text.trim().parse().ok()
}

/// Returns the directory of this process's group, from the texts of
/// `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn find(mounts: &str, own: &str, version: Version, controller: &str) -> Option<OwnGroup> {
    let has = |controllers: &str| controllers.split(',').any(|name| name == controller);
    let own = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let wanted = match version {
            Version::One => has(controllers),
            Version::Two => controllers.is_empty(),
        };
        wanted.then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut filesystem = filesystem.split(' ');
        let wanted = match (filesystem.next()?, version) {
            ("cgroup", Version::One) => has(filesystem.nth(1)?),
            ("cgroup2", Version::Two) => true,
            _ => false,
        };
        // In a container the mount's root may be this very group.
        let inside = own.strip_prefix(root).or(own.strip_prefix('/'));
        let inside = inside.unwrap_or_default();
        wanted.then(|| OwnGroup {
            path: Path::new(point).join(inside.trim_start_matches('/')),
            top: point.into(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_in_version_1() {
        let mounts = "30 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n\
                      31 24 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "4:memory:/user.slice/a\n2:cpu,cpuacct:/\n0::/\n";
        let find = |controller| Some(find(mounts, own, Version::One, controller)?.path);
        let memory = "/sys/fs/cgroup/memory/user.slice/a";
        assert_eq!(find("cpu"), Some("/sys/fs/cgroup/cpu,cpuacct/".into()));
        assert_eq!(find("memory"), Some(memory.into()));
        assert_eq!(find("pids"), None);
    }

    #[test]
    fn the_own_group_is_found_in_version_2_and_in_containers() {
        let mounts = "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "0::/user.slice/session-1.scope\n";
        let group = find(mounts, own, Version::Two, "cpu").unwrap();
        let session = "/sys/fs/cgroup/user.slice/session-1.scope";
        assert_eq!(group.path, Path::new(session));
        assert_eq!(group.upwards().count(), 3);
        let mounts = "31 24 0:27 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let group = find(mounts, "2:cpu:/docker/abc\n", Version::One, "cpu").unwrap();
        assert_eq!(group.path, Path::new("/sys/fs/cgroup/cpu/"));
    }

    /// The process's group allows more than the container around it.
    #[test]
    fn the_smallest_limit_of_all_groups_above_counts() {
        const MACHINE: u64 = 25_300_000_000;
        let container = |files: [(&str, &str); 5]| {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join("pod/run.scope");
            fs::create_dir_all(&path).unwrap();
            for (file, text) in files {
                fs::write(root.path().join(file), text).unwrap();
            }
            let top = root.path().to_owned();
            Capacity::within(Some(MACHINE), [OwnGroup { path, top }].iter())
        };
        let second = [
            ("cpu.max", "max 100000\n"),
            ("pod/cpu.max", "150000 100000\n"),
            ("pod/run.scope/cpu.max", "200000 100000\n"),
            ("pod/memory.max", "314572800\n"),
            ("pod/run.scope/memory.max", "max\n"),
        ];
        let first = [
            ("pod/cpu.cfs_quota_us", "150000\n"),
            ("pod/cpu.cfs_period_us", "100000\n"),
            ("pod/run.scope/cpu.cfs_quota_us", "-1\n"),
            ("pod/memory.limit_in_bytes", "314572800\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        for files in [first, second] {
            let found = container(files);
            assert_eq!(found.cpu_quota, Some(1.5));
            assert_eq!(found.memory_bytes, Some(300 << 20));
        }
        let none = Capacity::within(Some(MACHINE), [].iter());
        assert_eq!((none.cpu_quota, none.memory_bytes), (None, Some(MACHINE)));
    }
}
