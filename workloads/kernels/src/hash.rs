//! The deterministic hash behind every pseudo-random choice of an experiment.
//!
//! All functions are total, stateless and platform-independent, so the same
//! numbers can be produced by any language with 64-bit wrapping integers. In
//! Python:
//!
//! ```python
//! M = (1 << 64) - 1
//! GOLDEN = 0x9E3779B97F4A7C15
//!
//! def splitmix64(x):
//!     x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M
//!     x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M
//!     return x ^ (x >> 31)
//!
//! def mix(seed, index):
//!     return splitmix64(seed ^ splitmix64((index + GOLDEN) & M))
//!
//! def unit_f32(x):          # exact in float32
//!     return (x >> 40) / (1 << 24)
//!
//! def permutation(length, seed):
//!     p = list(range(length))
//!     for i in range(length - 1, 0, -1):
//!         j = (mix(seed, i) * (i + 1)) >> 64
//!         p[i], p[j] = p[j], p[i]
//!     return p
//! ```

/// The odd 64-bit integer nearest to 2⁶⁴ / φ, the increment of SplitMix64.
pub const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the SplitMix64 finaliser (Steele, Lea and Flood 2014), a bijection
/// on `u64`.
///
/// The shifts (30, 27, 31) and multipliers are those of "Mix13" of Stafford's
/// search over the MurmurHash3 finaliser. The additive step of the generator is
/// not included: `splitmix64(0)` is 0. Callers add [`GOLDEN_GAMMA`] or use
/// [`mix`].
#[inline]
#[must_use]
pub const fn splitmix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Returns the hash of `index` under `seed`: `splitmix64(seed ^ splitmix64(index
/// + γ))`, the addition wrapping, γ = [`GOLDEN_GAMMA`].
///
/// For a fixed seed it is a bijection of the index, so no two indices collide.
/// Nest it to hash a tuple: `mix(mix(seed, a), b)`.
#[inline]
#[must_use]
pub const fn mix(seed: u64, index: u64) -> u64 {
    splitmix64(seed ^ splitmix64(index.wrapping_add(GOLDEN_GAMMA)))
}

/// Returns a float in `[0, 1)`: the top 24 bits of `x` times 2⁻²⁴, exact in
/// `f32`.
#[inline]
#[must_use]
pub const fn unit_f32(x: u64) -> f32 {
    const SCALE: f32 = 1.0 / (1u32 << 24) as f32;
    (x >> 40) as f32 * SCALE
}

/// Returns a permutation of `0..len` (at most 2³² entries) by Fisher–Yates: for
/// `i` from `len - 1` down to 1, entry `i` is swapped with entry `⌊mix(seed, i)
/// · (i + 1) / 2⁶⁴⌋`.
///
/// The multiply-shift reduction leaves a bias below `len / 2⁶⁴` a draw, far
/// under anything an experiment can see.
#[must_use]
pub fn permutation(len: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..len).collect();
    for i in (1..order.len()).rev() {
        let bound = i as u128 + 1;
        let j = (u128::from(mix(seed, i as u64)) * bound) >> 64;
        order.swap(i, j as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first outputs of the reference generator seeded with 0 (its state
    /// advances by γ before each finalisation).
    #[test]
    fn splitmix64_matches_the_reference_generator() {
        let outputs: Vec<u64> = (1..=3)
            .map(|i| splitmix64(GOLDEN_GAMMA.wrapping_mul(i)))
            .collect();
        assert_eq!(
            outputs,
            [
                0xE220_A839_7B1D_CDAF,
                0x6E78_9E6A_A1B9_65F4,
                0x06C4_5D18_8009_454F
            ]
        );
    }

    /// Values printed by the Python of the module documentation.
    #[test]
    fn mix_and_permutation_match_the_documented_python() {
        assert_eq!(
            [mix(7, 0), mix(7, 1), mix(7, 2)],
            [
                0x0349_E02B_958F_63AF,
                0xB3F2_E391_EE2A_B8A6,
                0x2D62_16D6_EA9E_69F0
            ]
        );
        assert_eq!(permutation(10, 42), [0, 2, 8, 5, 3, 1, 4, 9, 7, 6]);
    }

    #[test]
    fn unit_f32_spans_the_half_open_interval() {
        assert_eq!(unit_f32(0), 0.0);
        assert_eq!(unit_f32(1 << 63), 0.5);
        assert!(unit_f32(u64::MAX) < 1.0);
    }

    proptest! {
        #[test]
        fn permutation_holds_every_index_once(len in 0u32..2000, seed: u64) {
            let mut order = permutation(len, seed);
            order.sort_unstable();
            prop_assert!(order.into_iter().eq(0..len));
        }

        #[test]
        fn permutation_depends_on_the_seed_alone(seed: u64) {
            prop_assert_eq!(permutation(64, seed), permutation(64, seed));
            prop_assert_ne!(permutation(64, seed), permutation(64, seed ^ 1));
        }

        #[test]
        fn mix_separates_indices(seed: u64, a: u64, b: u64) {
            prop_assert_eq!(mix(seed, a) == mix(seed, b), a == b);
        }
    }
}
