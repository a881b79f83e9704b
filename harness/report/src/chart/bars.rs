use super::svg::shortened;
use super::text::bold_width;
use super::ticks::{labels_fit, linear_ticks};
use super::{About, Look, Size, Svg, text_width};

const BAR: f64 = 20.0;

/// Height of a name above its bar, in a narrow chart.
const NAME: f64 = 16.0;

/// Width from which on a part has the letter of its entry in the legend.
const LETTERED: f64 = 15.0;

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

/// Position of the bars, and their scale.
struct Layout {
    left: f64,
    right: f64,
    axis: f64,
    is_narrow: bool,
}

impl Layout {
    /// Names stand to the left and sums to the right, both as wide as they need; in a
    /// narrow chart both stand above the bar.
    fn of(chart: &Bars<'_>, size: Size, axis: f64) -> Self {
        let widest = |width: &dyn Fn(&Bar) -> f64| chart.bars.iter().map(width).fold(0.0, f64::max);
        let (left, right) = if size == Size::Narrow {
            (4.0, size.width() - 24.0)
        } else {
            let names = widest(&|bar| text_width(&bar.name)).min(0.4 * size.width());
            let sums = widest(&|bar| bold_width(&sum(chart, bar)));
            (names + 18.0, size.width() - sums - 16.0)
        };
        Self {
            left,
            right,
            axis,
            is_narrow: size == Size::Narrow,
        }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + value / self.axis * (self.right - self.left)
    }

    fn pitch(&self) -> f64 {
        let name = if self.is_narrow { NAME } else { 0.0 };
        BAR + GAP + name
    }
}

/// Draws the chart; nothing if no bar has a length.
pub fn bars(chart: &Bars<'_>, size: Size) -> Option<String> {
    let most = chart
        .bars
        .iter()
        .map(|bar| total(bar).max(bar.tick.unwrap_or(0.0)))
        .fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let mut ticks = linear_ticks(0.0, most);
    let layout = Layout::of(chart, size, ticks.last().copied().unwrap_or(most).max(most));
    let label = |tick: &f64| (layout.x(*tick), (chart.format)(*tick));
    while ticks.len() > 2 && !labels_fit(ticks.iter().map(label)) {
        ticks = ticks.into_iter().step_by(2).collect();
    }
    // Legend of the segments in use.
    let desc = description(chart);
    let about = About {
        id: chart.id,
        title: chart.label,
        desc: &desc,
    };
    let mut svg = Svg::new(size, about);
    let used: Vec<(usize, String)> = chart
        .legend
        .iter()
        .enumerate()
        .filter(|(series, _)| {
            let mut parts = chart.bars.iter().flat_map(|bar| &bar.segments);
            parts.any(|part| part.series == *series)
        })
        .map(|(series, name)| (series, name.clone()))
        .collect();
    let top = 12.0
        + svg.legend([4.0, 4.0], &used, |svg, series, [x, y]| {
            svg.key([x, y], 13.0, &Look::nth(*series).fill());
            if has_letters(chart) {
                svg.text([x + 6.5, y + 10.5], "middle", "t letter", letter(*series));
            }
        });
    // Grid, bars, and the legend of the tick below.
    let bottom = top + chart.bars.len() as f64 * layout.pitch();
    for tick in &ticks {
        let x = layout.x(*tick);
        svg.line([x, top - 4.0, x, bottom], "grid");
        let anchor = if layout.is_narrow && *tick == 0.0 {
            "start"
        } else {
            "middle"
        };
        svg.text([x, bottom + 16.0], anchor, "t m", &(chart.format)(*tick));
    }
    for (i, bar) in chart.bars.iter().enumerate() {
        draw(
            &mut svg,
            chart,
            bar,
            top + i as f64 * layout.pitch() + GAP / 2.0,
            &layout,
        );
    }
    svg.height = bottom + 24.0;
    if let Some(name) = chart.tick_name {
        svg.line(
            [layout.left, bottom + 28.0, layout.left, bottom + 44.0],
            "tick",
        );
        svg.text([layout.left + 10.0, bottom + 40.0], "start", "t m", name);
        svg.height += 26.0;
    }
    Some(svg.finish())
}

/// Returns whether parts have letters: one alone has nothing to be told from.
fn has_letters(chart: &Bars<'_>) -> bool {
    chart.legend.len() > 1
}

/// Returns the letter of a part, which stands in the legend and in parts that are
/// wide enough.
fn letter(series: usize) -> &'static str {
    ["a", "b", "c", "d", "e", "f", "g", "h"]
        .get(series)
        .copied()
        .unwrap_or("")
}

/// Returns a bar's sum, with its tick.
fn sum(chart: &Bars<'_>, bar: &Bar) -> String {
    let sum = if bar.segments.is_empty() {
        "–".into()
    } else {
        (chart.format)(total(bar))
    };
    match bar.tick {
        Some(tick) => format!("{sum} | {}", (chart.format)(tick)),
        None => sum,
    }
}

fn draw(svg: &mut Svg, chart: &Bars<'_>, bar: &Bar, top: f64, layout: &Layout) {
    svg.open(&bar.name, &bar.system);
    let sum = sum(chart, bar);
    let y = if layout.is_narrow {
        let room = layout.right + 16.0 - layout.left - bold_width(&sum) - 12.0;
        svg.text(
            [layout.left, top + 11.0],
            "start",
            "t",
            &shortened(&bar.name, room),
        );
        svg.text([layout.right + 16.0, top + 11.0], "end", "t v", &sum);
        top + NAME
    } else {
        let name = shortened(&bar.name, layout.left - 14.0);
        svg.text([layout.left - 10.0, top + BAR * 0.72], "end", "t", &name);
        top
    };
    // Parts, with letters where there is room.
    let mut start = 0.0;
    let mut letters = Vec::new();
    for part in bar.segments.iter().filter(|part| part.value > 0.0) {
        let (from, to) = (layout.x(start), layout.x(start + part.value));
        let name = chart.legend.get(part.series).map_or("", String::as_str);
        let title = format!("{}, {name}: {}", bar.name, (chart.format)(part.value));
        svg.rect(
            [from, y, (to - from).max(0.5), BAR],
            &format!("bar {}", Look::nth(part.series).fill()),
            &[("series", part.series as f64), ("value", part.value)],
            &title,
        );
        if to - from >= LETTERED && has_letters(chart) {
            letters.push((
                [f64::midpoint(from, to), y + BAR * 0.7],
                letter(part.series),
            ));
        }
        start += part.value;
    }
    for (at, letter) in letters {
        svg.text(at, "middle", "t letter", letter);
    }
    if let Some(tick) = bar.tick {
        let x = layout.x(tick);
        svg.line([x, y - 4.0, x, y + BAR + 4.0], "tick");
    }
    if !layout.is_narrow {
        let end = layout.x(start.max(bar.tick.unwrap_or(0.0)));
        svg.text([end + 8.0, y + BAR * 0.72], "start", "t v", &sum);
    }
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
