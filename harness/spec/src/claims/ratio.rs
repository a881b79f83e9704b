//! Ratios of means and their intervals.
//!
//! Two methods, chosen by how well their intervals cover at the few trials
//! that experiments have (`docs/METHODOLOGY.md` has the figures):
//!
//! - from the t distribution, on the logarithm of the ratio with its variance
//!   to first order: the better one below five trials, where a bootstrap has
//!   too few distinct resamples to reach 95 %, and for two runs, where levels
//!   far beyond 95 % are needed;
//! - the expanded percentile bootstrap (Hesterberg 2015, "What Teachers Should
//!   Know About the Bootstrap", section 4.4) from five trials on: plain
//!   percentiles and BCa are too narrow here by about √((n − 1)/n) and the
//!   difference between normal and t, which the expansion makes good.

use epochcost_kernels::hash;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::estimate::Estimate;

/// Resamples of a bootstrap: enough that the 97.5th percentile at five trials,
/// expanded to the 99.9th, has ten resamples beyond it.
const RESAMPLES: u64 = 10_000;

/// Fewer trials than this have an interval from the t distribution.
const LEAST_FOR_BOOTSTRAP: usize = 5;

/// Seed of every bootstrap: equal trials always have equal intervals.
const SEED: u64 = 0x5EED_0F7E_57ED;

/// A ratio of two means and the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The one mean over the other.
    pub value: f64,
    /// Ends of the interval.
    pub interval: [f64; 2],
}

/// Returns the mean of the first values over the mean of the second, of pairs
/// that were taken under the same conditions, with its 95 % interval. The mean
/// is unknown without pairs or where a value is not finite; the interval with
/// fewer than two pairs, or unless both means are above 0.
pub fn paired(pairs: &[(f64, f64)]) -> Estimate {
    let (n, mean) = (pairs.len(), ratio_of_means(pairs));
    let ci95 = match n {
        _ if mean.is_none() => None,
        0 | 1 => None,
        _ if pairs.iter().all(|(a, _)| *a == 0.0) => Some([0.0, 0.0]),
        LEAST_FOR_BOOTSTRAP.. => bootstrapped(pairs),
        _ => linearised(pairs),
    };
    Estimate { mean, ci95, n }
}

/// Returns that ratio for pairs that draw the constants of a simulation: the
/// interval reaches from the 2.5th to the 97.5th percentile of the draws'
/// ratios.
pub fn of_draws(pairs: &[(f64, f64)]) -> Estimate {
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
    let mean = ratio_of_means(pairs);
    Estimate {
        ci95: mean.and(Estimate::of_samples(&ratios).ci95),
        mean,
        n: pairs.len(),
    }
}

fn ratio_of_means(pairs: &[(f64, f64)]) -> Option<f64> {
    let (a, b) = sums(pairs.iter().copied());
    Some(a / b).filter(|ratio| ratio.is_finite())
}

fn sums(pairs: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    pairs.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y))
}

/// Returns the interval by the t distribution: the logarithm of the ratio
/// varies as the mean of aᵢ/ā − bᵢ/b̄ does, to first order.
fn linearised(pairs: &[(f64, f64)]) -> Option<[f64; 2]> {
    let n = pairs.len() as f64;
    let (sum_a, sum_b) = sums(pairs.iter().copied());
    let (a, b) = (sum_a / n, sum_b / n);
    if !(a > 0.0 && b > 0.0) {
        return None;
    }
    let squares: f64 = pairs.iter().map(|(x, y)| (x / a - y / b).powi(2)).sum();
    let deviation = (squares / (n - 1.0) / n).sqrt();
    let half = quantile_of_t(0.975, n - 1.0)? * deviation;
    Some([a / b * (-half).exp(), a / b * half.exp()])
}

/// Returns the interval by resampling the pairs: trials of one number are taken
/// together, since they shared the machine's state.
fn bootstrapped(pairs: &[(f64, f64)]) -> Option<[f64; 2]> {
    let n = pairs.len();
    let (a, b) = sums(pairs.iter().copied());
    if !(a > 0.0 && b > 0.0) {
        return None;
    }
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .filter_map(|resample| {
            let (a, b) = sums((0..n).map(|place| pairs[draw(resample, place, n)]));
            Some(a / b).filter(|ratio| ratio.is_finite())
        })
        .collect();
    if ratios.is_empty() {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let beyond = expanded_level(n)?;
    Some([beyond, 1.0 - beyond].map(|share| percentile(&ratios, share)))
}

/// Returns the trial that stands at `place` of a resample of `n`.
fn draw(resample: u64, place: usize, n: usize) -> usize {
    let hash = hash::mix(hash::mix(SEED, resample), place as u64);
    ((u128::from(hash) * n as u128) >> 64) as usize
}

/// Returns the share of resamples to leave out on each side for 95 %.
fn expanded_level(n: usize) -> Option<f64> {
    let n = n as f64;
    let reach = (n / (n - 1.0)).sqrt() * quantile_of_t(0.975, n - 1.0)?;
    Some(Normal::standard().cdf(-reach))
}

/// Returns the value below which that share of the sorted values lies, between neighbours in
/// proportion; NaN without values.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = share * last as f64;
    let [low, high] = [place.floor(), place.ceil()].map(|place| sorted[place as usize]);
    low + (high - low) * place.fract()
}

fn quantile_of_t(share: f64, freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(t.inverse_cdf(share)).filter(|quantile| quantile.is_finite())
}

/// Returns the mean of `after` over the mean of `before`, of two runs, with an
/// interval that covers with probability `confidence`: Welch's t on the
/// logarithm of the ratio, so that the two may vary by different amounts. None
/// with fewer than two values in either, or unless both means are above 0.
/// Values that are recorded in steps of `resolution` vary by its rounding at
/// the least, even if all are equal.
pub fn independent(
    before: &[f64],
    after: &[f64],
    resolution: f64,
    confidence: f64,
) -> Option<Ratio> {
    let (m, v, n) = moments(before, resolution)?;
    let (m2, v2, n2) = moments(after, resolution)?;
    let value = m2 / m;
    let variance = v + v2;
    if variance == 0.0 {
        return Some(Ratio {
            value,
            interval: [value; 2],
        });
    }
    let freedom = variance.powi(2) / (v.powi(2) / (n - 1.0) + v2.powi(2) / (n2 - 1.0));
    let half = quantile_of_t(0.5 + confidence / 2.0, freedom)? * variance.sqrt();
    Some(Ratio {
        value,
        interval: [value * (-half).exp(), value * half.exp()],
    })
}

/// Returns mean, variance of the mean as a share of the mean's square, and
/// number.
fn moments(values: &[f64], resolution: f64) -> Option<(f64, f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if n < 2.0 || !mean.is_finite() || mean <= 0.0 {
        return None;
    }
    let squares = values.iter().map(|value| (value / mean - 1.0).powi(2));
    let squares: f64 = squares.sum();
    // The variance of a uniform distribution over one step.
    let rounding = (resolution / mean).powi(2) / 12.0;
    Some((mean, (squares / (n - 1.0) + rounding) / n, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal deviates from the hash, by Box and Muller.
    fn normal(seed: u64, index: u64) -> f64 {
        let unit = |index: u64| (hash::mix(seed, index) >> 11) as f64 / (1u64 << 53) as f64;
        let (u, v) = (unit(2 * index).max(1e-300), unit(2 * index + 1));
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    type Method = fn(&[(f64, f64)]) -> Option<[f64; 2]>;

    /// How often the interval holds the ratio 2 of pairs that share part of
    /// their noise, of `n` pairs that vary by about 20 %.
    fn coverage(n: usize, interval: Method) -> f64 {
        const REPETITIONS: u64 = 300;
        let hits = (0..REPETITIONS).filter(|repetition| {
            let pairs: Vec<(f64, f64)> = (0..n as u64)
                .map(|trial| {
                    let deviate = |k| normal(*repetition, 3 * trial + k);
                    let shared = 0.1 * deviate(0);
                    let (a, b) = (0.17 * deviate(1), 0.17 * deviate(2));
                    (2.0 * (shared + a).exp(), (shared + b).exp())
                })
                .collect();
            let [low, high] = interval(&pairs).unwrap();
            low <= 2.0 && 2.0 <= high
        });
        hits.count() as f64 / REPETITIONS as f64
    }

    #[test]
    fn few_pairs_are_covered_by_t_and_many_by_the_bootstrap() {
        for (n, method, low, high) in [
            (3, linearised as Method, 0.92, 0.99),
            (4, linearised, 0.92, 0.99),
            (5, bootstrapped, 0.91, 0.985),
            (10, bootstrapped, 0.91, 0.985),
        ] {
            let covered = coverage(n, method);
            assert!((low..=high).contains(&covered), "{n}: {covered}");
        }
    }

    #[test]
    fn pairs_that_vary_together_have_a_narrow_ratio() {
        let pairs: Vec<(f64, f64)> = [1.0, 2.0, 3.0, 4.0, 5.0]
            .map(|state| (2.0 * state, state))
            .into();
        for count in [3, 5] {
            let [low, high] = paired(&pairs[..count]).ci95.unwrap();
            assert!((low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_ratio_that_cannot_be_had_is_unknown() {
        assert_eq!(paired(&[]).mean, None);
        assert_eq!(paired(&[(1.0, 0.0)]).mean, None);
        assert_eq!(paired(&[(1.0, f64::NAN), (1.0, 1.0)]).mean, None);
        let one = paired(&[(3.0, 2.0)]);
        assert_eq!((one.mean, one.ci95), (Some(1.5), None));
        let none_sent = paired(&[(0.0, 2.0), (0.0, 3.0)]);
        assert_eq!(none_sent.ci95, Some([0.0, 0.0]));
        assert_eq!(paired(&[(-1.0, 2.0), (-3.0, 3.0)]).ci95, None);
        assert!(independent(&[1.0], &[1.0, 2.0], 0.0, 0.95).is_none());
        assert!(independent(&[0.0, 0.0], &[1.0, 2.0], 0.0, 0.95).is_none());
    }

    #[test]
    fn equal_trials_always_have_equal_intervals() {
        let pairs: Vec<(f64, f64)> = (0..8)
            .map(|trial| (5.0 + normal(1, trial).abs(), 4.0 + normal(2, trial).abs()))
            .collect();
        assert_eq!(paired(&pairs), paired(&pairs));
    }

    /// Two samples of 10 with a standard deviation of 1 % of their means:
    /// t(0.975, 18) = 2.100922, so ±2.100922 · 0.01 · √(2/10).
    #[test]
    fn two_runs_are_compared_by_welchs_t() {
        let values: Vec<f64> = (0..10)
            .map(|trial| 1.0 + 0.01 * (0.9f64).sqrt() * if trial % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let slower: Vec<f64> = values.iter().map(|value| 1.2 * value).collect();
        let ratio = independent(&values, &slower, 0.0, 0.95).unwrap();
        assert!((ratio.value - 1.2).abs() < 1e-12);
        let half = 2.100_922 * 0.01 * (0.2f64).sqrt();
        let high = ratio.interval[1] / (1.2 * half.exp());
        assert!((high - 1.0).abs() < 1e-6, "{ratio:?}");
        let wider = independent(&values, &slower, 0.0, 0.9975).unwrap();
        assert!(wider.interval[1] > ratio.interval[1]);
        let constant = independent(&[2.0, 2.0], &[3.0, 3.0], 0.0, 0.95).unwrap();
        assert_eq!(constant.interval, [1.5, 1.5]);
        let rounded = independent(&[19.0; 3], &[20.0; 3], 1.0, 0.95).unwrap();
        let [low, high] = rounded.interval;
        assert!(low < 1.05 && high > 1.06, "{rounded:?}");
    }
}
