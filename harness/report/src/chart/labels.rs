//! Positions of names beside their points. A name that does not fit beside its point
//! goes to the legend: no line leads anywhere, so that none can cross another.

use super::text_width;

/// Height of a line of text above its baseline.
const TEXT: f64 = 12.0;

/// Space around a name.
const GAP: f64 = 2.0;

/// A box: left, top, right, bottom.
pub(super) type Area = [f64; 4];

/// Areas that are drawn on already.
#[derive(Default)]
pub(super) struct Occupied {
    areas: Vec<Area>,
    lines: Vec<Area>,
}

impl Occupied {
    /// Marks the area of a point of about this radius.
    pub(super) fn point(&mut self, [x, y]: [f64; 2], radius: f64) {
        let area = [x - radius, y - radius, x + radius, y + radius];
        self.areas.push(area);
    }

    /// Marks a straight line, as the small boxes along it: text may cover it only
    /// where there is no other place.
    pub(super) fn line(&mut self, [from, to]: [[f64; 2]; 2]) {
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let steps = ((dx * dx + dy * dy).sqrt() / 6.0).ceil().max(1.0) as usize;
        self.lines.extend((0..=steps).map(|step| {
            let share = step as f64 / steps as f64;
            let [x, y] = [from[0] + dx * share, from[1] + dy * share];
            [x - 1.0, y - 1.0, x + 1.0, y + 1.0]
        }));
    }

    /// Returns the left end of the baseline for `text`: of the `places` inside
    /// `frame` that cover no point and no text, the first that covers least of the
    /// lines. The place is occupied then. None if there is no such place.
    pub(super) fn place(
        &mut self,
        text: &str,
        places: impl IntoIterator<Item = [f64; 2]>,
        frame: Area,
    ) -> Option<[f64; 2]> {
        let width = text_width(text);
        let area = |[x, y]: [f64; 2]| [x - GAP, y - TEXT, x + width + GAP, y + GAP + 1.0];
        let is_free = |place: &[f64; 2]| {
            let area = area(*place);
            is_inside(area, frame) && !self.areas.iter().any(|other| overlap(*other, area))
        };
        let covered = |place: &[f64; 2]| {
            let area = area(*place);
            let lines = self.lines.iter();
            lines.filter(|other| overlap(**other, area)).count()
        };
        let best = places.into_iter().filter(is_free).min_by_key(covered)?;
        self.areas.push(area(best));
        Some(best)
    }
}

fn is_inside(area: Area, frame: Area) -> bool {
    area[0] >= frame[0] && area[1] >= frame[1] && area[2] <= frame[2] && area[3] <= frame[3]
}

fn overlap(a: Area, b: Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

/// Returns positions beside a point for a text of this width, the preferred ones
/// first.
pub(super) fn around([x, y]: [f64; 2], text: &str) -> Vec<[f64; 2]> {
    let width = text_width(text);
    let (right, left, middle) = (x + 12.0, x - 12.0 - width, x - width / 2.0);
    vec![
        [right, y + 4.0],
        [left, y + 4.0],
        [middle, y - 12.0],
        [middle, y + 22.0],
        [right - 3.0, y - 6.0],
        [right - 3.0, y + 15.0],
        [left + 3.0, y - 6.0],
        [left + 3.0, y + 15.0],
    ]
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
        let mut place = || occupied.place(name, around(at, name), FRAME);
        let places: Vec<[f64; 2]> = (0..12).filter_map(|_| place()).collect();
        assert_eq!(places[0], [262.0, 154.0]);
        assert!((3..12).contains(&places.len()), "{places:?}");
        let texts = &occupied.areas[1..];
        for (i, area) in texts.iter().enumerate() {
            assert!(texts[..i].iter().all(|other| !overlap(*other, *area)));
        }
    }

    #[test]
    fn names_stay_inside_their_frame() {
        let mut occupied = Occupied::default();
        let place = occupied.place("name", around([495.0, 50.0], "name"), FRAME);
        assert!(place.is_some_and(|[x, _]| x < 480.0), "{place:?}");
        let wide =
            "a name that is wider than the frame and fits nowhere at all, wherever one puts it";
        let place = occupied.place(wide, around([250.0, 150.0], wide), FRAME);
        assert_eq!(place, None);
    }
}
