//! A table as CSV with exact figures, and as LaTeX with rounded ones.

use epochcost_judge::analysis::names::{MARKS, legend};
use epochcost_spec::ui::visible;

use crate::table::{Class, Column, Line, NOT_RUN, Table};

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

/// Returns a heading with the unit of the exact figures below it.
fn with_unit(column: &Column) -> String {
    match column.unit {
        "" => column.name.clone(),
        unit => format!("{} ({unit})", column.name),
    }
}

impl Table {
    /// Returns the lines that are no figures to compare with.
    fn own_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| !line.follows)
    }

    /// Returns the columns that people read, with their places.
    fn shown(&self) -> impl Iterator<Item = (usize, &Column)> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, column)| column.class != Class::Data)
    }

    /// Returns it as CSV: every digit of the figures, nothing where one is unknown. Units stand in
    /// the names of columns, and what marks mean, words behind a figure and the reason for which a
    /// row was not run in a column of their own.
    pub(crate) fn csv(&self) -> String {
        let row = |cells: Vec<String>| cells.join(",") + "\n";
        let notes: Vec<String> = self.own_lines().map(|line| self.note(line)).collect();
        let is_noted = notes.iter().any(|note| !note.is_empty());
        let heading = self.columns.iter().map(|column| quoted(&with_unit(column)));
        let of_notes = is_noted.then(|| "note".to_owned());
        let mut text = row(heading.chain(of_notes).collect());
        for (line, note) in self.own_lines().zip(notes) {
            let cells = self.columns.iter().zip(&line.cells).map(|(column, cell)| {
                match (cell.exact.as_str(), column.is_figure() && cell.is_unknown()) {
                    (_, true) => String::new(),
                    ("", false) => quoted(&unmarked(&cell.text)),
                    (exact, false) => exact.to_owned(),
                }
            });
            let note = is_noted.then(|| quoted(&note));
            text.push_str(&row(cells.chain(note).collect()));
        }
        text
    }

    /// Returns what a line says beside its exact figures.
    fn note(&self, line: &Line) -> String {
        let marks = legend(line.cells.iter().map(|cell| cell.text.as_str())).into_iter();
        let marks = marks.map(|mark| mark.chars().skip(2).collect::<String>());
        let cells = self.columns.iter().zip(&line.cells);
        let figures = cells.filter(|(column, cell)| column.is_figure() && !cell.exact.is_empty());
        // As in "3, 1 failed".
        let words = figures.filter_map(|(_, cell)| {
            let behind = cell.text.strip_prefix(&cell.exact)?.strip_prefix(", ");
            behind.map(|words| format!("{words}."))
        });
        let why = line.instead.strip_prefix(NOT_RUN).map(str::to_owned);
        words.chain(why).chain(marks).collect::<Vec<_>>().join(" ")
    }

    /// Returns it as rows of text over several pages, without a caption.
    pub(crate) fn long_latex(&self) -> String {
        format!("{ONE_COLUMN}{}{LAST_COLUMN}", self.rows_of_latex())
    }

    fn rows_of_latex(&self) -> String {
        let is_wide = self.shares().iter().sum::<f64>() > 1.0;
        let columns = self.column_types(0.97, if is_wide { SHORT } else { LONG });
        let rule = |name: &str| format!("  \\{name}rule\n");
        let mut text = format!("\\begin{{longtable}}{{{columns}}}\n{}", rule("top"));
        text.push_str(&self.latex_heading("  "));
        text.push_str(&format!("{}  \\endhead\n", rule("mid")));
        text.push_str(&self.latex_lines("  "));
        text.push_str(&format!("{}\\end{{longtable}}\n", rule("bottom")));
        text
    }

    fn latex_heading(&self, indent: &str) -> String {
        latex_row(indent, self.shown().map(|(_, column)| column.name.as_str()))
    }

    fn latex_lines(&self, indent: &str) -> String {
        let row = |line: &Line| {
            let cells = self.shown().map(|(place, _)| &*line.cells[place].text);
            latex_row(indent, cells)
        };
        self.own_lines().map(row).collect()
    }

    /// Returns it for a paper, with its caption: a floating table that is no wider than the
    /// text, or, with many rows, one over several pages.
    pub(crate) fn latex(&self, citation: &str, label: &str) -> String {
        let needs = "% Needs \\usepackage{array,booktabs,graphicx,longtable}.\n";
        let head = format!("% {}\n{needs}", citation.replace('\n', " "));
        let marks = self.legend().into_iter();
        let marks: String = marks.map(|mark| format!(" {mark}")).collect();
        let stop = if marks.is_empty() { "" } else { "." };
        let caption = self.caption.trim_end_matches('.');
        let caption = latex_text(&format!("{caption}{stop}{marks}"));
        let caption = format!("\\caption{{{caption}}}\\label{{{label}}}");
        if self.own_lines().count() > MOST_FLOATING {
            let table = self.rows_of_latex();
            let (begin, rest) = table.split_once('\n').unwrap_or((&table, ""));
            return format!(
                "{head}{ONE_COLUMN}{{\\footnotesize\\setlength{{\\tabcolsep}}{{3pt}}\n{begin}\n  {caption} \\\\\n{rest}}}\n{LAST_COLUMN}"
            );
        }
        let columns = self.column_types(0.95, LONG);
        let mut body = format!("  \\begin{{tabular}}{{{columns}}}\n    \\toprule\n");
        body.push_str(&self.latex_heading("    "));
        body.push_str("    \\midrule\n");
        body.push_str(&self.latex_lines("    "));
        body.push_str("    \\bottomrule\n  \\end{tabular}");
        if self.shares().iter().sum::<f64>() > 1.0 {
            body = format!("  \\resizebox{{\\linewidth}}{{!}}{{%\n{body}}}");
        }
        format!("{head}\\begin{{table}}\n  {caption}\n  \\centering\n{body}\n\\end{{table}}\n")
    }

    /// Returns the width of the widest cell of each column that people read, in characters, and
    /// whether its cells are figures.
    fn widths(&self) -> Vec<(usize, bool)> {
        let widest = |(place, column): (usize, &Column)| {
            let cells = self.own_lines().map(|line| line.cells[place].text.as_str());
            let texts = cells.chain([column.name.as_str()]);
            let widest = texts.map(|text| text.chars().count()).max();
            (widest.unwrap_or(0), column.is_figure())
        };
        self.shown().map(widest).collect()
    }

    /// Returns the share of the text's width that each column takes, as far as it is one
    /// line: long texts are wrapped, and count little.
    fn shares(&self) -> Vec<f64> {
        let share = |(width, is_figure): (usize, bool)| {
            let shown = if is_figure { width } else { width.min(LONG) };
            CHARACTER * shown as f64 + SEPARATION
        };
        self.widths().into_iter().map(share).collect()
    }

    /// Returns the types of the columns: text left, figures right, long texts in paragraphs
    /// that share what the others leave of `available`.
    /// Texts of more than `longest` characters are long.
    fn column_types(&self, available: f64, longest: usize) -> String {
        let widths = self.widths();
        let is_long = |(width, is_figure): &(usize, bool)| !is_figure && *width > longest;
        let shares = widths.iter().zip(self.shares());
        let fixed = shares.filter(|(width, _)| !is_long(width));
        let fixed: f64 = fixed.map(|(_, share)| share).sum();
        // Twice as long a text does not get twice the width.
        let weight = |width: usize| (width as f64).sqrt();
        let long = widths.iter().filter(|width| is_long(width));
        let long: Vec<f64> = long.map(|(width, _)| weight(*width)).collect();
        let rest = (available - fixed - long.len() as f64 * SEPARATION).max(0.3);
        let of = |width: &(usize, bool)| match (is_long(width), width.1) {
            (true, _) => {
                let share = rest * weight(width.0) / long.iter().sum::<f64>();
                format!(">{{\\raggedright\\arraybackslash}}p{{{share:.2}\\linewidth}}")
            }
            (false, false) => "l".to_owned(),
            (false, true) => "r".to_owned(),
        };
        widths.iter().map(of).collect()
    }
}

/// Returns a row of LaTeX.
fn latex_row<'a>(indent: &str, cells: impl Iterator<Item = &'a str>) -> String {
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
pub(crate) fn latex_text(text: &str) -> String {
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
            _ => match latex_command(c) {
                Some(command) => escaped.push_str(command),
                // Letters of western Europe are in T1.
                None if ('\u{c0}'..='\u{ff}').contains(&c) => escaped.push(c),
                None => escaped.push_str(&format!("[U+{:04X}]", u32::from(c))),
            },
        }
    }
    escaped
}

/// Characters that are commands of LaTeX, a line each with a tab between them.
const LATEX: &str = include_str!("latex.tsv");

/// Returns the command for a character, if it is one.
fn latex_command(c: char) -> Option<&'static str> {
    LATEX
        .lines()
        .find_map(|line| line.strip_prefix(c)?.strip_prefix('\t'))
}

#[cfg(test)]
mod tests {
    use epochcost_spec::format;
    use proptest::prelude::*;

    use super::*;
    use crate::table::Cell;
    use crate::testing::holds;

    fn table() -> Table {
        let mut table = Table::new("Cost & time", &["system:", "cost", "rest"]);
        table.columns[1].unit = "USD";
        table.row(vec![
            Cell::text("A, \"b\"_1"),
            Cell::of(Some(1.0 / 3.0), format::usd),
            Cell::of(None, format::usd),
        ]);
        table
    }

    #[test]
    fn csv_has_every_digit_and_nothing_for_what_is_unknown() {
        let expected = "system,cost (USD),rest\n\"A, \"\"b\"\"_1\",0.3333333333333333,\n";
        assert_eq!(table().csv(), expected);
    }

    /// A failed row once had the trials of one that was done, and an infeasible one no word.
    #[test]
    fn csv_says_what_a_figure_does_not() {
        let mut table = Table::new("c", &["system:", "trials"]);
        let trials = |count: f64, text: &str| Cell::with(Some(count), text.to_owned());
        table.row(vec![Cell::text("a"), trials(3.0, "3, 3 failed")]);
        table.row(vec![Cell::text("b"), trials(0.0, "infeasible")]);
        table.lines[1].instead = format!("{NOT_RUN}infeasible (memory): no size");
        table.row(vec![Cell::text("c"), trials(3.0, "3")]);
        let expected =
            "system,trials,note\na,3,3 failed.\nb,0,infeasible (memory): no size\nc,3,\n";
        assert_eq!(table.csv(), expected);
    }

    #[test]
    fn latex_and_markdown_escape_what_they_would_read() {
        let row = "A, \"b\"\\_\\allowbreak{}1 & \\$0.333 & -- \\\\";
        let caption = "\\caption{Cost \\& time}\\label{tab:c}";
        let latex = table().latex("c", "tab:c");
        holds(latex, &[row, caption, "{lrr}", "\\toprule", "\\bottomrule"]);
        let heading = "| system | cost | rest |\n| --- | --: | --: |\n";
        assert!(table().markdown().starts_with(heading));
        let escaped = "-{}-out a\\textbar{}b\\textbackslash{}c";
        assert_eq!(latex_text("--out a|b\\c"), escaped);
        assert_eq!(latex_text("café ✗"), "café [U+2717]");
    }

    /// A table whose cells are these texts and a figure, in so many rows.
    fn of_texts(texts: &[String], rows: usize) -> Table {
        let cells = |_| {
            let texts = texts.iter().map(Cell::text);
            texts.chain([Cell::of(Some(1.5), format::number)]).collect()
        };
        let mut columns = vec!["c:"; texts.len()];
        columns.push("c");
        let mut table = Table::new("Any", &columns);
        (0..rows).for_each(|row| table.row(cells(row)));
        table
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
            for text in [table.latex("c", "tab:c"), table.long_latex()] {
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
                // Pages of a text in two columns have one for the table, and two again behind it.
                if let Some((before, within)) = text.split_once("\\begin{longtable}") {
                    let (_, behind) = within.split_once("\\end{longtable}").unwrap();
                    prop_assert!(before.contains("\\if@twocolumn\\onecolumn"), "{}", text);
                    prop_assert!(behind.ends_with("\\epochcostlast\n"), "{}", text);
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
