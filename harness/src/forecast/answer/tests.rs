#![allow(clippy::unwrap_used)]

use std::path::Path;

use super::*;
use crate::cost::CostModel;
use crate::experiment::{Document, Options};
use crate::forecast::work;
use crate::platform::simulator;

/// A described model on little data: every setting can be simulated whole.
fn experiment(samples: usize, epochs: usize) -> Experiment {
    let text = format!(
        "schema: 1\nname: mine\nplatform: sim\ndataset: {{samples: {samples}, test: 10, \
         bytes_per_sample: 3073}}\nmodels:\n  - {{name: mine, parameters: 2000000, \
         flops_per_sample: 5.0e+8, activation_bytes_per_sample: 1048576}}\nmodel: mine\nworkers: 4\n\
         batch_size: 64\nepochs: {epochs}\nsystems: [scatterreduce, gpu_baseline]\n"
    );
    let document = Document::parse(Path::new("mine.yaml"), text).unwrap();
    let options = Options {
        platform: Some(simulator()),
        keeps_impossible: true,
        ..Options::default()
    };
    Experiment::from_document(document, &options).unwrap()
}

/// Few places, so that a grid is small enough to enumerate.
fn few_sites() -> Vec<Site> {
    let names = [
        "lambda-x86",
        "aws-g4dn.xlarge",
        "aws-g6.12xlarge",
        "modal-t4",
    ];
    let mut sites = places::sites(&names.map(str::to_owned)).unwrap();
    for site in &mut sites {
        site.place.memory_mb.retain(|mb| [1769, 3008].contains(mb));
    }
    sites
}

fn bench<'a>(sites: &'a [Site], stands: &'a Simulation, prices: &'a PriceBook) -> Bench<'a> {
    Bench::new(sites, stands, prices, CostModel::Full)
}

fn goal(deadline_s: Option<f64>, budget_usd: Option<f64>) -> Goal {
    Goal {
        deadline_s,
        budget_usd,
    }
}

fn small_points(experiment: &Experiment, sites: &[Site]) -> Vec<Point> {
    let points = points::points(experiment, sites).unwrap();
    let small = points
        .into_iter()
        .filter(|point| point.row.job.workers <= 8);
    small.collect()
}

/// The search finds what simulating every setting whole finds, though it simulates most of
/// them in part.
#[test]
fn the_search_agrees_with_brute_force() {
    let (experiment, sites) = (experiment(2_560, 2), few_sites());
    let stands = experiment.simulation.clone().unwrap();
    let prices = PriceBook::shipped().unwrap();
    let points = small_points(&experiment, &sites);
    assert!(points.len() > 20, "{}", points.len());
    let bench_all = bench(&sites, &stands, &prices);
    let whole: Vec<Option<Price>> = (points.iter())
        .map(|point| {
            bench_all
                .whole(point, Draw(None))
                .unwrap()
                .ok()
                .map(|f| f.price)
        })
        .collect();
    let known: Vec<Price> = whole.iter().flatten().copied().collect();
    let between = |of: fn(&Price) -> f64, share: f64| {
        let mut values: Vec<f64> = known.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[(share * (values.len() - 1) as f64) as usize]
    };
    for share in [0.0, 0.02, 0.2, 0.5, 0.8, 1.0] {
        // Just above a setting's own figures, so that rounding decides nothing.
        let seconds = between(|p| p.seconds, share) * 1.01;
        let usd = between(|p| p.usd, share) * 1.01;
        for goal in [
            goal(Some(seconds), None),
            goal(None, Some(usd)),
            goal(Some(seconds), Some(usd)),
        ] {
            let mut searched =
                Searched::of(bench(&sites, &stands, &prices), points.clone()).unwrap();
            let all = searched.fits(|_| true);
            let found = searched.settle(goal, &all).unwrap();
            let expected = goal.best(&whole, |_| true);
            let (Some(found), Some(expected)) = (found, expected) else {
                assert_eq!(found, expected, "{goal:?}");
                continue;
            };
            let figures = *searched.found[found].as_ref().unwrap();
            assert!(figures.is_whole);
            assert_eq!(Some(figures.price), whole[found]);
            // As good as the best, but for what a partial simulation may be off by.
            let (own, best) = (figures.price, whole[expected].unwrap());
            let measure = |p: Price| {
                if goal.deadline_s.is_some() {
                    p.usd
                } else {
                    p.seconds
                }
            };
            assert!(
                measure(own) <= measure(best) * 1.02,
                "{goal:?}: {own:?} {best:?}"
            );
        }
    }
}

/// What is carried on from a few mini-batches is what the whole takes.
#[test]
fn partial_simulations_are_carried_on_to_the_whole() {
    let (experiment, sites) = (experiment(6_400, 3), few_sites());
    let stands = experiment.simulation.clone().unwrap();
    let prices = PriceBook::shipped().unwrap();
    let bench = bench(&sites, &stands, &prices);
    for point in small_points(&experiment, &sites) {
        let whole = bench.whole(&point, Draw(None)).unwrap();
        let short = bench.short(&point, Draw(None)).unwrap();
        let what = text::describe(&point, &sites[point.site]);
        let (Ok(whole), Ok(short)) = (&whole, &short) else {
            assert_eq!(whole.is_ok(), short.is_ok(), "{what}: {whole:?} {short:?}");
            continue;
        };
        for (a, b) in [
            (whole.price.seconds, short.price.seconds),
            (whole.price.usd, short.price.usd),
        ] {
            assert!((a - b).abs() <= 0.02 * a, "{what}: {a} and {b}");
        }
    }
}

/// Every setting trains the samples, and one machine alone is among them.
#[test]
fn every_setting_shares_the_work() {
    let (experiment, sites) = (experiment(2_560, 1), few_sites());
    let points = points::points(&experiment, &sites).unwrap();
    let asked = experiment.rows.iter().map(|row| work::samples(&row.job));
    let asked = asked.max().unwrap();
    for point in &points {
        let job = &point.row.job;
        let samples = work::samples(job);
        assert!(samples >= asked && samples < asked + job.workers * job.batch_size);
    }
    let alone = points
        .iter()
        .filter(|point| alone::is_one_machine(&point.row));
    // The places of instances, one of which has four GPUs.
    let devices: Vec<usize> = alone.map(|point| point.row.job.workers).collect();
    assert_eq!(devices, [1, 4, 1]);
    assert!(points.iter().any(|point| point.row.job.system == "ring"));
}

/// Every figure lies in its range, and not at its edge: draws are about the stated values.
#[test]
fn ranges_hold_the_figures_that_they_are_of() {
    let (experiment, sites) = (experiment(2_560, 2), few_sites());
    let stands = experiment.simulation.clone().unwrap();
    let prices = PriceBook::shipped().unwrap();
    let points = small_points(&experiment, &sites);
    let searched = Searched::of(bench(&sites, &stands, &prices), points).unwrap();
    let possible: Vec<usize> = (0..searched.points.len())
        .filter(|index| searched.found[*index].is_ok())
        .collect();
    let draws = ranges::draws(&searched, &possible, 42).unwrap();
    let any = goal(Some(f64::INFINITY), None);
    for index in &possible {
        let choice = searched.choice(*index).unwrap();
        let choice = draws.mark(choice, None, any);
        let ranges = [
            (choice.price.seconds, choice.seconds_range.unwrap()),
            (choice.price.usd, choice.usd_range.unwrap()),
        ];
        for (figure, range) in ranges {
            assert!(
                range.p5 <= figure && figure <= range.p95,
                "{}: {figure} {range:?}",
                choice.what
            );
        }
        // Draws are as fast, too, so that the range was not only stretched to the figure.
        let faster = draws.share_within(*index, |price| price.seconds <= choice.price.seconds);
        assert!(faster >= 0.05, "{}: {faster}", choice.what);
    }
}

/// A goal that allows more never has a worse answer.
#[test]
fn more_time_or_money_never_makes_the_answer_worse() {
    let (experiment, sites) = (experiment(2_560, 2), few_sites());
    let stands = experiment.simulation.clone().unwrap();
    let prices = PriceBook::shipped().unwrap();
    let points = small_points(&experiment, &sites);
    let answer = |goal: Goal| {
        let mut searched = Searched::of(bench(&sites, &stands, &prices), points.clone()).unwrap();
        let all = searched.fits(|_| true);
        let best = searched.settle(goal, &all).unwrap();
        best.map(|best| searched.found[best].as_ref().unwrap().price)
    };
    let steps = [20.0, 60.0, 120.0, 240.0, 900.0, 86_400.0];
    let (mut by_time, mut by_money): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for step in steps {
        by_time.push(answer(goal(Some(step), None)).map(|price| price.usd));
        by_money.push(answer(goal(None, Some(step / 10_000.0))).map(|price| price.seconds));
    }
    for answers in [by_time, by_money] {
        assert!(answers.iter().flatten().count() > 1, "{answers:?}");
        for pair in answers.windows(2) {
            // What was possible stays so, and gets no worse.
            if let Some(before) = pair[0] {
                assert!(pair[1].is_some_and(|after| after <= before), "{answers:?}");
            }
        }
    }
}
