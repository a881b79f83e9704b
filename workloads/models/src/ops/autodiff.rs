//! The operations in burn's autodiff graph, for any backend that has them.
//!
//! A step keeps the tensors that its backward pass reads in its own state, which goes
//! with it: memory is returned while the backward pass proceeds. An activation's values
//! are made again ([`super::kept`]).

use std::sync::Arc;

use burn::tensor::backend::Backend;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorPrimitive};
use burn_autodiff::Autodiff;
use burn_autodiff::NodeId;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};

use super::kept::{Kept, Origin, Recipe};
use super::tap;
use super::{FeatureGradients, Features, LayerOps, Moments, Norm, PoolWindow, Scale, Window};

/// A tensor in the graph, which a step is made from.
type Parent<B, C> = FloatTensor<Autodiff<B, C>>;

/// Returns a tensor in the graph, and what it holds.
fn split<B: Backend, C: CheckpointStrategy, const D: usize>(
    tensor: Tensor<Autodiff<B, C>, D>,
) -> (Parent<B, C>, Tensor<B, D>) {
    let parent = tensor.into_primitive().tensor();
    let inner = Tensor::from_primitive(TensorPrimitive::Float(parent.primitive.clone()));
    (parent, inner)
}

fn held<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> B::FloatTensorPrimitive {
    tensor.into_primitive().tensor()
}

/// Registers a step of `N` parents with its state, and returns its output.
fn register<B, C, S, const N: usize, const D: usize>(
    step: S,
    parents: [Parent<B, C>; N],
    state: S::State,
    output: Tensor<B, D>,
) -> Tensor<Autodiff<B, C>, D>
where
    B: Backend,
    C: CheckpointStrategy,
    S: Backward<B, N>,
{
    let output = held(output);
    let nodes = parents.map(|parent| parent.node);
    for node in &nodes {
        tap::read(node.id);
    }
    let output = match step.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish(state, output),
        OpsKind::UnTracked(step) => step.finish(output),
    };
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

/// Returns the nodes of features and of their norm's weight and bias, what they hold, and
/// what of it is kept. Where there is no norm, nodes that want no gradient stand for it.
fn split_features<B: LayerOps, C: CheckpointStrategy>(
    features: Features<Autodiff<B, C>>,
) -> ([Parent<B, C>; 3], Features<B>, Kept<B>) {
    let origin = features.origin.clone();
    let (nodes, features) = split_values(features);
    let kept = Kept::new(&features, origin);
    (nodes, features, kept)
}

fn split_values<B: LayerOps, C: CheckpointStrategy>(
    features: Features<Autodiff<B, C>>,
) -> ([Parent<B, C>; 3], Features<B>) {
    let (node, values) = split(features.values);
    // A node for each parent that is not there.
    let absent = || split(Tensor::<Autodiff<B, C>, 4>::from_inner(values.clone())).0;
    let Some(norm) = features.norm else {
        let nodes = [node, absent(), absent()];
        return (nodes, Features::plain(values));
    };
    // The norm's parents. Moments are constants to the graph: its gradient contains theirs.
    let (weight_node, scale) = match norm.scale {
        None => (absent(), None),
        Some(scale) => {
            let (node, weight) = split(scale.weight);
            let moments = Moments {
                mean: split(scale.moments.mean).1,
                variance: split(scale.moments.variance).1,
            };
            let epsilon = scale.epsilon;
            let scale = Scale {
                weight,
                moments,
                epsilon,
            };
            (node, Some(scale))
        }
    };
    let (bias_node, bias) = split(norm.bias);
    let norm = Norm {
        scale,
        bias,
        then: norm.then,
    };
    (
        [node, weight_node, bias_node],
        Features::plain(values).normed(norm),
    )
}

/// Registers a gradient where its node wants it, unless it is taken.
fn pass_on<B: LayerOps, const D: usize>(
    gradient: Tensor<B, D>,
    node: Option<NodeId>,
    gradients: &mut Gradients,
) {
    if let Some(node) = node
        && let Some(gradient) = tap::take(node, gradient)
    {
        gradients.register::<B>(node, held(gradient));
    }
}

/// Passes on the gradients of features and of their norm's weight and bias; see
/// [`pass_on`].
fn pass_on_features<B: LayerOps>(
    found: FeatureGradients<B>,
    [values, weight, bias]: [Option<NodeId>; 3],
    gradients: &mut Gradients,
) {
    pass_on(found.values, values, gradients);
    if let Some(found) = found.norm {
        if let Some(gradient) = found.weight {
            pass_on(gradient, weight, gradients);
        }
        pass_on(found.bias, bias, gradients);
    }
}

/// Returns the gradient of a step's output.
fn consumed<B: Backend, const N: usize, const D: usize, S>(
    ops: &Ops<S, N>,
    gradients: &mut Gradients,
) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(gradients.consume::<B>(&ops.node)))
}

#[derive(Debug)]
struct ConvolutionStep;

/// A convolution's operands, out of the graph and in it.
struct Convolution<B: LayerOps, C: CheckpointStrategy> {
    parents: [Parent<B, C>; 4],
    input: Features<B>,
    kept: Kept<B>,
    weight: Tensor<B, 4>,
    window: Window,
}

impl<B: LayerOps, C: CheckpointStrategy> Convolution<B, C> {
    fn new(
        input: Features<Autodiff<B, C>>,
        weight: Tensor<Autodiff<B, C>, 4>,
        window: Window,
    ) -> Self {
        let (weight_node, weight) = split(weight);
        let ([values, norm_weight, norm_bias], input, kept) = split_features(input);
        Self {
            parents: [weight_node, values, norm_weight, norm_bias],
            input,
            kept,
            weight,
            window,
        }
    }

    /// Returns the output in the graph.
    fn registered(self, output: Features<B>) -> Features<Autodiff<B, C>> {
        let recipe = Recipe::Convolution(self.kept, self.weight, self.window);
        let origin = Arc::new(Origin::new(recipe));
        Features {
            values: register(ConvolutionStep, self.parents, origin.clone(), output.values),
            norm: None,
            origin: Some(origin),
        }
    }
}

impl<B: LayerOps> Backward<B, 4> for ConvolutionStep {
    type State = Arc<Origin<B>>;

    fn backward(self, ops: Ops<Self::State, 4>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = consumed(&ops, gradients);
        ops.state.let_go();
        let Recipe::Convolution(input, weight, window) = &ops.state.recipe else {
            unreachable!("a convolution's output is made by it");
        };
        let [node, parents @ ..] = ops.parents.map(|node| node.map(|node| node.id));
        let wanted = parents.iter().any(Option::is_some);
        let (input, weight) =
            B::convolution_backward(input.read(), weight.clone(), output, *window, wanted);
        pass_on(weight, node, gradients);
        if let Some(input) = input {
            pass_on_features(input, parents, gradients);
        }
    }
}

#[derive(Debug)]
struct ActivationStep;

impl<B: LayerOps> Backward<B, 6> for ActivationStep {
    type State = Arc<Origin<B>>;

    fn backward(self, ops: Ops<Self::State, 6>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = consumed(&ops, gradients);
        ops.state.let_go();
        let Recipe::Activation(features, shortcut, rectified) = &ops.state.recipe else {
            unreachable!("an activation's output is made by it");
        };
        let (features, shortcut) = (features.read(), shortcut.as_ref().map(Kept::read));
        let [values, weight, bias, parents @ ..] = ops.parents.map(|node| node.map(|node| node.id));
        let (features, shortcut) = B::activation_backward(features, shortcut, *rectified, output);
        pass_on_features(features, [values, weight, bias], gradients);
        if let Some(shortcut) = shortcut {
            pass_on_features(shortcut, parents, gradients);
        }
    }
}

#[derive(Debug)]
struct AverageStep;

impl<B: LayerOps> Backward<B, 1> for AverageStep {
    /// Shape of the values.
    type State = [usize; 4];

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output: Tensor<B, 2> = consumed(&ops, gradients);
        let [node] = ops.parents.map(|node| node.map(|node| node.id));
        pass_on(
            B::global_average_backward(ops.state, output),
            node,
            gradients,
        );
    }
}

#[derive(Debug)]
struct HardSigmoidStep;

impl<B: LayerOps> Backward<B, 1> for HardSigmoidStep {
    type State = Tensor<B, 2>;

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = consumed(&ops, gradients);
        let [node] = ops.parents.map(|node| node.map(|node| node.id));
        pass_on(
            B::hard_sigmoids_backward(ops.state, output),
            node,
            gradients,
        );
    }
}

#[derive(Debug)]
struct ExciteStep;

impl<B: LayerOps> Backward<B, 2> for ExciteStep {
    type State = (Tensor<B, 4>, Tensor<B, 2>);

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = consumed(&ops, gradients);
        let (values, shares) = ops.state;
        let [values_node, shares_node] = ops.parents.map(|node| node.map(|node| node.id));
        let (values, shares) = B::excite_backward(values, shares, output);
        pass_on(values, values_node, gradients);
        pass_on(shares, shares_node, gradients);
    }
}

#[derive(Debug)]
struct SideBySideStep;

impl<B: LayerOps> Backward<B, 2> for SideBySideStep {
    /// Channels of the first part.
    type State = usize;

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = consumed(&ops, gradients);
        let nodes = ops.parents.map(|node| node.map(|node| node.id));
        let parts: [Tensor<B, 4>; 2] = B::apart(output, ops.state);
        for (part, node) in parts.into_iter().zip(nodes) {
            pass_on(part, node, gradients);
        }
    }
}

#[derive(Debug)]
struct ChannelsFirstStep;

impl<B: LayerOps> Backward<B, 1> for ChannelsFirstStep {
    /// Shape of the images.
    type State = [usize; 4];

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = consumed(&ops, gradients);
        let [node] = ops.parents.map(|node| node.map(|node| node.id));
        let images: Tensor<B, 4> = B::channels_last(output, ops.state);
        pass_on(images, node, gradients);
    }
}

#[derive(Debug)]
struct MaxPoolStep;

impl<B: LayerOps> Backward<B, 3> for MaxPoolStep {
    type State = (Kept<B>, PoolWindow);

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = consumed(&ops, gradients);
        let (features, window) = &ops.state;
        let parents = ops.parents.map(|node| node.map(|node| node.id));
        let features = B::max_pool_backward(features.read(), *window, output);
        pass_on_features(features, parents, gradients);
    }
}

#[derive(Debug)]
struct PoolStep;

impl<B: LayerOps> Backward<B, 2> for PoolStep {
    type State = (Tensor<B, 4>, Tensor<B, 1>);

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = consumed(&ops, gradients);
        let (images, bias) = ops.state;
        let [images_node, bias_node] = ops.parents.map(|node| node.map(|node| node.id));
        let (images, bias) = B::pool_backward(images, bias, output);
        pass_on(images, images_node, gradients);
        pass_on(bias, bias_node, gradients);
    }
}

#[derive(Debug)]
struct LinearStep;

impl<B: LayerOps> Backward<B, 3> for LinearStep {
    type State = (Tensor<B, 2>, Tensor<B, 2>);

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output: Tensor<B, 2> = consumed(&ops, gradients);
        let (rows, weight) = ops.state;
        let [rows_node, weight_node, bias_node] = ops.parents.map(|node| node.map(|node| node.id));
        let (rows, weight, bias) = B::fully_connected_backward(rows, weight, output);
        pass_on(rows, rows_node, gradients);
        pass_on(weight, weight_node, gradients);
        pass_on(bias, bias_node, gradients);
    }
}

#[derive(Debug)]
struct CrossEntropyStep;

impl<B: LayerOps> Backward<B, 1> for CrossEntropyStep {
    type State = (Tensor<B, 2>, Arc<[u8]>);

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let loss = consumed(&ops, gradients);
        let (scores, labels) = ops.state;
        let [node] = ops.parents.map(|node| node.map(|node| node.id));
        let scores = B::cross_entropy_backward(scores, &labels, loss);
        pass_on(scores, node, gradients);
    }
}

impl<B: LayerOps, C: CheckpointStrategy> LayerOps for Autodiff<B, C> {
    type Origin = Arc<Origin<B>>;

    fn tap_gradient<const D: usize>(parameter: Tensor<Self, D>, position: usize) {
        tap::add(split(parameter).0.node.id, position);
    }

    fn convolution(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> Features<Self> {
        let operands = Convolution::new(input, weight, window);
        let output = B::convolution(operands.input.clone(), operands.weight.clone(), window);
        operands.registered(output)
    }

    fn convolution_with_moments(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> (Features<Self>, Moments<Self>) {
        let operands = Convolution::new(input, weight, window);
        let (input, weight) = (operands.input.clone(), operands.weight.clone());
        let (output, moments) = B::convolution_with_moments(input, weight, window);
        let moments = Moments {
            mean: Tensor::from_inner(moments.mean),
            variance: Tensor::from_inner(moments.variance),
        };
        (operands.registered(output), moments)
    }

    fn activation(
        features: Features<Self>,
        shortcut: Option<Features<Self>>,
        rectified: bool,
    ) -> Features<Self> {
        let (main, features, kept) = split_features(features);
        let absent = || {
            let values = features.values.clone();
            split(Tensor::<Self, 4>::from_inner(values)).0
        };
        let (beside, shortcut, kept_shortcut) = match shortcut.map(split_features) {
            Some((nodes, shortcut, kept)) => (nodes, Some(shortcut), Some(kept)),
            None => (std::array::from_fn(|_| absent()), None, None),
        };
        let output = B::activation(features.clone(), shortcut, rectified).values;
        let recipe = Recipe::Activation(kept, kept_shortcut, rectified);
        let origin = Arc::new(Origin::new(recipe));
        let [values, weight, bias] = main;
        let [shortcut_values, shortcut_weight, shortcut_bias] = beside;
        let parents = [
            values,
            weight,
            bias,
            shortcut_values,
            shortcut_weight,
            shortcut_bias,
        ];
        Features {
            values: register(ActivationStep, parents, origin.clone(), output),
            norm: None,
            origin: Some(origin),
        }
    }

    fn global_average(values: Tensor<Self, 4>) -> Tensor<Self, 2> {
        let (node, values) = split(values);
        let shape = values.dims();
        register(AverageStep, [node], shape, B::global_average(values))
    }

    fn hard_sigmoids(values: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let (node, values) = split(values);
        let output = B::hard_sigmoids(values.clone());
        register(HardSigmoidStep, [node], values, output)
    }

    fn excite(values: Tensor<Self, 4>, shares: Tensor<Self, 2>) -> Tensor<Self, 4> {
        let ((values_node, values), (shares_node, shares)) = (split(values), split(shares));
        let output = B::excite(values.clone(), shares.clone());
        register(
            ExciteStep,
            [values_node, shares_node],
            (values, shares),
            output,
        )
    }

    fn side_by_side(parts: [Tensor<Self, 4>; 2]) -> Tensor<Self, 4> {
        let [(first_node, first), (second_node, second)] = parts.map(split);
        let channels = first.dims()[3];
        let output = B::side_by_side([first, second]);
        register(SideBySideStep, [first_node, second_node], channels, output)
    }

    fn channels_first(images: Tensor<Self, 4>) -> Tensor<Self, 2> {
        let (node, images) = split(images);
        let shape = images.dims();
        register(ChannelsFirstStep, [node], shape, B::channels_first(images))
    }

    fn max_pool(features: Features<Self>, window: PoolWindow) -> Tensor<Self, 4> {
        let (nodes, features, kept) = split_features(features);
        let output = B::max_pool(features, window);
        register(MaxPoolStep, nodes, (kept, window), output)
    }

    fn pool(images: Tensor<Self, 4>, bias: Tensor<Self, 1>) -> Tensor<Self, 4> {
        let ((images_node, images), (bias_node, bias)) = (split(images), split(bias));
        let output = B::pool(images.clone(), bias.clone());
        register(PoolStep, [images_node, bias_node], (images, bias), output)
    }

    fn fully_connected(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        bias: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        let ((rows_node, rows), (weight_node, weight)) = (split(rows), split(weight));
        let (bias_node, bias) = split(bias);
        let output = B::fully_connected(rows.clone(), weight.clone(), bias);
        let parents = [rows_node, weight_node, bias_node];
        register(LinearStep, parents, (rows, weight), output)
    }

    fn cross_entropy(scores: Tensor<Self, 2>, labels: &[u8]) -> Tensor<Self, 1> {
        let (node, scores) = split(scores);
        let output = B::cross_entropy(scores.clone(), labels);
        register(CrossEntropyStep, [node], (scores, labels.into()), output)
    }
}
