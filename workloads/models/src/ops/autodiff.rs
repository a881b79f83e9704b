//! The convolution in burn's autodiff graph, for any backend that has it.

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::tensor::ops::FloatTensor;

use super::{ConvolutionOps, Window};

#[derive(Debug)]
struct ConvolutionStep;

impl<B: ConvolutionOps> Backward<B, 2> for ConvolutionStep {
    type State = (NodeId, NodeId, Window);

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        gradients: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let [images_node, weight_node] = ops.parents;
        let (images, weight, window) = ops.state;
        let (images_gradient, weight_gradient) = B::convolution_backward(
            checkpointer.retrieve_node_output(images),
            checkpointer.retrieve_node_output(weight),
            gradients.consume::<B>(&ops.node),
            window,
            images_node.is_some(),
        );
        if let (Some(node), Some(gradient)) = (images_node, images_gradient) {
            gradients.register::<B>(node.id, gradient);
        }
        if let Some(node) = weight_node {
            gradients.register::<B>(node.id, weight_gradient);
        }
    }
}

impl<B: ConvolutionOps, C: CheckpointStrategy> ConvolutionOps for Autodiff<B, C> {
    fn convolution(
        images: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        window: Window,
    ) -> FloatTensor<Self> {
        let prepared = ConvolutionStep
            .prepare::<C>([images.node.clone(), weight.node.clone()])
            .compute_bound()
            .stateful();
        match prepared {
            OpsKind::Tracked(mut step) => {
                let state = (step.checkpoint(&images), step.checkpoint(&weight), window);
                let output = B::convolution(images.primitive, weight.primitive, window);
                step.finish(state, output)
            }
            OpsKind::UnTracked(step) => {
                step.finish(B::convolution(images.primitive, weight.primitive, window))
            }
        }
    }
}
