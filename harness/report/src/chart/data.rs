//! The figures behind a chart, as a table for other programs.

use super::{Bar, Bars, Lines, Scatter, bars, lines, scatter};
use crate::charts::Chart;
use crate::table::{Cell, Table, exact};

/// Returns a table of exact figures; cells are empty where one is not known.
fn table(heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new("", heading);
    rows.for_each(|cells| table.row(cells.into_iter().map(Cell::text).collect()));
    table
}

impl Scatter<'_> {
    /// Draws the chart, with its data.
    pub fn chart(&self, title: &str, caption: String) -> Option<Chart> {
        Chart::of_all(self.id, title, caption, &self.data(), |size| {
            scatter(self, size)
        })
    }

    /// Returns every point, and every lower bound.
    fn data(&self) -> Table {
        let points = self.marks.iter().map(|mark| {
            let (name, origin) = (mark.name.clone(), mark.provenance.to_string());
            let (x, y) = (mark.x.to_string(), mark.y.to_string());
            vec![name, origin, x, y, exact(mark.y_to)]
        });
        let bounds = self.lower_bounds.iter().map(|bound| {
            let (name, origin) = (bound.name.clone(), "lower bound".to_owned());
            let [x, y_to] = [String::new(), String::new()];
            vec![name, origin, x, bound.y.to_string(), y_to]
        });
        let y_to = "by the paper's formula";
        let heading = ["name", "origin", self.x.0, self.y.0, y_to];
        table(&heading, points.chain(bounds))
    }
}

impl Lines<'_> {
    /// Draws the chart, with its data.
    pub fn chart(&self, title: &str, caption: String) -> Option<Chart> {
        Chart::of_all(self.id, title, caption, &self.data(), |size| {
            lines(self, size)
        })
    }

    /// Returns every point of every line.
    fn data(&self) -> Table {
        let points = self.lines.iter().flat_map(|line| {
            let cells = |[x, y]: &[f64; 2]| vec![line.name.clone(), x.to_string(), y.to_string()];
            line.points.iter().map(cells)
        });
        table(&["name", self.x.name, self.y.name], points)
    }
}

impl Bars<'_> {
    /// Draws the chart, with its data.
    pub fn chart(&self, title: &str, caption: String) -> Option<Chart> {
        Chart::of_all(self.id, title, caption, &self.data(), |size| {
            bars(self, size)
        })
    }

    /// Returns every part of every bar, and the values marked across them.
    fn data(&self) -> Table {
        let cells = |bar: &Bar, part: &str, value: f64| {
            vec![bar.name.clone(), part.to_owned(), value.to_string()]
        };
        let parts = self.bars.iter().flat_map(|bar| {
            let parts = bar.segments.iter().map(|part| {
                let name = self.legend.get(part.series).map_or("", String::as_str);
                cells(bar, name, part.value)
            });
            let tick = self.tick_name.zip(bar.tick);
            parts.chain(tick.map(|(name, tick)| cells(bar, name, tick)))
        });
        let value = format!("value ({})", self.unit);
        table(&["name", "part", &value], parts)
    }
}
