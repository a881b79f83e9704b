//! The training step as the rest of the project sees it.

use std::ops::Range;

use burn_autodiff::Autodiff;
use burn_flex::{Flex, FlexDevice};

use crate::fit::fits;
#[cfg(feature = "gpu")]
use crate::gpu::{self, Gpu};
use crate::layers::Draws;
use crate::networks::session;
use crate::ops::precision;
use crate::parts::Parts;
use crate::session::{Batch, Session};
use crate::{Device, ModelError, ModelInfo, Precision};

/// The environment variable that says which outputs are computed again: `short`, or `least`, which also
/// returns freed memory.
const RECOMPUTE_VARIABLE: &str = epochcost_environment::user::RECOMPUTE;

/// Memory that a step saves at the price of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saving {
    Nothing,
    /// Short sums are computed again.
    Short,
    /// And large blocks are returned to the kernel when they are freed.
    Least,
}

impl Saving {
    /// Returns what the environment asks for.
    pub(crate) fn asked() -> Self {
        match std::env::var(RECOMPUTE_VARIABLE).as_deref() {
            Ok("short") => Self::Short,
            Ok("least") => Self::Least,
            _ => Self::Nothing,
        }
    }
}

/// A model on a device, ready to compute gradients and to evaluate.
pub struct Trainer {
    info: &'static ModelInfo,
    device: Device,
    session: Box<dyn Session>,
    /// Shape of the images: channels, height and width.
    images: [usize; 3],
    precision: Precision,
}

/// Result of one training step.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    /// Mean cross-entropy of the batch; not finite where training has diverged.
    pub loss: f32,
    /// The loss's gradient, as long as the parameters and in their order.
    pub gradient: Vec<f32>,
    /// Images whose class had the greatest score.
    pub correct: usize,
}

/// Result of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// Mean cross-entropy over the images.
    pub loss: f64,
    /// Images whose class had the greatest score.
    pub correct: usize,
    /// Images evaluated.
    pub samples: usize,
}

impl Evaluation {
    /// Returns the share of images classified correctly, from 0 to 1.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.samples as f64
    }
}

impl Trainer {
    /// Returns a trainer of the named model on a device.
    ///
    /// # Errors
    /// [`ModelError::UnknownModel`], and the errors of [`Device::available`].
    pub fn new(model: &str, device: Device) -> Result<Self, ModelError> {
        let info = ModelInfo::find(model)?;
        let session = match device {
            Device::Cpu => session::<Autodiff<Flex>>(info, FlexDevice)?,
            #[cfg(feature = "gpu")]
            Device::Cuda => session::<Autodiff<Gpu>>(info, gpu::device()?)?,
            #[cfg(not(feature = "gpu"))]
            Device::Cuda => return Err(ModelError::NoCuda),
        };
        let trainer = Self {
            info,
            device,
            session,
            images: info.input,
            precision: Precision::default(),
        };
        Ok(trainer.with_recomputation(Saving::asked() != Saving::Nothing))
    }

    /// Returns the same trainer, given images of that shape (channels, height, width):
    /// smaller ones than its input are enlarged by bilinear interpolation, and a single
    /// channel is repeated.
    ///
    /// # Errors
    /// [`ModelError::Images`] where they are larger or have other channels.
    pub fn with_images(self, images: [usize; 3]) -> Result<Self, ModelError> {
        if !fits(images, self.info.input) {
            let shape = |shape: [usize; 3]| shape.map(|side| side.to_string()).join("x");
            return Err(ModelError::Images {
                model: self.info.name,
                expected: shape(self.info.input),
                actual: shape(images),
            });
        }
        Ok(Self { images, ..self })
    }

    /// Returns the same trainer with products of that precision.
    ///
    /// # Errors
    /// Those of [`Precision::available`].
    pub fn with_precision(self, precision: Precision) -> Result<Self, ModelError> {
        precision.available(self.device)?;
        Ok(Self { precision, ..self })
    }

    /// Returns the same trainer, computing outputs that sum at most 32 terms again in the backward
    /// pass instead of keeping them: those of depthwise convolutions and of first layers, most of what a
    /// step of MobileNet keeps, for a few of its operations. It changes no bit of what is computed.
    ///
    /// A new trainer does what the environment's `EPOCHCOST_RECOMPUTE` asks for.
    #[must_use]
    pub fn with_recomputation(mut self, recomputes: bool) -> Self {
        self.session.set_recomputation(recomputes);
        self
    }

    /// Returns the model's name and sizes.
    #[must_use]
    pub fn info(&self) -> &'static ModelInfo {
        self.info
    }

    /// Returns the parameters that training begins with, `info().parameters` values.
    ///
    /// They follow PyTorch's defaults: weights and biases of convolutions and
    /// linear layers are uniform in `[-1/√fan_in, 1/√fan_in)`, batch norms begin
    /// with weight 1 and bias 0. Where a reference definition begins in another way
    /// (SqueezeNet, MobileNet V3, VGG-11 with three linear layers, the convolutions of
    /// ResNet-50), its variances hold, uniform also where it draws normal values, and its
    /// zeros. The value at flat index `i` is `f32(bound) · (2u − 1)` with
    /// `u = unit_f32(mix(seed, i))` of [`epochcost_kernels::hash`], so that it depends on
    /// nothing but the seed.
    #[must_use]
    pub fn initial_parameters(&self, seed: u64) -> Vec<f32> {
        self.session.start(Some(seed)).parameters
    }

    /// Returns the batch-norm statistics that training begins with: means 0, variances 1.
    #[must_use]
    pub fn initial_statistics(&self) -> Vec<f32> {
        self.session.start(None).statistics
    }

    /// Returns the gradient of the batch's mean cross-entropy, at the given parameters.
    ///
    /// `images` are normalised values `[batch, channels, height, width]`, as
    /// [`crate::input::decode`] makes them; there is one label per image. The
    /// running `statistics` are moved towards the batch's. What dropout drops depends on
    /// `seed` and an image's position in the batch. Equal inputs give
    /// bit-identical results in the same build on the same CPU features, whatever the
    /// number of threads.
    ///
    /// # Errors
    /// [`ModelError::Length`], [`ModelError::Label`], [`ModelError::EmptyBatch`] and
    /// [`ModelError::SingleValue`] for input that does not fit the model; the
    /// statistics are then unchanged.
    pub fn gradient(
        &mut self,
        parameters: &[f32],
        statistics: &mut [f32],
        images: &[f32],
        labels: &[u8],
        seed: u64,
    ) -> Result<StepOutput, ModelError> {
        let batch = self.check(parameters, statistics, images, labels)?;
        self.step(batch, statistics, seed, None)
    }

    /// Computes [`Trainer::gradient`], bit for bit, and gives each of the gradient's `cuts`,
    /// with its position among them, to `ready` as soon as it is known, while the rest is still
    /// computed: the last layers' come first.
    ///
    /// # Errors
    /// Those of [`Trainer::gradient`]; parts may have been given before.
    ///
    /// # Panics
    /// Panics if a cut reaches beyond the gradient.
    #[allow(clippy::too_many_arguments)] // Those of `gradient`, and where parts go.
    pub fn gradient_in_parts(
        &mut self,
        parameters: &[f32],
        statistics: &mut [f32],
        images: &[f32],
        labels: &[u8],
        seed: u64,
        cuts: &[Range<usize>],
        ready: &mut (dyn FnMut(usize, &[f32]) + Send),
    ) -> Result<StepOutput, ModelError> {
        let batch = self.check(parameters, statistics, images, labels)?;
        let parts = Some(Parts { cuts, ready });
        self.step(batch, statistics, seed, parts)
    }

    fn step(
        &self,
        batch: Batch<'_>,
        statistics: &mut [f32],
        seed: u64,
        parts: Option<Parts<'_>>,
    ) -> Result<StepOutput, ModelError> {
        let (session, draws) = (&self.session, Draws::new(seed));
        precision::at(self.precision, || {
            session.gradient(batch, statistics, draws, parts)
        })
    }

    /// Loss and accuracy of any number of images, batch norms normalising by the
    /// given statistics.
    ///
    /// # Errors
    /// Those of [`Trainer::gradient`].
    pub fn evaluate(
        &mut self,
        parameters: &[f32],
        statistics: &[f32],
        images: &[f32],
        labels: &[u8],
    ) -> Result<Evaluation, ModelError> {
        let batch = self.check(parameters, statistics, images, labels)?;
        precision::at(self.precision, || self.session.evaluate(batch, statistics))
    }

    fn check<'a>(
        &self,
        parameters: &'a [f32],
        statistics: &[f32],
        images: &'a [f32],
        labels: &'a [u8],
    ) -> Result<Batch<'a>, ModelError> {
        if labels.is_empty() {
            return Err(ModelError::EmptyBatch);
        }
        let info = self.info;
        let values = labels.len() * self.images.iter().product::<usize>();
        // Lengths.
        for (what, actual, expected) in [
            ("parameters", parameters.len(), info.parameters),
            ("statistics", statistics.len(), info.statistics),
            ("images", images.len(), values),
        ] {
            if actual != expected {
                return Err(ModelError::Length {
                    model: info.name,
                    what,
                    expected,
                    actual,
                });
            }
        }
        // Labels.
        let classes = info.classes;
        let is_outside = |label: &u8| usize::from(*label) >= classes;
        if let Some(index) = labels.iter().position(is_outside) {
            return Err(ModelError::Label {
                index,
                label: labels[index],
                classes,
            });
        }
        Ok(Batch {
            parameters,
            images,
            shape: self.images,
            labels,
        })
    }
}
