//! One network on one burn backend, behind a trait that does not show which.

use std::marker::PhantomData;

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Tensor, TensorData};

use crate::catalog::Architecture;
use crate::fit::image_tensor;
use crate::layers::{Draws, Pass, update_running};
use crate::lenet5::LeNet5;
use crate::mobilenet::MobileNet;
use crate::mobilenet_v3::MobileNetV3Small;
use crate::network::Network;
use crate::ops::LayerOps;
use crate::resnet::{RESNET18, RESNET32, RESNET34, ResNet};
use crate::resnet50::ResNet50;
use crate::source::{ParameterSource, Start};
use crate::squeezenet::SqueezeNet;
use crate::vgg::{Vgg11, Vgg11Cifar};
use crate::{Evaluation, ModelError, ModelInfo, Precision, StepOutput, flat};

/// Most images of one forward pass of an evaluation, which bounds its memory.
const EVALUATION_BATCH: usize = 128;

/// Most pixels of those images: 16 of 224×224.
const EVALUATION_PIXELS: usize = 16 * 224 * 224;

/// A batch of images, or a part of a step's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch<'a> {
    /// `[batch, channels, height, width]`.
    pub(crate) images: &'a [f32],
    /// Channels, height and width of one.
    pub(crate) shape: [usize; 3],
    /// One an image.
    pub(crate) labels: &'a [u8],
}

/// What a [`crate::Trainer`] does, of arguments that it has checked.
pub(crate) trait Session: Send {
    /// Of the matrix products from now on, where the backend has a choice.
    fn set_precision(&mut self, precision: Precision);

    /// Parameters of that seed, or none, and statistics.
    fn start(&self, seed: Option<u64>) -> Start;

    fn gradient(
        &self,
        parameters: &[f32],
        statistics: &mut [f32],
        batch: Batch<'_>,
        draws: Draws,
    ) -> Result<StepOutput, ModelError>;

    fn evaluate(
        &self,
        parameters: &[f32],
        statistics: &[f32],
        batch: Batch<'_>,
    ) -> Result<Evaluation, ModelError>;
}

/// The session of a model on a backend's device.
pub(crate) fn session<B>(info: &'static ModelInfo, device: B::Device) -> Box<dyn Session>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
{
    type Inner<B> = <B as AutodiffBackend>::InnerBackend;
    macro_rules! boxed {
        ($network:ident, $layout:expr) => {
            BurnSession::<B, $network<B>, $network<Inner<B>>>::boxed(info, $layout, device)
        };
    }
    match info.architecture {
        Architecture::LeNet5 => boxed!(LeNet5, ()),
        Architecture::MobileNet => boxed!(MobileNet, ()),
        Architecture::ResNet18 => boxed!(ResNet, RESNET18),
        Architecture::ResNet32 => boxed!(ResNet, RESNET32),
        Architecture::ResNet34 => boxed!(ResNet, RESNET34),
        Architecture::ResNet50 => boxed!(ResNet50, ()),
        Architecture::SqueezeNet => boxed!(SqueezeNet, ()),
        Architecture::MobileNetV3Small => boxed!(MobileNetV3Small, ()),
        Architecture::Vgg11 => boxed!(Vgg11, info.classes),
        Architecture::Vgg11Cifar => boxed!(Vgg11Cifar, ()),
    }
}

/// The network `N` for training on `B`, and `E`, the same without autodiff.
struct BurnSession<B: AutodiffBackend, N: Network<B>, E>
where
    B: LayerOps,
{
    info: &'static ModelInfo,
    layout: N::Layout,
    device: B::Device,
    precision: Precision,
    networks: PhantomData<fn() -> (N, E)>,
}

impl<B, N, E> BurnSession<B, N, E>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
    N: Network<B> + 'static,
    E: Network<B::InnerBackend, Layout = N::Layout> + 'static,
{
    fn boxed(info: &'static ModelInfo, layout: N::Layout, device: B::Device) -> Box<dyn Session> {
        Box::new(Self {
            info,
            layout,
            device,
            precision: Precision::default(),
            networks: PhantomData,
        })
    }
}

impl<B, N, E> Session for BurnSession<B, N, E>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
    N: Network<B>,
    E: Network<B::InnerBackend, Layout = N::Layout>,
{
    fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    fn start(&self, seed: Option<u64>) -> Start {
        let mut source = seed.map_or_else(ParameterSource::counted, ParameterSource::fresh);
        E::new(&mut source, self.layout, &self.device);
        source.into_start()
    }

    fn gradient(
        &self,
        parameters: &[f32],
        statistics: &mut [f32],
        batch: Batch<'_>,
        draws: Draws,
    ) -> Result<StepOutput, ModelError> {
        B::at(self.precision, || {
            self.precise_gradient(parameters, statistics, batch, draws)
        })
    }

    fn evaluate(
        &self,
        parameters: &[f32],
        statistics: &[f32],
        batch: Batch<'_>,
    ) -> Result<Evaluation, ModelError> {
        B::at(self.precision, || {
            self.precise_evaluation(parameters, statistics, batch)
        })
    }
}

impl<B, N, E> BurnSession<B, N, E>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
    N: Network<B>,
    E: Network<B::InnerBackend, Layout = N::Layout>,
{
    fn precise_gradient(
        &self,
        parameters: &[f32],
        statistics: &mut [f32],
        batch: Batch<'_>,
        draws: Draws,
    ) -> Result<StepOutput, ModelError> {
        let source = &mut ParameterSource::given(parameters);
        let network = N::new(source, self.layout, &self.device);
        let mut pass = Pass::<B>::training(draws);
        let images = self.images(batch);
        let scores = network.forward(images, &mut pass);
        let mut reads = flat::Reads::new();
        reads.push(scores.clone().inner())?;
        let loss = B::cross_entropy(scores, batch.labels);
        let noted = pass.into_noted()?;
        let gradients = loss.backward();
        reads.push(loss.inner())?;
        for noted in &noted {
            noted.push(&mut reads)?;
        }
        flat::push_gradients(&network, gradients, &mut reads)?;
        let mut values = reads.finish()?;
        let correct = count_correct(&values.next().unwrap_or_default(), batch.labels);
        let loss = values.next().and_then(|loss| loss.first().copied());
        let noted = noted
            .iter()
            .flat_map(|noted| noted.statistics([values.next(), values.next()]))
            .collect::<Vec<f32>>();
        let gradient = flat::joined(values, self.info.parameters);
        update_running(statistics, &noted, N::MOMENTUM);
        Ok(StepOutput {
            loss: loss.unwrap_or(f32::NAN),
            gradient,
            correct,
        })
    }

    fn precise_evaluation(
        &self,
        parameters: &[f32],
        statistics: &[f32],
        batch: Batch<'_>,
    ) -> Result<Evaluation, ModelError> {
        let source = &mut ParameterSource::given(parameters);
        let network = E::new(source, self.layout, &self.device);
        let statistics = Tensor::from_data(
            TensorData::new(statistics.to_vec(), [statistics.len()]),
            &self.device,
        );
        let mut loss = 0.0;
        let mut correct = 0;
        let [_, height, width] = self.info.input;
        let size = EVALUATION_BATCH.min(EVALUATION_PIXELS / (height * width));
        let image_chunks = batch
            .images
            .chunks(size * batch.shape.iter().product::<usize>());
        for (images, labels) in image_chunks.zip(batch.labels.chunks(size)) {
            let images = self.images(Batch { images, ..batch });
            let mut pass = Pass::evaluation(statistics.clone());
            let scores = network.forward(images, &mut pass);
            correct += count_correct(&flat::values(scores.clone())?, labels);
            let mean: f64 = B::InnerBackend::cross_entropy(scores, labels)
                .into_scalar()
                .elem();
            loss += mean * labels.len() as f64;
        }
        Ok(Evaluation {
            loss: loss / batch.labels.len() as f64,
            correct,
            samples: batch.labels.len(),
        })
    }
}

impl<B: AutodiffBackend + LayerOps, N: Network<B>, E> BurnSession<B, N, E> {
    /// The batch's images as the network takes them.
    fn images<I: Backend<Device = B::Device>>(&self, batch: Batch<'_>) -> Tensor<I, 4> {
        image_tensor(batch.images, batch.shape, self.info.input, &self.device)
    }
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
