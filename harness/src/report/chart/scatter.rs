use super::labels::{Occupied, around};
use super::{About, Svg, WIDTH, colour, log_ticks, text_width};
use crate::report::provenance::Provenance;

const HEIGHT: f64 = 460.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 38.0;
const BOTTOM: f64 = HEIGHT - 56.0;

/// The area in which names may stand.
const FRAME: [f64; 4] = [LEFT + 2.0, TOP, RIGHT + 12.0, BOTTOM];

/// Points over two logarithmic axes, less being better on both.
pub struct Scatter<'a> {
    /// Unique in the page.
    pub id: &'a str,
    /// Description of the chart for readers who cannot see it.
    pub label: &'a str,
    /// Quantity of the horizontal axis, and how its values are written.
    pub x: (&'a str, fn(f64) -> String),
    /// Quantity of the vertical axis, and how its values are written.
    pub y: (&'a str, fn(f64) -> String),
    /// The points.
    pub marks: Vec<Mark>,
    /// Levels that no point can lie below.
    pub lower_bounds: Vec<LowerBound>,
}

/// A level across the chart that no point can lie below.
pub struct LowerBound {
    /// Meaning.
    pub name: String,
    /// Vertical value, above 0.
    pub y: f64,
}

/// One point.
pub struct Mark {
    /// Name. A published point and this run's of one name are joined by an
    /// arrow.
    pub name: String,
    /// The system that the page's filter knows it by.
    pub system: String,
    /// Index of its colour.
    pub series: usize,
    /// Origin of the figures.
    pub provenance: Provenance,
    /// Horizontal value, above 0.
    pub x: f64,
    /// Vertical value, above 0.
    pub y: f64,
    /// A second vertical value, at the end of a thin line.
    pub y_to: Option<f64>,
}

/// Draws the chart; nothing without a point that logarithmic axes can show.
pub fn scatter(chart: &Scatter<'_>) -> Option<String> {
    // Scales over all points and lower bounds.
    let shown = |value: f64| value.is_finite() && value > 0.0;
    let marks: Vec<&Mark> = chart
        .marks
        .iter()
        .filter(|mark| shown(mark.x) && shown(mark.y))
        .collect();
    let (x_low, x_high) = range(marks.iter().map(|mark| mark.x))?;
    let bounds = || chart.lower_bounds.iter().filter(|bound| shown(bound.y));
    let heights = marks
        .iter()
        .flat_map(|mark| [Some(mark.y), mark.y_to].into_iter().flatten())
        .chain(bounds().map(|bound| bound.y));
    let (y_low, y_high) = range(heights)?;
    let x = |value: f64| LEFT + (value / x_low).ln() / (x_high / x_low).ln() * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - (value / y_low).ln() / (y_high / y_low).ln() * (BOTTOM - TOP);

    // Grid and axes.
    let desc = description(chart, &marks);
    let about = About {
        id: chart.id,
        title: chart.label,
        desc: &desc,
    };
    let mut svg = Svg::new(HEIGHT, about);
    for tick in log_ticks(x_low, x_high) {
        svg.line([x(tick), TOP, x(tick), BOTTOM], "grid");
        svg.text(
            [x(tick), BOTTOM + 18.0],
            "middle",
            "t m",
            &(chart.x.1)(tick),
        );
    }
    for tick in log_ticks(y_low, y_high) {
        svg.line([LEFT, y(tick), RIGHT, y(tick)], "grid");
        svg.text(
            [LEFT - 8.0, y(tick) + 4.0],
            "end",
            "t m",
            &(chart.y.1)(tick),
        );
    }
    svg.text([RIGHT, HEIGHT - 14.0], "end", "t m", chart.x.0);
    svg.text([4.0, HEIGHT - 14.0], "start", "t m", chart.y.0);
    // Lines: the frontier, lower bounds, arrows. Names keep clear of them and of points.
    let front: Vec<[f64; 2]> = frontier(&marks)
        .into_iter()
        .map(|[a, b]| [x(a), y(b)])
        .collect();
    if front.len() > 1 {
        svg.path(&front, "front");
    }
    let mut occupied = Occupied::default();
    for bound in bounds() {
        let at = y(bound.y);
        svg.line([LEFT, at, RIGHT, at], "bound");
        occupied.line([[LEFT, at], [RIGHT, at]]);
    }
    let at = |mark: &Mark| [x(mark.x), y(mark.y)];
    for (published, mark) in arrows(&marks) {
        let arrow = shortened(at(published), at(mark));
        svg.open(&mark.name, &mark.system);
        svg.arrow(arrow, &format!("arrow s{}", series(mark)));
        svg.close();
        occupied.line(arrow);
    }
    for mark in &marks {
        let [x, top] = at(mark);
        occupied.point([x, top], 7.0);
        if let Some(to) = mark.y_to {
            occupied.line([[x, y(to)], [x, top]]);
        }
    }
    // Legend, points, and names where they cover least.
    legend(&mut svg, &marks, front.len() > 1);
    for bound in bounds() {
        name_bound(&mut svg, bound, y(bound.y), &mut occupied);
    }
    for mark in &marks {
        draw_point(&mut svg, chart, mark, at(mark), mark.y_to.map(y));
    }
    // An arrow leads from a published point to that of this run, which is named.
    let led_away: Vec<&str> = arrows(&marks)
        .iter()
        .map(|(published, _)| published.name.as_str())
        .collect();
    for mark in &marks {
        if mark.provenance != Provenance::Published || !led_away.contains(&mark.name.as_str()) {
            name_point(&mut svg, mark, at(mark), &mut occupied);
        }
    }
    Some(svg.finish())
}

/// Returns the points in words.
fn description(chart: &Scatter<'_>, marks: &[&Mark]) -> String {
    super::listed(marks.iter().map(|mark| title(chart, mark)))
}

fn title(chart: &Scatter<'_>, mark: &Mark) -> String {
    format!(
        "{} ({}): {}, {}",
        mark.name,
        mark.provenance.as_str(),
        (chart.x.1)(mark.x),
        (chart.y.1)(mark.y)
    )
}

/// Names a line across the chart above or below it, where that covers least.
fn name_bound(svg: &mut Svg, bound: &LowerBound, y: f64, occupied: &mut Occupied) {
    let last = RIGHT - 4.0 - text_width(&bound.name);
    let lefts = (0..=8).map(|step| last - (last - LEFT - 4.0) * f64::from(step) / 8.0);
    let places = lefts.flat_map(|left| [[left, y - 5.0], [left, y + 15.0]]);
    let at = occupied.place(&bound.name, places, FRAME);
    svg.text(at, "start", "t m", &bound.name);
}

/// What the signs mean, where there is more than one.
fn legend(svg: &mut Svg, marks: &[&Mark], with_frontier: bool) {
    let mut x = LEFT;
    let mut entry = |svg: &mut Svg, text: &str, draw: &dyn Fn(&mut Svg, f64)| {
        draw(svg, x);
        svg.text([x + 28.0, 16.5], "start", "t m", text);
        x += 28.0 + text_width(text) + 26.0;
    };
    // Provenances, where there is more than one.
    let with_published = marks
        .iter()
        .any(|mark| mark.provenance == Provenance::Published);
    if with_published {
        for provenance in [
            Provenance::Published,
            Provenance::Measured,
            Provenance::Simulated,
        ] {
            if marks.iter().any(|mark| mark.provenance == provenance) {
                let class = format!("example {}", sign(provenance));
                entry(svg, provenance.as_str(), &|svg, x| {
                    svg.circle([x + 14.0, 12.0], 5.5, &class, &[], provenance.as_str());
                });
            }
        }
    }
    // Lines.
    if !arrows(marks).is_empty() {
        entry(svg, "from published to this run", &|svg, x| {
            svg.arrow([[x, 12.0], [x + 22.0, 12.0]], "arrow plain");
        });
    }
    if with_frontier {
        entry(svg, "Pareto frontier of this run", &|svg, x| {
            svg.line([x, 12.0, x + 22.0, 12.0], "front");
        });
    }
}

/// Returns the class for the provenance of a point's figures.
fn sign(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Measured => "point",
        Provenance::Simulated => "point simulated",
        Provenance::Published => "point hollow",
    }
}

/// Published points with this run's point of the same name.
fn arrows<'a>(marks: &[&'a Mark]) -> Vec<(&'a Mark, &'a Mark)> {
    let is_published = |mark: &&Mark| mark.provenance == Provenance::Published;
    let published = marks.iter().copied().filter(is_published);
    published
        .filter_map(|published| {
            let observed = |mark: &&&Mark| !is_published(mark) && mark.name == published.name;
            Some((published, *marks.iter().find(observed)?))
        })
        .collect()
}

/// Returns a line between two points that leaves their circles free.
fn shortened(from: [f64; 2], to: [f64; 2]) -> [[f64; 2]; 2] {
    const GAP: f64 = 10.0;
    let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    let share = (GAP / dx.hypot(dy).max(1e-9)).min(0.5);
    let [gx, gy] = [dx * share, dy * share];
    [[from[0] + gx, from[1] + gy], [to[0] - gx, to[1] - gy]]
}

fn series(mark: &Mark) -> usize {
    mark.series % super::COLOURS + 1
}

fn draw_point(svg: &mut Svg, chart: &Scatter<'_>, mark: &Mark, at: [f64; 2], to: Option<f64>) {
    svg.open(&mark.name, &mark.system);
    if let Some(to) = to {
        svg.line([at[0], at[1], at[0], to], "reach");
        svg.line([at[0] - 4.0, to, at[0] + 4.0, to], "reach");
    }
    let colour = match mark.provenance {
        Provenance::Measured => colour(mark.series),
        _ => format!("s{}", series(mark)),
    };
    let class = format!("{} {colour}", sign(mark.provenance));
    let data = [("x", mark.x), ("y", mark.y)];
    svg.circle(at, 6.5, &class, &data, &title(chart, mark));
    svg.close();
}

/// Names a point; a thin line leads to a name that stands further away.
fn name_point(svg: &mut Svg, mark: &Mark, at: [f64; 2], occupied: &mut Occupied) {
    let (name, class) = match mark.provenance {
        Provenance::Published => (format!("{} (published)", mark.name), "t published"),
        _ => (mark.name.clone(), "t"),
    };
    let [left, bottom] = occupied.place(&name, around(at, &name), FRAME);
    svg.open(&mark.name, &mark.system);
    if (bottom - 4.0 - at[1]).abs() > 25.0 {
        let near = if left > at[0] {
            left - 2.0
        } else {
            left + text_width(&name) + 2.0
        };
        svg.line([at[0], at[1], near, bottom - 4.0], "leader");
    }
    svg.text([left, bottom], "start", class, &name);
    svg.close();
}

/// Returns the values' range, widened so that no point lies on the frame.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, 0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    (low.is_finite() && high > 0.0).then(|| {
        let margin = (high / low).powf(0.08).max(1.35);
        (low / margin, high * margin)
    })
}

/// Returns the points that no other beats on both axes, from left to right,
/// joined as steps. Published points take no part.
fn frontier(marks: &[&Mark]) -> Vec<[f64; 2]> {
    let mut points: Vec<[f64; 2]> = marks
        .iter()
        .filter(|mark| mark.provenance != Provenance::Published)
        .map(|mark| [mark.x, mark.y])
        .collect();
    points.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    let mut front: Vec<[f64; 2]> = Vec::new();
    for [x, y] in points {
        match front.last().copied() {
            Some([_, best]) if y >= best => {}
            Some([_, best]) => front.extend([[x, best], [x, y]]),
            None => front.push([x, y]),
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(x: f64, y: f64, provenance: Provenance) -> Mark {
        Mark {
            name: "m".into(),
            system: "m".into(),
            series: 0,
            provenance,
            x,
            y,
            y_to: None,
        }
    }

    fn drawn(marks: Vec<Mark>, lower_bounds: Vec<LowerBound>) -> Option<String> {
        scatter(&Scatter {
            id: "c",
            label: "c",
            x: ("x", |x| x.to_string()),
            y: ("y", |y| y.to_string()),
            marks,
            lower_bounds,
        })
    }

    #[test]
    fn the_frontier_leaves_out_what_is_beaten_and_what_was_published() {
        let marks = [
            mark(1.0, 9.0, Provenance::Measured),
            mark(2.0, 9.5, Provenance::Measured),
            mark(3.0, 4.0, Provenance::Measured),
            mark(0.5, 0.5, Provenance::Published),
        ];
        let front = frontier(&marks.iter().collect::<Vec<_>>());
        assert_eq!(front, [[1.0, 9.0], [3.0, 9.0], [3.0, 4.0]]);
    }

    #[test]
    fn what_a_logarithm_cannot_show_is_left_out() {
        assert!(drawn(vec![mark(0.0, 1.0, Provenance::Measured)], Vec::new()).is_none());
        let alone = drawn(vec![mark(1.0, 1.0, Provenance::Published)], Vec::new());
        let alone = alone.unwrap_or_default();
        assert!(
            alone.contains("hollow s1") && !alone.contains("arrow"),
            "{alone}"
        );
    }

    #[test]
    fn arrows_lead_from_published_to_this_run_and_lower_bounds_are_named() {
        let marks = vec![
            mark(1.0, 1.0, Provenance::Measured),
            mark(8.0, 8.0, Provenance::Published),
        ];
        let bound = LowerBound {
            name: "gradients alone".into(),
            y: 0.5,
        };
        let drawn = drawn(marks, vec![bound]).unwrap_or_default();
        assert!(drawn.contains("arrow s1 head"), "{drawn}");
        assert!(
            drawn.contains("class='bound'") && drawn.contains("gradients alone"),
            "{drawn}"
        );
        assert!(drawn.contains("data-x='8' data-y='8'"), "{drawn}");
    }
}
