//! `report appendix`: an appendix for artefact evaluation.

use std::fmt::Display;
use std::path::PathBuf;

use serde::Serialize;

use epochcost_judge::analysis::overview::Overview;
use epochcost_planner::error::Error;
use epochcost_record::{probe, write_whole};
use epochcost_report as report;
use epochcost_spec::exit::Exit;
use epochcost_spec::suggest::did_you_mean;
use epochcost_spec::ui::Output;

/// Summary of the recorded reproduction, from the repository's root.
const RECORD: &str = "results/records/reproduction/summary.json";

/// `report appendix`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Papers that the appendix covers; all, if none is named.
    #[arg(value_name = "PAPER")]
    papers: Vec<String>,
    /// Summary of the reproduction whose verdicts are the expected ones: the record of a checkout,
    /// or the `summary.json` of your own `reproduce`.
    #[arg(long, value_name = "FILE", default_value = RECORD)]
    record: PathBuf,
    /// Directory that `appendix.md` and `appendix.tex` are written into.
    #[arg(long, value_name = "DIR", default_value = "appendix")]
    out: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Written {
    files: Vec<PathBuf>,
    claims: usize,
}

/// Writes the appendix in both forms.
///
/// # Errors
/// When the record cannot be read, a paper is not in it, or a file cannot be written.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    let unreadable = |reason: &dyn Display| {
        Error::usage(
            format!("failed to read {}: {reason}", args.record.display()),
            "run it at the root of a checkout, which has that record, or name the summary.json of \
                 a reproduction of your own with --record",
        )
    };
    let text = std::fs::read_to_string(&args.record).map_err(|error| unreadable(&error))?;
    let record: Overview = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
    let papers = record.items.iter().map(|item| item.paper.as_str());
    let mut papers: Vec<&str> = papers.collect();
    papers.dedup();
    let mut asked = args.papers.iter();
    if let Some(unknown) = asked.find(|name| !papers.contains(&name.as_str())) {
        return Err(Error::usage(
            format!("there is no paper `{unknown}` in {}", args.record.display()),
            did_you_mean(unknown, &papers),
        ));
    }
    let appendix = report::appendix(&record, &args.papers);
    probe(&args.out, "--out")?;
    let texts = [
        ("appendix.md", &appendix.markdown),
        ("appendix.tex", &appendix.latex),
    ];
    let mut files = Vec::new();
    for (name, text) in texts {
        let path = args.out.join(name);
        write_whole(&path, text.as_bytes())?;
        output.text(path.display());
        files.push(path);
    }
    output.json(&Written {
        files,
        claims: appendix.claims,
    });
    Ok(Exit::Done)
}
