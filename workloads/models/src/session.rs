//! One network on one burn backend, behind a trait that does not show which.

use std::marker::PhantomData;

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Tensor, TensorData};

use crate::catalog::Architecture;
use crate::layers::{Normalisation, update_running};
use crate::lenet5::LeNet5;
use crate::mobilenet::MobileNet;
use crate::network::Network;
use crate::ops::LayerOps;
use crate::resnet18::ResNet18;
use crate::source::{ParameterSource, Start};
use crate::{Evaluation, ModelError, ModelInfo, StepOutput, flat};

/// Most images of one forward pass of an evaluation, which bounds its memory.
const EVALUATION_BATCH: usize = 128;

/// What a [`crate::Trainer`] does, of arguments that it has checked.
pub(crate) trait Session: Send {
    /// Parameters of that seed, and statistics.
    fn start(&self, seed: u64) -> Start;

    fn gradient(
        &self,
        parameters: &[f32],
        statistics: &mut [f32],
        images: &[f32],
        labels: &[u8],
    ) -> Result<StepOutput, ModelError>;

    fn evaluate(
        &self,
        parameters: &[f32],
        statistics: &[f32],
        images: &[f32],
        labels: &[u8],
    ) -> Result<Evaluation, ModelError>;
}

/// The session of a model on a backend's device.
pub(crate) fn session<B>(info: &'static ModelInfo, device: B::Device) -> Box<dyn Session>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
{
    type Inner<B> = <B as AutodiffBackend>::InnerBackend;
    match info.architecture {
        Architecture::MobileNet => {
            BurnSession::<B, MobileNet<B>, MobileNet<Inner<B>>>::boxed(info, device)
        }
        Architecture::ResNet18 => {
            BurnSession::<B, ResNet18<B>, ResNet18<Inner<B>>>::boxed(info, device)
        }
        Architecture::LeNet5 => BurnSession::<B, LeNet5<B>, LeNet5<Inner<B>>>::boxed(info, device),
    }
}

/// The network `N` for training on `B`, and `E`, the same without autodiff.
struct BurnSession<B: AutodiffBackend, N, E> {
    info: &'static ModelInfo,
    device: B::Device,
    networks: PhantomData<fn() -> (N, E)>,
}

impl<B, N, E> BurnSession<B, N, E>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
    N: Network<B> + 'static,
    E: Network<B::InnerBackend> + 'static,
{
    fn boxed(info: &'static ModelInfo, device: B::Device) -> Box<dyn Session> {
        Box::new(Self {
            info,
            device,
            networks: PhantomData,
        })
    }
}

impl<B, N, E> Session for BurnSession<B, N, E>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
    N: Network<B>,
    E: Network<B::InnerBackend>,
{
    fn start(&self, seed: u64) -> Start {
        let mut source = ParameterSource::fresh(seed);
        E::new(&mut source, &self.device);
        source.into_start()
    }

    fn gradient(
        &self,
        parameters: &[f32],
        statistics: &mut [f32],
        images: &[f32],
        labels: &[u8],
    ) -> Result<StepOutput, ModelError> {
        let network = N::new(&mut ParameterSource::given(parameters), &self.device);
        let mut normalisation = Normalisation::<B>::batch();
        let images = image_tensor::<B>(self.info, images, &self.device);
        let scores = network.forward(images, &mut normalisation);
        let correct = count_correct(&flat::values(scores.clone().detach())?, labels);
        let loss = B::cross_entropy(scores, labels);
        let gradients = loss.backward();
        let step = StepOutput {
            loss: loss.into_scalar().elem(),
            gradient: flat::gradient(&network, gradients, self.info.parameters)?,
            correct,
        };
        update_running(statistics, &normalisation.into_batch_statistics()?);
        Ok(step)
    }

    fn evaluate(
        &self,
        parameters: &[f32],
        statistics: &[f32],
        images: &[f32],
        labels: &[u8],
    ) -> Result<Evaluation, ModelError> {
        let network = E::new(&mut ParameterSource::given(parameters), &self.device);
        let statistics = Tensor::from_data(
            TensorData::new(statistics.to_vec(), [statistics.len()]),
            &self.device,
        );
        let mut loss = 0.0;
        let mut correct = 0;
        let image_chunks = images.chunks(EVALUATION_BATCH * self.info.image_values());
        for (images, labels) in image_chunks.zip(labels.chunks(EVALUATION_BATCH)) {
            let images = image_tensor(self.info, images, &self.device);
            let mut normalisation = Normalisation::running(statistics.clone());
            let scores = network.forward(images, &mut normalisation);
            correct += count_correct(&flat::values(scores.clone())?, labels);
            let mean: f64 = B::InnerBackend::cross_entropy(scores, labels)
                .into_scalar()
                .elem();
            loss += mean * labels.len() as f64;
        }
        Ok(Evaluation {
            loss: loss / labels.len() as f64,
            correct,
            samples: labels.len(),
        })
    }
}

/// Images `[batch, channels, height, width]` as channels-last.
fn image_tensor<B: Backend>(info: &ModelInfo, images: &[f32], device: &B::Device) -> Tensor<B, 4> {
    let [channels, height, width] = info.input;
    let pixels = height * width;
    let mut values: Vec<f32> = Vec::with_capacity(images.len());
    for image in images.chunks_exact(info.image_values()) {
        for pixel in 0..pixels {
            values.extend(image[pixel..].iter().step_by(pixels));
        }
    }
    let batch = images.len() / info.image_values();
    let data = TensorData::new(values, [batch, height, width, channels]);
    Tensor::from_data(data, device)
}

/// How many rows of scores have their greatest, the first of equals, at the label.
fn count_correct(scores: &[f32], labels: &[u8]) -> usize {
    let classes = scores.len() / labels.len();
    scores
        .chunks_exact(classes)
        .zip(labels)
        .filter(|(row, label)| first_greatest(row) == usize::from(**label))
        .count()
}

fn first_greatest(row: &[f32]) -> usize {
    let mut best = 0;
    for (class, score) in row.iter().enumerate() {
        if *score > row[best] {
            best = class;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_first_class() {
        assert_eq!(first_greatest(&[0.0, 2.0, 2.0, 1.0]), 1);
        assert_eq!(count_correct(&[0.0, 1.0, 5.0, 5.0], &[1, 1]), 1);
    }
}
