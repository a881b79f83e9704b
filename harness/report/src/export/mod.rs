//! Figures and tables that leave the page: images that stand alone, their data, and
//! tables for papers.

mod image;
mod table;

use std::path::Path;

use epochcost_record::{Manifest, ResultsError, RunDirectory, write_whole};
use epochcost_spec::format;

use super::charts::Chart;
use super::table::{Cell, Class, Column, Table};
use super::view::{VerdictLine, View};

pub(super) use self::table::latex_text;

/// Who made the program.
const CFF: &str = include_str!("../../../../CITATION.cff");

/// Writes everything into `directory`; returns the number of files.
pub(super) fn write(
    run: &RunDirectory,
    view: &View,
    directory: &Path,
) -> Result<usize, ResultsError> {
    let mut files: Vec<(String, String)> = Vec::new();
    let citation = citation(run.manifest(), &view.title);
    // Figures, with their data.
    for chart in &view.charts {
        files.push((format!("{}.svg", chart.id), image(chart, view, &citation)));
        let csv = chart.csv.iter().cloned();
        files.extend(csv.map(|csv| (format!("{}.csv", chart.id), csv)));
    }
    for chart in &view.timelines {
        let name = format!("timeline-{}.svg", format::slug(&chart.title));
        files.push((name, image(chart, view, &citation)));
    }
    // Tables.
    let title = format!("{}, {}", view.title, origin(run.manifest()));
    for mut table in tables(view) {
        // Alone it says itself what it is of, and what its marks mean.
        table.caption = match view.answer.split_last() {
            // What was found on papers' conclusions, its last sentence, is another table's.
            Some((_, said)) if !said.is_empty() && table.id == view.summary.table.id => {
                format!("{title}. {}", said.join(" "))
            }
            _ => format!("{title}: {}", table.caption),
        };
        table.notes = table.legend();
        let name = table.id;
        let label = format!("tab:{}-{name}", format::slug(&view.title));
        files.push((format!("table-{name}.csv"), table.csv()));
        files.push((format!("table-{name}.md"), table.markdown()));
        files.push((format!("table-{name}.tex"), table.latex(&citation, &label)));
    }
    files.push(("tables.tex".to_owned(), document(view, &citation)));
    files.push(("CITATION.bib".to_owned(), bibtex(run.manifest(), &citation)));
    for (name, text) in &files {
        write_whole(&directory.join(name), text.as_bytes())?;
    }
    Ok(files.len())
}

/// Returns a document of LaTeX with every table, to see them or to take one from.
fn document(view: &View, citation: &str) -> String {
    let input = |table: Table| format!("\\input{{table-{}}}\n\\clearpage\n", table.id);
    let inputs: String = tables(view).into_iter().map(input).collect();
    format!(
        "% {citation}\n\\documentclass{{article}}\n\\usepackage[T1]{{fontenc}}\n\
         \\usepackage{{array,booktabs,graphicx,longtable}}\n\\begin{{document}}\n{inputs}\
         \\noindent {}\n\\end{{document}}\n",
        latex_text(citation)
    )
}

fn image(chart: &Chart, view: &View, citation: &str) -> String {
    image::alone(&chart.svg, !view.tag.is_empty(), citation)
}

/// Returns what to cite a figure with: the run, its origin, and what it was made with.
fn citation(manifest: &Manifest, title: &str) -> String {
    let commit = manifest.git.as_ref().and_then(|git| git.commit.as_deref());
    let commit = commit.map_or(String::new(), |commit| format!(", commit {commit}"));
    let (version, run, day) = (
        &manifest.epochcost.version,
        &manifest.run_id,
        &manifest.created,
    );
    let origin = origin(manifest);
    format!("epochcost {version}{commit}: experiment {title}, run {run}, {origin}, {day}.")
}

/// Returns where a run's figures come from.
fn origin(manifest: &Manifest) -> String {
    match &manifest.simulation {
        Some(record) => format!("simulated on the platform profile {}", record.profile),
        None => format!("measured on the platform {}", manifest.platform),
    }
}

/// Returns an entry of BibTeX for the program and this run, as CITATION.cff names the program.
fn bibtex(manifest: &Manifest, citation: &str) -> String {
    let field = |name: &str| {
        let found = CFF.lines().find_map(|line| line.trim().strip_prefix(name));
        latex_text(found.unwrap_or_default().trim().trim_matches('"'))
    };
    let year: String = manifest.created.chars().take(4).collect();
    format!(
        "@software{{epochcost,\n  title = {{{{{}}}}},\n  author = {{{{{}}}}},\n  version = {{{}}},\n  \
         year = {{{year}}},\n  note = {{{}}},\n}}\n",
        field("title:"),
        field("- name:"),
        latex_text(&manifest.epochcost.version),
        latex_text(citation),
    )
}

/// Returns the page's tables, and its verdicts.
fn tables(view: &View) -> Vec<Table> {
    let of_view = [&view.summary, &view.stages, &view.traffic, &view.costs];
    let of_view = of_view.map(|shown| shown.table.clone());
    let verdicts = [
        ("verdicts", view.verdicts_title.as_str(), &view.verdicts),
        ("checks", "Checks", &view.checks),
    ];
    let verdicts = verdicts.into_iter().filter(|(.., lines)| !lines.is_empty());
    let verdicts = verdicts.map(|(id, title, lines)| of_verdicts(id, title, lines));
    of_view.into_iter().chain(verdicts).collect()
}

fn of_verdicts(id: &'static str, caption: &str, lines: &[VerdictLine]) -> Table {
    let heading = "verdict: | claim: | row: | source: | published | observed | ratio";
    let mut table = Table::of(id, caption, heading);
    table.columns.push(Column {
        class: Class::Data,
        ..Column::of("unit")
    });
    for line in lines {
        let figures = [&line.published, &line.observed, &line.ratio].into_iter();
        let figures = figures.zip(&line.exact).map(|(text, exact)| Cell {
            exact: exact.clone(),
            ..Cell::text(text)
        });
        let texts = [&line.word, &line.claim, &line.row, &line.source].map(Cell::text);
        let cells = texts.into_iter().chain(figures);
        table.row(cells.chain([Cell::text(&line.unit)]).collect());
    }
    table
}
