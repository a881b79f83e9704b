//! Rendering of one glyph, with random position, shape and colours.
//!
//! Only additions, subtractions, multiplications, divisions and square roots of
//! `f32` are used, which IEEE 754 rounds alike everywhere, so that a seed gives
//! the same bytes on every machine. Rotations are rational (the tangent of the
//! half angle is drawn) for the same reason.

use super::draws::Draws;
use super::glyphs::{GLYPHS, Point, Stroke};
use crate::RecordFormat;

/// Ranges of the nuisance parameters, in pixels unless stated otherwise.
///
/// Translation and polarity defeat a linear model: they make the mean image of a
/// class nearly flat.
mod nuisance {
    /// Largest shift of the centre along each axis.
    pub(super) const SHIFT: f32 = 4.0;
    /// Half the glyph's extent.
    pub(super) const HALF_EXTENT: (f32, f32) = (6.0, 9.0);
    /// Height over width.
    pub(super) const ASPECT: (f32, f32) = (0.85, 1.18);
    /// Largest tangent of half the rotation; 0.09 is 10°.
    pub(super) const HALF_ANGLE_TAN: f32 = 0.09;
    /// Largest horizontal shear, a ratio.
    pub(super) const SHEAR: f32 = 0.15;
    /// Half the stroke's width.
    pub(super) const HALF_STROKE: (f32, f32) = (0.9, 1.7);
    /// Share of samples drawn darker than their background.
    pub(super) const DARK_ON_BRIGHT: f32 = 0.35;
    /// Level of the background, of 1. It varies less than the glyphs do: were
    /// it dark under bright glyphs and bright under dark ones, the mean of the
    /// image would dominate the input and gradient descent would diverge early.
    pub(super) const GROUND: (f32, f32) = (0.35, 0.65);
    /// Level difference between glyph and background, of 1.
    pub(super) const CONTRAST: (f32, f32) = (0.3, 0.5);
    /// Largest change of the background from one edge to the other, of 1.
    pub(super) const GRADIENT: f32 = 0.2;
    /// Largest departure of a colour channel from the common level, of 1.
    pub(super) const TINT: f32 = 0.12;
    /// Standard deviation of the noise on each pixel, of 1.
    pub(super) const NOISE: f32 = 0.05;
}

/// Appends the pixels of one image of class `label` to `record`, channel by
/// channel in row-major order.
pub(crate) fn render(label: u8, format: RecordFormat, draws: &mut Draws, record: &mut Vec<u8>) {
    let coverage = coverage(label, format, draws);
    let paint = Paint::draw(draws);
    for _ in 0..format.channels {
        let tint = match format.channels {
            1 => (0.0, 0.0),
            _ => (
                draws.uniform(-nuisance::TINT, nuisance::TINT),
                draws.uniform(-nuisance::TINT, nuisance::TINT),
            ),
        };
        for (index, &covered) in coverage.iter().enumerate() {
            let ground = paint.ground_at(index, format) + tint.0;
            let level = ground + covered * (paint.contrast + tint.1 - tint.0);
            record.push(to_byte(level + nuisance::NOISE * draws.bell()));
        }
    }
}

/// The levels of glyph and background, alike in all channels but for the tint.
struct Paint {
    ground: f32,
    contrast: f32,
    slope: (f32, f32),
}

impl Paint {
    fn draw(draws: &mut Draws) -> Self {
        let ground = draws.uniform(nuisance::GROUND.0, nuisance::GROUND.1);
        let contrast = draws.uniform(nuisance::CONTRAST.0, nuisance::CONTRAST.1);
        let half = nuisance::GRADIENT / 2.0;
        let slope = (draws.uniform(-half, half), draws.uniform(-half, half));
        let contrast = if draws.chance(nuisance::DARK_ON_BRIGHT) {
            -contrast
        } else {
            contrast
        };
        Self {
            ground,
            contrast,
            slope,
        }
    }

    fn ground_at(&self, index: usize, format: RecordFormat) -> f32 {
        let x = (index % format.width) as f32 / format.width as f32 - 0.5;
        let y = (index / format.width) as f32 / format.height as f32 - 0.5;
        self.ground + self.slope.0 * x + self.slope.1 * y
    }
}

/// Computes the share of each pixel that the glyph covers, in `[0, 1]`.
fn coverage(label: u8, format: RecordFormat, draws: &mut Draws) -> Vec<f32> {
    let place = Placement::draw(format, draws);
    let half_stroke = draws.uniform(nuisance::HALF_STROKE.0, nuisance::HALF_STROKE.1);
    let strokes: Vec<Stroke> = GLYPHS[usize::from(label)]
        .iter()
        .map(|&(from, to)| (place.apply(from), place.apply(to)))
        .collect();
    let mut covered = Vec::with_capacity(format.height * format.width);
    for row in 0..format.height {
        for column in 0..format.width {
            let pixel = (column as f32, row as f32);
            let squared = strokes
                .iter()
                .map(|&stroke| squared_distance(pixel, stroke))
                .fold(f32::MAX, f32::min);
            covered.push((half_stroke + 0.5 - squared.sqrt()).clamp(0.0, 1.0));
        }
    }
    covered
}

/// The affine map from glyph coordinates to pixels.
struct Placement {
    centre: Point,
    columns: (Point, Point),
}

impl Placement {
    fn draw(format: RecordFormat, draws: &mut Draws) -> Self {
        let mut shift = |extent: usize| {
            (extent - 1) as f32 / 2.0 + draws.uniform(-nuisance::SHIFT, nuisance::SHIFT)
        };
        let centre = (shift(format.width), shift(format.height));
        let size = draws.uniform(nuisance::HALF_EXTENT.0, nuisance::HALF_EXTENT.1);
        let aspect = draws.uniform(nuisance::ASPECT.0, nuisance::ASPECT.1);
        let shear = draws.uniform(-nuisance::SHEAR, nuisance::SHEAR);
        let tan = draws.uniform(-nuisance::HALF_ANGLE_TAN, nuisance::HALF_ANGLE_TAN);
        let (cos, sin) = (
            (1.0 - tan * tan) / (1.0 + tan * tan),
            2.0 * tan / (1.0 + tan * tan),
        );
        let rotate = |(x, y): Point| (size * (cos * x - sin * y), size * (sin * x + cos * y));
        Self {
            centre,
            columns: (rotate((1.0, 0.0)), rotate((shear, aspect))),
        }
    }

    fn apply(&self, (x, y): Point) -> Point {
        let (right, down) = self.columns;
        (
            self.centre.0 + right.0 * x + down.0 * y,
            self.centre.1 + right.1 * x + down.1 * y,
        )
    }
}

/// Computes the squared distance from a point to the centre line of a stroke.
fn squared_distance((px, py): Point, ((ax, ay), (bx, by)): Stroke) -> f32 {
    let (dx, dy) = (bx - ax, by - ay);
    let along = ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy);
    let along = along.clamp(0.0, 1.0);
    let (ex, ey) = (px - (ax + along * dx), py - (ay + along * dy));
    ex * ex + ey * ey
}

/// Rounds a level in `[0, 1]` to a byte; levels outside are clipped.
fn to_byte(level: f32) -> u8 {
    // The cast saturates and drops the fraction, both exactly.
    (level * 255.0 + 0.5) as u8
}
