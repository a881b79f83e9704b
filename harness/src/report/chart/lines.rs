use super::{Svg, WIDTH, colour, linear_ticks, text_width};

const HEIGHT: f64 = 300.0;
const TOP: f64 = 14.0;
const LEFT: f64 = 64.0;

/// Values by epoch.
pub struct Lines<'a> {
    /// What the chart shows, for those who cannot see it.
    pub label: &'a str,
    /// What the vertical axis measures.
    pub axis: &'a str,
    /// The lines.
    pub lines: Vec<Line>,
    /// How values are written.
    pub format: fn(f64) -> String,
}

/// One line.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Which colour.
    pub series: usize,
    /// Epochs, from 0, and values.
    pub points: Vec<(usize, f64)>,
}

/// Draws the chart; nothing if no line has a finite point.
pub fn lines(chart: &Lines<'_>) -> Option<String> {
    let points = || {
        chart
            .lines
            .iter()
            .flat_map(|line| line.points.iter())
            .filter(|(_, value)| value.is_finite())
    };
    let last = points().map(|(epoch, _)| *epoch).max()?;
    let low = points()
        .map(|(_, value)| *value)
        .fold(f64::INFINITY, f64::min);
    let high = points()
        .map(|(_, value)| *value)
        .fold(f64::NEG_INFINITY, f64::max);
    let ticks = linear_ticks(low, high);
    let (low, high) = (ticks.first().copied()?, ticks.last().copied()?);
    let names = chart
        .lines
        .iter()
        .map(|line| text_width(&line.name))
        .fold(40.0, f64::max);
    let right = WIDTH - names - 78.0;
    let x = |epoch: usize| {
        let share = if last == 0 {
            0.5
        } else {
            epoch as f64 / last as f64
        };
        LEFT + 12.0 + share * (right - LEFT - 24.0)
    };
    let y = |value: f64| TOP + (high - value) / (high - low) * (HEIGHT - TOP - 44.0);

    let mut svg = Svg::new(HEIGHT, chart.label);
    for tick in &ticks {
        svg.line([LEFT, y(*tick), right, y(*tick)], "grid");
        svg.text(
            [LEFT - 8.0, y(*tick) + 4.0],
            "end",
            "t m",
            &(chart.format)(*tick),
        );
    }
    let step = last.div_ceil(12).max(1);
    for epoch in (0..=last).step_by(step) {
        svg.text(
            [x(epoch), HEIGHT - 26.0],
            "middle",
            "t m",
            &(epoch + 1).to_string(),
        );
    }
    svg.text(
        [f64::midpoint(LEFT, right), HEIGHT - 6.0],
        "middle",
        "t m",
        "epoch",
    );
    svg.text([4.0, HEIGHT - 6.0], "start", "t m", chart.axis);
    for line in &chart.lines {
        draw(&mut svg, chart, line, &x, &y);
    }
    for (line, at) in label_positions(chart, y) {
        let end = x(last) + 14.0;
        let value = line.points.last().map_or(0.0, |(_, value)| *value);
        let text = format!("{} {}", line.name, (chart.format)(value));
        svg.rect(
            [end, at - 5.0, 10.0, 10.0],
            &colour(line.series),
            &line.name,
        );
        svg.text([end + 16.0, at + 4.0], "start", "t", &text);
    }
    Some(svg.finish())
}

fn draw(
    svg: &mut Svg,
    chart: &Lines<'_>,
    line: &Line,
    x: &impl Fn(usize) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    let finite = line.points.iter().filter(|(_, value)| value.is_finite());
    let points: Vec<[f64; 2]> = finite
        .clone()
        .map(|(epoch, value)| [x(*epoch), y(*value)])
        .collect();
    svg.path(
        &points,
        &format!("line s{}", line.series % super::COLOURS + 1),
    );
    for ((epoch, value), at) in finite.zip(points) {
        let title = format!(
            "{}, epoch {}: {}",
            line.name,
            epoch + 1,
            (chart.format)(*value)
        );
        svg.circle(at, 3.5, &colour(line.series), &title);
    }
}

/// Where each line's name goes: beside its last point, pushed apart so that
/// names do not cover each other.
fn label_positions<'a>(chart: &'a Lines<'_>, y: impl Fn(f64) -> f64) -> Vec<(&'a Line, f64)> {
    const APART: f64 = 17.0;
    let mut labels: Vec<(&Line, f64)> = chart
        .lines
        .iter()
        .filter_map(|line| {
            let (_, value) = line.points.last()?;
            value.is_finite().then(|| (line, y(*value)))
        })
        .collect();
    labels.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    for i in 1..labels.len() {
        labels[i].1 = labels[i].1.max(labels[i - 1].1 + APART);
    }
    let mut floor = HEIGHT - 36.0;
    for (_, at) in labels.iter_mut().rev() {
        *at = at.min(floor);
        floor = *at - APART;
    }
    labels
}
