use super::svg::shortened;
use super::ticks::{bounded_ticks, labels_fit, linear_ticks, log_ticks, thinned, tick_labels};
use super::{Look, Size, Svg, text_width};

const TOP: f64 = 26.0;

/// Height of the plane where fewer names need less.
const HEIGHT: f64 = 260.0;

/// Space between the baselines of names.
const APART: f64 = 17.0;

/// Radius of a point.
const RADIUS: f64 = 4.0;

/// Points of a line are marked one by one up to this many.
const MARKED: usize = 40;

/// Factor over which an axis of the chart's choice is logarithmic.
const FAR: f64 = 30.0;

/// Values along epochs, time, money or a field of the experiment.
pub struct Lines<'a> {
    /// Id of its section, unique in the page.
    pub id: &'a str,
    /// Description of the chart for readers who cannot see it.
    pub label: &'a str,
    /// The horizontal axis.
    pub x: Axis<'a>,
    /// The vertical axis.
    pub y: Axis<'a>,
    /// The lines.
    pub lines: Vec<Line>,
    /// A vertical value that lines are to reach, with its name.
    pub target: Option<(f64, String)>,
    /// Places where lines cross, marked with a ring.
    pub crossings: Vec<Crossing>,
}

/// A place where two lines cross.
pub struct Crossing {
    /// Place.
    pub at: [f64; 2],
    /// Which lines cross, and where.
    pub title: String,
}

/// What an axis measures, and how its values are written.
pub struct Axis<'a> {
    /// What it measures.
    pub name: &'a str,
    /// Format of the values.
    pub format: fn(f64) -> String,
    /// Whether only whole values have a meaning.
    pub whole: bool,
    /// Whether it is logarithmic.
    pub log: bool,
    /// The largest value that it can have.
    pub most: Option<f64>,
}

impl<'a> Axis<'a> {
    /// Returns a linear axis of values without a bound.
    pub fn linear(name: &'a str, format: fn(f64) -> String) -> Self {
        Self {
            name,
            format,
            whole: false,
            log: false,
            most: None,
        }
    }
}

/// One line.
pub struct Line {
    /// Name.
    pub name: String,
    /// The system that the page's filter knows it by.
    pub system: String,
    /// Colour and mark.
    pub look: Look,
    /// Points, from left to right.
    pub points: Vec<[f64; 2]>,
    /// How it ends.
    pub end: End,
}

/// How a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All that was to be seen is drawn.
    Complete,
    /// The line ends before what was to be seen: it would have gone on.
    Censored,
    /// The trial failed.
    Failed,
}

impl End {
    /// Returns what stands behind the last value.
    fn suffix(self) -> &'static str {
        match self {
            Self::Complete => "",
            Self::Censored => ", censored",
            Self::Failed => ", failed",
        }
    }
}

/// The mapping of an axis from values to shares of its length.
struct Range {
    ends: [f64; 2],
    is_log: bool,
}

impl Range {
    fn share(&self, value: f64) -> f64 {
        let [low, high] = self.ends;
        if self.is_log {
            (value / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        }
    }
}

/// The mapping from values to positions.
struct Frame {
    x: Range,
    y: Range,
    left: f64,
    right: f64,
    bottom: f64,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        self.left + 12.0 + self.x.share(value) * (self.right - self.left - 24.0)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - self.y.share(value) * (self.bottom - TOP)
    }

    fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [self.x(x), self.y(y)]
    }
}

/// Draws the chart; nothing if no line has a finite point.
pub fn lines(chart: &Lines<'_>, size: Size) -> Option<String> {
    let drawn = chart.lines.iter().filter_map(|line| finite(chart, line));
    let drawn: Vec<Line> = drawn.collect();
    // Names stand beside the ends of lines that end together, else in the legend.
    let is_beside = size == Size::Wide && end_together(&drawn);
    let (frame, x_ticks, y_ticks) = frame(chart, &drawn, size, is_beside)?;
    let desc = super::listed(drawn.iter().map(|line| ending(chart, line)));
    let mut svg = Svg::new(size, [&format!("{}-chart", chart.id), chart.label, &desc]);
    // Grid and axes.
    let labels = tick_labels(&y_ticks, chart.y.format);
    for (tick, label) in y_ticks.iter().zip(&labels) {
        let y = frame.y(*tick);
        svg.line([frame.left, y, frame.right, y], "grid");
        svg.text([frame.left - 8.0, y + 4.0], "end", "t m", label);
    }
    for tick in x_ticks {
        let (x, text) = (frame.x(tick), (chart.x.format)(tick));
        svg.line([x, frame.bottom, x, frame.bottom + 5.0], "grid");
        svg.text([x, frame.bottom + 19.0], "middle", "t m", &text);
    }
    let corner = [frame.right, frame.bottom + 37.0];
    svg.text(corner, "end", "t m", chart.x.name);
    svg.text([4.0, 13.0], "start", "t m", chart.y.name);
    // The target, the lines, and where they cross.
    if let Some((value, name)) = &chart.target {
        let y = frame.y(*value);
        svg.line([frame.left, y, frame.right, y], "bound");
        svg.text([frame.left + 4.0, y - 5.0], "start", "t m", name);
    }
    for line in &drawn {
        draw(&mut svg, chart, line, &frame);
    }
    for crossing in &chart.crossings {
        let data = [("x", crossing.at[0]), ("y", crossing.at[1])];
        let at = (frame.at(crossing.at), 9.0);
        svg.mark(Look::nth(0), at, "crossing", &data, &crossing.title);
    }
    // Names.
    svg.height = frame.bottom + 46.0;
    if is_beside {
        name_beside(&mut svg, chart, &drawn, &frame);
    } else {
        svg.height += name_below(&mut svg, chart, &drawn);
    }
    Some(svg.finish())
}

/// Returns whether all lines end at the same horizontal value.
fn end_together(drawn: &[Line]) -> bool {
    let ends = drawn.iter().filter_map(|line| Some(line.points.last()?[0]));
    range(ends).is_some_and(|(low, high)| high - low <= 1e-6 * high.abs())
}

/// Names each line beside its end. Names are pushed apart in the order of the ends,
/// which lie above each other: no leader crosses another.
fn name_beside(svg: &mut Svg, chart: &Lines<'_>, drawn: &[Line], frame: &Frame) {
    for (line, label_y) in drawn.iter().zip(label_places(drawn, frame)) {
        let Some([x, y]) = line.points.last().map(|point| frame.at(*point)) else {
            continue;
        };
        let left = frame.right + 24.0;
        svg.open(&line.name, &line.system);
        if (label_y - y).abs() > 2.0 {
            svg.line([x + 9.0, y, left - 4.0, label_y], "leader");
        }
        svg.example(line.look, [left + 6.0, label_y], 4.5);
        let at = [left + 18.0, label_y + 4.0];
        svg.text(at, "start", "t", &label(chart, line));
        svg.close();
    }
}

/// Names lines in a legend; returns its height.
fn name_below(svg: &mut Svg, chart: &Lines<'_>, drawn: &[Line]) -> f64 {
    let entries = drawn.iter().map(|line| (line.look, label(chart, line)));
    let entries: Vec<(Look, String)> = entries.collect();
    let top = svg.height + 2.0;
    2.0 + svg.legend([4.0, top], &entries, |svg, look, [x, y]| {
        svg.example(*look, [x + 7.0, y + 6.0], 5.0);
    })
}

/// Returns the line without what cannot be drawn; none if nothing is left.
fn finite(chart: &Lines<'_>, line: &Line) -> Option<Line> {
    let logs = [chart.x.log, chart.y.log];
    let is_finite = |point: &&[f64; 2]| {
        let mut values = point.iter().zip(logs);
        values.all(|(value, log)| value.is_finite() && (!log || *value > 0.0))
    };
    let points: Vec<[f64; 2]> = line.points.iter().filter(is_finite).copied().collect();
    (!points.is_empty()).then(|| Line {
        name: line.name.clone(),
        system: line.system.clone(),
        points,
        ..*line
    })
}

/// Returns the axes: horizontally logarithmic, too, where a linear one would press
/// most lines against its start.
fn frame(
    chart: &Lines<'_>,
    drawn: &[Line],
    size: Size,
    is_beside: bool,
) -> Option<(Frame, Vec<f64>, Vec<f64>)> {
    let points = || drawn.iter().flat_map(|line| &line.points);
    let (x_low, x_high) = range(points().map(|[x, _]| *x))?;
    let target = chart.target.iter().map(|(value, _)| *value);
    let (y_low, y_high) = range(points().map(|[_, y]| *y).chain(target))?;
    let ends = range(drawn.iter().filter_map(|line| Some(line.points.last()?[0])))?;
    let is_far = !chart.x.whole && x_low > 0.0 && ends.1 > FAR * ends.0;
    let (names, height) = if is_beside {
        let widths = drawn.iter().map(|line| text_width(&label(chart, line)));
        let names = widths.fold(0.0, f64::max) + 46.0;
        (names, HEIGHT.max(APART * drawn.len() as f64))
    } else {
        (14.0, HEIGHT)
    };
    let (y, y_ticks) = vertical(&chart.y, y_low, y_high, height);
    let labels = tick_labels(&y_ticks, chart.y.format);
    let labels = labels.iter().map(|label| text_width(label));
    let mut frame = Frame {
        x: Range {
            ends: [0.0, 1.0],
            is_log: chart.x.log || is_far,
        },
        y,
        left: labels.fold(24.0, f64::max) + 14.0,
        right: size.width() - names,
        bottom: TOP + height,
    };
    let x_ticks = horizontal(&chart.x, &mut frame, x_low, x_high);
    Some((frame, x_ticks, y_ticks))
}

fn vertical(axis: &Axis<'_>, low: f64, high: f64, height: f64) -> (Range, Vec<f64>) {
    if axis.log {
        let ends = widened(low, high);
        let range = Range { ends, is_log: true };
        let apart = |pair: &[f64]| (range.share(pair[1]) - range.share(pair[0])) * height;
        let fits = |ticks: &[f64]| ticks.windows(2).all(|pair| apart(pair) > 22.0);
        let ticks = log_ticks(ends[0], ends[1], fits).labelled;
        return (range, ticks);
    }
    let ticks = bounded_ticks(low, high, axis.most);
    let [first, last] = [ticks.first(), ticks.last()].map(|end| end.copied());
    let ends = [first.unwrap_or(low), last.unwrap_or(high)];
    let is_log = false;
    (Range { ends, is_log }, ticks)
}

/// Sets the frame's horizontal range; returns the ticks that fit.
fn horizontal(axis: &Axis<'_>, frame: &mut Frame, low: f64, high: f64) -> Vec<f64> {
    if frame.x.is_log {
        frame.x.ends = widened(low, high);
        let fits = |ticks: &[f64]| labels_fit(ticks, |tick| frame.x(tick), axis.format);
        return log_ticks(frame.x.ends[0], frame.x.ends[1], fits).labelled;
    }
    let ticks = if axis.whole {
        let (ends, ticks) = whole_axis(low, high);
        frame.x.ends = ends;
        ticks
    } else {
        let ticks = linear_ticks(0.0, high);
        frame.x.ends = [0.0, ticks.last().copied().unwrap_or(high)];
        ticks
    };
    thinned(ticks, |tick| frame.x(tick), axis.format)
}

/// Returns a range in which no value lies on the frame.
fn widened(low: f64, high: f64) -> [f64; 2] {
    [low / 1.2, high * 1.2]
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let ends = values.map(|value| (value, value));
    ends.reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
}

/// Returns an axis of at most about a dozen whole values.
fn whole_axis(low: f64, high: f64) -> ([f64; 2], Vec<f64>) {
    let (first, last) = (low.round() as usize, high.round() as usize);
    let step = (last - first).div_ceil(12).max(1);
    let ticks = (first..=last).step_by(step).map(|value| value as f64);
    let margin = if first == last { 1.0 } else { 0.0 };
    ([low - margin, high + margin], ticks.collect())
}

fn draw(svg: &mut Svg, chart: &Lines<'_>, line: &Line, frame: &Frame) {
    svg.open(&line.name, &line.system);
    let places: Vec<[f64; 2]> = line.points.iter().map(|point| frame.at(*point)).collect();
    svg.path(&places, &format!("line {}", line.look.stroke()));
    let last = line.points.len() - 1;
    for (i, (point, at)) in line.points.iter().zip(&places).enumerate() {
        if i == last || last < MARKED {
            let data = [("x", point[0]), ("y", point[1])];
            let class = if i == last && line.end != End::Complete {
                format!("{} hollow", line.look.stroke())
            } else {
                line.look.fill()
            };
            let title = at_point(chart, line, *point);
            svg.mark(line.look, (*at, RADIUS), &class, &data, &title);
        }
    }
    if let Some(at) = places.last() {
        draw_end(svg, line.end, *at, &line.look.stroke());
    }
    svg.close();
}

/// An arrow onwards where the line would have gone on, a cross where it failed.
fn draw_end(svg: &mut Svg, end: End, [x, y]: [f64; 2], colour: &str) {
    match end {
        End::Complete => {}
        End::Censored => {
            svg.arrow([[x + 4.0, y], [x + 22.0, y]], &format!("arrow {colour}"));
        }
        End::Failed => {
            let class = format!("line {colour}");
            svg.path(&[[x + 6.0, y - 5.0], [x + 16.0, y + 5.0]], &class);
            svg.path(&[[x + 6.0, y + 5.0], [x + 16.0, y - 5.0]], &class);
        }
    }
}

/// Returns the name beside a line's end, with its last value.
fn label(chart: &Lines<'_>, line: &Line) -> String {
    let value = (chart.y.format)(line.points.last().map_or(0.0, |[_, y]| *y));
    // A long name gives way to the plane.
    let name = shortened(&line.name, 230.0);
    format!("{name}: {value}{}", line.end.suffix())
}

fn at_point(chart: &Lines<'_>, line: &Line, [x, y]: [f64; 2]) -> String {
    let (x, y) = ((chart.x.format)(x), (chart.y.format)(y));
    format!("{}, {} {x}: {y}", line.name, chart.x.name)
}

fn ending(chart: &Lines<'_>, line: &Line) -> String {
    let last = line.points.last().copied().unwrap_or([0.0, 0.0]);
    at_point(chart, line, last) + line.end.suffix()
}

/// Heights of the lines' names: beside their last points, pushed apart so that
/// names do not cover each other.
fn label_places(drawn: &[Line], frame: &Frame) -> Vec<f64> {
    let last = |line: &Line| line.points.last().map_or(TOP, |[_, y]| frame.y(*y));
    let mut places: Vec<(usize, f64)> = drawn.iter().map(last).enumerate().collect();
    places.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    for i in 1..places.len() {
        places[i].1 = places[i].1.max(places[i - 1].1 + APART);
    }
    let mut lowest = frame.bottom + 8.0;
    for (_, at) in places.iter_mut().rev() {
        *at = at.min(lowest);
        lowest = *at - APART;
    }
    places.sort_by_key(|(line, _)| *line);
    places.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    fn chart(lines: Vec<Line>, target: Option<(f64, String)>) -> Lines<'static> {
        let axis = |name| Axis::linear(name, |value| format!("{value}"));
        Lines {
            id: "c",
            label: "c",
            x: axis("seconds"),
            y: axis("accuracy"),
            lines,
            target,
            crossings: Vec::new(),
        }
    }

    fn line(points: &[[f64; 2]], end: End) -> Line {
        Line {
            name: "m".into(),
            system: "m".into(),
            look: Look::nth(0),
            points: points.to_vec(),
            end,
        }
    }

    #[test]
    fn a_censored_line_says_so_and_points_onwards() {
        let reached = line(&[[1.0, 0.5], [2.0, 0.9]], End::Complete);
        let censored = line(&[[1.0, 0.4], [2.0, 0.6]], End::Censored);
        let target = Some((0.8, "80 %".into()));
        let chart = chart(vec![reached, censored], target);
        let drawn = lines(&chart, Size::Wide).unwrap_or_default();
        assert_eq!(drawn.matches("arrow s1 head").count(), 1);
        holds(&drawn, &["m: 0.6, censored", ">80 %<"]);
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        let drawn = |points: &[[f64; 2]]| {
            lines(&chart(vec![line(points, End::Complete)], None), Size::Wide)
        };
        assert!(drawn(&[[1.0, f64::NAN]]).is_none());
        let drawn = drawn(&[[1.0, 2.0], [2.0, f64::NAN]]);
        assert!(drawn.is_some_and(|drawn| !drawn.contains("NaN")));
    }

    #[test]
    fn long_lines_mark_their_last_point_alone() {
        let points: Vec<[f64; 2]> = (1..=200).map(|i| [f64::from(i), 1.0]).collect();
        let chart = chart(vec![line(&points, End::Complete)], None);
        let drawn = lines(&chart, Size::Wide).unwrap_or_default();
        assert_eq!(drawn.matches("class='point").count(), 1);
    }
}
