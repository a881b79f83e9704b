//! One network on one burn backend, behind a trait that does not show which.

use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::mpsc::channel;
use std::thread;

use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{ElementConversion, Tensor, TensorData};

use crate::fit::image_tensor;
use crate::layers::{Draws, Noted, Pass, update_running};
use crate::networks::Network;
use crate::ops::{GradientTap, LayerOps};
use crate::parts::Parts;
use crate::source::{ParameterSource, Start};
use crate::{Evaluation, ModelError, ModelInfo, StepOutput, flat};

/// Most images of one forward pass of an evaluation, which bounds its memory.
const EVALUATION_BATCH: usize = 128;

/// Most pixels of those images: 16 of 224×224.
const EVALUATION_PIXELS: usize = 16 * 224 * 224;

/// A batch of images, and the parameters of the network that takes them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) parameters: &'a [f32],
    /// `[batch, channels, height, width]`.
    pub(crate) images: &'a [f32],
    /// Channels, height and width of one.
    pub(crate) shape: [usize; 3],
    /// One label per image.
    pub(crate) labels: &'a [u8],
}

/// Work of a [`crate::Trainer`], on arguments that it has checked.
pub(crate) trait Session: Send {
    /// Sets whether outputs that sum few terms are computed again from now on.
    fn set_recomputation(&mut self, recomputes: bool);

    /// Parameters of that seed, or none, and statistics.
    fn start(&self, seed: Option<u64>) -> Start;

    /// Computes a training step, and gives the `parts` of its gradient as soon as they are known.
    fn gradient(
        &self,
        batch: Batch<'_>,
        statistics: &mut [f32],
        draws: Draws,
        parts: Option<Parts<'_>>,
    ) -> Result<StepOutput, ModelError>;

    fn evaluate(&self, batch: Batch<'_>, statistics: &[f32]) -> Result<Evaluation, ModelError>;
}

/// The network `N` for training on `B`, and `E`, the same without autodiff.
pub(crate) struct BurnSession<B: AutodiffBackend, N: Network<B>, E>
where
    B: LayerOps,
{
    info: &'static ModelInfo,
    layout: N::Layout,
    device: B::Device,
    recomputes: bool,
    networks: PhantomData<fn() -> (N, E)>,
}

impl<B: AutodiffBackend + LayerOps, N: Network<B>, E> BurnSession<B, N, E> {
    /// Returns the session of a model whose networks are laid out like that.
    pub(crate) const fn new(
        info: &'static ModelInfo,
        layout: N::Layout,
        device: B::Device,
    ) -> Self {
        Self {
            info,
            layout,
            device,
            recomputes: false,
            networks: PhantomData,
        }
    }

    /// Returns the batch's images as the network takes them.
    fn images<I: Backend<Device = B::Device>>(&self, batch: Batch<'_>) -> Tensor<I, 4> {
        image_tensor(batch.images, batch.shape, self.info.input, &self.device)
    }

    fn forward(&self, batch: Batch<'_>, draws: Draws) -> Result<Forward<B, N>, ModelError> {
        let source = &mut ParameterSource::fixed(batch.parameters, &self.device);
        let network = N::new(source, self.layout);
        let mut pass = Pass::<B>::training(draws, self.recomputes);
        let images = self.images(batch);
        let scores = network.forward(images, &mut pass);
        Ok(Forward {
            network,
            scores: scores.clone().inner(),
            loss: B::cross_entropy(scores, batch.labels),
            noted: pass.into_noted()?,
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
    fn set_recomputation(&mut self, recomputes: bool) {
        self.recomputes = recomputes;
    }

    fn start(&self, seed: Option<u64>) -> Start {
        let mut source = ParameterSource::begun(seed, &self.device);
        E::new(&mut source, self.layout);
        source.into_start()
    }

    fn gradient(
        &self,
        batch: Batch<'_>,
        statistics: &mut [f32],
        draws: Draws,
        parts: Option<Parts<'_>>,
    ) -> Result<StepOutput, ModelError> {
        let Some(parts) = parts else {
            let forward = self.forward(batch, draws)?;
            let gradients = forward.loss.backward();
            let mut reads = forward.reads()?;
            flat::push_gradients(&forward.network, gradients, &mut reads)?;
            let mut values = reads.finish()?;
            let (loss, correct) = forward.finish(&mut values, batch, statistics);
            return Ok(StepOutput {
                loss,
                gradient: flat::joined(values, self.info.parameters),
                correct,
            });
        };
        let (send, taken) = channel();
        let tap = GradientTap::begin(send.clone());
        let forward = self.forward(batch, draws)?;
        let lengths = flat::tap_gradients(&forward.network);
        thread::scope(|scope| {
            #[expect(
                clippy::disallowed_methods,
                reason = "a worker without threads fails its trial"
            )]
            let assembled = scope.spawn(move || parts.assemble(&lengths, taken));
            let gradients = forward.loss.backward();
            flat::send_remaining(&forward.network, gradients, &tap, &send)?;
            drop((tap, send));
            let mut values = forward.reads()?.finish()?;
            let (loss, correct) = forward.finish(&mut values, batch, statistics);
            let gradient = assembled
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic))?;
            Ok(StepOutput {
                loss,
                gradient,
                correct,
            })
        })
    }

    fn evaluate(&self, batch: Batch<'_>, statistics: &[f32]) -> Result<Evaluation, ModelError> {
        let source = &mut ParameterSource::fixed(batch.parameters, &self.device);
        let network = E::new(source, self.layout);
        let data = TensorData::new(statistics.to_vec(), [statistics.len()]);
        let statistics = Tensor::from_data(data, &self.device);
        let mut loss = 0.0;
        let mut correct = 0;
        let [_, height, width] = self.info.input;
        let size = EVALUATION_BATCH.min(EVALUATION_PIXELS / (height * width));
        let values = batch.shape.iter().product::<usize>();
        let image_chunks = batch.images.chunks(size * values);
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

/// Results of a training step's forward pass.
struct Forward<B: AutodiffBackend, N> {
    network: N,
    scores: Tensor<B::InnerBackend, 2>,
    loss: Tensor<B, 1>,
    noted: Vec<Noted<B>>,
}

impl<B, N> Forward<B, N>
where
    B: AutodiffBackend + LayerOps,
    B::InnerBackend: LayerOps,
    N: Network<B>,
{
    /// Scores, loss and moments, to be read.
    fn reads(&self) -> Result<flat::Reads<B::InnerBackend>, ModelError> {
        let mut reads = flat::Reads::new();
        reads.push(self.scores.clone())?;
        reads.push(self.loss.clone().inner())?;
        for noted in &self.noted {
            noted.push(&mut reads)?;
        }
        Ok(reads)
    }

    /// Loss and correct images of what was read, and the statistics moved.
    fn finish(
        &self,
        values: &mut impl Iterator<Item = Vec<f32>>,
        batch: Batch<'_>,
        statistics: &mut [f32],
    ) -> (f32, usize) {
        let correct = count_correct(&values.next().unwrap_or_default(), batch.labels);
        let loss = values.next().and_then(|loss| loss.first().copied());
        let noted = self
            .noted
            .iter()
            .flat_map(|noted| noted.statistics([values.next(), values.next()]))
            .collect::<Vec<f32>>();
        update_running(statistics, &noted, N::MOMENTUM);
        (loss.unwrap_or(f32::NAN), correct)
    }
}

/// Returns the number of rows of scores that have their greatest, the first of equals, at
/// the label.
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
    use burn_autodiff::Autodiff;
    use burn_flex::{Flex, FlexDevice};

    use super::*;
    use crate::networks::lenet5::LeNet5;

    /// Gradients are taken by the operations that find them, from the last layer to the first.
    #[test]
    fn gradients_are_taken_when_they_are_known() {
        type Graph = Autodiff<Flex>;
        let info = ModelInfo::find("lenet5").unwrap();
        let session = BurnSession::<Graph, LeNet5<Graph>, LeNet5<Flex>>::new(info, (), FlexDevice);
        let images = vec![0.5; 2 * info.image_values()];
        let batch = Batch {
            parameters: &session.start(Some(1)).parameters,
            images: &images,
            shape: info.input,
            labels: &[1, 2],
        };
        let (send, taken) = channel();
        let tap = GradientTap::begin(send);
        let forward = session.forward(batch, Draws::new(0)).unwrap();
        let lengths = flat::tap_gradients(&forward.network);
        assert_eq!(tap.remaining().len(), lengths.len());
        forward.loss.backward();
        assert_eq!(tap.remaining(), [0; 0]);
        drop(tap);
        let order: Vec<usize> = taken.iter().map(|(position, _)| position).collect();
        assert_eq!(order.len(), lengths.len());
        assert!(order[0] >= lengths.len() - 2 && order[lengths.len() - 1] < 2);
    }

    #[test]
    fn ties_go_to_the_first_class() {
        assert_eq!(first_greatest(&[0.0, 2.0, 2.0, 1.0]), 1);
        assert_eq!(count_correct(&[0.0, 1.0, 5.0, 5.0], &[1, 1]), 1);
    }
}
