//! Activity of a trial: its invocations, worker by worker, each with its steps.
//! Timelines and traces are drawn from this.

use std::collections::BTreeMap;

use epochcost_systems::StepRecord;

use epochcost_spec::metering::Invocation;

/// One worker or peer of a trial, or several that are alike.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    rank: usize,
    /// Workers that are alike, those of the ranks up to its own.
    pub alike: u64,
    /// Calls that do not overlap; a worker whose functions run in parallel has several.
    pub lanes: Vec<Vec<Call<'a>>>,
}

/// One invocation or instance with the steps that it took, by start.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub invocation: &'a Invocation,
    pub steps: Vec<&'a StepRecord>,
}

impl<'a> Worker<'a> {
    /// Returns its name: its rank, or those for which it stands.
    pub(super) fn name(&self) -> String {
        name(self.rank, self.alike)
    }

    /// Returns the calls of all lanes.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Call<'a>> {
        self.lanes.iter().flatten()
    }
}

/// Returns the name of the last of so many workers that are alike.
fn name(rank: usize, alike: u64) -> String {
    match alike {
        1 => format!("worker {rank}"),
        _ => {
            let first = (rank as u64 + 1).saturating_sub(alike);
            format!("workers {first} to {rank}")
        }
    }
}

impl Call<'_> {
    /// Returns the name of its worker, or of those for which it stands.
    pub(super) fn worker(&self) -> String {
        name(self.invocation.rank, self.invocation.alike)
    }

    /// Returns the seconds of init before the invocation's start; 0 where warm
    /// or unknown.
    pub(super) fn init_s(&self) -> f64 {
        self.invocation.init_ms.unwrap_or(0.0) / 1e3
    }

    /// Returns the time at which its sandbox, or else it itself, began to
    /// start.
    pub(super) fn began_s(&self) -> f64 {
        self.invocation.started_s - self.init_s()
    }
}

/// Returns a trial's workers by rank, and how many steps belong to no
/// invocation that was recorded.
pub(super) fn workers<'a>(
    invocations: &'a [Invocation],
    steps: &'a [StepRecord],
) -> (Vec<Worker<'a>>, usize) {
    let call = |invocation| Call {
        invocation,
        steps: Vec::new(),
    };
    let mut calls: Vec<Call<'a>> = invocations.iter().map(call).collect();
    calls.sort_by(|a, b| {
        let start = a.invocation.started_s.total_cmp(&b.invocation.started_s);
        start.then_with(|| a.invocation.request_id.cmp(&b.invocation.request_id))
    });
    let orphans = assign(&mut calls, steps);
    let mut ranks: BTreeMap<usize, Vec<Call<'a>>> = BTreeMap::new();
    for call in calls {
        ranks.entry(call.invocation.rank).or_default().push(call);
    }
    let workers = ranks.into_iter().map(|(rank, calls)| Worker {
        rank,
        alike: (calls.iter().map(|call| call.invocation.alike).max()).unwrap_or(1),
        lanes: lanes(calls),
    });
    (workers.collect(), orphans)
}

/// What calls a step can belong to: those of one function, worker and mini-batch.
type Key<'a> = (&'a str, usize, Option<usize>);

/// Gives each step to the last call of its kind that began before it. Clocks
/// of two processes may differ by a little.
fn assign<'a>(calls: &mut [Call<'a>], steps: &'a [StepRecord]) -> usize {
    const CLOCKS_S: f64 = 0.05;
    let mut places: BTreeMap<Key<'_>, Vec<usize>> = BTreeMap::new();
    for (place, call) in calls.iter().enumerate() {
        let invocation = call.invocation;
        let function = invocation.function.as_str();
        let key = (function, invocation.rank, invocation.batch);
        places.entry(key).or_default().push(place);
    }
    let mut orphans = 0;
    for step in steps {
        let of = |batch| places.get(&(step.function.as_str(), step.rank, batch));
        let Some(places) = of(step.batch).or_else(|| of(None)) else {
            orphans += 1;
            continue;
        };
        let began = |place: &usize| calls[*place].invocation.started_s <= step.started_s + CLOCKS_S;
        let place = places[places.partition_point(began).saturating_sub(1)];
        calls[place].steps.push(step);
    }
    for Call { steps, .. } in calls {
        steps.sort_by(|a, b| a.started_s.total_cmp(&b.started_s));
    }
    orphans
}

/// Spreads a worker's calls over as few lanes as they need.
fn lanes(calls: Vec<Call<'_>>) -> Vec<Vec<Call<'_>>> {
    let mut lanes: Vec<Vec<Call<'_>>> = Vec::new();
    for call in calls {
        let free = lanes.iter_mut().find(|lane| {
            let last = lane.last().map(|last| last.invocation.ended_s);
            last.is_none_or(|ended| ended <= call.began_s())
        });
        match free {
            Some(lane) => lane.push(call),
            None => lanes.push(vec![call]),
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, batch: Option<usize>, started_s: f64, ended_s: f64) -> Invocation {
        serde_json::from_value(serde_json::json!({
            "request_id": id, "host": "function", "function": "f", "rank": 0, "epoch": 0,
            "batch": batch, "sandbox": id, "started_s": started_s, "ended_s": ended_s,
            "cold": true, "init_ms": 500.0, "duration_ms": (ended_s - started_s) * 1e3,
            "billed_ms": 1,
        }))
        .unwrap()
    }

    fn step(batch: Option<usize>, started_s: f64) -> StepRecord {
        StepRecord {
            function: "f".into(),
            alike: 1,
            batch,
            started_s,
            ..StepRecord::default()
        }
    }

    #[test]
    fn parallel_calls_take_lanes_of_their_own() {
        let calls = [
            call("a", Some(0), 1.0, 2.0),
            call("b", Some(1), 1.2, 3.0),
            call("c", None, 2.5, 4.0),
        ];
        let steps = [step(Some(1), 1.3), step(Some(0), 1.1), step(None, 2.6)];
        let (workers, orphans) = workers(&calls, &steps);
        let lanes = &workers[0].lanes;
        let found: Vec<Vec<(&str, usize)>> = (lanes.iter())
            .map(|lane| {
                lane.iter()
                    .map(|call| (&*call.invocation.request_id, call.steps.len()))
            })
            .map(Iterator::collect)
            .collect();
        assert_eq!(found, [vec![("a", 1), ("c", 1)], vec![("b", 1)]]);
        assert_eq!(orphans, 0);
    }

    #[test]
    fn a_step_belongs_to_the_last_call_that_began_before_it() {
        let calls = [call("a", None, 1.0, 9.0), call("b", None, 10.0, 19.0)];
        let mut elsewhere = step(None, 1.0);
        elsewhere.rank = 7;
        let steps = [
            step(Some(3), 12.0),
            step(Some(2), 5.0),
            step(None, 0.99),
            elsewhere,
        ];
        let (workers, orphans) = workers(&calls, &steps);
        let calls = workers[0].lanes[0].iter();
        let counts: Vec<usize> = calls.map(|call| call.steps.len()).collect();
        assert_eq!((counts, orphans), (vec![2, 1], 1));
    }
}
