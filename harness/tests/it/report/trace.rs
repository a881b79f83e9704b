//! The trace of a run.

use std::collections::BTreeMap;

use super::*;

fn trace(reported: &Reported) -> Vec<Value> {
    let trace = reported.scene.value("trace.json");
    assert_eq!(trace["displayTimeUnit"], "ms");
    items(&trace, "traceEvents").to_vec()
}

/// The fields that the Trace Event Format requires of slices ("X") and of
/// names ("M"), and that slices of a thread nest.
#[test]
fn the_trace_is_one_that_viewers_open() {
    let mut open: BTreeMap<(u64, u64), Vec<f64>> = BTreeMap::new();
    let mut categories = BTreeSet::new();
    let mut processes = BTreeSet::new();
    for event in trace(&Reported::of("[]")) {
        assert!(event["name"].is_string(), "{event}");
        let [process, thread] = ["pid", "tid"].map(|field| event[field].as_u64().unwrap());
        if event["ph"] == "M" {
            let mut names = "process_name process_labels process_sort_index thread_name".split(' ');
            assert!(names.any(|name| event["name"] == name), "{event}");
            assert_eq!(event["args"].as_object().unwrap().len(), 1);
            continue;
        }
        assert_eq!(event["ph"], "X");
        processes.insert(process);
        categories.insert(event["cat"].as_str().unwrap().to_owned());
        let [from, duration] = ["ts", "dur"].map(|field| event[field].as_f64().unwrap());
        assert!(from >= 0.0 && duration >= 0.0, "{event}");
        let stack = open.entry((process, thread)).or_default();
        while stack.last().is_some_and(|end| *end <= from) {
            stack.pop();
        }
        let nests = stack.last().is_none_or(|end| from + duration <= end + 1e-3);
        assert!(nests, "{event}");
        stack.push(from + duration);
    }
    let known = ["init", "invocation", "stage", "step", "synchronise"];
    assert!(categories.iter().eq(known.iter()), "{categories:?}");
    // One a worker of a trial of each row.
    assert_eq!(processes.len(), 5 * 4);
}

#[test]
fn a_trace_of_many_steps_is_cut_and_says_so() {
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
    let reported = Reported::with("[]", &["allreduce"], |outcome, _| {
        let records = outcome.records.iter().cycle().take(12_000).enumerate();
        outcome.records = records.map(short).collect();
    });
    let events = trace(&reported);
    let slices = events.iter().filter(|event| event["ph"] == "X");
    assert_eq!(slices.count(), 40_000);
    let text = reported.read("trace.json");
    let left_out = "\"left_out\":[\"allreduce-paper trial 0: ";
    assert!(text.contains(left_out), "{}", &text[..900]);
}
