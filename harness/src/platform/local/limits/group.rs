//! Control groups, version 1 and 2.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use super::delegated;

/// Period over which a CPU quota counts. The kernel's default of 100 ms lets a
/// function of half a core run its first 50 ms at full speed and then stand
/// still for as long: longer than whole stages of these systems, and than the
/// interval at which they poll. At 20 ms it waits 10 ms at the most, and the
/// smallest function (128 MB) still has more than the kernel's smallest quota.
const PERIOD_US: u64 = 20_000;

/// CPU weight of a function's virtual CPU relative to an ordinary process, which counts
/// where more of them want to run than there are cores: enough that a machine with
/// other work does not starve it. Its quota limits it to its share all the same.
const WEIGHT: u64 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
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

/// Hierarchy in which groups of one controller can be made.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// The harness's own group.
    pub(super) parent: PathBuf,
    controller: &'static str,
}

impl Hierarchy {
    /// Returns the hierarchy of `controller` for this process.
    pub(super) fn of(controller: &'static str) -> Result<Self, String> {
        let read = |path| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let (mounts, own) = (read("/proc/self/mountinfo")?, read("/proc/self/cgroup")?);
        let version1 = find(&mounts, &own, Version::One, controller);
        let found = version1.map(|parent| (Version::One, parent)).or_else(|| {
            let parent = find(&mounts, &own, Version::Two, controller)?;
            let there = fs::read_to_string(parent.join("cgroup.controllers")).ok()?;
            there
                .split_whitespace()
                .any(|name| name == controller)
                .then_some(())?;
            Some((Version::Two, parent))
        });
        let (version, parent) =
            found.ok_or_else(|| format!("there is no cgroup controller {controller:?}"))?;
        let parent = delegated::home(&parent).to_owned();
        Ok(Self {
            version,
            parent,
            controller,
        })
    }

    /// Makes a group and removes it again.
    pub(super) fn try_out(&self, name: &str) -> Result<(), String> {
        let failed = |error| {
            format!(
                "no {} group can be made in {}: {error}",
                self.version,
                self.parent.display()
            )
        };
        if self.version == Version::Two {
            delegated::enable(&self.parent, self.controller)?;
        }
        let group = self.make(name).map_err(failed)?;
        match self.controller {
            "cpu" => group.limit_cpu(1.0),
            _ => group.limit_memory(1 << 30),
        }
        .map_err(failed)
    }

    /// Makes a group; under version 2 it may exist for another controller.
    pub(super) fn make(&self, name: &str) -> io::Result<Group> {
        let path = self.parent.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(Group {
                version: self.version,
                path,
            }),
        }
    }
}

/// A group, removed when dropped.
#[derive(Debug)]
pub(super) struct Group {
    version: Version,
    path: PathBuf,
}

impl Group {
    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn limit_cpu(&self, vcpus: f64) -> io::Result<()> {
        // The kernel's smallest quota is 1 ms.
        let quota_us = ((PERIOD_US as f64 * vcpus) as u64).max(1_000);
        let weight = WEIGHT * vcpus.ceil() as u64;
        match self.version {
            Version::One => {
                self.write("cpu.cfs_period_us", PERIOD_US)?;
                self.write("cpu.cfs_quota_us", quota_us)?;
                self.write("cpu.shares", 1_024 * weight)
            }
            Version::Two => {
                self.write("cpu.max", format_args!("{quota_us} {PERIOD_US}"))?;
                self.write("cpu.weight", (100 * weight).min(10_000))
            }
        }
    }

    pub(super) fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        match self.version {
            Version::One => self.write("memory.limit_in_bytes", bytes),
            Version::Two => {
                self.write("memory.swap.max", 0)?;
                self.write("memory.max", bytes)
            }
        }
    }

    pub(super) fn add(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", pid)
    }

    pub(super) fn ran_out_of_memory(&self) -> bool {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let events = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        events
            .lines()
            .filter_map(|line| line.strip_prefix("oom_kill "))
            .any(|kills| kills.trim() != "0")
    }

    fn write(&self, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value.to_string())
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel lets go of a killed process a little later.
        for _ in 0..50 {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_millis(2));
                }
                _ => break,
            }
        }
    }
}

/// Returns the directory of this process's group, from the texts of
/// `/proc/self/mountinfo` and `/proc/self/cgroup`.
fn find(mounts: &str, own: &str, version: Version, controller: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let wanted = match version {
            Version::One => controllers.split(',').any(|name| name == controller),
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
            ("cgroup", Version::One) => filesystem
                .nth(1)?
                .split(',')
                .any(|option| option == controller),
            ("cgroup2", Version::Two) => true,
            _ => false,
        };
        // In a container the mount's root may be this very group.
        let inside = own
            .strip_prefix(root)
            .or_else(|| own.strip_prefix('/'))
            .unwrap_or_default();
        wanted.then(|| Path::new(point).join(inside.trim_start_matches('/')))
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
        let find = |controller| find(mounts, own, Version::One, controller);
        assert_eq!(find("cpu"), Some("/sys/fs/cgroup/cpu,cpuacct/".into()));
        assert_eq!(
            find("memory"),
            Some("/sys/fs/cgroup/memory/user.slice/a".into())
        );
        assert_eq!(find("pids"), None);
    }

    #[test]
    fn the_own_group_is_found_in_version_2_and_in_containers() {
        let mounts = "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "0::/user.slice/session-1.scope\n";
        assert_eq!(
            find(mounts, own, Version::Two, "cpu"),
            Some("/sys/fs/cgroup/user.slice/session-1.scope".into())
        );
        let mounts = "31 24 0:27 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        assert_eq!(
            find(mounts, "2:cpu:/docker/abc\n", Version::One, "cpu"),
            Some("/sys/fs/cgroup/cpu/".into())
        );
    }
}
