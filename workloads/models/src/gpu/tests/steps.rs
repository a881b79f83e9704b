//! Whole training steps against the CPU's.

use burn_autodiff::Autodiff;

use super::*;
use crate::ModelInfo;
use crate::layers::Draws;
use crate::networks::session;
use crate::parts::Parts;
use crate::session::{Batch, Session};

/// A training step of a model on so many images: loss, gradient and statistics.
pub(super) fn step(
    session: &dyn Session,
    info: &ModelInfo,
    size: usize,
) -> (f32, Vec<f32>, Vec<f32>) {
    let draw = &mut Draw::new(11);
    let parameters = session.start(Some(3)).parameters;
    let mut statistics = session.start(None).statistics;
    let images: Vec<f32> = (0..size * info.image_values())
        .map(|_| 4.0 * draw.unit() - 2.0)
        .collect();
    let labels: Vec<u8> = (0..size).map(|index| (index % 10) as u8).collect();
    let batch = Batch {
        parameters: &parameters,
        images: &images,
        shape: info.input,
        labels: &labels,
    };
    let step = session.gradient(batch, &mut statistics, Draws::new(5), None);
    let step = step.unwrap();
    (step.loss, step.gradient, statistics)
}

fn norm(values: impl Iterator<Item = f32>) -> f64 {
    let squares = values.map(|value| f64::from(value).powi(2));
    squares.sum::<f64>().sqrt()
}

/// Distance of a vector from another, relative to that one's norm.
fn apart(ours: &[f32], theirs: &[f32]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let pairs = ours.iter().zip(theirs);
    norm(pairs.map(|(ours, theirs)| ours - theirs)) / norm(theirs.iter().copied()).max(1e-9)
}

/// Models, and how far a gradient may be from the CPU's, relative to its norm.
///
/// A value that falls on the other side of a ReLU moves a gradient by a thousandth, as in the
/// golden tests. MobileNet has many of them: there, PyTorch's float32 is a hundredth from float64.
const MODELS: [(&str, f64); 5] = [
    ("lenet5", 1e-5),
    ("mobilenet", 5e-2),
    ("resnet18", 1e-2),
    ("squeezenet1_1", 1e-2),
    ("mobilenet_v3_small", 1e-2),
];

#[test]
fn steps_are_those_of_the_cpu() {
    for (model, bound) in MODELS {
        let info = ModelInfo::find(model).unwrap();
        let (loss, gradient, statistics) = step(
            session::<Autodiff<Gpu>>(info, device()).unwrap().as_ref(),
            info,
            4,
        );
        let (expected_loss, expected, expected_statistics) = step(
            session::<Autodiff<Flex>>(info, FlexDevice)
                .unwrap()
                .as_ref(),
            info,
            4,
        );
        let (gradient, statistics) = (
            apart(&gradient, &expected),
            apart(&statistics, &expected_statistics),
        );
        println!(
            "{model}: loss {loss} {expected_loss}, gradient {gradient:.1e}, statistics {statistics:.1e}"
        );
        assert!(
            (loss - expected_loss).abs() < 1e-4,
            "{model}: {loss} {expected_loss}"
        );
        assert!(gradient < bound, "{model}: {gradient:e}");
        assert!(statistics < 1e-4, "{model}: {statistics:e}");
    }
}

/// Distances of gradients in TF32 and bf16, from those of the CPU in `f32`.
///
/// The bounds are three times what rounding predicts: the distance in `fp32` over its unit
/// roundoff, times 2⁻¹¹ and 2⁻⁸. What is beyond 1 there is printed and has no bound.
#[cfg(not(feature = "vulkan"))]
#[test]
fn reduced_precisions_are_as_near_as_their_rounding() {
    use crate::Precision;
    const BOUNDS: [(&str, Option<[f64; 2]>); 5] = [
        ("lenet5", Some([8e-3, 6e-2])),
        ("mobilenet", None),
        ("resnet18", Some([0.1, 0.75])),
        ("squeezenet1_1", Some([3e-2, 0.25])),
        ("mobilenet_v3_small", None),
    ];
    let mut beyond = vec![];
    for (model, bounds) in BOUNDS {
        let info = ModelInfo::find(model).unwrap();
        let cpu = session::<Autodiff<Flex>>(info, FlexDevice).unwrap();
        let (_, expected, _) = step(cpu.as_ref(), info, 4);
        let session = session::<Autodiff<Gpu>>(info, device()).unwrap();
        for (index, precision) in [Precision::Tf32, Precision::Bf16].into_iter().enumerate() {
            let step = || step(session.as_ref(), info, 4);
            let (_, gradient, _) = precision::at(precision, step);
            let distance = apart(&gradient, &expected);
            println!("{model} in {precision}: gradient {distance:.1e}");
            assert!(distance.is_finite(), "{model} in {precision}");
            if bounds.is_some_and(|bounds| distance > bounds[index]) {
                beyond.push(format!("{model} in {precision}: {distance:e}"));
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond:?}");
}

/// Each is read while those before it are still computed.
#[test]
fn parts_of_a_gradient_are_the_whole() {
    let info = ModelInfo::find("lenet5").unwrap();
    let session = session::<Autodiff<Gpu>>(info, device()).unwrap();
    let images = vec![0.5; 2 * info.image_values()];
    let batch = Batch {
        parameters: &session.start(Some(1)).parameters,
        images: &images,
        shape: info.input,
        labels: &[1, 2],
    };
    let draws = Draws::new(0);
    let whole = session.gradient(batch, &mut [], draws, None).unwrap();
    let half = info.parameters / 2;
    let mut given = vec![];
    let parts = Parts {
        cuts: &[0..half, half..info.parameters],
        ready: &mut |part, values: &[f32]| given.push((part, values.to_vec())),
    };
    let step = session.gradient(batch, &mut [], draws, Some(parts));
    assert_eq!(step.unwrap(), whole);
    let (first, last) = whole.gradient.split_at(half);
    assert_eq!(given, [(1, last.to_vec()), (0, first.to_vec())]);
}

/// Sums are in an order that depends on shapes alone.
#[test]
fn equal_steps_give_equal_bits() {
    let info = ModelInfo::find("mobilenet").unwrap();
    let session = session::<Autodiff<Gpu>>(info, device()).unwrap();
    let step = || step(session.as_ref(), info, 4);
    assert_eq!(step(), step());
}
