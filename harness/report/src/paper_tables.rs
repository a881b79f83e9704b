//! Printed tables in their own shape, with what is observed in each cell: over all experiments, by one
//! of them, and by wall clock and the whole bill.

use std::collections::{BTreeMap, BTreeSet};

use epochcost_judge::analysis::census::{Census, Observation};
use epochcost_judge::analysis::summary::RowSummary;
use epochcost_spec::claims::{Metric, Scale, VerdictKind};
use epochcost_spec::format;
use epochcost_spec::published::{Paper, PaperTable};

use super::overview::link_to;
use super::page::{Choice, Switch};
use super::paper::name;
use super::predictions;
use super::table::{Cell, Link, Table};
use super::view::class_and_sign;

/// Observations of one cell that are named; more are counted.
const NAMED: usize = 3;

/// Columns that a paper has as sums of times and by its formula, with what an owner sees.
const BASES: [(Metric, Metric); 2] = [
    (Metric::TotalSeconds, Metric::SecondsPerEpoch),
    (Metric::TotalCostUsd, Metric::CostFullUsd),
];

/// Returns what is observed of a cell, by its place and printed figure.
type Observed<'a> = &'a dyn Fn(&str, f64) -> Option<Cell>;

/// The rows of each item that was run, by its id.
pub type Rows<'a> = BTreeMap<&'a str, &'a [RowSummary]>;

/// Returns a printed table over all experiments that observe it, and by each of them; none if
/// nothing of it was observed.
pub(super) fn switch(
    paper: &Paper,
    table: &PaperTable,
    observed: &Census<'_>,
    rows: &Rows<'_>,
) -> Option<Switch> {
    let all = |place: &str, printed: f64| {
        let own = observed.figures.get(place)?;
        Some(cell_of(paper, printed, observed.figure(place), own))
    };
    let mut choices = vec![Choice {
        label: "all experiments".into(),
        table: shaped(paper, table, &all)?,
    }];
    let mut items: Vec<(&str, &str)> = Vec::new();
    for one in observed.figures.values().flatten() {
        let item = (one.item.id.as_str(), name(one.item));
        if !items.contains(&item) {
            items.push(item);
        }
    }
    items.sort_unstable();
    for (id, label) in items {
        let of = |place: &str| {
            let mut own = observed.figures.get(place)?.iter();
            own.find(|one| one.item.id == id)
        };
        let by_one = |place: &str, printed: f64| Some(alone(printed, of(place)?));
        let own_rows = rows.get(id).copied().unwrap_or_default();
        let by_basis = |place: &str, printed: f64| on_basis(printed, of(place)?, own_rows);
        let bases: [(String, Observed<'_>); 2] = [
            (label.to_owned(), &by_one),
            (format!("{label}, wall clock and whole bill"), &by_basis),
        ];
        choices.extend(bases.into_iter().filter_map(|(label, cell)| {
            let table = shaped(paper, table, cell)?;
            Some(Choice { label, table })
        }));
    }
    let id = format!("switch-{}", table.name);
    let title = table.place.clone();
    Some(Switch { id, title, choices })
}

/// Returns a printed table whose observed cells are `cell`'s, by place and printed figure; none
/// without one.
fn shaped(paper: &Paper, table: &PaperTable, observed: Observed<'_>) -> Option<Table> {
    let columns = paper.grid.columns().iter();
    let columns = columns.filter(|column| column.table == table.name);
    let columns: Vec<_> = columns.collect();
    let keys = &table.keys[..table.printed_keys];
    // Rows in the order of the file: by the places of their cells.
    let line = |place: &str| place.rsplit(':').nth(1)?.parse::<u64>().ok();
    let mut rows: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (at, cell) in columns.iter().flat_map(|column| column.cells()) {
        rows.insert(line(&cell.place)?, at.clone());
    }
    let mut names: Vec<String> = keys.iter().map(|key| format!("{key}:")).collect();
    names.extend((columns.iter()).map(|column| format!("{}:", column.name.replace('_', " "))));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut shaped = Table::new(table.place.clone(), &names);
    let mut is_observed = false;
    for at in rows.values() {
        let mut cells: Vec<Cell> = at[..keys.len()].iter().map(Cell::text).collect();
        for column in &columns {
            let Some(cell) = column.cell(at) else {
                cells.push(Cell::default());
                continue;
            };
            let place = cell.place.rsplit('/').next().unwrap_or_default();
            let own = observed(place, cell.value);
            is_observed = is_observed || own.is_some();
            cells.push(own.unwrap_or_else(|| Cell::text(format::exact(cell.value))));
        }
        shaped.row(cells);
    }
    is_observed.then_some(shaped)
}

/// Returns a printed figure with our ratios to it.
fn cell_of(
    paper: &Paper,
    printed: f64,
    word: VerdictKind,
    observations: &[Observation<'_>],
) -> Cell {
    let text = format::exact(printed);
    if observations.is_empty() {
        return Cell::text(text);
    }
    let (class, sign) = class_and_sign(word);
    let mut sorted: Vec<&Observation<'_>> = observations.iter().collect();
    sorted.sort_by_key(|one| std::cmp::Reverse(one.standing));
    // Where a paper reads the figure in several ways, each is a table of its own.
    let claims: BTreeSet<&str> = observations.iter().map(|one| &*one.verdict.claim).collect();
    let reading = |one: &Observation<'_>| {
        let table = one.verdict.claim.split(['.', '[']).next();
        let table = table.filter(|_| claims.len() > 1);
        let table = table.map(|table| format!(", as {}", table.replace('_', " ")));
        table.unwrap_or_default()
    };
    let links = sorted.iter().filter_map(|one| {
        let predicted = predictions::of(paper, one.item, &one.verdict.claim);
        let predicted = predicted.map_or("", |_| ", predicted");
        let reading = reading(one);
        let text = format!("{} {}{reading}{predicted}", ratio(one)?, name(one.item));
        Some(link_to(one.item, text))
    });
    let mut links: Vec<Link> = links.collect();
    let more = links.len().saturating_sub(NAMED);
    links.truncate(NAMED);
    let below = match more {
        0 => String::new(),
        more => format!("and {more} more"),
    };
    let cell = Cell::badge(class, format!("{sign} {text}"));
    cell.above(below).with_links(links)
}

/// Returns our figure over the printed one, with its range.
fn ratio(one: &Observation<'_>) -> Option<String> {
    let ratio = format::number(one.verdict.ratio?);
    let range = one.verdict.observed_ci95.zip(one.verdict.published);
    let range = range.map_or(String::new(), |([low, high], published)| {
        let [low, high] = [low, high].map(|end| format::number(end / published));
        format!(" ({low} to {high})")
    });
    Some(format!("{ratio}×{range}"))
}

/// Returns a printed figure with that of one experiment.
fn alone(printed: f64, one: &Observation<'_>) -> Cell {
    let (class, sign) = class_and_sign(one.verdict.verdict);
    let ours = one.verdict.observed.map(format::number);
    let told = [ours.map(|ours| format!("ours {ours}")), ratio(one)];
    let told: Vec<String> = told.into_iter().flatten().collect();
    let link = link_to(one.item, told.join(": "));
    Cell::badge(class, format!("{sign} {}", format::exact(printed))).with_links(vec![link])
}

/// Returns a printed figure with that of one experiment on another basis, which is not compared.
fn on_basis(printed: f64, one: &Observation<'_>, rows: &[RowSummary]) -> Option<Cell> {
    let verdict = one.verdict;
    let (_, metric) = BASES.iter().find(|(own, _)| verdict.metric == Some(*own))?;
    let row = (rows.iter()).find(|row| verdict.row.as_ref() == Some(&row.id))?;
    let scale = Scale::from_metric(*metric, &verdict.unit)?;
    let ours = format::number(scale.apply(row.mean(*metric)?));
    let text = format::exact(printed);
    Some(Cell::text(text).above(format!("ours {ours} {}", metric.name().replace('_', " "))))
}
