//! Limits of a sandbox: the CPU share and the memory limit of its function are enforced
//! by control groups, the size of its `/tmp` by a mount, where this machine allows it.
//!
//! Groups lie inside the one that the harness itself runs in, so that limits
//! set from outside still hold. What a killed harness left is removed by the next.

mod delegated;
mod group;
mod storage;

use epochcost_spec::capacity::Capacity;
use epochcost_spec::metering::Limit;

use group::{Group, Hierarchy, sweep};
pub(super) use group::{OutOfMemory, killed_here};
pub(super) use storage::{Storage, bytes_in};

/// Memory at which a function has one vCPU, MB (AWS Lambda documentation,
/// "Configure Lambda function memory").
pub const MB_PER_VCPU: f64 = 1_769.0;

/// Returns the CPU share of a function, in vCPUs.
pub fn vcpus(memory_mb: u32) -> f64 {
    f64::from(memory_mb) / MB_PER_VCPU
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
    capacity: Capacity,
    cpu: Result<Hierarchy, String>,
    memory: Result<Hierarchy, String>,
    /// Implementation of sandboxes' `/tmp`.
    pub(super) storage: Storage,
}

impl Limits {
    /// Searches for control groups that can be made, and removes those that dead
    /// harnesses left.
    pub(super) fn detect() -> Self {
        let capacity = Capacity::here();
        let of = |controller| {
            let hierarchy = Hierarchy::of(controller)?;
            sweep(&hierarchy.parent);
            hierarchy.try_out(capacity.share(1.0))?;
            Ok(hierarchy)
        };
        Self {
            capacity,
            cpu: of("cpu"),
            memory: of("memory"),
            storage: Storage::detect(),
        }
    }

    /// Returns the limits of a machine that allows neither groups nor mounts.
    #[cfg(test)]
    pub(super) fn without_groups() -> Self {
        Self {
            capacity: Capacity::default(),
            cpu: Err("a test wants none".into()),
            memory: Err("a test wants none".into()),
            storage: Storage::watched("a test wants no mount"),
        }
    }

    /// Tries the largest function of a run: a group above that is not visible from here may
    /// have less.
    pub(super) fn try_out(&mut self, memory_mb: u32) {
        let share = self.capacity.share(vcpus(memory_mb));
        if let Ok(cpu) = &self.cpu
            && let Err(why) = cpu.try_out(share)
        {
            self.cpu = Err(why);
        }
    }

    /// Returns how the CPU share, the memory and the size of `/tmp` of functions of up to
    /// `memory_mb` are enforced.
    pub(super) fn enforcement(&self, memory_mb: u32) -> [Limit; 3] {
        let (share, allowed) = (vcpus(memory_mb), self.capacity.share(vcpus(memory_mb)));
        let cpu = match &self.cpu {
            Ok(_) if allowed < share => Err(format!(
                "{memory_mb} MB stand for {share:.2} vCPU, and the container that this \
                 runs in has {allowed:.2}"
            )),
            Ok(hierarchy) => Ok(format!("{} quota", hierarchy.version)),
            Err(why) => Err(why.clone()),
        };
        let memory = match &self.memory {
            Ok(hierarchy) => format!("{} limit", hierarchy.version),
            Err(why) => format!("resident memory polled every 50 ms, since {why}"),
        };
        [
            ("cpu", cpu.is_ok(), cpu.unwrap_or_else(|why| why)),
            ("memory", true, memory),
            ("storage", true, self.storage.how()),
        ]
        .map(|(what, enforced, how)| Limit {
            what: what.to_owned(),
            enforced,
            how,
        })
    }

    /// Returns a warning where a function of `memory_mb` may use more memory than there is.
    pub(super) fn too_large(&self, memory_mb: u32) -> Option<String> {
        let there_mb = self.capacity.memory_bytes? >> 20;
        (u64::from(memory_mb) > there_mb).then(|| {
            format!(
                "functions of {memory_mb} MB may use more memory than the {there_mb} MB of this \
                 machine or of the container that this runs in: lower `memory_mb`, or allow more"
            )
        })
    }

    /// Puts a process under the limits of a function of `memory_mb`.
    pub(super) fn confine(&self, pid: u32, memory_mb: u32) -> std::io::Result<Confinement> {
        let mut groups: Vec<Group> = Vec::new();
        if let Ok(cpu) = &self.cpu {
            let group = cpu.make()?;
            group.limit_cpu(self.capacity.share(vcpus(memory_mb)))?;
            groups.push(group);
        }
        if let Ok(memory) = &self.memory {
            // Under version 2 both controllers share one group.
            if !(self.cpu.as_ref()).is_ok_and(|cpu| cpu.parent == memory.parent) {
                groups.push(memory.make()?);
            }
            if let Some(group) = groups.last() {
                group.limit_memory(u64::from(memory_mb) << 20)?;
            }
        }
        for group in &groups {
            group.add(pid)?;
        }
        Ok(Confinement {
            groups,
            holds_memory: self.memory.is_ok(),
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
    /// Returns whose memory ran out where the kernel ended a process here for it.
    pub(super) fn out_of_memory(&self) -> Option<OutOfMemory> {
        self.groups.iter().find_map(Group::out_of_memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use group::hold;
    use std::path::PathBuf;

    #[test]
    fn a_vcpu_is_1769_mb() {
        assert_eq!(vcpus(1_769), 1.0);
        assert!((vcpus(2_048) - 1.157_7).abs() < 1e-4);
    }

    #[test]
    fn groups_are_removed_with_their_confinement() {
        let limits = Limits::detect();
        let sleep = std::process::Command::new("sleep").arg("60").spawn();
        let mut child = sleep.unwrap();
        let confinement = limits.confine(child.id(), 512).unwrap();
        let groups = confinement.groups.iter();
        let paths: Vec<PathBuf> = groups.map(|group| group.path().to_owned()).collect();
        assert!(paths.iter().all(|path| path.exists()));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(confinement);
        assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
    }

    #[test]
    fn a_function_that_is_larger_than_its_container_is_not_enforced_and_said() {
        let mut limits = Limits::detect();
        limits.capacity = Capacity {
            cpu_quota: Some(1.5),
            memory_bytes: Some(300 << 20),
        };
        if limits.cpu.is_ok() {
            let [enforced, ..] = limits.enforcement(1_769);
            assert!(enforced.enforced);
            let [Limit { enforced, how, .. }, ..] = limits.enforcement(3_008);
            assert!(!enforced, "1.70 vCPU of 1.50 are no limit");
            assert!(how.contains("1.70") && how.contains("1.50"), "{how}");
        }
        assert_eq!(limits.too_large(300), None);
        assert!(limits.too_large(301).unwrap().contains("300 MB"));
    }

    #[test]
    fn groups_of_dead_harnesses_are_swept_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        // Ids of processes say nothing: another namespace has its own.
        let [dead, alive, other] = ["epochcost-1-0", "epochcost-4999999-0", "system.slice"]
            .map(|name| dir.path().join(name));
        for path in [&dead, &alive, &other] {
            std::fs::create_dir(path).unwrap();
        }
        let held = hold(&alive).unwrap();
        sweep(dir.path());
        assert!(!dead.exists() && alive.exists() && other.exists());
        // A child that another test has forked holds a copy of the file until it runs its program.
        held.unlock().unwrap();
        sweep(dir.path());
        assert!(!alive.exists());
    }
}
