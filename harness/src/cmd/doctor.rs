//! `doctor`: what this machine can do, and what to do about the rest.

use epochcost_datasets::{self as datasets, Origin};

use crate::error::Error;
use crate::exit::Exit;
use crate::experiment::data::default_directory;
use crate::platform::{Finding, PlatformOptions, platforms};
use crate::results::Machine;
use crate::ui::{Output, table};

/// `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also measure what sandboxes get: the CPU share of 885 and 1,769 MB, where
    /// memory ends, and where /tmp does. Takes some seconds; builds the worker.
    #[arg(long)]
    measure: bool,
    /// Check the AWS account, too: identity, region, quotas, permissions.
    #[arg(long)]
    aws: bool,
}

/// Checks everything a run may need. Nothing found missing is an error: each
/// has a remedy, or a run that does without.
///
/// # Errors
/// When limits are to be measured and no worker can be built or started; with
/// `--aws`, when this build has no AWS or no region is configured.
pub async fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let mut findings = vec![cores(), memory()];
    let (mut accounts, mut measured) = (Vec::new(), Vec::new());
    for factory in platforms() {
        let is_cloud = factory.site().is_cloud();
        if is_cloud && !args.aws {
            continue;
        }
        let platform = factory.open(PlatformOptions::default())?;
        if is_cloud {
            accounts.extend(platform.doctor().await?);
            continue;
        }
        findings.extend(platform.doctor().await?);
        if args.measure {
            measured.extend(platform.measure(output).await?);
        }
    }
    findings.extend(datasets::DATASETS.iter().map(dataset));
    findings.extend(measured);
    findings.extend(accounts);
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
            "use two or more: workers of one trial share this core, which lengthens their times",
        ),
        _ => Finding::there("CPU cores", found),
    }
}

fn memory() -> Finding {
    /// Memory of the four workers of one trial that train MobileNet, of their services and of
    /// the harness, with room for other programs, bytes. Trials run one after another.
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
