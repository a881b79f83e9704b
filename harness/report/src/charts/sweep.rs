//! Sweeps: a metric against the field that varies, one line per system, with the
//! places where two systems change their order.

use std::cmp::Reverse;

use epochcost_judge::analysis::titles::model_title;
use epochcost_spec::claims::{Claim, Metric};
use epochcost_spec::format;

use super::{Chart, Labelled, variant_of};
use crate::chart::{Axis, Crossing, End, Line, Lines, Look, looks};
use crate::provenance::Provenance;

/// Values of a field from which on it is a sweep.
const LEAST_VALUES: usize = 3;

/// Lines of a chart: more cannot be told apart.
const MOST_LINES: usize = 24;

/// Factor over which an axis is logarithmic.
const FAR: f64 = 8.0;

/// A field of a row that a sweep varies.
struct Field {
    name: &'static str,
    of: fn(&Labelled<'_>) -> f64,
    /// How a line's name gives its value.
    text: fn(&Labelled<'_>) -> String,
    format: fn(f64) -> String,
}

impl Field {
    /// Returns the other fields.
    fn others(&self) -> impl Iterator<Item = &'static Field> {
        FIELDS.iter().filter(|other| other.name != self.name)
    }
}

static FIELDS: [Field; 4] = [
    Field {
        name: "parameters of the model",
        of: |row| row.row.planned.row.sizes().parameters as f64,
        text: |row| model_title(&row.row.planned.row.job.model),
        format: millions,
    },
    Field {
        name: "workers",
        of: |row| row.row.planned.row.job.workers as f64,
        text: |row| format!("W={}", row.row.planned.row.job.workers),
        format: format::count,
    },
    Field {
        name: "samples of a batch",
        of: |row| row.row.planned.row.job.batch_size as f64,
        text: |row| format!("b={}", row.row.planned.row.job.batch_size),
        format: format::count,
    },
    Field {
        name: "memory of a function, MB",
        of: |row| f64::from(row.row.planned.row.memory_mb),
        text: |row| format::megabytes(row.row.planned.row.memory_mb.into()),
        format: format::count,
    },
];

fn millions(value: f64) -> String {
    if value < 1e6 {
        format::count(value)
    } else {
        format!("{} M", format::number(value / 1e6))
    }
}

/// A line with what it holds besides the swept field and the system.
struct Series<'a> {
    rest: String,
    variant: String,
    rows: Vec<&'a Labelled<'a>>,
}

/// Returns charts of the metric that the claims compare, and of cost, against the
/// field with most values; nothing where no field has three for one system.
pub(super) fn sweeps(
    rows: &[Labelled<'_>],
    claims: &[Claim],
    provenance: Provenance,
) -> Vec<Chart> {
    let fields = FIELDS.iter().map(|field| (field, series(rows, field)));
    let best = fields.max_by_key(|(field, series)| (longest(field, series), Reverse(series.len())));
    let Some((field, series)) = best else {
        return Vec::new();
    };
    if longest(field, &series) < LEAST_VALUES || series.len() > MOST_LINES {
        return Vec::new();
    }
    let is_simulated = provenance == Provenance::Simulated;
    let simulated = if is_simulated { "simulated " } else { "" };
    let (metric, name) = claimed(claims);
    let sweep = Sweep {
        field,
        series: &series,
        is_simulated,
    };
    let name = format!("{simulated}{name}");
    let y = Axis::linear(&name, format::seconds);
    let time = chart(&sweep, "Time", y, |row| row.row.estimate(metric).mean);
    let y = Axis::linear("cost of an epoch with everything billed, USD", format::usd);
    let cost = chart(&sweep, "Cost", y, |row| {
        let usd = row.row.estimate(Metric::CostFullUsd).mean?;
        Some(usd / row.row.planned.row.job.epochs as f64)
    });
    time.into_iter().chain(cost).collect()
}

/// Returns the metric of time that most claims compare rows by, and its name.
fn claimed(claims: &[Claim]) -> (Metric, &'static str) {
    let of = |metric: Metric| {
        let is_it = |claim: &&Claim| claim.formula.is_some() && claim.metric == Some(metric);
        claims.iter().filter(is_it).count()
    };
    if of(Metric::Synchronise) > of(Metric::SecondsPerEpoch) {
        (Metric::Synchronise, "seconds of synchronising per epoch")
    } else {
        (Metric::SecondsPerEpoch, "seconds per epoch")
    }
}

/// Returns rows that differ in the field alone, together.
fn series<'a>(rows: &'a [Labelled<'a>], field: &Field) -> Vec<Series<'a>> {
    let mut series: Vec<Series<'a>> = Vec::new();
    for row in rows.iter().filter(|row| row.row.succeeded().count() > 0) {
        let rest = field.others().map(|other| (other.text)(row));
        let rest = rest.collect::<Vec<_>>().join(" · ");
        let variant = variant(row);
        let is_its = |known: &&mut Series<'_>| known.rest == rest && known.variant == variant;
        match series.iter_mut().find(is_its) {
            Some(known) => known.rows.push(row),
            None => series.push(Series {
                rest,
                variant,
                rows: vec![row],
            }),
        }
    }
    for line in &mut series {
        let rows = &mut line.rows;
        rows.sort_by(|a, b| (field.of)(a).total_cmp(&(field.of)(b)));
    }
    series
}

/// Returns the system with what an entry of it is set to: its rows' id without what a
/// sweep appends.
fn variant(row: &Labelled<'_>) -> String {
    let job = &row.row.planned.row.job;
    let settings = serde_json::to_string(&job.settings).unwrap_or_default();
    format!("{} {} {settings}", job.system, job.fidelity.as_str())
}

fn longest(field: &Field, series: &[Series<'_>]) -> usize {
    let values = |line: &Series<'_>| {
        let mut values: Vec<f64> = line.rows.iter().map(|row| (field.of)(row)).collect();
        values.dedup();
        // Two rows of one value are no sweep of this field.
        if values.len() == line.rows.len() {
            values.len()
        } else {
            0
        }
    };
    series.iter().map(values).max().unwrap_or(0)
}

/// What is swept.
struct Sweep<'a> {
    field: &'static Field,
    series: &'a [Series<'a>],
    is_simulated: bool,
}

/// Draws a value of rows against the field.
fn chart(
    sweep: &Sweep<'_>,
    what: &str,
    y: Axis<'_>,
    value: impl Fn(&Labelled<'_>) -> Option<f64>,
) -> Option<Chart> {
    let field = sweep.field;
    let title = format!("{what} against {}", field.name);
    let point = |row: &&Labelled<'_>| Some([(field.of)(row), value(row)?]);
    let line = |line: &Series<'_>| {
        let first = line.rows.first()?;
        Some(Line {
            name: name(sweep, line, first),
            system: first.system.clone(),
            look: Look::nth(0),
            points: line.rows.iter().filter_map(point).collect(),
            end: End::Complete,
        })
    };
    let mut all: Vec<Line> = sweep.series.iter().filter_map(line).collect();
    let looks = looks((all.iter()).map(|line| (line.system.as_str(), variant_of(&line.name))));
    for (line, look) in all.iter_mut().zip(looks) {
        line.look = look;
    }
    if all.iter().all(|line| line.points.len() < 2) {
        return None;
    }
    let crossings = crossings(sweep, &all);
    let is_far = |axis: usize| {
        let points = all.iter().flat_map(|line| &line.points);
        let values = points.map(|point| point[axis]);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(0.0, f64::max);
        low > 0.0 && high / low > FAR
    };
    let caption = caption(&crossings);
    let drawn = Lines {
        id: &format!("sweep-{}", what.to_lowercase()),
        label: &title,
        x: Axis {
            log: is_far(0),
            ..Axis::linear(field.name, field.format)
        },
        y: Axis {
            log: is_far(1),
            ..y
        },
        lines: all,
        target: None,
        crossings,
    };
    let chart = drawn.chart(&title, caption)?;
    // The finding is the title; seconds of this machine find none.
    match drawn.crossings.as_slice() {
        [one] if sweep.is_simulated => {
            let crossing = one.title.replace(" at about ", " cross at about ");
            let title = format!("{title}: {crossing}");
            Some(Chart { title, ..chart })
        }
        _ => Some(chart),
    }
}

/// Returns the line's name: the system's, and what distinguishes lines of it.
fn name(sweep: &Sweep<'_>, line: &Series<'_>, first: &Labelled<'_>) -> String {
    let mut name = first.system.clone();
    for other in sweep.field.others() {
        let text = (other.text)(first);
        let mut lines = sweep.series.iter().filter_map(|line| line.rows.first());
        if lines.any(|other_first| (other.text)(other_first) != text) {
            name.push_str(&format!(" · {text}"));
        }
    }
    // Entries of one system that differ in their settings are named by their rows.
    let same = |other: &&Series<'_>| {
        let mut rows = other.rows.iter().take(1);
        other.rest == line.rest && rows.any(|row| row.system == first.system)
    };
    if sweep.series.iter().filter(same).count() > 1 {
        first.name.to_owned()
    } else {
        name
    }
}

fn caption(crossings: &[Crossing]) -> String {
    let mut caption = "One line per system; every point is a row of the table.".to_owned();
    if !crossings.is_empty() {
        let places: Vec<&str> = crossings.iter().map(|one| one.title.as_str()).collect();
        let rings = "Rings mark where two systems change their order, between two rows";
        caption.push_str(&format!(" {rings}: {}.", places.join("; ")));
    }
    caption
}

/// Returns where lines of different systems and otherwise equal rows cross.
fn crossings(sweep: &Sweep<'_>, lines: &[Line]) -> Vec<Crossing> {
    let mut found = Vec::new();
    for (i, (a, of_a)) in lines.iter().zip(sweep.series).enumerate() {
        for (b, of_b) in lines.iter().zip(sweep.series).skip(i + 1) {
            if of_a.rest != of_b.rest || a.system == b.system {
                continue;
            }
            for at in crossing(&a.points, &b.points) {
                let x = (sweep.field.format)(at[0]);
                let (a, b) = (&a.name, &b.name);
                found.push(Crossing {
                    at,
                    title: format!("{a} and {b} at about {x}"),
                });
            }
        }
    }
    found
}

/// Returns where two lines cross, straight on logarithmic axes between points that
/// both have.
fn crossing(a: &[[f64; 2]], b: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let common = a.iter().filter_map(|[x, y]| {
        let other = b.iter().find(|[other, _]| other == x)?;
        (*x > 0.0 && *y > 0.0 && other[1] > 0.0).then_some([*x, *y, other[1]])
    });
    let common: Vec<[f64; 3]> = common.collect();
    let crossings = common.windows(2).filter_map(|pair| {
        let [[x0, a0, b0], [x1, a1, b1]] = [pair[0], pair[1]];
        let (from, to) = ((a0 / b0).ln(), (a1 / b1).ln());
        let share = from / (from - to);
        (from * to < 0.0).then(|| [x0 * (x1 / x0).powf(share), a0 * (a1 / a0).powf(share)])
    });
    crossings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_lies_between_the_points_that_change_their_order() {
        let a = [[1.0, 1.0], [10.0, 10.0], [100.0, 100.0]];
        let b = [[1.0, 2.0], [10.0, 5.0], [100.0, 12.5]];
        let found = crossing(&a, &b);
        assert_eq!(found.len(), 1);
        let [x, y] = found[0];
        // Both lines are straight: y = x, and y = 2 x^log10(2.5).
        assert!((y - x).abs() < 1e-9 * x, "{found:?}");
        assert!((2.0 * x.powf(2.5f64.log10()) - y).abs() < 1e-9, "{found:?}");
        assert!(crossing(&a, &a).is_empty());
    }
}
