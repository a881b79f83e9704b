//! Pages of verbs that report on no single run: the answer, then sections of charts and
//! tables.

use std::path::Path;

use epochcost_record::{ResultsError, write_whole};
use epochcost_spec::format;
use serde::Serialize;

use super::chart::{Bar, Bars, Look, Mark, Scatter, Segment, looks};
use super::charts::{Chart, MOST_LOOKS};
use super::provenance::Provenance;
use super::table::Table;
use super::view::StripItem;
use super::{markdown_cell, render};

const HTML: &str = include_str!("../../../templates/sections.html");

/// A page; texts are not yet escaped.
#[derive(Debug, Default, Serialize)]
pub struct Page {
    /// Heading.
    pub title: String,
    /// What it is about, below the heading.
    pub about: String,
    /// Origin of all figures, as a word behind headings; empty where it varies.
    pub tag: &'static str,
    /// The answer, a sentence each.
    pub answer: Vec<String>,
    /// Counts of the answer.
    pub strip: Vec<StripItem>,
    /// Notes on all figures.
    pub notes: Vec<String>,
    /// Sections, in their order.
    pub sections: Vec<Section>,
}

impl Page {
    /// Returns its texts and tables as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n", self.title);
        for sentence in &self.answer {
            text.push_str(&format!("- {}\n", markdown_cell(sentence)));
        }
        for section in &self.sections {
            text.push_str(&format!("\n## {}\n", markdown_cell(&section.title)));
            for note in &section.notes {
                text.push_str(&format!("\n{}\n", markdown_cell(note)));
            }
            let switches = section.switches.iter();
            let first = switches.filter_map(|switch| Some(&switch.choices.first()?.table));
            for table in first.chain(&section.tables) {
                let caption = markdown_cell(&table.caption);
                text.push_str(&format!("\n**{caption}**\n\n{}", table.markdown()));
            }
        }
        text
    }
}

/// A section of a page.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    /// Id of its heading, unique in the page.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Tables of which one is shown at a time.
    pub switches: Vec<Switch>,
    /// Notes below them.
    pub notes: Vec<String>,
}

impl Section {
    /// Returns a section of tables alone.
    pub(super) fn of(id: &str, title: &str, tables: Vec<Table>) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            tables,
            ..Self::default()
        }
    }
}

/// Tables in one place, the first one shown at first.
#[derive(Debug, Serialize)]
pub struct Switch {
    /// Unique in the page.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Tables with their names.
    pub choices: Vec<Choice>,
}

/// A table of a switch.
#[derive(Debug, Serialize)]
pub struct Choice {
    /// Name on the switch.
    pub label: String,
    /// Table.
    pub table: Table,
}

/// A point of a chart of time against cost.
#[derive(Clone, Debug)]
pub struct TimeAndCost {
    /// Name.
    pub name: String,
    /// What its look stands for where there are too many points for one each.
    pub system: String,
    /// Seconds.
    pub seconds: f64,
    /// US dollars.
    pub usd: f64,
}

/// Draws simulated seconds against dollars; nothing without points. `words` name the axes.
pub fn time_cost(
    id: &str,
    points: &[TimeAndCost],
    caption: String,
    words: [&str; 2],
) -> Option<Chart> {
    let shown = (points.iter()).filter(|point| point.seconds > 0.0 && point.usd > 0.0);
    let shown: Vec<&TimeAndCost> = shown.collect();
    let is_one_of_many = shown.len() > MOST_LOOKS;
    let variant = |name| if is_one_of_many { "" } else { name };
    let series = (shown.iter()).map(|point| (&*point.system, variant(&*point.name)));
    let mark = |(point, look): (&&TimeAndCost, Look)| Mark {
        name: point.name.clone(),
        system: point.system.clone(),
        look,
        provenance: Provenance::Simulated,
        x: point.seconds,
        y: point.usd,
        y_to: None,
    };
    let drawn = Scatter {
        id,
        label: "Cost against time, on logarithmic axes",
        x: (words[0], format::seconds),
        y: (words[1], format::usd),
        marks: shown.iter().zip(looks(series)).map(mark).collect(),
        lower_bounds: Vec::new(),
        has_frontier: true,
    };
    drawn.chart("Time against cost", caption)
}

/// A bar in parts, with a value marked across it.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Name.
    pub name: String,
    /// Lengths, in the order of the legend.
    pub values: Vec<f64>,
    /// The value across it.
    pub tick: Option<f64>,
}

/// Draws bars in parts; nothing if no bar has a length. `words` are the id, the title and
/// what the tick means.
pub fn stacked(
    words: [&str; 3],
    caption: String,
    legend: &[&str],
    rows: &[Parts],
    format: fn(f64) -> String,
) -> Option<Chart> {
    let [id, title, tick] = words;
    let bar = |row: &Parts| {
        let parts = row.values.iter().copied().enumerate();
        let parts = parts.filter(|(_, value)| *value > 0.0);
        let segments = parts.map(|(series, value)| Segment { series, value });
        Bar {
            name: row.name.clone(),
            system: String::new(),
            segments: segments.collect(),
            tick: row.tick,
        }
    };
    let drawn = Bars {
        id,
        label: title,
        legend: legend.iter().map(|name| (*name).to_owned()).collect(),
        bars: rows.iter().map(bar).collect(),
        tick_name: Some(tick).filter(|tick| !tick.is_empty()),
        unit: title,
        format,
    };
    drawn.chart(title, caption)
}

/// Writes a page. The same content always gives the same bytes.
///
/// # Errors
/// When the file could not be written.
pub fn write_page(path: &Path, page: &Page) -> Result<(), ResultsError> {
    write_whole(path, render("sections.html", HTML, page)?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::table::Cell;
    use super::*;
    use crate::testing::{holds, lacks};

    #[test]
    fn bars_of_one_part_have_no_letters() {
        let drawn = |legend: &[&str]| {
            let parts = Parts {
                name: "a".into(),
                values: vec![1.0; legend.len()],
                tick: None,
            };
            let words = ["bars", "Bars", ""];
            let chart = stacked(words, String::new(), legend, &[parts], format::seconds);
            chart.unwrap().svg
        };
        assert!(!drawn(&["recorded"]).contains("letter"));
        assert!(drawn(&["sent", "received"]).contains("letter"));
    }

    #[test]
    fn a_page_escapes_its_texts_and_keeps_every_digit() {
        let mut sheet = Table::new("Figures <all>", &["row:", "seconds", "why…"]);
        sheet.row(vec![
            Cell::text("a <b>"),
            Cell::of(Some(1.0 / 3.0), format::number),
            Cell::text("x & y"),
        ]);
        let page = Page {
            title: "A & B".into(),
            answer: vec!["First <sentence>.".into()],
            sections: vec![Section {
                id: "s".into(),
                title: "Section".into(),
                tables: vec![sheet],
                ..Section::default()
            }],
            ..Page::default()
        };
        let text = render("sections.html", HTML, &page).unwrap();
        let parts = [
            "<h1>A &amp; B</h1>",
            "First &lt;sentence&gt;.",
            "a &lt;b&gt;",
            "x &amp; y",
            "data-value=\"0.3333333333333333\">0.333<",
        ];
        holds(&text, &parts);
        lacks(&text, &["<all>"]);
    }
}
