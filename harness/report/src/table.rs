//! A table: its columns, and lines of cells; as Markdown and as text. HTML is a component of the
//! pages' templates, CSV and LaTeX are in `export`.

use epochcost_judge::analysis::names::{MINIMUM, legend};
use epochcost_spec::format::{self, UNKNOWN};
use serde::Serialize;

use super::markdown_cell;

/// Beginning of what stands in place of the cells of a row that was not run.
pub const NOT_RUN: &str = "∅ ";

/// A table of a page, or alone.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// Id in its page and name of its files, unique there; empty where nothing refers to it.
    pub id: &'static str,
    /// Meaning.
    pub caption: String,
    /// Columns; the first names the line.
    pub columns: Vec<Column>,
    /// Lines, in their order.
    pub lines: Vec<Line>,
    /// Notes below it.
    pub notes: Vec<String>,
    /// Whether the caption is a heading of its own.
    pub is_titled: bool,
    /// Whether it is folded away below its caption.
    pub is_folded: bool,
    /// Whether lines belong to those above them, and are sorted with them.
    pub is_grouped: bool,
}

/// A column.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// What its cells are.
    pub class: Class,
    /// Unit of the exact figures; empty where the heading says it, or there is none.
    #[serde(skip)]
    pub unit: &'static str,
    /// Heading in a terminal, if it is a shorter one.
    #[serde(skip)]
    pub short: String,
    /// Rank in a terminal: columns of the lowest are left out first where it is too narrow.
    #[serde(skip)]
    pub keep: u8,
}

/// What the cells of a column are; also the class of the pages' style.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Class {
    /// Short texts.
    #[serde(rename = "")]
    Text,
    /// Long texts, as reasons.
    #[serde(rename = "why")]
    Long,
    /// Figures.
    #[serde(rename = "n")]
    Figure,
    /// Texts for programs, which CSV alone has.
    #[serde(rename = "data")]
    Data,
}

/// A line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Line {
    /// Class of the pages' style, as `infeasible`; empty for none.
    pub class: &'static str,
    /// The system that it is of, for the page's filter; empty for none.
    pub system: String,
    /// A cell for each column.
    pub cells: Vec<Cell>,
    /// What a page shows in place of all cells but the first; empty for nothing.
    pub instead: String,
    /// Whether it belongs to the line above it: figures to compare with, which no file has.
    pub follows: bool,
}

/// A text, or a figure as people read it and exactly, so that tables can be sorted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cell {
    /// As people read it.
    pub text: String,
    /// Every digit; empty where the figure is unknown.
    pub exact: String,
    /// What stands below it, smaller; empty for nothing.
    pub below: String,
    /// Class of the badge that it is, as `good`; empty for none.
    pub badge: &'static str,
    /// What it refers to, behind its text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
}

/// A link of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Link {
    /// Text.
    pub text: String,
    /// Address, relative to the page.
    pub href: String,
}

impl Column {
    /// Returns a column of figures in a unit.
    pub fn figure(name: impl Into<String>, unit: &'static str) -> Self {
        Self {
            name: name.into(),
            class: Class::Figure,
            unit,
            short: String::new(),
            keep: 0,
        }
    }

    /// Gives it a heading and a rank for terminals.
    pub fn in_terminal(self, short: impl Into<String>, keep: u8) -> Self {
        Self {
            short: short.into(),
            keep,
            ..self
        }
    }

    /// Returns the heading in a terminal.
    pub fn short(&self) -> &str {
        match self.short.as_str() {
            "" => &self.name,
            short => short,
        }
    }

    /// Returns a column of figures unless the name ends with `:` (text) or `…` (long text).
    pub fn of(name: &str) -> Self {
        let (name, class) = match (name.strip_suffix(':'), name.strip_suffix('…')) {
            (Some(name), _) => (name, Class::Text),
            (None, Some(name)) => (name, Class::Long),
            (None, None) => (name, Class::Figure),
        };
        Self {
            class,
            ..Self::figure(name, "")
        }
    }

    /// Returns whether its cells are figures.
    pub fn is_figure(&self) -> bool {
        self.class == Class::Figure
    }
}

impl Table {
    /// Returns an empty table; columns are of figures unless their names end with `:` (text) or
    /// `…` (long text).
    pub fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            caption: caption.into(),
            columns: columns.iter().map(|name| Column::of(name)).collect(),
            ..Self::default()
        }
    }

    /// Returns an empty table by its heading, as a line in which ` | ` stands between columns.
    pub fn headed(caption: impl Into<String>, heading: &str) -> Self {
        Self::new(caption, &heading.split(" | ").collect::<Vec<_>>())
    }

    /// Returns such a table with an id.
    pub fn of(id: &'static str, caption: &str, heading: &str) -> Self {
        Self {
            id,
            ..Self::headed(caption, heading)
        }
    }

    /// Gives it lines.
    pub fn with_lines(self, lines: impl IntoIterator<Item = Line>) -> Self {
        let lines = lines.into_iter().collect();
        Self { lines, ..self }
    }

    /// Adds a line.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.classed_row("", cells);
    }

    /// Adds a line of a class of the style.
    pub fn classed_row(&mut self, class: &'static str, cells: Vec<Cell>) {
        self.lines.push(Line {
            class,
            cells,
            ..Line::default()
        });
    }

    /// Leaves out the columns of which this is not so; it is asked with each column and its cells.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&Column, &[&Cell]) -> bool) {
        for place in (0..self.columns.len()).rev() {
            let cells = self.lines.iter().filter_map(|line| line.cells.get(place));
            if is_kept(&self.columns[place], &cells.collect::<Vec<_>>()) {
                continue;
            }
            self.columns.remove(place);
            for line in &mut self.lines {
                line.cells.remove(place);
            }
        }
    }

    /// Leaves out columns of long texts of which none says anything.
    pub fn without_silent(&mut self) {
        let is_silent = |cells: &[&Cell]| cells.iter().all(|cell| cell.text.is_empty());
        self.retain(|column, cells| column.class != Class::Long || !is_silent(cells));
    }

    /// Returns it as text that is no wider than `width`, and the headings of the columns that it
    /// leaves out for that.
    pub fn text(&self, width: Option<usize>) -> (String, Vec<String>) {
        let mut table = self.clone();
        let mut left_out = Vec::new();
        loop {
            let text = table.aligned();
            let widest = text.lines().map(|line| line.chars().count()).max();
            let fits = width.is_none_or(|width| widest.unwrap_or(0) <= width);
            if fits || table.columns.len() < 4 {
                return (text, left_out);
            }
            // Columns that belong together have one rank; the first names the line.
            let ranks = table.columns.iter().skip(1).map(|column| column.keep);
            let least = ranks.min().unwrap_or(0);
            let mut place = table.columns.len();
            let mut out = Vec::new();
            table.retain(|column, _| {
                place -= 1;
                let is_kept = place == 0 || column.keep != least;
                if !is_kept {
                    out.push(column.short().to_owned());
                }
                is_kept
            });
            left_out.extend(out.into_iter().rev());
        }
    }

    /// Returns it as text: figures lean to the right.
    fn aligned(&self) -> String {
        let column = |(place, column): (usize, &Column)| -> Vec<String> {
            let cells = self.lines.iter().map(|line| line.cells[place].text.clone());
            let heading = std::iter::once(column.short().to_owned());
            let mut cells: Vec<String> = heading.chain(cells).collect();
            // A mark stands behind a column of figures, so that their digits line up.
            if column.is_figure() && cells.iter().any(|cell| cell.ends_with(MINIMUM)) {
                let unmarked = cells.iter_mut().filter(|cell| !cell.ends_with(MINIMUM));
                unmarked.for_each(|cell| cell.push_str("  "));
            }
            let width = cells.iter().map(|cell| cell.chars().count()).max();
            let pad = |cell: String| {
                let fill = " ".repeat(width.unwrap_or(0) - cell.chars().count());
                if column.is_figure() {
                    fill + &cell
                } else {
                    cell + &fill
                }
            };
            cells.into_iter().map(pad).collect()
        };
        let columns: Vec<Vec<String>> = self.columns.iter().enumerate().map(column).collect();
        let line = |place: usize| {
            let cells: Vec<&str> = columns.iter().map(|cells| cells[place].as_str()).collect();
            cells.join("  ").trim_end().to_owned()
        };
        let lines: Vec<String> = (0..=self.lines.len()).map(line).collect();
        lines.join("\n")
    }

    /// Returns the meanings of the marks in its cells, a sentence each.
    pub fn legend(&self) -> Vec<String> {
        let cells = self.lines.iter().flat_map(|line| &line.cells);
        legend(cells.map(|cell| cell.text.as_str()))
    }

    /// Returns it as a table of Markdown, with the notes below it.
    pub fn markdown(&self) -> String {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let shown = || (self.columns.iter()).filter(|column| column.class != Class::Data);
        let rule = |column: &Column| if column.is_figure() { "--:" } else { "---" }.to_owned();
        let mut text = String::new();
        if !self.lines.is_empty() {
            let names = shown().map(|column| markdown_cell(&column.name));
            text.push_str(&row(names.collect()));
            text.push_str(&row(shown().map(rule).collect()));
        }
        for line in &self.lines {
            let cells = self.columns.iter().zip(&line.cells);
            let cells = cells.filter(|(column, _)| column.class != Class::Data);
            let cell = |(_, cell): (&Column, &Cell)| {
                let text = markdown_cell(&cell.text);
                let text = match (line.follows && !text.is_empty(), cell.badge) {
                    (true, _) => format!("*{text}*"),
                    (false, "") => text,
                    (false, _) => format!("**{text}**"),
                };
                match cell.below.as_str() {
                    "" => text,
                    below => format!("{text} ({})", markdown_cell(below)),
                }
            };
            text.push_str(&row(cells.map(cell).collect()));
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }
}

impl Cell {
    /// Returns a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// Returns a figure that may be unknown.
    pub fn of(value: Option<f64>, format: impl Fn(f64) -> String) -> Self {
        Self::with(value, format::or_unknown(value, format))
    }

    /// Returns a figure with a text of its own.
    pub fn with(value: Option<f64>, text: String) -> Self {
        Self {
            exact: exact(value.filter(|value| value.is_finite())),
            ..Self::text(text)
        }
    }

    /// Returns a count.
    pub fn whole(value: impl ToString) -> Self {
        Self {
            exact: value.to_string(),
            ..Self::text(value.to_string())
        }
    }

    /// Returns a text in a badge of a class of the style.
    pub fn badge(class: &'static str, text: impl Into<String>) -> Self {
        Self {
            badge: class,
            ..Self::text(text)
        }
    }

    /// Puts a text below it.
    pub fn above(self, below: impl Into<String>) -> Self {
        Self {
            below: below.into(),
            ..self
        }
    }

    /// Gives it links.
    pub fn with_links(self, links: Vec<Link>) -> Self {
        Self { links, ..self }
    }

    /// Returns whether it is a dash.
    pub fn is_unknown(&self) -> bool {
        self.exact.is_empty() && self.text == UNKNOWN
    }
}

/// Returns every digit of a figure; nothing where it is unknown.
pub(super) fn exact(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_has_no_exact_figure() {
        let cell = Cell::of(Some(0.1 + 0.2), format::number);
        assert_eq!(cell.text, "0.300");
        assert_eq!(cell.exact, "0.30000000000000004");
        assert!(Cell::of(None, format::number).exact.is_empty());
        assert!(Cell::of(Some(f64::NAN), format::number).exact.is_empty());
    }

    #[test]
    fn columns_are_of_figures_unless_their_names_say_otherwise() {
        let table = Table::new("c", &["row:", "seconds", "why…"]);
        let columns = (table.columns.iter()).map(|column| (&*column.name, column.class));
        let columns: Vec<(&str, Class)> = columns.collect();
        let wanted = [
            ("row", Class::Text),
            ("seconds", Class::Figure),
            ("why", Class::Long),
        ];
        assert_eq!(columns, wanted);
    }

    #[test]
    fn a_narrow_terminal_has_the_columns_of_the_highest_ranks() {
        let mut table = Table::new("c", &["row:", "a long name", "b", "c"]);
        table.columns[1] = Column::figure("a long name", "").in_terminal("a", 2);
        table.columns[2].keep = 1;
        table.columns[3].keep = 3;
        table.row(vec![
            Cell::text("r"),
            Cell::whole(12),
            Cell::whole(3),
            Cell::text("1 ‡"),
        ]);
        let whole = "row   a  b  c\nr    12  3  1 ‡";
        assert_eq!(table.text(None), (whole.to_owned(), vec![]));
        let (text, left_out) = table.text(Some(12));
        assert_eq!(text, "row   a  c\nr    12  1 ‡");
        assert_eq!(left_out, ["b"]);
    }

    #[test]
    fn a_column_that_is_left_out_takes_its_cells_along() {
        let mut table = Table::new("c", &["row:", "a", "b"]);
        table.row(vec![Cell::text("r"), Cell::whole(1), Cell::text(UNKNOWN)]);
        table.retain(|column, cells| !column.is_figure() || cells.iter().any(|c| !c.is_unknown()));
        assert_eq!(table.markdown(), "| row | a |\n| --- | --: |\n| r | 1 |\n");
    }
}
