//! Charts as inline SVG. Colours come from the page's style, so that they
//! follow its light or dark scheme; nothing is told by colour alone.

mod bars;
mod lines;
mod scatter;

use std::fmt::Write;

pub use bars::{Bar, Bars, Segment, bars};
pub use lines::{Line, Lines, lines};
pub use scatter::{Mark, Scatter, scatter};

/// Width of every chart.
const WIDTH: f64 = 960.0;

/// How many colours the style has.
pub(super) const COLOURS: usize = 8;

/// Mean width of a character at the charts' text size.
const CHARACTER: f64 = 6.7;

/// The class that carries the colour of the `index`th series.
fn colour(index: usize) -> String {
    format!("c{}", index % COLOURS + 1)
}

/// An SVG image under construction. Every text is escaped here.
struct Svg {
    height: f64,
    label: String,
    body: String,
}

impl Svg {
    fn new(height: f64, label: &str) -> Self {
        Self {
            height,
            label: escape(label),
            body: String::new(),
        }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    fn rect(&mut self, [x, y, width, height]: [f64; 4], class: &str, title: &str) {
        let title = escape(title);
        self.add(format_args!(
            "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height:.1}' \
             class='{class}'><title>{title}</title></rect>"
        ));
    }

    fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) {
        self.add(format_args!(
            "<line x1='{x1:.1}' y1='{y1:.1}' x2='{x2:.1}' y2='{y2:.1}' class='{class}'/>"
        ));
    }

    fn circle(&mut self, [x, y]: [f64; 2], radius: f64, class: &str, title: &str) {
        let title = escape(title);
        self.add(format_args!(
            "<circle cx='{x:.1}' cy='{y:.1}' r='{radius}' class='{class}'>\
             <title>{title}</title></circle>"
        ));
    }

    fn path(&mut self, points: &[[f64; 2]], class: &str) {
        let mut d = String::new();
        for (i, [x, y]) in points.iter().enumerate() {
            let command = if i == 0 { 'M' } else { 'L' };
            let _ = write!(d, "{command}{x:.1} {y:.1}");
        }
        self.add(format_args!("<path d='{d}' class='{class}'/>"));
    }

    /// `anchor` is `start`, `middle` or `end`.
    fn text(&mut self, [x, y]: [f64; 2], anchor: &str, class: &str, text: &str) {
        let text = escape(text);
        self.add(format_args!(
            "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}' class='{class}'>{text}</text>"
        ));
    }

    /// Coloured squares with names, in as many lines as they need; gives the
    /// height used.
    fn legend<'a>(&mut self, top: f64, names: impl Iterator<Item = (String, &'a str)>) -> f64 {
        let (mut x, mut y) = (4.0, top);
        for (class, name) in names {
            let width = 24.0 + text_width(name) + 14.0;
            if x + width > WIDTH {
                (x, y) = (4.0, y + 20.0);
            }
            self.rect([x, y, 12.0, 12.0], &class, name);
            self.text([x + 18.0, y + 10.5], "start", "t", name);
            x += width;
        }
        y + 26.0 - top
    }

    fn finish(self) -> String {
        format!(
            "<svg viewBox='0 0 {WIDTH} {:.0}' role='img' aria-label='{}'>\n{}</svg>",
            self.height, self.label, self.body
        )
    }
}

/// Escapes text for an element or an attribute.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Round values that cover `0..=most`, about four of them.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let span = if high > low {
        high - low
    } else {
        high.abs().max(1.0)
    };
    let raw = span / 4.0;
    let scale = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * scale)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(scale);
    let first = (low / step).floor();
    let last = ((low + span) / step - 1e-9).ceil();
    (first as i64..=last as i64)
        .map(|i| i as f64 * step)
        .collect()
}

/// 1, 2 and 5 times powers of ten inside `low..=high`; powers alone where
/// those would be too many.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let factors: &[f64] = if high / low > 1e3 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    decades
        .flat_map(|decade| {
            factors
                .iter()
                .map(move |factor| factor * 10f64.powi(decade))
        })
        .filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_cover_the_values() {
        assert_eq!(linear_ticks(0.0, 7.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(linear_ticks(0.0, 0.0).first(), Some(&0.0));
        let ticks = linear_ticks(0.1, 0.93);
        assert!(
            ticks[0] <= 0.1 && ticks[ticks.len() - 1] >= 0.93,
            "{ticks:?}"
        );
        assert_eq!(log_ticks(0.8, 30.0), [1.0, 2.0, 5.0, 10.0, 20.0]);
    }

    #[test]
    fn markup_in_names_stays_text() {
        let mut svg = Svg::new(10.0, "a'b");
        svg.text([0.0, 0.0], "start", "t", "<script>alert('&')</script>");
        let text = svg.finish();
        assert!(
            !text.contains("<script>") && text.contains("&lt;script&gt;"),
            "{text}"
        );
        assert!(text.contains("aria-label='a&#39;b'"), "{text}");
    }
}
