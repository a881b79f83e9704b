//! The look of a series: a colour and a mark together, so that neither is needed
//! alone.

use super::COLOURS;
use super::svg::through;

/// Marks with an outline of their own; their number and that of the colours have no
/// common divisor, so that all pairs of both are used before one comes again.
const MARKS: usize = 7;

/// Colour and mark of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    colour: usize,
    mark: usize,
}

/// Returns the looks of series by their system and variant: the colour is the system's, the mark
/// the variant's. Where there is one variant, the mark is the system's, too.
pub fn looks<'a>(series: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<Look> {
    fn place<'a>(known: &mut Vec<&'a str>, name: &'a str) -> usize {
        let found = known.iter().position(|one| *one == name);
        found.unwrap_or_else(|| {
            known.push(name);
            known.len() - 1
        })
    }
    let (mut systems, mut variants) = (Vec::new(), Vec::new());
    let places: Vec<[usize; 2]> = (series.into_iter())
        .map(|(system, variant)| [place(&mut systems, system), place(&mut variants, variant)])
        .collect();
    let look = |[system, variant]: [usize; 2]| match variants.len() {
        1 => Look::nth(system),
        // Of two systems with one colour, the second has other marks.
        count => Look {
            colour: system,
            mark: variant + system / COLOURS * count,
        },
    };
    places.into_iter().map(look).collect()
}

impl Look {
    /// Returns the look of the `n`-th series, of which each has its own.
    pub const fn nth(n: usize) -> Self {
        Self { colour: n, mark: n }
    }

    /// Returns the class that fills a shape with the colour.
    pub fn fill(self) -> String {
        format!("c{}", self.number())
    }

    /// Returns the class that strokes a shape with the colour.
    pub fn stroke(self) -> String {
        format!("s{}", self.number())
    }

    fn number(self) -> usize {
        self.colour % COLOURS + 1
    }

    /// Returns the outline of the mark around a point, about as large as a circle of
    /// this radius.
    pub fn outline(self, [x, y]: [f64; 2], radius: f64) -> String {
        let r = radius;
        match self.mark % MARKS {
            0 => {
                let (left, d) = (x - r, 2.0 * r);
                format!("M{left:.1} {y:.1}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z")
            }
            1 => turned([x, y], 1.2 * r, 4, 45.0),
            2 => turned([x, y], 1.3 * r, 3, -90.0),
            3 => turned([x, y], 1.3 * r, 4, 0.0),
            4 => turned([x, y], 1.3 * r, 3, 90.0),
            5 => star([x, y], 1.35 * r),
            _ => turned([x, y], 1.15 * r, 6, 0.0),
        }
    }
}

/// Returns a regular polygon, its first corner at an angle in degrees.
fn turned(centre: [f64; 2], radius: f64, corners: usize, degrees: f64) -> String {
    let angle = |corner| degrees + 360.0 * corner as f64 / corners as f64;
    closed(centre, (0..corners).map(|corner| (radius, angle(corner))))
}

/// Returns a cross of four arms.
fn star(centre: [f64; 2], radius: f64) -> String {
    let corners = (0..8).map(|corner| {
        let reach = if corner % 2 == 0 { 0.42 } else { 1.0 };
        (radius * reach, 45.0 * f64::from(corner))
    });
    closed(centre, corners)
}

fn closed([x, y]: [f64; 2], corners: impl Iterator<Item = (f64, f64)>) -> String {
    let points = corners.map(|(radius, degrees)| {
        let (sin, cos) = degrees.to_radians().sin_cos();
        [x + radius * cos, y + radius * sin]
    });
    through(&points.collect::<Vec<_>>()) + "z"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_of_twenty_four_series_look_the_same() {
        let looks = (0..24).map(Look::nth);
        let looks = looks.map(|look| (look.fill(), look.outline([0.0, 0.0], 5.0)));
        assert_eq!(looks.collect::<BTreeSet<_>>().len(), 24);
    }

    #[test]
    fn colour_is_the_system_and_mark_the_variant() {
        let outline = |look: Look| look.outline([0.0, 0.0], 5.0);
        let both = |name| [(name, "small"), (name, "large")];
        let of = ["a", "b"].into_iter().flat_map(both);
        let [a, a_large, b, b_large] = looks(of)[..] else {
            panic!("four series")
        };
        assert_eq!([a.fill(), b.fill()], [a_large.fill(), b_large.fill()]);
        assert_ne!(a.fill(), b.fill());
        let [of_a, of_b] = [[a, a_large], [b, b_large]].map(|of| of.map(outline));
        assert_eq!(of_a, of_b);
        assert_ne!(outline(a), outline(a_large));
        // Sixteen systems of two variants each: no two look the same.
        let names: Vec<String> = (0..16).map(|system| system.to_string()).collect();
        let series = (names.iter()).flat_map(|name| [(name.as_str(), "x"), (name, "y")]);
        let all = looks(series).into_iter();
        let all: BTreeSet<_> = all.map(|look| (look.fill(), outline(look))).collect();
        assert_eq!(all.len(), 32);
        assert_eq!(looks([("a", ""), ("b", "")]), [Look::nth(0), Look::nth(1)]);
    }
}
