//! What of a paper stands beside the rows of an experiment: its printed cells and its statements.

mod follows;
mod statements;

use std::collections::BTreeMap;

use epochcost_spec::claims::{
    self, Cause, Claim, ClaimKind, Metric, Printed, Scale, Selector, matches, own,
};
use epochcost_spec::cost::PriceBook;
use epochcost_spec::formula::{Column, Grid, KNOWN};
use epochcost_spec::published::{Observed, PAPER, Paper, PaperTable, SetUp};
use epochcost_spec::rows::Row;
use epochcost_spec::shipped;
use epochcost_spec::suggest::did_you_mean;
use follows::{bases, follows};
use schemars::JsonSchema;
use serde::Deserialize;

use super::decode::decode;
use super::document::{Document, Node};
use super::error::ExperimentError;
use super::setups::{self, Placed};
use super::{Experiment, FormName, Options};

pub(super) use statements::Stated;

/// Fields of an experiment that are read here.
pub(super) const FIELDS: [&str; 2] = ["beside", "statements"];

/// A table of the paper that rows stand beside: every printed cell with a row becomes a claim.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Table or drawing of `paper.yaml`.
    table: String,
    /// Field of rows that each key of the table stands for: `row` (id), `system`, `model`, `dataset`,
    /// `fidelity`, `workers`, `batch_size`, `memory_mb`, `instance_type`.
    #[serde(default)]
    keys: BTreeMap<String, String>,
    /// Keys with one value for all rows: `{metric: communication time}`.
    #[serde(default)]
    at: BTreeMap<String, String>,
    /// What rows call a thing, and the paper's name, beyond `names` of `paper.yaml`:
    /// `{vgg11_at_32: VGG-11}`.
    #[serde(default)]
    rename: BTreeMap<String, String>,
    /// Columns; by default all that are observed.
    #[serde(default)]
    columns: Vec<String>,
    /// Rows; by default all.
    #[serde(default, rename = "where")]
    only: Selector,
    /// Accuracy that `time_to_accuracy` waits for, if not the column's.
    #[schemars(range(min = 0.0, max = 1.0))]
    target: Option<f64>,
    /// Possible causes: what a row does otherwise, with that row for each row of the table:
    /// `{gradients as JSON: {plain: json}}`.
    #[serde(default)]
    causes: BTreeMap<String, BTreeMap<String, String>>,
    /// Columns of which the observed figure is another than the printed, with the reason:
    /// `{peak_ram_mb: memory of another program}`. Statements that read them are open, too.
    #[serde(default)]
    not_comparable: BTreeMap<String, String>,
}

/// A figure of a row beside a cell.
struct Bound {
    column: usize,
    at: Vec<String>,
    row: String,
    metric: Metric,
    target: Option<f64>,
    unit: String,
    scale: Scale,
    causes: Vec<Cause>,
    not_comparable: Option<String>,
    /// Fields of rows that keys of the table stand for.
    keyed: Vec<String>,
}

/// Adds the claims that follow from `beside` and `statements`, with their recorded verdicts and the
/// paper's remarks.
///
/// # Errors
/// When there is no paper beside the file, or an entry names what is not there.
pub(super) fn add(experiment: &mut Experiment, options: &Options) -> Result<(), ExperimentError> {
    let document = experiment.document.clone();
    let entries: Vec<(&Node, Entry)> = items(&document, FIELDS[0])?;
    let stated: Vec<(&Node, Stated)> = items(&document, FIELDS[1])?;
    if entries.is_empty() && stated.is_empty() {
        return Ok(());
    }
    let paper = paper(&document, options)?;
    let impossible = experiment.impossible.iter().map(|other| &other.row);
    let rows: Vec<&Row> = experiment.rows.iter().chain(impossible).collect();
    let mut side = Side {
        document: &document,
        paper: &paper,
        grid: paper.grid.clone(),
        bound: Vec::new(),
    };
    for (node, entry) in &entries {
        side.bind(node, entry, &rows, options)?;
    }
    // Options and reductions leave set-ups on purpose.
    if options.given().is_empty() && options.form != Some(FormName::Quick) {
        let beside = side.bound.iter().filter_map(|bound| {
            let row = rows.iter().find(|row| row.id == bound.row)?;
            Some(Placed {
                table: &side.grid.columns()[bound.column].table,
                at: &bound.at,
                keyed: &bound.keyed,
                row,
            })
        });
        let form = options.form.and_then(|name| experiment.forms.get(name));
        setups::check(&document, &paper, form, beside)?;
    }
    let mut claims = side.printed();
    claims.extend(side.statements());
    for (node, stated) in &stated {
        let claim = side.stated(node, stated, &rows, options)?;
        if claims.iter().any(|other| other.claim == claim.claim) {
            let problem = format!("two claims are {:?}", claim.claim);
            let remedy = "say under `about` what this one is about that the other is not";
            return Err(document.error(node.origin_of("of"), problem, remedy));
        }
        claims.push(claim);
    }
    drop(rows);
    let name = document.file.file_stem().unwrap_or_default();
    let name = name.to_string_lossy();
    // Verdicts are recorded of the experiment itself, and of its form for a platform.
    let recorded = match options.form {
        Some(form) => format!("{name}.{}", form.as_str()),
        None => name.to_string(),
    };
    for claim in &mut claims {
        claim.expect = paper.recorded.verdict(&recorded, &claim.claim);
        claim.note = note(&paper, &name, claim);
    }
    let is_made = |name: &str| claims.iter().any(|claim| claim.claim == name);
    experiment.lost = paper.lost(&recorded, is_made);
    claims.append(&mut experiment.claims);
    experiment.claims = claims;
    Ok(())
}

fn items<'d, T: serde::de::DeserializeOwned + JsonSchema>(
    document: &'d Document,
    field: &str,
) -> Result<Vec<(&'d Node, T)>, ExperimentError> {
    let items = document.list(field)?.iter();
    items
        .map(|item| Ok((item, decode(document, item)?)))
        .collect()
}

/// Reads the paper in whose folder the experiment lies.
fn paper(document: &Document, options: &Options) -> Result<Paper, ExperimentError> {
    let place = || {
        let mut fields = FIELDS.into_iter();
        let stated = fields.find(|field| document.root.get(field).is_some());
        document.root.origin_of(stated.unwrap_or(FIELDS[0]))
    };
    let folder = document.file.parent().unwrap_or(std::path::Path::new(""));
    if !shipped::is_file(&folder.join(PAPER)) {
        let problem = format!("there is no {PAPER} beside the file");
        let remedy = "put the experiment into the folder of the paper that it stands beside";
        return Err(document.error(place(), problem, remedy));
    }
    let prices = options.prices.clone().map_or_else(PriceBook::shipped, Ok);
    let prices =
        prices.map_err(|error| document.error(place(), error.to_string(), "correct the prices"))?;
    Paper::read(folder, None, &prices).map_err(|error| {
        let problem = epochcost_spec::chain::chain(&error);
        document.error(place(), problem, "correct that file of the paper")
    })
}

struct Side<'a> {
    document: &'a Document,
    paper: &'a Paper,
    /// The paper's, with the columns of drawings.
    grid: Grid,
    bound: Vec<Bound>,
}

impl Side<'_> {
    fn refused(
        &self,
        node: &Node,
        field: &str,
        problem: String,
        remedy: impl Into<String>,
    ) -> ExperimentError {
        self.document.error(node.origin_of(field), problem, remedy)
    }

    fn table(&self, node: &Node, name: &str) -> Result<&PaperTable, ExperimentError> {
        let mut tables = self.paper.tables.iter();
        tables.find(|table| table.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.paper.tables.iter().map(|table| &*table.name).collect();
            let problem = format!("the paper has no table `{name}`");
            self.refused(node, "table", problem, did_you_mean(name, &known))
        })
    }

    /// Puts rows beside the cells of a table.
    fn bind(
        &mut self,
        node: &Node,
        entry: &Entry,
        rows: &[&Row],
        options: &Options,
    ) -> Result<(), ExperimentError> {
        let table = self.table(node, &entry.table)?.clone();
        for key in entry.keys.keys().chain(entry.at.keys()) {
            if !table.keys.contains(key) {
                let known: Vec<&str> = table.keys.iter().map(String::as_str).collect();
                let problem = format!("the table `{}` has no key `{key}`", table.name);
                return Err(self.refused(node, "keys", problem, did_you_mean(key, &known)));
            }
        }
        for (key, field) in &entry.keys {
            if !own::FIELDS.contains(&field.as_str()) {
                let problem = format!("`{key}` stands for `{field}`, which is no field of rows");
                return Err(self.refused(node, "keys", problem, did_you_mean(field, &own::FIELDS)));
            }
        }
        for column in entry.columns.iter().chain(entry.not_comparable.keys()) {
            if !table.observed.contains_key(column) {
                let known: Vec<&str> = table.observed.keys().map(String::as_str).collect();
                let problem = format!("no metric observes a column `{column}` of `{}`", table.name);
                return Err(self.refused(node, "columns", problem, did_you_mean(column, &known)));
            }
        }
        let rows = rows.iter().filter(|row| matches(&entry.only, row));
        let wanted = |column: &&String| entry.columns.is_empty() || entry.columns.contains(column);
        let before = self.bound.len();
        let columns: Vec<String> = table.observed.keys().filter(wanted).cloned().collect();
        for column in columns {
            let observed = table.observed[&column].clone();
            let index = self.column(&table, &column);
            for row in rows.clone() {
                for at in self.cells(node, &table, entry, index, &observed, row)? {
                    self.add(node, (entry, &column, &observed), (&table, index, at), row)?;
                }
            }
        }
        if self.bound.len() == before && options.is_whole() {
            let problem = format!("no row stands beside a cell of `{}`", table.name);
            let remedy = "name under `keys` what its keys stand for, and under `rename` what the \
                          paper calls a row's value";
            return Err(self.refused(node, "table", problem, remedy));
        }
        Ok(())
    }

    /// Returns the place of a column, which is made for a drawing.
    fn column(&mut self, table: &PaperTable, name: &str) -> usize {
        self.grid.column(&table.name, name).unwrap_or_else(|| {
            let column = Column::new(&table.name, name, &table.keys, false);
            self.grid.add_column(column);
            self.grid.columns().len() - 1
        })
    }

    /// Returns the cells of a column that a row stands beside, by the values of its keys.
    fn cells(
        &self,
        node: &Node,
        table: &PaperTable,
        entry: &Entry,
        index: usize,
        observed: &Observed,
        row: &Row,
    ) -> Result<Vec<Vec<String>>, ExperimentError> {
        // What each key must be; none where the metric or the table decides it.
        let mut wanted: Vec<Option<String>> = Vec::new();
        for (place, key) in table.keys.iter().enumerate() {
            let by = observed.metric_by.as_ref().map(|(by, _)| by);
            wanted.push(match (entry.at.get(key), entry.keys.get(key)) {
                (Some(value), _) => Some(self.grid.canonical(value).to_owned()),
                (None, Some(field)) => Some(self.printed_name(entry, &own::field_of(row, field))),
                (None, None) if by == Some(key) || place >= table.printed_keys => None,
                (None, None) => {
                    let name = &table.name;
                    let problem =
                        format!("nothing says what the key `{key}` of `{name}` stands for");
                    let remedy = format!("add `{key}: FIELD` to `keys`, or `{key}: VALUE` to `at`");
                    return Err(self.refused(node, "keys", problem, remedy));
                }
            });
        }
        if !table.is_drawing {
            let agrees = |at: &&Vec<String>| {
                let mut both = wanted.iter().zip(*at);
                both.all(|(wanted, value)| wanted.as_ref().is_none_or(|wanted| wanted == value))
            };
            let cells = self.grid.columns()[index].cells().map(|(at, _)| at);
            return Ok(cells.filter(agrees).cloned().collect());
        }
        // A drawing has every value that rows have.
        let at = |free: &str| {
            let own = wanted.iter().cloned();
            own.map(|value| value.unwrap_or_else(|| free.to_owned()))
                .collect::<Vec<String>>()
        };
        Ok(match &observed.metric_by {
            Some((_, metrics)) => metrics.keys().map(|value| at(value)).collect(),
            None => vec![at("")],
        })
    }

    fn printed_name(&self, entry: &Entry, value: &str) -> String {
        let printed = entry.rename.get(value).map_or(value, String::as_str);
        self.grid.canonical(printed).to_owned()
    }

    fn add(
        &mut self,
        node: &Node,
        (entry, name, observed): (&Entry, &str, &Observed),
        (table, index, at): (&PaperTable, usize, Vec<String>),
        row: &Row,
    ) -> Result<(), ExperimentError> {
        let Some(metric) = observed.metric(&table.keys, &at) else {
            return Ok(());
        };
        let label = self.label(index, &at);
        let is_it = |bound: &&Bound| bound.column == index && bound.at == at;
        if let Some(other) = self.bound.iter().find(is_it) {
            let (first, second) = (&other.row, &row.id);
            let problem = format!("two rows stand beside {label}: `{first}` and `{second}`");
            let remedy = "choose one with `where`, or name what differs under `keys`";
            return Err(self.refused(node, "table", problem, remedy));
        }
        let target = entry.target.or(observed.target);
        if target.is_some() != (metric == Metric::TimeToAccuracy) {
            let problem = format!("{label} is observed by {}", metric.name());
            let remedy = "give `target` with time_to_accuracy, and with no other metric";
            return Err(self.refused(node, "target", problem, remedy));
        }
        let cell = self.grid.columns()[index].cell(&at);
        let unit = cell.map_or(&observed.unit, |cell| &cell.unit).clone();
        let unit = unit.as_ref().map_or("", |unit| unit.name());
        // A sum of times is a time.
        let unit = match unit.strip_suffix(" summed").unwrap_or(unit) {
            "" | "count" => metric.unit(),
            unit => unit,
        };
        let Some(scale) = Scale::from_metric(metric, unit) else {
            let problem = format!("{label} is in {unit}, and {} is not", metric.name());
            let known: Vec<&str> = metric.units().iter().map(|(unit, _)| *unit).collect();
            let remedy = format!("{} is in {}", metric.name(), known.join(" or "));
            return Err(self.refused(node, "table", problem, remedy));
        };
        let causes = entry.causes.iter().filter_map(|(cause, rows)| {
            Some(Cause {
                cause: cause.clone(),
                row: rows.get(&row.id)?.clone(),
            })
        });
        let bound = Bound {
            column: index,
            at: at.clone(),
            row: row.id.clone(),
            metric,
            target,
            unit: unit.to_owned(),
            scale,
            causes: causes.collect(),
            not_comparable: (entry.not_comparable.get(name).cloned())
                .or_else(|| self.left_open(index, &at)),
            keyed: entry.keys.values().cloned().collect(),
        };
        self.bound.push(bound);
        if let Some(column) = self.grid.column_mut(index) {
            column.name_values(&at);
        }
        Ok(())
    }

    /// Returns what the paper leaves open of a cell, if it says so: a set-up that is `for`
    /// `TABLE[VALUE]`.
    fn left_open(&self, index: usize, at: &[String]) -> Option<String> {
        let table = &self.grid.columns()[index].table;
        let is_of = |setup: &&SetUp| setup.is_open() && setup.is_of_cell(table, at);
        let setup = self.paper.setups.iter().find(is_of)?;
        let (what, place) = (setup.name.replace('_', " "), &setup.place);
        Some(format!("the paper leaves the {what} open ({place})"))
    }

    /// Returns the name of a cell: its column with the values of the keys that are printed.
    fn label(&self, index: usize, at: &[String]) -> String {
        let column = &self.grid.columns()[index];
        let mut tables = self.paper.tables.iter();
        let table = tables.find(|table| table.name == column.table);
        let printed = table.map_or(at.len(), |table| table.printed_keys);
        let mut others = self.grid.columns().iter();
        let is_other = |other: &Column| {
            other.name == column.name && other.table != column.table && other.table != KNOWN
        };
        let name = if others.any(is_other) {
            format!("{}.{}", column.table, column.name)
        } else {
            column.name.clone()
        };
        match at[..printed].join(", ") {
            at if at.is_empty() => name,
            at => format!("{name}[{at}]"),
        }
    }

    fn source(&self, place: &str) -> Option<String> {
        Some(format!("{}, {place}", self.paper.cite))
    }

    /// Returns a claim for each printed cell that a row stands beside.
    fn printed(&self) -> Vec<Claim> {
        let follows = follows(self.paper);
        // Cells that a row stands beside, by their places.
        let mut labels: BTreeMap<&str, String> = BTreeMap::new();
        for bound in &self.bound {
            if let Some(cell) = self.grid.columns()[bound.column].cell(&bound.at) {
                labels.insert(&cell.place, self.label(bound.column, &bound.at));
            }
        }
        let claim = |bound: &Bound| {
            let column = &self.grid.columns()[bound.column];
            let cell = column.cell(&bound.at)?;
            let of = bases(&cell.place, &follows, &labels);
            let mut tables = self.paper.tables.iter();
            let table = tables.find(|table| table.name == column.table)?;
            Some(Claim {
                claim: self.label(bound.column, &bound.at),
                kind: if of.is_empty() {
                    ClaimKind::Published
                } else {
                    ClaimKind::Consequence
                },
                of,
                printed: Some(Printed {
                    row: bound.row.clone(),
                    value: cell.value,
                    half_digit: cell.half_digit,
                    unit: bound.unit.clone(),
                    cell: place_of(&cell.place)?,
                    causes: bound.causes.clone(),
                }),
                metric: Some(bound.metric),
                target: bound.target,
                source: self.source(&table.place),
                not_comparable: bound.not_comparable.clone(),
                ..Claim::default()
            })
        };
        self.bound.iter().filter_map(claim).collect()
    }
}

/// Returns a figure as formulas over rows name it.
fn figure(metric: Metric, target: Option<f64>) -> String {
    match target {
        Some(target) => format!("{}({target})", metric.name()),
        None => metric.name().to_owned(),
    }
}

/// Returns a cell from its place, `FILE:LINE:COLUMN`.
fn place_of(place: &str) -> Option<claims::Cell> {
    place.rsplit(['/', '\\']).next()?.parse().ok()
}

/// Returns the remark on a claim in the paper's folder.
fn note(paper: &Paper, experiment: &str, claim: &Claim) -> Option<String> {
    let (name, values) = match claim.claim.split_once('[') {
        Some((name, values)) => (name, values.trim_end_matches(']')),
        None => (claim.claim.as_str(), ""),
    };
    let values: Vec<&str> = values.split(", ").collect();
    let is_about = |about: &str| about == name || claim.statement.as_deref() == Some(about);
    let note = paper.notes.iter().find(|note| {
        let is_row = |row: &String| values.contains(&row.as_str()) || claim.claim.contains(row);
        note.experiment == experiment && is_about(&note.about) && note.rows.iter().all(is_row)
    });
    note.map(|note| note.text.clone())
}

#[cfg(test)]
mod tests;
