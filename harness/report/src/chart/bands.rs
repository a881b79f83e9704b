use super::Svg;

const WIDTH: f64 = 132.0;
const HEIGHT: f64 = 22.0;
const MARGIN: f64 = 10.0;
const MIDDLE: f64 = HEIGHT / 2.0;

/// A tolerance band with the two figures that it judges.
pub struct Band {
    /// Ends; none where it is open.
    pub ends: [Option<f64>; 2],
    /// The published figure.
    pub published: Option<f64>,
    /// This run's figure.
    pub observed: Option<f64>,
    /// The interval of this run's figure.
    pub interval: Option<[f64; 2]>,
    /// Class of the mark of this run's figure.
    pub class: &'static str,
    /// The band and its figures in words.
    pub title: String,
}

/// Draws the band on an axis of its own, as small as a word; nothing without a
/// band. A figure beyond the axis becomes an arrow at its end.
pub fn band(band: &Band) -> Option<String> {
    let [low, high] = axis(band)?;
    let x = |value: f64| {
        let share = (value - low) / (high - low);
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - 2.0 * MARGIN)
    };
    let mut svg = Svg::small([WIDTH, HEIGHT], "band", &band.title);
    svg.line([MARGIN, MIDDLE, WIDTH - MARGIN, MIDDLE], "grid");
    // The band, its open side up to the margin.
    let left = band.ends[0].map_or(MARGIN, x);
    let right = band.ends[1].map_or(WIDTH - MARGIN, x);
    let [top, bottom] = [MIDDLE - 6.0, MIDDLE + 6.0];
    let area = [[left, top], [right, top], [right, bottom], [left, bottom]];
    svg.polygon(&area, "area");
    for end in band.ends.into_iter().flatten() {
        svg.line([x(end), top, x(end), bottom], "edge");
    }
    // The two figures, this run's with its interval.
    if let Some(published) = band.published {
        let at = x(published);
        let diamond = [
            [at, MIDDLE - 5.0],
            [at + 5.0, MIDDLE],
            [at, MIDDLE + 5.0],
            [at - 5.0, MIDDLE],
        ];
        svg.polygon(&diamond, "hollow");
    }
    if let Some([from, to]) = band.interval {
        svg.line([x(from), MIDDLE, x(to), MIDDLE], "spread");
    }
    if let Some(observed) = band.observed {
        draw_observed(&mut svg, band.class, observed, [low, high], x(observed));
    }
    Some(svg.finish())
}

fn draw_observed(svg: &mut Svg, class: &str, observed: f64, [low, high]: [f64; 2], at: f64) {
    let class = format!("mark {class}");
    let pointing =
        |tip: f64, back: f64| [[tip, MIDDLE], [back, MIDDLE - 5.0], [back, MIDDLE + 5.0]];
    if observed < low {
        svg.polygon(&pointing(1.0, 9.0), &class);
    } else if observed > high {
        svg.polygon(&pointing(WIDTH - 1.0, WIDTH - 9.0), &class);
    } else {
        let left = at - 4.0;
        let dot = format!("M{left:.1} {MIDDLE}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z");
        svg.shape(&dot, &class);
    }
}

/// Returns the band in the middle third of its axis; a limit in the middle of
/// its own, which reaches as far as this run's figure, within reason.
fn axis(band: &Band) -> Option<[f64; 2]> {
    let ends = match band.ends {
        [None, None] => return None,
        [Some(low), Some(high)] if high > low => [low - (high - low), high + (high - low)],
        [low, high] => {
            let limit = low.or(high)?;
            let far = limit.abs().max(f64::MIN_POSITIVE);
            let reach = (band.observed).map_or(0.0, |observed| (observed - limit).abs() * 1.2);
            let reach = reach.clamp(0.1 * far, 3.0 * far);
            [limit - reach, limit + reach]
        }
    };
    (ends.iter().all(|end| end.is_finite()) && ends[0] < ends[1]).then_some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{holds, lacks};

    fn of(ends: [Option<f64>; 2], observed: f64) -> Band {
        Band {
            ends,
            published: Some(10.0),
            observed: Some(observed),
            interval: None,
            class: "measured",
            title: "9 to 11".into(),
        }
    }

    #[test]
    fn the_band_is_the_middle_third_of_its_axis() {
        assert_eq!(axis(&of([Some(9.0), Some(11.0)], 10.0)), Some([7.0, 13.0]));
        assert_eq!(axis(&of([Some(10.0), None], 15.0)), Some([4.0, 16.0]));
        assert_eq!(axis(&of([None, None], 1.0)), None);
        assert_eq!(axis(&of([Some(f64::NAN), Some(1.0)], 1.0)), None);
        assert!(axis(&of([Some(0.0), None], 1e9)).is_some());
    }

    #[test]
    fn a_figure_beyond_the_axis_becomes_an_arrow() {
        let drawn = |at| band(&of([Some(9.0), Some(11.0)], at)).unwrap_or_default();
        holds(drawn(10.5), &["a4 4 0 1 0"]);
        lacks(drawn(99.0), &["a4 4 0 1 0"]);
        holds(drawn(99.0), &["M131.0 11.0"]);
    }
}
