//! `audit`: the papers' statements, by their own figures.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, PossibleValue, TypedValueParser};
use serde::Serialize;

use epochcost_judge::audit::{self, AUDIT_VERSION, AuditError, Finding, Mark, Outcome};
use epochcost_planner::error::Error;
use epochcost_record::{SchemaVersion, probe_file};
use epochcost_report as report;
use epochcost_spec::chain::chain;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

/// `audit`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Papers to check: a shipped one, or a folder with paper.yaml; all shipped ones, if none is
    /// named.
    #[arg(value_name = "PAPER", value_parser = PaperParser)]
    papers: Vec<PathBuf>,
    /// Show only the sentences at this place, in full: a section with those below it (`V-B2`), a
    /// table or a figure (`table2`), or `abstract`.
    #[arg(long, value_name = "SECTION|TABLE")]
    at: Option<String>,
    /// Show only the sentences with this text in them or in their formula, in full.
    #[arg(long, value_name = "TEXT")]
    word: Option<String>,
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
    /// The same statements, each with its readings.
    sentences: Vec<Readings<'a>>,
    findings: &'a [Finding],
}

/// A sentence as `--json` prints it.
#[derive(Serialize)]
struct Readings<'a> {
    /// None if it depends on the reading.
    outcome: Option<Outcome>,
    readings: Vec<&'a Mark>,
}

/// Prints what adds up and what does not. Findings are the product and no
/// failure.
///
/// # Errors
/// When a paper is unknown, its files are missing or damaged, or no sentence is at the place or has
/// the word.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(path) = &args.html {
        probe_file(path, "--html")?;
    }
    let published = args.published.as_deref();
    let papers =
        audit::read(&args.papers, published).map_err(|error| match (error, published) {
            (AuditError::Published(error), Some(_)) => Error::usage(
                chain(&error),
                "--published names a directory with the tables of experiments/published/",
            ),
            (error, _) => error.into(),
        })?;
    let mut findings = audit::audit(&papers)?;
    let is_part = args.at.is_some() || args.word.is_some();
    if is_part {
        findings = audit::chosen(&findings, args.at.as_deref(), args.word.as_deref())?;
    }
    output.text(if args.markdown {
        report::audit_page(&findings, is_part).markdown()
    } else {
        audit::text::plain(&findings, output.verbosity > 0, is_part)
    });
    if let Some(path) = &args.html {
        report::write_page(path, &report::audit_page(&findings, is_part))?;
        output.message(format_args!("page: {}", path.display()));
    }
    let all: Vec<&Finding> = findings.iter().collect();
    let sentences = audit::sentences(&all);
    let readings = sentences.iter().map(|one| Readings {
        outcome: one.outcome(),
        readings: one.marks().collect(),
    });
    output.json(&Audited {
        schema_version: AUDIT_VERSION,
        answer: audit::text::answer(&findings, is_part),
        statements: audit::marks(&findings),
        sentences: readings.collect(),
        findings: &findings,
    });
    Ok(Exit::Done)
}
