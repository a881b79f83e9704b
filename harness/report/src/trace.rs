//! `trace.json`: a trial of each row in the Trace Event Format, which Perfetto
//! (ui.perfetto.dev) and Chromium (about:tracing) open.
//!
//! A process is a worker, a thread one of its invocations at a time. Slices
//! nest: invocation, step, stage, part of "synchronise". The format is that of
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use epochcost_record::{ResultsError, RunDirectory};
use epochcost_spec::metering::Invocation;
use epochcost_systems::StepRecord;
use serde::Serialize;
use serde_json::{Value, json};

use super::activity::{Call, Worker};
use super::charts::{Labelled, STAGES};
use super::samples::Sample;

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

/// A slice before it becomes an event, which only those that are kept do; whole nanoseconds
/// from the trial's start, so that what nests still nests when it is written.
struct Slice<'a> {
    of: Of<'a>,
    from_ns: i64,
    to_ns: i64,
}

/// What a slice shows.
enum Of<'a> {
    Init,
    Call(&'a Invocation),
    Step(&'a StepRecord),
    Stage(&'static str),
    /// A part of "synchronise".
    Part(&'static str),
}

/// The trace of a run, trial by trial.
pub(super) struct Trace {
    /// Slices of a trial.
    share: usize,
    events: Vec<Event>,
    left_out: Vec<String>,
    /// The last process.
    pid: usize,
}

impl Trace {
    /// Returns the trace of so many trials.
    pub(super) fn of(trials: usize) -> Self {
        Self {
            share: MOST_SLICES / trials.max(1),
            events: Vec::new(),
            left_out: Vec::new(),
            pid: 0,
        }
    }

    /// Writes the file.
    pub(super) fn write(&self, run: &RunDirectory) -> Result<(), ResultsError> {
        run.write("trace.json", self.document(run).as_bytes())
    }

    /// Returns the trace with one event per line: large files stay readable, and
    /// differences small.
    fn document(&self, run: &RunDirectory) -> String {
        let about = json!({
            "run": run.manifest().run_id,
            "platform": run.manifest().platform,
            "times": "from the start of each trial, all trials laid over one another; virtual time where the platform is sim",
            "stages": "inside a step stages follow one another in a fixed order, each as long as its sum over the step",
            "requests": "are counted per step (see the steps' arguments), not recorded one by one",
            "left_out": self.left_out,
        });
        let lines = (self.events.iter()).filter_map(|event| serde_json::to_string(event).ok());
        let lines: Vec<String> = lines.collect();
        let events = lines.join(",\n");
        format!(
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[\n{events}\n]}}\n"
        )
    }

    /// Adds a trial.
    pub(super) fn add(&mut self, labelled: &Labelled<'_>, sample: &Sample<'_>) {
        let workers = &sample.workers;
        let calls = workers.iter().flat_map(Worker::calls);
        let start_s = calls.map(Call::began_s).fold(f64::INFINITY, f64::min);
        let trial = &sample.trial.trial.id;
        let mut slices: Vec<(usize, usize, usize, Slice<'_>)> = Vec::new();
        for worker in workers {
            self.pid += 1;
            let pid = self.pid;
            let name = format!("{}, {}", labelled.name, worker.name());
            self.events.extend(process(pid, name, &trial.to_string()));
            for (lane, calls) in worker.lanes.iter().enumerate() {
                let name = json!({"name": "invocations"});
                self.events
                    .push(metadata("thread_name", pid, lane + 1, name));
                let of_lane = calls.iter().flat_map(|call| of_call(call, start_s));
                let placed = of_lane.enumerate();
                slices.extend(placed.map(|(place, slice)| (pid, lane + 1, place, slice)));
            }
        }
        // Parents come before what they hold: they begin earlier, last longer or were found first.
        let order = |(pid, tid, place, slice): &(usize, usize, usize, Slice<'_>)| {
            (slice.from_ns, *pid, *tid, -slice.to_ns, *place)
        };
        let all = slices.len();
        if all > self.share {
            slices.select_nth_unstable_by_key(self.share, order);
            slices.truncate(self.share);
        }
        slices.sort_unstable_by_key(order);
        if all > slices.len() {
            let until = slices.last().map_or(0, |(_, _, _, slice)| slice.from_ns) as f64 / 1e9;
            let cut = all - slices.len();
            let text = format!("{trial}: {cut} of {all} slices, after {until:.3} s");
            self.left_out.push(text);
        }
        if sample.orphans > 0 {
            let steps = format!("{} steps of no recorded invocation", sample.orphans);
            self.left_out.push(format!("{trial}: {steps}"));
        }
        let events = (slices.into_iter()).map(|(pid, tid, _, slice)| slice.event(pid, tid));
        self.events.extend(events);
    }
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

impl<'a> Slice<'a> {
    fn new(of: Of<'a>, from_ns: i64, to_ns: i64) -> Self {
        Self { of, from_ns, to_ns }
    }

    fn event(self, pid: usize, tid: usize) -> Event {
        let (cat, name, args) = match self.of {
            Of::Init => ("init", "init".into(), Value::Null),
            Of::Call(invocation) => ("invocation", invocation.function.clone(), call(invocation)),
            Of::Step(step) => {
                let batch = (step.batch).map_or(String::new(), |batch| format!(" batch {batch}"));
                let traffic = step.traffic.exchange.total();
                let args = json!({"loss": step.loss, "exchange": traffic});
                ("step", format!("epoch {}{batch}", step.epoch), args)
            }
            Of::Stage(name) => ("stage", name.into(), Value::Null),
            Of::Part(name) => ("synchronise", name.into(), Value::Null),
        };
        Event {
            name,
            ph: "X",
            pid,
            tid,
            cat: Some(cat),
            ts: Some(self.from_ns as f64 / 1e3),
            dur: Some((self.to_ns - self.from_ns) as f64 / 1e3),
            args,
        }
    }
}

fn call(invocation: &Invocation) -> Value {
    json!({
        "request_id": invocation.request_id,
        "cold": invocation.cold,
        "init_ms": invocation.init_ms,
        "billed_ms": invocation.billed_ms,
        "memory_mb": invocation.memory_mb,
        "peak_memory_mb": invocation.peak_memory_mb,
        "error": invocation.error,
    })
}

fn of_call<'a>(call: &Call<'a>, start_s: f64) -> Vec<Slice<'a>> {
    let ns = |at_s: f64| ((at_s - start_s) * 1e9).round() as i64;
    let invocation = call.invocation;
    let (from_ns, to_ns) = (ns(invocation.started_s), ns(invocation.ended_s));
    let mut slices = Vec::new();
    // Init, then the invocation itself.
    if call.init_s() > 0.0 {
        slices.push(Slice::new(Of::Init, ns(call.began_s()), from_ns));
    }
    let end_ns = to_ns.max(from_ns);
    slices.push(Slice::new(Of::Call(invocation), from_ns, end_ns));
    // Steps, one after another: clocks of two processes may differ a little.
    let mut free_ns = from_ns;
    for step in &call.steps {
        let begin_ns = ns(step.started_s).clamp(free_ns, to_ns.max(free_ns));
        free_ns = of_step(step, begin_ns, to_ns.max(begin_ns), &mut slices);
    }
    slices
}

/// Adds the step, its stages, and the parts of "synchronise", none beyond `end_ns`; returns the
/// step's end.
fn of_step<'a>(
    step: &'a StepRecord,
    begin_ns: i64,
    end_ns: i64,
    slices: &mut Vec<Slice<'a>>,
) -> i64 {
    let after = |at_ns: i64, seconds: f64| (at_ns + (seconds * 1e9).round() as i64).min(end_ns);
    let end_ns = after(begin_ns, step.seconds.total());
    slices.push(Slice::new(Of::Step(step), begin_ns, end_ns));
    let mut at_ns = begin_ns;
    for (stage, parts) in STAGES {
        let place = slices.len();
        let stage_from_ns = at_ns;
        for (part, seconds) in parts {
            let to_ns = after(at_ns, seconds(&step.seconds)).min(end_ns);
            if to_ns > at_ns && parts.len() > 1 {
                slices.push(Slice::new(Of::Part(part), at_ns, to_ns));
            }
            at_ns = to_ns;
        }
        if at_ns > stage_from_ns {
            slices.insert(place, Slice::new(Of::Stage(stage), stage_from_ns, at_ns));
        }
    }
    end_ns
}
