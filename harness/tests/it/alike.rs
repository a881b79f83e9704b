//! Workers that are alike are written once: figures of them are those of each written out.

use std::iter::repeat_n;

use epochcost_judge::analysis::TrialAnalysis;
use epochcost_record::RunDirectory;
use epochcost_spec::claims::Metric;
use epochcost_spec::cost::Rates;
use epochcost_spec::metering::Invocation;
use epochcost_systems::{StepRecord, find};

use crate::support::{Scene, sized};

const WORKERS: usize = 300;

const EXPERIMENT: &str = "\
workers: 300
batches_per_worker: 2
epochs: 2
evaluate: last
trials: 1
simulation: {profile: aws-us-east-1-2024, compute: [stated-flops], limits: false}
systems:
  - {name: scatterreduce, system: scatterreduce, settings: {finds_by: name}}
  - {name: spirt, system: spirt}
  - {name: mlless, system: mlless}
  - {name: gpu-baseline, system: gpu_baseline}
  - {name: p2p, system: p2p}
  - {name: p2p-lambda, system: p2p_lambda}
";

/// Returns a step for each of the workers for which one stands.
fn steps_of_each(step: &StepRecord) -> impl Iterator<Item = StepRecord> {
    (0..step.alike).map(move |before| StepRecord {
        rank: step.rank - before as usize,
        alike: 1,
        ..step.clone()
    })
}

/// Returns an invocation for each of those for which one stands.
fn calls_of_each(call: &Invocation) -> impl Iterator<Item = Invocation> {
    (0..call.alike).map(move |before| Invocation {
        request_id: format!("{}-{before}", call.request_id),
        rank: call.rank - before as usize,
        alike: 1,
        ..call.clone()
    })
}

#[test]
fn figures_of_workers_that_are_alike_are_those_of_each_of_them() {
    let scene = Scene::of("x.yaml", &sized(EXPERIMENT));
    scene.run("run x.yaml --out run").ends(0);
    let run = RunDirectory::open_whole(&scene.file("run")).unwrap();
    let (calls, mut checked) = (run.invocations().unwrap(), 0);
    for trial in run.trials().unwrap() {
        let planned = run.rows().iter().find(|row| row.row.id == trial.id.row);
        let row = &planned.unwrap().row;
        let analyse = |calls: Vec<Invocation>, steps: &[StepRecord]| {
            let (trial, prices, rates) = (trial.clone(), run.prices(), Rates::default());
            TrialAnalysis::new(row, trial, calls, steps, prices, rates, None).unwrap()
        };
        let once = run.steps(&trial).unwrap();
        let calls = calls.iter().filter(|call| call.trial == trial.id);
        let calls: Vec<Invocation> = calls.map(|call| call.invocation.clone()).collect();
        let each: Vec<StepRecord> = once.iter().flat_map(steps_of_each).collect();
        let calls_of_each: Vec<Invocation> = calls.iter().flat_map(calls_of_each).collect();
        // It is about something: few steps stand for many.
        assert!(once.len() * 4 < each.len(), "{}: {}", row.id, once.len());
        // The closed form reads steps, too.
        let system = find(&row.job.system).unwrap();
        let bound = system.bind(&row.job).unwrap();
        let steps = once.iter();
        let weighed = steps.flat_map(|step| repeat_n(step, step.alike as usize));
        let form = |steps: Vec<&StepRecord>| bound.traffic_of(row.sizes(), &steps).ok();
        let weighed = form(weighed.collect());
        assert_eq!(weighed, form(each.iter().collect()), "{}", row.id);
        let [once, each] = [analyse(calls, &once), analyse(calls_of_each, &each)];
        assert_eq!(once.traffic, each.traffic, "{}", row.id);
        assert_eq!(once.calls(), each.calls());
        assert_eq!(once.cold_starts(), each.cold_starts());
        for metric in Metric::ALL {
            let [a, b] = [&once, &each].map(|trial| trial.metric(metric, &row.job));
            let is_same = match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * b.abs(),
                (a, b) => a == b,
            };
            assert!(is_same, "{} {}: {a:?}, {b:?}", row.id, metric.name());
            checked += usize::from(a.is_some());
        }
        let is_first =
            |call: &&Invocation| call.epoch == 0 && call.batch.is_none_or(|batch| batch == 0);
        let first = once.invocations.iter().filter(is_first);
        let workers: u64 = first.map(|call| call.alike).sum();
        assert!(workers >= WORKERS as u64, "{}: {workers}", row.id);
    }
    assert!(checked > 150, "{checked} figures");
}
