//! Significance filters: which updates are worth sending now.

use crate::codec::SparseVector;
use crate::error::{KernelError, expect_length};

const OPERATION: &str = "filter an update";

/// MLLess's filter (Sánchez-Artigas and Sarroca 2021, as published), parameter
/// by parameter: entry j of the accumulated update is significant iff
/// |acc_j / w_j| > v / √(step + 1), with `parameters` w after the local step.
///
/// Significant entries are returned and reset to 0 in `accumulated`; all others
/// stay and keep accumulating, so that what is sent and what is left always add
/// up to what was accumulated. v = 0 sends every non-zero entry. At w_j = 0,
/// every non-zero entry is significant. The test is |acc_j| > t·|w_j|: the same
/// without a division by zero or an underflowing quotient. A NaN is never
/// significant.
///
/// # Errors
/// [`KernelError::LengthMismatch`], or [`KernelError::TooLong`] beyond 2³² − 1
/// elements; `accumulated` is then unchanged.
pub fn significance_filter(
    parameters: &[f32],
    accumulated: &mut [f32],
    v: f64,
    step: u64,
) -> Result<SparseVector, KernelError> {
    expect_length(OPERATION, 1, parameters.len(), accumulated.len())?;
    let mut sent = SparseVector::zeros(parameters.len())?;
    let threshold = (v / (step as f64 + 1.0).sqrt()) as f32;
    for (index, (w, acc)) in (0u32..).zip(parameters.iter().zip(accumulated)) {
        if acc.abs() > threshold * w.abs() {
            sent.push(index, *acc);
            *acc = 0.0;
        }
    }
    Ok(sent)
}

/// Added to both norms of [`NormFilter`].
const NORM_EPSILON: f64 = 1e-8;

/// The filter in the code of the comparison paper (Barrak et al. 2025), over
/// the whole model: V grows by (‖acc‖₂ + 1e-8) / (‖θ‖₂ + 1e-8) each step, and
/// the whole accumulated update is sent once V exceeds 1.
///
/// As acc itself accumulates, V counts an update again in every step until it
/// is sent; kept as published.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NormFilter {
    /// V, the significance gathered since the last send.
    pub significance: f64,
}

impl NormFilter {
    /// Counts one step. Returns the whole update and zeroes both `accumulated`
    /// and V if it is significant now, `None` otherwise.
    ///
    /// # Errors
    /// [`KernelError::LengthMismatch`]; nothing is modified then.
    pub fn step(
        &mut self,
        parameters: &[f32],
        accumulated: &mut [f32],
    ) -> Result<Option<Vec<f32>>, KernelError> {
        expect_length(OPERATION, 1, parameters.len(), accumulated.len())?;
        self.significance += (norm(accumulated) + NORM_EPSILON) / (norm(parameters) + NORM_EPSILON);
        if self.significance <= 1.0 {
            return Ok(None);
        }
        let sent = accumulated.to_vec();
        accumulated.fill(0.0);
        self.significance = 0.0;
        Ok(Some(sent))
    }
}

/// Returns the Euclidean norm, accumulated in `f64` over eight lanes.
fn norm(x: &[f32]) -> f64 {
    let (chunks, rest) = x.as_chunks::<8>();
    let mut lanes = [0.0_f64; 8];
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(*x) * f64::from(*x);
        }
    }
    let rest: f64 = rest.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    (lanes.iter().sum::<f64>() + rest).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::sparse_add_assign;
    use proptest::prelude::*;

    /// |0.05 / 2| = 0.025 lies between 0.7 / √901 and 0.7 / √701.
    #[test]
    fn the_threshold_falls_with_the_step() {
        let mut acc = [0.05];
        assert!(
            significance_filter(&[2.0], &mut acc, 0.7, 700)
                .unwrap()
                .is_empty()
        );
        assert_eq!(acc, [0.05]);
        let sent = significance_filter(&[2.0], &mut acc, 0.7, 900).unwrap();
        assert_eq!((sent.indices(), sent.values()), (&[0][..], &[0.05][..]));
        assert_eq!(acc, [0.0]);
    }

    #[test]
    fn updates_of_zero_weights_are_significant() {
        let mut acc = [1e-30, 0.0, f32::NAN];
        let sent = significance_filter(&[0.0; 3], &mut acc, 0.7, 0).unwrap();
        assert_eq!(sent.indices(), [0]);
        assert!(acc[2].is_nan());
    }

    /// ‖acc‖ / ‖θ‖ = √20 / 10 = 0.447: V exceeds 1 at the third step.
    #[test]
    fn norms_add_up_to_a_send() {
        let (theta, mut acc) = ([6.0, 8.0], [2.0, 4.0]);
        let mut filter = NormFilter::default();
        assert_eq!(filter.step(&theta, &mut acc).unwrap(), None);
        assert!((filter.significance - 20_f64.sqrt() / 10.0).abs() < 1e-8);
        assert_eq!(filter.step(&theta, &mut acc).unwrap(), None);
        assert_eq!(filter.step(&theta, &mut acc).unwrap(), Some(vec![2.0, 4.0]));
        assert_eq!((filter.significance, acc), (0.0, [0.0; 2]));
        assert!(filter.step(&theta, &mut [0.0]).is_err());
    }

    proptest! {
        #[test]
        fn sent_and_kept_add_up(
            entries in prop::collection::vec((-2.0f32..2.0, -0.1f32..0.1), 0..200),
            v in 0.0f64..1.0,
            step in 0u64..5000
        ) {
            let (w, acc): (Vec<f32>, Vec<f32>) = entries.into_iter().unzip();
            let mut kept = acc.clone();
            let sent = significance_filter(&w, &mut kept, v, step).unwrap();
            for index in sent.indices() {
                prop_assert_eq!(kept[*index as usize], 0.0);
            }
            sparse_add_assign(&mut kept, &sent).unwrap();
            prop_assert_eq!(kept, acc);
        }

        #[test]
        fn a_threshold_of_zero_is_dense(w: [f32; 8], acc: [f32; 8], step: u64) {
            let mut kept = acc;
            let sent = significance_filter(&w, &mut kept, 0.0, step).unwrap();
            prop_assert_eq!(kept, [0.0; 8]);
            prop_assert!(sent.values().iter().eq(acc.iter().filter(|x| **x != 0.0)));
        }
    }
}
