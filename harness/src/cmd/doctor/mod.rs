//! `doctor`: what this machine can do, and what to do about the rest.

#[cfg(feature = "aws")]
mod aws;

use std::path::{Path, PathBuf};

use epochcost_datasets::{self as datasets, Origin};
use epochcost_systems::Device;

use crate::error::Error;
use crate::exit::Exit;
use crate::experiment::data::default_directory;
use crate::platform::local::worker::{CUDA_WORKER, WORKER_VARIABLE, Worker, find_or_build};
use crate::platform::local::{
    Enforced, Enforcement, Requirement, enforcement, measure_limits, requirements,
};
use crate::platform::{Finding, PlatformError};
use crate::results::Machine;
use crate::ui::{Output, table};

/// `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also measure what sandboxes get: the CPU share of 885 and 1,769 MB, where
    /// memory ends, and where /tmp does. Takes some seconds; builds the worker.
    #[arg(long)]
    measure: bool,
    /// Look at the AWS account, too: identity, region, quotas, permissions.
    #[arg(long)]
    aws: bool,
}

/// Looks at everything a run may need. Nothing found missing is an error: each
/// has a remedy, or a run that does without.
///
/// # Errors
/// When limits are to be measured and no worker can be built or started; with
/// `--aws`, when this build has no AWS or no region is configured.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let mut findings = vec![cores(), memory()];
    findings.extend(limits());
    findings.extend([cuda(), worker(), worker_on_cuda().await]);
    findings.extend(requirements().into_iter().map(server));
    findings.extend(datasets::DATASETS.iter().map(dataset));
    if args.measure {
        findings.extend(measured(output).await?);
    }
    if args.aws {
        findings.extend(account().await?);
    }
    let rows: Vec<[String; 4]> = findings
        .iter()
        .map(|finding| {
            let mark = if finding.ok { "yes" } else { "no" };
            let remedy = finding.remedy.clone().unwrap_or_default();
            [
                finding.what.clone(),
                mark.to_owned(),
                finding.found.clone(),
                remedy,
            ]
        })
        .collect();
    output.text(table(["what", "", "found", "remedy"], &rows));
    output.json(&findings);
    Ok(Exit::Done)
}

/// What the account allows.
///
/// # Errors
/// When no region is configured.
#[cfg(feature = "aws")]
async fn account() -> Result<Vec<Finding>, Error> {
    aws::look().await
}

/// What the account allows.
///
/// # Errors
/// Always, in this build.
#[cfg(not(feature = "aws"))]
async fn account() -> Result<Vec<Finding>, Error> {
    Err(Error::no_aws())
}

fn cores() -> Finding {
    let machine = Machine::here(Vec::new());
    let found = format!(
        "{} ({})",
        machine.cores,
        machine.cpu.as_deref().unwrap_or("unknown CPU")
    );
    match machine.cores {
        0 | 1 => Finding::lacking(
            "CPU cores",
            found,
            "use two or more: workers of one trial share this core, and their times say so",
        ),
        _ => Finding::there("CPU cores", found),
    }
}

fn memory() -> Finding {
    /// Five systems with four MobileNet workers each at a time.
    const ENOUGH: u64 = 4_000_000_000;
    match Machine::here(Vec::new()).memory_bytes {
        Some(bytes) if bytes >= ENOUGH => {
            Finding::there("memory", format!("{:.1} GB", bytes as f64 / 1e9))
        }
        Some(bytes) => Finding::lacking(
            "memory",
            format!("{:.1} GB", bytes as f64 / 1e9),
            "keep workers and batches small: --set workers=2 --set batch_size=8",
        ),
        None => Finding::lacking("memory", "unknown", "none: it is read from /proc/meminfo"),
    }
}

/// How sandboxes are held to their functions' size: tried, not guessed.
fn limits() -> Vec<Finding> {
    let Enforcement {
        cpu,
        memory,
        storage,
    } = enforcement();
    let named = [
        ("CPU share of functions", cpu),
        ("memory limit of functions", memory),
        ("size of /tmp", storage),
    ];
    let found = named.map(|(what, enforced)| match enforced {
        Enforced::Yes { how } => Finding::there(what, how),
        Enforced::No { why } => Finding::lacking(
            what,
            why,
            "run as root, or in a cgroup of your own (systemd-run --user --scope -p Delegate=yes); \
             without, functions are not held to their size, and the results say so",
        ),
    });
    found.into()
}

/// What sandboxes were seen to get.
async fn measured(output: Output) -> Result<Vec<Finding>, Error> {
    output.message("measuring what sandboxes get: some seconds, on an idle machine");
    let worker = tokio::task::spawn_blocking(find_or_build).await;
    let worker = worker.map_err(|error| PlatformError::Worker(error.to_string()))??;
    let limits = measure_limits(&worker).await?;
    let findings = limits.into_iter().map(|limit| Finding {
        what: format!("measured: {}", limit.what),
        ok: limit.holds,
        found: limit.found,
        remedy: (!limit.holds).then(|| {
            "close other programs and measure again; if it stays, times and failures of functions \
             are not those of their size"
                .to_owned()
        }),
        asked: Some(limit.asked),
        measured: limit.measured,
    });
    Ok(findings.collect())
}

fn cuda() -> Finding {
    let what = "CUDA";
    let driver = std::fs::read_to_string("/proc/driver/nvidia/version")
        .ok()
        .and_then(|text| text.lines().next().map(str::to_owned));
    match driver {
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

/// The worker that is there, if one is; none is built.
fn worker_path() -> Option<PathBuf> {
    let named = std::env::var_os(WORKER_VARIABLE).map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("bootstrap"));
    named.or_else(beside).filter(|path| path.is_file())
}

/// Whether it computes on a GPU, and if not, why.
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
            Finding::there(what, "it computed on the GPU")
        }
        Ok(description) => Finding::lacking(
            what,
            description.no_cuda.unwrap_or_else(|| "no CUDA".into()),
            CUDA_WORKER,
        ),
        Err(error) => Finding::lacking(what, crate::chain::chain(&error), CUDA_WORKER),
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

/// What `--services real` takes.
fn server(requirement: Requirement) -> Finding {
    let what = format!("real services: {}", requirement.what);
    match requirement.state {
        Ok(found) => Finding::there(&what, found),
        Err(missing) => Finding::lacking(
            &what,
            missing.what,
            format!(
                "{}; without, use the embedded services, which take nothing",
                missing.remedy
            ),
        ),
    }
}

fn dataset(info: &datasets::DatasetInfo) -> Finding {
    let what = format!("dataset {}", info.name);
    let (spec, remedy) = match info.origin {
        Origin::Generated { default } => (
            Some(default),
            format!(
                "none: runs generate it; or epochcost data make {}",
                info.name
            ),
        ),
        Origin::Published { .. } => (None, format!("epochcost data fetch {}", info.name)),
    };
    let directory = default_directory(info.name, spec);
    match datasets::inspect(info.name, &directory) {
        Ok(found) => Finding::there(
            &what,
            format!(
                "{} + {} samples in {}",
                found.train,
                found.test,
                directory.display()
            ),
        ),
        Err(_) => Finding::lacking(&what, format!("not in {}", directory.display()), remedy),
    }
}
