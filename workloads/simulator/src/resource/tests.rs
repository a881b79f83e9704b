#![allow(clippy::unwrap_used)]
use futures_util::future::join_all;
use proptest::prelude::*;

use super::*;

/// Start s, amount, cap.
type Use = (f64, f64, f64);

/// Returns when each of the uses is done, seconds.
fn done(capacity: f64, uses: &[Use]) -> Vec<f64> {
    let engine = Engine::default();
    let resource = Resource::new(&engine, capacity);
    let all = join_all(uses.iter().map(|(start, amount, cap)| {
        let (engine, resource) = (&engine, &resource);
        async move {
            engine.seconds(*start).await;
            resource.consume(*amount, *cap).await;
            engine.now() as f64 * 1e-9
        }
    }));
    engine.run(all).unwrap()
}

fn assert_close(found: &[f64], expected: &[f64]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{found} for {expected}");
    }
}

#[test]
fn users_share_evenly_and_what_is_left_goes_to_the_others() {
    let cases: [(f64, &[Use], &[f64]); 5] = [
        (10.0, &[(0.0, 10.0, 10.0)], &[1.0]),
        // Two at 5 per second; the second goes on alone at 10.
        (10.0, &[(0.0, 10.0, 10.0), (0.0, 15.0, 10.0)], &[2.0, 2.5]),
        // The second arrives when the first has 5 left.
        (10.0, &[(0.0, 10.0, 10.0), (0.5, 5.0, 10.0)], &[1.5, 1.5]),
        // A low cap leaves the rest of its share.
        (10.0, &[(0.0, 2.0, 2.0), (0.0, 8.0, 100.0)], &[1.0, 1.0]),
        // Without a limit every user gets its cap.
        (f64::INFINITY, &[(0.0, 9.0, 3.0); 50], &[3.0; 50]),
    ];
    for (capacity, uses, expected) in cases {
        assert_close(&done(capacity, uses), expected);
    }
}

#[test]
fn a_user_that_leaves_early_leaves_the_rest_to_others() {
    let engine = Engine::default();
    let resource = Resource::new(&engine, 10.0);
    let gives_up = async {
        let long = pin!(resource.consume(100.0, 10.0));
        let patience = pin!(engine.seconds(1.0));
        futures_util::future::select(long, patience).await;
    };
    let stays = async {
        resource.consume(15.0, 10.0).await;
        engine.now() as f64 * 1e-9
    };
    // 5 in the first second, then 10 per second.
    let (_, found) = engine
        .run(futures_util::future::join(gives_up, stays))
        .unwrap();
    assert_close(&[found], &[2.0]);
}

use std::pin::pin;

proptest! {
    /// No user is faster than its cap, all together are no faster than the
    /// capacity, and the capacity is used while there is demand for it.
    #[test]
    fn work_is_conserved(uses in prop::collection::vec(
        (0.0..2.0_f64, 0.1..20.0_f64, prop::sample::select(vec![1.0, 2.5, 7.0])), 1..12,
    )) {
        let found = done(5.0, &uses);
        let total: f64 = uses.iter().map(|(_, amount, _)| amount).sum();
        let last = found.iter().copied().fold(0.0, f64::max);
        prop_assert!(last >= total / 5.0 - 1e-6);
        for ((start, amount, cap), end) in uses.iter().zip(&found) {
            let alone = amount / cap.min(5.0);
            prop_assert!(end - start >= alone - 1e-6);
            prop_assert!(*end <= 2.0 + total / 1.0 + 1e-6);
        }
    }

    /// The classes equal max-min sharing computed flow by flow in small steps of
    /// time.
    #[test]
    fn classes_equal_a_fluid_simulation(uses in prop::collection::vec(
        (0.0..1.0_f64, 0.1..5.0_f64, prop::sample::select(vec![1.0, 2.0, 4.0])), 1..6,
    )) {
        let found = done(4.0, &uses);
        let expected = fluid(4.0, &uses);
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert!((found - expected).abs() < 0.02, "{found} for {expected}");
        }
    }
}

fn fluid(capacity: f64, uses: &[(f64, f64, f64)]) -> Vec<f64> {
    const STEP: f64 = 1e-3;
    let mut left: Vec<f64> = uses.iter().map(|(_, amount, _)| *amount).collect();
    let mut end = vec![f64::NAN; uses.len()];
    let mut now = 0.0;
    while end.iter().any(|end| end.is_nan()) {
        let mut active: Vec<usize> = (0..uses.len())
            .filter(|i| uses[*i].0 <= now && end[*i].is_nan())
            .collect();
        active.sort_by(|a, b| uses[*a].2.total_cmp(&uses[*b].2));
        let mut rest = capacity;
        for (position, i) in active.iter().enumerate() {
            let rate = uses[*i].2.min(rest / (active.len() - position) as f64);
            rest -= rate;
            left[*i] -= rate * STEP;
            if left[*i] <= 0.0 {
                end[*i] = now + STEP;
            }
        }
        now += STEP;
    }
    end
}
