//! `report`: writes the report of runs again, from their results alone.

use std::path::PathBuf;

use super::Output;
use crate::analysis;
use crate::error::{Error, Exit};
use crate::report;
use crate::results::RunDirectory;

/// `report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run directories.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
}

/// Writes the report of each run, and ends as the run itself ended.
///
/// # Errors
/// When a directory is no run, is damaged, or cannot be written to.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let mut exit = Exit::Done;
    let mut summaries = Vec::new();
    for path in &args.runs {
        let run = RunDirectory::open_whole(path)?;
        let analysis = analysis::summarise(&run)?;
        report::write(&run, &analysis)?;
        for warning in &analysis.warnings {
            output.message(format_args!("warning: {warning}"));
        }
        output.text(report::terminal_table(&analysis));
        output.message(format_args!(
            "report: {}",
            path.join("report.html").display()
        ));
        exit = exit.max(analysis.exit_status());
        summaries.push(analysis.summary);
    }
    output.json(&summaries);
    Ok(exit)
}
