//! A table as CSV with exact figures, and as Markdown and LaTeX with rounded ones.

use crate::analysis::names::{MARKS, legend};
use crate::report::cell::Cell;
use crate::report::chart::Data;
use crate::report::markdown_cell;
use crate::ui::visible;

/// Rows of a table that floats; more go over several pages.
const MOST_FLOATING: usize = 30;

/// LaTeX before a table over several pages, which a text in two columns cannot hold: the pages of
/// the table have one column.
const ONE_COLUMN: &str = "\\makeatletter\\if@twocolumn\\onecolumn\\def\\epochcostlast{\\twocolumn}\
                          \\else\\def\\epochcostlast{}\\fi\\makeatother\n";

/// LaTeX behind it.
const LAST_COLUMN: &str = "\\epochcostlast\n";

/// Characters of the longest text that stands in one line.
const LONG: usize = 24;

/// Characters of the longest text that stands in one line of a table over several pages that
/// would be too wide.
const SHORT: usize = 10;

/// Share of the text's width that a character takes at the size of a column of text.
const CHARACTER: f64 = 0.013;

/// Share of the text's width between two columns.
const SEPARATION: f64 = 0.03;

/// A table.
pub(in crate::report) struct Table {
    /// Meaning.
    pub caption: String,
    /// Names of the columns.
    pub heading: Vec<String>,
    /// Columns of text, before those of figures.
    pub texts: usize,
    /// Cells by row.
    pub rows: Vec<Vec<Cell>>,
    /// Unit of each row's figures; empty where columns have units.
    pub units: Vec<String>,
}

/// Units of the exact figures of columns, by the beginning of their names; other names say it
/// themselves, or are of counts.
const UNITS: [(&str, &str); 7] = [
    ("cost ", "USD"),
    ("total cost", "USD"),
    ("unit price", "USD"),
    ("with everything billed", "USD"),
    ("peak memory", "MB"),
    ("exchanged", "bytes"),
    ("accuracy", "share"),
];

/// Returns the name of a column of exact figures, with their unit.
fn with_unit(name: &str) -> String {
    let known = UNITS
        .iter()
        .find(|(start, _)| format!("{name} ").starts_with(start));
    match known {
        Some((_, unit)) if !name.contains(unit) => format!("{name} ({unit})"),
        _ => name.to_owned(),
    }
}

impl Table {
    /// Returns a table of a name and figures.
    pub fn of_cells<'a>(
        caption: &str,
        heading: impl IntoIterator<Item = &'a str>,
        rows: impl Iterator<Item = (String, Vec<Cell>)>,
    ) -> Self {
        let named = |(name, cells): (String, Vec<Cell>)| {
            let name = Cell {
                text: name,
                exact: String::new(),
            };
            std::iter::once(name).chain(cells).collect()
        };
        Self {
            caption: caption.to_owned(),
            heading: heading.into_iter().map(str::to_owned).collect(),
            texts: 1,
            rows: rows.map(named).collect(),
            units: Vec::new(),
        }
    }

    /// Returns the figures behind a chart.
    pub fn of_data(caption: &str, data: &Data) -> Self {
        let cell = |text: &String| Cell {
            text: text.clone(),
            exact: String::new(),
        };
        Self {
            caption: caption.to_owned(),
            heading: data.heading.clone(),
            texts: 1,
            rows: (data.rows.iter())
                .map(|row| row.iter().map(cell).collect())
                .collect(),
            units: Vec::new(),
        }
    }

    /// Returns it as CSV: every digit of the figures, nothing where one is unknown. Units stand in
    /// the names of columns, or in a column of their own, as what marks mean does.
    pub fn csv(&self) -> String {
        let row = |cells: Vec<String>| cells.join(",") + "\n";
        let is_marked = !self.legend().is_empty();
        let heading = self.heading.iter().enumerate().map(|(column, name)| {
            quoted(&if column < self.texts {
                name.clone()
            } else {
                with_unit(name)
            })
        });
        let units = (!self.units.is_empty()).then(|| "unit".to_owned());
        let notes = is_marked.then(|| "note".to_owned());
        let mut text = row(heading.chain(units).chain(notes).collect());
        for (index, cells) in self.rows.iter().enumerate() {
            let unit = self.units.get(index).map(|unit| quoted(unit));
            let notes = legend(cells.iter().map(|cell| cell.text.as_str()));
            let notes = notes.iter().map(|note| note.chars().skip(2).collect());
            let notes = quoted(&notes.collect::<Vec<String>>().join(" "));
            let cells = cells.iter().enumerate().map(|(column, cell)| {
                let is_unknown = column >= self.texts && cell.exact.is_empty() && cell.text == "–";
                match (cell.exact.as_str(), is_unknown) {
                    (_, true) => String::new(),
                    ("", false) => quoted(&unmarked(&cell.text)),
                    (exact, false) => exact.to_owned(),
                }
            });
            let notes = is_marked.then_some(notes);
            text.push_str(&row(cells.chain(unit).chain(notes).collect()));
        }
        text
    }

    /// Returns the meanings of its marks, a sentence each.
    fn legend(&self) -> Vec<String> {
        let cells = self.rows.iter().flatten();
        legend(cells.map(|cell| cell.text.as_str()))
    }

    /// Returns it as a table of Markdown.
    pub fn markdown(&self) -> String {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = row(self
            .heading
            .iter()
            .map(|name| markdown_cell(name))
            .collect());
        let rules = (0..self.heading.len()).map(|column| {
            let rule = if column < self.texts { "---" } else { "--:" };
            rule.to_owned()
        });
        text.push_str(&row(rules.collect()));
        for cells in &self.rows {
            text.push_str(&row(cells
                .iter()
                .map(|cell| markdown_cell(&cell.text))
                .collect()));
        }
        for note in self.legend() {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }

    /// Returns it as rows of text over several pages, without a caption.
    pub fn long_latex(&self) -> String {
        format!("{ONE_COLUMN}{}{LAST_COLUMN}", self.rows_of_latex())
    }

    fn rows_of_latex(&self) -> String {
        let is_wide = self.shares().iter().sum::<f64>() > 1.0;
        let columns = self.column_types(0.97, if is_wide { SHORT } else { LONG });
        let rule = |name: &str| format!("  \\{name}rule\n");
        let mut text = format!("\\begin{{longtable}}{{{columns}}}\n{}", rule("top"));
        text.push_str(&latex_row("  ", self.heading.iter()));
        text.push_str(&format!("{}  \\endhead\n", rule("mid")));
        for cells in &self.rows {
            text.push_str(&latex_row("  ", cells.iter().map(|cell| &cell.text)));
        }
        text.push_str(&format!("{}\\end{{longtable}}\n", rule("bottom")));
        text
    }

    /// Returns it for a paper, with its caption: a floating table that is no wider than the
    /// text, or, with many rows, one over several pages.
    pub fn latex(&self, citation: &str) -> String {
        let needs = "% Needs \\usepackage{array,booktabs,graphicx,longtable}.\n";
        let head = format!("% {}\n{needs}", citation.replace('\n', " "));
        let marks = self.legend().into_iter();
        let marks: String = marks.map(|mark| format!(" {mark}")).collect();
        let stop = if marks.is_empty() { "" } else { "." };
        let caption = latex_text(&format!("{}{stop}{marks}", self.caption));
        if self.rows.len() > MOST_FLOATING {
            let table = self.rows_of_latex();
            let (begin, rest) = table.split_once('\n').unwrap_or((&table, ""));
            return format!(
                "{head}{ONE_COLUMN}{{\\footnotesize\\setlength{{\\tabcolsep}}{{3pt}}\n{begin}\n  \\caption{{{caption}}} \\\\\n{rest}}}\n{LAST_COLUMN}"
            );
        }
        let columns = self.column_types(0.95, LONG);
        let mut body = format!("  \\begin{{tabular}}{{{columns}}}\n    \\toprule\n");
        body.push_str(&latex_row("    ", self.heading.iter()));
        body.push_str("    \\midrule\n");
        for cells in &self.rows {
            body.push_str(&latex_row("    ", cells.iter().map(|cell| &cell.text)));
        }
        body.push_str("    \\bottomrule\n  \\end{tabular}");
        if self.shares().iter().sum::<f64>() > 1.0 {
            body = format!("  \\resizebox{{\\linewidth}}{{!}}{{%\n{body}}}");
        }
        format!(
            "{head}\\begin{{table}}\n  \\caption{{{caption}}}\n  \\centering\n{body}\n\\end{{table}}\n"
        )
    }

    /// Returns the width of the widest cell of each column in characters.
    fn widths(&self) -> Vec<usize> {
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|cells| cells.get(column));
            let cells = cells.map(|cell| cell.text.chars().count());
            let own = self
                .heading
                .get(column)
                .map_or(0, |name| name.chars().count());
            cells.chain([own]).max().unwrap_or(0)
        };
        (0..self.heading.len()).map(widest).collect()
    }

    /// Returns the share of the text's width that each column takes, as far as it is one
    /// line: long texts are wrapped, and count little.
    fn shares(&self) -> Vec<f64> {
        let shares = self.widths().into_iter().enumerate();
        shares
            .map(|(column, width)| {
                let is_wrapped = column < self.texts && width > LONG;
                CHARACTER * if is_wrapped { LONG } else { width } as f64 + SEPARATION
            })
            .collect()
    }

    /// Returns the types of the columns: text left, figures right, long texts in paragraphs
    /// that share what the others leave of `available`.
    /// Texts of more than `longest` characters are long.
    fn column_types(&self, available: f64, longest: usize) -> String {
        let widths = self.widths();
        let is_long = |column: usize| column < self.texts && widths[column] > longest;
        let fixed: f64 = (self.shares().iter().enumerate())
            .filter(|(column, _)| !is_long(*column))
            .map(|(_, share)| share)
            .sum();
        // Twice as long a text does not get twice the width.
        let weight = |column: usize| (widths[column] as f64).sqrt();
        let weights: f64 = (0..widths.len())
            .filter(|one| is_long(*one))
            .map(weight)
            .sum();
        let separations = (0..widths.len()).filter(|one| is_long(*one)).count() as f64 * SEPARATION;
        let rest = (available - fixed - separations).max(0.3);
        (0..widths.len())
            .map(|column| match (is_long(column), column < self.texts) {
                (true, _) => {
                    let share = rest * weight(column) / weights;
                    format!(">{{\\raggedright\\arraybackslash}}p{{{share:.2}\\linewidth}}")
                }
                (false, true) => "l".to_owned(),
                (false, false) => "r".to_owned(),
            })
            .collect()
    }
}

/// Returns a row of LaTeX.
fn latex_row<'a>(indent: &str, cells: impl Iterator<Item = &'a String>) -> String {
    let cells: Vec<String> = cells.map(|cell| breakable(&latex_text(cell))).collect();
    format!("{indent}{} \\\\\n", cells.join(" & "))
}

/// Returns text of LaTeX in which names and paths may be broken.
fn breakable(text: &str) -> String {
    text.replace('/', "/\\allowbreak{}")
        .replace("\\_", "\\_\\allowbreak{}")
}

/// Returns a text without marks.
fn unmarked(text: &str) -> String {
    let marks = MARKS.iter().map(|(mark, _)| *mark);
    marks.fold(text.to_owned(), |text, mark| text.replace(mark, ""))
}

/// Returns a cell of CSV, in quotation marks where it needs them.
fn quoted(text: &str) -> String {
    let text = visible(text);
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}

/// Returns text that LaTeX typesets as it is. A character that its fonts do not have
/// is named by its number.
pub(in crate::report) fn latex_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            // Two of them would become a dash.
            '-' if escaped.ends_with('-') => escaped.push_str("{}-"),
            ' '..='~' if !r"\~^<>|".contains(c) => escaped.push(c),
            '\n' | '\r' => escaped.push(' '),
            _ => match LATEX.iter().find(|(known, _)| *known == c) {
                Some((_, command)) => escaped.push_str(command),
                // Letters of western Europe are in T1.
                None if ('\u{c0}'..='\u{ff}').contains(&c) => escaped.push(c),
                None => escaped.push_str(&format!("[U+{:04X}]", u32::from(c))),
            },
        }
    }
    escaped
}

/// Characters that are commands of LaTeX.
const LATEX: [(char, &str); 35] = [
    ('\\', "\\textbackslash{}"),
    ('~', "\\textasciitilde{}"),
    ('^', "\\textasciicircum{}"),
    ('<', "\\textless{}"),
    ('>', "\\textgreater{}"),
    ('|', "\\textbar{}"),
    ('±', "$\\pm$"),
    ('×', "$\\times$"),
    ('·', "$\\cdot$"),
    ('−', "$-$"),
    ('≈', "$\\approx$"),
    ('≥', "$\\geq$"),
    ('≤', "$\\leq$"),
    ('≠', "$\\neq$"),
    ('→', "$\\rightarrow$"),
    ('√', "$\\surd$"),
    ('²', "$^2$"),
    ('³', "$^3$"),
    ('½', "$\\frac12$"),
    ('∅', "$\\emptyset$"),
    ('∞', "$\\infty$"),
    ('α', "$\\alpha$"),
    ('β', "$\\beta$"),
    ('λ', "$\\lambda$"),
    ('μ', "$\\mu$"),
    ('µ', "$\\mu$"),
    ('τ', "$\\tau$"),
    ('○', "$\\circ$"),
    ('§', "\\S{}"),
    ('†', "\\dag{}"),
    ('‡', "\\ddag{}"),
    ('–', "--"),
    ('—', "---"),
    ('…', "\\dots{}"),
    ('’', "'"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format;

    fn table() -> Table {
        let cells = vec![
            Cell::of(Some(1.0 / 3.0), format::usd),
            Cell::of(None, format::usd),
        ];
        Table::of_cells(
            "Cost & time",
            ["system", "cost", "rest"],
            [("A, \"b\"_1".to_owned(), cells)].into_iter(),
        )
    }

    #[test]
    fn csv_has_every_digit_and_nothing_for_what_is_unknown() {
        let text = table().csv();
        assert_eq!(
            text,
            "system,cost (USD),rest\n\"A, \"\"b\"\"_1\",0.3333333333333333,\n"
        );
        let mut table = table();
        table.units.push("ms".to_owned());
        assert!(table.csv().starts_with("system,cost (USD),rest,unit\n"));
        assert!(table.csv().ends_with("0.3333333333333333,,ms\n"));
    }

    #[test]
    fn latex_and_markdown_escape_what_they_would_read() {
        let text = table().latex("c");
        assert!(
            text.contains("A, \"b\"\\_\\allowbreak{}1 & \\$0.333 & -- \\\\"),
            "{text}"
        );
        assert!(text.contains("\\caption{Cost \\& time}") && text.contains("{lrr}"));
        assert!(text.contains("\\toprule") && text.contains("\\bottomrule"));
        assert!(
            table()
                .markdown()
                .starts_with("| system | cost | rest |\n| --- | --: | --: |\n")
        );
        assert_eq!(
            latex_text("--out a|b\\c"),
            "-{}-out a\\textbar{}b\\textbackslash{}c"
        );
        assert_eq!(latex_text("café ✗"), "café [U+2717]");
    }

    /// A table whose cells are these texts and a figure, in so many rows.
    fn of_texts(texts: &[String], rows: usize) -> Table {
        let cells = |_| {
            let texts = texts.iter().map(Cell::text);
            texts.chain([Cell::of(Some(1.5), format::number)]).collect()
        };
        let heading = (0..=texts.len()).map(|column| format!("c{column}"));
        Table {
            caption: "Any".to_owned(),
            heading: heading.collect(),
            texts: texts.len(),
            rows: (0..rows).map(cells).collect(),
            units: Vec::new(),
        }
    }

    /// Returns how many cells end before the last one.
    fn separators(line: &str) -> usize {
        line.replace("\\&", "").matches('&').count()
    }

    proptest! {
        /// Whatever cells hold: every row has as many cells as the table has columns, braces
        /// are balanced, environments are closed, and every character is one that
        /// pdflatex knows.
        #[test]
        fn latex_has_balanced_columns_braces_and_environments(
            texts in prop::collection::vec("\\PC{0,60}", 1..5),
            rows in 1_usize..60,
        ) {
            let table = of_texts(&texts, rows);
            for text in [table.latex("c"), table.long_latex()] {
                let lines = text.lines().filter(|line| line.trim_end().ends_with("\\\\"));
                let lines: Vec<&str> = lines.filter(|line| !line.contains("\\caption")).collect();
                prop_assert_eq!(lines.len(), 1 + rows, "{}", text);
                for line in lines {
                    prop_assert_eq!(separators(line), texts.len(), "{}", line);
                }
                let bare = text.replace("\\{", "").replace("\\}", "");
                prop_assert_eq!(bare.matches('{').count(), bare.matches('}').count());
                for name in ["table", "tabular", "longtable"] {
                    let begins = text.matches(&format!("\\begin{{{name}}}")).count();
                    prop_assert_eq!(begins, text.matches(&format!("\\end{{{name}}}")).count());
                }
                prop_assert!(text.chars().all(|c| c == '\n' || (' '..='ÿ').contains(&c)), "{}", text);
                // Columns of the type and of the rows are as many.
                let (_, types) = text.split_once("{tabular}{").or(text.split_once("{longtable}{")).unwrap();
                let types = types.lines().next().unwrap();
                let types = types.replace("raggedright", "").replace("arraybackslash", "");
                let types = types.replace("linewidth", "");
                let columns = types.chars().filter(|c| "lrp".contains(*c)).count();
                prop_assert_eq!(columns, texts.len() + 1, "{}", types);
            }
        }
    }
}
