//! `doctor`: what this machine can do, and what to do about the rest; `aws doctor`: the same of an account.

use std::path::Path;

use epochcost_datasets::{self as datasets, Origin};

use crate::error::Error;
use crate::exit::Exit;
use crate::experiment::data::default_directory;
use crate::experiment::{Experiment, Options};
use crate::format::wrapped;
use crate::platform::{Finding, PlatformKind, PlatformOptions, cloud, platforms};
use crate::results::Machine;
use crate::run::platform_findings;
use crate::ui::{Output, table};

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
    for kind in PlatformKind::all() {
        if kind.site().is_cloud() {
            continue;
        }
        let platform = kind.open(PlatformOptions::default())?;
        findings.extend(platform.doctor().await?);
        if args.measure {
            measured.extend(platform.measure(output).await?);
        }
    }
    findings.extend(datasets::DATASETS.iter().map(dataset));
    findings.extend(measured);
    show(&findings, output);
    output.text(format!("\n{}", readiness(&findings).join("\n")));
    output.json(&findings);
    Ok(Exit::Done)
}

/// Checks the accounts of clouds, for an experiment where one is named.
///
/// # Errors
/// When this build has no cloud's clients, no region is configured, or the experiment is unusable.
pub async fn account(experiment: Option<&Path>, output: Output) -> Result<Exit, Error> {
    let mut findings = Vec::new();
    for kind in PlatformKind::all()
        .iter()
        .filter(|kind| kind.site().is_cloud())
    {
        findings.extend(of_account(*kind, experiment).await?);
    }
    show(&findings, output);
    output.json(&findings);
    Ok(Exit::Done)
}

fn show(findings: &[Finding], output: Output) {
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
    output.text(findings_text(&rows, output.width()));
}

/// Returns the findings as a table with the remedies below it, each once: they are
/// sentences, and too long for a column.
fn findings_text(rows: &[[String; 4]], width: Option<usize>) -> String {
    let found = rows.iter().map(|[what, mark, found, _]| {
        let room = width.map(|width| width.saturating_sub(40));
        let cut = found.chars().count() > room.unwrap_or(usize::MAX);
        let found = if cut {
            let room = room.unwrap_or(0).saturating_sub(1);
            format!("{}…", found.chars().take(room).collect::<String>())
        } else {
            found.clone()
        };
        [what.clone(), mark.clone(), found]
    });
    let mut text = table(["what", "", "found"], &found.collect::<Vec<_>>());
    let mut remedies: Vec<(&str, Vec<&str>)> = Vec::new();
    for [what, _, _, remedy] in rows.iter().filter(|row| !row[3].is_empty()) {
        match remedies.iter_mut().find(|(known, _)| known == remedy) {
            Some((_, names)) => names.push(what),
            None => remedies.push((remedy, vec![what])),
        }
    }
    for (remedy, names) in remedies {
        let line = wrapped("  ", &format!("{}: {remedy}", names.join(", ")));
        text.push_str(&format!("\n{line}"));
    }
    text
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
    lines.push(line(
        "this machine, GPU",
        &gpu,
        "rows with a GPU run on the CPU",
    ));
    lines.push("virtual time: ready".to_owned());
    lines.extend(clouds());
    lines
}

/// Returns a line for each cloud platform: whether this build has its clients.
fn clouds() -> Vec<String> {
    let clouds = platforms()
        .iter()
        .filter(|factory| factory.site().is_cloud());
    let line = |name: &str| {
        if cloud().is_ok() {
            format!("{name}: in this build; `epochcost {name} doctor` checks the account")
        } else {
            format!("{name}: not in this build (cargo build --release --features {name})")
        }
    };
    clouds.map(|factory| line(factory.name())).collect()
}

/// Prints the policy of every cloud's callers.
///
/// # Errors
/// When this build has no cloud's clients.
pub fn policy(output: Output) -> Result<Exit, Error> {
    for kind in PlatformKind::all() {
        if let Some(cloud) = kind.cloud()? {
            let policy = cloud.caller_policy();
            output.text(format_args!("{policy:#}"));
            output.json(&policy);
        }
    }
    Ok(Exit::Done)
}

/// Checks an account, for an experiment where one is named.
async fn of_account(kind: PlatformKind, file: Option<&Path>) -> Result<Vec<Finding>, Error> {
    let Some(file) = file else {
        let platform = kind.open(PlatformOptions::default())?;
        return Ok(platform.doctor().await?);
    };
    let options = Options {
        platform: Some(kind),
        ..Options::default()
    };
    platform_findings(&Experiment::load(file, &options)?).await
}

fn cores() -> Finding {
    let machine = Machine::here(Vec::new());
    let quota = machine.cpu_quota.map_or(String::new(), |cpus| {
        format!(", of which a control group allows {cpus:.2}")
    });
    let found = format!(
        "{} ({}){quota}",
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
        Origin::Generated { default } => (Some(default), "none: runs generate it"),
        Origin::Published { .. } => (None, "--fetch of run and check downloads it"),
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
