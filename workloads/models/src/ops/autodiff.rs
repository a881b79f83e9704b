//! The operations in burn's autodiff graph, for any backend that has them.
//!
//! A step keeps the tensors that its backward pass reads in its own state, which goes
//! with it: memory is returned while the backward pass proceeds. An activation's values
//! are made again ([`super::kept`]).

use std::fmt::Debug;
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
use super::{
    FeatureGradients, Features, LayerGradients, LayerOps, Moments, Norm, PoolWindow, Scale, Window,
};

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

/// A step of the backward pass of `N` parents, from the gradient of its output.
#[derive(Debug)]
struct Step<B: Backend, S, const N: usize, const D: usize>(Back<B, S, N, D>);

/// Computes the gradients of the parents from a step's state and the gradient of its output, and
/// passes them on.
type Back<B, S, const N: usize, const D: usize> = fn(S, Tensor<B, D>, Parents<'_, N>);

/// The parents of a step that want a gradient, and the gradients of the graph.
struct Parents<'a, const N: usize> {
    nodes: [Option<NodeId>; N],
    gradients: &'a mut Gradients,
}

impl<const N: usize> Parents<'_, N> {
    /// Registers a gradient where its parent wants it, unless it is taken.
    fn pass<B: LayerOps, const D: usize>(&mut self, parent: usize, gradient: Tensor<B, D>) {
        if let Some(node) = self.nodes[parent]
            && let Some(gradient) = tap::take(node, gradient)
        {
            self.gradients.register::<B>(node, held(gradient));
        }
    }

    /// Passes on the gradients of features and of their norm's weight and bias, which are the
    /// parents from `first` on.
    fn pass_features<B: LayerOps>(&mut self, first: usize, found: FeatureGradients<B>) {
        self.pass(first, found.values);
        if let Some(found) = found.norm {
            if let Some(gradient) = found.weight {
                self.pass(first + 1, gradient);
            }
            self.pass(first + 2, found.bias);
        }
    }
}

impl<B, S, const N: usize, const D: usize> Backward<B, N> for Step<B, S, N, D>
where
    B: Backend,
    S: Clone + Debug + Send + 'static,
{
    type State = S;

    fn backward(self, ops: Ops<S, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = TensorPrimitive::Float(gradients.consume::<B>(&ops.node));
        let parents = Parents {
            nodes: ops.parents.map(|node| node.map(|node| node.id)),
            gradients,
        };
        (self.0)(ops.state, Tensor::from_primitive(output), parents);
    }
}

/// Registers a step with its state, and returns its output.
fn register<B, C, S, const N: usize, const D: usize>(
    parents: [Parent<B, C>; N],
    state: S,
    output: Tensor<B, D>,
    back: Back<B, S, N, D>,
) -> Tensor<Autodiff<B, C>, D>
where
    B: Backend,
    C: CheckpointStrategy,
    S: Clone + Debug + Send + 'static,
{
    let output = held(output);
    let nodes = parents.map(|parent| parent.node);
    for node in &nodes {
        tap::read(node.id);
    }
    let step = Step(back).prepare::<C>(nodes);
    let output = match step.compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish(state, output),
        OpsKind::UnTracked(step) => step.finish(output),
    };
    Tensor::from_primitive(TensorPrimitive::Float(output))
}

/// Registers a step whose output is made again from its recipe where it is not kept.
fn remade<B: LayerGradients, C: CheckpointStrategy, const N: usize>(
    parents: [Parent<B, C>; N],
    recipe: Recipe<B>,
    output: Features<B>,
    back: Back<B, Arc<Origin<B>>, N, 4>,
) -> Features<Autodiff<B, C>> {
    let origin = Arc::new(Origin::new(recipe));
    Features {
        values: register(parents, origin.clone(), output.values, back),
        norm: None,
        origin: Some(origin),
    }
}

/// Returns the nodes of features and of their norm's weight and bias, what they hold, and
/// what of it is kept. Where there is no norm, nodes that want no gradient stand for it.
fn split_features<B: LayerGradients, C: CheckpointStrategy>(
    features: Features<Autodiff<B, C>>,
) -> ([Parent<B, C>; 3], Features<B>, Kept<B>) {
    let origin = features.origin.clone();
    let (nodes, features) = split_values(features);
    let kept = Kept::new(&features, origin);
    (nodes, features, kept)
}

fn split_values<B: LayerGradients, C: CheckpointStrategy>(
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

/// Registers the output of a convolution of features and a weight in the graph.
fn convolved<B: LayerGradients, C: CheckpointStrategy>(
    [values, norm_weight, norm_bias]: [Parent<B, C>; 3],
    kept: Kept<B>,
    (weight_node, weight): (Parent<B, C>, Tensor<B, 4>),
    window: Window,
    output: Features<B>,
) -> Features<Autodiff<B, C>> {
    let parents = [weight_node, values, norm_weight, norm_bias];
    let recipe = Recipe::Convolution(kept, weight, window);
    remade(parents, recipe, output, |origin, output, mut parents| {
        origin.let_go();
        let Recipe::Convolution(input, weight, window) = &origin.recipe else {
            unreachable!("a convolution's output is made by it");
        };
        let wanted = parents.nodes[1..].iter().any(Option::is_some);
        let (input, weight) =
            B::convolution_backward(input.read(), weight.clone(), output, *window, wanted);
        parents.pass(0, weight);
        if let Some(input) = input {
            parents.pass_features(1, input);
        }
    })
}

impl<B: LayerGradients, C: CheckpointStrategy> LayerOps for Autodiff<B, C> {
    type Origin = Arc<Origin<B>>;

    fn tap_gradient<const D: usize>(parameter: Tensor<Self, D>, position: usize) {
        tap::add(split(parameter).0.node.id, position);
    }

    fn convolution(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> Features<Self> {
        let weight = split(weight);
        let (nodes, input, kept) = split_features(input);
        let output = B::convolution(input, weight.1.clone(), window);
        convolved(nodes, kept, weight, window, output)
    }

    fn convolution_with_moments(
        input: Features<Self>,
        weight: Tensor<Self, 4>,
        window: Window,
    ) -> (Features<Self>, Moments<Self>) {
        let weight = split(weight);
        let (nodes, input, kept) = split_features(input);
        let (output, moments) = B::convolution_with_moments(input, weight.1.clone(), window);
        let moments = Moments {
            mean: Tensor::from_inner(moments.mean),
            variance: Tensor::from_inner(moments.variance),
        };
        (convolved(nodes, kept, weight, window, output), moments)
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
        let output = B::activation(features.clone(), shortcut, rectified);
        let recipe = Recipe::Activation(kept, kept_shortcut, rectified);
        // Values, weight and bias of both.
        let ([a, b, c], [d, e, f]) = (main, beside);
        let parents = [a, b, c, d, e, f];
        remade(parents, recipe, output, |origin, output, mut parents| {
            origin.let_go();
            let Recipe::Activation(features, shortcut, rectified) = &origin.recipe else {
                unreachable!("an activation's output is made by it");
            };
            let (features, shortcut) = (features.read(), shortcut.as_ref().map(Kept::read));
            let (features, shortcut) =
                B::activation_backward(features, shortcut, *rectified, output);
            parents.pass_features(0, features);
            if let Some(shortcut) = shortcut {
                parents.pass_features(3, shortcut);
            }
        })
    }

    fn global_average(values: Tensor<Self, 4>) -> Tensor<Self, 2> {
        let (node, values) = split(values);
        let shape = values.dims();
        let output = B::global_average(values);
        register([node], shape, output, |shape, output, mut parents| {
            parents.pass(0, B::global_average_backward(shape, output));
        })
    }

    fn hard_sigmoids(values: Tensor<Self, 2>) -> Tensor<Self, 2> {
        let (node, values) = split(values);
        let output = B::hard_sigmoids(values.clone());
        register([node], values, output, |values, output, mut parents| {
            parents.pass(0, B::hard_sigmoids_backward(values, output));
        })
    }

    fn excite(values: Tensor<Self, 4>, shares: Tensor<Self, 2>) -> Tensor<Self, 4> {
        let ((values_node, values), (shares_node, shares)) = (split(values), split(shares));
        let output = B::excite(values.clone(), shares.clone());
        let (nodes, state) = ([values_node, shares_node], (values, shares));
        register(nodes, state, output, |state, output, mut parents| {
            let (values, shares) = B::excite_backward(state.0, state.1, output);
            parents.pass(0, values);
            parents.pass(1, shares);
        })
    }

    fn side_by_side(parts: [Tensor<Self, 4>; 2]) -> Tensor<Self, 4> {
        let [(first_node, first), (second_node, second)] = parts.map(split);
        let channels = first.dims()[3];
        let output = B::side_by_side([first, second]);
        let nodes = [first_node, second_node];
        register(nodes, channels, output, |channels, output, mut parents| {
            for (index, part) in B::apart(output, channels).into_iter().enumerate() {
                parents.pass(index, part);
            }
        })
    }

    fn channels_first(images: Tensor<Self, 4>) -> Tensor<Self, 2> {
        let (node, images) = split(images);
        let shape = images.dims();
        let output = B::channels_first(images);
        register([node], shape, output, |shape, output, mut parents| {
            parents.pass(0, B::channels_last(output, shape));
        })
    }

    fn max_pool(features: Features<Self>, window: PoolWindow) -> Tensor<Self, 4> {
        let (nodes, features, kept) = split_features(features);
        let output = B::max_pool(features, window);
        let state = (kept, window);
        register(
            nodes,
            state,
            output,
            |(kept, window), output, mut parents| {
                let features = B::max_pool_backward(kept.read(), window, output);
                parents.pass_features(0, features);
            },
        )
    }

    fn pool(images: Tensor<Self, 4>, bias: Tensor<Self, 1>) -> Tensor<Self, 4> {
        let ((images_node, images), (bias_node, bias)) = (split(images), split(bias));
        let output = B::pool(images.clone(), bias.clone());
        let (nodes, state) = ([images_node, bias_node], (images, bias));
        register(nodes, state, output, |state, output, mut parents| {
            let (images, bias) = B::pool_backward(state.0, state.1, output);
            parents.pass(0, images);
            parents.pass(1, bias);
        })
    }

    fn fully_connected(
        rows: Tensor<Self, 2>,
        weight: Tensor<Self, 2>,
        bias: Tensor<Self, 1>,
    ) -> Tensor<Self, 2> {
        let ((rows_node, rows), (weight_node, weight)) = (split(rows), split(weight));
        let (bias_node, bias) = split(bias);
        let output = B::fully_connected(rows.clone(), weight.clone(), bias);
        let (nodes, state) = ([rows_node, weight_node, bias_node], (rows, weight));
        register(nodes, state, output, |state, output, mut parents| {
            let (rows, weight, bias) = B::fully_connected_backward(state.0, state.1, output);
            parents.pass(0, rows);
            parents.pass(1, weight);
            parents.pass(2, bias);
        })
    }

    fn cross_entropy(scores: Tensor<Self, 2>, labels: &[u8]) -> Tensor<Self, 1> {
        let (node, scores) = split(scores);
        let output = B::cross_entropy(scores.clone(), labels);
        let state: (_, Arc<[u8]>) = (scores, labels.into());
        register([node], state, output, |state, loss, mut parents| {
            parents.pass(0, B::cross_entropy_backward(state.0, &state.1, loss));
        })
    }
}
