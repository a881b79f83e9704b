//! Against the `f32` kernels, given values that are bfloat16 already: what is multiplied is then
//! the same, and sums differ by their order alone.

use epochcost_kernels::hash::{mix, unit_f32};

use super::super::geometry::Geometry;
use super::super::input::{Affine, Input};
use super::super::method::{Gradients, Method};
use super::super::norm;
use super::*;
use crate::ops::{Function, Window};

/// Returns this machine's instructions; says so where a test has nothing to run by.
fn supported() -> Vec<Instructions> {
    let supported = Instructions::supported();
    if supported.is_empty() {
        println!("not run: this processor has no AVX512-BF16");
    }
    supported
}

/// The nearest bfloat16 value, of two equally near the even one.
fn rounded(value: f32) -> f32 {
    let bits = value.to_bits();
    let up = 0x7FFF + (bits >> 16 & 1);
    f32::from_bits((bits + up) & 0xFFFF_0000)
}

/// Values in [-1, 1) that have no more bits.
fn random(seed: u64, length: usize) -> Vec<f32> {
    (0..length as u64)
        .map(|index| rounded(2.0 * unit_f32(mix(seed, index)) - 1.0))
        .collect()
}

/// The operands of a convolution.
struct Case {
    geometry: Geometry,
    images: Vec<f32>,
    weight: Vec<f32>,
    gradient: Vec<f32>,
    norm: Option<Affine>,
}

/// Output, moments, and the gradients of the images, of the weight, and of the norm.
type Results = [Vec<f32>; 5];

impl Case {
    fn new(seed: u64, images: [usize; 4], outputs: usize, window: Window) -> Self {
        let geometry = Geometry::new(images, outputs, window);
        Self {
            geometry,
            images: random(seed, images.iter().product()),
            weight: random(seed + 1, geometry.depth() * outputs),
            gradient: random(seed + 2, geometry.output_shape().iter().product()),
            norm: None,
        }
    }

    /// Returns one of many shapes: few and many channels, strides, paddings, and batches that fill
    /// no block.
    fn drawn(seed: u64) -> Self {
        let draw = |index: u64, choices: &[usize]| {
            choices[(mix(seed, index) % choices.len() as u64) as usize]
        };
        let kernel = draw(0, &[1, 1, 3, 5]);
        let side = draw(1, &[1, 4, 5, 9]).max(kernel);
        let images = [
            draw(2, &[1, 2, 7, 33]),
            side,
            side,
            draw(3, &[1, 3, 16, 24, 32, 40, 96]),
        ];
        let window = Window {
            kernel,
            stride: draw(4, &[1, 1, 2]),
            padding: draw(5, &[0, kernel / 2]),
            groups: 1,
        };
        Self::new(seed, images, draw(6, &[1, 6, 16, 31, 64, 72]), window)
    }

    fn results(&self, factors: Factors) -> Results {
        let method = Method::Direct(factors);
        let input = Input {
            values: &self.images,
            norm: self.norm.as_ref(),
        };
        let (output, moments) = method.forward(input, &self.weight, &self.geometry, true);
        let Gradients {
            images,
            weight,
            sums,
        } = method.backward(input, &self.weight, &self.gradient, &self.geometry, true);
        let norm = self.norm.as_ref().zip(sums);
        let norm = norm.map(|(norm, sums)| norm::parameter_gradients(&sums, norm));
        let (scale, bias) = norm.unwrap_or_default();
        [
            output,
            [moments.mean, moments.variance].concat(),
            images.unwrap(),
            weight,
            [scale, bias].concat(),
        ]
    }

    /// Asserts that all instructions find what the `f32` kernels find.
    fn check(&self, case: &str) {
        let expected = self.results(Factors::F32);
        for instructions in supported() {
            let found = self.results(Factors::Bf16(instructions));
            for (which, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found.len(), expected.len());
                let largest = expected
                    .iter()
                    .fold(1.0f32, |most, value| most.max(value.abs()));
                for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
                    assert!(
                        (found - expected).abs() <= 2e-5 * largest,
                        "{case}, {instructions:?}, result {which} at {at}: {found} for {expected}, {:?}",
                        self.geometry
                    );
                }
            }
        }
    }
}

#[test]
fn rounded_factors_give_the_sums_of_the_f32_kernels() {
    for seed in 0..200 {
        Case::drawn(10 * seed).check(&format!("seed {}", 10 * seed));
    }
}

/// More terms than a pass sums, more rows than tiles are made of at a time, channels that leave
/// gaps between pixels, and a norm that both gradients pass.
#[test]
fn large_convolutions_are_cut_without_a_seam() {
    let three = Window::three(1);
    Case::new(1, [9, 4, 4, 256], 40, three).check("passes");
    Case::new(2, [2, 32, 32, 32], 96, three).check("rows");
    Case::new(3, [40, 1, 1, 1200], 10, Window::one(1)).check("a linear layer");
    let mut normed = Case::new(4, [12, 6, 6, 64], 64, Window::one(1));
    let channels = |value: f32| vec![value; 64];
    // Powers of two keep values within bfloat16.
    normed.norm = Some(Affine {
        mean: channels(0.0),
        scale: channels(0.5),
        bias: channels(0.0),
        deviation: channels(0.5),
        then: Function::Relu,
    });
    normed.check("a norm");
}

/// What is not bfloat16 is rounded to nearest even, like every factor.
#[test]
fn other_values_are_rounded_to_nearest_even() {
    let mut case = Case::new(5, [3, 5, 5, 24], 16, Window::three(1));
    let spread = |values: &mut Vec<f32>, seed| {
        for (index, value) in values.iter_mut().enumerate() {
            *value += unit_f32(mix(seed, index as u64)) / 1024.0;
        }
        // Halves between two bfloat16 values, of which the even one is below, and above.
        values[0] = f32::from_bits(0x3F80_8000);
        values[1] = f32::from_bits(0x3F81_8000);
    };
    spread(&mut case.images, 6);
    spread(&mut case.weight, 7);
    spread(&mut case.gradient, 8);
    let found: Vec<Results> = supported()
        .into_iter()
        .map(|instructions| case.results(Factors::Bf16(instructions)))
        .collect();
    for values in [&mut case.images, &mut case.weight, &mut case.gradient] {
        values.iter_mut().for_each(|value| *value = rounded(*value));
    }
    case.check("rounded");
    for (instructions, found) in supported().into_iter().zip(found) {
        let expected = case.results(Factors::Bf16(instructions));
        assert!(found == expected, "{instructions:?}");
    }
}

#[test]
fn values_that_are_not_finite_stay_so() {
    for bad in [f32::INFINITY, f32::NAN] {
        let mut case = Case::new(9, [2, 4, 4, 40], 31, Window::one(1));
        case.images[41] = bad;
        for instructions in supported() {
            let [output, _, images, weight, _] = case.results(Factors::Bf16(instructions));
            let finite = |values: &[f32]| values.iter().filter(|value| value.is_finite()).count();
            assert_eq!(finite(&output), output.len() - 31, "{bad}");
            assert_eq!(finite(&images), images.len());
            assert_eq!(finite(&weight), weight.len() - 31);
        }
    }
}

#[test]
fn pieces_lie_in_one_tile_each_and_cover_the_runs() {
    let runs: Vec<Run> = [(0, 72, 24), (100, 24, 24), (200, 0, 24), (300, 48, 24)]
        .map(|(left, right, length)| Run {
            left,
            right,
            length,
        })
        .into();
    let pieces = pieces(&runs);
    let mut next = 0;
    for piece in &pieces {
        assert_eq!(piece.tile * TERMS + piece.at, next);
        assert!(piece.at + piece.length <= TERMS);
        next += piece.length;
    }
    assert_eq!(next, 96);
}
