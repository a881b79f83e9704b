//! The ten classes, as strokes in a unit square.

/// A point; `x` grows to the right and `y` downwards, both within ±1.
pub(crate) type Point = (f32, f32);

/// A straight stroke between two points.
pub(crate) type Stroke = (Point, Point);

/// The strokes of the ten glyphs; a label is an index into them.
///
/// Glyphs differ in topology or orientation by more than the nuisance rotation
/// can undo. The ring is a regular dodecagon, written out so that no cosine is
/// computed.
pub(crate) static GLYPHS: [&[Stroke]; 10] = [
    // Ring.
    &[
        ((1.0, 0.0), (0.866, 0.5)),
        ((0.866, 0.5), (0.5, 0.866)),
        ((0.5, 0.866), (0.0, 1.0)),
        ((0.0, 1.0), (-0.5, 0.866)),
        ((-0.5, 0.866), (-0.866, 0.5)),
        ((-0.866, 0.5), (-1.0, 0.0)),
        ((-1.0, 0.0), (-0.866, -0.5)),
        ((-0.866, -0.5), (-0.5, -0.866)),
        ((-0.5, -0.866), (0.0, -1.0)),
        ((0.0, -1.0), (0.5, -0.866)),
        ((0.5, -0.866), (0.866, -0.5)),
        ((0.866, -0.5), (1.0, 0.0)),
    ],
    // Bar.
    &[((0.0, -1.0), (0.0, 1.0))],
    // Plus.
    &[((0.0, -1.0), (0.0, 1.0)), ((-1.0, 0.0), (1.0, 0.0))],
    // Saltire.
    &[((-0.9, -0.9), (0.9, 0.9)), ((-0.9, 0.9), (0.9, -0.9))],
    // Triangle.
    &[
        ((0.0, -1.0), (1.0, 0.9)),
        ((1.0, 0.9), (-1.0, 0.9)),
        ((-1.0, 0.9), (0.0, -1.0)),
    ],
    // Equals.
    &[((-1.0, -0.6), (1.0, -0.6)), ((-1.0, 0.6), (1.0, 0.6))],
    // Tee.
    &[((-1.0, -0.9), (1.0, -0.9)), ((0.0, -0.9), (0.0, 1.0))],
    // Ell.
    &[((-0.7, -1.0), (-0.7, 0.9)), ((-0.7, 0.9), (0.8, 0.9))],
    // Zed.
    &[
        ((-0.9, -0.9), (0.9, -0.9)),
        ((0.9, -0.9), (-0.9, 0.9)),
        ((-0.9, 0.9), (0.9, 0.9)),
    ],
    // Slash.
    &[((-0.9, 0.9), (0.9, -0.9))],
];
