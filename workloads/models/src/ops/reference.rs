//! Operations in burn's tensor operations, which any backend has.

use burn::tensor::activation::{log_softmax, relu, softmax};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

/// See [`super::LayerOps::global_average`]: one axis after the other.
pub(super) fn global_average<B: Backend>(values: Tensor<B, 4>) -> Tensor<B, 2> {
    let [batch, _, _, channels] = values.dims();
    values.mean_dim(1).mean_dim(2).reshape([batch, channels])
}

/// See [`super::LayerGradients::global_average_backward`].
pub(super) fn global_average_backward<B: Backend>(
    shape: [usize; 4],
    gradient: Tensor<B, 2>,
) -> Tensor<B, 4> {
    let [batch, height, width, channels] = shape;
    let [down, across] = mean_factors(shape);
    let row = (gradient * across) * down;
    row.reshape([batch, 1, 1, channels])
        .expand([batch, height, width, channels])
}

/// Factors of the means' gradients, down and across the images.
pub(super) fn mean_factors([_, height, width, _]: [usize; 4]) -> [f32; 2] {
    [height, width].map(|length| (1.0 / length as f64) as f32)
}

/// See [`super::LayerOps::hard_sigmoids`].
pub(super) fn hard_sigmoids<B: Backend>(values: Tensor<B, 2>) -> Tensor<B, 2> {
    ((values + 3.0) / 6.0).clamp(0.0, 1.0)
}

/// See [`super::LayerGradients::hard_sigmoids_backward`].
pub(super) fn hard_sigmoids_backward<B: Backend>(
    values: Tensor<B, 2>,
    gradient: Tensor<B, 2>,
) -> Tensor<B, 2> {
    let shares = (values + 3.0) / 6.0;
    let outside = shares
        .clone()
        .lower_elem(0.0)
        .bool_or(shares.greater_elem(1.0));
    (gradient / 6.0).mask_fill(outside, 0.0)
}

/// See [`super::LayerOps::excite`].
pub(super) fn excite<B: Backend>(values: Tensor<B, 4>, shares: Tensor<B, 2>) -> Tensor<B, 4> {
    let [batch, channels] = shares.dims();
    values * shares.reshape([batch, 1, 1, channels])
}

/// See [`super::LayerGradients::excite_backward`].
pub(super) fn excite_backward<B: Backend>(
    values: Tensor<B, 4>,
    shares: Tensor<B, 2>,
    gradient: Tensor<B, 4>,
) -> (Tensor<B, 4>, Tensor<B, 2>) {
    let [batch, channels] = shares.dims();
    let sums = (gradient.clone() * values).sum_dim(1).sum_dim(2);
    (excite(gradient, shares), sums.reshape([batch, channels]))
}

/// Returns the gradient where the value is not 0 or less.
pub(crate) fn passed<B: Backend>(gradient: Tensor<B, 4>, value: Tensor<B, 4>) -> Tensor<B, 4> {
    gradient.mask_fill(value.lower_equal_elem(0.0), 0.0)
}

/// Each window's four values, a row a window and channel.
fn windows<B: Backend>(images: Tensor<B, 4>) -> Tensor<B, 2> {
    let [batch, height, width, channels] = images.dims();
    let [height, width] = [height / 2, width / 2];
    images
        .narrow(1, 0, 2 * height)
        .narrow(2, 0, 2 * width)
        .reshape([batch, height, 2, width, 2, channels])
        .permute([0, 1, 3, 5, 2, 4])
        .reshape([batch * height * width * channels, 4])
}

/// See [`super::LayerOps::pool`].
pub(super) fn pool<B: Backend>(images: Tensor<B, 4>, bias: Tensor<B, 1>) -> Tensor<B, 4> {
    let [batch, height, width, channels] = images.dims();
    let greatest = windows(images).max_dim(1);
    relu(greatest.reshape([batch, height / 2, width / 2, channels]) + bias.unsqueeze())
}

/// See [`super::LayerGradients::pool_backward`].
pub(super) fn pool_backward<B: Backend>(
    images: Tensor<B, 4>,
    bias: Tensor<B, 1>,
    output_gradient: Tensor<B, 4>,
) -> (Tensor<B, 4>, Tensor<B, 1>) {
    let dims = images.dims();
    let [batch, height, width, channels] = dims;
    let [half_height, half_width] = [height / 2, width / 2];
    let device = images.device();
    let (greatest, index) = windows(images).max_dim_with_indices(1);
    let value = greatest.reshape(output_gradient.dims()) + bias.unsqueeze();
    let gradient = passed(output_gradient, value);
    let positions = Tensor::<B, 1, Int>::arange(0..4, &device).unsqueeze::<2>();
    let here = index.repeat_dim(1, 4).equal(positions).float();
    let pooled = here * gradient.clone().reshape([-1, 1]);
    let pooled = pooled
        .reshape([batch, half_height, half_width, channels, 2, 2])
        .permute([0, 1, 4, 2, 5, 3])
        .reshape([batch, 2 * half_height, 2 * half_width, channels]);
    let images = Tensor::zeros(dims, &device).slice_assign(
        [0..batch, 0..2 * half_height, 0..2 * half_width, 0..channels],
        pooled,
    );
    let bias = gradient
        .sum_dim(0)
        .sum_dim(1)
        .sum_dim(2)
        .reshape([channels]);
    (images, bias)
}

fn indices<B: Backend>(labels: &[u8], device: &B::Device) -> Tensor<B, 2, Int> {
    let indices: Vec<i64> = labels.iter().map(|&label| i64::from(label)).collect();
    let row = TensorData::new(indices, [labels.len()]);
    Tensor::<B, 1, Int>::from_data(row, device).reshape([labels.len(), 1])
}

/// See [`super::LayerOps::cross_entropy`].
pub(super) fn cross_entropy<B: Backend>(scores: Tensor<B, 2>, labels: &[u8]) -> Tensor<B, 1> {
    let indices = indices(labels, &scores.device());
    log_softmax(scores, 1).gather(1, indices).neg().mean()
}

/// See [`super::LayerGradients::cross_entropy_backward`].
pub(super) fn cross_entropy_backward<B: Backend>(
    scores: Tensor<B, 2>,
    labels: &[u8],
    loss_gradient: Tensor<B, 1>,
) -> Tensor<B, 2> {
    let [batch, classes] = scores.dims();
    let device = scores.device();
    let row = Tensor::<B, 1, Int>::arange(0..classes as i64, &device).unsqueeze::<2>();
    let hot = indices(labels, &device)
        .repeat_dim(1, classes)
        .equal(row)
        .float();
    (softmax(scores, 1) - hot) * loss_gradient.unsqueeze() / batch as f64
}
