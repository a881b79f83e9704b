//! The known vectors of robust means in every store, Lua's included.

use std::sync::Arc;

use epochcost_channels::memory::MemoryTensors;
use epochcost_channels::{RobustMean, RobustRule, TensorStore};

use super::tensors::backends;
use super::{keys, stored, vector};

const MEDIAN: RobustRule = RobustRule::CoordinateMedian;
const GEOMETRIC: RobustRule = RobustRule::GeometricMedian {
    iterations: 3,
    smoothing: 0.1,
};

fn clipped(radius: f32) -> RobustRule {
    RobustRule::CentredClipping {
        radius,
        iterations: 1,
    }
}

fn mixed(faulty: usize, rule: RobustRule) -> RobustMean {
    RobustMean {
        mixed: Some(faulty),
        rule,
    }
}

async fn fill(store: &TensorStore, vectors: &[&[f32]]) -> Vec<String> {
    let names: Vec<String> = (0..vectors.len()).map(|i| format!("x{i}")).collect();
    for (name, values) in names.iter().zip(vectors) {
        store.set(name, vector(values)).await.unwrap();
    }
    names
}

async fn robust(store: &TensorStore, mean: RobustMean, sources: &[String]) -> Vec<f32> {
    store.robust_mean("r", mean, sources).await.unwrap();
    let found = stored(store, "r").await;
    store.delete(&keys(&["r"])).await.unwrap();
    found
}

fn near(found: &[f32], expected: &[f32]) -> bool {
    let pairs = found.iter().zip(expected);
    found.len() == expected.len() && pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5)
}

/// Expected values: ByzFL's unit tests; Krum is Blanchard et al.'s, which refuses three.
#[tokio::test]
async fn known_vectors_of_rules() {
    for backend in backends().await {
        let (name, store) = (backend.name, &backend.store);
        let three = fill(
            store,
            &[&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], &[7.0, 8.0, 9.0]],
        )
        .await;
        for (mean, expected) in [
            (MEDIAN.into(), [4.0, 5.0, 6.0]),
            (RobustRule::TrimmedMean { trim: 1 }.into(), [4.0, 5.0, 6.0]),
            (clipped(100.0).into(), [4.0, 5.0, 6.0]),
            (GEOMETRIC.into(), [3.787_887_6, 4.787_887_6, 5.787_887_6]),
            // Of (2.5, 3.5, 4.5) twice and (5.5, 6.5, 7.5).
            (mixed(1, MEDIAN), [2.5, 3.5, 4.5]),
            (
                mixed(1, RobustRule::TrimmedMean { trim: 0 }),
                [3.5, 4.5, 5.5],
            ),
        ] {
            let found = robust(store, mean, &three).await;
            assert!(near(&found, &expected), "{name} {mean:?}: {found:?}");
        }
        let krum = RobustRule::Krum { faulty: 1 };
        let multi_krum = RobustRule::MultiKrum { faulty: 1, kept: 2 };
        for refused in [krum.into(), multi_krum.into(), mixed(2, MEDIAN)] {
            let done = store.robust_mean("r", refused, &three).await;
            assert!(done.is_err(), "{name} {refused:?}");
        }
        assert_eq!(store.get("r").await.unwrap(), None, "{name}");
    }
}

/// What is not a number is above all numbers, also where a processor made it negative.
#[tokio::test]
async fn the_sign_of_a_nan_decides_nothing() {
    for backend in backends().await {
        let (name, store) = (backend.name, &backend.store);
        for nan in [f32::NAN, -f32::NAN] {
            let sources = fill(store, &[&[nan], &[1.0], &[4.0], &[nan], &[2.0]]).await;
            for rule in [MEDIAN, RobustRule::TrimmedMean { trim: 2 }] {
                let found = robust(store, rule.into(), &sources).await;
                assert_eq!(found, [4.0], "{name} {rule:?} {nan}");
            }
        }
    }
}

/// Four published Krums select four different vectors of these.
#[tokio::test]
async fn krum_is_that_of_blanchard() {
    let seven: [&[f32]; 7] = [
        &[9.0, 3.0],
        &[7.0, 2.0],
        &[8.0, 2.0],
        &[2.0, 9.0],
        &[9.0, 5.0],
        &[1.0, 6.0],
        &[5.0, 6.0],
    ];
    for backend in backends().await {
        let (name, store) = (backend.name, &backend.store);
        let sources = fill(store, &seven).await;
        let krum = RobustRule::Krum { faulty: 1 };
        assert_eq!(
            robust(store, krum.into(), &sources).await,
            seven[0],
            "{name}"
        );
        let three = RobustRule::MultiKrum { faulty: 1, kept: 3 };
        let found = robust(store, three.into(), &sources).await;
        assert!(near(&found, &[8.0, 7.0 / 3.0]), "{name} {found:?}");
    }
}

/// The centre of clipping is what the destination holds.
#[tokio::test]
async fn clipping_goes_on_from_its_destination() {
    for backend in backends().await {
        let (name, store) = (backend.name, &backend.store);
        let sources = fill(store, &[&[3.0, 4.0], &[30.0, 40.0]]).await;
        for expected in [[3.0, 4.0], [4.5, 6.0]] {
            let done = store.robust_mean("v", clipped(5.0).into(), &sources).await;
            done.unwrap();
            let found = stored(store, "v").await;
            assert!(near(&found, &expected), "{name} {found:?}");
        }
        store.set("v", vector(&[1.0])).await.unwrap();
        let done = store.robust_mean("v", clipped(5.0).into(), &sources).await;
        assert!(done.is_err(), "{name}");
    }
}

/// Lua's f64 arithmetic is near the kernels', also with values that are not finite.
#[tokio::test]
async fn every_store_is_near_the_kernels() {
    const LENGTH: usize = 130;
    let number = |i: usize, j: usize| ((i * 37 + j * 101 + i * j * 13) % 97) as f32 / 50.0 - 1.0;
    let mut vectors: Vec<Vec<f32>> = (0..9)
        .map(|i| (0..LENGTH).map(|j| number(i, j)).collect())
        .collect();
    vectors[4] = vec![f32::NAN; LENGTH];
    vectors[6] = vec![f32::INFINITY; LENGTH];
    let vectors: Vec<&[f32]> = vectors.iter().map(Vec::as_slice).collect();
    let kernels = TensorStore::new(Arc::new(MemoryTensors::default()));
    fill(&kernels, &vectors).await;
    for backend in backends().await {
        let (name, store) = (backend.name, &backend.store);
        let sources = fill(store, &vectors).await;
        for rule in [
            MEDIAN,
            RobustRule::TrimmedMean { trim: 2 },
            RobustRule::Krum { faulty: 2 },
            RobustRule::MultiKrum { faulty: 2, kept: 5 },
            GEOMETRIC,
            clipped(0.5),
        ] {
            let expected = robust(&kernels, rule.into(), &sources).await;
            let found = robust(store, rule.into(), &sources).await;
            assert!(expected.iter().all(|x| x.is_finite()), "{rule:?}");
            assert!(near(&found, &expected), "{name} {rule:?}");
        }
    }
}
