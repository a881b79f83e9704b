//! Reduction of a program's steps to points, each with the interval of its median.

use std::collections::BTreeMap;

use epochcost_simulator::profile::{Line, median, parallel_share};
use serde::Serialize;
use statrs::distribution::{Binomial, DiscreteCDF};

use super::observed::Observed;

/// Probability that a median lies in its interval.
const CONFIDENCE: f64 = 0.95;
/// Fewest steps of a kind of several whose median is taken.
const FEWEST: usize = 6;

/// The steps of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// Samples of a step.
    pub(super) samples: usize,
    /// Threads that it was allowed.
    pub(super) threads: usize,
    /// Counted steps.
    pub(super) steps: usize,
    /// Seconds of a step's passes, without the optimizer, waits for data and, on one thread,
    /// waits for a core that others used: of steps of one kind their median, of several kinds the
    /// mean of these.
    pub(super) step_s: f64,
    /// Its interval at 95 %; of all steps where they are too few for one.
    pub(super) low_s: f64,
    pub(super) high_s: f64,
    /// Mean seconds of the passes: longer by what runs between some steps only.
    pub(super) mean_s: f64,
    /// Median seconds of a whole step.
    pub(super) whole_s: f64,
    /// Median seconds of the optimizer.
    pub(super) optimizer_s: f64,
    /// Median seconds of waits for data.
    pub(super) data_s: f64,
    /// Median seconds of the passes' waits for a core.
    pub(super) queue_s: f64,
    /// Most memory, MB.
    pub(super) peak_mb: Option<f64>,
}

impl Point {
    /// Returns a run's point; none without counted steps.
    pub(super) fn of(observed: &Observed, samples: usize, threads: usize) -> Option<Self> {
        let all =
            |of: &dyn Fn(&[f64; 4]) -> f64| observed.steps.iter().map(of).collect::<Vec<f64>>();
        // What a clock may take off more than there is is no step. Of several threads, the
        // waits of one say too little.
        let of_queue = if threads == 1 { 1.0 } else { 0.0 };
        let passes = all(&|[whole, optimizer, data, queue]| match whole
            - optimizer
            - data
            - of_queue * queue
        {
            passes if passes > 0.0 => passes,
            _ => *whole,
        });
        let [step_s, low_s, high_s] = typical(observed, &passes)?;
        Some(Self {
            samples,
            threads,
            steps: passes.len(),
            step_s,
            low_s,
            high_s,
            mean_s: passes.iter().sum::<f64>() / passes.len() as f64,
            whole_s: median(&all(&|step| step[0]))?,
            optimizer_s: median(&all(&|step| step[1]))?,
            data_s: median(&all(&|step| step[2]))?,
            queue_s: median(&all(&|step| step[3]))?,
            peak_mb: observed.peak_mb,
        })
    }
}

/// Returns the seconds of a step and their interval: the median of each kind of steps, as often as it
/// was seen; the mean of all kinds with too few, and of all steps where samples vary.
fn typical(observed: &Observed, passes: &[f64]) -> Option<[f64; 3]> {
    let mut kinds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (kind, seconds) in observed.kinds.iter().zip(passes) {
        kinds.entry(*kind).or_default().push(*seconds);
    }
    passes.first()?;
    let varies = observed.varied().is_some();
    if kinds.len() < 2 && !varies {
        let (low, high) = interval(passes)?;
        return Some([median(passes)?, low, high]);
    }
    let (mut sums, mut total) = ([0.0; 3], 0.0);
    let mut add = |weight: f64, values: [f64; 3]| {
        total += weight;
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += weight * value;
        }
    };
    let (mut rest, mut of_rest) = (Vec::new(), 0.0);
    for (kind, seconds) in kinds {
        if varies || seconds.len() < FEWEST {
            rest.extend(seconds);
            of_rest += observed.seen(kind);
        } else {
            let (low, high) = interval(&seconds)?;
            add(observed.seen(kind), [median(&seconds)?, low, high]);
        }
    }
    if !rest.is_empty() {
        let count = rest.len() as f64;
        let mean = rest.iter().sum::<f64>() / count;
        let squares: f64 = rest.iter().map(|s| (s - mean).powi(2)).sum();
        let error = 2.0 * squares.sqrt() / count;
        add(of_rest.max(1.0), [mean, mean - error, mean + error]);
    }
    Some(sums.map(|sum| sum / total))
}

/// Returns the interval of a median by order statistics, which assumes no distribution: the
/// narrowest symmetric pair of values between which it lies with 95 % at least. All values
/// where they are fewer than six.
fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let count = sorted.len();
    let below = Binomial::new(0.5, count as u64).ok()?;
    // Values left out at each end: fewer than that lie below the median with 2.5 % at most.
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let is_left_out = |k: &usize| below.cdf(*k as u64) <= tail;
    let left = (0..count / 2).take_while(is_left_out).last();
    let Some(left) = left else {
        return Some((first, last));
    };
    Some((sorted[left], sorted[count - 1 - left]))
}

/// Lines through the points, and what more threads gain.
pub(super) struct Fitted {
    /// Seconds by samples, on the fewest threads.
    pub(super) time: Line,
    /// MB by samples.
    pub(super) memory: Option<Line>,
    /// Share of a step that more threads speed up.
    pub(super) parallel: Option<f64>,
}

impl Fitted {
    /// Returns the lines; none where a time is not positive. With one batch size memory is what
    /// was there before the first step (`fixed_mb`), and the rest is all of the samples.
    pub(super) fn through(points: &[Point], fixed_mb: Option<f64>) -> Option<Self> {
        let single: Vec<&Point> = points.iter().filter(|p| p.threads == 1).collect();
        let times: Vec<_> = single.iter().map(|p| (p.samples, p.step_s)).collect();
        let memory: Option<Vec<_>> = (points.iter())
            .map(|point| Some((point.samples, point.peak_mb?)))
            .collect();
        let mut memory = memory.and_then(|memory| Line::through(&memory));
        let first = points.first()?;
        if let (Some(line), Some(fixed), true) = (
            &mut memory,
            fixed_mb,
            points.iter().all(|point| point.samples == first.samples),
        ) {
            let peak = line.at(first.samples);
            line.fixed = fixed.min(peak);
            line.per_sample = (peak - line.fixed) / first.samples as f64;
        }
        let largest = single.iter().max_by_key(|point| point.samples)?;
        let same = points.iter().filter(|p| p.samples == largest.samples);
        let many = same.max_by_key(|point| point.threads)?;
        Some(Self {
            time: Line::through(&times)?,
            memory,
            parallel: parallel_share(largest.step_s, many.step_s, many.threads),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn observed(steps: &[f64]) -> Observed {
        Observed {
            steps: steps.iter().map(|s| [s + 0.3, 0.1, 0.2, 0.0]).collect(),
            peak_mb: Some(100.0),
            ..Observed::default()
        }
    }

    /// Every fifth step takes three times as long.
    #[test]
    fn kinds_of_steps_count_as_often_as_they_were_seen() {
        let kind = |step: usize| u64::from(step.is_multiple_of(5));
        let steps = (0..20).map(|step| [1.0, 3.0][kind(step) as usize]);
        let mut observed = observed(&steps.collect::<Vec<f64>>());
        observed.kinds = (0..20).map(kind).collect();
        observed.seen = [(0, 24.0), (1, 6.0)].into();
        let point = Point::of(&observed, 8, 1).unwrap();
        for seconds in [point.step_s, point.low_s, point.high_s] {
            assert!((seconds - 1.4).abs() < 1e-9, "{point:?}");
        }
        // Where samples vary, the mean.
        observed.samples = vec![8.0, 2.0];
        let mean = Point::of(&observed, 5, 1).unwrap().step_s;
        assert!((mean - 1.4).abs() < 1e-9, "{mean}");
        observed.samples.clear();
        // Where each step is of its own kind, their mean.
        observed.kinds = (0..20).collect();
        observed.seen = (0..20).map(|kind| (kind, 1.0)).collect();
        let point = Point::of(&observed, 8, 1).unwrap();
        assert!((point.step_s - 1.4).abs() < 1e-9, "{point:?}");
        assert!(point.low_s < 1.2 && point.high_s > 1.6, "{point:?}");
    }

    #[test]
    fn passes_are_what_optimizer_and_data_leave() {
        let point = Point::of(&observed(&[1.0, 3.0, 2.0]), 8, 1).unwrap();
        assert!((point.step_s - 2.0).abs() < 1e-9, "{point:?}");
        assert!((point.whole_s - 2.3).abs() < 1e-9, "{point:?}");
        // Too few for an interval: all of them.
        assert!((point.low_s - 1.0).abs() < 1e-9 && (point.high_s - 3.0).abs() < 1e-9);
        assert_eq!(Point::of(&observed(&[]), 8, 1), None);
        // Waits for a core are known of one thread only.
        let mut shared = observed(&[1.0, 3.0, 2.0]);
        shared.steps.iter_mut().for_each(|step| step[3] = 0.5);
        assert!((Point::of(&shared, 8, 1).unwrap().step_s - 1.5).abs() < 1e-9);
        assert!((Point::of(&shared, 8, 2).unwrap().step_s - 2.0).abs() < 1e-9);
    }

    /// The published ranks: 6 values are the fewest, and of 10 the second and the ninth.
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let values = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        for (count, low, high) in [(5, 1, 5), (6, 1, 6), (10, 2, 9), (20, 6, 15), (100, 40, 61)] {
            let ranks = (f64::from(low), f64::from(high));
            assert_eq!(interval(&values(count)), Some(ranks), "{count}");
        }
    }

    proptest! {
        #[test]
        fn an_interval_holds_its_median(values in prop::collection::vec(1e-3f64..1e3, 1..200)) {
            let (low, high) = interval(&values).unwrap();
            let middle = median(&values).unwrap();
            prop_assert!(low <= middle && middle <= high);
        }

        #[test]
        fn a_known_program_gives_its_line_back(
            fixed in 0.01f64..2.0, each in 1e-3f64..0.1, parallel in 0.0f64..1.0,
        ) {
            let step = |b: usize| fixed + each * b as f64;
            let mut points: Vec<Point> = [4, 16, 64]
                .map(|b| Point::of(&observed(&[step(b); 7]), b, 1).unwrap())
                .into();
            let many = step(64) * (1.0 - parallel + parallel / 4.0);
            points.push(Point::of(&observed(&[many; 7]), 64, 4).unwrap());
            let fitted = Fitted::through(&points, None).unwrap();
            prop_assert!((fitted.time.at(32) / step(32) - 1.0).abs() < 1e-6);
            prop_assert!((fitted.parallel.unwrap() - parallel).abs() < 1e-6);
            prop_assert!((fitted.memory.unwrap().at(32) - 100.0).abs() < 1e-6);
        }
    }
}
