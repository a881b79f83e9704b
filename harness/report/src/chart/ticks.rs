//! Ticks of axes.

use super::text_width;

/// Space between the labels of two ticks, pixels.
const GAP: f64 = 14.0;

/// Ticks of a logarithmic axis.
pub struct LogTicks {
    /// Ticks with a label.
    pub labelled: Vec<f64>,
    /// Every other whole multiple of a power of ten.
    pub minor: Vec<f64>,
}

/// Round values that cover `low..=high`, about four of them.
pub fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let span = if high > low {
        high - low
    } else {
        high.abs().max(1.0)
    };
    let raw = span / 4.0;
    let scale = 10f64.powf(raw.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * scale);
    let mut steps = steps.into_iter();
    let step = steps.find(|step| *step >= raw * 0.999).unwrap_or(scale);
    let first = (low / step).floor();
    let last = ((low + span) / step - 1e-9).ceil();
    let places = first as i64..=last as i64;
    places.map(|place| place as f64 * step).collect()
}

/// Returns linear ticks of values that cannot be above `most`: the last tick is at
/// most that.
pub fn bounded_ticks(low: f64, high: f64, most: Option<f64>) -> Vec<f64> {
    let Some(most) = most else {
        return linear_ticks(low, high);
    };
    // One value alone is shown on the whole axis.
    let low = if high > low { low } else { 0.0 };
    let mut ticks = linear_ticks(low, high.min(most));
    ticks.retain(|tick| *tick <= most * (1.0 + 1e-9));
    if ticks.last().is_none_or(|last| *last < high) {
        ticks.push(most);
    }
    ticks
}

/// Returns ticks of a logarithmic axis: as many labels as `fits` lets stand beside
/// each other, three at least where there are as many round values.
pub fn log_ticks(low: f64, high: f64, fits: impl Fn(&[f64]) -> bool) -> LogTicks {
    const SETS: [&[f64]; 5] = [
        &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 3.0],
        &[1.0],
    ];
    // The set with fewest labels that are still enough, if it fits.
    let sets = SETS.map(|factors| multiples(low, high, factors));
    let enough = sets.iter().rev().find(|set| set.len() >= 4 && fits(set));
    let fallback = sets.iter().find(|set| !set.is_empty() && fits(set));
    let labelled = enough.or(fallback).cloned().unwrap_or_default();
    let whole: Vec<f64> = (1..=9).map(f64::from).collect();
    let minor = if high / low > 1e5 {
        Vec::new()
    } else {
        multiples(low, high, &whole)
    };
    let is_known = |known: &f64, tick: &f64| (known / tick - 1.0).abs() < 1e-9;
    let is_new = |tick: &f64| !labelled.iter().any(|known| is_known(known, tick));
    LogTicks {
        minor: minor.into_iter().filter(is_new).collect(),
        labelled,
    }
}

/// Returns the multiples of powers of ten in `low..=high`.
fn multiples(low: f64, high: f64, factors: &[f64]) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let of_decade = |decade| (factors.iter()).map(move |factor| factor * 10f64.powi(decade));
    let ticks = decades.flat_map(of_decade);
    let inside = low * 0.999..=high * 1.001;
    ticks.filter(|tick| inside.contains(tick)).collect()
}

/// Returns the labels of ticks: as the axis writes its figures, with more digits where two numbers
/// would read alike.
pub fn tick_labels(ticks: &[f64], format: impl Fn(f64) -> String) -> Vec<String> {
    let labels: Vec<String> = ticks.iter().map(|tick| format(*tick)).collect();
    let are_alike = labels.windows(2).any(|pair| pair[0] == pair[1]);
    if !are_alike || labels.iter().any(|label| label.parse::<f64>().is_err()) {
        return labels;
    }
    let steps = ticks.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    let step = steps.fold(f64::INFINITY, f64::min);
    let is_whole = |decimals: &usize| {
        let scaled = step * 10f64.powi(*decimals as i32);
        scaled > 0.5 && (scaled - scaled.round()).abs() < 1e-3 * scaled
    };
    let decimals = (0..15).find(is_whole).unwrap_or(15);
    let exact = |tick: &f64| format!("{tick:.decimals$}");
    ticks.iter().map(exact).collect()
}

/// Returns every second of the ticks, until their labels stand clear of each other.
pub fn thinned(
    mut ticks: Vec<f64>,
    place: impl Fn(f64) -> f64,
    format: fn(f64) -> String,
) -> Vec<f64> {
    while ticks.len() > 2 && !labels_fit(&ticks, &place, format) {
        ticks = ticks.into_iter().step_by(2).collect();
    }
    ticks
}

/// Returns whether labels centred on the places of their ticks stand clear of each other.
pub fn labels_fit(ticks: &[f64], place: impl Fn(f64) -> f64, format: fn(f64) -> String) -> bool {
    let mut last = f64::NEG_INFINITY;
    for tick in ticks {
        let (place, half) = (place(*tick), text_width(&format(*tick)) / 2.0);
        if place - half < last + GAP {
            return false;
        }
        last = place + half;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_cover_the_values() {
        assert_eq!(linear_ticks(0.0, 7.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(linear_ticks(0.0, 0.0).first(), Some(&0.0));
        let ticks = linear_ticks(0.1, 0.93);
        let last = ticks[ticks.len() - 1];
        assert!(ticks[0] <= 0.1 && last >= 0.93, "{ticks:?}");
    }

    /// Twelve accuracies of 10 % once had an axis to 125 %.
    #[test]
    fn an_axis_of_shares_ends_at_its_bound() {
        for (low, high) in [
            (0.1, 0.1),
            (0.2, 0.97),
            (0.0, 1.0),
            (0.81, 0.99),
            (1.0, 1.0),
        ] {
            let ticks = bounded_ticks(low, high, Some(1.0));
            let last = ticks[ticks.len() - 1];
            assert!(ticks[0] <= low && last >= high, "{ticks:?}");
            assert!(last <= 1.0 + 1e-9, "{ticks:?}");
        }
    }

    #[test]
    fn a_logarithmic_axis_has_as_many_labels_as_fit() {
        let all = log_ticks(0.8, 30.0, |_| true);
        assert_eq!(all.labelled, [1.0, 3.0, 10.0, 30.0]);
        assert!(all.minor.contains(&2.0) && !all.minor.contains(&3.0));
        let short = log_ticks(0.9, 2.2, |_| true);
        assert!(short.labelled.len() >= 4, "{:?}", short.labelled);
        let few = log_ticks(0.8, 3e4, |ticks| ticks.len() <= 5);
        assert_eq!(few.labelled, [1.0, 10.0, 100.0, 1e3, 1e4]);
    }

    /// A loss that hardly moved once had four ticks at 2.31.
    #[test]
    fn ticks_read_differently() {
        let labels = |ticks: &[f64]| tick_labels(ticks, epochcost_spec::format::number);
        let close = labels(&linear_ticks(2.3081, 2.3097));
        assert_eq!(close[..2], ["2.3080", "2.3085"]);
        assert_eq!(labels(&[1.0, 2.0]), ["1.00", "2.00"]);
        assert_eq!(tick_labels(&[0.0, 0.1], |_| "0 s".into()), ["0 s", "0 s"]);
    }

    #[test]
    fn labels_that_touch_do_not_fit() {
        let fit = |places: [f64; 2]| labels_fit(&places, |place| place, |_| "100 s".to_owned());
        assert!(fit([0.0, 80.0]) && !fit([0.0, 20.0]));
    }
}
