//! Positions of names, so that they cover as little as possible.

use super::text_width;

/// Height of a line of text above its baseline.
const TEXT: f64 = 13.0;

/// A box: left, top, right, bottom.
type Area = [f64; 4];

/// Areas that are drawn on already, by how bad it would be to cover them.
#[derive(Default)]
pub(super) struct Occupied {
    texts: Vec<Area>,
    points: Vec<Area>,
    lines: Vec<Area>,
}

impl Occupied {
    /// Marks the area of a point of about this radius.
    pub(super) fn point(&mut self, [x, y]: [f64; 2], radius: f64) {
        let area = [x - radius, y - radius, x + radius, y + radius];
        self.points.push(area);
    }

    /// Marks a straight line, as the small boxes along it.
    pub(super) fn line(&mut self, [from, to]: [[f64; 2]; 2]) {
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let steps = (dx.hypot(dy) / 6.0).ceil().max(1.0) as usize;
        self.lines.extend((0..=steps).map(|step| {
            let share = step as f64 / steps as f64;
            let [x, y] = [from[0] + dx * share, from[1] + dy * share];
            [x - 2.0, y - 2.0, x + 2.0, y + 2.0]
        }));
    }

    /// The left end of the baseline for `text`: the first of `places` that
    /// cover least inside `frame`. The place is occupied then.
    pub(super) fn place(
        &mut self,
        text: &str,
        places: impl IntoIterator<Item = [f64; 2]>,
        frame: Area,
    ) -> [f64; 2] {
        let width = text_width(text);
        let area = |[x, y]: [f64; 2]| [x, y - TEXT, x + width, y + 2.0];
        let best = places
            .into_iter()
            .min_by_key(|place| self.cost(area(*place), frame))
            .unwrap_or([frame[0], frame[3]]);
        self.texts.push(area(best));
        best
    }

    fn cost(&self, area: Area, frame: Area) -> usize {
        let covered = |drawn: &[Area]| drawn.iter().filter(|other| overlap(**other, area)).count();
        let is_inside = area[0] >= frame[0]
            && area[1] >= frame[1]
            && area[2] <= frame[2]
            && area[3] <= frame[3];
        let outside = if is_inside { 0 } else { 10_000 };
        outside + 100 * covered(&self.texts) + 20 * covered(&self.points) + covered(&self.lines)
    }
}

fn overlap(a: Area, b: Area) -> bool {
    a[0] <= b[2] && b[0] <= a[2] && a[1] <= b[3] && b[1] <= a[3]
}

/// Returns positions near a point for a text of this width, the preferred ones
/// first.
pub(super) fn around([x, y]: [f64; 2], text: &str) -> Vec<[f64; 2]> {
    const HEIGHTS: [f64; 11] = [
        4.0, 18.0, -10.0, 32.0, -24.0, 46.0, -38.0, 60.0, -52.0, 74.0, -66.0,
    ];
    let width = text_width(text);
    let sides = [x + 12.0, x - 12.0 - width];
    let mut places: Vec<[f64; 2]> = HEIGHTS
        .iter()
        .flat_map(|height| sides.map(|left| [left, y + height]))
        .collect();
    let middle = x - width / 2.0;
    places.splice(6..6, [[middle, y + 24.0], [middle, y - 14.0]]);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Area = [0.0, 0.0, 500.0, 300.0];

    #[test]
    fn names_of_points_in_one_place_do_not_cover_each_other() {
        let mut occupied = Occupied::default();
        let at = [250.0, 150.0];
        occupied.point(at, 7.0);
        let name = "a name of some length";
        let places: Vec<[f64; 2]> = (0..10)
            .map(|_| occupied.place(name, around(at, name), FRAME))
            .collect();
        assert_eq!(places[0], [262.0, 154.0]);
        for (i, area) in occupied.texts.iter().enumerate() {
            assert!(
                occupied.texts[..i]
                    .iter()
                    .all(|other| !overlap(*other, *area))
            );
        }
    }

    #[test]
    fn names_stay_inside_their_frame() {
        let mut occupied = Occupied::default();
        let place = occupied.place("name", around([495.0, 5.0], "name"), FRAME);
        assert!(place[0] < 480.0 && place[1] > TEXT, "{place:?}");
    }
}
