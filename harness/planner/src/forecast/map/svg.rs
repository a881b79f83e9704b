//! The map as a picture that stands alone: a panel of the cheapest and one of the fastest.

use epochcost_judge::analysis::titles::model_title;
use epochcost_report::escape;
use epochcost_spec::format::{count, duration, usd};

use super::{Best, Cell, Kind, Map, owner, regions};

/// Side of a cell, pixels.
const SIDE: f64 = 62.0;
/// Left edge of the first panel.
const LEFT: f64 = 84.0;
/// Upper edge of both panels.
const TOP: f64 = 70.0;
/// Room between the panels.
const GAP: f64 = 60.0;
/// Room below the panels.
const BELOW: f64 = 86.0;
/// Height of a line below the panels.
const LINE_OF_NOTES: f64 = 18.0;
/// Widest mean width of a letter of small text.
const LETTER: f64 = 5.4;
/// Height of a line of small text.
const LINE: f64 = 10.0;
/// Radius of a dot.
const DOT: f64 = 7.0;
/// Letters of a line below the panels.
const WIDE: usize = 200;

/// Colours that are told apart by most eyes (Okabe and Ito), light enough for black text,
/// with their names.
pub(super) const KINDS: [(Kind, &str, &str); 4] = [
    (
        Kind::OneMachine,
        "#9bd0f0",
        "one machine with one GPU or none",
    ),
    (
        Kind::SeveralGpus,
        "#5a9fd0",
        "one machine with several GPUs",
    ),
    (Kind::Ring, "#5cc4a0", "a ring of machines"),
    (Kind::Functions, "#f0b840", "functions"),
];

const STYLE: &str = "text{font-family:sans-serif;font-size:11px;fill:#222}.h{font-size:14px;\
                     font-weight:bold}.s{font-size:9px}.d{font-size:9px;font-weight:bold;fill:#fff}\
                     .p{fill:#fff}@media(prefers-color-scheme:dark){.p{fill:#16191f}\
                     text:not(.s,.d){fill:#e4e6ea}}";

/// Returns the picture.
pub(super) fn picture(map: &Map) -> String {
    let (columns, rows) = (map.parameters.len() as f64, map.operations.len() as f64);
    let (width, height) = (columns * SIDE, rows * SIDE);
    let notes = notes(map);
    let all_width = LEFT + 2.0 * width + GAP + 30.0;
    let all_height = TOP + height + BELOW + LINE_OF_NOTES * notes.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width} {all_height}\" \
         width=\"{all_width}\" height=\"{all_height}\" role=\"img\"><title>Where training is \
         cheapest and fastest</title><style>{STYLE}</style><defs><pattern id=\"h\" width=\"6\" \
         height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><line x1=\"0\" \
         y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#fff\" stroke-width=\"2\" opacity=\"0.7\"/></pattern>\
         </defs><rect class=\"p\" width=\"100%\" height=\"100%\"/>"
    );
    let cheapest: fn(&Cell) -> Option<&Best> = |cell| cell.cheapest.as_ref();
    let fastest: fn(&Cell) -> Option<&Best> = |cell| cell.fastest.as_ref();
    let title = format!("Cheapest {}: {}", map.goal.text(), found(map, cheapest));
    panel(&mut svg, map, LEFT, &title, cheapest);
    let left = LEFT + width + GAP;
    let title = format!("Fastest, at any price: {}", found(map, fastest));
    panel(&mut svg, map, left, &title, fastest);
    legend(&mut svg, TOP + height + 62.0);
    for (line, text) in notes.iter().enumerate() {
        let y = TOP + height + 86.0 + LINE_OF_NOTES * line as f64;
        svg += &format!("<text x=\"{LEFT}\" y=\"{y}\">{}</text>", escape(text));
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, map: &Map, left: f64, title: &str, of: fn(&Cell) -> Option<&Best>) {
    let (columns, rows) = (map.parameters.len(), map.operations.len());
    let bottom = TOP + rows as f64 * SIDE;
    let y = TOP - 14.0;
    *svg += &format!("<text class=\"h\" x=\"{left}\" y=\"{y}\">{title}</text>");
    // Cells, the least compute at the bottom.
    for (index, cell) in map.cells.iter().enumerate() {
        let x = left + (index % columns) as f64 * SIDE;
        let y = bottom - ((index / columns) + 1) as f64 * SIDE;
        draw(svg, cell, of(cell), x, y);
    }
    borders(svg, map, (left, bottom), of);
    // Axes.
    for (index, parameters) in map.parameters.iter().enumerate() {
        let (x, y) = (left + (index as f64 + 0.5) * SIDE, bottom + 16.0);
        let text = scaled(*parameters);
        *svg += &format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{text}</text>");
    }
    for (index, operations) in map.operations.iter().enumerate() {
        let (x, y) = (left - 6.0, bottom - (index as f64 + 0.45) * SIDE);
        let text = scaled(*operations);
        *svg += &format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{text}</text>");
    }
    let (x, y) = (left + columns as f64 * SIDE / 2.0, bottom + 34.0);
    *svg +=
        &format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">trainable parameters</text>");
    if left == LEFT {
        let y = TOP + rows as f64 * SIDE / 2.0;
        *svg += &format!(
            "<text transform=\"translate(20 {y}) rotate(-90)\" text-anchor=\"middle\">operations of \
             a forward pass of a sample</text>"
        );
    }
    // Names of places, and dots with the numbers of models.
    let dots = dots(map, left, bottom);
    labels(svg, map, (left, bottom), of, &dots);
    for (index, (mark, dot)) in map.models.iter().zip(&dots).enumerate() {
        let Some((x, y)) = dot else { continue };
        let is_own = mark.own.is_some();
        let colour = if is_own { "#c8102e" } else { "#222" };
        *svg += &format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{DOT}\" fill=\"{colour}\" stroke=\"#fff\"/>\
             <text class=\"d\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            y + 3.2,
            index + 1
        );
    }
}

fn draw(svg: &mut String, cell: &Cell, best: Option<&Best>, x: f64, y: f64) {
    let (colour, hint) = match best {
        None => ("#dddddd", "nothing is possible".to_owned()),
        Some(best) => {
            let known = KINDS.iter().find(|(kind, ..)| *kind == best.kind);
            let colour = known.map_or("#dddddd", |(_, colour, _)| colour);
            let hint = format!(
                "{} parameters, {} operations: {}, {} and {}",
                scaled(cell.parameters),
                scaled(cell.flops_per_sample),
                best.what,
                duration(best.seconds),
                usd(best.usd)
            );
            (colour, hint)
        }
    };
    *svg += &format!(
        "<g><title>{hint}</title><rect x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\" \
         fill=\"{colour}\" stroke=\"#fff\"/>"
    );
    if best.is_some_and(|best| best.is_uncertain) {
        *svg += &format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"url(#h)\"/>"
        );
    }
    svg.push_str("</g>");
}

/// Draws lines between cells of different places.
fn borders(
    svg: &mut String,
    map: &Map,
    (left, bottom): (f64, f64),
    of: fn(&Cell) -> Option<&Best>,
) {
    let columns = map.parameters.len();
    let differ = |one: usize, other: usize| owner(map, of, one) != owner(map, of, other);
    for index in 0..map.cells.len() {
        let (column, row) = (index % columns, index / columns);
        let (x, y) = (left + column as f64 * SIDE, bottom - row as f64 * SIDE);
        let vertical = (column > 0 && differ(index, index - 1)).then_some((0.0, -SIDE));
        let horizontal = (row > 0 && differ(index, index - columns)).then_some((SIDE, 0.0));
        for (right, up) in vertical.into_iter().chain(horizontal) {
            *svg += &format!(
                "<path d=\"M{x} {y}l{right} {up}\" stroke=\"#222\" stroke-width=\"1.5\"/>"
            );
        }
    }
}

/// Returns where the dots of models lie, none outside of the map; a dot that would lie on one before
/// it is moved to the right.
fn dots(map: &Map, left: f64, bottom: f64) -> Vec<Option<(f64, f64)>> {
    let mut dots: Vec<Option<(f64, f64)>> = Vec::with_capacity(map.models.len());
    for mark in &map.models {
        let across = place(&map.parameters, mark.parameters);
        let up = place(&map.operations, mark.flops_per_sample);
        let dot = across.zip(up).map(|(across, up)| {
            let (mut x, y) = (left + (across + 0.5) * SIDE, bottom - (up + 0.5) * SIDE);
            let near = |x: f64, dot: &(f64, f64)| between((x, y), *dot) < 2.0 * DOT + 1.0;
            while dots.iter().flatten().any(|dot| near(x, dot)) {
                x += 1.0;
            }
            (x, y)
        });
        dots.push(dot);
    }
    dots
}

/// A rectangle: left, top, width and height.
pub(super) type Area = (f64, f64, f64, f64);

pub(super) fn between(one: (f64, f64), other: (f64, f64)) -> f64 {
    let (x, y) = (one.0 - other.0, one.1 - other.1);
    (x * x + y * y).sqrt()
}

/// Returns whether a dot and a rectangle touch.
pub(super) fn touches(dot: (f64, f64), (x, y, width, height): Area) -> bool {
    let nearest = (dot.0.clamp(x, x + width), dot.1.clamp(y, y + height));
    between(dot, nearest) < DOT + 1.0
}

/// Writes the name of each region's place into one of its cells, the nearest to its middle in which
/// no dot is in the way; of a region of one cell that has no room, none.
fn labels(
    svg: &mut String,
    map: &Map,
    (left, bottom): (f64, f64),
    of: fn(&Cell) -> Option<&Best>,
    dots: &[Option<(f64, f64)>],
) {
    let columns = map.parameters.len();
    for region in regions(map, of) {
        let Some(best) = region.first().and_then(|index| of(&map.cells[*index])) else {
            continue;
        };
        let lines = lines(&best.place);
        let letters = lines.iter().map(|line| line.chars().count()).max();
        let width = letters.unwrap_or(0) as f64 * LETTER;
        let height = lines.len() as f64 * LINE;
        let corner = |index: &usize| {
            let x = left + (index % columns) as f64 * SIDE;
            (x, bottom - ((index / columns) + 1) as f64 * SIDE)
        };
        let corners: Vec<(f64, f64)> = region.iter().map(corner).collect();
        let count = corners.len() as f64;
        let middle = corners.iter().fold((0.0, 0.0), |sum, corner| {
            (sum.0 + corner.0 / count, sum.1 + corner.1 / count)
        });
        // In the middle of a cell, or else at its upper or lower edge.
        let heights = [(SIDE - height) / 2.0, 2.0, SIDE - height - 2.0];
        let (beside, above) = ((SIDE - width) / 2.0, (SIDE - height) / 2.0);
        let area = |y: f64, corner: &(f64, f64)| (corner.0 + beside, corner.1 + y, width, height);
        let areas = heights.into_iter();
        let areas = areas.flat_map(|y| corners.iter().map(move |corner| area(y, corner)));
        let distance = |area: &Area| between((area.0 - beside, area.1 - above), middle);
        let is_free = |area: &Area| !dots.iter().flatten().any(|dot| touches(*dot, *area));
        let free = areas.filter(is_free);
        let Some(area) = free.min_by(|a, b| distance(a).total_cmp(&distance(b))) else {
            continue;
        };
        for (line, text) in lines.iter().enumerate() {
            *svg += &format!(
                "<text class=\"s\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                area.0 + width / 2.0,
                area.1 + LINE * (line as f64 + 0.8),
                escape(text)
            );
        }
    }
}

/// Returns the name of a place on one line or two, broken behind a hyphen or a dot.
fn lines(name: &str) -> Vec<&str> {
    if name.len() as f64 * LETTER <= SIDE - 2.0 {
        return vec![name];
    }
    let breaks = name
        .char_indices()
        .filter(|(_, letter)| "-.".contains(*letter));
    let longer = |at: &usize| (*at).max(name.len() - at);
    let best = breaks.map(|(at, _)| at + 1).min_by_key(longer);
    best.map_or(vec![name], |at| vec![&name[..at], &name[at..]])
}

/// Returns where a value lies among rising ones, by logarithm; none outside.
fn place(values: &[f64], value: f64) -> Option<f64> {
    let above = values.iter().position(|known| *known >= value)?;
    let Some(below) = above.checked_sub(1) else {
        return (values[0] == value).then_some(0.0);
    };
    let share = (value / values[below]).ln() / (values[above] / values[below]).ln();
    Some(below as f64 + share)
}

fn legend(svg: &mut String, y: f64) {
    let mut x = LEFT;
    for (_, colour, name) in KINDS {
        *svg += &format!(
            "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{colour}\"/><text x=\"{}\" \
             y=\"{y}\">{name}</text>",
            y - 11.0,
            x + 20.0
        );
        x += 40.0 + 6.4 * name.len() as f64;
    }
    *svg += &format!(
        "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"#999\"/><rect x=\"{x}\" \
         y=\"{}\" width=\"14\" height=\"14\" fill=\"url(#h)\"/><text x=\"{}\" y=\"{y}\">too close to \
         call</text>",
        y - 11.0,
        y - 11.0,
        x + 20.0
    );
}

/// Returns what a panel shows, in a few words: the kind that is the best in most cells.
fn found(map: &Map, of: fn(&Cell) -> Option<&Best>) -> String {
    let cells = map.cells.iter().filter_map(of).count();
    let count = |kind: Kind| {
        let best = map.cells.iter().filter_map(of);
        best.filter(|best| best.kind == kind).count()
    };
    let most = KINDS.iter().max_by_key(|(kind, ..)| count(*kind));
    most.map_or_else(String::new, |(kind, _, name)| {
        format!("{name} in {} of {cells} cells", count(*kind))
    })
}

/// Returns the lines below the panels.
fn notes(map: &Map) -> Vec<String> {
    let models = (map.models.iter().enumerate())
        .map(|(index, mark)| format!("{} {}", index + 1, model_title(&mark.model)));
    let mut texts = vec![
        format!(
            "{} samples in batches of 128; every figure is simulated. A name is that of the place of all cells \
             around it within dark lines; point at a cell for its setting.",
            count(map.samples as f64)
        ),
        format!(
            "Dots are models, by their parameters and their step on a T4: {}.",
            models.collect::<Vec<_>>().join(", ")
        ),
    ];
    if map.models.iter().any(|mark| mark.own.is_some()) {
        texts.push(
            "The red dot is trained as its file says, the cells around it are not.".to_owned(),
        );
    }
    texts.extend(map.misses.iter().cloned());
    let mut lines = Vec::new();
    for text in texts {
        let mut line = String::new();
        for word in text.split(' ') {
            if line.chars().count() + word.chars().count() >= WIDE {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

/// Returns a number with its unit of thousands.
fn scaled(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(unit, _)| value >= *unit);
    unit.map_or_else(
        || count(value),
        |(unit, name)| format!("{} {name}", count(value / unit)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_their_neighbours() {
        let values = [1.0, 10.0, 1000.0];
        assert_eq!(place(&values, 1.0), Some(0.0));
        assert_eq!(place(&values, 10.0), Some(1.0));
        assert!((place(&values, 100.0).unwrap_or(0.0) - 1.5).abs() < 1e-12);
        assert_eq!(place(&values, 2000.0), None);
        assert_eq!(place(&values, 0.5), None);
    }

    #[test]
    fn names_of_places_are_broken_where_they_are_shortest() {
        assert_eq!(lines("runpod-h100"), ["runpod-h100"]);
        assert_eq!(lines("aws-g4dn.xlarge-spot"), ["aws-g4dn.", "xlarge-spot"]);
    }

    #[test]
    fn numbers_have_units_of_thousands() {
        assert_eq!(scaled(3e5), "300 k");
        assert_eq!(scaled(1e11), "100 G");
        assert_eq!(scaled(12.0), "12");
    }
}
