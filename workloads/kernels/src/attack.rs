//! Vectors that a Byzantine worker sends instead of its gradient.
//!
//! Attacks that know the honest vectors take them as an argument; where a formula has
//! a mean or a standard deviation, it is that of each coordinate over these vectors.
//! Sums are f64, results are rounded to f32 once.

use crate::error::KernelError;
use crate::hash;
use crate::reduce::common_length;

/// Upper end of the search for the factor of [`min_max`], and its precision, as
/// Blades has them (Li et al. 2023, `minmax_adversary.py`).
const MOST_FACTOR: f64 = 5.0;
const FACTOR_PRECISION: f64 = 0.01;

/// Returns `factor` times the mean of `vectors`: with a factor of −1 the sign flip, with
/// −ε inner-product manipulation (Xie et al. 2019).
///
/// # Errors
/// [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`].
pub fn scaled_mean(vectors: &[&[f32]], factor: f64) -> Result<Vec<f32>, KernelError> {
    let moments = Moments::of(vectors)?;
    let scaled = moments.mean.iter().map(|mean| (factor * mean) as f32);
    Ok(scaled.collect())
}

/// Returns mean + `z` · standard deviation ("a little is enough", Baruch et al. 2019).
/// The standard deviation divides by n − 1, as ByzFL's code does; of one vector it is 0.
///
/// # Errors
/// Those of [`scaled_mean`].
pub fn little_is_enough(vectors: &[&[f32]], z: f64) -> Result<Vec<f32>, KernelError> {
    Ok(Moments::of(vectors)?.shifted(z))
}

/// Returns the z of [`little_is_enough`] for `attackers` of `workers`: the largest at
/// which a majority still lies farther from the mean (Baruch et al. 2019, algorithm 3).
/// Where there is none, or only a negative one, it is 0.
#[must_use]
pub fn little_is_enough_z(workers: usize, attackers: usize) -> f64 {
    let honest = workers.saturating_sub(attackers);
    let supporters = (workers / 2 + 1).saturating_sub(attackers);
    if honest == 0 || supporters == 0 || supporters >= honest {
        return 0.0;
    }
    normal_quantile((honest - supporters) as f64 / honest as f64).max(0.0)
}

/// Returns mean − γ · standard deviation with the largest γ at which the result is no
/// farther from any of `vectors` than these are from each other (Shejwalkar and
/// Houmansadr 2021, "min-max"), by bisection on 0 to 5 down to 0.01.
///
/// # Errors
/// Those of [`scaled_mean`].
pub fn min_max(vectors: &[&[f32]]) -> Result<Vec<f32>, KernelError> {
    let moments = Moments::of(vectors)?;
    let mut most = 0.0_f64;
    for (i, a) in vectors.iter().enumerate() {
        for b in &vectors[i + 1..] {
            most = most.max(squared_distance(a, b));
        }
    }
    let is_hidden = |factor: f64| {
        let sent = moments.shifted(-factor);
        vectors
            .iter()
            .all(|vector| squared_distance(&sent, vector) <= most)
    };
    let (mut low, mut high) = (0.0, MOST_FACTOR);
    while high - low > FACTOR_PRECISION {
        let middle = f64::midpoint(low, high);
        if is_hidden(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(moments.shifted(-low))
}

/// Returns `len` draws from the normal distribution of mean 0 and `deviation`, a
/// function of the seed (Box and Muller 1958).
#[must_use]
pub fn gaussian(len: usize, deviation: f64, seed: u64) -> Vec<f32> {
    let unit = |index: u64| f64::from(hash::unit_f32(hash::mix(seed, index)));
    let draw = |index: usize| {
        let pair = index as u64 / 2 * 2;
        // 1 − u lies in (0, 1], whose logarithm is finite.
        let radius = (-2.0 * (1.0 - unit(pair)).ln()).sqrt();
        let angle = std::f64::consts::TAU * unit(pair + 1);
        let value = if index.is_multiple_of(2) {
            angle.cos()
        } else {
            angle.sin()
        };
        (deviation * radius * value) as f32
    };
    (0..len).map(draw).collect()
}

/// Mean and standard deviation of each coordinate.
struct Moments {
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

impl Moments {
    fn of(vectors: &[&[f32]]) -> Result<Self, KernelError> {
        let n = common_length("attack", vectors)?;
        let count = vectors.len() as f64;
        let column = |j: usize| vectors.iter().map(move |vector| f64::from(vector[j]));
        let mean: Vec<f64> = (0..n).map(|j| column(j).sum::<f64>() / count).collect();
        let spread = |j: usize| column(j).map(|x| (x - mean[j]).powi(2)).sum::<f64>();
        let freedom = (count - 1.0).max(1.0);
        let deviation = (0..n).map(|j| (spread(j) / freedom).sqrt()).collect();
        Ok(Self { mean, deviation })
    }

    fn shifted(&self, z: f64) -> Vec<f32> {
        let pairs = self.mean.iter().zip(&self.deviation);
        pairs
            .map(|(mean, deviation)| (mean + z * deviation) as f32)
            .collect()
    }
}

fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    let pairs = a.iter().zip(b);
    pairs
        .map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2))
        .sum()
}

/// Returns the z at which the standard normal distribution function is `probability`,
/// by bisection.
fn normal_quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if normal_distribution(middle) < probability {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Φ(x) = 1/2 + φ(x) · (x + x³/3 + x⁵/(3·5) + …), Marsaglia 2004.
fn normal_distribution(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    0.5 + density * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTORS: [&[f32]; 3] = [&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], &[7.0, 8.0, 9.0]];

    /// Expected values: ByzFL, `tests/unit_test_attacks.py`.
    #[test]
    fn known_vectors_of_attacks() {
        assert_eq!(scaled_mean(&VECTORS, -1.0).unwrap(), [-4.0, -5.0, -6.0]);
        assert_eq!(scaled_mean(&VECTORS, -2.0).unwrap(), [-8.0, -10.0, -12.0]);
        assert_eq!(little_is_enough(&VECTORS, 1.5).unwrap(), [8.5, 9.5, 10.5]);
    }

    /// Of Baruch et al.'s formula, and of 2 of 10 no attack is left.
    #[test]
    fn known_factors_of_little_is_enough() {
        for (workers, attackers, z) in [
            (25, 5, 0.253_35),
            (12, 3, 0.139_71),
            (50, 12, 0.336_04),
            (10, 2, 0.0),
        ] {
            let found = little_is_enough_z(workers, attackers);
            assert!((found - z).abs() < 1e-5, "{workers}, {attackers}: {found}");
        }
        assert_eq!(little_is_enough_z(4, 4), 0.0);
        assert_eq!(little_is_enough_z(12, 1), 0.0);
        assert_eq!(little_is_enough_z(4, 3), 0.0);
    }

    #[test]
    fn min_max_stays_within_the_spread_of_the_vectors() {
        let sent = min_max(&VECTORS).unwrap();
        // The spread is 2·√27; the mean less γ·3 a coordinate is farthest from the last.
        let gamma = f64::from(4.0 - sent[0]) / 3.0;
        assert!((0.98..=1.0).contains(&gamma), "{gamma}");
        assert_eq!(min_max(&VECTORS[..1]).unwrap(), VECTORS[0]);
    }

    #[test]
    fn noise_has_its_moments_and_its_seed() {
        let noise = gaussian(40_000, 2.0, 7);
        let mean = noise.iter().sum::<f32>() / 40_000.0;
        let square = noise.iter().map(|x| x * x).sum::<f32>() / 40_000.0;
        assert!(mean.abs() < 0.05 && (square - 4.0).abs() < 0.15);
        assert_eq!(gaussian(9, 2.0, 7), noise[..9]);
        assert_ne!(gaussian(9, 2.0, 8), noise[..9]);
    }
}
