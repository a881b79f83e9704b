//! The files beside the page.

use std::fs;

use epochcost_record::RunDirectory;
use epochcost_spec::format;
use serde::Serialize;

use super::research_object;

/// A file of the run directory, by its relative name.
#[derive(Debug, Serialize)]
pub(super) struct Download {
    pub name: &'static str,
    pub what: &'static str,
    /// Empty for a directory.
    pub size: String,
}

/// Every file that a run directory may have, but the page itself.
const FILES: [(&str, &str); 16] = [
    ("report.md", "this page as Markdown, for pull requests"),
    ("summary.json", "figures and verdicts, for programs"),
    ("cost.json", "both bills of every trial, line by line"),
    ("junit.xml", "verdicts, for continuous integration"),
    ("epochs.tsv", "one line per epoch of a trial"),
    (
        "trace.json",
        "one trial of each row as a trace: open it in Perfetto (ui.perfetto.dev)",
    ),
    ("trials.jsonl", "every trial, failed ones included"),
    ("invocations.jsonl", "every invocation and instance"),
    ("events", "every step, one Parquet file per trial"),
    ("manifest.json", "what the run was made with"),
    ("machine.json", "where it ran"),
    ("plan.json", "the rows as planned"),
    ("claims.json", "what the rows are compared with"),
    ("experiment.yaml", "the experiment as resolved"),
    ("prices.yaml", "the prices of its bills"),
    (
        research_object::FILE,
        "this directory as a Workflow Run RO-Crate, for repositories of research data",
    ),
];

/// Returns name and purpose of the files that exist before the page, without the crate's own.
pub(super) fn present(run: &RunDirectory) -> Vec<(&'static str, &'static str)> {
    let is_there =
        |(name, _): &(&str, &str)| *name != research_object::FILE && run.path().join(name).exists();
    FILES.into_iter().filter(is_there).collect()
}

/// Returns the files that exist. Links are relative, so that a copy of the
/// directory keeps them.
pub(super) fn downloads(run: &RunDirectory) -> Vec<Download> {
    let download = |(name, what)| {
        let found = fs::metadata(run.path().join(name)).ok()?;
        let size = if found.is_dir() {
            String::new()
        } else {
            format::bytes(found.len() as f64)
        };
        Some(Download { name, what, size })
    };
    FILES.into_iter().filter_map(download).collect()
}
