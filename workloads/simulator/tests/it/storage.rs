//! Storage of objects: bytes over time, of what systems keep and of what they delete again.

use epochcost_simulator::Simulated;
use serde_json::json;

use crate::support::*;

const WORKERS: usize = 3;
const STEPS: usize = 7;
const PARAMETERS: usize = 1_000;

/// A GPU baseline on a platform whose requests take no time.
fn gpu_baseline(deletes: bool) -> Simulated {
    let settings = json!({"delete_previous": deletes});
    let job = job("gpu_baseline", WORKERS, STEPS, settings);
    run(&simulation(job, PARAMETERS, &ideal(), 2.0))
}

/// Returns the instants at which steps put their gradients, before they wait for others, and those at
/// which they end, where they delete that of the step before; by step of each worker.
fn changes(simulated: &Simulated) -> Vec<(f64, f64)> {
    let mut changes: Vec<_> = steps(simulated)
        .map(|step| {
            let waited_s = step.seconds.wait + step.seconds.get;
            let ended_s = step.ended_s();
            (step.rank, (ended_s - waited_s, ended_s))
        })
        .collect();
    changes.sort_by(|(a, (at, _)), (b, (then, _))| a.cmp(b).then(at.total_cmp(then)));
    changes.into_iter().map(|(_, change)| change).collect()
}

/// Objects that stay are charged from their PUT to the end of the trial.
#[test]
fn objects_that_stay_count_to_the_end() {
    let simulated = gpu_baseline(false);
    let totals = &simulated.totals;
    let gradient = 4.0 * PARAMETERS as f64;
    let uploaded = totals.traffic.object_bytes_up() as f64;
    assert_eq!(totals.kept.bytes, uploaded);
    let changes = changes(&simulated);
    assert_eq!(changes.len(), WORKERS * STEPS);
    let kept_s: f64 = changes
        .iter()
        .map(|(put_s, _)| simulated.wall_s - put_s)
        .sum();
    let found = totals.kept.byte_s(simulated.wall_s);
    assert_near(found, gradient * kept_s, 1e-6 * found, "byte-seconds");
}

/// An object that the system deletes is charged from its PUT to its DELETE: the gradient of each step
/// but the last to the end of the next one.
#[test]
fn objects_that_are_deleted_count_until_then() {
    let simulated = gpu_baseline(true);
    let totals = &simulated.totals;
    let gradient = 4.0 * PARAMETERS as f64;
    assert_eq!(totals.kept.bytes, WORKERS as f64 * gradient);
    let mut kept_s = 0.0;
    for steps in changes(&simulated).chunks(STEPS) {
        for pair in steps.windows(2) {
            kept_s += pair[1].1 - pair[0].0;
        }
        kept_s += simulated.wall_s - steps[STEPS - 1].0;
    }
    let found = totals.kept.byte_s(simulated.wall_s);
    let expected = gradient * kept_s;
    assert_near(found, expected, 1e-6 * expected, "byte-seconds");
    // Nothing depends on the length of the training but the bytes that stay.
    let later = totals.kept.byte_s(simulated.wall_s + 100.0);
    let more = 100.0 * WORKERS as f64 * gradient;
    assert_near(later - found, more, 1e-3, "byte-seconds of 100 s more");
}
