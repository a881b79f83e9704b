//! What this machine has of all that trials on it may need.

use std::path::{Path, PathBuf};

use epochcost_servers::find;
use epochcost_spec::chain::chain;
use epochcost_systems::Device;

use super::limits::{Limits, MB_PER_VCPU};
use super::requirements;
use super::worker::{CUDA_WORKER, NAME, WORKER_VARIABLE, Worker};
use crate::Finding;

/// Returns limits of functions, GPU, worker and real services.
pub(super) async fn findings() -> Vec<Finding> {
    let mut findings = limits();
    findings.extend([cuda(), worker(), worker_on_cuda().await]);
    findings.extend(requirements().into_iter().map(server));
    findings
}

/// Returns how the size of functions is enforced: tried, not guessed.
fn limits() -> Vec<Finding> {
    let names = [
        "CPU share of functions",
        "memory limit of functions",
        "size of /tmp",
    ];
    let limits = Limits::detect().enforcement(MB_PER_VCPU as u32);
    let named = names.into_iter().zip(limits);
    let found = named.map(|(what, limit)| {
        if limit.enforced {
            return Finding::there(what, limit.how);
        }
        Finding::lacking(
            what,
            limit.how,
            "run as root, or in a cgroup of your own (systemd-run --user --scope -p Delegate=yes), and \
             allow a container more CPU than its functions have; without, functions are not held to \
             their size, and the results say so",
        )
    });
    found.collect()
}

fn cuda() -> Finding {
    let what = "CUDA";
    let driver = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    match driver.lines().next() {
        Some(version) => Finding::there(what, version),
        None if Path::new("/dev/nvidia0").exists() => Finding::there(what, "/dev/nvidia0"),
        None => Finding::lacking(
            what,
            "no NVIDIA driver",
            "install one to compute on a GPU; without, the GPU baseline runs on the CPU \
             and the results say so",
        ),
    }
}

/// Returns the worker that is there, if one is; none is built.
fn worker_path() -> Option<PathBuf> {
    let named = std::env::var_os(WORKER_VARIABLE).map(PathBuf::from);
    let beside = || find::beside(NAME);
    named.or_else(beside).filter(|path| path.is_file())
}

/// Returns whether the worker computes on a GPU, and if not, why.
async fn worker_on_cuda() -> Finding {
    let what = "worker on CUDA";
    let Some(path) = worker_path() else {
        return Finding::lacking(what, "no worker is built yet", CUDA_WORKER);
    };
    let description = match Worker::at(path) {
        Ok(worker) => worker.describe().await,
        Err(error) => Err(error),
    };
    match description {
        Ok(description) if description.devices.contains(&Device::Cuda) => {
            let names: Vec<String> = description.gpus.into_iter().map(|gpu| gpu.name).collect();
            Finding::there(what, format!("it computed on {}", names.join(", ")))
        }
        Ok(description) => Finding::lacking(
            what,
            description.no_cuda.unwrap_or_else(|| "no CUDA".into()),
            CUDA_WORKER,
        ),
        Err(error) => Finding::lacking(what, chain(&error), CUDA_WORKER),
    }
}

fn worker() -> Finding {
    match worker_path() {
        Some(path) => Finding::there("worker", path.display().to_string()),
        None => Finding::lacking(
            "worker",
            "not built yet",
            format!(
                "none in a checkout: `epochcost run` builds it with cargo; \
                 elsewhere, name it in {WORKER_VARIABLE}"
            ),
        ),
    }
}

/// Returns whether a part of `--services real` is there.
fn server(requirement: Finding) -> Finding {
    let without = "without, use the embedded services, which take nothing";
    Finding {
        what: format!("real services: {}", requirement.what),
        remedy: (requirement.remedy).map(|remedy| format!("{remedy}; {without}")),
        ..requirement
    }
}
