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
use self::predictions::PREDICTIONS;
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
use crate::yaml::document::{Document, Node, Origin, Place};
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
            let added = grid.add_derived(&name, &reader.file.derived[&name]);
            added.map_err(|error| reader.formula(&origin, error))?;
        }
        let mut statements = Vec::new();
        for (table, _) in reader.entries("tables") {
            let file = &reader.file.tables[&table];
            for (id, origin) in reader.entries(&format!("tables.{table}.follows")) {
                let formula = Formula::parse(&file.follows[&id]);
                let formula = formula.map_err(|error| reader.formula(&origin, error))?;
                let at = reader.place(&origin);
                statements.push(Statement::follows(id, &file.place, formula, at));
            }
        }
        statements.extend(reader.optional("statements.csv", lines::statements)?);
        lines::refuse_repeated(&statements)?;
        let notes = |table: &Table| lines::notes(table, &statements, &grid);
        let notes = reader.optional("notes.csv", notes)?;
        let predictions = reader.optional(PREDICTIONS, predictions::predictions)?;
        let recorded = reader.optional(RECORDED, Recorded::of)?;
        // `.` has no name of its own.
        let whole = folder.canonicalize();
        let whole = whole.as_deref().unwrap_or(folder);
        let name = folder.file_name().or(whole.file_name());
        let printed = |all: Vec<String>| all.into_iter().next().unwrap_or_default();
        let names = reader.file.names.into_iter();
        Ok(Self {
            name: name.unwrap_or_default().to_string_lossy().into_owned(),
            cite: reader.file.cite,
            grid,
            statements,
            notes,
            predictions,
            setups,
            tables,
            names: names.map(|(name, all)| (name, printed(all))).collect(),
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
        let text = shipped::read_to_string(&path).map_err(PublishedError::io(&path))?;
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
        let mut fields = path.split('.');
        let node = fields.try_fold(&self.document.root, |node, field| node.get(field));
        let entries = node.map_or(&[][..], Node::entries).iter();
        let entries = entries.map(|entry| (entry.key.clone(), entry.node.origin.clone()));
        entries.collect()
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

    fn no_key(&self, path: &str, key: &str) -> PublishedError {
        self.refused(
            path,
            format!("the table has no key `{key}`"),
            "name one of `keys`",
        )
    }

    fn formula(&self, origin: &Origin, error: FormulaError) -> PublishedError {
        let place = self.place(origin);
        PublishedError::Formula { place, error }
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
            grid.add_names(&[&printed[..], std::slice::from_ref(name)].concat());
        }
        Ok(())
    }

    /// Returns the path of a table's file.
    fn path(&self, file: &str) -> PathBuf {
        let Ok(name) = Path::new(file).strip_prefix(Path::new("..").join(DIRECTORY)) else {
            return self.folder.join(file);
        };
        let above = self.folder.parent().unwrap_or(Path::new(""));
        let beside = above.join(DIRECTORY);
        self.published.unwrap_or(&beside).join(name)
    }

    /// Reads a file of the folder; what there is none of is empty.
    fn optional<T: Default>(
        &self,
        file: &str,
        lines: impl FnOnce(&Table) -> Result<T, PublishedError>,
    ) -> Result<T, PublishedError> {
        let path = self.folder.join(file);
        if !shipped::is_file(&path) {
            return Ok(T::default());
        }
        lines(&read(&path)?)
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
                let texts = file.keys.iter().map(|key| row.text(key));
                let texts = texts.chain(file.fixed.values().map(|value| Ok(value.as_str())));
                let at = texts.map(|text| Ok(grid.canonical(text?).to_owned()));
                let at = at.collect::<Result<Vec<String>, PublishedError>>()?;
                made.name_values(&at);
                if row.text(column)?.is_empty() {
                    continue;
                }
                let unit = match (&stated.unit, &stated.unit_in, by) {
                    (Some(unit), ..) => unit,
                    (_, Some(column), _) => row.text(column)?,
                    (_, _, Some((key, units))) => {
                        let path = || format!("tables.{name}.columns.{column}.unit_by");
                        let index = keys.iter().position(|own| own == key);
                        let index = index.ok_or_else(|| self.no_key(&path(), key))?;
                        let is_it = |value: &&String| grid.canonical(value) == at[index];
                        let own = units.keys().find(is_it).and_then(|value| units.get(value));
                        own.or_else(|| units.get("else")).map_or("", String::as_str)
                    }
                    _ => "",
                };
                let mut cell = cell(row, column, unit)?;
                // Whole numbers of things are exact; 1.2e6 parameters are not.
                if stated.setup || stated.is_counted() && cell.half_digit <= 0.5 {
                    cell.half_digit = 0.0;
                }
                if made.insert(at, cell).is_some() {
                    let reason = "two rows have the same keys under `names:` of paper.yaml";
                    return Err(PublishedError::table(row.cell(column), reason));
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
                    let remedy = did_you_mean(metric, &Metric::ALL.map(Metric::name));
                    self.refused(&path, format!("there is no metric `{metric}`"), remedy)
                })
            };
            let mut metric_by = None;
            for (key, metrics) in &stated.metric_by {
                if !file.keys.contains(key) {
                    return Err(self.no_key(&path, key));
                }
                let by = metrics.iter();
                let by =
                    by.map(|(value, name)| Ok((grid.canonical(value).to_owned(), metric(name)?)));
                metric_by = Some((key.clone(), by.collect::<Result<_, PublishedError>>()?));
            }
            let metric = stated.metric.as_ref().map(metric).transpose()?;
            if metric.is_some() || metric_by.is_some() {
                let (target, unit) = (stated.target, stated.unit.as_deref());
                let own = Observed {
                    metric,
                    metric_by,
                    target,
                    unit: unit.and_then(Unit::named),
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
        let setup = |row: Row<'_>, is_said: bool| {
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
                let reason = "say how what no field follows is followed: `yes: BY WHAT`, `no: WHY`, or \
                              `none: WHY` of what no run can follow";
                return Err(PublishedError::table(row.place_of("followed"), reason));
            }
            Ok(setup)
        };
        self.optional("setups.csv", |table| {
            let is_said = table.columns().iter().any(|column| column == "followed");
            table.rows().map(|row| setup(row, is_said)).collect()
        })
    }

    /// Adds set-ups and quoted numbers; returns set-ups by the field of experiments.
    fn numbers(&self, grid: &mut Grid) -> Result<BTreeMap<String, String>, PublishedError> {
        let mut fields = BTreeMap::new();
        for (file, is_setup) in [("setups.csv", true), ("quoted.csv", false)] {
            let table = self.optional(file, |table| Ok(Some(table.clone())))?;
            for row in table.iter().flat_map(Table::rows) {
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
                let cell = cell(row, "value", row.text("unit")?)?;
                let is_first = grid.add_number(name, Number { cell, is_setup });
                // The first of several readings is the one that formulas use.
                let is_reading =
                    is_setup && row.optional("reading").is_some_and(|word| !word.is_empty());
                if !is_first && !is_reading {
                    let reason = format!(
                        "`{name}` has two values: remove or rename one, or give each a word under \
                         `reading`"
                    );
                    return Err(PublishedError::table(row.cell("name"), reason));
                }
            }
        }
        for (name, text) in &self.file.quoted {
            let path = format!("quoted.{name}");
            let place: places::Cell = text.parse().map_err(|_| {
                let remedy = "write FILE:LINE:COLUMN, the column by its name";
                self.refused(&path, format!("`{text}` is no cell"), remedy)
            })?;
            let table = read(&self.path(&format!("../{DIRECTORY}/{}", place.file)))?;
            let row = table.row_of(&place)?;
            let cell = cell(row, &place.column, row.text("unit")?)?;
            let is_setup = false;
            if !grid.add_number(name, Number { cell, is_setup }) {
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
    let text = shipped::read_to_string(path).map_err(PublishedError::io(path))?;
    Table::parse(shown.strip_prefix(shipped::ROOT).unwrap_or(&shown), &text)
}

/// Returns the number of a row's column, in a unit.
fn cell(row: Row<'_>, column: &str, unit: &str) -> Result<Cell, PublishedError> {
    let (number, unit) = (row.number(column)?, Unit::named(unit));
    let amount = unit.as_ref().filter(|unit| unit.is_amount());
    if let Some(unit) = amount.filter(|_| number.value < 0.0) {
        let reason = format!(
            "{column} is {} {}, and must be 0 or more",
            number.value,
            unit.name()
        );
        return Err(PublishedError::table(row.place_of(column), reason));
    }
    Ok(Cell { unit, ..number })
}

impl ColumnFile {
    fn is_counted(&self) -> bool {
        let unit = self.unit.as_deref().and_then(Unit::named);
        unit.is_some_and(|unit| unit.is_count())
    }
}
