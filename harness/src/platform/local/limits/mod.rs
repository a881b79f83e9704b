//! Limits of a sandbox: the CPU share and the memory limit of its function are enforced
//! by control groups, the size of its `/tmp` by a mount, where this machine allows it.
//!
//! Groups lie inside the one that the harness itself runs in, so that limits
//! set from outside still hold. Their names carry the harness's process id:
//! what a killed harness left is removed by the next.

mod delegated;
mod group;
mod storage;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use group::{Group, Hierarchy};
pub(super) use storage::{Storage, bytes_in};

/// Memory at which a function has one vCPU, MB (AWS Lambda documentation,
/// "Configure Lambda function memory").
pub const MB_PER_VCPU: f64 = 1_769.0;

/// Returns the CPU share of a function, in vCPUs.
pub fn vcpus(memory_mb: u32) -> f64 {
    f64::from(memory_mb) / MB_PER_VCPU
}

/// Whether and how a limit is enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforced {
    /// The limit is enforced.
    Yes {
        /// Mechanism that enforces it.
        how: String,
    },
    /// The limit is not enforced.
    No {
        /// Reason why it is not.
        why: String,
    },
}

/// Enforcement of a function's limits on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enforcement {
    /// The CPU share.
    pub cpu: Enforced,
    /// The memory limit.
    pub memory: Enforced,
    /// The size of `/tmp`.
    pub storage: Enforced,
}

/// Size of a function, which limits its sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Memory, MB; its CPU share follows from it.
    pub(super) memory_mb: u32,
    /// `/tmp`, MB.
    pub(super) storage_mb: u32,
}

/// Limits that this machine can enforce.
#[derive(Debug)]
pub(super) struct Limits {
    cpu: Result<Hierarchy, String>,
    memory: Result<Hierarchy, String>,
    /// Implementation of sandboxes' `/tmp`.
    pub(super) storage: Storage,
}

/// Returns a group name that is unique in this process.
fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}-{number}", std::process::id())
}

impl Limits {
    /// Searches for control groups that can be made, and removes those that dead
    /// harnesses left.
    pub(super) fn detect() -> Self {
        let of = |controller| {
            let hierarchy = Hierarchy::of(controller)?;
            sweep(&hierarchy.parent);
            hierarchy.try_out(&unique_name())?;
            Ok(hierarchy)
        };
        Self {
            cpu: of("cpu"),
            memory: of("memory"),
            storage: Storage::detect(),
        }
    }

    /// Returns the limits of a machine that allows neither groups nor mounts.
    #[cfg(test)]
    pub(super) fn without_groups() -> Self {
        Self {
            cpu: Err("a test wants none".into()),
            memory: Err("a test wants none".into()),
            storage: Storage::watched("a test wants no mount"),
        }
    }

    /// Returns how the limits are enforced.
    pub(super) fn enforcement(&self) -> Enforcement {
        Enforcement {
            cpu: match &self.cpu {
                Ok(hierarchy) => Enforced::Yes {
                    how: format!("{} quota", hierarchy.version),
                },
                Err(why) => Enforced::No { why: why.clone() },
            },
            memory: Enforced::Yes {
                how: match &self.memory {
                    Ok(hierarchy) => format!("{} limit", hierarchy.version),
                    Err(why) => format!("resident memory polled every 50 ms, since {why}"),
                },
            },
            storage: self.storage.enforcement(),
        }
    }

    /// Puts a process under the limits of a function of `memory_mb`.
    pub(super) fn confine(&self, pid: u32, memory_mb: u32) -> std::io::Result<Confinement> {
        let name = unique_name();
        let mut groups = Vec::new();
        if let Ok(cpu) = &self.cpu {
            let group = cpu.make(&name)?;
            group.limit_cpu(vcpus(memory_mb))?;
            group.add(pid)?;
            groups.push(group);
        }
        let mut holds_memory = false;
        if let Ok(memory) = &self.memory {
            // Under version 2 both controllers share one directory.
            let group = memory.make(&name)?;
            group.limit_memory(u64::from(memory_mb) << 20)?;
            group.add(pid)?;
            groups.push(group);
            holds_memory = true;
        }
        Ok(Confinement {
            groups,
            holds_memory,
        })
    }
}

/// The groups that one process runs in; removed when dropped.
#[derive(Debug, Default)]
pub(super) struct Confinement {
    groups: Vec<Group>,
    /// Whether the kernel ends the process when it exceeds its memory.
    pub(super) holds_memory: bool,
}

impl Confinement {
    /// Returns whether the kernel ended a process here for its memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.groups.iter().any(Group::ran_out_of_memory)
    }
}

const PREFIX: &str = "epochcost-";

/// Removes the groups of harnesses that have ended.
fn sweep(parent: &Path) {
    for group in groups_in(parent) {
        let owner = group
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| {
                name.strip_prefix(PREFIX)?
                    .split('-')
                    .next()?
                    .parse::<u32>()
                    .ok()
            });
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // A group that cannot be removed yet is left to the next harness.
            let _ = fs::remove_dir(&group);
        }
    }
}

fn groups_in(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_vcpu_is_1769_mb() {
        assert_eq!(vcpus(1_769), 1.0);
        assert!((vcpus(2_048) - 1.157_7).abs() < 1e-4);
    }

    #[test]
    fn groups_are_removed_with_their_confinement() {
        let limits = Limits::detect();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep is everywhere");
        let confinement = limits.confine(child.id(), 512).unwrap();
        let paths: Vec<PathBuf> = confinement
            .groups
            .iter()
            .map(|group| group.path().to_owned())
            .collect();
        assert!(paths.iter().all(|path| path.exists()));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(confinement);
        assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
    }

    #[test]
    fn groups_of_dead_harnesses_are_swept() {
        let dir = tempfile::tempdir().unwrap();
        // No process has this id: Linux ends at 4,194,304.
        let dead = dir.path().join("epochcost-4999999-0");
        let alive = dir
            .path()
            .join(format!("epochcost-{}-0", std::process::id()));
        let other = dir.path().join("system.slice");
        for path in [&dead, &alive, &other] {
            fs::create_dir(path).unwrap();
        }
        sweep(dir.path());
        assert!(!dead.exists() && alive.exists() && other.exists());
    }
}
