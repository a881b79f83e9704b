//! How often `compare` is wrong on times that a real machine gave: see
//! `data/recorded_trials.csv`. Nothing is measured here.
use std::collections::BTreeMap;

use epochcost_judge::analysis::comparison::{
    Change, Comparison, Guard, Repeats, RowFigures, Rules, Value,
};
use epochcost_kernels::hash;
use epochcost_spec::claims::Metric;
use epochcost_spec::claims::ratio::independent;

const RULES: Rules = Rules {
    threshold: 0.05,
    repeats: Repeats::Measured,
};

/// Trials of each recorded run.
const RECORDED: usize = 60;

/// Rows whose times vary by about 5 %: a fifth stands out from that.
const QUIET: [&str; 2] = ["spirt-lenet5-paper", "allreduce-lenet5-paper"];

const COLUMNS: [(&str, Metric); 4] = [
    ("seconds_per_epoch", Metric::SecondsPerEpoch),
    ("cost_paper_usd", Metric::CostPaperUsd),
    ("cost_full_usd", Metric::CostFullUsd),
    ("peak_memory_mb", Metric::PeakMemoryMb),
];

/// The figures of a run, row by row: a trial's place is its number.
type Run = BTreeMap<String, Vec<[f64; 4]>>;

fn recorded() -> [Run; 2] {
    let mut runs = [Run::new(), Run::new()];
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_reader(include_bytes!("data/recorded_trials.csv").as_slice());
    for record in reader.deserialize() {
        let record: BTreeMap<String, String> = record.unwrap();
        let run = record["run"].parse::<usize>().unwrap() - 1;
        let figures = COLUMNS.map(|(column, _)| record[column].parse().unwrap());
        let of_row = runs[run].entry(record["row"].clone()).or_default();
        of_row.push(figures);
    }
    for run in &runs {
        assert!(run.len() == 5 && run.values().all(|trials| trials.len() == RECORDED));
    }
    runs
}

/// A run of these trials of a recorded one; times and what is charged for them
/// are multiplied by `slower`.
fn run_of(run: &Run, trials: &[usize], slower: f64) -> Vec<RowFigures> {
    let row = |(id, recorded): (&String, &Vec<[f64; 4]>)| RowFigures {
        id: id.clone(),
        figures: (0..COLUMNS.len())
            .map(|column| {
                let scale = if column < 2 { slower } else { 1.0 };
                let value = |trial: &usize| Value {
                    seed: *trial as u64,
                    value: recorded[*trial][column] * scale,
                };
                (COLUMNS[column].1, trials.iter().map(value).collect())
            })
            .collect(),
    };
    run.iter().map(row).collect()
}

fn compared([before, after]: &Pair) -> Comparison {
    Comparison::of(before, after, &Guard::default(), RULES)
}

fn finds_a_change(comparison: &Comparison) -> bool {
    let mut metrics = comparison.rows.iter().flat_map(|row| &row.metrics);
    metrics.any(|metric| matches!(metric.change, Change::Less | Change::More))
}

fn is_slower(comparison: &Comparison, id: &str) -> bool {
    let row = comparison.rows.iter().find(|row| row.id == id).unwrap();
    let time = row.metrics.first().unwrap();
    (time.metric, time.change) == (Metric::SecondsPerEpoch, Change::More)
}

/// Trials that followed each other, as runs of `n` trials are: what drifts on
/// the machine differs between them.
fn blocks(n: usize) -> Vec<Vec<usize>> {
    let starts = (0..=RECORDED - n).step_by(n);
    starts.map(|start| (start..start + n).collect()).collect()
}

/// `n` trials drawn without replacement.
fn drawn(n: usize, seed: u64) -> Vec<usize> {
    let order = hash::permutation(u32::try_from(RECORDED).unwrap(), seed);
    order[..n].iter().map(|trial| *trial as usize).collect()
}

/// A run, and one that it is compared with.
type Pair = [Vec<RowFigures>; 2];

/// Every run of `n` trials that followed each other beside every other one, of
/// the same recording and of the other.
fn of_blocks(n: usize, slower: f64) -> Vec<Pair> {
    let recorded = recorded();
    let runs: Vec<(usize, Vec<usize>)> = (0..2)
        .flat_map(|run| blocks(n).into_iter().map(move |trials| (run, trials)))
        .collect();
    let mut pairs = Vec::new();
    for one in &runs {
        for other in runs.iter().filter(|other| *other != one) {
            pairs.push([
                run_of(&recorded[one.0], &one.1, 1.0),
                run_of(&recorded[other.0], &other.1, slower),
            ]);
        }
    }
    pairs
}

/// Two hundred pairs of runs of `n` drawn trials, one of each recording.
fn of_draws(n: usize, slower: f64) -> Vec<Pair> {
    let recorded = recorded();
    let pair = |seed: u64| {
        [
            run_of(&recorded[0], &drawn(n, 2 * seed), 1.0),
            run_of(&recorded[1], &drawn(n, 2 * seed + 1), slower),
        ]
    };
    (0..200).map(pair).collect()
}

/// In how many of the pairs something holds, and of how many.
fn count(pairs: &[Pair], holds: impl Fn(&Pair) -> bool) -> (usize, usize) {
    (pairs.iter().filter(|pair| holds(pair)).count(), pairs.len())
}

#[test]
fn runs_of_the_same_thing_are_not_told_apart() {
    for n in [3, 5, 10, 20] {
        for pairs in [of_blocks(n, 1.0), of_draws(n, 1.0)] {
            let (wrong, of) = count(&pairs, |pair| finds_a_change(&compared(pair)));
            assert!(20 * wrong <= of, "{n} trials: {wrong} of {of} differ");
        }
    }
}

#[test]
fn a_fifth_slower_is_found() {
    for pairs in [of_blocks(10, 1.2), of_draws(10, 1.2)] {
        let (found, of) = count(&pairs, |pair| {
            let comparison = compared(pair);
            QUIET.iter().any(|id| is_slower(&comparison, id))
        });
        assert!(20 * found >= 19 * of, "{found} of {of}");
    }
    for id in QUIET {
        for pairs in [of_blocks(20, 1.2), of_draws(20, 1.2)] {
            let (found, of) = count(&pairs, |pair| is_slower(&compared(pair), id));
            assert!(20 * found >= 19 * of, "{id}: {found} of {of}");
        }
    }
}

/// The tests above can fail: judged each by a 95 % interval that only excludes
/// 1, the same recordings look different far too often.
#[test]
fn a_careless_comparison_would_tell_them_apart() {
    let numbers = |values: &[Value]| values.iter().map(|value| value.value).collect::<Vec<_>>();
    let excludes_1 = |[before, after]: [&[Value]; 2]| {
        let ratio = independent(&numbers(before), &numbers(after), 0.0, 0.95);
        ratio.is_some_and(|ratio| ratio.interval[0] > 1.0 || ratio.interval[1] < 1.0)
    };
    let (wrong, of) = count(&of_blocks(10, 1.0), |[before, after]| {
        let rows = before.iter().zip(after);
        let mut metrics =
            rows.flat_map(|(before, after)| before.figures.iter().zip(&after.figures));
        metrics.any(|((_, before), (_, after))| excludes_1([before, after]))
    });
    assert!(20 * wrong > 5 * of, "{wrong} of {of}");
}
