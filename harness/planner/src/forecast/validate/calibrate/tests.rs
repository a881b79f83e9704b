//! Calibrations towards rows whose constants are known.

use std::path::Path;

use epochcost_experiment::validation_files;
use epochcost_kernels::hash;
use epochcost_simulator::Operation;
use epochcost_simulator::probe;
use epochcost_spec::profiles::misses::Scope;

use super::super::authors::{Own, compared, own};
use super::super::cells::Statistic;
use super::super::file::File;
use super::super::predict::Predictor;
use super::super::score::Compared;
use super::*;

fn base() -> Profile<Constant> {
    profiles::platform(profiles::DEFAULT).unwrap()
}

/// Mean seconds of reads, as they are on `platform`.
fn reads(platform: &Profile<Constant>, sizes: &[u64], series: &str) -> Vec<Row> {
    let read = |(index, bytes): (usize, &u64)| {
        let probe_of = epochcost_simulator::Probe {
            operation: Operation::Get,
            client: ProbeClient::Compiled,
            memory_mb: 1769,
            functions: 1,
            streams: 1,
            bytes: *bytes,
            // Many large reads would use up the network's credit, and show the network alone.
            rounds: if *bytes < 1 << 24 { 200 } else { 1 },
            is_new_connection: false,
        };
        let seed = series.bytes().map(u64::from).fold(index as u64, hash::mix);
        let seconds = probe(&platform.drawn(seed), &probe_of);
        Row {
            series: series.to_owned(),
            what: What::Operation(probe_of),
            statistic: Statistic::Mean,
            measured: Statistic::Mean.of(&seconds),
            place: format!("{series}:{index}"),
            constants: Default::default(),
        }
    };
    sizes.iter().enumerate().map(read).collect()
}

const LATENCY: &str = "object_store.service.request_latency_s";
const STREAM: &str = "object_store.service.stream_bytes_per_s";

/// The platform with a latency and a bandwidth of its own.
fn another(latency: f64, stream: f64) -> Profile<Constant> {
    let mut other = base();
    other.object_store.service.request_latency_s.value *= latency;
    other.object_store.service.stream_bytes_per_s.value *= stream;
    other
}

fn index(fitted: &Fitted, path: &str) -> usize {
    let mut all = fitted.parameters.iter();
    all.position(|parameter| parameter.path == path).unwrap()
}

fn fitted(rows: &[Row]) -> Fitted {
    let (base, prices) = (base(), Prices::shipped().unwrap());
    fit(&base, Parameter::all(&base), rows, &prices, None)
}

/// The paths of the constants that are not what they were.
fn moved(made: &Profile<Constant>) -> BTreeSet<String> {
    let pairs = base().constants().into_iter().zip(made.constants());
    let moved = pairs.filter(|(old, new)| old != new);
    moved.map(|((path, _), _)| path).collect()
}

/// Rows of many days find both constants; one row moves its own less, and ranges narrow by rows.
#[test]
fn constants_move_towards_rows_and_the_more_so_the_more_there_are() {
    let truth = another(1.8, 0.6);
    let mut rows = Vec::new();
    let mut last = [(0.0, f64::INFINITY); 2];
    for day in 0..8 {
        rows.extend(reads(&truth, &[1 << 16, 1 << 28], &format!("day {day}")));
        let fitted = fitted(&rows);
        let found = [(LATENCY, 1.8f64), (STREAM, 0.6)].map(|(path, factor)| {
            let (index, belief) = (index(&fitted, path), &fitted.belief);
            (belief.mean[index] / factor.ln(), belief.deviation(index))
        });
        for ((share, deviation), (_, before)) in found.iter().zip(&last) {
            assert!((0.5..1.15).contains(share), "day {day}: {share}");
            assert!(deviation < before, "day {day}: {deviation} and {before}");
        }
        last = found;
    }
    for (share, deviation) in last {
        assert!((0.9..1.1).contains(&share), "{share}");
        assert!(deviation < 0.1, "{deviation}");
    }
}

/// Objects of one size show a sum, and not what of it is latency.
#[test]
fn sizes_that_do_not_differ_leave_one_constant_as_it_was() {
    let sizes = [6_000_000, 6_200_000, 6_500_000];
    let fitted = fitted(&reads(&another(1.5, 0.7), &sizes, "one day"));
    let confused = fitted.confused.iter();
    let paths: Vec<&str> = confused.map(|one| one.path.as_str()).collect();
    let is_named = paths.contains(&LATENCY) || paths.contains(&STREAM);
    assert!(is_named, "{paths:?}");
    for path in paths {
        assert_eq!(fitted.weight(index(&fitted, path)), 0.0);
    }
    let made = fitted.profile(&base(), INFORMED, |_, constant| constant.clone());
    let moved = moved(&made);
    assert!(moved.contains(LATENCY) != moved.contains(STREAM));
    assert_eq!(made.faults(), []);
}

/// What nothing was measured of stays as it was, to the last bit.
#[test]
fn rows_move_nothing_that_they_do_not_show() {
    let fitted = fitted(&reads(&another(1.5, 1.0), &[1 << 16], "one day"));
    let made = fitted.profile(&base(), INFORMED, |_, constant| constant.clone());
    assert_eq!(moved(&made), BTreeSet::from([LATENCY.to_owned()]));
}

/// Choices of each author's rows, and their numbers.
const CHOICES: u64 = 50;
const SIZES: [usize; 3] = [3, 10, 30];
/// Least number of an author's rows that are left to judge.
const REST: usize = 5;
/// Draws of a range.
const DRAWS: u32 = 40;

/// Scores of some of an author's figures: median error, share covered, median width.
fn score(compared: &[Compared]) -> [f64; 3] {
    let scored = super::super::score::Scored::of(compared).unwrap();
    [
        scored.score.median_error,
        scored.coverage.unwrap(),
        scored.width.unwrap(),
    ]
}

/// Each author's profile from a few of the author's rows, judged on the others: a CSV, on standard output.
#[test]
#[ignore = "takes minutes: results/records has its figures"]
fn calibrated_on_few_rows() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/validation");
    let files = validation_files(&directory).unwrap();
    let files = files.iter().map(|path| File::read(path, None).unwrap());
    let files: Vec<File> = files.collect();
    let (base, prices) = (base(), Prices::shipped().unwrap());
    let all = own(&files).unwrap();
    let is_time = |own: &&Own<'_>| own.row.is_some() && own.cell.scope() != Scope::Spread;
    let authors: BTreeSet<&str> = all.iter().filter(is_time).map(|own| own.author).collect();
    let predictors: Vec<(&File, Predictor)> = (files.iter())
        .map(|file| (file, Predictor::new(file).unwrap()))
        .collect();
    println!(
        "author,rows,rest,choices,error_before,error,error_worst,covered_before,covered,covered_worst,\
         width_before,width"
    );
    for author in authors {
        let own = all.iter().filter(|own| own.author == author);
        let figures: Vec<&Own<'_>> = own.filter(is_time).collect();
        let rows: Vec<Row> = figures.iter().map(|own| own.row.clone().unwrap()).collect();
        let parameters = Parameter::all(&base);
        let lines = linear(&base, &parameters, &rows, &prices, None);
        // Files follow one another, as the figures do.
        let stated = compared(&figures, &predictors, &base, DRAWS).unwrap();
        let sizes = SIZES.into_iter();
        for size in sizes.filter(|size| figures.len() >= size + REST) {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            for choice in 0..CHOICES {
                let mut order: Vec<usize> = (0..rows.len()).collect();
                let seed = hash::mix(hash::mix(43, size as u64), choice);
                order.sort_by_key(|index| hash::mix(seed, *index as u64));
                let (chosen, rest) = order.split_at(size);
                let seen: Vec<Row> = chosen.iter().map(|index| rows[*index].clone()).collect();
                let first = chosen.iter().map(|index| lines[*index].clone()).collect();
                let fitted = fit(&base, parameters.clone(), &seen, &prices, Some(first));
                let made = fitted.profile(&base, INFORMED, |_, constant| constant.clone());
                // In the order of the files, in which comparisons are made.
                let mut rest = rest.to_vec();
                rest.sort_unstable();
                let unseen: Vec<&Own<'_>> = rest.iter().map(|index| figures[*index]).collect();
                let as_stated: Vec<_> = rest.iter().map(|index| stated[*index].clone()).collect();
                before.push(score(&as_stated));
                let compared = compared(&unseen, &predictors, &made, DRAWS);
                after.push(score(&compared.unwrap()));
            }
            let of = |scores: &[[f64; 3]], figure: usize| -> Vec<f64> {
                scores.iter().map(|score| score[figure]).collect()
            };
            let [error, covered, width] =
                [0, 1, 2].map(|figure| [&before, &after].map(|scores| median(of(scores, figure))));
            let error_worst = of(&after, 0).into_iter().fold(0.0, f64::max);
            let covered_worst = of(&after, 1).into_iter().fold(1.0, f64::min);
            println!(
                "{author},{size},{},{CHOICES},{:.3},{:.3},{error_worst:.3},{:.3},{:.3},\
                 {covered_worst:.3},{:.2},{:.2}",
                rows.len() - size,
                error[0],
                error[1],
                covered[0],
                covered[1],
                width[0],
                width[1],
            );
        }
    }
}
