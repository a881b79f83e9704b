//! Charts as inline SVG. Colours come from the page's style, so that they
//! follow its light or dark scheme; nothing is shown by colour alone.

mod bands;
mod bars;
mod labels;
mod lines;
mod scatter;
mod svg;
mod timeline;

pub use bands::{Band, band};
pub use bars::{Bar, Bars, Segment, bars};
pub use lines::{Axis, End, Line, Lines, lines};
pub use scatter::{LowerBound, Mark, Scatter, scatter};
pub use timeline::{Lane, Piece, Span, Timeline, timeline};

pub use svg::About;
use svg::Svg;

/// Width of every chart.
const WIDTH: f64 = 960.0;

/// How many colours the style has.
pub(super) const COLOURS: usize = 8;

/// Mean width of a character at the charts' text size.
const CHARACTER: f64 = 6.7;

/// Returns the class that carries the colour of the `index`th series.
fn colour(index: usize) -> String {
    format!("c{}", index % COLOURS + 1)
}

/// Some of a chart's figures in words: enough to know what it shows; the
/// tables beside it have them all.
fn listed(parts: impl Iterator<Item = String>) -> String {
    const MOST: usize = 12;
    let mut parts = parts.peekable();
    let mut listed: Vec<String> = parts.by_ref().take(MOST).collect();
    if parts.peek().is_some() {
        listed.push("and more".into());
    }
    listed.join("; ")
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
}
