//! One forward pass: what it is for, and what its layers note on the way.

use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use epochcost_kernels::hash::{mix, unit_f32};

use crate::ModelError;
use crate::flat::{Reads, sent};
use crate::ops::{LayerOps, Moments};

/// A forward pass.
pub(crate) enum Pass<B: Backend> {
    /// A training step's: batch norms normalise by the batch's own moments, and dropout
    /// drops.
    Training {
        /// Moments of each batch norm, in the order of the flat statistics.
        noted: Vec<Noted<B>>,
        /// Source of dropout's draws.
        draws: Draws,
        /// Whether outputs that sum few terms are computed again in the backward pass.
        recomputes: bool,
    },
    /// An evaluation's, by running statistics.
    Evaluation {
        /// The flat statistics.
        statistics: Tensor<B, 1>,
        /// Number of statistics that the layers before have taken.
        taken: usize,
    },
}

/// Moments of a batch in a batch norm.
pub(crate) struct Noted<B: Backend> {
    moments: Moments<B>,
    /// Values per channel.
    count: usize,
}

impl<B: Backend> Noted<B> {
    /// Notes the moments of features of that shape.
    pub(super) const fn new(moments: Moments<B>, [batch, height, width, _]: [usize; 4]) -> Self {
        let count = batch * height * width;
        Self { moments, count }
    }
}

impl<B: AutodiffBackend> Noted<B> {
    /// Reads the mean and the variance.
    pub(crate) fn push(&self, reads: &mut Reads<B::InnerBackend>) -> Result<(), ModelError>
    where
        B::InnerBackend: LayerOps,
    {
        reads.push(self.moments.mean.clone().inner())?;
        reads.push(self.moments.variance.clone().inner())
    }

    /// The flat statistics of what was read: the means, and the unbiased variances.
    pub(crate) fn statistics(
        &self,
        [mean, variance]: [Option<Vec<f32>>; 2],
    ) -> impl Iterator<Item = f32> + use<B> {
        let unbiased = (self.count as f64 / self.count.saturating_sub(1).max(1) as f64) as f32;
        let variance = variance.unwrap_or_default().into_iter();
        let unbiased = variance.map(move |variance| variance * unbiased);
        mean.unwrap_or_default().into_iter().chain(unbiased)
    }
}

/// Everything that dropout's draws depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draws {
    /// Seed of the training step.
    seed: u64,
    /// Dropout layers passed so far.
    layers: u64,
}

impl Draws {
    /// Returns the draws of a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, layers: 0 }
    }

    /// Returns the next layer's factors for so many images of so many values: 0 for a share
    /// of them, and what keeps the mean for the others.
    fn next(&mut self, images: usize, values: usize, share: f32) -> Vec<f32> {
        let seed = mix(self.seed, self.layers);
        self.layers += 1;
        let kept = 1.0 / (1.0 - share);
        let is_dropped = |index| unit_f32(mix(seed, index)) < share;
        (0..(images * values) as u64)
            .map(|index| if is_dropped(index) { 0.0 } else { kept })
            .collect()
    }
}

impl<B: Backend> Pass<B> {
    /// Returns the pass of a training step, with outputs that sum few terms computed again in the
    /// backward pass where `recomputes`.
    pub(crate) const fn training(draws: Draws, recomputes: bool) -> Self {
        Self::Training {
            noted: vec![],
            draws,
            recomputes,
        }
    }

    /// Returns the pass of an evaluation by these flat statistics.
    pub(crate) const fn evaluation(statistics: Tensor<B, 1>) -> Self {
        Self::Evaluation {
            statistics,
            taken: 0,
        }
    }

    /// The rows `[batch, values]`, with a share of their values dropped in training
    /// (Srivastava et al. 2014; others are scaled up, as PyTorch does).
    pub(crate) fn dropout(&mut self, rows: Tensor<B, 2>, share: f32) -> Tensor<B, 2> {
        match self {
            Self::Evaluation { .. } => rows,
            Self::Training { draws, .. } => {
                let [batch, values] = rows.dims();
                let factors = draws.next(batch, values, share);
                let device = rows.device();
                rows * sent(factors, [batch, values], &device)
            }
        }
    }

    /// Returns the moments of the batch norms; none outside of training.
    pub(crate) fn into_noted(self) -> Result<Vec<Noted<B>>, ModelError> {
        match self {
            // One value has no variance.
            Self::Training { noted, .. } if noted.iter().any(|noted| noted.count == 1) => {
                Err(ModelError::SingleValue)
            }
            Self::Training { noted, .. } => Ok(noted),
            Self::Evaluation { .. } => Ok(vec![]),
        }
    }
}

/// The next layer's running statistics as moments.
pub(super) fn running<B: Backend>(
    statistics: &Tensor<B, 1>,
    taken: &mut usize,
    channels: usize,
) -> Moments<B> {
    let mut next = || {
        let range = *taken..*taken + channels;
        *taken = range.end;
        statistics.clone().slice([range])
    };
    Moments {
        mean: next(),
        variance: next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropout_keeps_the_mean_and_depends_on_the_image_alone() {
        for share in [0.2, 0.5] {
            let whole = Draws::new(7).next(64, 100, share);
            let dropped = whole.iter().filter(|&&factor| factor == 0.0).count();
            let expected = 6_400.0 * f64::from(share);
            assert!((dropped as f64 - expected).abs() < 5.0 * expected.sqrt());
            let kept = 1.0 / (1.0 - share);
            assert!(whole.iter().all(|&factor| factor == 0.0 || factor == kept));
            assert_eq!(Draws::new(7).next(16, 100, share), whole[..1_600]);
            assert_ne!(Draws::new(8).next(64, 100, share), whole);
        }
        let mut draws = Draws::new(7);
        assert_ne!(draws.next(4, 100, 0.5), draws.next(4, 100, 0.5));
    }
}
