//! One metric of one row: same, less, more, or undecided.

use epochcost_spec::claims::Metric;
use epochcost_spec::claims::ratio::{self, Ratio};

use super::{Change, MetricComparison, Repeats, Rules, Value};

/// Most trials that are advised.
const MOST_ADVISED: f64 = 1000.0;

/// The conclusion from two sets of figures.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    change: Change,
    interval: Option<[f64; 2]>,
    reason: String,
}

impl Known {
    /// Decides what can be decided without the ratio's interval; none where that decides.
    /// `unlike`: why the two are not of the same thing.
    pub(super) fn of(
        metric: Metric,
        values: [&[Value]; 2],
        unlike: Option<&str>,
        rules: Rules,
    ) -> Option<Self> {
        if let Some(why) = unlike {
            return Some(Self::new(Change::NotComparable, why));
        }
        if let Some(place) = values.iter().position(|values| values.is_empty()) {
            let run = ["first", "second"][place];
            let reason = format!("no trial of the {run} run has it");
            return Some(Self::new(Change::Undecided, reason));
        }
        match (rules.repeats, metric.is_of_machine()) {
            (_, false) => exactly(metric, values).or_else(|| too_few(values)),
            (Repeats::Measured, true) => too_few(values),
            (Repeats::Exactly, true) => simulated(metric, values, rules),
            (Repeats::Sampled, true) => Some(sampled(values, rules)),
        }
    }

    fn new(change: Change, reason: impl Into<String>) -> Self {
        Self {
            change,
            interval: None,
            reason: reason.into(),
        }
    }
}

/// Returns the comparison: what is known without the ratio's interval, or else by one of that
/// confidence.
pub(super) fn decided(
    known: Option<Known>,
    metric: Metric,
    values: [&[Value]; 2],
    rules: Rules,
    confidence: f64,
) -> MetricComparison {
    let [before, after] = values.map(mean);
    let ratio = before.zip(after).map(|(before, after)| after / before);
    let trials = values.map(<[_]>::len);
    let Known {
        change,
        interval,
        reason,
    } = known.unwrap_or_else(|| {
        let [first, second] = values.map(numbers);
        let found = ratio::independent(&first, &second, resolution(metric), confidence);
        let decided = found.map(|ratio| by_ratio(ratio, trials, rules));
        decided.unwrap_or_else(|| Known::new(Change::Undecided, "a mean of 0 has no ratio"))
    });
    MetricComparison {
        metric,
        unit: metric.unit(),
        before,
        after,
        trials,
        ratio: ratio.filter(|ratio| ratio.is_finite()),
        interval,
        change,
        word: change.word(metric),
        reason,
    }
}

/// Returns the step in which a metric is recorded.
fn resolution(metric: Metric) -> f64 {
    match metric {
        Metric::PeakMemoryMb => 1.0,
        _ => 0.0,
    }
}

/// Compares figures that do not vary by chance: counts, and what is learned
/// from one seed.
fn exactly(metric: Metric, values: [&[Value]; 2]) -> Option<Known> {
    let pairs = paired(values);
    if !pairs.is_empty() && pairs.iter().all(|(before, after)| before == after) {
        let reason = "equal in every trial of the same seed";
        return Some(Known::new(Change::Same, reason));
    }
    let [before, after] = values.map(constant);
    let change = direction(before?, after?);
    let reason = "the same in every trial of a run: a difference is no chance";
    (!metric.is_learned()).then(|| Known::new(change, reason))
}

/// Compares simulations with the constants as stated, which have no noise.
fn simulated(metric: Metric, values: [&[Value]; 2], rules: Rules) -> Option<Known> {
    let [before, after] = values.map(mean);
    let (before, after) = (before?, after?);
    let is_near = (after / before).ln().abs() <= rules.threshold.ln_1p();
    let (change, reason) = if before == after {
        (Change::Same, "equal in both simulations")
    } else if metric.is_timed() && is_near {
        let reason = "a simulation has no noise: different, by less than the threshold";
        (Change::Same, reason)
    } else {
        (direction(before, after), "a simulation has no noise")
    };
    Some(Known::new(change, reason))
}

/// Compares draws of one seed, which share their constants: their ratios show
/// how the change depends on these.
fn sampled(values: [&[Value]; 2], rules: Rules) -> Known {
    let of_draws = ratio::of_draws(&paired(values));
    let (Some(value), Some(interval)) = (of_draws.mean, of_draws.ci95) else {
        let reason = "fewer than two draws of the same seed: give both runs the same seed and \
                      more --trials";
        return Known::new(Change::Undecided, reason);
    };
    let ratio = Ratio { value, interval };
    let change = classified(ratio, rules);
    let reason = match change {
        Change::Undecided => "it depends on constants, within the ranges that their sources give",
        _ => "the same whatever the constants are, within their ranges",
    };
    Known {
        interval: Some(interval),
        ..Known::new(change, reason)
    }
}

/// Returns that measurements decide nothing, if one of the runs does not repeat them.
fn too_few(values: [&[Value]; 2]) -> Option<Known> {
    let place = values.iter().position(|values| values.len() < 2)?;
    let run = ["first", "second"][place];
    let reason =
        format!("one trial in the {run} run has no interval: run both with --trials 5 or more");
    Some(Known::new(Change::Undecided, reason))
}

/// Returns the conclusion from the interval of a ratio.
fn by_ratio(ratio: Ratio, trials: [usize; 2], rules: Rules) -> Known {
    let change = classified(ratio, rules);
    let threshold = rules.threshold * 100.0;
    let reason = match change {
        Change::Same => format!("the whole interval lies within {threshold} %"),
        Change::Undecided => advice(ratio, trials, rules),
        _ => format!("the whole interval lies beyond {threshold} %"),
    };
    Known {
        interval: Some(ratio.interval),
        ..Known::new(change, reason)
    }
}

fn classified(ratio: Ratio, rules: Rules) -> Change {
    let ([low, high], most) = (ratio.interval, 1.0 + rules.threshold);
    if low > most {
        Change::More
    } else if high < 1.0 / most {
        Change::Less
    } else if low >= 1.0 / most && high <= most {
        Change::Same
    } else {
        Change::Undecided
    }
}

/// Returns how many trials would decide if they vary as these do: an interval's
/// width goes with one over the root of their number.
fn advice(ratio: Ratio, trials: [usize; 2], rules: Rules) -> String {
    let half = (ratio.interval[1] / ratio.interval[0]).ln() / 2.0;
    let room = (ratio.value.ln().abs() - rules.threshold.ln_1p()).abs();
    let fewest = trials[0].min(trials[1]) as f64;
    let enough = (fewest * (half / room).powi(2)).ceil();
    if enough.is_finite() && enough <= MOST_ADVISED {
        format!("the interval is too wide: --trials {enough} might decide")
    } else {
        "too close to the threshold for any reasonable number of trials".to_owned()
    }
}

/// Returns pairs of figures of trials that did the same work: those of one
/// seed.
fn paired([before, after]: [&[Value]; 2]) -> Vec<(f64, f64)> {
    let of = |seed| after.iter().find(|value| value.seed == seed);
    let pair = |value: &Value| Some((of(value.seed)?.value, value.value));
    before.iter().filter_map(pair).collect()
}

/// Returns the one value that all trials have.
fn constant(values: &[Value]) -> Option<f64> {
    let first = values.first()?.value;
    let is_constant = values.iter().all(|value| value.value == first);
    is_constant.then_some(first)
}

fn direction(before: f64, after: f64) -> Change {
    match after.total_cmp(&before) {
        std::cmp::Ordering::Less => Change::Less,
        std::cmp::Ordering::Equal => Change::Same,
        std::cmp::Ordering::Greater => Change::More,
    }
}

fn numbers(values: &[Value]) -> Vec<f64> {
    values.iter().map(|value| value.value).collect()
}

fn mean(values: &[Value]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.value).sum();
    Some(sum / values.len() as f64).filter(|mean| mean.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::holds;

    const MEASURED: Rules = Rules {
        threshold: 0.05,
        repeats: Repeats::Measured,
    };

    fn values(numbers: &[f64]) -> Vec<Value> {
        let value = |(seed, value): (u64, &f64)| Value {
            seed,
            value: *value,
        };
        (0..).zip(numbers).map(value).collect()
    }

    fn compared(metric: Metric, before: &[f64], after: &[f64], rules: Rules) -> MetricComparison {
        let (before, after) = (values(before), values(after));
        let both = [before.as_slice(), after.as_slice()];
        let known = Known::of(metric, both, None, rules);
        decided(known, metric, both, rules, 0.95)
    }

    fn word(metric: Metric, before: &[f64], after: &[f64]) -> &'static str {
        compared(metric, before, after, MEASURED).word
    }

    #[test]
    fn times_are_judged_by_their_interval() {
        let quiet = [1.00, 1.01, 0.99, 1.00, 1.01];
        let time = Metric::SecondsPerEpoch;
        assert_eq!(word(time, &quiet, &quiet.map(|t| 1.2 * t)), "slower");
        assert_eq!(word(time, &quiet, &quiet.map(|t| t / 1.2)), "faster");
        assert_eq!(word(time, &quiet, &quiet.map(|t| 1.01 * t)), "same");
        let cost = Metric::CostPaperUsd;
        assert_eq!(word(cost, &quiet, &quiet.map(|t| 1.2 * t)), "costlier");
        let noisy = [0.7, 1.4, 1.0, 0.8, 1.3];
        let undecided = compared(time, &noisy, &noisy.map(|t| 1.2 * t), MEASURED);
        assert_eq!(undecided.word, "undecided");
        holds(&undecided.reason, &["--trials"]);
    }

    #[test]
    fn one_trial_decides_no_time() {
        let one = compared(Metric::SecondsPerEpoch, &[1.0], &[9.0, 9.0], MEASURED);
        assert_eq!(one.word, "undecided");
        assert!(one.reason.contains("first run") && one.reason.contains("--trials 5"));
    }

    #[test]
    fn counts_are_compared_exactly() {
        assert_eq!(word(Metric::Bytes, &[100.0], &[100.0]), "same");
        assert_eq!(word(Metric::Bytes, &[100.0], &[101.0]), "more");
        assert_eq!(word(Metric::Puts, &[7.0, 7.0], &[6.0, 6.0]), "less");
        // A filter's traffic varies with the seed, and is the same for one seed.
        assert_eq!(word(Metric::Bytes, &[90.0, 110.0], &[90.0, 110.0]), "same");
        let other = word(Metric::Bytes, &[90.0, 110.0], &[91.0, 110.0]);
        assert_eq!(other, "undecided");
    }

    #[test]
    fn learning_is_compared_by_seed_and_then_by_interval() {
        assert_eq!(word(Metric::Accuracy, &[0.8, 0.9], &[0.8, 0.9]), "same");
        assert_eq!(word(Metric::Accuracy, &[0.8], &[0.9]), "undecided");
        let (good, bad) = ([0.80, 0.81, 0.79, 0.80], [0.40, 0.41, 0.39, 0.40]);
        assert_eq!(word(Metric::Accuracy, &good, &bad), "lower");
        assert_eq!(word(Metric::Accuracy, &[0.0, 0.0], &good), "undecided");
    }

    #[test]
    fn simulations_have_no_noise() {
        let exactly = Rules {
            repeats: Repeats::Exactly,
            ..MEASURED
        };
        for (after, word) in [(1.0, "same"), (1.04, "same"), (1.06, "slower")] {
            let found = compared(Metric::SecondsPerEpoch, &[1.0], &[after], exactly);
            assert_eq!(found.word, word, "{after}");
        }
    }

    #[test]
    fn draws_of_one_seed_are_compared_with_each_other() {
        let sampled = Rules {
            repeats: Repeats::Sampled,
            ..MEASURED
        };
        let draws = [1.0, 5.0, 0.2, 3.0];
        let time = Metric::SecondsPerEpoch;
        let slower = compared(time, &draws, &draws.map(|t| 1.2 * t), sampled);
        assert_eq!(slower.word, "slower");
        let depends = compared(time, &draws, &[1.2, 4.0, 0.1, 9.0], sampled);
        assert_eq!(depends.word, "undecided");
        assert!(depends.reason.contains("constants"));
    }

    #[test]
    fn what_one_run_lacks_is_undecided() {
        let lacking = compared(Metric::Accuracy, &[0.5], &[], MEASURED);
        assert_eq!((lacking.word, lacking.after), ("undecided", None));
        assert!(lacking.reason.contains("second"));
    }
}
