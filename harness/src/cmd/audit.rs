//! `audit`: the papers' statements, by their own figures.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, PossibleValue, TypedValueParser};
use serde::Serialize;

use crate::audit::{self, AUDIT_VERSION, AuditError, Finding, Mark};
use crate::chain::chain;
use crate::error::Error;
use crate::exit::Exit;
use crate::report;
use crate::results::{SchemaVersion, probe_file};
use crate::ui::Output;

/// `audit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Papers to check: a shipped one, or a folder with paper.yaml; all shipped ones, if none is
    /// named.
    #[arg(value_name = "PAPER", value_parser = PaperParser)]
    papers: Vec<PathBuf>,
    /// Read the published tables from here instead of those built in.
    #[arg(long, value_name = "DIR")]
    published: Option<PathBuf>,
    /// Print Markdown instead of plain text.
    #[arg(long)]
    markdown: bool,
    /// Also write the audit as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Takes any path, and offers the names of shipped papers to help and completion.
#[derive(Clone, Debug)]
struct PaperParser;

impl TypedValueParser for PaperParser {
    type Value = PathBuf;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<PathBuf, clap::Error> {
        PathBufValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(audit::names().into_iter().map(PossibleValue::new)))
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Audited<'a> {
    schema_version: SchemaVersion,
    /// What the findings come to, a sentence each.
    answer: Vec<String>,
    statements: Vec<Mark>,
    findings: &'a [Finding],
}

/// Prints what adds up and what does not. Findings are the product and no
/// failure.
///
/// # Errors
/// When a paper is unknown, or its files are missing or damaged.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(path) = &args.html {
        probe_file(path)?;
    }
    let published = args.published.as_deref();
    let papers =
        audit::read(&args.papers, published).map_err(|error| match (error, published) {
            (AuditError::Published(error), Some(_)) => Error::Usage {
                problem: chain(&error),
                remedy: "--published names a directory with the tables of experiments/published/"
                    .to_owned(),
            },
            (error, _) => error.into(),
        })?;
    let findings = audit::audit(&papers)?;
    output.text(if args.markdown {
        report::audit_page(&findings).markdown()
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
        statements: audit::marks(&findings),
        findings: &findings,
    });
    Ok(Exit::Done)
}
