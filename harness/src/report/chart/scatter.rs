use super::{Svg, WIDTH, colour, log_ticks, text_width};
use crate::report::provenance::Provenance;

const HEIGHT: f64 = 420.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = WIDTH - 20.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = HEIGHT - 56.0;

/// Points over two logarithmic axes, less being better on both.
pub struct Scatter<'a> {
    /// What the chart shows, for those who cannot see it.
    pub label: &'a str,
    /// What the horizontal axis measures, and how its values are written.
    pub x: (&'a str, fn(f64) -> String),
    /// The same of the vertical axis.
    pub y: (&'a str, fn(f64) -> String),
    /// The points.
    pub marks: Vec<Mark>,
}

/// One point.
pub struct Mark {
    /// Its name.
    pub name: String,
    /// Which colour.
    pub series: usize,
    /// Where the figures come from.
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
    let shown = |value: f64| value.is_finite() && value > 0.0;
    let marks: Vec<&Mark> = chart
        .marks
        .iter()
        .filter(|mark| shown(mark.x) && shown(mark.y))
        .collect();
    let (x_low, x_high) = range(marks.iter().map(|mark| mark.x))?;
    let heights = marks
        .iter()
        .flat_map(|mark| [Some(mark.y), mark.y_to].into_iter().flatten());
    let (y_low, y_high) = range(heights)?;
    let x = |value: f64| LEFT + (value / x_low).ln() / (x_high / x_low).ln() * (RIGHT - LEFT);
    let y = |value: f64| BOTTOM - (value / y_low).ln() / (y_high / y_low).ln() * (BOTTOM - TOP);

    let mut svg = Svg::new(HEIGHT, chart.label);
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
    let front: Vec<[f64; 2]> = frontier(&marks)
        .into_iter()
        .map(|[a, b]| [x(a), y(b)])
        .collect();
    if front.len() > 1 {
        svg.path(&front, "front");
    }
    let mut labels: Vec<[f64; 4]> = Vec::new();
    for mark in marks {
        draw(
            &mut svg,
            chart,
            mark,
            [x(mark.x), y(mark.y)],
            mark.y_to.map(y),
            &mut labels,
        );
    }
    Some(svg.finish())
}

fn draw(
    svg: &mut Svg,
    chart: &Scatter<'_>,
    mark: &Mark,
    at: [f64; 2],
    to: Option<f64>,
    labels: &mut Vec<[f64; 4]>,
) {
    if let Some(to) = to {
        svg.line([at[0], at[1], at[0], to], "reach");
        svg.line([at[0] - 4.0, to, at[0] + 4.0, to], "reach");
    }
    let series = mark.series % super::COLOURS + 1;
    let class = match mark.provenance {
        Provenance::Measured => colour(mark.series),
        Provenance::Simulated => format!("simulated s{series}"),
        Provenance::Published => format!("hollow s{series}"),
    };
    let title = format!(
        "{} ({}): {}, {}",
        mark.name,
        mark.provenance.as_str(),
        (chart.x.1)(mark.x),
        (chart.y.1)(mark.y)
    );
    svg.circle(at, 6.5, &class, &title);
    let name = match mark.provenance {
        Provenance::Measured => mark.name.clone(),
        other => format!("{} ({})", mark.name, other.as_str()),
    };
    let [left, bottom] = place(at, text_width(&name), labels);
    svg.text([left, bottom], "start", "t", &name);
}

/// A free place for a name near its point: right of it, left, below or above.
fn place([x, y]: [f64; 2], width: f64, taken: &mut Vec<[f64; 4]>) -> [f64; 2] {
    let right = x + 12.0;
    let left = x - 12.0 - width;
    let middle = x - width / 2.0;
    let places = [
        [right, y + 4.0],
        [left, y + 4.0],
        [right, y + 18.0],
        [left, y + 18.0],
        [right, y - 10.0],
        [left, y - 10.0],
        [middle, y + 24.0],
        [middle, y - 14.0],
        [right, y + 32.0],
        [right, y - 24.0],
    ];
    let free = |[a, b]: &[f64; 2]| {
        let inside = *a >= LEFT && a + width <= RIGHT + 16.0 && *b <= BOTTOM && *b >= TOP + 8.0;
        inside
            && taken.iter().all(|[left, top, right, bottom]| {
                a + width < *left || a > right || *b < *top || b - 13.0 > *bottom
            })
    };
    let [a, b] = places
        .iter()
        .find(|place| free(place))
        .copied()
        .unwrap_or(places[0]);
    taken.push([a, b - 13.0, a + width, b]);
    taken.push([x - 7.0, y - 7.0, x + 7.0, y + 7.0]);
    [a, b]
}

/// The values' range, widened so that no point lies on the frame.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((f64::INFINITY, 0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    (low.is_finite() && high > 0.0).then(|| {
        let margin = (high / low).powf(0.08).max(1.35);
        (low / margin, high * margin)
    })
}

/// The points that no other beats on both axes, from left to right, joined as
/// steps. Published points take no part.
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
            series: 0,
            provenance,
            x,
            y,
            y_to: None,
        }
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
        let chart = |marks| Scatter {
            label: "c",
            x: ("x", |x| x.to_string()),
            y: ("y", |y| y.to_string()),
            marks,
        };
        assert!(scatter(&chart(vec![mark(0.0, 1.0, Provenance::Measured)])).is_none());
        let drawn =
            scatter(&chart(vec![mark(1.0, 1.0, Provenance::Published)])).unwrap_or_default();
        assert!(drawn.contains("hollow s1"), "{drawn}");
    }
}
