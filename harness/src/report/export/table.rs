//! A table as CSV with exact figures, and as Markdown and LaTeX with rounded ones.

use crate::report::cell::Cell;
use crate::report::chart::Data;
use crate::report::markdown_cell;

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
        }
    }

    /// Returns it as CSV: every digit of the figures, nothing where one is unknown.
    pub fn csv(&self) -> String {
        let row = |cells: Vec<String>| cells.join(",") + "\n";
        let mut text = row(self.heading.iter().map(|name| quoted(name)).collect());
        for cells in &self.rows {
            let cells = cells.iter().enumerate().map(|(column, cell)| {
                let is_unknown = column >= self.texts && cell.exact.is_empty() && cell.text == "–";
                match (cell.exact.as_str(), is_unknown) {
                    (_, true) => String::new(),
                    ("", false) => quoted(&cell.text),
                    (exact, false) => exact.to_owned(),
                }
            });
            text.push_str(&row(cells.collect()));
        }
        text
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
        text
    }

    /// Returns it as rows of text over several pages: the package `longtable`.
    pub fn long_latex(&self) -> String {
        let row = |cells: Vec<String>| format!("  {} \\\\\n", cells.join(" & "));
        let width = 0.92 / self.heading.len().max(1) as f64;
        let columns = format!("p{{{width:.2}\\linewidth}}").repeat(self.heading.len());
        let mut text = format!("\\begin{{longtable}}{{{columns}}}\n  \\toprule\n");
        text.push_str(&row(self
            .heading
            .iter()
            .map(|name| latex_text(name))
            .collect()));
        text.push_str("  \\midrule\n  \\endhead\n");
        for cells in &self.rows {
            text.push_str(&row(cells
                .iter()
                .map(|cell| latex_text(&cell.text))
                .collect()));
        }
        text.push_str("  \\bottomrule\n\\end{longtable}\n");
        text
    }

    /// Returns it as a floating table of LaTeX that needs the package `booktabs`.
    pub fn latex(&self, citation: &str) -> String {
        let row = |cells: Vec<String>| format!("    {} \\\\\n", cells.join(" & "));
        let columns: String = (0..self.heading.len())
            .map(|column| if column < self.texts { 'l' } else { 'r' })
            .collect();
        let mut text = format!(
            "% {}\n% Needs \\usepackage{{booktabs}}.\n\\begin{{table}}\n  \\caption{{{}}}\n  \\centering\n  \\begin{{tabular}}{{{columns}}}\n    \\toprule\n",
            citation.replace('\n', " "),
            latex_text(&self.caption)
        );
        text.push_str(&row(self
            .heading
            .iter()
            .map(|name| latex_text(name))
            .collect()));
        text.push_str("    \\midrule\n");
        for cells in &self.rows {
            text.push_str(&row(cells
                .iter()
                .map(|cell| latex_text(&cell.text))
                .collect()));
        }
        text.push_str("    \\bottomrule\n  \\end{tabular}\n\\end{table}\n");
        text
    }
}

/// Returns a cell of CSV, in quotation marks where it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Returns text that LaTeX typesets as it is.
pub(in crate::report) fn latex_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\\' => escaped.push_str("\\textbackslash{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '±' => escaped.push_str("$\\pm$"),
            '×' => escaped.push_str("$\\times$"),
            '·' => escaped.push_str("$\\cdot$"),
            '–' => escaped.push_str("--"),
            '−' => escaped.push_str("$-$"),
            '≈' => escaped.push_str("$\\approx$"),
            '\n' | '\r' => escaped.push(' '),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
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
            "system,cost,rest\n\"A, \"\"b\"\"_1\",0.3333333333333333,\n"
        );
    }

    #[test]
    fn latex_and_markdown_escape_what_they_would_read() {
        let text = table().latex("c");
        assert!(text.contains("A, \"b\"\\_1 & \\$0.333 & -- \\\\"), "{text}");
        assert!(text.contains("\\caption{Cost \\& time}") && text.contains("{lrr}"));
        assert!(text.contains("\\toprule") && text.contains("\\bottomrule"));
        assert!(
            table()
                .markdown()
                .starts_with("| system | cost | rest |\n| --- | --: | --: |\n")
        );
    }
}
