use std::fmt::Write;

use super::ticks::{linear_ticks, thinned};
use super::{Size, Svg, text_width};

/// Pieces drawn as they are up to this many; beyond, neighbours that share a
/// few pixels become one, so that a chart of many steps stays small.
const MOST_PIECES: usize = 900;

/// Spans with a text of their own up to this many.
const MOST_TITLES: usize = 240;

/// Space between the baselines of names.
const LINE: f64 = 13.0;

/// Lanes of spans over time, each span filled with pieces.
pub struct Timeline<'a> {
    /// Unique in the page.
    pub id: &'a str,
    /// Description of the chart for readers who cannot see it.
    pub label: &'a str,
    /// Figures in a sentence.
    pub desc: &'a str,
    /// Length of the axis.
    pub seconds: f64,
    /// The lanes, from above.
    pub lanes: Vec<Lane>,
    /// Class and name of each kind of piece.
    pub kinds: &'a [(&'a str, &'a str)],
    /// Meaning of the mark at a span's start.
    pub flag: &'a str,
    /// Format of seconds.
    pub format: fn(f64) -> String,
}

/// One lane.
pub struct Lane {
    /// Name; empty where it is one of several of the one above.
    pub name: String,
    /// Spans, from left to right.
    pub spans: Vec<Span>,
}

/// A stretch of time.
pub struct Span {
    /// Start, seconds on the axis.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Whether its start is marked.
    pub flagged: bool,
    /// Description.
    pub title: String,
    /// Parts, from left to right.
    pub pieces: Vec<Piece>,
}

/// A part of a span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece {
    /// Start, seconds on the axis.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Index of its kind.
    pub kind: usize,
}

/// Draws the chart; nothing without a lane or without time.
pub fn timeline(chart: &Timeline<'_>, size: Size) -> Option<String> {
    if chart.lanes.is_empty() || chart.seconds <= 0.0 || !chart.seconds.is_finite() {
        return None;
    }
    // Scale, legend and grid.
    let name = |lane: &Lane| text_width(&lane.name);
    let left = chart.lanes.iter().map(name).fold(40.0, f64::max) + 16.0;
    let right = size.width() - 24.0;
    let x =
        |seconds: f64| left + seconds.clamp(0.0, chart.seconds) / chart.seconds * (right - left);
    let pitch = pitch(chart.lanes.len());
    let mut svg = Svg::new(size, [chart.id, chart.label, chart.desc]);
    let top = legend(&mut svg, chart) + 6.0;
    let bottom = top + chart.lanes.len() as f64 * pitch;
    let mut ticks = linear_ticks(0.0, chart.seconds);
    ticks.retain(|tick| *tick <= chart.seconds * 1.001);
    for tick in thinned(ticks, x, chart.format) {
        let (x, label) = (x(tick), (chart.format)(tick));
        svg.line([x, top - 4.0, x, bottom], "grid");
        svg.text([x, bottom + 16.0], "middle", "t m", &label);
    }
    // Lanes; many spans go without titles, many pieces are joined.
    let spans: usize = chart.lanes.iter().map(|lane| lane.spans.len()).sum();
    let titled = spans <= MOST_TITLES;
    let pieces = coarse(&chart.lanes, chart.seconds);
    let mut named_to = f64::NEG_INFINITY;
    for (i, (lane, pieces)) in chart.lanes.iter().zip(&pieces).enumerate() {
        let area = LaneArea {
            y: top + i as f64 * pitch,
            height: (pitch - 2.0).max(1.5),
            titled,
        };
        draw(&mut svg, chart, lane, pieces, area, &x);
        // Of many low lanes, as many are named as there is room for.
        let baseline = area.y + (area.height * 0.5 + 4.0).max(8.0);
        if !lane.name.is_empty() && baseline >= named_to + LINE {
            named_to = baseline;
            svg.text([left - 10.0, baseline], "end", "t", &lane.name);
        }
    }
    svg.height = bottom + 24.0;
    Some(svg.finish())
}

/// Returns the height of a lane: fewer lanes are taller.
fn pitch(lanes: usize) -> f64 {
    match lanes {
        0..=8 => 22.0,
        9..=20 => 14.0,
        21..=48 => 8.0,
        _ => 5.0,
    }
}

fn legend(svg: &mut Svg, chart: &Timeline<'_>) -> f64 {
    let spans = || chart.lanes.iter().flat_map(|lane| &lane.spans);
    let is_used = |kind: usize| {
        let mut pieces = spans().flat_map(|span| &span.pieces);
        pieces.any(|piece| piece.kind == kind)
    };
    let kinds = chart.kinds.iter().enumerate();
    let kinds = kinds.filter(|(kind, _)| is_used(*kind));
    let names = kinds.map(|(_, (class, name))| (Some(*class), *name));
    let flag = (spans().any(|span| span.flagged)).then_some((None, chart.flag));
    let names: Vec<(Option<&str>, &str)> = names.chain(flag).collect();
    svg.legend([4.0, 4.0], &names, |svg, class, [x, y]| match class {
        Some(class) => svg.key([x, y], 12.0, class),
        None => svg.polygon(&triangle(x + 2.0, y + 1.0, 10.0), "flag"),
    })
}

/// Returns a small triangle that points to where something starts.
fn triangle(x: f64, y: f64, size: f64) -> [[f64; 2]; 3] {
    [[x, y], [x + size * 0.8, y + size * 0.5], [x, y + size]]
}

/// Position and height of a lane in the drawing.
#[derive(Clone, Copy)]
struct LaneArea {
    y: f64,
    height: f64,
    titled: bool,
}

fn draw(
    svg: &mut Svg,
    chart: &Timeline<'_>,
    lane: &Lane,
    pieces: &[Piece],
    lane_area: LaneArea,
    x: &impl Fn(f64) -> f64,
) {
    let LaneArea { y, height, titled } = lane_area;
    let area = |from: f64, to: f64| [x(from), y, (x(to) - x(from)).max(0.6), height];
    // An edge would hide what is in a lane of a few pixels.
    let low = if height < 8.0 { " low" } else { "" };
    let class = format!("span{low}");
    if titled {
        for span in &lane.spans {
            svg.rect(area(span.from, span.to), &class, &[], &span.title);
        }
    } else {
        let areas = lane.spans.iter().map(|span| area(span.from, span.to));
        svg.shape(&boxes(areas), &class);
    }
    for (kind, (class, _)) in chart.kinds.iter().enumerate() {
        let of_kind = pieces.iter().filter(|piece| piece.kind == kind);
        let d = boxes(of_kind.map(|piece| area(piece.from, piece.to)));
        if !d.is_empty() {
            svg.shape(&d, &format!("seg {class}"));
        }
    }
    for span in lane.spans.iter().filter(|span| span.flagged) {
        let size = height.min(10.0);
        let y = y + (height - size) / 2.0;
        svg.polygon(&triangle(x(span.from), y, size), "flag");
    }
}

/// Returns boxes as one path.
fn boxes(areas: impl Iterator<Item = [f64; 4]>) -> String {
    let mut d = String::new();
    for [x, y, width, height] in areas {
        // Writing to a string cannot fail.
        let _ = write!(d, "M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
    }
    d
}

/// Returns the pieces of every lane, with neighbours joined until there are few
/// enough.
fn coarse(lanes: &[Lane], seconds: f64) -> Vec<Vec<Piece>> {
    let exact = |lane: &Lane| -> Vec<Piece> {
        let pieces = lane.spans.iter().flat_map(|span| &span.pieces).copied();
        pieces.filter(|piece| piece.to > piece.from).collect()
    };
    let exact: Vec<Vec<Piece>> = lanes.iter().map(exact).collect();
    let count = |lanes: &[Vec<Piece>]| lanes.iter().map(Vec::len).sum::<usize>();
    let mut drawn = exact.clone();
    let mut columns = 1024;
    while count(&drawn) > MOST_PIECES && columns >= 8 {
        let lanes = exact.iter().map(|lane| joined(lane, seconds, columns));
        drawn = lanes.collect();
        columns /= 2;
    }
    drawn
}

/// Cuts time into equal columns, gives each to the kind that fills most of it,
/// and joins neighbours of one kind.
fn joined(pieces: &[Piece], seconds: f64, columns: usize) -> Vec<Piece> {
    let width = seconds / columns as f64;
    let kinds = pieces.iter().map(|piece| piece.kind + 1).max().unwrap_or(0);
    let mut filled = vec![0.0; columns * kinds];
    for piece in pieces {
        let first = (piece.from / width).max(0.0) as usize;
        let last = ((piece.to / width).max(0.0) as usize).min(columns - 1);
        for column in first..=last {
            let (from, to) = (column as f64 * width, (column + 1) as f64 * width);
            filled[column * kinds + piece.kind] +=
                (piece.to.min(to) - piece.from.max(from)).max(0.0);
        }
    }
    let mut joined: Vec<Piece> = Vec::new();
    for (column, filled) in filled.chunks(kinds.max(1)).enumerate() {
        let kinds = filled.iter().enumerate();
        let most = kinds.max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((kind, _)) = most.filter(|_| filled.iter().sum::<f64>() > 0.5 * width) else {
            continue;
        };
        let (from, to) = (column as f64 * width, (column + 1) as f64 * width);
        match joined.last_mut() {
            Some(last) if last.kind == kind && (last.to - from).abs() < 1e-3 * width => {
                last.to = to
            }
            _ => joined.push(Piece { from, to, kind }),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of many pieces of a length.
    fn piece(i: u32, each: f64, kind: usize) -> Piece {
        Piece {
            from: f64::from(i) * each,
            to: f64::from(i + 1) * each,
            kind,
        }
    }

    fn lane(pieces: Vec<Piece>) -> Lane {
        Lane {
            name: "worker 0".into(),
            spans: vec![Span {
                from: 0.0,
                to: 100.0,
                flagged: true,
                title: "train".into(),
                pieces,
            }],
        }
    }

    fn drawn(lanes: Vec<Lane>) -> Option<String> {
        let chart = Timeline {
            id: "t",
            label: "t",
            desc: "",
            seconds: 100.0,
            lanes,
            kinds: &[("c1", "compute"), ("c2", "wait")],
            flag: "cold start",
            format: |seconds| format!("{seconds} s"),
        };
        timeline(&chart, Size::Wide)
    }

    #[test]
    fn thousands_of_pieces_become_few_that_keep_their_shares() {
        let piece = |i: u32| piece(i, 0.002, usize::from(i >= 30_000));
        let coarse = coarse(&[lane((0..50_000).map(piece).collect())], 100.0);
        assert_eq!(coarse[0].len(), 2);
        assert!((coarse[0][0].to - 60.0).abs() < 0.2, "{:?}", coarse[0]);
    }

    #[test]
    fn alternating_pieces_stay_bounded() {
        let pieces = |lanes: usize| -> Vec<Lane> {
            let piece = |i: u32| piece(i, 0.01, i as usize % 2);
            let lane = |_| lane((0..10_000).map(piece).collect());
            (0..lanes).map(lane).collect()
        };
        let coarse = coarse(&pieces(40), 100.0);
        assert!(coarse.iter().map(Vec::len).sum::<usize>() <= MOST_PIECES);
        assert!(drawn(pieces(40)).is_some_and(|svg| svg.len() < 80_000));
    }

    #[test]
    fn few_pieces_are_drawn_as_they_are() {
        let piece = Piece {
            from: 1.0,
            to: 2.5,
            kind: 1,
        };
        assert_eq!(coarse(&[lane(vec![piece])], 100.0), [[piece]]);
        let svg = drawn(vec![lane(vec![piece])]).unwrap_or_default();
        assert!(svg.contains("cold start") && svg.contains("wait") && !svg.contains("compute"));
        assert!(drawn(Vec::new()).is_none());
    }
}
