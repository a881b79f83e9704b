//! What rows need of an account's quotas.

use epochcost_systems::SystemError;
use serde::Serialize;

use crate::{SERVICE_INSTANCE, Training};

/// Largest memory size of functions in a new account, MB (AWS Lambda quotas).
pub const NEW_ACCOUNT_MEMORY_MB: u32 = 3_008;

/// Quota of an account in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quota {
    /// Subject, as `doctor` calls it.
    #[serde(skip)]
    pub title: &'static str,
    /// Code of the service in Service Quotas.
    pub service: &'static str,
    /// Code of the quota.
    pub code: &'static str,
    /// Name of the quota in the console.
    pub name: &'static str,
    /// Unit.
    #[serde(skip)]
    pub of: &'static str,
    /// Value in a new account.
    pub new_account: u32,
}

const CONCURRENCY: Quota = Quota {
    title: "Lambda concurrency",
    service: "lambda",
    code: "L-B99A9384",
    name: "Concurrent executions",
    of: "concurrent executions",
    new_account: 10,
};
const GPU: Quota = Quota {
    title: "G instances",
    service: "ec2",
    code: "L-DB2E81BA",
    name: "Running On-Demand G and VT instances",
    of: "vCPUs of running on-demand G and VT instances",
    new_account: 0,
};
const STANDARD: Quota = Quota {
    title: "standard instances",
    service: "ec2",
    code: "L-1216C47A",
    name: "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    of: "vCPUs of running on-demand standard instances (A, C, D, H, I, M, R, T, Z)",
    new_account: 5,
};

/// Requirements of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Needs {
    /// Functions that run at once.
    pub concurrency: u32,
    /// vCPUs of instances with GPUs that run at once.
    pub gpu_vcpus: u32,
    /// vCPUs of other instances that run at once: hosts of tensor stores and queues, and workers
    /// without a GPU.
    pub standard_vcpus: u32,
}

impl Needs {
    /// Returns what the most demanding of `rows` requires: trials run one after another.
    ///
    /// # Errors
    /// When a row's settings are invalid for its system.
    pub fn of(rows: &[Training]) -> Result<Self, SystemError> {
        let mut needs = Self {
            concurrency: 0,
            gpu_vcpus: 0,
            standard_vcpus: 0,
        };
        for row in rows {
            let hosts = row.service_hosts()? as u32 * vcpus(SERVICE_INSTANCE);
            let workers = row.instances()? as u32 * vcpus(&row.instance_type);
            let (gpu, standard) = if has_gpus(&row.instance_type) {
                (workers, hosts)
            } else {
                (0, hosts + workers)
            };
            needs.gpu_vcpus = needs.gpu_vcpus.max(gpu);
            needs.standard_vcpus = needs.standard_vcpus.max(standard);
            let functions = u32::try_from(row.functions_at_once()?).unwrap_or(u32::MAX);
            needs.concurrency = needs.concurrency.max(functions);
        }
        Ok(needs)
    }

    /// Returns every quota with what it must be at least.
    pub fn quotas(self) -> [(Quota, u32); 3] {
        [
            (CONCURRENCY, self.concurrency),
            (GPU, self.gpu_vcpus),
            (STANDARD, self.standard_vcpus),
        ]
    }
}

/// Returns whether an instance type counts against the quota of G and VT instances.
fn has_gpus(instance_type: &str) -> bool {
    instance_type.starts_with('g') || instance_type.starts_with("vt")
}

/// Returns the vCPUs of an instance type by its size, as the families that experiments name have
/// them ("Amazon EC2 instance types": g4dn, g5 and g6 have 4 as xlarge, t2 and m5 have 2 up to
/// large and double from xlarge on; t2.micro and t2.small have 1).
pub fn vcpus(instance_type: &str) -> u32 {
    let (family, size) = instance_type.split_once('.').unwrap_or((instance_type, ""));
    match size {
        "nano" | "micro" | "small" if family == "t2" => 1,
        "nano" | "micro" | "small" | "medium" | "large" => 2,
        "xlarge" => 4,
        "metal" => 96,
        size => {
            let times: Option<u32> = size.strip_suffix("xlarge").and_then(|n| n.parse().ok());
            times.map_or(96, |times| 4 * times)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_vcpus_that_their_names_say() {
        let known = [
            ("t2.small", 1),
            ("t2.medium", 2),
            ("t2.large", 2),
            ("g4dn.xlarge", 4),
            ("g4dn.12xlarge", 48),
            ("g6.48xlarge", 192),
        ];
        for (name, expected) in known {
            assert_eq!(vcpus(name), expected, "{name}");
        }
    }
}
