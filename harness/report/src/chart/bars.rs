use super::svg::shortened;
use super::text::bold_width;
use super::ticks::{linear_ticks, thinned};
use super::{Look, Size, Svg, text_width};

const BAR: f64 = 20.0;

/// Height of a name above its bar, in a narrow chart.
const NAME: f64 = 16.0;

/// Width from which on a part has the letter of its entry in the legend.
const LETTERED: f64 = 15.0;

const GAP: f64 = 12.0;

/// Stacked horizontal bars, one per row.
pub struct Bars<'a> {
    /// Id of its section, unique in the page.
    pub id: &'a str,
    /// Description of the chart for readers who cannot see it.
    pub label: &'a str,
    /// Names of the segments, in the order in which they are stacked.
    pub legend: Vec<String>,
    /// The bars.
    pub bars: Vec<Bar>,
    /// Meaning of the tick across a bar, if bars have one.
    pub tick_name: Option<&'a str>,
    /// Unit of the values.
    pub unit: &'a str,
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
    let ends = (chart.bars.iter()).map(|bar| total(bar).max(bar.tick.unwrap_or(0.0)));
    let most = ends.fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let ticks = linear_ticks(0.0, most);
    let layout = Layout::of(chart, size, ticks.last().copied().unwrap_or(most).max(most));
    let ticks = thinned(ticks, |tick| layout.x(tick), chart.format);
    // Legend of the segments in use.
    let id = format!("{}-chart", chart.id);
    let mut svg = Svg::new(size, [&id, chart.label, &description(chart)]);
    let is_used = |(series, _): &(usize, &String)| {
        let mut parts = chart.bars.iter().flat_map(|bar| &bar.segments);
        parts.any(|part| part.series == *series)
    };
    let used: Vec<(usize, &String)> = chart.legend.iter().enumerate().filter(is_used).collect();
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
        let top = top + i as f64 * layout.pitch() + GAP / 2.0;
        draw(&mut svg, chart, bar, top, &layout);
    }
    svg.height = bottom + 24.0;
    if let Some(name) = chart.tick_name {
        let left = layout.left;
        svg.line([left, bottom + 28.0, left, bottom + 44.0], "tick");
        svg.text([left + 10.0, bottom + 40.0], "start", "t m", name);
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
    "abcdefgh".get(series..=series).unwrap_or("")
}

/// Returns a bar's sum; a text in its place where no part is known.
fn sum_or(unknown: &str, chart: &Bars<'_>, bar: &Bar) -> String {
    match bar.segments.as_slice() {
        [] => unknown.to_owned(),
        _ => (chart.format)(total(bar)),
    }
}

/// Returns a bar's sum, with its tick.
fn sum(chart: &Bars<'_>, bar: &Bar) -> String {
    let sum = sum_or("–", chart, bar);
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
        let name = shortened(&bar.name, room);
        svg.text([layout.left, top + 11.0], "start", "t", &name);
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
        let class = format!("bar {}", Look::nth(part.series).fill());
        let data = [("series", part.series as f64), ("value", part.value)];
        let area = [from, y, (to - from).max(0.5), BAR];
        svg.rect(area, &class, &data, &title);
        if to - from >= LETTERED && has_letters(chart) {
            let at = [f64::midpoint(from, to), y + BAR * 0.7];
            letters.push((at, letter(part.series)));
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
    let sum = |bar: &Bar| format!("{}: {}", bar.name, sum_or("unknown", chart, bar));
    super::listed(chart.bars.iter().map(sum))
}

fn total(bar: &Bar) -> f64 {
    bar.segments.iter().map(|part| part.value).sum()
}
