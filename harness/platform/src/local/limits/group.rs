//! Control groups, version 1 and 2.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};

use epochcost_spec::capacity::{OwnGroup, Version};
use uuid::Uuid;

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

/// Start of the names of groups.
const PREFIX: &str = "epochcost-";

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
        let of = |version| Some(OwnGroup::of(version, controller)?.path);
        let version1 = of(Version::One);
        let found = version1.map(|parent| (Version::One, parent)).or_else(|| {
            let parent = of(Version::Two)?;
            let there = fs::read_to_string(parent.join("cgroup.controllers")).ok()?;
            let is_there = there.split_whitespace().any(|name| name == controller);
            is_there.then_some((Version::Two, parent))
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

    /// Makes a group of `vcpus` and removes it again.
    pub(super) fn try_out(&self, vcpus: f64) -> Result<(), String> {
        let (version, parent) = (self.version, self.parent.display());
        let failed = |error| format!("no {version} group can be made in {parent}: {error}");
        if self.version == Version::Two {
            delegated::enable(&self.parent, self.controller)?;
        }
        let group = self.make().map_err(failed)?;
        match self.controller {
            "cpu" => group.limit_cpu(vcpus),
            _ => group.limit_memory(1 << 30),
        }
        .map_err(failed)
    }

    /// Makes a group.
    pub(super) fn make(&self) -> io::Result<Group> {
        let mut tries = 3;
        loop {
            let path = self.parent.join(unique_name());
            fs::create_dir(&path)?;
            tries -= 1;
            match hold(&path) {
                Ok(held) if path.exists() => {
                    return Ok(Group {
                        version: self.version,
                        path,
                        _held: held,
                    });
                }
                Err(error) if tries <= 0 => return Err(error),
                // Another harness removed it before it was locked.
                _ => {}
            }
        }
    }
}

/// Returns a name that no other harness uses. Ids of processes are not: those in other
/// namespaces have the same.
pub(super) fn unique_name() -> String {
    format!("{PREFIX}{}", Uuid::new_v4().simple())
}

/// Locks a group, which tells other harnesses that it is in use.
///
/// # Errors
/// When one of them has.
pub(super) fn hold(path: &Path) -> io::Result<File> {
    let directory = File::open(path)?;
    directory.try_lock()?;
    Ok(directory)
}

/// Removes the groups in `parent` of harnesses that have ended.
pub(super) fn sweep(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && let Ok(_held) = hold(&entry.path()) {
            // The kernel refuses a group with processes: it is left to the next harness.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns a count of a group's events of memory; 0 where it cannot be read.
fn events(version: Version, group: &Path, name: &str) -> u64 {
    let file = match version {
        Version::One => "memory.oom_control",
        Version::Two => "memory.events",
    };
    let events = fs::read_to_string(group.join(file)).unwrap_or_default();
    let mut lines = events.lines();
    let count = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    count.unwrap_or(0)
}

/// Returns how many processes the kernel has ended for the memory of the group that this program
/// runs in, where those without a group of their own run, too.
pub(in super::super) fn killed_here() -> u64 {
    let killed = [(Version::One, "memory"), (Version::Two, "")].map(|(version, controller)| {
        let own = OwnGroup::of(version, controller);
        own.map_or(0, |own| events(version, &own.path, "oom_kill "))
    });
    killed.iter().sum()
}

/// Whose memory ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum OutOfMemory {
    /// The function's.
    Function,
    /// That of a container around the harness, or of the machine.
    Surroundings,
}

/// A group, removed when dropped.
#[derive(Debug)]
pub(super) struct Group {
    version: Version,
    path: PathBuf,
    _held: File,
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

    /// Returns whose memory ran out where the kernel ended a process here for it.
    pub(super) fn out_of_memory(&self) -> Option<OutOfMemory> {
        let count = |name| events(self.version, &self.path, name);
        if count("oom_kill ") == 0 {
            return None;
        }
        // How often this group was at its own limit.
        let own = match self.version {
            Version::One => fs::read_to_string(self.path.join("memory.failcnt"))
                .is_ok_and(|count| count.trim() != "0"),
            Version::Two => count("oom ") > 0,
        };
        Some(if own {
            OutOfMemory::Function
        } else {
            OutOfMemory::Surroundings
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy in an ordinary directory.
    fn hierarchy(version: Version, parent: &Path) -> Hierarchy {
        Hierarchy {
            version,
            parent: parent.to_owned(),
            controller: "memory",
        }
    }

    /// Harnesses in two namespaces have the same ids of processes.
    #[test]
    fn groups_have_names_and_locks_of_their_own() {
        let directory = tempfile::tempdir().unwrap();
        let hierarchy = hierarchy(Version::Two, directory.path());
        let groups = [hierarchy.make().unwrap(), hierarchy.make().unwrap()];
        assert_ne!(groups[0].path(), groups[1].path());
        for group in &groups {
            let name = group.path().file_name().unwrap().to_str().unwrap();
            // 128 random bits.
            assert_eq!(name.strip_prefix(PREFIX).map(str::len), Some(32), "{name}");
            assert!(hold(group.path()).is_err(), "{name}");
        }
    }

    #[test]
    fn memory_that_ran_out_is_that_of_the_function_or_of_its_surroundings() {
        let found = |version, files: &[(&str, &str)]| {
            let directory = tempfile::tempdir().unwrap();
            let group = hierarchy(version, directory.path()).make().unwrap();
            for (name, text) in files {
                fs::write(group.path().join(name), text).unwrap();
            }
            group.out_of_memory()
        };
        let (own, around) = (OutOfMemory::Function, OutOfMemory::Surroundings);
        for (killed, count, expected) in [
            ("1", "3", Some(own)),
            ("1", "0", Some(around)),
            ("0", "3", None),
        ] {
            let control = format!("under_oom 0\noom_kill {killed}\n");
            let failures = format!("{count}\n");
            let files = [
                ("memory.oom_control", &*control),
                ("memory.failcnt", &failures),
            ];
            assert_eq!(found(Version::One, &files), expected, "{files:?}");
            let events = format!("max 9\noom {count}\noom_kill {killed}\n");
            let files = [("memory.events", &*events)];
            assert_eq!(found(Version::Two, &files), expected, "{files:?}");
        }
        assert_eq!(found(Version::Two, &[]), None);
    }
}
