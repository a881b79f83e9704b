//! `audit`: the papers' own arithmetic, done again.

use std::path::PathBuf;

use serde::Serialize;

use crate::audit::{self, AUDIT_VERSION, Finding, Paper, Published};
use crate::cost::PriceBook;
use crate::error::Error;
use crate::exit::Exit;
use crate::results::{ResultsError, SchemaVersion};
use crate::ui::Output;

/// `audit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Papers to check; all, if none is named.
    #[arg(value_enum, value_name = "PAPER")]
    papers: Vec<Paper>,
    /// Read the published figures from here instead of those built in.
    #[arg(long, value_name = "DIR")]
    published: Option<PathBuf>,
    /// Print Markdown instead of plain text.
    #[arg(long)]
    markdown: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Audited<'a> {
    schema_version: SchemaVersion,
    findings: &'a [Finding],
}

/// Prints what adds up and what does not. Findings are the product and no
/// failure.
///
/// # Errors
/// When published figures are missing or are no numbers.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let published = match &args.published {
        Some(directory) => Published::read(directory).map_err(|error| Error::Usage {
            problem: crate::chain::chain(&error),
            remedy: "--published names a directory with the files of experiments/published/"
                .to_owned(),
        })?,
        None => Published::shipped().map_err(audit::AuditError::from)?,
    };
    let prices = PriceBook::shipped().map_err(ResultsError::from)?;
    let mut papers = args.papers.clone();
    if papers.is_empty() {
        papers.extend(Paper::ALL);
    }
    papers.sort_unstable();
    papers.dedup();
    let findings = audit::audit(&papers, &published, &prices)?;
    output.text(if args.markdown {
        audit::text::markdown(&findings)
    } else {
        audit::text::plain(&findings, output.verbosity > 0)
    });
    output.json(&Audited {
        schema_version: AUDIT_VERSION,
        findings: &findings,
    });
    Ok(Exit::Done)
}
