//! The operations on burn's CPU backend: the kernels of [`crate::cpu`] between tensors.

use burn::tensor::{Shape, Tensor, TensorData, TensorPrimitive};
use burn_flex::{Flex, FlexTensor};

use super::{
    FeatureGradients, Features, LayerGradients, LayerOps, Moments, Norm, NormGradients, PoolWindow,
    Window, reference,
};
use crate::cpu::geometry::Geometry;
use crate::cpu::input::{Affine, Input};
use crate::cpu::max_pool::{self, Sizes};
use crate::cpu::method::{Gradients, Method};
use crate::cpu::norm::{self, Sums, input_gradient};
use crate::cpu::pool::Pooled;
use crate::cpu::{activation, channels, dense, dense_images, dense_weight, loss, pool, rows};

impl LayerOps for Flex {
    type Origin = ();

    fn convolution(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> Features<Self> {
        Features::plain(convolution(input, weight, window, false).0)
    }

    fn convolution_with_moments(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> (Features<Self>, Moments<Self>) {
        let (output, moments) = convolution(input, weight, window, true);
        let moments = Moments {
            mean: vector(moments.mean),
            variance: vector(moments.variance),
        };
        (Features::plain(output), moments)
    }

    fn activation(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
    ) -> Features<Self> {
        let shape = features.values.dims();
        let (features, shortcut) = (Held::of(features), shortcut.map(Held::of));
        let shortcut = shortcut.as_ref().map(Held::read);
        let values = activation::forward(features.read(), shortcut, shape[3], rectified);
        Features::plain(tensor(values, shape))
    }

    fn hard_sigmoids(inputs: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let shape = inputs.dims();
        tensor(rows::hard_sigmoid(slice(&values(inputs))), shape)
    }

    fn excite(images: Tensor<Self, 4>, shares: Tensor<Self, 2>) -> Tensor<Self, 4> {
        let shape = images.dims();
        let (images, shares) = (values(images), values(shares));
        let sizes = channels::Sizes::new(shape);
        let excited = channels::excited(slice(&images), slice(&shares), sizes);
        tensor(excited, shape)
    }

    fn side_by_side(parts: [Tensor<Self, 4>; 2]) -> Tensor<Self, 4> {
        let [batch, height, width, first] = parts[0].dims();
        let second = parts[1].dims()[3];
        let parts = parts.map(values);
        let joined = channels::side_by_side(parts.each_ref().map(slice), [first, second]);
        tensor(joined, [batch, height, width, first + second])
    }

    fn channels_first(images: Tensor<Self, 4>) -> Tensor<Self, 2> {
        let [batch, height, width, channels] = images.dims();
        let pixels = height * width;
        let rows = channels::transposed(slice(&values(images)), [pixels, channels]);
        tensor(rows, [batch, channels * pixels])
    }

    fn max_pool(features: Features<Self>, window: PoolWindow) -> Tensor<Self, 4> {
        let sizes = Sizes::new(features.values.dims(), window);
        let features = Held::of(features);
        tensor(max_pool::forward(features.read(), sizes), sizes.shape())
    }

    fn pool(images: Tensor<Self, 4>, bias: Tensor<Self, 1>) -> Tensor<Self, 4> {
        let sizes = pooled(&images);
        let (images, bias) = (values(images), values(bias));
        let pooled = pool::forward(slice(&images), slice(&bias), sizes);
        tensor(pooled, sizes.shape())
    }

    fn fully_connected(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        bias: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        let geometry = as_convolution(&rows, &weight);
        let (rows, weight, bias) = (values(rows), values(weight), values(bias));
        let (mut output, _) = dense::forward(plain(&rows), slice(&weight), &geometry, false);
        rows::add_bias(&mut output, slice(&bias));
        tensor(output, [geometry.batch, geometry.outputs])
    }

    fn cross_entropy(scores: Tensor<Self, 2>, labels: &[u8]) -> Tensor<Self, 1> {
        vector(vec![loss::forward(slice(&values(scores)), labels)])
    }
}

impl LayerGradients for Flex {
    fn convolution_backward(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        output_gradient: Tensor<Self, 4>,
        window: Window,
        input_wanted: bool,
    ) -> (Option<FeatureGradients<Self>>, Tensor<Self, 4>) {
        let geometry = geometry(&input, &weight, window);
        let (shape, weight_shape) = (input.values.dims(), weight.dims());
        let (input, weight) = (Held::of(input), values(weight));
        let gradient = values(output_gradient);
        let Gradients {
            images,
            weight,
            sums,
        } = Method::of(&geometry).backward(
            input.read(),
            slice(&weight),
            slice(&gradient),
            &geometry,
            input_wanted,
        );
        drop(gradient);
        let images = images.map(|images| input.gradients(primitive(images, shape), sums.as_ref()));
        (images, tensor(weight, weight_shape))
    }

    fn activation_backward(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
        output_gradient: Tensor<Self, 4>,
    ) -> (FeatureGradients<Self>, Option<FeatureGradients<Self>>) {
        let shape = features.values.dims();
        let (features, shortcut) = (Held::of(features), shortcut.map(Held::of));
        let mut gradient = values(output_gradient);
        if rectified {
            activation::rectify_gradient(
                features.read(),
                shortcut.as_ref().map(Held::read),
                shape[3],
                gradient.storage_mut(),
            );
        }
        let shortcut = shortcut.map(|shortcut| shortcut.own_gradients(gradient.clone()));
        (features.own_gradients(gradient), shortcut)
    }

    fn global_average_backward(shape: [usize; 4], gradient: Tensor<Self, 2>) -> Tensor<Self, 4> {
        let [down, across] = reference::mean_factors(shape);
        let gradient = values(gradient);
        let factors = [across, down];
        let images =
            channels::mean_gradient(slice(&gradient), factors, channels::Sizes::new(shape));
        tensor(images, shape)
    }

    fn hard_sigmoids_backward(
        inputs: Tensor<Self, 2>,
        output_gradient: Tensor<Self, 2>,
    ) -> Tensor<Self, 2> {
        let shape = inputs.dims();
        let (inputs, gradient) = (values(inputs), values(output_gradient));
        let gradient = rows::hard_sigmoid_gradient(slice(&inputs), slice(&gradient));
        tensor(gradient, shape)
    }

    fn excite_backward(
        images: Tensor<Self, 4>,
        shares: Tensor<Self, 2>,
        output_gradient: Tensor<Self, 4>,
    ) -> (Tensor<Self, 4>, Tensor<Self, 2>) {
        let (shape, rows) = (images.dims(), shares.dims());
        let (images, shares) = (values(images), values(shares));
        let gradient = values(output_gradient);
        let operands = [&images, &shares, &gradient].map(slice);
        let sizes = channels::Sizes::new(shape);
        let [images, shares] = channels::excited_gradients(operands, sizes);
        (tensor(images, shape), tensor(shares, rows))
    }

    fn apart(joined: Tensor<Self, 4>, first: usize) -> [Tensor<Self, 4>; 2] {
        let [batch, height, width, channels] = joined.dims();
        let channels = [first, channels - first];
        let [before, after] = channels::apart(slice(&values(joined)), channels);
        let shape = channels.map(|channels| [batch, height, width, channels]);
        [tensor(before, shape[0]), tensor(after, shape[1])]
    }

    fn channels_last(rows: Tensor<Self, 2>, shape: [usize; 4]) -> Tensor<Self, 4> {
        let [_, height, width, channels] = shape;
        let images = channels::transposed(slice(&values(rows)), [channels, height * width]);
        tensor(images, shape)
    }

    fn max_pool_backward(
        features: Features<Self>,
        window: PoolWindow,
        output_gradient: Tensor<Self, 4>,
    ) -> FeatureGradients<Self> {
        let shape = features.values.dims();
        let sizes = Sizes::new(shape, window);
        let (features, gradient) = (Held::of(features), values(output_gradient));
        let gradient = max_pool::backward(features.read(), slice(&gradient), sizes);
        features.own_gradients(primitive(gradient, shape))
    }

    fn pool_backward(
        images: Tensor<Self, 4>,
        bias: Tensor<Self, 1>,
        output_gradient: Tensor<Self, 4>,
    ) -> (Tensor<Self, 4>, Tensor<Self, 1>) {
        let (sizes, shape) = (pooled(&images), images.dims());
        let (images, bias) = (values(images), values(bias));
        let gradient = values(output_gradient);
        let (images, bias) = pool::backward(slice(&images), slice(&bias), slice(&gradient), sizes);
        (tensor(images, shape), vector(bias))
    }

    fn fully_connected_backward(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        output_gradient: Tensor<Self, 2>,
    ) -> (Tensor<Self, 2>, Tensor<Self, 2>, Tensor<Self, 1>) {
        let geometry = as_convolution(&rows, &weight);
        let (shape, weight_shape) = (rows.dims(), weight.dims());
        let (rows, weight, gradient) = (values(rows), values(weight), values(output_gradient));
        let weight_gradient = dense_weight::gradient(plain(&rows), slice(&gradient), &geometry);
        let (rows_gradient, _) =
            dense_images::gradient(plain(&rows), slice(&weight), slice(&gradient), &geometry);
        let bias = rows::column_sums(slice(&gradient), geometry.outputs);
        (
            tensor(rows_gradient, shape),
            tensor(weight_gradient, weight_shape),
            vector(bias),
        )
    }

    fn cross_entropy_backward(
        scores: Tensor<Self, 2>,
        labels: &[u8],
        loss_gradient: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        let shape = scores.dims();
        let (scores, loss_gradient) = (values(scores), values(loss_gradient));
        let factor = slice(&loss_gradient).first().copied().unwrap_or(0.0);
        tensor(loss::backward(slice(&scores), labels, factor), shape)
    }
}

/// Returns the convolution, and the moments of its output; of no channels where they are
/// not wanted.
fn convolution(
    input: Features<Flex>,
    weight: Tensor<Flex, 4>,
    window: Window,
    moments_wanted: bool,
) -> (Tensor<Flex, 4>, norm::Moments) {
    let geometry = geometry(&input, &weight, window);
    let (input, weight) = (Held::of(input), values(weight));
    let method = Method::of(&geometry);
    let (output, moments) = method.forward(input.read(), slice(&weight), &geometry, moments_wanted);
    (tensor(output, geometry.output_shape()), moments)
}

/// Features as kernels read them.
struct Held {
    values: FlexTensor,
    norm: Option<Affine>,
    /// Whether the norm has moments, and not a bias alone.
    scaled: bool,
}

impl Held {
    fn of(features: Features<Flex>) -> Self {
        let scale = features.norm.as_ref().map(|norm| norm.scale.is_some());
        Self {
            values: values(features.values),
            norm: features.norm.map(affine),
            scaled: scale.unwrap_or(false),
        }
    }

    fn read(&self) -> Input<'_> {
        Input {
            values: slice(&self.values),
            norm: self.norm.as_ref(),
        }
    }

    /// Computes the gradients from that of the norm's output and its sums, if there is a
    /// norm.
    fn gradients(&self, mut gradient: FlexTensor, sums: Option<&Sums>) -> FeatureGradients<Flex> {
        let norm = self.norm.as_ref().zip(sums).map(|(norm, sums)| {
            let products = sums.product.iter().zip(&norm.deviation);
            let weight = products.map(|(product, d)| product * d).collect();
            if self.scaled {
                input_gradient(slice(&self.values), norm, sums, gradient.storage_mut());
            }
            NormGradients {
                weight: self.scaled.then(|| vector(weight)),
                bias: vector(sums.gradient.clone()),
            }
        });
        FeatureGradients {
            values: Tensor::from_primitive(TensorPrimitive::Float(gradient)),
            norm,
        }
    }

    /// Computes the gradients from that of the value of the features.
    fn own_gradients(&self, mut gradient: FlexTensor) -> FeatureGradients<Flex> {
        let norm = self.norm.as_ref();
        let sums =
            norm.map(|norm| activation::norm_sums(self.read(), norm, gradient.storage_mut()));
        self.gradients(gradient, sums.as_ref())
    }
}

fn affine(norm: Norm<Flex>) -> Affine {
    let bias = values(norm.bias);
    let Some(scale) = norm.scale else {
        let [zeros, ones] = [0.0, 1.0].map(|value| vec![value; slice(&bias).len()]);
        return Affine::new([&ones, slice(&bias), &zeros, &ones], 0.0, norm.then);
    };
    let tensors = [scale.weight, scale.moments.mean, scale.moments.variance].map(values);
    let [weight, mean, variance] = tensors.each_ref().map(slice);
    Affine::new(
        [weight, slice(&bias), mean, variance],
        scale.epsilon,
        norm.then,
    )
}

fn geometry(input: &Features<Flex>, weight: &Tensor<Flex, 4>, window: Window) -> Geometry {
    Geometry::new(input.values.dims(), weight.dims()[0], window)
}

/// Returns a linear layer is a 1×1 convolution of images of one pixel.
fn as_convolution(rows: &Tensor<Flex, 2>, weight: &Tensor<Flex, 2>) -> Geometry {
    let [batch, inputs] = rows.dims();
    Geometry::new([batch, 1, 1, inputs], weight.dims()[0], Window::one(1))
}

fn pooled(images: &Tensor<Flex, 4>) -> Pooled {
    let [batch, height, width, channels] = images.dims();
    Pooled {
        batch,
        height,
        width,
        channels,
    }
}

fn plain(tensor: &FlexTensor) -> Input<'_> {
    Input {
        values: slice(tensor),
        norm: None,
    }
}

fn values<const D: usize>(tensor: Tensor<Flex, D>) -> FlexTensor {
    tensor.into_primitive().tensor().to_contiguous()
}

/// Returns the values of a contiguous tensor.
fn slice(tensor: &FlexTensor) -> &[f32] {
    tensor.storage()
}

fn vector(values: Vec<f32>) -> Tensor<Flex, 1> {
    let shape = [values.len()];
    tensor(values, shape)
}

fn tensor<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<Flex, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive(values, shape)))
}

fn primitive<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(values, Shape::from(shape)))
}
