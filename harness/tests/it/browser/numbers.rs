//! Figures that a page shows, against those of its summary.

use serde_json::Value;

use super::chromium::Browser;
use super::pages::Page;
use crate::support::lacks;

/// A figure; none where it is unknown.
pub type Figure = Option<f64>;

/// A table, its columns with the fields of their figures, and its lines.
type Table<'a> = (&'a str, &'a [(usize, &'a str)], &'a [Value]);

/// The exact figures of a column, row by row as shown.
pub fn column(browser: &mut Browser, table: &str, column: usize) -> Vec<Figure> {
    let cells = browser.value(&format!(
        "[...document.querySelectorAll('#{table} tbody tr:not(.expected)')].filter((r) => !r.hidden)\
         .map((r) => r.cells[{column}]?.dataset.value ?? null)"
    ));
    let number = |cell: &Value| cell.as_str().map(|text| text.parse().unwrap());
    cells.as_array().unwrap().iter().map(number).collect()
}

/// Equal but for rounding: sums are taken in another order, and a reader of
/// JSON may round the last digit otherwise.
#[track_caller]
pub fn same(found: &[Figure], known: &[Figure], what: &str) {
    let is_same = |(a, b): (&Figure, &Figure)| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * b.abs(),
        (a, b) => a == b,
    };
    let equal = found.len() == known.len() && found.iter().zip(known).all(is_same);
    assert!(equal, "{what}: found {found:?}, known {known:?}");
}

/// Every table against the summary.
pub fn tables_agree(browser: &mut Browser, page: &Page) {
    let summary: &[(usize, &str)] = match page.summary["target_accuracy"].as_f64() {
        Some(_) => &[
            (1, "/seconds_to_target/mean"),
            (2, "/cost_to_target_full_usd"),
            (3, "/cost_to_target_paper_usd"),
            (5, "/figures/cost_full_usd/mean"),
            (6, "/figures/compute_gradients/mean"),
            (7, "/figures/synchronise/mean"),
            (8, "/figures/peak_memory_mb/mean"),
            (10, "/figures/train_loss/mean"),
            (11, "/figures/accuracy/mean"),
        ],
        None => &[
            (1, "/figures/seconds_per_epoch/mean"),
            (2, "/figures/cost_full_usd/mean over /epochs"),
            (3, "/figures/cost_paper_usd/mean over /epochs"),
            (4, "/figures/compute_gradients/mean"),
            (5, "/figures/synchronise/mean"),
            (6, "/figures/peak_memory_mb/mean"),
            (8, "/figures/train_loss/mean"),
            (9, "/figures/accuracy/mean"),
        ],
    };
    let stages = [
        (1, "/figures/fetch_dataset/mean"),
        (2, "/figures/compute_gradients/mean"),
        (5, "/figures/wait/mean"),
        (9, "/figures/detect_convergence/mean"),
    ];
    let traffic = [
        (1, "/traffic/puts"),
        (2, "/traffic/gets"),
        (3, "/traffic/messages"),
        (4, "/traffic/deliveries"),
        (5, "/traffic/in_store"),
        (6, "/traffic/bytes_up"),
        (7, "/traffic/bytes_down"),
    ];
    let verdicts = [(2, "/published"), (3, "/observed"), (4, "/ratio")];
    let rows = page.rows();
    // Statements come first.
    let mut claims = page.summary["verdicts"].as_array().unwrap().clone();
    claims.sort_by_key(|claim| claim["kind"] != "published" || !claim["cell"].is_null());
    let tables: [Table<'_>; 4] = [
        ("table-summary", summary, rows),
        ("table-stages", &stages, rows),
        ("table-traffic", &traffic, rows),
        ("table-verdicts", &verdicts, &claims),
    ];
    for (table, columns, lines) in tables {
        for (place, field) in columns {
            let known: Vec<Figure> = lines.iter().map(|line| figure(line, field)).collect();
            // A column of dashes is left out.
            if table == "table-summary" && known.iter().all(Option::is_none) {
                let heading = "document.querySelector('#table-summary thead').textContent";
                let name = field
                    .trim_start_matches("/figures/")
                    .trim_end_matches("/mean");
                lacks(browser.value(heading), &[&name.replace('_', " ")]);
                continue;
            }
            same(&column(browser, table, *place), &known, field);
        }
    }
}

/// Every chart of all rows against the summary.
pub fn charts_agree(browser: &mut Browser, page: &Page) {
    const STAGES: [&str; 5] = [
        "/figures/fetch_dataset/mean",
        "/figures/compute_gradients/mean",
        "/figures/synchronise/mean",
        "/figures/update_model/mean",
        "/figures/detect_convergence/mean",
    ];
    let share = |row: &Value, field: &str, of: &str| figure(row, &format!("{field} over {of}"));
    let points = shapes(browser, "time-cost-chart", ".point:not(.hollow)");
    let bars = shapes(browser, "stages-chart", "rect.bar");
    let bytes = shapes(browser, "bytes-chart", "rect.bar");
    let costs = shapes(browser, "costs-chart", "rect.bar");
    for drawn in [&points, &bars, &bytes, &costs] {
        assert_eq!(drawn.len(), page.rows().len());
    }
    for (i, row) in page.rows().iter().enumerate() {
        let id = row["id"].as_str().unwrap();
        let point = [number(&points[i][0], "x"), number(&points[i][0], "y")];
        // With a target, work that is alike is to reach it.
        let known = match page.summary["target_accuracy"].as_f64() {
            Some(_) => [
                figure(row, "/seconds_to_target/mean"),
                figure(row, "/cost_to_target_full_usd"),
            ],
            None => [
                figure(row, "/figures/seconds_per_epoch/mean"),
                share(row, "/figures/cost_full_usd/mean", "/epochs"),
            ],
        };
        same(&point, &known, id);
        for segment in &bars[i] {
            let stage = STAGES[number(segment, "series").unwrap() as usize];
            same(&[number(segment, "value")], &[figure(row, stage)], stage);
        }
        let drawn: Vec<Figure> = bytes[i].iter().map(|part| number(part, "value")).collect();
        let known = ["/traffic/bytes_up", "/traffic/bytes_down"];
        let known = known.map(|field| share(row, field, "/workers"));
        same(&drawn, &known, id);
        let parts = costs[i].iter().map(|part| number(part, "value"));
        let whole = figure(row, "/figures/cost_full_usd/mean");
        same(&[parts.sum()], &[whole], id);
    }
    let curves = shapes(browser, "accuracy-chart", ".point");
    let last = curves.iter().map(|line| number(line.last().unwrap(), "y"));
    let accuracy = |row: &Value| figure(row, "/figures/accuracy/mean");
    let known = page.rows().iter().map(accuracy).filter(Option::is_some);
    let known: Vec<Figure> = known.collect();
    same(&last.collect::<Vec<_>>(), &known, "accuracy");
}

/// The figures behind the shapes of a chart, row by row.
fn shapes(browser: &mut Browser, chart: &str, shape: &str) -> Vec<Vec<Value>> {
    let rows = browser.value(&format!(
        "[...document.querySelectorAll('svg[aria-labelledby^=\"{chart}-title\"] g[data-name]')]\
         .map((g) => [...g.querySelectorAll('{shape}')].map((s) => ({{...s.dataset}})))\
         .filter((shapes) => shapes.length > 0)"
    ));
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row.as_array().unwrap().clone()).collect()
}

/// A field, or one over another.
fn figure(line: &Value, field: &str) -> Figure {
    match field.split_once(" over ") {
        Some((field, of)) => Some(figure(line, field)? / figure(line, of)?),
        // A metric that no trial has is left out.
        None if field.starts_with("/figures/") => line.pointer(field)?.as_f64(),
        None => line.pointer(field).unwrap().as_f64(),
    }
}

fn number(shape: &Value, name: &str) -> Figure {
    shape[name].as_str().map(|text| text.parse().unwrap())
}
