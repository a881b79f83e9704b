//! Checks and findings: formulas over the rows of the experiment that they stand in.

use std::collections::{HashMap, HashSet};

use super::metric::Metric;
use crate::formula::{
    Cell, Column, Formula, FormulaError, Grid, Input, Instance, ResolvedFormula, Span, Unit,
};
use crate::rows::Row;

/// The key of rows by their ids, and the name of their table.
const ROW: &str = "row";

/// Fields of rows that keys may stand for.
pub const FIELDS: [&str; 10] = [
    "system",
    "model",
    "dataset",
    "fidelity",
    "workers",
    "batch_size",
    MEMORY,
    DEVICE,
    "instance_type",
    ROW,
];

/// The keys of rows by what they are.
const KEYS: &[&str] = FIELDS.split_at(8).0;

/// The keys of which every system has its own value: two systems are compared whatever theirs are,
/// unless rows differ in nothing else or the formula names them.
const OWN: [&str; 2] = [MEMORY, DEVICE];
const MEMORY: &str = "memory_mb";
const DEVICE: &str = "device";

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

    /// Returns whether it fails for strict comparisons of equal numbers alone.
    pub fn is_tied(&self) -> bool {
        !self.holds() && (self.all.iter()).all(|instance| instance.holds() || instance.is_tied())
    }

    /// Returns the rows and figures that are read, each once, those among them of which a largest,
    /// smallest or best one was chosen.
    pub fn reads(&self) -> Vec<(&str, Figure)> {
        let inputs = (self.all.iter()).flat_map(|one| one.inputs.iter().chain(&one.beside));
        figures_of(inputs)
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

/// Returns the rows and figures that instances compare, each once.
pub fn reads(instances: &[Instance]) -> Vec<(&str, Figure)> {
    figures_of(instances.iter().flat_map(|instance| &instance.inputs))
}

fn figures_of<'a>(inputs: impl Iterator<Item = &'a Input>) -> Vec<(&'a str, Figure)> {
    let mut reads = Vec::new();
    for input in inputs {
        let name = input.name.split('[').next().unwrap_or_default();
        if let Some(figure) = figure(name)
            && !reads.contains(&(input.place.as_str(), figure))
        {
            reads.push((input.place.as_str(), figure));
        }
    }
    reads
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

/// A formula whose names are resolved over rows.
pub struct OverRows {
    formula: ResolvedFormula,
    grid: Grid,
    /// Places where rows have every figure.
    pub places: Vec<Place>,
    /// Cells that some place reads.
    reads: Vec<Read>,
}

/// A cell of the grid: a figure of a row.
struct Read {
    row: String,
    figure: Figure,
    column: usize,
    at: Vec<String>,
    unit: Option<Unit>,
}

impl OverRows {
    /// Reads a formula and resolves its names over rows. Rows that it names and that are not
    /// there have no figure: options of the command leave rows out.
    ///
    /// # Errors
    /// When the text is no formula, a name is no metric, or no row has all that is compared.
    pub fn new(formula: &str, rows: &[&Row]) -> Result<Self, FormulaError> {
        Self::resolved(formula, rows, true)
    }

    /// Checks that a formula compares what rows have, and names these rows alone.
    ///
    /// # Errors
    /// When the text is no formula, a name is no metric or row, or nothing is compared.
    pub fn check(formula: &str, rows: &[&Row]) -> Result<(), FormulaError> {
        let over = Self::resolved(formula, rows, false)?;
        let refused = |problem: &str, remedy| {
            Err(FormulaError::new(formula, Span::default(), problem, remedy))
        };
        if over.reads.is_empty() {
            let remedy = "name a metric: `bytes[allreduce] <= 1000`";
            return refused("it reads no figure of a row", remedy);
        }
        // A key that one side leaves out has one value on both: what is named may have no partner.
        let read: HashSet<&str> = over.reads.iter().map(|read| read.row.as_str()).collect();
        let read = rows.iter().filter(|row| read.contains(row.id.as_str()));
        let read: HashSet<String> = read.flat_map(|row| all_of(row)).collect();
        let is_there = |value: &str| rows.iter().any(|row| all_of(row).any(|name| name == value));
        let mut chosen = Formula::parse(formula)?.chosen().into_iter();
        match chosen.find(|value| is_there(value) && !read.contains(value)) {
            None => Ok(()),
            Some(value) => {
                let remedy = "no row on the other side is alike in all that the formula leaves \
                              out: name what differs on both sides";
                refused(&format!("nothing is compared of `{value}`"), remedy)
            }
        }
    }

    fn resolved(formula: &str, rows: &[&Row], may_be_left_out: bool) -> Result<Self, FormulaError> {
        let formula = Formula::parse(formula)?;
        let keys = Keys::new(&formula, rows);
        let mut grid = Grid::default();
        let mut cells = Vec::new();
        for (column, (name, figure)) in columns(&formula).into_iter().enumerate() {
            let unit = Unit::named(figure.0.unit());
            let mut of_name = Column::new(ROW, &name, &keys.names, true);
            for row in rows {
                let read = Read {
                    row: row.id.clone(),
                    figure,
                    column,
                    at: keys.of(row),
                    unit: unit.clone(),
                };
                of_name.insert(read.at.clone(), read.cell(1.0));
                cells.push(read);
            }
            if may_be_left_out {
                for (name, value) in formula.values() {
                    if !of_name.has_value(&value) {
                        of_name.name_value(keys.of_absent(name.as_deref(), &value), &value);
                    }
                }
            }
            grid.add_column(of_name);
        }
        let formula = formula.resolve(&grid)?;
        let mut places: Vec<Place> = Vec::new();
        for instance in formula.instances(&grid)? {
            match places.iter_mut().find(|place| place.at == instance.at) {
                Some(place) => place.all.push(instance),
                None => places.push(Place {
                    at: instance.at.clone(),
                    all: vec![instance],
                }),
            }
        }
        let known = places.iter().flat_map(Place::reads);
        let known: HashSet<(&str, Metric)> =
            known.map(|(row, (metric, _))| (row, metric)).collect();
        cells.retain(|read| known.contains(&(read.row.as_str(), read.figure.0)));
        Ok(Self {
            formula,
            grid,
            places,
            reads: cells,
        })
    }

    /// Returns each place where rows have these figures; none where one is missing, also one
    /// of which a largest or smallest is chosen.
    ///
    /// # Errors
    /// When one cannot be computed, as a division by 0.
    pub fn world(
        &mut self,
        value: impl Fn(&str, Figure) -> Option<f64>,
    ) -> Result<Vec<Option<Place>>, FormulaError> {
        let mut missing: Vec<(&str, Figure)> = Vec::new();
        for read in &self.reads {
            let cell = value(&read.row, read.figure).map(|value| read.cell(value));
            if cell.is_none() {
                missing.push((&read.row, read.figure));
            }
            if let Some(column) = self.grid.column_mut(read.column) {
                column.set(&read.at, cell);
            }
        }
        let mut own: HashMap<Vec<(String, String)>, Vec<Instance>> = HashMap::new();
        for instance in self.formula.instances(&self.grid)? {
            own.entry(instance.at.clone()).or_default().push(instance);
        }
        let place = |place: &Place| {
            let all = own.remove(&place.at)?;
            if !missing.is_empty() && place.reads().iter().any(|read| missing.contains(read)) {
                return None;
            }
            let at = place.at.clone();
            (all.len() == place.all.len()).then_some(Place { at, all })
        };
        Ok(self.places.iter().map(place).collect())
    }
}

/// Returns the value of one of [`FIELDS`].
pub fn field_of(row: &Row, field: &str) -> String {
    let job = &row.job;
    match field {
        "system" => job.system.clone(),
        "model" => job.model.clone(),
        "dataset" => job.data.dataset.clone(),
        "fidelity" => job.fidelity.as_str().to_owned(),
        "workers" => job.workers.to_string(),
        "batch_size" => job.batch_size.to_string(),
        MEMORY => row.memory_mb.to_string(),
        DEVICE => job.device.to_string(),
        "instance_type" => row.instance_type.clone(),
        _ => row.id.clone(),
    }
}

/// Returns all that brackets may call a row.
fn all_of(row: &Row) -> impl Iterator<Item = String> {
    let all = KEYS.iter().chain([&ROW]);
    all.map(|field| field_of(row, field))
}

impl Read {
    fn cell(&self, value: f64) -> Cell {
        Cell {
            value,
            half_digit: 0.0,
            unit: self.unit.clone(),
            place: self.row.clone(),
        }
    }
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
}

impl Keys {
    fn new(formula: &Formula, rows: &[&Row]) -> Self {
        let values = formula.values();
        let is_field = |(name, _): &(Option<String>, String)| {
            name.as_deref().is_some_and(|name| KEYS.contains(&name))
        };
        let is_id = |(_, value): &(Option<String>, String)| rows.iter().any(|row| row.id == *value);
        let mut keys = Self {
            names: vec![ROW.to_owned()],
            by_id: !values.iter().any(is_field) && (values.is_empty() || values.iter().any(is_id)),
        };
        if !keys.by_id {
            let named = formula.keys();
            let is_named = |key: &str| named.iter().any(|name| name == key);
            let names = KEYS.iter().map(|key| (*key).to_owned());
            keys.names = names
                .filter(|key| is_named(key) || !OWN.contains(&key.as_str()))
                .collect();
            // Rows that are alike in all of these differ in their ids.
            for further in OWN.into_iter().chain([ROW]) {
                let known: HashSet<Vec<String>> = rows.iter().map(|row| keys.of(row)).collect();
                if known.len() < rows.len() && !keys.names.iter().any(|name| name == further) {
                    keys.names.push(further.to_owned());
                }
            }
        }
        keys
    }

    fn of(&self, row: &Row) -> Vec<String> {
        self.names.iter().map(|name| field_of(row, name)).collect()
    }

    /// Returns the key that a value is of which no row has.
    fn of_absent(&self, name: Option<&str>, value: &str) -> &str {
        match name.and_then(|name| KEYS.iter().find(|field| **field == name)) {
            _ if self.by_id => ROW,
            Some(field) => field,
            None if epochcost_systems::find(value).is_some() => "system",
            None => "model",
        }
    }
}

/// Returns the figures that a formula names; every metric, so that an error can suggest one, if
/// a name is none.
fn columns(formula: &Formula) -> Vec<(String, Figure)> {
    let names = formula.names().into_iter();
    let named = names.map(|name| figure(&name).map(|figure| (name, figure)));
    named.collect::<Option<_>>().unwrap_or_else(|| {
        let all = Metric::ALL.map(|metric| (metric.name().to_owned(), (metric, None)));
        all.into()
    })
}
