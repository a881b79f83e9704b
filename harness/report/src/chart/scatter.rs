use epochcost_judge::analysis::names::ON_CPU;

use super::labels::{Area, Occupied, around};
use super::ticks::{LogTicks, labels_fit, log_ticks};
use super::{Look, Size, Svg, text_width};
use crate::provenance::Provenance;

/// Radius of a point.
const RADIUS: f64 = 5.5;

/// Share of the points that must have room for their names beside them; else, all
/// names stand in the legend.
const ENOUGH: f64 = 0.4;

/// Points up to which each has a name of its own; of more, the legend names systems.
const MOST_NAMES: usize = 24;

/// Points over two logarithmic axes, less being better on both.
pub struct Scatter<'a> {
    /// Id of its section, unique in the page.
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
    /// Whether the points that no other beats are joined.
    pub has_frontier: bool,
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
    /// Colour and mark.
    pub look: Look,
    /// Origin of the figures.
    pub provenance: Provenance,
    /// Horizontal value, above 0.
    pub x: f64,
    /// Vertical value, above 0.
    pub y: f64,
    /// A second vertical value, at the end of a thin line: the one that published values are
    /// compared with.
    pub y_to: Option<f64>,
}

/// The mapping from values to positions, both axes logarithmic.
struct Plane {
    x: [f64; 2],
    y: [f64; 2],
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Plane {
    fn x(&self, value: f64) -> f64 {
        let [low, high] = self.x;
        self.left + (value / low).ln() / (high / low).ln() * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        let [low, high] = self.y;
        self.bottom - (value / low).ln() / (high / low).ln() * (self.bottom - self.top)
    }

    fn at(&self, mark: &Mark) -> [f64; 2] {
        [self.x(mark.x), self.y(mark.y)]
    }

    /// Returns the area in which names may stand.
    fn frame(&self) -> Area {
        let [left, top] = [self.left + 2.0, self.top + 2.0];
        [left, top, self.right, self.bottom - 2.0]
    }
}

/// Draws the chart; nothing without a point that logarithmic axes can show.
pub fn scatter(chart: &Scatter<'_>, size: Size) -> Option<String> {
    // Scales over all points and lower bounds.
    let shown = |value: f64| value.is_finite() && value > 0.0;
    let marks = (chart.marks.iter()).filter(|mark| shown(mark.x) && shown(mark.y));
    let marks: Vec<&Mark> = marks.collect();
    let bounds = chart.lower_bounds.iter().filter(|bound| shown(bound.y));
    let bounds: Vec<&LowerBound> = bounds.collect();
    let desc = super::listed(marks.iter().map(|mark| title(chart, mark)));
    let mut svg = Svg::new(size, [&format!("{}-chart", chart.id), chart.label, &desc]);
    let front = if chart.has_frontier {
        frontier(&marks)
    } else {
        Vec::new()
    };
    let top = head(&mut svg, chart, &marks, front.len() > 1);
    let plane = axes(&mut svg, chart, size, top, &marks, &bounds)?;
    // Lines: the frontier, lower bounds, arrows. Names keep clear of them and of points.
    let mut occupied = Occupied::default();
    draw_lines(&mut svg, &plane, &marks, &front, &bounds, &mut occupied);
    for mark in &marks {
        let [x, top] = plane.at(mark);
        occupied.point([x, top], RADIUS + 1.5);
        if let Some(to) = mark.y_to {
            occupied.line([[x, plane.y(to)], [x, top]]);
        }
        draw_point(&mut svg, chart, mark, &plane);
    }
    // Names beside the points, and below the plane where there is no room.
    let unnamed_bounds = name_bounds(&mut svg, &plane, &bounds, &mut occupied);
    let unnamed = name_points(&mut svg, &plane, &marks, &mut occupied);
    let mut y = plane.bottom + 48.0;
    y += svg.legend([4.0, y], &unnamed, |svg, look: &Look, [x, y]| {
        svg.example(*look, [x + 7.0, y + 6.0], 5.0);
    });
    y += svg.legend([4.0, y], &unnamed_bounds, |svg, (), [x, y]| {
        svg.line([x, y + 6.0, x + 14.0, y + 6.0], "bound");
    });
    svg.height = y;
    Some(svg.finish())
}

/// Draws the name of the vertical axis and what the signs mean; returns the height
/// used.
fn head(svg: &mut Svg, chart: &Scatter<'_>, marks: &[&Mark], with_frontier: bool) -> f64 {
    svg.text([4.0, 14.0], "start", "t m", chart.y.0);
    let signs = signs(marks, with_frontier);
    let used = svg.legend([4.0, 26.0], &signs, |svg, sign, [x, y]| match sign {
        Sign::Point(provenance) => {
            let class = format!("point example{}", sign_class(*provenance));
            svg.shape(&Look::nth(0).outline([x + 7.0, y + 6.0], 5.0), &class);
        }
        Sign::Arrow => svg.arrow([[x - 2.0, y + 6.0], [x + 17.0, y + 6.0]], "arrow plain"),
        Sign::Frontier => svg.line([x, y + 6.0, x + 15.0, y + 6.0], "front"),
    });
    26.0 + used + 6.0
}

/// Draws grid, ticks and the name of the horizontal axis; returns the plane. None
/// without a point.
fn axes(
    svg: &mut Svg,
    chart: &Scatter<'_>,
    size: Size,
    top: f64,
    marks: &[&Mark],
    bounds: &[&LowerBound],
) -> Option<Plane> {
    let heights = (marks.iter()).flat_map(|mark| std::iter::once(mark.y).chain(mark.y_to));
    let heights = heights.chain(bounds.iter().map(|bound| bound.y));
    let height = if size.is_narrow() { 300.0 } else { 380.0 };
    let mut plane = Plane {
        x: range(marks.iter().map(|mark| mark.x))?,
        y: range(heights)?,
        left: 0.0,
        right: size.width() - 26.0,
        top,
        bottom: top + height,
    };
    let y_ticks = log_ticks(plane.y[0], plane.y[1], |ticks| {
        let mut pairs = ticks.windows(2);
        pairs.all(|pair| plane.y(pair[0]) - plane.y(pair[1]) > 22.0)
    });
    let labels = y_ticks.labelled.iter().map(|tick| (chart.y.1)(*tick));
    let widths = labels.map(|label| text_width(&label));
    plane.left = widths.fold(30.0, f64::max) + 14.0;
    let x_ticks = log_ticks(plane.x[0], plane.x[1], |ticks| {
        labels_fit(ticks, |tick| plane.x(tick), chart.x.1)
    });
    draw_ticks(svg, chart, &plane, [&x_ticks, &y_ticks]);
    svg.text([plane.right, plane.bottom + 36.0], "end", "t m", chart.x.0);
    Some(plane)
}

fn draw_ticks(svg: &mut Svg, chart: &Scatter<'_>, plane: &Plane, ticks: [&LogTicks; 2]) {
    let [x_ticks, y_ticks] = ticks;
    for tick in &x_ticks.labelled {
        let x = plane.x(*tick);
        svg.line([x, plane.top, x, plane.bottom + 5.0], "grid");
        let label = (chart.x.1)(*tick);
        svg.text([x, plane.bottom + 18.0], "middle", "t m", &label);
    }
    for tick in &x_ticks.minor {
        let x = plane.x(*tick);
        svg.line([x, plane.bottom, x, plane.bottom + 4.0], "grid minor");
    }
    for tick in &y_ticks.labelled {
        let y = plane.y(*tick);
        svg.line([plane.left - 5.0, y, plane.right, y], "grid");
        let label = (chart.y.1)(*tick);
        svg.text([plane.left - 8.0, y + 4.0], "end", "t m", &label);
    }
    for tick in &y_ticks.minor {
        let y = plane.y(*tick);
        svg.line([plane.left - 4.0, y, plane.left, y], "grid minor");
    }
    let (left, bottom) = (plane.left, plane.bottom);
    svg.line([left, bottom, plane.right, bottom], "grid");
    svg.line([left, plane.top, left, bottom], "grid");
}

fn draw_lines(
    svg: &mut Svg,
    plane: &Plane,
    marks: &[&Mark],
    front: &[[f64; 2]],
    bounds: &[&LowerBound],
    occupied: &mut Occupied,
) {
    if front.len() > 1 {
        let places = front.iter().map(|[x, y]| [plane.x(*x), plane.y(*y)]);
        let places: Vec<[f64; 2]> = places.collect();
        svg.path(&places, "front");
        for pair in places.windows(2) {
            occupied.line([pair[0], pair[1]]);
        }
    }
    for bound in bounds {
        let at = plane.y(bound.y);
        svg.line([plane.left, at, plane.right, at], "bound");
        occupied.line([[plane.left, at], [plane.right, at]]);
    }
    for (published, mark) in arrows(marks) {
        let end = [plane.x(mark.x), plane.y(mark.y_to.unwrap_or(mark.y))];
        let arrow = shortened(plane.at(published), end);
        svg.open(&mark.name, &mark.system);
        svg.arrow(arrow, &format!("arrow {}", mark.look.stroke()));
        svg.close();
        occupied.line(arrow);
    }
}

/// Returns a point in words.
fn title(chart: &Scatter<'_>, mark: &Mark) -> String {
    let (x, y) = ((chart.x.1)(mark.x), (chart.y.1)(mark.y));
    format!("{} ({}): {x}, {y}", mark.name, mark.provenance)
}

/// Names lines across the chart above or below them; returns those without room.
fn name_bounds(
    svg: &mut Svg,
    plane: &Plane,
    bounds: &[&LowerBound],
    occupied: &mut Occupied,
) -> Vec<((), String)> {
    let mut unnamed = Vec::new();
    for bound in bounds {
        let (y, width) = (plane.y(bound.y), text_width(&bound.name));
        let last = plane.right - 4.0 - width;
        let first = plane.left + 6.0;
        let lefts = (0..=8).map(|step| last - (last - first) * f64::from(step) / 8.0);
        let places = lefts.flat_map(|left| [[left, y - 6.0], [left, y + 15.0]]);
        match occupied.place(&bound.name, places, plane.frame()) {
            Some(at) => svg.text(at, "start", "t m", &bound.name),
            None => unnamed.push(((), bound.name.clone())),
        }
    }
    unnamed
}

/// Names points beside them, where enough have room; returns the others.
fn name_points(
    svg: &mut Svg,
    plane: &Plane,
    marks: &[&Mark],
    occupied: &mut Occupied,
) -> Vec<(Look, String)> {
    // An arrow leads from a published point to that of this run, which is named.
    let arrows = arrows(marks);
    let is_led_away = |mark: &Mark| arrows.iter().any(|(start, _)| std::ptr::eq(*start, mark));
    let named = marks.iter().copied().filter(|mark| !is_led_away(mark));
    let named: Vec<&Mark> = named.collect();
    if named.len() > MOST_NAMES {
        return systems(&named);
    }
    let place = |mark: &&Mark| {
        let name = label(mark);
        occupied.place(&name, around(plane.at(mark), &name), plane.frame())
    };
    let mut places: Vec<Option<[f64; 2]>> = named.iter().map(place).collect();
    let enough = ENOUGH * named.len() as f64;
    if (places.iter().flatten().count() as f64) < enough {
        places.fill(None);
    }
    let mut unnamed = Vec::new();
    for (mark, place) in named.iter().zip(places) {
        let is_published = mark.provenance == Provenance::Published;
        let class = if is_published { "t published" } else { "t" };
        match place {
            Some(at) => {
                svg.open(&mark.name, &mark.system);
                svg.text(at, "start", class, &label(mark));
                svg.close();
            }
            None => unnamed.push((mark.look, label(mark))),
        }
    }
    unnamed
}

fn label(mark: &Mark) -> String {
    match mark.provenance {
        // What was published was not computed here.
        Provenance::Published => format!("{} (published)", mark.name.trim_end_matches(ON_CPU)),
        _ => mark.name.clone(),
    }
}

/// Returns every look once, with its system.
fn systems(marks: &[&Mark]) -> Vec<(Look, String)> {
    let mut systems: Vec<(Look, String)> = Vec::new();
    for mark in marks {
        if !systems.iter().any(|(look, _)| *look == mark.look) {
            systems.push((mark.look, mark.system.clone()));
        }
    }
    systems
}

/// A sign of the chart's head.
enum Sign {
    Point(Provenance),
    Arrow,
    Frontier,
}

/// Returns what the signs mean, where there is more than one.
fn signs(marks: &[&Mark], with_frontier: bool) -> Vec<(Sign, String)> {
    let mut signs = Vec::new();
    let is_there = |provenance| marks.iter().any(|mark| mark.provenance == provenance);
    if is_there(Provenance::Published) {
        use Provenance::{Measured, Published, Simulated};
        let all = [Published, Measured, Simulated];
        let there = all.into_iter().filter(|provenance| is_there(*provenance));
        signs.extend(there.map(|one| (Sign::Point(one), one.to_string())));
    }
    if !arrows(marks).is_empty() {
        signs.push((Sign::Arrow, "from published to this run".to_owned()));
    }
    if with_frontier {
        signs.push((Sign::Frontier, "Pareto frontier of this run".to_owned()));
    }
    signs
}

/// Returns the class for the provenance of a point's figures.
fn sign_class(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Measured => "",
        Provenance::Simulated => " simulated",
        Provenance::Published => " hollow",
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
    let share = (GAP / (dx * dx + dy * dy).sqrt().max(1e-9)).min(0.5);
    let [gx, gy] = [dx * share, dy * share];
    [[from[0] + gx, from[1] + gy], [to[0] - gx, to[1] - gy]]
}

fn draw_point(svg: &mut Svg, chart: &Scatter<'_>, mark: &Mark, plane: &Plane) {
    let at = plane.at(mark);
    svg.open(&mark.name, &mark.system);
    if let Some(to) = mark.y_to.map(|to| plane.y(to)) {
        svg.line([at[0], at[1], at[0], to], "reach");
        svg.line([at[0] - 4.0, to, at[0] + 4.0, to], "reach");
    }
    let colour = match mark.provenance {
        Provenance::Measured => mark.look.fill(),
        _ => mark.look.stroke(),
    };
    let class = format!("{colour}{}", sign_class(mark.provenance));
    let data = [("x", mark.x), ("y", mark.y)];
    svg.mark(mark.look, (at, RADIUS), &class, &data, &title(chart, mark));
    svg.close();
}

/// Returns the values' range, widened so that no point lies on the frame.
fn range(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let (low, high) = values.fold((f64::INFINITY, 0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    (low.is_finite() && high > 0.0).then(|| {
        let margin = (high / low).powf(0.08).max(1.35);
        [low / margin, high * margin]
    })
}

/// Returns the points that no other beats on both axes, from left to right,
/// joined as steps. Published points take no part, nor those of a CPU in place of a GPU.
fn frontier(marks: &[&Mark]) -> Vec<[f64; 2]> {
    let is_own =
        |mark: &&&Mark| mark.provenance != Provenance::Published && !mark.name.ends_with(ON_CPU);
    let points = marks.iter().filter(is_own).map(|mark| [mark.x, mark.y]);
    let mut points: Vec<[f64; 2]> = points.collect();
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
    use crate::testing::{holds, lacks};

    fn mark(x: f64, y: f64, provenance: Provenance) -> Mark {
        Mark {
            name: "m".into(),
            system: "m".into(),
            look: Look::nth(0),
            provenance,
            x,
            y,
            y_to: None,
        }
    }

    fn drawn(marks: Vec<Mark>, lower_bounds: Vec<LowerBound>) -> Option<String> {
        let chart = Scatter {
            id: "c",
            label: "c",
            x: ("x", |x| x.to_string()),
            y: ("y", |y| y.to_string()),
            marks,
            lower_bounds,
            has_frontier: true,
        };
        scatter(&chart, Size::Wide)
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
        holds(alone.as_deref().unwrap_or_default(), &["s1 hollow"]);
        lacks(alone.unwrap_or_default(), &["arrow"]);
    }

    #[test]
    fn arrows_lead_from_published_to_this_run_and_lower_bounds_are_named() {
        let ends = [(1.0, Provenance::Measured), (8.0, Provenance::Published)];
        let marks = ends.map(|(at, provenance)| mark(at, at, provenance)).into();
        let bound = LowerBound {
            name: "gradients alone".into(),
            y: 0.5,
        };
        let drawn = drawn(marks, vec![bound]).unwrap_or_default();
        holds(&drawn, &["class='bound'", "gradients alone"]);
        holds(&drawn, &["arrow s1 head", "data-x='8' data-y='8'"]);
    }
}
