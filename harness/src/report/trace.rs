//! `trace.json`: a trial of each row in the Trace Event Format, which Perfetto
//! (ui.perfetto.dev) and Chromium (about:tracing) open.
//!
//! A process is a worker, a thread one of its invocations at a time. Slices
//! nest: invocation, step, stage, part of "synchronise". The format is that of
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use epochcost_systems::StepRecord;
use serde::Serialize;
use serde_json::{Value, json};

use super::activity::{Call, workers};
use super::charts::{Labelled, STAGES};
use super::samples::Sample;
use crate::results::{ResultsError, RunDirectory};

/// Slices of a file: about 8 MB, which opens at once.
const MOST_SLICES: usize = 40_000;

/// An event; times are microseconds, with three decimals.
#[derive(Debug, Serialize)]
struct Event {
    name: String,
    ph: &'static str,
    pid: usize,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Value::is_null")]
    args: Value,
}

/// A slice before it becomes an event; whole nanoseconds from the trial's start,
/// so that what nests still nests when it is written.
struct Slice {
    name: String,
    cat: &'static str,
    from_ns: i64,
    to_ns: i64,
    args: Value,
}

/// Writes the file.
pub(super) fn write(
    run: &RunDirectory,
    rows: &[Labelled<'_>],
    samples: &[Sample<'_>],
) -> Result<(), ResultsError> {
    run.write("trace.json", document(run, rows, samples).as_bytes())
}

/// Returns the trace with one event per line: large files stay readable, and
/// differences small.
fn document(run: &RunDirectory, rows: &[Labelled<'_>], samples: &[Sample<'_>]) -> String {
    let share = MOST_SLICES / samples.len().max(1);
    let mut events = Vec::new();
    let mut left_out = Vec::new();
    let mut pid = 0;
    for sample in samples {
        let Some(labelled) = rows.get(sample.row) else {
            continue;
        };
        let (found, missing) = of_sample(labelled, sample, &mut pid, share);
        events.extend(found);
        left_out.extend(missing);
    }
    let about = json!({
        "run": run.manifest().run_id,
        "platform": run.manifest().platform,
        "times": "from the start of each trial, all trials laid over one another; virtual time where the platform is sim",
        "stages": "inside a step stages follow one another in a fixed order, each as long as its sum over the step",
        "requests": "are counted per step (see the steps' arguments), not recorded one by one",
        "left_out": left_out,
    });
    let lines: Vec<String> = events
        .iter()
        .filter_map(|event| serde_json::to_string(event).ok())
        .collect();
    format!(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[\n{}\n]}}\n",
        lines.join(",\n")
    )
}

/// Returns the events of one trial, and what was left out of it.
fn of_sample(
    labelled: &Labelled<'_>,
    sample: &Sample<'_>,
    pid: &mut usize,
    share: usize,
) -> (Vec<Event>, Vec<String>) {
    let (workers, orphans) = workers(&sample.trial.invocations, &sample.steps);
    let calls = || {
        workers
            .iter()
            .flat_map(|worker| worker.lanes.iter().flatten())
    };
    let start_s = calls().map(Call::began_s).fold(f64::INFINITY, f64::min);
    let trial = &sample.trial.trial.id;
    let mut names = Vec::new();
    let mut slices: Vec<(usize, usize, Slice)> = Vec::new();
    for worker in &workers {
        *pid += 1;
        let name = format!("{}, {}", labelled.name, worker.name());
        names.extend(process(*pid, name, &trial.to_string()));
        for (lane, calls) in worker.lanes.iter().enumerate() {
            names.push(metadata(
                "thread_name",
                *pid,
                lane + 1,
                json!({"name": "invocations"}),
            ));
            let of_lane = calls.iter().flat_map(|call| of_call(call, start_s));
            slices.extend(of_lane.map(|slice| (*pid, lane + 1, slice)));
        }
    }
    // Parents come before what they hold: they begin earlier or last longer.
    slices.sort_by_key(|(pid, tid, slice)| (slice.from_ns, *pid, *tid, -slice.to_ns));
    let all = slices.len();
    slices.truncate(share);
    let mut left_out = Vec::new();
    if all > slices.len() {
        let until = slices.last().map_or(0, |(_, _, slice)| slice.from_ns) as f64 / 1e9;
        let kept = slices.len();
        left_out.push(format!(
            "{trial}: {} of {all} slices, after {until:.3} s",
            all - kept
        ));
    }
    if orphans > 0 {
        left_out.push(format!(
            "{trial}: {orphans} steps of no recorded invocation"
        ));
    }
    let events = slices
        .into_iter()
        .map(|(pid, tid, slice)| slice.event(pid, tid));
    (names.into_iter().chain(events).collect(), left_out)
}

fn process(pid: usize, name: String, trial: &str) -> [Event; 3] {
    [
        metadata("process_name", pid, 0, json!({"name": name})),
        metadata("process_labels", pid, 0, json!({"labels": trial})),
        metadata("process_sort_index", pid, 0, json!({"sort_index": pid})),
    ]
}

fn metadata(name: &str, pid: usize, tid: usize, args: Value) -> Event {
    Event {
        name: name.into(),
        ph: "M",
        pid,
        tid,
        cat: None,
        ts: None,
        dur: None,
        args,
    }
}

impl Slice {
    fn event(self, pid: usize, tid: usize) -> Event {
        Event {
            name: self.name,
            ph: "X",
            pid,
            tid,
            cat: Some(self.cat),
            ts: Some(self.from_ns as f64 / 1e3),
            dur: Some((self.to_ns - self.from_ns) as f64 / 1e3),
            args: self.args,
        }
    }
}

fn of_call(call: &Call<'_>, start_s: f64) -> Vec<Slice> {
    let ns = |at_s: f64| ((at_s - start_s) * 1e9).round() as i64;
    let invocation = call.invocation;
    let (from_ns, to_ns) = (ns(invocation.started_s), ns(invocation.ended_s));
    let mut slices = Vec::new();
    // Init, then the invocation itself.
    if call.init_s() > 0.0 {
        slices.push(Slice {
            name: "init".into(),
            cat: "init",
            from_ns: ns(call.began_s()),
            to_ns: from_ns,
            args: Value::Null,
        });
    }
    slices.push(Slice {
        name: invocation.function.clone(),
        cat: "invocation",
        from_ns,
        to_ns: to_ns.max(from_ns),
        args: json!({
            "request_id": invocation.request_id,
            "cold": invocation.cold,
            "init_ms": invocation.init_ms,
            "billed_ms": invocation.billed_ms,
            "memory_mb": invocation.memory_mb,
            "peak_memory_mb": invocation.peak_memory_mb,
            "error": invocation.error,
        }),
    });
    // Steps, one after another: clocks of two processes may differ a little.
    let mut free_ns = from_ns;
    for step in &call.steps {
        let begin_ns = ns(step.started_s).clamp(free_ns, to_ns.max(free_ns));
        let of_step = of_step(step, begin_ns, to_ns.max(begin_ns));
        free_ns = of_step.first().map_or(free_ns, |step| step.to_ns);
        slices.extend(of_step);
    }
    slices
}

/// Returns the step, its stages, and the parts of "synchronise", none beyond
/// `end_ns`.
fn of_step(step: &StepRecord, begin_ns: i64, end_ns: i64) -> Vec<Slice> {
    let after = |at_ns: i64, seconds: f64| (at_ns + (seconds * 1e9).round() as i64).min(end_ns);
    let batch = step
        .batch
        .map_or(String::new(), |batch| format!(" batch {batch}"));
    let traffic = step.traffic.exchange.total();
    let mut slices = vec![Slice {
        name: format!("epoch {}{batch}", step.epoch),
        cat: "step",
        from_ns: begin_ns,
        to_ns: after(begin_ns, step.seconds.total()),
        args: json!({"loss": step.loss, "exchange": traffic}),
    }];
    let end_ns = slices[0].to_ns;
    let mut at_ns = begin_ns;
    for (stage, parts) in STAGES {
        let mut inner = Vec::new();
        let stage_from_ns = at_ns;
        for (part, seconds) in parts {
            let to_ns = after(at_ns, seconds(&step.seconds)).min(end_ns);
            if to_ns > at_ns && parts.len() > 1 {
                inner.push(slice(part, "synchronise", at_ns, to_ns));
            }
            at_ns = to_ns;
        }
        if at_ns > stage_from_ns {
            slices.push(slice(stage, "stage", stage_from_ns, at_ns));
            slices.extend(inner);
        }
    }
    slices
}

fn slice(name: &str, cat: &'static str, from_ns: i64, to_ns: i64) -> Slice {
    Slice {
        name: name.into(),
        cat,
        from_ns,
        to_ns,
        args: Value::Null,
    }
}
