//! Against sums in `f64`, beside the direct kernels.

use epochcost_kernels::hash::{mix, unit_f32};

use super::super::geometry::Geometry;
use super::super::input::Input;
use super::super::{dense, dense_images, dense_weight};
use super::*;
use crate::ops::Window;

fn random(seed: u64, length: usize) -> Vec<f32> {
    (0..length as u64)
        .map(|index| 2.0 * unit_f32(mix(seed, index)) - 1.0)
        .collect()
}

/// A convolution's operands, and the three results from sums in `f64`.
struct Case {
    geometry: Geometry,
    images: Vec<f32>,
    weight: Vec<f32>,
    gradient: Vec<f32>,
}

/// Outputs, and the gradients of images and weight.
type Results<T> = [Vec<T>; 3];

impl Case {
    fn new(seed: u64, images: [usize; 4], outputs: usize, padding: usize) -> Self {
        let window = Window {
            padding,
            ..Window::three(1)
        };
        let geometry = Geometry::new(images, outputs, window);
        assert!(serves(&geometry));
        let deviation = (1.0 / geometry.depth() as f32).sqrt();
        let weight = random(seed + 1, geometry.depth() * outputs);
        Self {
            geometry,
            images: random(seed, images.iter().product()),
            weight: weight.into_iter().map(|value| value * deviation).collect(),
            gradient: random(seed + 2, geometry.output_shape().iter().product()),
        }
    }

    fn input(&self) -> Input<'_> {
        Input {
            values: &self.images,
            norm: None,
        }
    }

    fn winograd(&self) -> Results<f32> {
        let (input, geometry) = (self.input(), &self.geometry);
        [
            forward(input, &self.weight, geometry, false).0,
            images_gradient(input, &self.weight, &self.gradient, geometry).0,
            weight_gradient(input, &self.gradient, geometry),
        ]
    }

    fn direct(&self) -> Results<f32> {
        let (input, geometry) = (self.input(), &self.geometry);
        [
            dense::forward(input, &self.weight, geometry, false).0,
            dense_images::gradient(input, &self.weight, &self.gradient, geometry).0,
            dense_weight::gradient(input, &self.gradient, geometry),
        ]
    }

    fn exact(&self) -> Results<f64> {
        let geometry = &self.geometry;
        let mut found = [
            vec![0.0; self.gradient.len()],
            vec![0.0; self.images.len()],
            vec![0.0; self.weight.len()],
        ];
        for_each_term(geometry, |output, image, weight| {
            let (x, w) = (
                f64::from(self.images[image]),
                f64::from(self.weight[weight]),
            );
            let g = f64::from(self.gradient[output]);
            found[0][output] += x * w;
            found[1][image] += g * w;
            found[2][weight] += g * x;
        });
        found
    }
}

/// Every multiplication of a convolution: the indices of its output, image and weight.
fn for_each_term(geometry: &Geometry, mut term: impl FnMut(usize, usize, usize)) {
    let (inputs, outputs) = (geometry.inputs, geometry.outputs);
    for pixel in 0..geometry.batch * geometry.out_pixels() {
        let (batch, at) = (pixel / geometry.out_pixels(), pixel % geometry.out_pixels());
        let (y, x) = (at / geometry.out_width, at % geometry.out_width);
        for tap in 0..9 {
            let row = (y + tap / 3).checked_sub(geometry.window.padding);
            let column = (x + tap % 3).checked_sub(geometry.window.padding);
            let (Some(row), Some(column)) = (
                row.filter(|&row| row < geometry.height),
                column.filter(|&column| column < geometry.width),
            ) else {
                continue;
            };
            let image = (batch * geometry.height + row) * geometry.width + column;
            for output in 0..outputs {
                for input in 0..inputs {
                    let weight = (output * inputs + input) * 9 + tap;
                    term(pixel * outputs + output, image * inputs + input, weight);
                }
            }
        }
    }
}

/// Returns the root of the mean squared error over that of the mean squared value.
fn error(found: &[f32], exact: &[f64]) -> f64 {
    assert_eq!(found.len(), exact.len());
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum();
    let apart: f64 = squares(&mut found.iter().zip(exact).map(|(f, e)| f64::from(*f) - e));
    let size: f64 = squares(&mut exact.iter().copied());
    (apart / size).sqrt()
}

#[test]
fn errors_are_at_most_thrice_those_of_plain_sums() {
    let cases = [
        Case::new(10, [2, 8, 8, 64], 64, 1),
        Case::new(20, [3, 4, 4, 256], 96, 1),
        Case::new(30, [1, 7, 5, 32], 64, 0),
        Case::new(40, [2, 1, 9, 64], 32, 2),
        Case::new(50, [5, 3, 3, 96], 32, 1),
    ];
    for case in cases {
        let exact = case.exact();
        let results = case.winograd().into_iter().zip(case.direct());
        for (exact, (winograd, direct)) in exact.iter().zip(results) {
            let (winograd, direct) = (error(&winograd, exact), error(&direct, exact));
            println!("{:?}: {winograd:.1e}, direct {direct:.1e}", case.geometry);
            assert!(winograd < 3.0 * direct + 1e-7, "{winograd:e} to {direct:e}");
        }
    }
}

/// A value that is not finite spoils what it is summed into, and nothing beyond the tiles
/// that it lies in.
#[test]
fn what_is_not_finite_stays_in_its_tiles() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut case = Case::new(60, [2, 8, 8, 32], 32, 1);
        case.images[(3 * 8 + 3) * 32 + 5] = bad;
        let [outputs, _, weight] = case.winograd();
        for (pixel, outputs) in outputs.chunks(32).enumerate() {
            let (y, x) = (pixel / 8, pixel % 8);
            let seen = (2..=4).contains(&y) && (2..=4).contains(&x);
            let near = (2..=5).contains(&y) && (2..=5).contains(&x);
            let finite = outputs.iter().all(|value| value.is_finite());
            assert!(!(seen && finite), "{bad} at {y}, {x} was lost");
            assert!(near || finite, "{bad} reached {y}, {x}");
        }
        let bad_windows = weight.chunks(9).skip(5).step_by(32);
        assert!(bad_windows.flatten().all(|value| !value.is_finite()));
    }
}

#[test]
fn only_what_fills_panels_is_served() {
    let served =
        |inputs, outputs, window| serves(&Geometry::new([1, 8, 8, inputs], outputs, window));
    assert!(served(64, 32, Window::three(1)));
    assert!(!served(3, 64, Window::three(1)));
    assert!(!served(64, 48, Window::three(1)));
    assert!(!served(64, 64, Window::three(2)));
    assert!(!served(64, 64, Window::one(1)));
    assert!(!served(64, 64, Window::three(1).groups(64)));
}
