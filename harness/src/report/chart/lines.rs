use super::{About, Svg, WIDTH, colour, linear_ticks, log_ticks, text_width};

const HEIGHT: f64 = 300.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = HEIGHT - 44.0;
const LEFT: f64 = 64.0;

/// Points of a line are marked one by one up to this many.
const MARKED: usize = 40;

/// Values along epochs, time or money.
pub struct Lines<'a> {
    /// Unique in the page.
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
}

/// What an axis measures, and how its values are written.
pub struct Axis<'a> {
    /// What it measures.
    pub name: &'a str,
    /// Format of the values.
    pub format: fn(f64) -> String,
    /// Whether only whole values have a meaning.
    pub whole: bool,
}

/// One line.
pub struct Line {
    /// Name.
    pub name: String,
    /// The system that the page's filter knows it by.
    pub system: String,
    /// Index of its colour.
    pub series: usize,
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

/// The mapping from values to positions.
struct Frame {
    x: [f64; 2],
    is_log: bool,
    y: [f64; 2],
    right: f64,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        let [low, high] = self.x;
        let share = if self.is_log {
            (value / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        LEFT + 12.0 + share * (self.right - LEFT - 24.0)
    }

    fn y(&self, value: f64) -> f64 {
        let [low, high] = self.y;
        TOP + (high - value) / (high - low) * (BOTTOM - TOP)
    }

    fn at(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [self.x(x), self.y(y)]
    }
}

/// Draws the chart; nothing if no line has a finite point.
pub fn lines(chart: &Lines<'_>) -> Option<String> {
    let drawn: Vec<Line> = chart.lines.iter().filter_map(finite).collect();
    let (frame, x_ticks, y_ticks) = frame(chart, &drawn)?;
    let desc = super::listed(drawn.iter().map(|line| ending(chart, line)));
    let about = About {
        id: chart.id,
        title: chart.label,
        desc: &desc,
    };
    let mut svg = Svg::new(HEIGHT, about);
    // Grid and axes.
    for tick in y_ticks {
        let y = frame.y(tick);
        svg.line([LEFT, y, frame.right, y], "grid");
        svg.text([LEFT - 8.0, y + 4.0], "end", "t m", &(chart.y.format)(tick));
    }
    for tick in x_ticks {
        let text = (chart.x.format)(tick);
        svg.text([frame.x(tick), HEIGHT - 26.0], "middle", "t m", &text);
    }
    let middle = f64::midpoint(LEFT, frame.right);
    svg.text([middle, HEIGHT - 6.0], "middle", "t m", chart.x.name);
    svg.text([4.0, HEIGHT - 6.0], "start", "t m", chart.y.name);
    // The target, and the lines with their names.
    if let Some((value, name)) = &chart.target {
        let y = frame.y(*value);
        svg.line([LEFT, y, frame.right, y], "bound");
        svg.text([LEFT + 4.0, y - 5.0], "start", "t m", name);
    }
    let places = label_places(&drawn, &frame);
    for (line, place) in drawn.iter().zip(places) {
        draw(&mut svg, chart, line, &frame, place);
    }
    Some(svg.finish())
}

/// Returns the line without what cannot be drawn; none if nothing is left.
fn finite(line: &Line) -> Option<Line> {
    let is_finite = |point: &&[f64; 2]| point.iter().all(|value| value.is_finite());
    let points: Vec<[f64; 2]> = line.points.iter().filter(is_finite).copied().collect();
    (!points.is_empty()).then(|| Line {
        name: line.name.clone(),
        system: line.system.clone(),
        points,
        ..*line
    })
}

/// Returns the axes: horizontally logarithmic where a linear one would press
/// most lines against its start.
fn frame(chart: &Lines<'_>, drawn: &[Line]) -> Option<(Frame, Vec<f64>, Vec<f64>)> {
    let points = || drawn.iter().flat_map(|line| &line.points);
    let (x_low, x_high) = range(points().map(|[x, _]| *x))?;
    let target = chart.target.iter().map(|(value, _)| *value);
    let (y_low, y_high) = range(points().map(|[_, y]| *y).chain(target))?;
    let ends = range(drawn.iter().filter_map(|line| Some(line.points.last()?[0])))?;
    let is_log = !chart.x.whole && x_low > 0.0 && ends.1 > 30.0 * ends.0;
    let (x, x_ticks) = match (chart.x.whole, is_log) {
        (true, _) => whole_axis(x_low, x_high),
        (false, true) => {
            let ends = [x_low / 1.2, x_high * 1.2];
            (ends, log_ticks(ends[0], ends[1]))
        }
        (false, false) => {
            let ticks = linear_ticks(0.0, x_high);
            ([0.0, ticks.last().copied()?], ticks)
        }
    };
    let y_ticks = linear_ticks(y_low, y_high);
    let y = [y_ticks.first().copied()?, y_ticks.last().copied()?];
    let label = |line: &Line| text_width(&label(chart, line));
    let right = WIDTH - drawn.iter().map(label).fold(60.0, f64::max) - 40.0;
    let frame = Frame {
        x,
        is_log,
        y,
        right,
    };
    Some((frame, x_ticks, y_ticks))
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    (low <= high).then_some((low, high))
}

/// Returns an axis of at most about a dozen whole values.
fn whole_axis(low: f64, high: f64) -> ([f64; 2], Vec<f64>) {
    let (first, last) = (low.round() as usize, high.round() as usize);
    let step = (last - first).div_ceil(12).max(1);
    let ticks = (first..=last).step_by(step).map(|value| value as f64);
    let ends = if first == last {
        [low - 1.0, high + 1.0]
    } else {
        [low, high]
    };
    (ends, ticks.collect())
}

fn draw(svg: &mut Svg, chart: &Lines<'_>, line: &Line, frame: &Frame, label_y: f64) {
    svg.open(&line.name, &line.system);
    let places: Vec<[f64; 2]> = line.points.iter().map(|point| frame.at(*point)).collect();
    let series = line.series % super::COLOURS + 1;
    svg.path(&places, &format!("line s{series}"));
    let last = line.points.len() - 1;
    for (i, (point, at)) in line.points.iter().zip(&places).enumerate() {
        if i == last || last < MARKED {
            let data = [("x", point[0]), ("y", point[1])];
            let class = if i == last && line.end != End::Complete {
                format!("point hollow s{series}")
            } else {
                format!("point {}", colour(line.series))
            };
            svg.circle(*at, 3.5, &class, &data, &at_point(chart, line, *point));
        }
    }
    if let Some([x, y]) = places.last().copied() {
        draw_end(svg, line.end, [x, y], series);
        let left = frame.right + 14.0;
        svg.line([x + 8.0, y, left - 4.0, label_y], "leader");
        svg.key([left, label_y - 5.0], 10.0, &colour(line.series));
        svg.text(
            [left + 16.0, label_y + 4.0],
            "start",
            "t",
            &label(chart, line),
        );
    }
    svg.close();
}

/// An arrow onwards where the line would have gone on, a cross where it failed.
fn draw_end(svg: &mut Svg, end: End, [x, y]: [f64; 2], series: usize) {
    match end {
        End::Complete => {}
        End::Censored => {
            svg.arrow([[x + 4.0, y], [x + 22.0, y]], &format!("arrow s{series}"));
        }
        End::Failed => {
            let class = format!("line s{series}");
            svg.path(&[[x + 6.0, y - 5.0], [x + 16.0, y + 5.0]], &class);
            svg.path(&[[x + 6.0, y + 5.0], [x + 16.0, y - 5.0]], &class);
        }
    }
}

/// Returns the name beside a line's end, with its last value.
fn label(chart: &Lines<'_>, line: &Line) -> String {
    let value = line.points.last().map_or(0.0, |[_, y]| *y);
    let end = match line.end {
        End::Complete => "",
        End::Censored => ", censored",
        End::Failed => ", failed",
    };
    format!("{} {}{end}", line.name, (chart.y.format)(value))
}

fn at_point(chart: &Lines<'_>, line: &Line, [x, y]: [f64; 2]) -> String {
    let (x, y) = ((chart.x.format)(x), (chart.y.format)(y));
    format!("{}, {} {x}: {y}", line.name, chart.x.name)
}

fn ending(chart: &Lines<'_>, line: &Line) -> String {
    let last = line.points.last().copied().unwrap_or([0.0, 0.0]);
    let text = at_point(chart, line, last);
    match line.end {
        End::Complete => text,
        End::Censored => format!("{text}, censored"),
        End::Failed => format!("{text}, failed"),
    }
}

/// Heights of the lines' names: beside their last points, pushed apart so that
/// names do not cover each other.
fn label_places(drawn: &[Line], frame: &Frame) -> Vec<f64> {
    const APART: f64 = 17.0;
    let last = |line: &Line| line.points.last().map_or(TOP, |[_, y]| frame.y(*y));
    let mut places: Vec<(usize, f64)> = drawn.iter().map(last).enumerate().collect();
    places.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    for i in 1..places.len() {
        places[i].1 = places[i].1.max(places[i - 1].1 + APART);
    }
    let mut lowest = BOTTOM + 8.0;
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

    fn chart(lines: Vec<Line>, target: Option<(f64, String)>) -> Lines<'static> {
        let axis = |name, whole| Axis {
            name,
            format: |value| format!("{value}"),
            whole,
        };
        Lines {
            id: "c",
            label: "c",
            x: axis("seconds", false),
            y: axis("accuracy", false),
            lines,
            target,
        }
    }

    fn line(points: &[[f64; 2]], end: End) -> Line {
        Line {
            name: "m".into(),
            system: "m".into(),
            series: 0,
            points: points.to_vec(),
            end,
        }
    }

    #[test]
    fn a_censored_line_says_so_and_points_onwards() {
        let reached = line(&[[1.0, 0.5], [2.0, 0.9]], End::Complete);
        let censored = line(&[[1.0, 0.4], [2.0, 0.6]], End::Censored);
        let target = Some((0.8, "80 %".into()));
        let drawn = lines(&chart(vec![reached, censored], target)).unwrap_or_default();
        assert_eq!(drawn.matches("arrow s1 head").count(), 1);
        assert!(
            drawn.contains("m 0.6, censored") && drawn.contains(">80 %<"),
            "{drawn}"
        );
    }

    #[test]
    fn what_is_not_finite_is_left_out() {
        assert!(lines(&chart(vec![line(&[[1.0, f64::NAN]], End::Complete)], None)).is_none());
        let drawn = lines(&chart(
            vec![line(&[[1.0, 2.0], [2.0, f64::NAN]], End::Complete)],
            None,
        ));
        assert!(drawn.is_some_and(|drawn| !drawn.contains("NaN")));
    }

    #[test]
    fn long_lines_mark_their_last_point_alone() {
        let points: Vec<[f64; 2]> = (1..=200).map(|i| [f64::from(i), 1.0]).collect();
        let drawn = lines(&chart(vec![line(&points, End::Complete)], None)).unwrap_or_default();
        assert_eq!(drawn.matches("<circle").count(), 1);
    }
}
