//! One epoch of a trial, invocation by invocation.

use epochcost_spec::format;
use epochcost_systems::{StepRecord, find};

use super::{Chart, Labelled, STAGES, every_size};
use crate::activity::{Call, Worker};
use crate::chart::{Lane, Piece, Span, Timeline, timeline};
use crate::samples::Sample;

/// Lanes of a chart: workers whose functions run in parallel take several.
const MOST_LANES: usize = 96;

/// Charts of a report: enough to compare systems, few enough to stay small.
const MOST_CHARTS: usize = 12;

/// Class and name of what fills an invocation: the stages, and of
/// "synchronise" what was waiting.
const KINDS: [(&str, &str); 7] = [
    ("c1", "fetch dataset"),
    ("c2", "compute gradients"),
    ("c3", "synchronise"),
    ("c4", "update model"),
    ("c5", "detect convergence"),
    ("c3 wait", "waiting"),
    ("init", "init"),
];
const WAIT: usize = 5;
const INIT: usize = 6;

/// A chart for each row of which something was recorded.
#[derive(Default)]
pub(crate) struct Timelines {
    pub(crate) charts: Vec<Chart>,
    /// Rows that were left out.
    pub(crate) left_out: usize,
}

impl Timelines {
    pub(crate) fn add(&mut self, labelled: &Labelled<'_>, sample: &Sample<'_>) {
        match chart(labelled, sample) {
            Some(_) if self.charts.len() == MOST_CHARTS => self.left_out += 1,
            chart => self.charts.extend(chart),
        }
    }
}

fn chart(labelled: &Labelled<'_>, sample: &Sample<'_>) -> Option<Chart> {
    let workers = sample.workers.as_slice();
    let window = Window::of(workers, sample.steps)?;
    let shown = shown(workers, &window);
    let system = find(&labelled.row.planned.row.job.system);
    let coordinators = system.map_or_else(Vec::new, |system| system.deployment().coordinators());
    let lanes = (shown.iter()).flat_map(|worker| lanes(worker, &window, &coordinators));
    let lanes: Vec<Lane> = lanes.collect();
    let caption = caption(labelled, sample, &window, [shown, workers]);
    let id = format!("timeline-{}", sample.row);
    let drawn = Timeline {
        id: &id,
        label: &format!("Invocations of one epoch, {}", labelled.name),
        desc: &caption,
        seconds: window.to - window.from,
        lanes,
        kinds: &KINDS,
        flag: "cold start",
        format: format::seconds,
    };
    let [svg, narrow] = every_size(|size| timeline(&drawn, size))?;
    Some(Chart {
        id: format!("{id}-figure"),
        name: labelled.name.to_owned(),
        title: labelled.name.to_owned(),
        caption,
        svg,
        narrow,
        csv: None,
        system: labelled.system.clone(),
    })
}

/// The stretch from the start of the trial's first invocation to the end of its
/// first epoch's last step. Where most of it would be starting (an instance boots for
/// longer than a short epoch lasts), it begins shortly before the first step.
struct Window {
    epoch: usize,
    /// Start of the first invocation.
    start: f64,
    from: f64,
    to: f64,
}

impl Window {
    fn of(workers: &[Worker<'_>], steps: &[StepRecord]) -> Option<Self> {
        let epoch = steps.iter().map(|step| step.epoch).min()?;
        let of_epoch = || steps.iter().filter(|step| step.epoch == epoch);
        let calls = workers.iter().flat_map(Worker::calls);
        let start = calls.map(Call::began_s).min_by(f64::total_cmp)?;
        let starts = of_epoch().map(|step| step.started_s);
        let first = starts.min_by(f64::total_cmp)?;
        let to = of_epoch().map(StepRecord::ended_s).max_by(f64::total_cmp)?;
        let length = to - first;
        let from = if first - start > length {
            first - 0.1 * length
        } else {
            start
        };
        let window = Self {
            epoch,
            start,
            from,
            to,
        };
        (to > from).then_some(window)
    }

    /// Returns the lanes of a worker of which a call begins before its end.
    fn lanes<'w, 'a>(&self, worker: &'w Worker<'a>) -> impl Iterator<Item = &'w Vec<Call<'a>>> {
        let reaches = |calls: &&Vec<Call<'_>>| calls.iter().any(|call| call.began_s() < self.to);
        worker.lanes.iter().filter(move |calls| reaches(calls))
    }

    fn seconds(&self, at_s: f64) -> f64 {
        (at_s.min(self.to) - self.from).max(0.0)
    }
}

/// Returns the workers of the lowest ranks, as many as there are lanes for; at
/// least one.
fn shown<'a, 'w>(workers: &'w [Worker<'a>], window: &Window) -> &'w [Worker<'a>] {
    let mut lanes = 0;
    let fits = workers.iter().take_while(|worker| {
        lanes += window.lanes(worker).count();
        lanes <= MOST_LANES
    });
    let count = fits.count().max(1).min(workers.len());
    &workers[..count]
}

/// Returns the lanes of a worker that the window reaches. A function that only
/// coordinates (MLLess's supervisor) is named for itself.
fn lanes(worker: &Worker<'_>, window: &Window, coordinators: &[&str]) -> Vec<Lane> {
    let mut name = worker.name();
    let inside = |calls: &Vec<Call<'_>>| -> Lane {
        let calls = calls.iter().filter(|call| call.began_s() < window.to);
        let function = calls.clone().next().map(|call| &call.invocation.function);
        let coordinator = function.filter(|function| coordinators.contains(&function.as_str()));
        Lane {
            name: coordinator.map_or_else(|| std::mem::take(&mut name), String::clone),
            spans: calls.map(|call| span(call, window)).collect(),
        }
    };
    window.lanes(worker).take(MOST_LANES).map(inside).collect()
}

fn span(call: &Call<'_>, window: &Window) -> Span {
    let invocation = call.invocation;
    let mut pieces = Vec::new();
    let mut push = |from: f64, seconds: f64, kind: usize| {
        let (from, to) = (window.seconds(from), window.seconds(from + seconds));
        if to > from {
            pieces.push(Piece { from, to, kind });
        }
    };
    push(call.began_s(), call.init_s(), INIT);
    for step in &call.steps {
        let mut at = step.started_s;
        for (stage, (_, parts)) in STAGES.iter().enumerate() {
            for (name, part) in *parts {
                let seconds = part(&step.seconds);
                push(at, seconds, if *name == "wait" { WAIT } else { stage });
                at += seconds;
            }
        }
    }
    Span {
        from: window.seconds(call.began_s()),
        to: window.seconds(invocation.ended_s),
        flagged: is_cold(call) && call.began_s() >= window.from,
        title: title(call),
        pieces,
    }
}

/// Returns whether its sandbox was started for it, and it is known how long
/// that took.
fn is_cold(call: &Call<'_>) -> bool {
    call.invocation.cold && call.invocation.init_ms.is_some()
}

fn title(call: &Call<'_>) -> String {
    let invocation = call.invocation;
    let batch = invocation.batch;
    let batch = batch.map_or(String::new(), |batch| format!(", batch {batch}"));
    let start = match (invocation.cold, invocation.init_ms) {
        (true, Some(init_ms)) => format!("cold, init {}", format::seconds(init_ms / 1e3)),
        (true, None) => "started anew".into(),
        (false, _) => "warm".into(),
    };
    let (function, worker) = (&invocation.function, call.worker());
    let [ran, billed] = [invocation.duration_ms, invocation.billed_ms as f64];
    let [ran, billed] = [ran, billed].map(|ms| format::seconds(ms / 1e3));
    format!("{function}, {worker}{batch}: {ran}, {start}, billed {billed}")
}

fn caption(
    labelled: &Labelled<'_>,
    sample: &Sample<'_>,
    window: &Window,
    [shown, workers]: [&[Worker<'_>]; 2],
) -> String {
    let what = if labelled.row.on_functions() {
        "invocations"
    } else {
        "instances"
    };
    let alike = |is: &dyn Fn(&Call<'_>) -> bool| -> u64 {
        let calls = shown.iter().flat_map(Worker::calls);
        let calls = calls.filter(|call| call.began_s() < window.to && is(call));
        calls.map(|call| call.invocation.alike).sum()
    };
    let count = |workers: &[Worker<'_>]| -> u64 { workers.iter().map(|one| one.alike).sum() };
    let failed = match sample.trial.trial.failure {
        Some(_) => ", which failed",
        None => "",
    };
    let mut caption = format!(
        "Epoch {} of trial {}{failed}: {} workers, {} {what}, {} cold starts.",
        window.epoch + 1,
        sample.trial.trial.id.trial,
        count(workers),
        alike(&|_| true),
        alike(&is_cold),
    );
    if workers.iter().any(|worker| worker.alike > 1) {
        caption.push_str(" Workers that are alike are drawn once.");
    }
    if shown.len() < workers.len() {
        caption.push_str(&format!(" The first {} workers are drawn.", count(shown)));
    }
    if window.from > window.start {
        let cut = format::seconds(window.from - window.start);
        caption.push_str(&format!(" The {cut} before, of starting, are cut off."));
    }
    caption
}
