//! What predictions amount to, and the targets for them.

use epochcost_spec::claims::ratio::percentile;
use epochcost_spec::profiles::misses::{Headline, Scope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cells::Cell;
use crate::forecast::uncertainty::Percentiles;

/// A predicted figure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Predicted {
    /// Median over repetitions at the stated constants.
    pub(super) value: f64,
    /// The 5th and the 95th percentile of draws about the stated constants; none without draws.
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
}

impl Predicted {
    /// Returns the prediction of a figure from its repetitions and draws.
    pub(super) fn of(mut figures: Vec<f64>, repetitions: u32) -> Self {
        let drawn = figures.split_off((repetitions as usize).min(figures.len()));
        let range = Percentiles::of(drawn);
        Self {
            value: median(figures),
            low: range.map(|range| range.p5),
            high: range.map(|range| range.p95),
        }
    }
}

/// A cell, compared with its prediction.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compared {
    pub(super) series: String,
    /// Who measured it.
    pub(super) author: String,
    /// Whether a constant of the profile stands on figures of this author.
    pub(super) gave_a_constant: bool,
    pub(super) scope: Scope,
    pub(super) setting: String,
    pub(super) statistic: String,
    pub(super) measured: f64,
    pub(super) predicted: f64,
    /// Lower end of the predicted interval.
    pub(super) low: Option<f64>,
    /// Upper end of the predicted interval.
    pub(super) high: Option<f64>,
    /// Whether constants may be fitted to its series.
    pub(super) is_fitted: bool,
}

impl Compared {
    /// Compares a cell with its prediction.
    pub(super) fn new(
        cell: &Cell,
        predicted: Predicted,
        author: &str,
        gave_a_constant: bool,
        is_fitted: bool,
    ) -> Self {
        Self {
            series: cell.series.clone(),
            author: author.to_owned(),
            gave_a_constant,
            scope: cell.scope(),
            setting: cell.setting.to_string(),
            statistic: cell.statistic.to_string(),
            measured: cell.measured,
            predicted: predicted.value,
            low: predicted.low,
            high: predicted.high,
            is_fitted,
        }
    }

    /// Returns predicted over measured.
    pub(super) fn ratio(&self) -> f64 {
        self.predicted / self.measured
    }

    /// Returns whether the interval holds the measured figure.
    pub(super) fn is_covered(&self) -> Option<bool> {
        // Repeated sums differ in their last digits.
        let slack = 1e-9 * self.measured;
        let (low, high) = (self.low? - slack, self.high? + slack);
        Some((low..=high).contains(&self.measured))
    }

    /// Returns upper over lower end of the interval.
    fn width(&self) -> Option<f64> {
        Some(self.high? / self.low?).filter(|width| width.is_finite())
    }
}

/// Errors of the predictions of cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Score {
    /// Mean of the absolute relative errors.
    pub(super) mape: f64,
    /// Median of the absolute relative errors.
    pub(super) median_error: f64,
    /// Geometric mean of predicted over measured, minus 1.
    pub(super) bias: f64,
    /// Share of the cells within 10 %.
    pub(super) within_10: f64,
    /// Share of the cells within 25 %.
    pub(super) within_25: f64,
    /// Share of the cells within 50 %.
    pub(super) within_50: f64,
}

impl Score {
    /// Returns whether it differs from another beyond the rounding of sums.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let pairs = [(self.mape, other.mape), (self.bias, other.bias)];
        pairs.iter().any(|(own, other)| (own - other).abs() > 1e-6)
    }
}

/// Errors and intervals of cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Scored {
    /// Number of cells.
    pub(super) cells: usize,
    #[serde(flatten)]
    pub(super) score: Score,
    /// Share of the cells whose interval holds the measured figure.
    pub(super) coverage: Option<f64>,
    /// Median of upper over lower end of the intervals.
    pub(super) width: Option<f64>,
}

impl Scored {
    /// Returns the score of cells; `None` without cells.
    pub(super) fn of(cells: &[Compared]) -> Option<Self> {
        cells.first()?;
        let count = cells.len() as f64;
        let errors = cells.iter().map(|cell| (cell.ratio() - 1.0).abs());
        let errors: Vec<f64> = errors.collect();
        let within =
            |limit: f64| errors.iter().filter(|error| **error <= limit).count() as f64 / count;
        let logs: f64 = cells.iter().map(|cell| cell.ratio().ln()).sum();
        let covered: Option<Vec<bool>> = cells.iter().map(Compared::is_covered).collect();
        let widths: Option<Vec<f64>> = cells.iter().map(Compared::width).collect();
        Some(Self {
            cells: cells.len(),
            score: Score {
                mape: errors.iter().sum::<f64>() / count,
                median_error: median(errors.clone()),
                bias: (logs / count).exp() - 1.0,
                within_10: within(0.10),
                within_25: within(0.25),
                within_50: within(0.50),
            },
            coverage: covered
                .map(|covered| covered.iter().filter(|inside| **inside).count() as f64 / count),
            width: widths.map(median),
        })
    }
}

/// Returns the scores over sets, each of which counts once: means of errors and coverages, geometric
/// means of ratios and widths. `None` without a set.
pub(super) fn over_sets(scope: Scope, gave_a_constant: bool, sets: &[Scored]) -> Option<Headline> {
    let count = sets.len() as f64;
    let mean = |of: &dyn Fn(&Scored) -> Option<f64>| {
        let all: Option<Vec<f64>> = sets.iter().map(of).collect();
        let mean = all.map(|all| all.iter().sum::<f64>() / count);
        mean.filter(|mean| mean.is_finite())
    };
    (!sets.is_empty()).then(|| Headline {
        scope,
        gave_a_constant,
        sets: sets.len(),
        cells: sets.iter().map(|set| set.cells).sum(),
        median_error: mean(&|set| Some(set.score.median_error)),
        bias: mean(&|set| Some(set.score.bias.ln_1p())).map(f64::exp_m1),
        coverage: mean(&|set| set.coverage),
        width: mean(&|set| set.width.map(f64::ln)).map(f64::exp),
    })
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(&values, 0.5)
}

/// Returns the median error of judged cells if the other series of the same setting and
/// figure predict them: no model that knows the setting alone does better. `None` if no
/// setting was measured twice.
pub(super) fn floor(cells: &[Cell], judged: &[Compared]) -> Option<f64> {
    let is_judged = |cell: &&Cell| judged.iter().any(|known| known.series == cell.series);
    let errors = cells.iter().filter(is_judged).filter_map(|cell| {
        let others = cells.iter().filter(|other| {
            other.series != cell.series
                && other.setting == cell.setting
                && other.statistic == cell.statistic
        });
        let others: Vec<f64> = others.map(|other| other.measured).collect();
        (!others.is_empty()).then(|| (median(others) / cell.measured - 1.0).abs())
    });
    let errors: Vec<f64> = errors.collect();
    (!errors.is_empty()).then(|| median(errors))
}

/// A figure that a target limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Figure {
    Mape,
    MedianError,
    Bias,
    Coverage,
    Width,
}

impl Figure {
    fn of(self, scored: &Scored) -> Option<f64> {
        match self {
            Self::Mape => Some(scored.score.mape),
            Self::MedianError => Some(scored.score.median_error),
            Self::Bias => Some(scored.score.bias),
            Self::Coverage => scored.coverage,
            Self::Width => scored.width,
        }
    }
}

/// What a target is expected to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Expected {
    /// Met.
    Holds,
    /// Missed.
    Fails,
}

/// A target for the judged cells: a figure, one limit, and whether it is met.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    /// Figure.
    metric: Figure,
    /// Largest value.
    #[schemars(range(min = 0.0, max = 1e9))]
    at_most: Option<f64>,
    /// Smallest value.
    #[schemars(range(min = 0.0, max = 1e9))]
    at_least: Option<f64>,
    /// Largest distance from 0.
    #[schemars(range(min = 0.0, max = 1e9))]
    within: Option<f64>,
    /// Whether it is met.
    expect: Expected,
}

/// A target, judged.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) metric: String,
    pub(super) limit: String,
    pub(super) value: Option<f64>,
    pub(super) verdict: Expected,
    pub(super) expect: Expected,
}

impl Target {
    /// Returns whether it has one limit.
    pub(super) fn has_one_limit(&self) -> bool {
        let limits = [self.at_most, self.at_least, self.within];
        limits.iter().flatten().count() == 1
    }

    /// Judges the target by a score.
    pub(super) fn verdict(&self, scored: &Scored) -> Verdict {
        let value = self.metric.of(scored);
        let known = value.unwrap_or(f64::NAN);
        let within = self.within.unwrap_or_default();
        let (limit, holds) = match (self.at_most, self.at_least) {
            (Some(most), _) => (format!("≤ {most}"), known <= most),
            (None, Some(least)) => (format!("≥ {least}"), known >= least),
            (None, None) => (format!("0 ± {within}"), known.abs() <= within),
        };
        Verdict {
            metric: word(&self.metric),
            limit,
            value,
            verdict: Expected::of(holds),
            expect: self.expect,
        }
    }
}

impl Expected {
    /// Returns what a target is that holds, or does not.
    pub(super) fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }
}

/// Returns the word for a value of an enumeration in a file.
pub(super) fn word<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}

impl Verdict {
    /// Returns whether the verdict is the expected one.
    pub(super) fn is_expected(&self) -> bool {
        self.verdict == self.expect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(measured: f64, predicted: f64, low: f64, high: f64) -> Compared {
        Compared {
            series: "a".into(),
            author: "b".into(),
            gave_a_constant: false,
            scope: Scope::Whole,
            setting: String::new(),
            statistic: String::new(),
            measured,
            predicted,
            low: Some(low),
            high: Some(high),
            is_fitted: false,
        }
    }

    #[test]
    fn scores_follow_from_ratios_and_intervals() {
        // Ratios of 2 and 1/2 have no bias; errors are 100 and 50 %.
        let cells = [cell(1.0, 2.0, 0.5, 1.5), cell(2.0, 1.0, 0.5, 1.5)];
        let scored = Scored::of(&cells).unwrap();
        assert!(scored.score.bias.abs() < 1e-12);
        assert_eq!((scored.score.mape, scored.score.median_error), (0.75, 0.75));
        assert_eq!((scored.score.within_25, scored.score.within_50), (0.0, 0.5));
        assert_eq!((scored.coverage, scored.width), (Some(0.5), Some(3.0)));
        assert!(Scored::of(&[]).is_none());
    }

    /// A set of many cells counts as much as a set of one.
    #[test]
    fn every_set_counts_once() {
        let one = Scored::of(&[cell(1.0, 1.5, 0.5, 2.0)]).unwrap();
        let many = Scored::of(&vec![cell(1.0, 1.1, 1.05, 1.2); 9]).unwrap();
        let headline = over_sets(Scope::Whole, false, &[one, many]).unwrap();
        assert_eq!((headline.sets, headline.cells), (2, 10));
        let is_near = |one: Option<f64>, other: f64| (one.unwrap() - other).abs() < 1e-12;
        assert!(is_near(headline.median_error, 0.3) && is_near(headline.coverage, 0.5));
        assert!(is_near(headline.bias, 1.65f64.sqrt() - 1.0));
        assert!(over_sets(Scope::Whole, false, &[]).is_none());
    }

    #[test]
    fn targets_are_met_or_missed() {
        let scored = Scored::of(&[cell(1.0, 1.3, 0.5, 1.5)]).unwrap();
        let verdict = |text: &str| {
            let target: Target = serde_yaml::from_str(text).unwrap();
            target.verdict(&scored).is_expected()
        };
        assert!(verdict(
            "{metric: median_error, at_most: 0.2, expect: fails}"
        ));
        assert!(verdict("{metric: bias, within: 0.31, expect: holds}"));
        assert!(!verdict("{metric: coverage, at_least: 0.9, expect: fails}"));
        assert!(verdict("{metric: width, at_most: 3, expect: holds}"));
    }
}
