//! The Pareto frontier of time against dollars.

/// Returns for each point (seconds, dollars) whether it is on the frontier: no
/// other one is as fast and as cheap, and better in one of the two.
pub(super) fn frontier(points: &[(f64, f64)]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    let key = |index: &usize| points[*index];
    order.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut on = vec![false; points.len()];
    // The cheapest of those that were no slower.
    let mut cheapest: Option<(f64, f64)> = None;
    for index in order {
        let point = points[index];
        on[index] = cheapest.is_none_or(|best| point.1 < best.1 || point == best);
        if on[index] {
            cheapest = Some(point);
        }
    }
    on
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The definition itself, pair by pair.
        #[test]
        fn it_is_what_nothing_dominates(points in prop::collection::vec((0u8..6, 0u8..6), 0..20)) {
            let points: Vec<(f64, f64)> =
                points.iter().map(|(s, d)| (f64::from(*s), f64::from(*d))).collect();
            let beats = |a: &(f64, f64), b: &(f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
            let expected: Vec<bool> =
                points.iter().map(|p| !points.iter().any(|other| beats(other, p))).collect();
            prop_assert_eq!(frontier(&points), expected);
        }
    }
}
