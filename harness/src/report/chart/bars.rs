use super::{About, Svg, WIDTH, colour, linear_ticks, text_width};

const BAR: f64 = 20.0;
const GAP: f64 = 12.0;

/// Stacked horizontal bars, one per row.
pub struct Bars<'a> {
    /// Unique in the page.
    pub id: &'a str,
    /// Description of the chart for readers who cannot see it.
    pub label: &'a str,
    /// Names of the segments, in the order in which they are stacked.
    pub legend: Vec<String>,
    /// The bars.
    pub bars: Vec<Bar>,
    /// Meaning of the tick across a bar, if bars have one.
    pub tick_name: Option<&'a str>,
    /// Format of the values.
    pub format: fn(f64) -> String,
}

/// One bar.
pub struct Bar {
    /// Name.
    pub name: String,
    /// The system that the page's filter knows it by.
    pub system: String,
    /// Parts.
    pub segments: Vec<Segment>,
    /// A value marked across it.
    pub tick: Option<f64>,
}

/// A part of a bar.
pub struct Segment {
    /// Index of its entry in the legend.
    pub series: usize,
    /// Length.
    pub value: f64,
}

/// Draws the chart; nothing if no bar has a length.
pub fn bars(chart: &Bars<'_>) -> Option<String> {
    // Scale: names to the left, sums to the right.
    let most = chart
        .bars
        .iter()
        .map(|bar| total(bar).max(bar.tick.unwrap_or(0.0)))
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let left = chart
        .bars
        .iter()
        .map(|bar| text_width(&bar.name))
        .fold(60.0, f64::max)
        + 16.0;
    let right = 150.0;
    let ticks = linear_ticks(0.0, most);
    let axis = ticks.last().copied().unwrap_or(most).max(most);
    let x = |value: f64| left + value / axis * (WIDTH - left - right);

    // Legend of the segments in use.
    let desc = description(chart);
    let about = About {
        id: chart.id,
        title: chart.label,
        desc: &desc,
    };
    let mut svg = Svg::new(0.0, about);
    let used = chart.legend.iter().enumerate().filter(|(series, _)| {
        chart
            .bars
            .iter()
            .flat_map(|bar| &bar.segments)
            .any(|part| part.series == *series)
    });
    let top = svg.legend(
        4.0,
        used.map(|(series, name)| (colour(series), name.as_str())),
    ) + 4.0;
    // Grid, bars, and the legend of the tick below.
    let bottom = top + chart.bars.len() as f64 * (BAR + GAP);
    for tick in &ticks {
        svg.line([x(*tick), top - 4.0, x(*tick), bottom], "grid");
        svg.text(
            [x(*tick), bottom + 16.0],
            "middle",
            "t m",
            &(chart.format)(*tick),
        );
    }
    for (i, bar) in chart.bars.iter().enumerate() {
        draw(
            &mut svg,
            chart,
            bar,
            top + i as f64 * (BAR + GAP) + GAP / 2.0,
            left,
            x,
        );
    }
    svg.height = bottom + 24.0;
    if let Some(name) = chart.tick_name {
        svg.line([left, bottom + 24.0, left, bottom + 40.0], "tick");
        svg.text([left + 10.0, bottom + 36.0], "start", "t m", name);
        svg.height += 22.0;
    }
    Some(svg.finish())
}

fn draw(svg: &mut Svg, chart: &Bars<'_>, bar: &Bar, y: f64, left: f64, x: impl Fn(f64) -> f64) {
    svg.open(&bar.name, &bar.system);
    svg.text([left - 10.0, y + BAR * 0.72], "end", "t", &bar.name);
    let mut start = 0.0;
    for part in bar.segments.iter().filter(|part| part.value > 0.0) {
        let (from, to) = (x(start), x(start + part.value));
        let name = chart.legend.get(part.series).map_or("", String::as_str);
        let title = format!("{}, {name}: {}", bar.name, (chart.format)(part.value));
        svg.rect(
            [from, y, (to - from).max(0.5), BAR],
            &format!("bar {}", colour(part.series)),
            &[("series", part.series as f64), ("value", part.value)],
            &title,
        );
        start += part.value;
    }
    if let Some(tick) = bar.tick {
        svg.line([x(tick), y - 4.0, x(tick), y + BAR + 4.0], "tick");
    }
    let end = x(start.max(bar.tick.unwrap_or(0.0)));
    let sum = if bar.segments.is_empty() {
        "–".into()
    } else {
        (chart.format)(start)
    };
    let text = match bar.tick {
        Some(tick) => format!("{sum} | {}", (chart.format)(tick)),
        None => sum,
    };
    svg.text([end + 8.0, y + BAR * 0.72], "start", "t v", &text);
    svg.close();
}

/// Returns the bars' sums in words.
fn description(chart: &Bars<'_>) -> String {
    let sums = chart.bars.iter().map(|bar| {
        if bar.segments.is_empty() {
            format!("{}: unknown", bar.name)
        } else {
            format!("{}: {}", bar.name, (chart.format)(total(bar)))
        }
    });
    super::listed(sums)
}

fn total(bar: &Bar) -> f64 {
    bar.segments.iter().map(|part| part.value).sum()
}
