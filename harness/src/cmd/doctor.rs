//! `doctor`: what this machine can do, and what to do about the rest.

use epochcost_datasets::{self as datasets, Origin};
use epochcost_experiment::data::default_directory;
use epochcost_planner::error::Error;
use epochcost_platform::{Finding, PlatformKind, PlatformOptions, cloud};
use epochcost_record::Machine;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

use crate::cmd::findings;

/// `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also measure what sandboxes get: the CPU share of 885 and 1,769 MB, where
    /// memory ends, and where /tmp does. Takes some seconds; builds the worker.
    #[arg(long)]
    measure: bool,
}

/// Checks everything a run on this machine may need. Nothing found missing is an error: each
/// has a remedy, or a run that does without.
///
/// # Errors
/// When limits are to be measured and no worker can be built or started.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let mut findings = vec![cores(), memory()];
    let mut measured = Vec::new();
    let kinds = PlatformKind::all().iter();
    for kind in kinds.filter(|kind| !kind.site().is_cloud()) {
        let platform = kind.open(PlatformOptions::default())?;
        findings.extend(platform.doctor().await?);
        if args.measure {
            measured.extend(platform.measure(output).await?);
        }
    }
    findings.extend(datasets::DATASETS.iter().map(dataset));
    findings.extend(measured);
    findings::show(&findings, output);
    output.text(format!("\n{}", readiness(&findings).join("\n")));
    output.json(&findings);
    Ok(Exit::Done)
}

/// Returns a line for each way to run: whether this machine is ready for it, or what
/// is missing.
fn readiness(findings: &[Finding]) -> Vec<String> {
    let missing = |is_of: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let all = findings.iter().filter(|finding| is_of(&finding.what));
        all.filter(|finding| !finding.ok)
            .map(|finding| finding.what.as_str())
            .collect()
    };
    let line = |name: &str, missing: &[&str], otherwise: &str| {
        if missing.is_empty() {
            format!("{name}: ready")
        } else {
            format!("{name}: not ready ({otherwise}): {}", missing.join(", "))
        }
    };
    let gpu = missing(&|what| matches!(what, "CUDA" | "worker on CUDA"));
    let real = missing(&|what| what.starts_with("real services"));
    let worker = missing(&|what| what == "worker");
    let limits = missing(&|what| what.contains("of functions") || what == "size of /tmp");
    let mut lines = vec![line("this machine", &worker, "the first run builds it")];
    if !limits.is_empty() {
        lines.push(format!("this machine, not enforced: {}", limits.join(", ")));
    }
    lines.push(line("this machine, --services real", &real, "install them"));
    let on_cpu = "rows with a GPU run on the CPU";
    lines.push(line("this machine, GPU", &gpu, on_cpu));
    lines.push("virtual time: ready".to_owned());
    lines.extend(clouds());
    lines
}

/// Returns a line for each cloud platform: whether this build has its clients.
fn clouds() -> Vec<String> {
    let clouds = (PlatformKind::all().iter()).filter(|kind| kind.site().is_cloud());
    let line = |name: &str| {
        if cloud().is_ok() {
            format!("{name}: in this build; `epochcost {name} doctor` checks the account")
        } else {
            format!("{name}: not in this build (cargo build --release --features {name})")
        }
    };
    clouds.map(|kind| line(kind.as_str())).collect()
}

fn cores() -> Finding {
    let machine = Machine::here(Vec::new());
    let quota = machine.cpu_quota.map_or(String::new(), |cpus| {
        format!(", of which a control group allows {cpus:.2}")
    });
    let (cores, cpu) = (machine.cores, machine.cpu.as_deref());
    let found = format!("{cores} ({}){quota}", cpu.unwrap_or("unknown CPU"));
    match cores {
        0 | 1 => Finding::lacking(
            "CPU cores",
            found,
            "use two or more: workers of one trial share this core, which lengthens their times",
        ),
        _ => Finding::there("CPU cores", found),
    }
}

fn memory() -> Finding {
    /// Memory of the four workers of one trial that train MobileNet, of their services and of
    /// the harness, with room for other programs, bytes. Trials run one after another.
    const ENOUGH: u64 = 4_000_000_000;
    let Some(bytes) = Machine::here(Vec::new()).memory_bytes else {
        return Finding::lacking("memory", "unknown", "none: it is read from /proc/meminfo");
    };
    let found = format!("{:.1} GB", bytes as f64 / 1e9);
    if bytes >= ENOUGH {
        return Finding::there("memory", found);
    }
    let remedy = "keep workers and batches small: --set workers=2 --set batch_size=8";
    Finding::lacking("memory", found, remedy)
}

fn dataset(info: &datasets::DatasetInfo) -> Finding {
    let what = format!("dataset {}", info.name);
    let (spec, remedy) = match info.origin {
        Origin::Generated { default } => (Some(default), "none: runs generate it"),
        Origin::Published { .. } => (None, "--fetch of run and check downloads it"),
    };
    let directory = default_directory(info.name, spec);
    let found = datasets::inspect(info.name, &directory);
    let directory = directory.display();
    match found {
        Ok(found) => {
            let (train, test) = (found.train, found.test);
            Finding::there(&what, format!("{train} + {test} samples in {directory}"))
        }
        Err(_) => Finding::lacking(&what, format!("not in {directory}"), remedy),
    }
}
