//! The convolution that the networks call, and the place for faster ones.
//!
//! burn's own convolution is slow on the CPU in the backward pass: weight
//! gradients run as convolutions with kernels as large as an image, and depthwise
//! ones loop over groups. [`ConvolutionOps`] is a convolution over channels-last
//! images with its backward pass spelled out. Its default bodies are burn's tensor
//! operations, which any backend has; a backend overrides what it does better.

mod autodiff;
mod flex;
mod generic;

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;

/// Convolution over channels-last images.
///
/// Images are `[batch, height, width, channels]`, weights
/// `[out, in / groups, kernel, kernel]`. A window has one group (dense), or as many
/// groups as there are input and output channels (depthwise).
pub(crate) trait ConvolutionOps: Backend {
    /// The images convolved, without bias.
    fn convolution(
        images: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self> {
        match window.groups {
            1 => generic::dense::<Self>(images, weight, window),
            _ => Self::depthwise(images, weight, window),
        }
    }

    /// The gradients of the images, where they are wanted, and of the weight.
    fn convolution_backward(
        images: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        output_gradient: FloatTensor<Self>,
        window: Window,
        images_wanted: bool,
    ) -> (Option<FloatTensor<Self>>, FloatTensor<Self>) {
        let backward = match window.groups {
            1 => generic::dense_backward::<Self>,
            _ => Self::depthwise_backward,
        };
        backward(images, weight, output_gradient, window, images_wanted)
    }

    /// What each output of a dense window sees, a row an output:
    /// `[batch · height' · width', kernel · kernel · channels]`.
    fn patches(images: FloatTensor<Self>, window: Window) -> FloatTensor<Self> {
        generic::patches::<Self>(images, window)
    }

    /// The transpose of [`ConvolutionOps::patches`]: every value added to the pixel
    /// that it came from, in images of that shape.
    fn fold(patches: FloatTensor<Self>, images: [usize; 4], window: Window) -> FloatTensor<Self> {
        generic::fold::<Self>(patches, images, window)
    }

    /// `[matrices, rows, columns]` to `[matrices, columns, rows]`: between the orders of
    /// weights and of patches.
    fn transpose_matrices(matrices: FloatTensor<Self>) -> FloatTensor<Self> {
        generic::transpose_matrices::<Self>(matrices)
    }

    /// [`ConvolutionOps::convolution`] of a depthwise window.
    fn depthwise(
        images: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self> {
        generic::depthwise::<Self>(images, weight, window)
    }

    /// [`ConvolutionOps::convolution_backward`] of a depthwise window.
    fn depthwise_backward(
        images: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        output_gradient: FloatTensor<Self>,
        window: Window,
        images_wanted: bool,
    ) -> (Option<FloatTensor<Self>>, FloatTensor<Self>) {
        generic::depthwise_backward::<Self>(images, weight, output_gradient, window, images_wanted)
    }
}

/// The square window of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Height and width of the kernel.
    pub(crate) kernel: usize,
    /// Step between two outputs, in both directions.
    pub(crate) stride: usize,
    /// Zeros added on each of the four sides.
    pub(crate) padding: usize,
    /// Groups of channels: 1, or one a channel.
    pub(crate) groups: usize,
}

impl Window {
    /// 1×1.
    pub(crate) const fn one(stride: usize) -> Self {
        Self::new(1, stride, 0)
    }

    /// 3×3, padded by 1.
    pub(crate) const fn three(stride: usize) -> Self {
        Self::new(3, stride, 1)
    }

    /// 5×5 of stride 1.
    pub(crate) const fn five(padding: usize) -> Self {
        Self::new(5, 1, padding)
    }

    const fn new(kernel: usize, stride: usize, padding: usize) -> Self {
        Self {
            kernel,
            stride,
            padding,
            groups: 1,
        }
    }

    /// The same window over so many groups.
    pub(crate) const fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// Inputs that one output sums over, of so many input channels.
    pub(crate) const fn fan_in(self, inputs: usize) -> usize {
        inputs / self.groups * self.kernel * self.kernel
    }

    /// Outputs along an axis of so many inputs.
    pub(crate) const fn outputs(self, inputs: usize) -> usize {
        (inputs + 2 * self.padding - self.kernel) / self.stride + 1
    }
}

/// The CPU's loops against the same operations in burn's own terms.
#[cfg(test)]
mod tests {
    use burn::tensor::{Tensor, TensorData, TensorPrimitive, Tolerance};
    use burn_flex::{Flex, FlexTensor};
    use epochcost_kernels::hash::{mix, unit_f32};

    use super::*;

    const WINDOWS: [Window; 6] = [
        Window::one(1),
        Window::one(2),
        Window::three(1),
        Window::three(2),
        Window::five(2),
        Window::five(0),
    ];

    fn tensor<const D: usize>(shape: [usize; D], seed: u64) -> FlexTensor {
        let values = (0..shape.iter().product::<usize>())
            .map(|index| unit_f32(mix(seed, index as u64)) - 0.5)
            .collect::<Vec<_>>();
        FlexTensor::from_data(TensorData::new(values, shape))
    }

    fn assert_close<const D: usize>(ours: FlexTensor, generic: FlexTensor, window: Window) {
        let data = |tensor| Tensor::<Flex, D>::from_primitive(TensorPrimitive::Float(tensor));
        let (ours, generic) = (data(ours), data(generic));
        assert_eq!(ours.dims(), generic.dims(), "{window:?}");
        let tolerance = Tolerance::<f32>::rel_abs(1e-5, 1e-5);
        ours.into_data()
            .assert_approx_eq(&generic.into_data(), tolerance);
    }

    #[test]
    fn patches_and_fold() {
        let images = [2, 8, 7, 3];
        for window in WINDOWS {
            let rows = 2 * window.outputs(8) * window.outputs(7);
            let patches = tensor([rows, window.fan_in(3)], 2);
            assert_close::<2>(
                Flex::patches(tensor(images, 1), window),
                generic::patches::<Flex>(tensor(images, 1), window),
                window,
            );
            assert_close::<4>(
                Flex::fold(patches.clone(), images, window),
                generic::fold::<Flex>(patches, images, window),
                window,
            );
        }
    }

    #[test]
    fn transposed_matrices() {
        for shape in [[3, 4, 5], [2, 1, 7], [4, 6, 1]] {
            assert_close::<3>(
                Flex::transpose_matrices(tensor(shape, 1)),
                generic::transpose_matrices::<Flex>(tensor(shape, 1)),
                Window::one(1),
            );
        }
    }

    #[test]
    fn depthwise_and_its_gradients() {
        for window in WINDOWS.map(|window| window.groups(5)) {
            let images = tensor([2, 8, 7, 5], 1);
            let weight = tensor([5, 1, window.kernel, window.kernel], 2);
            let gradient = tensor([2, window.outputs(8), window.outputs(7), 5], 3);
            assert_close::<4>(
                Flex::depthwise(images.clone(), weight.clone(), window),
                generic::depthwise::<Flex>(images.clone(), weight.clone(), window),
                window,
            );
            let arguments = || (images.clone(), weight.clone(), gradient.clone());
            let (x, w, g) = arguments();
            let (ours, our_weight) = Flex::depthwise_backward(x, w, g, window, true);
            let (x, w, g) = arguments();
            let (generic, generic_weight) =
                generic::depthwise_backward::<Flex>(x, w, g, window, true);
            assert_close::<4>(ours.unwrap(), generic.unwrap(), window);
            assert_close::<4>(our_weight, generic_weight, window);
        }
    }
}
