//! The trace of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use epochcost_record::RunDirectory;
use epochcost_systems::{Record, StageSeconds};

use super::analysed;
use crate::fixture;

fn trace(run: &RunDirectory) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(run.path().join("trace.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(trace["displayTimeUnit"], "ms");
    trace["traceEvents"].as_array().unwrap().clone()
}

/// The fields that the Trace Event Format requires of slices ("X") and of
/// names ("M"), and that slices of a thread nest.
#[test]
fn the_trace_is_one_that_viewers_open() {
    let directory = tempfile::tempdir().unwrap();
    let run = fixture::finished(directory.path(), "[]");
    analysed(&run);
    let mut open: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    let mut categories = BTreeSet::new();
    let mut processes = BTreeSet::new();
    for event in trace(&run) {
        assert!(event["name"].is_string(), "{event}");
        let thread = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
        );
        if event["ph"] == "M" {
            let names = [
                "process_name",
                "process_labels",
                "process_sort_index",
                "thread_name",
            ];
            assert!(names.iter().any(|name| event["name"] == *name), "{event}");
            assert_eq!(event["args"].as_object().unwrap().len(), 1);
            continue;
        }
        assert_eq!(event["ph"], "X");
        processes.insert(thread.0);
        categories.insert(event["cat"].as_str().unwrap().to_owned());
        let (from, duration) = (
            event["ts"].as_f64().unwrap(),
            event["dur"].as_f64().unwrap(),
        );
        assert!(from >= 0.0 && duration >= 0.0, "{event}");
        let stack = open.entry(thread).or_default();
        while stack.last().is_some_and(|end| *end <= from) {
            stack.pop();
        }
        assert!(
            stack.last().is_none_or(|end| from + duration <= end + 1e-3),
            "{event}"
        );
        stack.push(from + duration);
    }
    let known = ["init", "invocation", "stage", "step", "synchronise"];
    assert!(categories.iter().eq(known.iter()), "{categories:?}");
    assert_eq!(
        processes.len(),
        5 * 4,
        "one a worker of a trial of each row"
    );
}

#[test]
fn a_trace_of_many_steps_is_cut_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let run = RunDirectory::create(Some(directory.path()), fixture::new_run("[]", 1)).unwrap();
    let plan = fixture::plan("allreduce", 0);
    let mut outcome = fixture::outcome(&plan, 1.0);
    let short = |(i, record): (usize, &Record)| {
        let mut record = record.clone();
        if let Record::Step(step) = &mut record {
            step.started_s = 1000.0 + i as f64 * 1e-3;
            step.seconds = StageSeconds {
                compute_gradients: 4e-4,
                put: 1e-4,
                get: 1e-4,
                ..StageSeconds::default()
            };
        }
        record
    };
    let records = outcome.records.iter().cycle().take(12_000).enumerate();
    outcome.records = records.map(short).collect();
    run.append_trial(&plan, &outcome).unwrap();
    analysed(&run);
    let slices = trace(&run)
        .iter()
        .filter(|event| event["ph"] == "X")
        .count();
    assert_eq!(slices, 40_000);
    let text = fs::read_to_string(run.path().join("trace.json")).unwrap();
    assert!(
        text.contains("\"left_out\":[\"allreduce-paper trial 0: "),
        "{}",
        &text[..900]
    );
}
