//! Figures and tables that leave the page: images that stand alone, their data, and
//! tables for papers.

mod image;
mod picture;
mod table;

use std::path::Path;

pub use self::picture::{REMEDY as PICTURES_REMEDY, Renderer};
pub(super) use self::table::{Table, latex_text};
use super::cell::Cell;
use super::charts::{Chart, STAGES};
use super::view::{VerdictLine, View};
use crate::results::{Manifest, ResultsError, RunDirectory, write_whole};

/// Writes everything into `directory`, figures as PNG too with a renderer; returns the number
/// of files.
pub(super) fn write(
    run: &RunDirectory,
    view: &View,
    directory: &Path,
    renderer: Option<&Renderer>,
) -> Result<usize, ResultsError> {
    let mut files: Vec<(String, String)> = Vec::new();
    let citation = citation(run.manifest(), &view.title);
    // Figures, with their data.
    for chart in view.charts.iter().chain(&view.timelines) {
        files.push((format!("{}.svg", chart.id), image(chart, view, &citation)));
        if let Some(data) = &chart.data {
            let table = Table::of_data(&chart.title, data);
            files.push((format!("{}.csv", chart.id), table.csv()));
        }
    }
    // Tables.
    for (name, table) in tables(view) {
        files.push((format!("table-{name}.csv"), table.csv()));
        files.push((format!("table-{name}.md"), table.markdown()));
        files.push((format!("table-{name}.tex"), table.latex(&citation)));
    }
    files.push(("tables.tex".to_owned(), document(view, &citation)));
    files.push(("CITATION.txt".to_owned(), format!("{citation}\n")));
    for (name, text) in &files {
        write_whole(&directory.join(name), text.as_bytes())?;
    }
    let Some(renderer) = renderer else {
        return Ok(files.len());
    };
    let charts = view.charts.iter().chain(&view.timelines);
    let mut drawn = 0;
    for chart in charts {
        picture(renderer, directory, chart)?;
        drawn += 1;
    }
    Ok(files.len() + drawn)
}

/// Returns a document of LaTeX with every table, to see them or to take one from.
fn document(view: &View, citation: &str) -> String {
    let inputs = tables(view).into_iter();
    let inputs: String = inputs
        .map(|(name, _)| format!("\\input{{table-{name}}}\n\\clearpage\n"))
        .collect();
    format!(
        "% {citation}\n\\documentclass{{article}}\n\\usepackage[T1]{{fontenc}}\n\
         \\usepackage{{array,booktabs,graphicx,longtable}}\n\\begin{{document}}\n{inputs}\
         \\noindent {}\n\\end{{document}}\n",
        latex_text(citation)
    )
}

/// Draws the image of a chart, which was written, as PNG beside it.
fn picture(renderer: &Renderer, directory: &Path, chart: &Chart) -> Result<(), ResultsError> {
    let of = |directory: &Path, kind: &str| directory.join(format!("{}.{kind}", chart.id));
    // Browsers take whole paths alone.
    let absolute = directory
        .canonicalize()
        .map_err(ResultsError::io("find", directory))?;
    let (svg, png) = (of(&absolute, "svg"), of(&absolute, "png"));
    let size = image::pixels(&chart.svg);
    let drawn = renderer.draw(&svg, &png, size);
    drawn.map_err(|reason| ResultsError::Encode {
        path: png.clone(),
        reason,
    })
}

fn image(chart: &Chart, view: &View, citation: &str) -> String {
    image::alone(&chart.svg, !view.tag.is_empty(), citation)
}

/// Returns what to cite a figure with: the run, its origin, and what it was made with.
fn citation(manifest: &Manifest, title: &str) -> String {
    let commit = manifest.git.as_ref().and_then(|git| git.commit.as_deref());
    let commit = commit.map_or(String::new(), |commit| format!(", commit {commit}"));
    let profile = manifest.simulation.as_ref();
    let origin = match profile {
        Some(record) => format!("simulated on the platform profile {}", record.profile),
        None => format!("measured on the platform {}", manifest.platform),
    };
    format!(
        "epochcost {}{commit}: experiment {title}, run {}, {origin}, {}.",
        manifest.epochcost.version, manifest.run_id, manifest.created
    )
}

/// Returns the page's tables, each with the name of its files.
fn tables(view: &View) -> Vec<(&'static str, Table)> {
    let stages = STAGES
        .iter()
        .flat_map(|(_, parts)| parts.iter().map(|(name, _)| *name));
    let mut tables = vec![
        ("summary", summary(view)),
        (
            "stages",
            Table {
                units: vec!["s".to_owned(); view.stages.len()],
                ..Table::of_cells(
                    "Seconds by stage, per worker and epoch",
                    std::iter::once("system").chain(stages),
                    view.stages
                        .iter()
                        .map(|line| (line.name.clone(), line.cells.clone())),
                )
            },
        ),
        (
            "traffic",
            Table::of_cells(
                "Traffic of the exchange of one trial",
                [
                    "system",
                    "puts",
                    "gets",
                    "messages",
                    "deliveries",
                    "in store",
                    "bytes up",
                    "bytes down",
                ],
                view.traffic
                    .iter()
                    .map(|line| (line.name.clone(), line.cells.clone())),
            ),
        ),
        ("costs", costs(view)),
    ];
    if !view.verdicts.is_empty() {
        tables.push(("verdicts", verdicts(&view.verdicts_title, &view.verdicts)));
    }
    if !view.checks.is_empty() {
        tables.push(("checks", verdicts("Checks", &view.checks)));
    }
    tables
}

fn summary(view: &View) -> Table {
    let fidelity = view.has_fidelity.then(|| "fidelity".to_owned());
    let texts = 1 + usize::from(view.has_fidelity);
    let heading = ["system".to_owned()].into_iter().chain(fidelity);
    let heading = heading
        .chain(view.columns.iter().cloned())
        .chain(["trials".to_owned()]);
    let rows = view.summary.iter().map(|row| {
        let names = [&row.name, &row.fidelity].into_iter().take(texts);
        let names = names.map(|text| Cell::text(text.as_str()));
        let figures = row.figures.iter().cloned();
        names.chain(figures).chain([row.trials.clone()]).collect()
    });
    Table {
        caption: "Every row of the experiment".to_owned(),
        heading: heading.collect(),
        texts,
        rows: rows.collect(),
        units: Vec::new(),
    }
}

fn costs(view: &View) -> Table {
    let text = |text: &str| Cell {
        text: text.to_owned(),
        exact: String::new(),
    };
    let rows = view.bills.iter().map(|line| {
        vec![
            text(&line.name),
            text(line.cost_model),
            text(&line.dimension),
            text(&line.unit),
            line.quantity.clone(),
            line.price.clone(),
            line.usd.clone(),
        ]
    });
    let heading = [
        "system",
        "cost model",
        "dimension",
        "unit",
        "quantity",
        "unit price",
        "cost",
    ];
    Table {
        caption: "Cost of a trial by both cost models".to_owned(),
        heading: heading.map(str::to_owned).into(),
        texts: 4,
        rows: rows.collect(),
        units: Vec::new(),
    }
}

fn verdicts(caption: &str, lines: &[VerdictLine]) -> Table {
    let rows = lines.iter().map(|line| {
        let cell = |text: &str, exact: &str| Cell {
            text: text.to_owned(),
            exact: exact.to_owned(),
        };
        vec![
            cell(&line.word, ""),
            cell(&line.claim, ""),
            cell(&line.row, ""),
            cell(&line.source, ""),
            cell(&line.published, &line.exact[0]),
            cell(&line.observed, &line.exact[1]),
            cell(&line.ratio, &line.exact[2]),
        ]
    });
    let heading = [
        "verdict",
        "claim",
        "row",
        "source",
        "published",
        "observed",
        "ratio",
    ];
    Table {
        caption: caption.to_owned(),
        heading: heading.map(str::to_owned).into(),
        texts: 4,
        rows: rows.collect(),
        units: lines.iter().map(|line| line.unit.clone()).collect(),
    }
}
