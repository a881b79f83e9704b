//! Every published value is claimed by an experiment.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use epochcost::claims::{Cell, Claim};
use epochcost::experiment::{Experiment, Options, yaml_files};
use epochcost::published::Table;

/// Says of every column of the other tables whether its numbers are results.
const COLUMNS: &str = "columns.csv";

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments")
}

fn tables() -> Vec<(String, Table)> {
    let entries = std::fs::read_dir(experiments().join("published")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        file.extension().is_some_and(|end| end == "csv") && !file.ends_with(COLUMNS)
    });
    files.sort();
    assert!(!files.is_empty());
    files
        .into_iter()
        .map(|file| {
            let name = file.file_name().unwrap().to_str().unwrap().to_owned();
            (name, Table::read(&file).unwrap())
        })
        .collect()
}

/// What a column holds, by file and heading.
fn columns() -> BTreeMap<(String, String), String> {
    let table = Table::read(&experiments().join("published").join(COLUMNS)).unwrap();
    let text = |row: epochcost::published::Row<'_>, name| row.text(name).unwrap().to_owned();
    table
        .rows()
        .map(|row| ((text(row, "file"), text(row, "column")), text(row, "holds")))
        .collect()
}

/// Every claim with its file.
fn claims() -> Vec<(PathBuf, Claim)> {
    let files = yaml_files(&experiments()).unwrap();
    files
        .into_iter()
        .flat_map(|file| {
            let experiment = Experiment::load(&file, &Options::default())
                .unwrap_or_else(|error| panic!("{error}"));
            let claims = experiment.claims.into_iter();
            claims
                .map(move |claim| (file.clone(), claim))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The cells that hold results.
fn results() -> BTreeSet<Cell> {
    let columns = columns();
    let mut results = BTreeSet::new();
    for (file, table) in tables() {
        for (cell, text) in table.cells() {
            match columns[&(file.clone(), cell.column.clone())].as_str() {
                "result" => {
                    let number = text.parse::<f64>();
                    assert!(
                        number.is_ok_and(f64::is_finite),
                        "{cell}: {text:?} is no number"
                    );
                    results.insert(cell);
                }
                "setting" | "audited" => {
                    assert!(text.parse::<f64>().is_ok(), "{cell}: {text:?} is no number")
                }
                "text" => {}
                other => {
                    panic!("{cell}: a column holds result, setting, audited or text, not {other:?}")
                }
            }
        }
    }
    results
}

#[test]
fn every_column_states_whether_it_holds_results() {
    let stated: BTreeSet<(String, String)> = columns().into_keys().collect();
    let there: BTreeSet<(String, String)> = tables()
        .into_iter()
        .flat_map(|(file, table)| {
            let columns = table.columns().to_vec();
            columns
                .into_iter()
                .map(move |column| (file.clone(), column))
        })
        .collect();
    assert_eq!(stated, there);
}

#[test]
fn every_published_result_is_claimed() {
    let claimed: BTreeSet<Cell> = claims()
        .into_iter()
        .filter_map(|(_, claim)| claim.cell)
        .collect();
    let results = results();
    let missing: Vec<String> = results.difference(&claimed).map(Cell::to_string).collect();
    assert!(missing.is_empty(), "no claim quotes {}", missing.join(", "));
    let others: Vec<String> = claimed.difference(&results).map(Cell::to_string).collect();
    assert!(others.is_empty(), "no results: {}", others.join(", "));
    // 54 cells of Table 2, 10 each of Table 3 and of communication, 90 + 12 + 8 of the P2P
    // paper's tables, 5 figures in the text of each of the other two.
    assert_eq!(results.len(), 54 + 10 + 10 + 110 + 5 + 5);
}

/// What exists is measured, simulated or by construction, and says so.
#[test]
fn no_figure_of_the_comparison_paper_is_left_out() {
    for (file, claim) in claims() {
        let of_comparison = claim
            .cell
            .as_ref()
            .is_some_and(|cell| cell.file.starts_with("cp_"));
        if of_comparison {
            assert_eq!(claim.not_run, None, "{}: {}", file.display(), claim.claim);
        }
    }
}

#[test]
fn every_quoted_value_names_its_source_and_the_verdict_expected() {
    for (file, claim) in claims() {
        let place = format!("{}: {}", file.display(), claim.claim);
        if claim.cell.is_some() {
            assert!(claim.source.is_some(), "{place}");
            assert!(claim.expect.is_some() || claim.not_run.is_some(), "{place}");
        }
    }
}
