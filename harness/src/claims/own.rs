//! Checks and findings: formulas over the rows of the experiment that they stand in.

use std::collections::HashSet;

use super::metric::Metric;
use crate::formula::{Cell, Column, Formula, FormulaError, Grid, Instance, Unit};
use crate::rows::Row;

/// The key of rows by their ids, and the name of their table.
const ROW: &str = "row";

/// The keys of rows by what they are.
const FIELDS: [&str; 7] = [
    "system",
    "model",
    "dataset",
    "fidelity",
    "workers",
    "batch_size",
    "memory_mb",
];

/// A figure of a row: a metric, and the accuracy that it waits for.
pub type Figure = (Metric, Option<f64>);

/// The values of a formula's free keys, with what is compared there.
#[derive(Clone, Debug)]
pub struct Place {
    /// Values of the free keys, each under its name.
    pub at: Vec<(String, String)>,
    /// Instances, in the order of the formula: each must hold.
    pub all: Vec<Instance>,
}

impl Place {
    /// Returns whether every instance holds.
    pub fn holds(&self) -> bool {
        self.all.iter().all(Instance::holds)
    }

    /// Returns the rows and figures that are read, each once.
    pub fn reads(&self) -> Vec<(&str, Figure)> {
        let mut reads = Vec::new();
        for input in self.all.iter().flat_map(|instance| &instance.inputs) {
            let name = input.name.split('[').next().unwrap_or_default();
            if let Some(figure) = figure(name)
                && !reads.contains(&(input.place.as_str(), figure))
            {
                reads.push((input.place.as_str(), figure));
            }
        }
        reads
    }

    /// Returns the rows that are read, each once.
    pub fn rows(&self) -> Vec<&str> {
        let mut rows = Vec::new();
        for (row, _) in self.reads() {
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        rows
    }
}

/// Returns the figure of that name: `bytes`, `time_to_accuracy(0.8)`.
fn figure(name: &str) -> Option<Figure> {
    let (name, target) = match name.split_once('(') {
        Some((name, target)) => (name, Some(target.strip_suffix(')')?.parse().ok()?)),
        None => (name, None),
    };
    let metric = Metric::named(name)?;
    let has_target = metric == Metric::TimeToAccuracy;
    let is_share = target.is_none_or(|target| (0.0..=1.0).contains(&target));
    (target.is_some() == has_target && is_share).then_some((metric, target))
}

/// Returns a formula's places over rows with these figures. Rows that it names and that are not
/// there have none: options of the command leave rows out.
///
/// # Errors
/// When a name is no metric, or no row has all that is compared.
pub fn places<'r>(
    formula: &Formula,
    rows: &[&'r Row],
    value: impl Fn(&'r Row, Figure) -> Option<f64>,
) -> Result<Vec<Place>, FormulaError> {
    evaluated(formula, rows, true, value)
}

/// Returns a formula's places over rows that have every figure.
///
/// # Errors
/// As [`places`].
pub fn planned(formula: &Formula, rows: &[&Row]) -> Result<Vec<Place>, FormulaError> {
    places(formula, rows, |_, _| Some(1.0))
}

/// Checks that a formula compares what rows have, and names these rows alone.
///
/// # Errors
/// When a name is no metric or row, or nothing is compared.
pub fn checked(formula: &Formula, rows: &[&Row]) -> Result<(), FormulaError> {
    evaluated(formula, rows, false, |_, _| Some(1.0)).map(|_| ())
}

/// Returns the figure that a formula names first.
pub fn first_figure(formula: &Formula) -> Option<Figure> {
    figure(formula.names().first()?)
}

/// Returns the accuracy that a formula requires.
pub fn least_accuracy(formula: &Formula) -> Option<f64> {
    let (name, least) = formula.at_least()?;
    (name == Metric::Accuracy.name()).then_some(least)
}

/// What cells are looked up by: ids of rows where brackets hold one, or else what rows are.
struct Keys {
    names: Vec<String>,
    by_id: bool,
    is_repeated: bool,
}

impl Keys {
    fn new(formula: &Formula, rows: &[&Row]) -> Self {
        let values = formula.values();
        let is_field = |(name, _): &(Option<String>, String)| {
            name.as_deref().is_some_and(|name| FIELDS.contains(&name))
        };
        let is_id = |(_, value): &(Option<String>, String)| rows.iter().any(|row| row.id == *value);
        let mut keys = Self {
            names: vec![ROW.to_owned()],
            by_id: !values.iter().any(is_field) && (values.is_empty() || values.iter().any(is_id)),
            is_repeated: false,
        };
        if !keys.by_id {
            // Rows that are alike in all of these differ in their ids.
            let known: HashSet<Vec<String>> = rows.iter().map(|row| keys.of(row)).collect();
            keys.is_repeated = known.len() < rows.len();
            keys.names = FIELDS.map(str::to_owned).to_vec();
            keys.names.extend(keys.is_repeated.then(|| ROW.to_owned()));
        }
        keys
    }

    fn of(&self, row: &Row) -> Vec<String> {
        if self.by_id {
            return vec![row.id.clone()];
        }
        let job = &row.job;
        let mut values = vec![
            job.system.clone(),
            job.model.clone(),
            job.data.dataset.clone(),
            job.fidelity.as_str().to_owned(),
            job.workers.to_string(),
            job.batch_size.to_string(),
            row.memory_mb.to_string(),
        ];
        values.extend(self.is_repeated.then(|| row.id.clone()));
        values
    }

    /// Returns the key that a value is of which no row has.
    fn of_absent(&self, name: Option<&str>, value: &str) -> &str {
        match name.and_then(|name| FIELDS.iter().find(|field| **field == name)) {
            _ if self.by_id => ROW,
            Some(field) => field,
            None if epochcost_systems::find(value).is_some() => FIELDS[0],
            None => FIELDS[1],
        }
    }
}

fn evaluated<'r>(
    formula: &Formula,
    rows: &[&'r Row],
    may_be_left_out: bool,
    value: impl Fn(&'r Row, Figure) -> Option<f64>,
) -> Result<Vec<Place>, FormulaError> {
    let keys = Keys::new(formula, rows);
    let mut grid = Grid::default();
    for (name, figure) in columns(formula) {
        let mut column = Column::new(ROW, &name, &keys.names, true);
        for row in rows {
            let at = keys.of(row);
            column.name_values(&at);
            if let Some(value) = value(row, figure) {
                let cell = Cell {
                    value,
                    half_digit: 0.0,
                    unit: Unit::named(figure.0.unit()),
                    place: row.id.clone(),
                };
                column.insert(at, cell);
            }
        }
        if may_be_left_out {
            for (name, value) in formula.values() {
                if !column.has_value(&value) {
                    column.name_value(keys.of_absent(name.as_deref(), &value), &value);
                }
            }
        }
        grid.add_column(column);
    }
    let mut places: Vec<Place> = Vec::new();
    for instance in formula.instances(&grid)? {
        let known = places.iter_mut().find(|place| place.at == instance.at);
        match known {
            Some(place) => place.all.push(instance),
            None => places.push(Place {
                at: instance.at.clone(),
                all: vec![instance],
            }),
        }
    }
    Ok(places)
}

/// Returns the figures that a formula names; every metric, so that an error can suggest one, if
/// a name is none.
fn columns(formula: &Formula) -> Vec<(String, Figure)> {
    let names = formula.names().into_iter();
    let named: Option<Vec<(String, Figure)>> = names
        .map(|name| Some((name.clone(), figure(&name)?)))
        .collect();
    named.unwrap_or_else(|| {
        let all = Metric::ALL.iter();
        all.map(|metric| (metric.name().to_owned(), (*metric, None)))
            .collect()
    })
}
