//! `audit`: the papers' own arithmetic, done again.

use std::path::PathBuf;

use serde::Serialize;

use crate::audit::{self, AUDIT_VERSION, Finding, Paper, Published};
use crate::cost::PriceBook;
use crate::error::Error;
use crate::exit::Exit;
use crate::report;
use crate::results::{ResultsError, SchemaVersion, probe_file};
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
    /// Also write the audit as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Audited<'a> {
    schema_version: SchemaVersion,
    /// What the findings come to, a sentence each.
    answer: Vec<String>,
    findings: &'a [Finding],
}

/// Prints what adds up and what does not. Findings are the product and no
/// failure.
///
/// # Errors
/// When published figures are missing or are no numbers.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(path) = &args.html {
        probe_file(path)?;
    }
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
    if let Some(path) = &args.html {
        report::write_page(path, &report::audit_page(&findings))?;
        output.message(format_args!("page: {}", path.display()));
    }
    output.json(&Audited {
        schema_version: AUDIT_VERSION,
        answer: audit::text::sentences(&findings),
        findings: &findings,
    });
    Ok(Exit::Done)
}
