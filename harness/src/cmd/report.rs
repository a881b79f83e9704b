//! `report`: writes the report of runs again, from their results alone.

mod appendix;

use std::path::{Path, PathBuf};

use epochcost_judge::analysis::overview::{AnalysedRun, Overview};
use epochcost_judge::analysis::summary::Summary;
use epochcost_planner::error::Error;
use epochcost_planner::forecast::price_book;
use epochcost_record::{
    Item, ItemState, REPRODUCTION_VERSION, Reproduction, ResultsError, RunDirectory, probe,
};
use epochcost_report as report;
use epochcost_spec::chain::chain;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

/// `report`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// What to write in place of reports.
    #[command(subcommand)]
    action: Option<Action>,
    /// Run directories, or one directory of a reproduction.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Also write one page over all these runs into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write every figure (SVG, and CSV of its data) and every table (CSV,
    /// Markdown, LaTeX) of the run into this directory. The page saves figures as PNG.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    figures: Option<PathBuf>,
    /// Make the bills by this price book, in place of the one that each run recorded.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// What there is to write beside reports.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write an appendix for artefact evaluation, from the recorded reproduction.
    ///
    /// Fills in the form of EuroSys and SOSP 2026 in Markdown and LaTeX: claims C1,
    /// C2, ... with the item, the command and the expected verdict of each.
    Appendix(appendix::Args),
}

/// Writes the report of each run, and ends as the run itself ended.
///
/// # Errors
/// When a directory is no run, is damaged, or cannot be written to.
pub fn run(args: &Args, output: Output) -> Result<Exit, Error> {
    if let Some(Action::Appendix(args)) = &args.action {
        return appendix::run(args, output);
    }
    if let [directory] = &args.runs[..]
        && args.out.is_none()
        && args.figures.is_none()
        && Reproduction::is_in(directory)
    {
        return again(directory, args, output);
    }
    for (asked, option) in [(&args.out, "--out"), (&args.figures, "--figures")] {
        if let Some(asked) = asked {
            probe(asked, option)?;
        }
    }
    let mut exit = Exit::Done;
    let mut runs = Vec::new();
    for (index, path) in args.runs.iter().enumerate() {
        let place = |path: &PathBuf| path.canonicalize().ok();
        let mut earlier = args.runs[..index].iter();
        if earlier.any(|other| place(other).is_some_and(|other| Some(other) == place(path))) {
            let problem = format!("{} is a run that was given before", path.display());
            return Err(Error::usage(problem, "give each run once"));
        }
        let (run, is_written) = rewritten(path, args, output)?;
        output.text(report::terminal_table(&run.analysis, output.width()));
        for line in report::terminal_warnings(run.analysis.warnings(), "on the report's page") {
            output.message(line);
        }
        if is_written {
            let page = path.join("report.html");
            output.message(format_args!("report: {}", page.display()));
        }
        exit = exit.max(run.analysis.exit_status());
        if let Some(directory) = &args.figures {
            let directory = of_run(directory, &run, args.runs.len() > 1);
            figures(&run, &directory, output)?;
        }
        runs.push(Some(run));
    }
    if let Some(out) = &args.out {
        let record = record(out, &args.runs, &runs)?;
        record.write(out)?;
        return overview(out, &record, &runs, output);
    }
    let runs = runs.iter().flatten();
    let summaries: Vec<&Summary> = runs.map(|run| &run.analysis.summary).collect();
    output.json(&summaries);
    Ok(exit)
}

/// Returns the directory of a run's figures: one of its own where there are several runs.
fn of_run(directory: &Path, run: &AnalysedRun, is_one_of_several: bool) -> PathBuf {
    let name = Some(&run.directory.manifest().run_id).filter(|_| is_one_of_several);
    name.map_or_else(|| directory.to_owned(), |name| directory.join(name))
}

/// Writes a run's figures and tables.
fn figures(run: &AnalysedRun, directory: &Path, output: Output) -> Result<(), Error> {
    probe(directory, "--figures")?;
    let files = report::write_figures(&run.directory, &run.analysis, directory)?;
    let directory = directory.display();
    output.message(format_args!("figures: {files} files in {directory}"));
    Ok(())
}

/// Writes all reports of a reproduction again.
fn again(directory: &Path, args: &Args, output: Output) -> Result<Exit, Error> {
    let record = Reproduction::read(directory)?;
    let mut runs = Vec::with_capacity(record.items.len());
    for item in &record.items {
        let run = (item.run.as_ref()).map(|run| rewritten(&directory.join(run), args, output));
        runs.push(run.transpose()?.map(|(run, _)| run));
    }
    overview(directory, &record, &runs, output)
}

/// Analyses a run and writes its report; returns whether it is written. Where something else is
/// asked for, a directory that cannot be written to is no error.
fn rewritten(path: &Path, args: &Args, output: Output) -> Result<(AnalysedRun, bool), Error> {
    let mut directory = RunDirectory::open_whole(path)?;
    if let Some(prices) = &args.prices {
        directory = directory.priced_by(price_book(Some(prices))?);
    }
    let run = AnalysedRun::analyse(directory)?;
    let written = report::write(&run.directory, &run.analysis);
    let is_elsewhere = args.out.is_some() || args.figures.is_some() || args.prices.is_some();
    let is_asked = !is_elsewhere && !output.json;
    match written {
        Err(error) if !is_asked => {
            let (path, error) = (path.display(), chain(&error));
            let why = error.lines().next().unwrap_or_default();
            output.message(format_args!("the report in {path} was not written: {why}"));
            Ok((run, false))
        }
        // This user may not write there.
        Err(error @ ResultsError::Io { .. }) if error.is_usage() => Err(Error::usage(
            chain(&error).lines().next().unwrap_or_default(),
            "give this user the permission, or name another place with --out or --figures",
        )),
        written => Ok((run, written.map(|()| true)?)),
    }
}

fn overview(
    out: &Path,
    record: &Reproduction,
    runs: &[Option<AnalysedRun>],
    output: Output,
) -> Result<Exit, Error> {
    let overview = Overview::new(record, runs);
    report::write_overview(out, &overview, runs)?;
    output.text(report::terminal_overview(&overview));
    output.json(&overview);
    let page = out.join("report.html");
    output.message(format_args!("report: {}", page.display()));
    Ok(overview.exit_status())
}

/// What a page over runs states about them beyond their own results.
fn record(
    out: &Path,
    paths: &[PathBuf],
    runs: &[Option<AnalysedRun>],
) -> Result<Reproduction, Error> {
    let mut items = Vec::with_capacity(paths.len());
    for (path, run) in paths.iter().zip(runs.iter().flatten()) {
        let manifest = run.directory.manifest();
        let (ended, planned) = run.directory.progress()?;
        items.push(Item {
            id: format!("{}/{}", manifest.experiment, manifest.run_id),
            description: String::new(),
            platform: Some(manifest.platform.clone()),
            state: if ended == planned {
                ItemState::Done
            } else {
                ItemState::Incomplete
            },
            why: (ended != planned).then(|| format!("{ended} of {planned} trials were run")),
            run: Some(relative(out, path)?),
            reduced: Vec::new(),
            claims: Vec::new(),
            lost: Vec::new(),
        });
    }
    Ok(Reproduction {
        schema_version: REPRODUCTION_VERSION,
        visits: None,
        asked: Vec::new(),
        quick: false,
        platform: None,
        catalogue: items.len(),
        items,
    })
}

/// The way from one directory to another.
fn relative(from: &Path, to: &Path) -> Result<PathBuf, Error> {
    let absolute =
        |path: &Path| (path.canonicalize()).map_err(Error::io(format!("find {}", path.display())));
    let (from, to) = (absolute(from)?, absolute(to)?);
    let parts = from.components().zip(to.components());
    let common = parts.take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| "..".into());
    let down = to.components().skip(common);
    let down = down.map(|part| PathBuf::from(part.as_os_str()));
    Ok(up.chain(down).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_leads_up_and_down() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        for path in ["a/b", "a/c/d"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        let way = |from, to| relative(&at(from), &at(to)).unwrap();
        assert_eq!(way("a/b", "a/c/d"), Path::new("../c/d"));
        assert_eq!(way("a", "a/b"), Path::new("b"));
        assert_eq!(way("a/c/d", "a"), Path::new("../.."));
    }
}
