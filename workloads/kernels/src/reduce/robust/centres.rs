//! Rules that look for a centre by iteration: geometric median and centred clipping.

use super::squared_distance;
use crate::error::KernelError;
use crate::reduce::common_length;

/// Largest number of iterations: a rule must end within a command of a store.
const MOST_ITERATIONS: usize = 1_000;

/// Returns the geometric median by the smoothed Weiszfeld algorithm (Pillutla et al.
/// 2022, "RFA"): from z = 0, `iterations` times z = Σ βₖxₖ / Σ βₖ with
/// βₖ = 1 / max(`smoothing`, ‖z − xₖ‖). Weights and sums are f64; z is rounded to
/// f32 after each iteration. A vector at a distance that is not finite has no weight.
///
/// # Errors
/// [`KernelError::RobustSetting`] unless 1 ≤ `iterations` ≤ 1,000 and `smoothing` is
/// positive, or if no vector is finite; [`KernelError::NoVectors`] or
/// [`KernelError::LengthMismatch`].
pub fn geometric_median(
    vectors: &[&[f32]],
    iterations: usize,
    smoothing: f32,
) -> Result<Vec<f32>, KernelError> {
    const RULE: &str = "the geometric median";
    let n = common_length("take the geometric median", vectors)?;
    check(RULE, iterations, "the smoothing", smoothing)?;
    let mut centre = vec![0.0_f32; n];
    for _ in 0..iterations {
        let weights: Vec<f64> = vectors
            .iter()
            .map(|vector| squared_distance(&centre, vector).sqrt())
            .map(|distance| finite(distance).map_or(0.0, |d| 1.0 / d.max(f64::from(smoothing))))
            .collect();
        let total: f64 = weights.iter().sum();
        if total == 0.0 {
            return Err(KernelError::RobustSetting {
                rule: RULE,
                name: "the number of finite vectors",
                value: 0.0,
                domain: "at least 1",
            });
        }
        let mut sums = vec![0.0_f64; n];
        for (vector, weight) in vectors.iter().zip(&weights).filter(|(_, w)| **w > 0.0) {
            for (sum, x) in sums.iter_mut().zip(*vector) {
                *sum += weight * f64::from(*x);
            }
        }
        for (z, sum) in centre.iter_mut().zip(&sums) {
            *z = (sum / total) as f32;
        }
    }
    Ok(centre)
}

/// Returns v after `iterations` times v += (1/n) Σ (xᵢ − v) · min(1, `radius` / ‖xᵢ − v‖)
/// (Karimireddy et al. 2021), from v = `centre`, the result of the round before, or 0.
/// Sums are f64; v is rounded to f32 after each iteration. A vector at a distance that
/// is not finite counts as v.
///
/// # Errors
/// [`KernelError::RobustSetting`] unless 1 ≤ `iterations` ≤ 1,000 and `radius` is
/// positive; [`KernelError::NoVectors`] or [`KernelError::LengthMismatch`], also where
/// `centre` has another length.
pub fn centred_clipping(
    vectors: &[&[f32]],
    centre: Option<&[f32]>,
    radius: f32,
    iterations: usize,
) -> Result<Vec<f32>, KernelError> {
    const RULE: &str = "centred clipping";
    const OPERATION: &str = "clip about a centre";
    let n = common_length(OPERATION, vectors)?;
    check(RULE, iterations, "the radius", radius)?;
    let mut centre = match centre {
        Some(centre) => {
            crate::error::expect_length(OPERATION, vectors.len(), n, centre.len())?;
            centre.to_vec()
        }
        None => vec![0.0_f32; n],
    };
    for _ in 0..iterations {
        let mut moved = vec![0.0_f64; n];
        for vector in vectors {
            let Some(distance) = finite(squared_distance(&centre, vector).sqrt()) else {
                continue;
            };
            let factor = (f64::from(radius) / distance).min(1.0);
            for ((sum, x), v) in moved.iter_mut().zip(*vector).zip(&centre) {
                *sum += factor * (f64::from(*x) - f64::from(*v));
            }
        }
        for (v, sum) in centre.iter_mut().zip(&moved) {
            *v = (f64::from(*v) + sum / vectors.len() as f64) as f32;
        }
    }
    Ok(centre)
}

fn finite(distance: f64) -> Option<f64> {
    distance.is_finite().then_some(distance)
}

/// Checks the number of iterations, and the setting of that name.
fn check(
    rule: &'static str,
    iterations: usize,
    name: &'static str,
    value: f32,
) -> Result<(), KernelError> {
    let (name, value, domain) = if !(1..=MOST_ITERATIONS).contains(&iterations) {
        let name = "the number of iterations";
        (name, iterations as f64, "from 1 to 1000")
    } else if value > 0.0 && value.is_finite() {
        return Ok(());
    } else {
        (name, f64::from(value), "positive and finite")
    };
    Err(KernelError::RobustSetting {
        rule,
        name,
        value,
        domain,
    })
}
