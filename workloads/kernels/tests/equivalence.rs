//! Ways of computing the same thing give the same bits.

#![allow(clippy::unwrap_used)]

use epochcost_kernels::codec::encode_f32;
use epochcost_kernels::optimizer::{Sgd, mean_sgd_step_bytes};
use epochcost_kernels::reduce::{add_assign, add_assign_bytes, divide, mean, mean_bytes, sum};
use proptest::prelude::*;

/// 1 to 7 vectors of one length, sometimes longer than a block of 4,096.
fn vectors() -> impl Strategy<Value = Vec<Vec<f32>>> {
    let length = prop_oneof![4 => 0usize..70, 1 => 4090usize..4200, 1 => 8190usize..8200];
    (1usize..8, length, any::<u64>()).prop_map(|(workers, n, seed)| {
        (0..workers as u64)
            .map(|rank| (0..n as u64).map(|j| value(seed ^ rank, j)).collect())
            .collect()
    })
}

/// A float of either sign whose magnitude spans six decades, so that rounding
/// depends on the order of additions.
fn value(seed: u64, index: u64) -> f32 {
    use epochcost_kernels::hash::{mix, unit_f32};
    let bits = mix(seed, index);
    let decade = (bits % 7) as i32 - 3;
    (unit_f32(bits) - 0.5) * 10_f32.powi(decade)
}

fn slices<T>(vectors: &[Vec<T>]) -> Vec<&[T]> {
    vectors.iter().map(Vec::as_slice).collect()
}

/// Payloads that begin at an odd address: one byte of padding in front.
fn unaligned(vectors: &[Vec<f32>]) -> Vec<Vec<u8>> {
    let pad = |vector: &Vec<f32>| [&[0xFF][..], &encode_f32(vector)].concat();
    vectors.iter().map(pad).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn adding_in_rank_order_and_dividing_is_the_mean(vectors in vectors()) {
        let mut acc = vectors[0].clone();
        let mut acc_bytes = acc.clone();
        for vector in &vectors[1..] {
            add_assign(&mut acc, vector).unwrap();
            add_assign_bytes(&mut acc_bytes, &encode_f32(vector)).unwrap();
        }
        prop_assert_eq!(bits(&acc), bits(&acc_bytes));
        prop_assert_eq!(bits(&acc), bits(&sum(&slices(&vectors)).unwrap()));
        divide(&mut acc, vectors.len() as f32);
        prop_assert_eq!(bits(&acc), bits(&mean(&slices(&vectors)).unwrap()));
    }

    #[test]
    fn bytes_and_floats_agree(vectors in vectors()) {
        let padded = unaligned(&vectors);
        let payloads: Vec<&[u8]> = padded.iter().map(|bytes| &bytes[1..]).collect();
        let floats = slices(&vectors);
        prop_assert_eq!(bits(&mean_bytes(&payloads).unwrap()), bits(&mean(&floats).unwrap()));
    }

    #[test]
    fn fused_is_unfused(
        vectors in vectors(),
        momentum in prop_oneof![Just(0.0), 0.1f64..1.0],
        weight_decay in prop_oneof![Just(0.0), 1e-5f64..0.1],
        seed: u64
    ) {
        let sgd = Sgd { learning_rate: 0.05, momentum, weight_decay };
        let n = vectors[0].len() as u64;
        let mut unfused: Vec<f32> = (0..n).map(|j| value(seed, j)).collect();
        let mut fused = unfused.clone();
        let (mut v, mut v_fused) = (vec![], vec![]);
        let padded = unaligned(&vectors);
        let payloads: Vec<&[u8]> = padded.iter().map(|bytes| &bytes[1..]).collect();
        for _ in 0..2 {
            let gradient = mean(&slices(&vectors)).unwrap();
            let before = (unfused.clone(), v.clone());
            sgd.step(&mut unfused, &gradient, &mut v).unwrap();
            for (j, stepped) in unfused.iter().enumerate() {
                let velocity = before.1.get(j).copied().unwrap_or(0.0);
                let [w, g, velocity] = [before.0[j], gradient[j], velocity].map(f64::from);
                let terms = [g, weight_decay * w, momentum * velocity];
                let size = w.abs() + terms.map(f64::abs).iter().sum::<f64>();
                let off = f64::from(*stepped) - (w - 0.05 * terms.iter().sum::<f64>());
                prop_assert!(off.abs() <= 1e-6 * size, "{off} of {size}");
            }
            mean_sgd_step_bytes(&sgd, &mut fused, &payloads, &mut v_fused).unwrap();
        }
        prop_assert_eq!(bits(&fused), bits(&unfused));
        prop_assert_eq!(bits(&v_fused), bits(&v));
    }
}
