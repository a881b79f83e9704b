//! The ten classes, as strokes in a unit square.

/// A point; `x` grows to the right and `y` downwards, both within ±1.
pub(crate) type Point = (f32, f32);

/// A straight stroke between two points.
pub(crate) type Stroke = (Point, Point);

/// Name and strokes of a class.
pub(crate) struct Glyph {
    /// Name of the class.
    pub(crate) name: &'static str,
    /// Strokes of the glyph.
    pub(crate) strokes: &'static [Stroke],
}

/// The ten glyphs; a label is an index into them.
///
/// Glyphs differ in topology or orientation by more than the nuisance rotation
/// can undo. The ring is a regular dodecagon, written out so that no cosine is
/// computed.
pub(crate) static GLYPHS: [Glyph; 10] = [
    Glyph {
        name: "ring",
        strokes: &[
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
    },
    Glyph {
        name: "bar",
        strokes: &[((0.0, -1.0), (0.0, 1.0))],
    },
    Glyph {
        name: "plus",
        strokes: &[((0.0, -1.0), (0.0, 1.0)), ((-1.0, 0.0), (1.0, 0.0))],
    },
    Glyph {
        name: "saltire",
        strokes: &[((-0.9, -0.9), (0.9, 0.9)), ((-0.9, 0.9), (0.9, -0.9))],
    },
    Glyph {
        name: "triangle",
        strokes: &[
            ((0.0, -1.0), (1.0, 0.9)),
            ((1.0, 0.9), (-1.0, 0.9)),
            ((-1.0, 0.9), (0.0, -1.0)),
        ],
    },
    Glyph {
        name: "equals",
        strokes: &[((-1.0, -0.6), (1.0, -0.6)), ((-1.0, 0.6), (1.0, 0.6))],
    },
    Glyph {
        name: "tee",
        strokes: &[((-1.0, -0.9), (1.0, -0.9)), ((0.0, -0.9), (0.0, 1.0))],
    },
    Glyph {
        name: "ell",
        strokes: &[((-0.7, -1.0), (-0.7, 0.9)), ((-0.7, 0.9), (0.8, 0.9))],
    },
    Glyph {
        name: "zed",
        strokes: &[
            ((-0.9, -0.9), (0.9, -0.9)),
            ((0.9, -0.9), (-0.9, 0.9)),
            ((-0.9, 0.9), (0.9, 0.9)),
        ],
    },
    Glyph {
        name: "slash",
        strokes: &[((-0.9, 0.9), (0.9, -0.9))],
    },
];
