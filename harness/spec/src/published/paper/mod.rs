//! A paper as a folder: `paper.yaml`, its printed tables, its sentences, set-ups and notes.

mod known;
mod lines;
mod predictions;
mod recorded;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

pub use self::lines::{Kind, Note, Statement, When};
pub use self::predictions::Prediction;
pub use self::recorded::{RECORDED, Recorded};
use super::table::{Row, Table};
use super::{DIRECTORY, PublishedError};
use crate::claims::{self as places, Metric};
use crate::cost::PriceBook;
use crate::formula::{Cell, Column, Formula, FormulaError, Grid, Number, Unit};
use crate::shipped;
use crate::suggest::did_you_mean;
use crate::yaml::decode::decode;
use crate::yaml::document::{Document, Origin, Place};
use crate::yaml::schema::known;

/// The file that makes a folder a paper.
pub const PAPER: &str = "paper.yaml";

/// A paper, read.
#[derive(Clone, Debug)]
pub struct Paper {
    /// The folder's name.
    pub name: String,
    /// Authors and year.
    pub cite: String,
    /// What its formulas name.
    pub grid: Grid,
    /// What follows within its tables, and its sentences, each in the order of its file.
    pub statements: Vec<Statement>,
    /// Remarks on statements.
    pub notes: Vec<Note>,
    /// What was predicted of its claims.
    pub predictions: Vec<Prediction>,
    /// How its experiments were made.
    pub setups: Vec<SetUp>,
    /// Its tables, with what experiments observe of them.
    pub tables: Vec<PaperTable>,
    /// What experiments call a thing, with the printed name that stands for all.
    pub names: BTreeMap<String, String>,
    /// Verdicts of the recorded reproduction.
    pub recorded: Recorded,
}

/// Beginnings of how a set-up is followed.
const FOLLOWED: [&str; 3] = ["yes: ", "no: ", "none: "];

/// A fact of how a paper's experiments were made.
#[derive(Clone, Debug)]
pub struct SetUp {
    /// What it is.
    pub name: String,
    /// Value; `?` where the paper leaves it open.
    pub value: String,
    /// Unit; empty for none.
    pub unit: String,
    /// Where the paper says it.
    pub place: String,
    /// Tables that it is of, `TABLE[VALUE; VALUE]` for the cells with those values; empty for all, or, of a reading, for none.
    pub of: String,
    /// Field of experiments that follows it; empty for none.
    pub field: String,
    /// The reading that it is, where the paper contradicts itself.
    pub reading: String,
    /// How what no field follows is followed: `yes: BY WHAT`, `no: WHY`, or `none: WHY` of what no run
    /// can follow.
    pub followed: String,
}

/// How experiments stand to a set-up of their paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stance {
    /// They do as the paper says.
    Followed,
    /// At least one does otherwise, with its reason.
    Left,
    /// The paper does not say.
    Open,
    /// No run can follow it.
    OfNoRun,
    /// Nobody has said.
    Unsaid,
}

impl SetUp {
    /// Returns whether it is of those cells of a table alone that have the values of one of its
    /// brackets.
    pub fn is_of_cell(&self, table: &str, at: &[String]) -> bool {
        let brackets = self.of.split(']');
        let of_table = brackets.filter_map(|part| {
            let (name, values) = part.trim_start().split_once('[')?;
            // Tables without brackets may stand before it.
            (name.rsplit(' ').next() == Some(table)).then_some(values)
        });
        let has = |value: &str| at.iter().any(|own| own == value.trim());
        of_table
            .into_iter()
            .any(|values| values.split(';').all(has))
    }

    /// Returns whether it is of a table, or of those of its cells that have one of these values.
    pub fn is_of(&self, table: &str, at: &[String]) -> bool {
        let is_of_all = self.of.is_empty() && self.reading.is_empty();
        is_of_all || self.of.split(' ').any(|of| of == table) || self.is_of_cell(table, at)
    }

    /// Returns whether it is of a table, or of some of its cells.
    pub fn is_of_some(&self, table: &str) -> bool {
        let base = |of: &str| of.split('[').next() == Some(table);
        self.is_of(table, &[]) || self.of.split(' ').any(base)
    }

    /// Returns how experiments stand to it, of which some leave the fields `left`.
    pub fn stance(&self, left: impl Fn(&str) -> bool) -> Stance {
        let starts = |word: &str| self.followed.starts_with(word);
        match () {
            () if self.is_open() => Stance::Open,
            () if !self.field.is_empty() && left(&self.field) => Stance::Left,
            () if !self.field.is_empty() || starts(FOLLOWED[0]) => Stance::Followed,
            () if starts(FOLLOWED[1]) => Stance::Left,
            () if starts(FOLLOWED[2]) => Stance::OfNoRun,
            () => Stance::Unsaid,
        }
    }

    /// Returns whether the paper leaves it open.
    pub fn is_open(&self) -> bool {
        self.value == "?"
    }
}

/// A table or a drawing of a paper.
#[derive(Clone, Debug)]
pub struct PaperTable {
    /// Name within the paper.
    pub name: String,
    /// Table, figure or section.
    pub place: String,
    /// What its cells are looked up by: what it prints, then what it does not.
    pub keys: Vec<String>,
    /// Number of keys that it prints.
    pub printed_keys: usize,
    /// Whether it prints no numbers.
    pub is_drawing: bool,
    /// Columns that experiments observe, by name.
    pub observed: BTreeMap<String, Observed>,
}

/// What observes a column.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The metric of all cells; none where it depends on a key.
    pub metric: Option<Metric>,
    /// A key, and the metric for each of its values.
    pub metric_by: Option<(String, BTreeMap<String, Metric>)>,
    /// The accuracy that `time_to_accuracy` waits for, in 0..=1.
    pub target: Option<f64>,
    /// Unit of a drawing's column.
    pub unit: Option<Unit>,
}

impl Observed {
    /// Returns the metric of the cell under these values of `keys`.
    pub fn metric(&self, keys: &[String], at: &[String]) -> Option<Metric> {
        let Some((key, metrics)) = &self.metric_by else {
            return self.metric;
        };
        let index = keys.iter().position(|own| own == key)?;
        metrics.get(at.get(index)?).copied()
    }
}

/// A paper: its tables, and the names that experiments and paper give to things.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PaperFile {
    /// Authors, title and year.
    cite: String,
    /// Names that experiments use, each with those that the paper prints, the first for all.
    #[serde(default)]
    names: BTreeMap<String, Vec<String>>,
    /// Tables and drawings, by name.
    #[serde(default)]
    tables: BTreeMap<String, TableFile>,
    /// Figures of the text that stand in a shared table: `FILE:LINE:COLUMN`, the unit of the
    /// row in its column `unit`.
    #[serde(default)]
    quoted: BTreeMap<String, String>,
    /// Names of sums that several formulas use.
    #[serde(default)]
    derived: BTreeMap<String, String>,
}

/// A table or a drawing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TableFile {
    /// Table, figure or section.
    place: String,
    /// CSV file below the folder, or in `../published/`; a drawing has none.
    file: Option<String>,
    /// Whether the file holds the authors' data, which the paper does not print.
    #[serde(default)]
    authors_data: bool,
    /// Columns that its cells are looked up by.
    keys: Vec<String>,
    /// Keys that the table does not print, with the one value of all its rows.
    #[serde(default)]
    fixed: BTreeMap<String, String>,
    /// Columns of figures.
    columns: BTreeMap<String, ColumnFile>,
    /// Formulas by which cells follow from others, by name.
    #[serde(default)]
    follows: BTreeMap<String, String>,
}

/// A column of figures.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ColumnFile {
    /// Unit.
    unit: Option<String>,
    /// A key, and the unit for each of its values or `else`.
    unit_by: BTreeMap<String, BTreeMap<String, String>>,
    /// The file's column that holds the unit of each row.
    unit_in: Option<String>,
    /// Whether the column holds settings, which are exact.
    setup: bool,
    /// The metric that observes it.
    #[schemars(transform = metrics)]
    metric: Option<String>,
    /// A key, and the metric for each of its values.
    metric_by: BTreeMap<String, BTreeMap<String, String>>,
    /// The accuracy that `time_to_accuracy` waits for.
    #[schemars(range(min = 0.0, max = 1.0))]
    target: Option<f64>,
}

fn metrics(schema: &mut Schema) {
    known(schema, Metric::ALL.iter().map(|metric| metric.name()));
}

impl Paper {
    /// Reads a paper's folder; `published` is the directory of tables that papers share, if it
    /// is not the one beside the folder.
    ///
    /// # Errors
    /// When a file is missing or damaged, or a formula cannot be evaluated; with the place.
    pub fn read(
        folder: &Path,
        published: Option<&Path>,
        prices: &PriceBook,
    ) -> Result<Self, PublishedError> {
        let reader = Reader::open(folder, published)?;
        let mut grid = Grid::default();
        reader.names(&mut grid)?;
        for (name, _) in reader.entries("tables") {
            reader.table(&name, &mut grid)?;
        }
        let fields = reader.numbers(&mut grid)?;
        let setups = reader.setups()?;
        known::add(&mut grid, &reader.file.names, &fields, prices);
        grid.add_unprinted(Metric::ALL.iter().map(|metric| metric.name().to_owned()));
        let mut tables = Vec::new();
        for (name, _) in reader.entries("tables") {
            let file = &reader.file.tables[&name];
            if file.file.is_none() {
                grid.add_unprinted(file.columns.keys().cloned());
            }
            tables.push(reader.observed(&name, &grid)?);
        }
        for (name, origin) in reader.entries("derived") {
            let text = &reader.file.derived[&name];
            let added = grid.add_derived(&name, text);
            added.map_err(|error| reader.formula(&origin, error))?;
        }
        let mut statements = Vec::new();
        for (table, _) in reader.entries("tables") {
            let file = &reader.file.tables[&table];
            for (id, origin) in reader.entries(&format!("tables.{table}.follows")) {
                let text = &file.follows[&id];
                let formula = Formula::parse(text);
                let formula = formula.map_err(|error| reader.formula(&origin, error))?;
                statements.push(Statement::follows(
                    id,
                    &file.place,
                    formula,
                    reader.place(&origin),
                ));
            }
        }
        statements.extend(
            reader
                .optional("statements.csv")?
                .map_or(Ok(Vec::new()), |table| lines::statements(&table))?,
        );
        lines::refuse_repeated(&statements)?;
        let notes = reader.optional("notes.csv")?;
        let notes = notes.map_or(Ok(Vec::new()), |table| {
            lines::notes(&table, &statements, &grid)
        })?;
        let predicted = reader.optional(predictions::PREDICTIONS)?;
        let predicted =
            predicted.map_or(Ok(Vec::new()), |table| predictions::predictions(&table))?;
        // `.` has no name of its own.
        let whole = folder.canonicalize();
        let whole = whole.as_deref().unwrap_or(folder);
        let name = folder.file_name().or(whole.file_name());
        let name = name.unwrap_or_default();
        let recorded = reader.optional(RECORDED)?;
        let recorded = recorded.map_or(Ok(Recorded::default()), |table| Recorded::of(&table))?;
        let printed = |all: Vec<String>| all.into_iter().next().unwrap_or_default();
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            cite: reader.file.cite,
            grid,
            statements,
            notes,
            predictions: predicted,
            setups,
            tables,
            names: (reader.file.names.into_iter())
                .map(|(name, all)| (name, printed(all)))
                .collect(),
            recorded,
        })
    }
}

/// A folder while it is read.
struct Reader<'a> {
    folder: &'a Path,
    published: Option<&'a Path>,
    document: Document,
    file: PaperFile,
}

impl<'a> Reader<'a> {
    fn open(folder: &'a Path, published: Option<&'a Path>) -> Result<Self, PublishedError> {
        let path = folder.join(PAPER);
        let text = shipped::read_to_string(&path).map_err(|source| PublishedError::Io {
            path: path.display().to_string(),
            source,
        })?;
        let document = Document::parse(&path, text)?;
        document.refuse_repeated()?;
        let file = decode(&document, &document.root)?;
        Ok(Self {
            folder,
            published,
            document,
            file,
        })
    }

    /// Returns the fields of a map of `paper.yaml` in its order, with the places of the values.
    fn entries(&self, path: &str) -> Vec<(String, Origin)> {
        let mut node = Some(&self.document.root);
        for field in path.split('.') {
            node = node.and_then(|node| node.get(field));
        }
        let entries = node.map_or(&[][..], |node| node.entries()).iter();
        entries
            .map(|entry| (entry.key.clone(), entry.node.origin.clone()))
            .collect()
    }

    fn place(&self, origin: &Origin) -> String {
        let file = self.document.file.display();
        match &origin.place {
            Place::Line { line, column } => format!("{file}:{line}:{column}"),
            Place::Option(option) => option.clone(),
        }
    }

    fn refused(&self, path: &str, problem: String, remedy: impl Into<String>) -> PublishedError {
        let origin = self.document.root.origin_at(path);
        self.document.error(origin, problem, remedy).into()
    }

    fn formula(&self, origin: &Origin, error: FormulaError) -> PublishedError {
        PublishedError::Formula {
            place: self.place(origin),
            error,
        }
    }

    /// Makes the names of one thing equal: those that are printed, and that of experiments.
    fn names(&self, grid: &mut Grid) -> Result<(), PublishedError> {
        let mut known: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, printed) in &self.file.names {
            for one in printed {
                if let Some(other) = known.insert(one, name) {
                    let problem = format!("`{one}` is a name of `{other}` and of `{name}`");
                    let path = format!("names.{name}");
                    return Err(self.refused(&path, problem, "keep one of the two"));
                }
            }
            let mut all = printed.clone();
            all.push(name.clone());
            grid.add_names(&all);
        }
        Ok(())
    }

    /// Returns the path of a table's file.
    fn path(&self, file: &str) -> PathBuf {
        let shared = file
            .strip_prefix("../")
            .and_then(|file| file.strip_prefix(DIRECTORY));
        match (
            shared.and_then(|file| file.strip_prefix('/')),
            self.published,
        ) {
            (Some(name), Some(directory)) => directory.join(name),
            (Some(name), None) => {
                let above = self.folder.parent().unwrap_or(Path::new(""));
                above.join(DIRECTORY).join(name)
            }
            (None, _) => self.folder.join(file),
        }
    }

    fn optional(&self, file: &str) -> Result<Option<Table>, PublishedError> {
        let path = self.folder.join(file);
        shipped::is_file(&path).then(|| read(&path)).transpose()
    }

    /// Adds the columns of a printed table.
    fn table(&self, name: &str, grid: &mut Grid) -> Result<(), PublishedError> {
        let file = &self.file.tables[name];
        let Some(path) = &file.file else {
            return Ok(());
        };
        let table = read(&self.path(path))?;
        let keys: Vec<String> = file.keys.iter().chain(file.fixed.keys()).cloned().collect();
        let printed: Vec<&str> = file.keys.iter().map(String::as_str).collect();
        table.refuse_repeated(&printed)?;
        // In the paper's order.
        for (column, _) in self.entries(&format!("tables.{name}.columns")) {
            let (column, stated) = (&column, &file.columns[&column]);
            let mut made = Column::new(name, column, &keys, stated.setup || stated.is_counted());
            made.authors_data = file.authors_data;
            let by = stated.unit_by.iter().next();
            for row in table.rows() {
                let mut at = Vec::new();
                for key in &file.keys {
                    at.push(grid.canonical(row.text(key)?).to_owned());
                }
                at.extend(
                    file.fixed
                        .values()
                        .map(|value| grid.canonical(value).to_owned()),
                );
                made.name_values(&at);
                if row.text(column)?.is_empty() {
                    continue;
                }
                let unit = match (&stated.unit, &stated.unit_in, by) {
                    (Some(unit), ..) => unit,
                    (_, Some(column), _) => row.text(column)?,
                    (_, _, Some((key, units))) => {
                        let Some(index) = keys.iter().position(|own| own == key) else {
                            let path = format!("tables.{name}.columns.{column}.unit_by");
                            let problem = format!("the table has no key `{key}`");
                            return Err(self.refused(&path, problem, "name one of `keys`"));
                        };
                        let is_it = |value: &&String| grid.canonical(value) == at[index];
                        let own = units.keys().find(is_it).and_then(|value| units.get(value));
                        own.or_else(|| units.get("else")).map_or("", String::as_str)
                    }
                    _ => "",
                };
                let quantity = row.number(column)?;
                // Whole numbers of things are exact; 1.2e6 parameters are not.
                let is_whole = stated.is_counted() && quantity.half_digit <= 0.5;
                let is_counted = stated.setup || is_whole;
                let cell = Cell {
                    value: quantity.value,
                    half_digit: if is_counted { 0.0 } else { quantity.half_digit },
                    unit: Unit::named(unit),
                    place: quantity.place,
                };
                if made.insert(at, cell).is_some() {
                    return Err(PublishedError::Table {
                        place: row.cell(column),
                        reason: "two rows have the same keys under `names:` of paper.yaml"
                            .to_owned(),
                    });
                }
            }
            grid.add_column(made);
        }
        Ok(())
    }

    /// Returns what experiments observe of a table.
    fn observed(&self, name: &str, grid: &Grid) -> Result<PaperTable, PublishedError> {
        let file = &self.file.tables[name];
        let mut observed = BTreeMap::new();
        for (column, stated) in &file.columns {
            let path = format!("tables.{name}.columns.{column}");
            let metric = |metric: &String| {
                Metric::named(metric).ok_or_else(|| {
                    let known: Vec<&str> = Metric::ALL.iter().map(|known| known.name()).collect();
                    let problem = format!("there is no metric `{metric}`");
                    self.refused(&path, problem, did_you_mean(metric, &known))
                })
            };
            let mut metric_by = None;
            for (key, metrics) in &stated.metric_by {
                if !file.keys.contains(key) {
                    let problem = format!("the table has no key `{key}`");
                    return Err(self.refused(&path, problem, "name one of `keys`"));
                }
                let by = metrics
                    .iter()
                    .map(|(value, name)| Ok((grid.canonical(value).to_owned(), metric(name)?)));
                metric_by = Some((key.clone(), by.collect::<Result<_, PublishedError>>()?));
            }
            let metric = stated.metric.as_ref().map(metric).transpose()?;
            if metric.is_some() || metric_by.is_some() {
                let own = Observed {
                    metric,
                    metric_by,
                    target: stated.target,
                    unit: stated.unit.as_deref().and_then(Unit::named),
                };
                observed.insert(column.clone(), own);
            }
        }
        Ok(PaperTable {
            name: name.to_owned(),
            place: file.place.clone(),
            keys: file.keys.iter().chain(file.fixed.keys()).cloned().collect(),
            printed_keys: file.keys.len(),
            is_drawing: file.file.is_none(),
            observed,
        })
    }

    /// Returns all set-ups, in the order of their file.
    fn setups(&self) -> Result<Vec<SetUp>, PublishedError> {
        let Some(table) = self.optional("setups.csv")? else {
            return Ok(Vec::new());
        };
        let is_said = table.columns().iter().any(|column| column == "followed");
        let setup = |row: Row<'_>| {
            let optional = |name: &str| row.optional(name).unwrap_or_default().to_owned();
            let setup = SetUp {
                name: row.text("name")?.to_owned(),
                value: row.text("value")?.to_owned(),
                unit: row.text("unit")?.to_owned(),
                place: row.text("place")?.to_owned(),
                of: optional("for"),
                field: row.text("field")?.to_owned(),
                reading: optional("reading"),
                followed: optional("followed"),
            };
            if is_said && setup.stance(|_| false) == Stance::Unsaid {
                return Err(PublishedError::Table {
                    place: row.place_of("followed"),
                    reason: "say how what no field follows is followed: `yes: BY WHAT`, `no: WHY`, or `none: \
                             WHY` of what no run can follow"
                        .to_owned(),
                });
            }
            Ok(setup)
        };
        table.rows().map(setup).collect()
    }

    /// Adds set-ups and quoted numbers; returns set-ups by the field of experiments.
    fn numbers(&self, grid: &mut Grid) -> Result<BTreeMap<String, String>, PublishedError> {
        let mut fields = BTreeMap::new();
        for (file, is_setup) in [("setups.csv", true), ("quoted.csv", false)] {
            let Some(table) = self.optional(file)? else {
                continue;
            };
            for row in table.rows() {
                let (name, text) = (row.text("name")?, row.text("value")?);
                if is_setup && !row.text("field")?.is_empty() {
                    let first = fields.entry(row.text("field")?.to_owned());
                    first.or_insert(text.to_owned());
                }
                // A set-up may be a word, or left open.
                let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
                if is_setup && !is_number {
                    continue;
                }
                let cell = quoted(row, "value")?;
                let is_first = grid.add_number(name, Number { cell, is_setup });
                // The first of several readings is the one that formulas use.
                let is_reading =
                    is_setup && row.optional("reading").is_some_and(|word| !word.is_empty());
                if !is_first && !is_reading {
                    return Err(PublishedError::Table {
                        place: row.cell("name"),
                        reason: format!(
                            "`{name}` has two values: remove or rename one, or give each a word \
                             under `reading`"
                        ),
                    });
                }
            }
        }
        for (name, text) in &self.file.quoted {
            let path = format!("quoted.{name}");
            let cell: places::Cell = text.parse().map_err(|_| {
                let problem = format!("`{text}` is no cell");
                self.refused(
                    &path,
                    problem,
                    "write FILE:LINE:COLUMN, the column by its name",
                )
            })?;
            let table = read(&self.path(&format!("../{DIRECTORY}/{}", cell.file)))?;
            let cell = quoted(table.row_of(&cell)?, &cell.column)?;
            let number = Number {
                cell,
                is_setup: false,
            };
            if !grid.add_number(name, number) {
                let problem = format!("`{name}` has two values");
                return Err(self.refused(&path, problem, "remove or rename one"));
            }
        }
        Ok(fields)
    }
}

/// Reads a table; the name of a shipped one is its path below this program's files.
fn read(path: &Path) -> Result<Table, PublishedError> {
    let shown = path.display().to_string();
    let text = shipped::read_to_string(path).map_err(|source| PublishedError::Io {
        path: shown.clone(),
        source,
    })?;
    Table::parse(shown.strip_prefix(shipped::ROOT).unwrap_or(&shown), &text)
}

/// Returns a number with the unit of its row.
fn quoted(row: Row<'_>, column: &str) -> Result<Cell, PublishedError> {
    let quantity = row.number(column)?;
    Ok(Cell {
        value: quantity.value,
        half_digit: quantity.half_digit,
        unit: Unit::named(row.text("unit")?),
        place: quantity.place,
    })
}

impl ColumnFile {
    fn is_counted(&self) -> bool {
        let unit = self.unit.as_deref().and_then(Unit::named);
        unit.is_some_and(|unit| unit.is_count())
    }
}
