//! The profile's file: a header of comments that states how it came about, and
//! the profile.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use epochcost_datasets::flush;
use epochcost_platform::local::worker::Worker;
use epochcost_record::{Build, Git, Machine};
use epochcost_simulator::profile::ComputeProfile;
use epochcost_spec::yaml::named;

use super::measure::method;
use super::names::machine;
use super::plan::Plan;
use super::summary::{Point, points_table};
use crate::error::Error;

/// Writes the file so that a reader sees all of it or none.
pub(super) fn write(
    plan: &Plan,
    worker: &Worker,
    profile: &ComputeProfile,
    points: &[Point],
    warnings: &[String],
) -> Result<(), Error> {
    let failed = |source| Error::Io {
        doing: format!("write {}", plan.out.display()),
        source,
    };
    let yaml = serde_yaml::to_string(profile).map_err(|error| failed(io::Error::other(error)))?;
    let header = header(plan, worker, points, warnings);
    let schema = named::line("compute", &plan.out);
    replace(&plan.out, &format!("{schema}{header}\n{yaml}")).map_err(failed)
}

/// The machine, the conditions, the versions, and what was measured.
fn header(plan: &Plan, worker: &Worker, points: &[Point], warnings: &[String]) -> String {
    let Machine { load_average, .. } = &plan.machine;
    let build = Build::current();
    let unknown = || "unknown".to_owned();
    let mut lines = vec![
        "A compute profile, measured by `epochcost profile`.".to_owned(),
        format!("date: {}", jiff::Timestamp::now().strftime("%FT%TZ")),
        format!("machine: {}", machine(&plan.machine)),
        format!(
            "kernel: {}",
            plan.machine.kernel.clone().unwrap_or_else(unknown)
        ),
        format!(
            "load average: {} before the first process, {} after the last",
            shown(*load_average),
            shown(Machine::here(Vec::new()).load_average)
        ),
        format!("epochcost: {}, {}", build.version, commit(Git::here())),
        format!("toolchain: {}", build.toolchain.unwrap_or_else(unknown)),
        format!("worker: SHA-256 {}", worker.sha256),
        format!("method: {}", method(plan.steps, plan.rounds)),
        "fit: least squares, weighted by 1 / time²; of medians on one thread".to_owned(),
        String::new(),
    ];
    lines.extend(points_table(points).lines().map(str::to_owned));
    lines.extend(warnings.iter().map(|text| format!("warning: {text}")));
    let comment = |line: String| format!("# {line}").trim_end().to_owned() + "\n";
    lines.into_iter().map(comment).collect()
}

fn shown(number: Option<f64>) -> String {
    number.map_or("unknown".into(), |number| number.to_string())
}

fn commit(git: Option<Git>) -> String {
    let commit = |git: Git| {
        let state = if git.dirty { ", with changes" } else { "" };
        Some(format!("commit {}{state}", git.commit?))
    };
    git.and_then(commit)
        .unwrap_or_else(|| "outside a git checkout".into())
}

/// Replaces a file so that a reader sees all of the old one or all of the new one.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("partial");
    let mut file = File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    flush(&file)?;
    fs::rename(&temporary, path)
}
