//! The training step as the rest of the project sees it.

use std::num::NonZeroUsize;

use burn::backend::Autodiff;
use burn_flex::{Flex, FlexDevice};

use crate::session::{Session, session};
use crate::{Device, ModelError, ModelInfo};

/// A model on a device, ready to compute gradients and to evaluate.
pub struct Trainer {
    info: &'static ModelInfo,
    session: Box<dyn Session>,
    micro_batch: Option<NonZeroUsize>,
}

/// What one training step found.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    /// Mean cross-entropy of the batch; not finite where training has diverged.
    pub loss: f32,
    /// The loss's gradient, as long as the parameters and in their order.
    pub gradient: Vec<f32>,
    /// Images whose class had the greatest score.
    pub correct: usize,
}

/// What an evaluation found.
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
    /// The share of images classified correctly, from 0 to 1.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.samples as f64
    }
}

impl Trainer {
    /// A trainer of the named model on a device.
    ///
    /// # Errors
    /// [`ModelError::UnknownModel`], or [`ModelError::NoCuda`] where the build
    /// cannot serve the device.
    pub fn new(model: &str, device: Device) -> Result<Self, ModelError> {
        let info = ModelInfo::find(model)?;
        let session = match device {
            Device::Cpu => session::<Autodiff<Flex>>(info, FlexDevice),
            Device::Cuda => return Err(ModelError::NoCuda),
        };
        Ok(Self {
            info,
            session,
            micro_batch: None,
        })
    }

    /// The same trainer, splitting every training batch into micro-batches of at most so
    /// many images, one after the other: what a step keeps in memory is then a
    /// micro-batch's.
    ///
    /// The gradient and the loss are those of the batch, as means over its images. A batch
    /// norm, however, normalises each micro-batch by its own moments and moves its running
    /// statistics once for each, as KubeML's or any data-parallel worker of so many images
    /// would: with batch norms, another micro-batch is another training.
    #[must_use]
    pub fn with_micro_batch(self, images: NonZeroUsize) -> Self {
        Self {
            micro_batch: Some(images),
            ..self
        }
    }

    /// The model's name and sizes.
    #[must_use]
    pub fn info(&self) -> &'static ModelInfo {
        self.info
    }

    /// The parameters that training begins with, `info().parameters` values.
    ///
    /// They follow PyTorch's defaults: weights and biases of convolutions and
    /// linear layers are uniform in `[-1/√fan_in, 1/√fan_in)`, batch norms begin
    /// with weight 1 and bias 0. The value at flat index `i` is
    /// `f32(1/√fan_in) · (2u − 1)` with `u = unit_f32(mix(seed, i))` of
    /// [`epochcost_kernels::hash`], so that it depends on nothing but the seed.
    #[must_use]
    pub fn initial_parameters(&self, seed: u64) -> Vec<f32> {
        self.session.start(seed).parameters
    }

    /// The batch-norm statistics that training begins with: means 0, variances 1.
    #[must_use]
    pub fn initial_statistics(&self) -> Vec<f32> {
        self.session.start(0).statistics
    }

    /// The length of each tensor that the parameters and the gradient are made of, in
    /// flat order; `info().gradient_tensors` of them.
    #[must_use]
    pub fn tensor_lengths(&self) -> Vec<usize> {
        self.session.start(0).tensor_lengths
    }

    /// The gradient of the batch's mean cross-entropy, at the given parameters.
    ///
    /// `images` are normalised values `[batch, channels, height, width]`, as
    /// [`crate::input::decode`] makes them; there is one label an image. The
    /// running `statistics` are moved towards the batch's. Equal inputs give
    /// bit-identical results in the same build on the same CPU features, whatever the
    /// number of threads.
    ///
    /// # Errors
    /// [`ModelError::Length`], [`ModelError::Label`] and
    /// [`ModelError::EmptyBatch`] for input that does not fit the model; the
    /// statistics are then unchanged.
    pub fn gradient(
        &mut self,
        parameters: &[f32],
        statistics: &mut [f32],
        images: &[f32],
        labels: &[u8],
    ) -> Result<StepOutput, ModelError> {
        self.check(parameters, statistics, images, labels)?;
        match self.micro_batch {
            Some(size) if size.get() < labels.len() => {
                self.micro_batches(parameters, statistics, images, labels, size.get())
            }
            _ => self
                .session
                .gradient(parameters, statistics, images, labels),
        }
    }

    fn micro_batches(
        &self,
        parameters: &[f32],
        statistics: &mut [f32],
        images: &[f32],
        labels: &[u8],
        size: usize,
    ) -> Result<StepOutput, ModelError> {
        let mut total = StepOutput {
            loss: 0.0,
            gradient: vec![0.0; parameters.len()],
            correct: 0,
        };
        let parts = images.chunks(size * self.info.image_values());
        for (images, part) in parts.zip(labels.chunks(size)) {
            let step = self
                .session
                .gradient(parameters, statistics, images, part)?;
            let share = part.len() as f32 / labels.len() as f32;
            total.loss += share * step.loss;
            total.correct += step.correct;
            for (total, slope) in total.gradient.iter_mut().zip(&step.gradient) {
                *total += share * slope;
            }
        }
        Ok(total)
    }

    /// Loss and accuracy of any number of images, batch norms normalising by the
    /// given statistics.
    ///
    /// # Errors
    /// As [`Trainer::gradient`].
    pub fn evaluate(
        &mut self,
        parameters: &[f32],
        statistics: &[f32],
        images: &[f32],
        labels: &[u8],
    ) -> Result<Evaluation, ModelError> {
        self.check(parameters, statistics, images, labels)?;
        self.session
            .evaluate(parameters, statistics, images, labels)
    }

    fn check(
        &self,
        parameters: &[f32],
        statistics: &[f32],
        images: &[f32],
        labels: &[u8],
    ) -> Result<(), ModelError> {
        if labels.is_empty() {
            return Err(ModelError::EmptyBatch);
        }
        let info = self.info;
        for (what, actual, expected) in [
            ("parameters", parameters.len(), info.parameters),
            ("statistics", statistics.len(), info.statistics),
            ("images", images.len(), labels.len() * info.image_values()),
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
        let classes = info.classes;
        match labels
            .iter()
            .position(|&label| usize::from(label) >= classes)
        {
            None => Ok(()),
            Some(index) => Err(ModelError::Label {
                index,
                label: labels[index],
                classes,
            }),
        }
    }
}
