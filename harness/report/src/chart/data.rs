//! The figures behind a chart, as a table for other programs.

use serde::Serialize;

use super::{Bars, Lines, Scatter};

/// A table of exact figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Data {
    /// Names of the columns.
    pub heading: Vec<String>,
    /// Cells by row; empty where a figure is not known.
    pub rows: Vec<Vec<String>>,
}

impl Data {
    fn new<const N: usize>(heading: [&str; N], rows: Vec<Vec<String>>) -> Self {
        Self {
            heading: heading.map(str::to_owned).into(),
            rows,
        }
    }
}

impl Scatter<'_> {
    /// Returns every point, and every lower bound.
    pub fn data(&self) -> Data {
        let exact = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let points = self.marks.iter().map(|mark| {
            vec![
                mark.name.clone(),
                mark.provenance.as_str().to_owned(),
                mark.x.to_string(),
                mark.y.to_string(),
                exact(mark.y_to),
            ]
        });
        let bounds = self.lower_bounds.iter().map(|bound| {
            let name = bound.name.clone();
            vec![
                name,
                "lower bound".to_owned(),
                String::new(),
                bound.y.to_string(),
                String::new(),
            ]
        });
        let rows = points.chain(bounds).collect();
        Data::new(
            [
                "name",
                "origin",
                self.x.0,
                self.y.0,
                "by the paper's formula",
            ],
            rows,
        )
    }
}

impl Lines<'_> {
    /// Returns every point of every line.
    pub fn data(&self) -> Data {
        let points = self.lines.iter().flat_map(|line| {
            let cells = |[x, y]: &[f64; 2]| vec![line.name.clone(), x.to_string(), y.to_string()];
            line.points.iter().map(cells)
        });
        Data::new(["name", self.x.name, self.y.name], points.collect())
    }
}

impl Bars<'_> {
    /// Returns every part of every bar, and the values marked across them, which are in `unit`.
    pub fn data(&self, unit: &str) -> Data {
        let parts = self.bars.iter().flat_map(|bar| {
            let parts = bar.segments.iter().map(|part| {
                let name = self.legend.get(part.series).cloned().unwrap_or_default();
                vec![bar.name.clone(), name, part.value.to_string()]
            });
            let tick = self.tick_name.zip(bar.tick);
            parts.chain(
                tick.map(|(name, tick)| vec![bar.name.clone(), name.to_owned(), tick.to_string()]),
            )
        });
        let value = format!("value ({unit})");
        Data::new(["name", "part", &value], parts.collect())
    }
}
