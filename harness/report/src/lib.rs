//! Reports: a page, its Markdown twin and `summary.json`, all made of one run
//! directory and nothing else.
//!
//! It imports every crate of the harness but `epochcost-planner` and `epochcost`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod activity;
mod artifact;
mod audit;
mod chart;
mod charts;
mod comparison;
mod downloads;
mod export;
mod facts;
mod junit;
mod notes;
mod overview;
mod page;
mod paper;
mod paper_tables;
mod predictions;
mod provenance;
mod research_object;
mod rows;
mod samples;
mod simulation;
mod table;
mod tables;
mod tally;
mod terminal;
#[cfg(test)]
#[path = "../../testing.rs"]
mod testing;
mod trace;
mod usage;
mod view;

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use epochcost_judge::analysis::Analysis;
use epochcost_judge::analysis::names::names;
use epochcost_record::{ResultsError, RunDirectory};
use epochcost_spec::hash::sha256;
use epochcost_spec::ui::visible;
use serde::Serialize;
use tera::{Context, Kwargs, State, Tera};

use self::charts::{Labelled, Timelines, labelled};
use self::samples::Sample;
use self::trace::Trace;
use self::view::{Charts, View};

pub use artifact::{Appendix, appendix};
pub use audit::audit_page;
pub use chart::escape;
pub use charts::{COST_NAMES, Chart, cost_parts};
pub use comparison::{Words, write_comparison};
pub use overview::write_overview;
pub use page::{Page, Parts, Section, TimeAndCost, stacked, time_cost, write_page};
pub use paper::{Deviations, paper_page};
pub use paper_tables::Rows;
pub use provenance::Provenance;
pub use table::{Cell, Table};
pub use terminal::{terminal_overview, terminal_table, terminal_warnings};

const HTML: &str = include_str!("../../../templates/report.html");
const MARKDOWN: &str = include_str!("../../../templates/report.md");
/// Frame of every page: head, style and script.
const BASE: &str = include_str!("../../../templates/base.html");
/// Components that pages share.
const PARTS: &str = include_str!("../../../templates/parts.html");
const STYLE: &str = include_str!("../../../templates/style.css");
const SCRIPT: &str = include_str!("../../../templates/report.js");

/// Writes `summary.json`, `cost.json`, `epochs.tsv`, `junit.xml`, `trace.json`, `report.md`,
/// `ro-crate-metadata.json` and `report.html`. The same directory always gives the same bytes.
///
/// # Errors
/// When a file could not be written.
pub fn write(run: &RunDirectory, analysis: &Analysis) -> Result<(), ResultsError> {
    run.write_json("summary.json", &analysis.summary)?;
    tables::write(run, analysis)?;
    let verdicts = junit::junit(&run.manifest().experiment, analysis);
    run.write("junit.xml", verdicts.as_bytes())?;
    let mut trace = Trace::of(samples::chosen(analysis).len());
    let mut view = view(run, analysis, |labelled, sample| {
        trace.add(labelled, sample)
    })?;
    trace.write(run)?;
    // The page shows the sizes of the files beside it, so it comes last.
    let markdown = render("report.md", MARKDOWN, &view)?;
    run.write("report.md", markdown.as_bytes())?;
    run.write_json(research_object::FILE, &research_object::crate_metadata(run))?;
    view.downloads = downloads::downloads(run);
    let page = render("report.html", HTML, &view)?;
    run.write("report.html", page.as_bytes())
}

/// Writes every figure of a run as an image that stands alone, with its data, and
/// every table as CSV, Markdown and LaTeX, into `directory`; returns how many files.
///
/// # Errors
/// When a file could not be read or written.
pub fn write_figures(
    run: &RunDirectory,
    analysis: &Analysis,
    directory: &Path,
) -> Result<usize, ResultsError> {
    export::write(run, &view(run, analysis, |_, _| {})?, directory)
}

/// Returns the content of a report; one trial of each row is shown to `look`.
fn view(
    run: &RunDirectory,
    analysis: &Analysis,
    mut look: impl FnMut(&Labelled<'_>, &Sample<'_>),
) -> Result<View, ResultsError> {
    let names = names(&analysis.summary.rows);
    let rows = labelled(analysis, &names);
    let mut timelines = Timelines::default();
    samples::each(
        run,
        &rows,
        &samples::chosen(analysis),
        |labelled, sample| {
            look(labelled, sample);
            timelines.add(labelled, sample);
        },
    )?;
    let all = charts::all(analysis, &rows, run.claims(), &run.manifest().platform);
    Ok(View::new(run, analysis, &rows, Charts { all, timelines }))
}

fn render(
    name: &'static str,
    template: &str,
    view: &impl Serialize,
) -> Result<String, ResultsError> {
    let failed = |error: tera::Error| ResultsError::Render {
        template: name,
        reason: format!("{error:?}"),
    };
    let mut tera = Tera::default();
    let cell = |text: &str, _: Kwargs, _: &State| markdown_cell(text);
    tera.register_filter("cell", cell);
    let templates = [("base.html", BASE), ("parts.html", PARTS), (name, template)];
    tera.add_raw_templates(templates).map_err(failed)?;
    let mut context = Context::new();
    context.insert("view", view);
    context.insert("style", STYLE);
    context.insert("script", SCRIPT);
    context.insert("policy", &policy());
    let text = tera.render(name, &context).map_err(failed)?;
    Ok(visible(&text).into_owned())
}

/// Returns what a page may do: run this script and no other text of the page, and show
/// pictures of its own (a figure that is saved as PNG). It may ask for nothing.
fn policy() -> String {
    let hash = BASE64_STANDARD.encode(sha256(SCRIPT.as_bytes()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hash}'"
    )
}

/// Escapes text for a cell of a Markdown table.
fn markdown_cell(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_break_its_table() {
        assert_eq!(markdown_cell("a|b\n<c>"), "a\\|b &lt;c&gt;");
    }
}
