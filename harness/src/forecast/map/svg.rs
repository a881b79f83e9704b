//! The map as a picture that stands alone: a panel of the cheapest and one of the fastest.

use std::fmt::Write;

use super::{Best, Cell, Kind, Map};
use crate::format::{count, duration, usd};

/// Side of a cell, pixels.
const SIDE: f64 = 62.0;
/// Left edge of the first panel.
const LEFT: f64 = 84.0;
/// Upper edge of both panels.
const TOP: f64 = 70.0;
/// Room between the panels.
const GAP: f64 = 60.0;
/// Room below the panels.
const BELOW: f64 = 130.0;

/// Colours that are told apart by most eyes (Okabe and Ito), light enough for black text,
/// with their names.
const KINDS: [(Kind, &str, &str); 4] = [
    (Kind::OneMachine, "#9bd0f0", "one machine, one GPU or none"),
    (Kind::SeveralGpus, "#5a9fd0", "one machine, several GPUs"),
    (Kind::Ring, "#5cc4a0", "several machines, ring"),
    (Kind::Functions, "#f0b840", "functions"),
];

const STYLE: &str = "text{font-family:sans-serif;font-size:11px;fill:#222}.h{font-size:14px;\
                     font-weight:bold}.s{font-size:9px}";

/// Returns the picture.
pub(super) fn picture(map: &Map) -> String {
    let (columns, rows) = (map.parameters.len() as f64, map.operations.len() as f64);
    let (width, height) = (columns * SIDE, rows * SIDE);
    let (all_width, all_height) = (LEFT + 2.0 * width + GAP + 30.0, TOP + height + BELOW);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {all_width} {all_height}\" \
         width=\"{all_width}\" height=\"{all_height}\" role=\"img\"><title>Where training is \
         cheapest and fastest</title><style>{STYLE}</style><defs><pattern id=\"h\" width=\"6\" \
         height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><line x1=\"0\" \
         y1=\"0\" x2=\"0\" y2=\"6\" stroke=\"#fff\" stroke-width=\"2\" opacity=\"0.7\"/></pattern>\
         </defs><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    );
    let title = format!("Cheapest {}", map.goal.text());
    panel(&mut svg, map, LEFT, &title, |cell| cell.cheapest.as_ref());
    let left = LEFT + width + GAP;
    panel(&mut svg, map, left, "Fastest, at any price", |cell| {
        cell.fastest.as_ref()
    });
    legend(&mut svg, map, TOP + height + 62.0);
    svg.push_str("</svg>\n");
    svg
}

/// Writes to text, which cannot fail.
macro_rules! put {
    ($svg:expr, $($text:tt)*) => {
        let _ = write!($svg, $($text)*);
    };
}

fn panel(svg: &mut String, map: &Map, left: f64, title: &str, of: fn(&Cell) -> Option<&Best>) {
    let (columns, rows) = (map.parameters.len(), map.operations.len());
    let bottom = TOP + rows as f64 * SIDE;
    put!(
        svg,
        "<text class=\"h\" x=\"{left}\" y=\"{}\">{title}</text>",
        TOP - 14.0
    );
    // Cells, the least compute at the bottom.
    for (index, cell) in map.cells.iter().enumerate() {
        let x = left + (index % columns) as f64 * SIDE;
        let y = bottom - ((index / columns) + 1) as f64 * SIDE;
        draw(svg, cell, of(cell), x, y);
    }
    // Axes.
    for (index, parameters) in map.parameters.iter().enumerate() {
        let x = left + (index as f64 + 0.5) * SIDE;
        let text = scaled(*parameters);
        put!(
            svg,
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            bottom + 16.0
        );
    }
    for (index, operations) in map.operations.iter().enumerate() {
        let y = bottom - (index as f64 + 0.45) * SIDE;
        let text = scaled(*operations);
        put!(
            svg,
            "<text x=\"{}\" y=\"{y}\" text-anchor=\"end\">{text}</text>",
            left - 6.0
        );
    }
    let middle = left + columns as f64 * SIDE / 2.0;
    put!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">trainable parameters</text>",
        bottom + 34.0
    );
    if left == LEFT {
        let y = TOP + rows as f64 * SIDE / 2.0;
        put!(
            svg,
            "<text transform=\"translate(20 {y}) rotate(-90)\" text-anchor=\"middle\">operations of \
             a forward pass of a sample</text>"
        );
    }
    marks(svg, map, left, bottom);
}

fn draw(svg: &mut String, cell: &Cell, best: Option<&Best>, x: f64, y: f64) {
    let (colour, text, hint) = match best {
        None => ("#dddddd", String::new(), "nothing is possible".to_owned()),
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
            (colour, best.place.clone(), hint)
        }
    };
    put!(
        svg,
        "<g><title>{hint}</title><rect x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\" \
         fill=\"{colour}\" stroke=\"#fff\"/>"
    );
    if best.is_some_and(|best| best.is_uncertain) {
        put!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"url(#h)\"/>"
        );
    }
    // A place's name on as many lines as it has parts, from its second part on.
    let parts: Vec<&str> = text.split('-').collect();
    for (line, part) in parts.iter().take(4).enumerate() {
        put!(
            svg,
            "<text class=\"s\" x=\"{}\" y=\"{}\">{part}</text>",
            x + 3.0,
            y + 11.0 + 10.0 * line as f64
        );
    }
    svg.push_str("</g>");
}

/// Draws the models of the papers where they lie between the centres of cells.
fn marks(svg: &mut String, map: &Map, left: f64, bottom: f64) {
    for mark in &map.models {
        let (Some(across), Some(up)) = (
            place(&map.parameters, mark.parameters),
            place(&map.operations, mark.flops_per_sample),
        ) else {
            continue;
        };
        let (x, y) = (left + (across + 0.5) * SIDE, bottom - (up + 0.5) * SIDE);
        put!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{}\" fill=\"{}\" stroke=\"#fff\"/><text \
             class=\"s\" x=\"{:.1}\" y=\"{:.1}\" style=\"paint-order:stroke;stroke:#fff;\
             stroke-width:2px\">{}</text>",
            if mark.own.is_some() { 6 } else { 4 },
            if mark.own.is_some() {
                "#c8102e"
            } else {
                "#222"
            },
            x + 6.0,
            y + 3.0,
            escaped(&mark.model)
        );
    }
}

/// Returns a name as text of a picture.
fn escaped(name: &str) -> String {
    let name = name.replace('&', "&amp;");
    name.replace('<', "&lt;").replace('>', "&gt;")
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

fn legend(svg: &mut String, map: &Map, y: f64) {
    let mut x = LEFT;
    for (_, colour, name) in KINDS {
        put!(
            svg,
            "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{colour}\"/><text x=\"{}\" \
             y=\"{y}\">{name}</text>",
            y - 11.0,
            x + 20.0
        );
        x += 40.0 + 6.4 * name.len() as f64;
    }
    put!(
        svg,
        "<rect x=\"{x}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"#999\"/><rect x=\"{x}\" \
         y=\"{}\" width=\"14\" height=\"14\" fill=\"url(#h)\"/><text x=\"{}\" y=\"{y}\">another kind \
         wins in a draw of the ranges</text>",
        y - 11.0,
        y - 11.0,
        x + 20.0
    );
    put!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\">{} samples in batches of 128; every figure is simulated; cells \
         name the place; dots are models of the papers, by their steps on a T4</text>",
        y + 24.0,
        count(map.samples as f64)
    );
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
    fn numbers_have_units_of_thousands() {
        assert_eq!(scaled(3e5), "300 k");
        assert_eq!(scaled(1e11), "100 G");
        assert_eq!(scaled(12.0), "12");
    }
}
