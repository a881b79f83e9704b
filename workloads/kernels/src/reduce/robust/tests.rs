//! Known vectors of all rules, and what holds of any vectors.

use proptest::prelude::*;

use super::*;
use crate::error::KernelError;
use crate::reduce::mean;

/// Of ByzFL's unit tests (`tests/unit_test_aggregators.py`, `…_preaggregators.py`).
const THREE: [&[f32]; 3] = [&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], &[7.0, 8.0, 9.0]];

/// Vectors of which four published Krums select four different ones: Blanchard et al.'s
/// the first (score 36), ByzFL's neighbourhood the second, fourth powers the fifth, and
/// distances without squares the third.
const FOUR_KRUMS: [&[f32]; 7] = [
    &[9.0, 3.0],
    &[7.0, 2.0],
    &[8.0, 2.0],
    &[2.0, 9.0],
    &[9.0, 5.0],
    &[1.0, 6.0],
    &[5.0, 6.0],
];

fn near(found: &[f32], expected: &[f32]) -> bool {
    let pairs = found.iter().zip(expected);
    found.len() == expected.len()
        && pairs
            .into_iter()
            .all(|(a, b)| (a - b).abs() <= 1e-5 * b.abs().max(1.0))
}

#[test]
fn known_vectors_of_rules() {
    let centre = [4.0, 5.0, 6.0];
    assert_eq!(mean(&THREE).unwrap(), centre);
    assert_eq!(coordinate_median(&THREE).unwrap(), centre);
    assert_eq!(trimmed_mean(&THREE, 1).unwrap(), centre);
    assert_eq!(centred_clipping(&THREE, None, 100.0, 1).unwrap(), centre);
    let found = geometric_median(&THREE, 3, 0.1).unwrap();
    assert!(
        near(&found, &[3.787_887_6, 4.787_887_6, 5.787_887_6]),
        "{found:?}"
    );
    let mixed = nearest_neighbour_mixing(&THREE, 1).unwrap();
    let low = vec![2.5, 3.5, 4.5];
    assert_eq!(mixed, [low.clone(), low, vec![5.5, 6.5, 7.5]]);
}

#[test]
fn krum_is_that_of_blanchard() {
    assert_eq!(krum_select(&FOUR_KRUMS, 1).unwrap(), 0);
    assert_eq!(multi_krum(&FOUR_KRUMS, 1, 1).unwrap(), FOUR_KRUMS[0]);
    // Scores: 36, 39, 38, 167, 44, 143, 71.
    assert_eq!(multi_krum(&FOUR_KRUMS, 1, 3).unwrap(), [8.0, 7.0 / 3.0]);
    for refused in [krum(&THREE, 1), multi_krum(&THREE, 1, 1)] {
        assert!(matches!(
            refused,
            Err(KernelError::TooManyByzantine { f: 1, vectors: 3 })
        ));
    }
    for kept in [0, 7] {
        assert!(matches!(
            multi_krum(&FOUR_KRUMS, 1, kept),
            Err(KernelError::RobustSetting { .. })
        ));
    }
}

/// n = 5, f = 1: each is scored by its two nearest; scores are 5, 2, 5 for
/// the line 0, 1, 2, and larger for the outliers.
#[test]
fn krum_selects_the_centre_of_the_cluster() {
    let vectors: [&[f32]; 5] = [&[0.0], &[100.0], &[1.0], &[2.0], &[f32::NAN]];
    assert_eq!(krum_select(&vectors, 1).unwrap(), 2);
    assert_eq!(krum(&vectors, 1).unwrap(), [1.0]);
    assert!(matches!(
        krum(&vectors[..4], 1),
        Err(KernelError::TooManyByzantine { f: 1, vectors: 4 })
    ));
}

/// From the centre 0, the first moves by (3, 4) and the other by a tenth of (30, 40).
#[test]
fn clipping_goes_on_from_its_centre() {
    let vectors: [&[f32]; 2] = [&[3.0, 4.0], &[30.0, 40.0]];
    let first = centred_clipping(&vectors, None, 5.0, 1).unwrap();
    assert_eq!(first, [3.0, 4.0]);
    // Now the first stays, and the other moves it by half of 5 along (0.6, 0.8).
    let second = centred_clipping(&vectors, Some(&first), 5.0, 1).unwrap();
    assert_eq!(second, [4.5, 6.0]);
    assert_eq!(centred_clipping(&vectors, None, 5.0, 2).unwrap(), second);
    assert!(centred_clipping(&vectors, Some(&[1.0]), 5.0, 1).is_err());
    assert!(centred_clipping(&vectors, None, 0.0, 1).is_err());
    assert!(centred_clipping(&vectors, None, 1.0, 0).is_err());
}

#[test]
fn a_vector_that_is_not_finite_moves_no_centre() {
    let vectors: [&[f32]; 3] = [&[1.0, 1.0], &[f32::NAN, 0.0], &[f32::INFINITY, 0.0]];
    assert_eq!(geometric_median(&vectors, 3, 0.1).unwrap(), [1.0, 1.0]);
    let clipped = centred_clipping(&vectors, None, 100.0, 1).unwrap();
    assert!(near(&clipped, &[1.0 / 3.0, 1.0 / 3.0]));
    assert!(geometric_median(&vectors[1..], 3, 0.1).is_err());
    let mixed = nearest_neighbour_mixing(&[&[1.0], &[2.0], &[f32::NAN]], 1).unwrap();
    assert_eq!(mixed[..2], [[1.5], [1.5]]);
}

/// Every rule that does not depend on the order of its vectors but for rounding: Krum
/// does where scores are equal.
fn aggregates(vectors: &[&[f32]], f: usize) -> Vec<Vec<f32>> {
    let count = vectors.len();
    let mut all = vec![
        coordinate_median(vectors).unwrap(),
        trimmed_mean(vectors, f).unwrap(),
        geometric_median(vectors, 3, 0.1).unwrap(),
        centred_clipping(vectors, None, 1.0, 3).unwrap(),
    ];
    if 2 * f + 2 < count {
        let mut scores = neighbours::krum_scores(vectors, f).unwrap();
        scores.sort_by(f64::total_cmp);
        // Sums in another order differ in their last bits.
        let are_apart = |pair: &[f64]| pair[1] - pair[0] > 1e-9 * pair[1];
        if scores.windows(2).all(are_apart) {
            all.push(krum(vectors, f).unwrap());
            all.push(multi_krum(vectors, f, count - f).unwrap());
        }
    }
    all
}

fn vectors() -> impl Strategy<Value = Vec<Vec<f32>>> {
    (3_usize..9, 1_usize..20).prop_flat_map(|(count, n)| {
        prop::collection::vec(prop::collection::vec(-9.0_f32..9.0, n), count)
    })
}

proptest! {
    /// Vectors in another order have the same aggregates, to the last few bits.
    #[test]
    fn rules_do_not_depend_on_the_order(rows in vectors(), turn in 0_usize..9, f in 0_usize..2) {
        let mut slices: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let before = aggregates(&slices, f);
        let count = slices.len();
        slices.rotate_left(turn % count);
        for (a, b) in before.iter().zip(aggregates(&slices, f)) {
            prop_assert!(near(a, &b), "{:?} and {:?}", a, b);
        }
    }

    /// Of equal vectors every aggregate is that vector, but for what moves towards it
    /// from 0: it lies between the two.
    #[test]
    fn equal_vectors_are_their_own_aggregate(row in prop::collection::vec(-9.0_f32..9.0, 1..20), count in 5_usize..9) {
        let slices = vec![row.as_slice(); count];
        for f in 0..count.div_ceil(2) - 1 {
            prop_assert!(near(&coordinate_median(&slices).unwrap(), &row));
            prop_assert!(near(&trimmed_mean(&slices, f).unwrap(), &row));
            prop_assert!(near(&geometric_median(&slices, 3, 0.1).unwrap(), &row));
            prop_assert!(near(&centred_clipping(&slices, Some(&row), 1.0, 1).unwrap(), &row));
            prop_assert!(near(&centred_clipping(&slices, None, 100.0, 1).unwrap(), &row));
            for mixed in nearest_neighbour_mixing(&slices, f).unwrap() {
                prop_assert!(near(&mixed, &row));
            }
            if 2 * f + 2 < count {
                prop_assert_eq!(&krum(&slices, f).unwrap(), &row);
                prop_assert!(near(&multi_krum(&slices, f, count - f).unwrap(), &row));
            }
        }
    }

    /// Krum by its definition: the lowest sum of squared distances to the n - f - 2 nearest others.
    #[test]
    fn krum_is_one_of_the_lowest_score(rows in vectors(), f in 0_usize..3) {
        let slices: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let distance = |i: usize, j: usize| -> f64 {
            let pairs = rows[i].iter().zip(&rows[j]);
            pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum()
        };
        let score = |i: usize| -> f64 {
            let others = (0..rows.len()).filter(|j| *j != i);
            let mut distances: Vec<f64> = others.map(|j| distance(i, j)).collect();
            distances.sort_by(f64::total_cmp);
            distances[..rows.len() - f - 2].iter().sum()
        };
        match krum_select(&slices, f) {
            Ok(found) => {
                let lowest = (0..rows.len()).map(score).fold(f64::MAX, f64::min);
                prop_assert!(score(found) <= lowest * (1.0 + 1e-6));
            }
            Err(_) => prop_assert!(2 * f + 2 >= rows.len()),
        }
    }

    /// Where there is nothing to tolerate, rules are the mean or lie among the vectors.
    #[test]
    fn without_faults_rules_are_or_bound_the_mean(rows in vectors()) {
        let slices: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let mean = mean(&slices).unwrap();
        prop_assert!(near(&trimmed_mean(&slices, 0).unwrap(), &mean));
        prop_assert!(near(&multi_krum(&slices, 0, slices.len()).unwrap(), &mean));
        prop_assert!(near(&centred_clipping(&slices, None, 1e6, 1).unwrap(), &mean));
        for mixed in nearest_neighbour_mixing(&slices, 0).unwrap() {
            prop_assert!(near(&mixed, &mean));
        }
        for j in 0..mean.len() {
            let column = || rows.iter().map(|row| row[j]);
            let (low, high) = (column().fold(f32::MAX, f32::min), column().fold(f32::MIN, f32::max));
            let among = low - 1e-4..=high + 1e-4;
            for aggregate in [
                coordinate_median(&slices).unwrap(),
                krum(&slices, 0).unwrap(),
                geometric_median(&slices, 3, 0.1).unwrap(),
            ] {
                prop_assert!(among.contains(&aggregate[j]));
            }
        }
    }

    /// f arbitrary vectors leave median, trimmed mean and Krum within the honest ones.
    #[test]
    fn at_the_bound_coordinates_stay_among_the_honest(
        honest in prop::collection::vec(-1.0_f32..1.0, 4..9),
        wrong in prop::collection::vec(any::<f32>(), 3),
    ) {
        // Median and trimmed mean need n ≥ 2f + 1, Krum n ≥ 2f + 3.
        let f = (honest.len() - 1).min(3);
        let values: Vec<[f32; 1]> = honest.iter().chain(&wrong[..f]).map(|x| [*x]).collect();
        let slices: Vec<&[f32]> = values.iter().map(<[f32; 1]>::as_slice).collect();
        let (low, high) = (
            honest.iter().copied().fold(f32::MAX, f32::min),
            honest.iter().copied().fold(f32::MIN, f32::max),
        );
        let among = low - 1e-5..=high + 1e-5;
        prop_assert!(among.contains(&coordinate_median(&slices).unwrap()[0]));
        prop_assert!(among.contains(&trimmed_mean(&slices, f).unwrap()[0]));
        // Half of the vectors or more are too many for every rule.
        let half = slices.len().div_ceil(2);
        prop_assert!(trimmed_mean(&slices, half).is_err());
        prop_assert!(nearest_neighbour_mixing(&slices, half).is_err());
        prop_assert!(krum(&slices, (slices.len() - 1) / 2).is_err());
    }
}
