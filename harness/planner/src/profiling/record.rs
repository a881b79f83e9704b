//! The profile's file: a header of comments that states how it came about, and
//! the profile.

use std::io;
use std::path::Path;

use epochcost_platform::local::worker::Worker;
use epochcost_record::{Build, Git, Machine, write_whole};
use epochcost_simulator::profile::ComputeProfile;
use epochcost_spec::yaml::named;

use super::measure::method;
use super::names::machine;
use super::plan::Plan;
use super::summary::{Point, points_table};
use crate::error::{Error, Result};

/// Writes the profile with the machine, the conditions, the versions, and what was measured.
pub(super) fn write(
    plan: &Plan,
    worker: &Worker,
    profile: &ComputeProfile,
    points: &[Point],
    warnings: &[String],
) -> Result<()> {
    let build = Build::current();
    let unknown = || "unknown".to_owned();
    let kernel = plan.machine.kernel.clone();
    let mut lines = vec![
        "A compute profile, measured by `epochcost profile`.".to_owned(),
        date(),
        format!("machine: {}", machine(&plan.machine)),
        format!("kernel: {}", kernel.unwrap_or_else(unknown)),
        load(&plan.machine, "process"),
        format!("epochcost: {}, {}", build.version, commit(Git::here())),
        format!("toolchain: {}", build.toolchain.unwrap_or_else(unknown)),
        format!("worker: SHA-256 {}", worker.sha256),
        format!("method: {}", method(plan.steps, plan.rounds)),
        "fit: least squares, weighted by 1 / time²; of medians on one thread".to_owned(),
        String::new(),
    ];
    lines.extend(points_table(points).lines().map(str::to_owned));
    lines.extend(warnings.iter().map(|text| format!("warning: {text}")));
    with_header(&plan.out, &lines, profile)
}

/// Writes a profile below lines of comments, so that a reader sees all of the file or none.
pub(super) fn with_header(path: &Path, lines: &[String], profile: &ComputeProfile) -> Result<()> {
    let yaml = serde_yaml::to_string(profile).map_err(|error| Error::Io {
        doing: format!("write {}", path.display()),
        source: io::Error::other(error),
    })?;
    let comment = |line: &str| format!("# {line}").trim_end().to_owned() + "\n";
    // Whatever a line holds stays a comment.
    let header: String = lines.join("\n").split(['\n', '\r']).map(comment).collect();
    let schema = named::line("compute", path);
    Ok(write_whole(
        path,
        format!("{schema}{header}\n{yaml}").as_bytes(),
    )?)
}

/// Returns the line of the header that says when a profile was measured.
pub(super) fn date() -> String {
    format!("date: {}", jiff::Timestamp::now().strftime("%FT%TZ"))
}

/// Returns the line of the header on the load of the machine, before the first `run` and now.
pub(super) fn load(machine: &Machine, run: &str) -> String {
    let shown = |load: Option<f64>| load.map_or("unknown".into(), |load| load.to_string());
    let (before, after) = (
        shown(machine.load_average),
        shown(Machine::here(Vec::new()).load_average),
    );
    format!("load average: {before} before the first {run}, {after} after the last")
}

fn commit(git: Option<Git>) -> String {
    let commit = |git: Git| {
        let state = if git.dirty { ", with changes" } else { "" };
        Some(format!("commit {}{state}", git.commit?))
    };
    git.and_then(commit)
        .unwrap_or_else(|| "outside a git checkout".into())
}
