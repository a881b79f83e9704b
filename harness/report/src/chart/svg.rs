//! An SVG image under construction. Every text is escaped here.

use std::fmt::Write;

use epochcost_judge::analysis::names::ON_CPU;
use epochcost_spec::ui::visible;

use super::text::text_width;
use super::{Look, Size};

/// An image of the charts' width, or of its own.
#[derive(Default)]
pub(super) struct Svg {
    pub height: f64,
    width: f64,
    head: String,
    body: String,
    /// Whether a row has the mark [`ON_CPU`].
    is_marked: bool,
}

impl Svg {
    /// Returns a chart: its id, unique in the page, its title, and its figures in a sentence.
    pub(super) fn new(size: Size, about: [&str; 3]) -> Self {
        let [id, title, desc] = about.map(escape);
        let [suffix, class] = size.suffix_and_class();
        let id = id + suffix;
        let head = format!(
            "class='chart {class}' role='img' aria-labelledby='{id}-title {id}-desc'>\n\
             <title id='{id}-title'>{title}</title>\n<desc id='{id}-desc'>{desc}</desc>"
        );
        Self {
            width: size.width(),
            head,
            ..Self::default()
        }
    }

    /// Returns a small image inside a cell of a table.
    pub(super) fn small([width, height]: [f64; 2], class: &str, title: &str) -> Self {
        let title = escape(title);
        Self {
            height,
            width,
            head: format!(
                "class='{class}' width='{width}' height='{height}' role='img'>\
                 <title>{title}</title>"
            ),
            ..Self::default()
        }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// Opens a group of what belongs to one row, which the page's filter finds
    /// by its system.
    pub(super) fn open(&mut self, name: &str, system: &str) {
        self.is_marked |= name.contains(ON_CPU);
        let (name, system) = (escape(name), escape(system));
        self.add(format_args!(
            "<g data-name='{name}' data-system='{system}'>"
        ));
    }

    /// Draws the mark of a series; `data` are the exact figures behind it, by name.
    pub(super) fn mark(
        &mut self,
        look: Look,
        (at, radius): ([f64; 2], f64),
        class: &str,
        data: &[(&str, f64)],
        title: &str,
    ) {
        let (data, title, d) = (attributes(data), escape(title), look.outline(at, radius));
        self.add(format_args!(
            "<path d='{d}' class='point {class}'{data}><title>{title}</title></path>"
        ));
    }

    /// Draws the mark of a series without a figure behind it.
    pub(super) fn example(&mut self, look: Look, at: [f64; 2], radius: f64) {
        let class = format!("key {}", look.fill());
        self.shape(&look.outline(at, radius), &class);
    }

    /// Closes a group.
    pub(super) fn close(&mut self) {
        self.body.push_str("</g>\n");
    }

    /// Draws a rectangle; `data` are the exact figures behind the shape, by
    /// name.
    pub(super) fn rect(
        &mut self,
        [x, y, width, height]: [f64; 4],
        class: &str,
        data: &[(&str, f64)],
        title: &str,
    ) {
        let (data, title) = (attributes(data), escape(title));
        self.add(format_args!(
            "<rect x='{x:.1}' y='{y:.1}' width='{width:.1}' height='{height:.1}' \
             class='{class}'{data}><title>{title}</title></rect>"
        ));
    }

    /// Draws a coloured square without a figure behind it.
    pub(super) fn key(&mut self, [x, y]: [f64; 2], side: f64, class: &str) {
        self.add(format_args!(
            "<rect x='{x:.1}' y='{y:.1}' width='{side}' height='{side}' class='key {class}'/>"
        ));
    }

    pub(super) fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) {
        self.add(format_args!(
            "<line x1='{x1:.1}' y1='{y1:.1}' x2='{x2:.1}' y2='{y2:.1}' class='{class}'/>"
        ));
    }

    /// Draws a path through points.
    pub(super) fn path(&mut self, points: &[[f64; 2]], class: &str) {
        self.shape(&through(points), class);
    }

    /// Draws a closed path through points.
    pub(super) fn polygon(&mut self, points: &[[f64; 2]], class: &str) {
        self.shape(&format!("{}z", through(points)), class);
    }

    /// Draws a path of commands.
    pub(super) fn shape(&mut self, d: &str, class: &str) {
        self.add(format_args!("<path d='{d}' class='{class}'/>"));
    }

    /// Draws a line that ends in an arrow's head.
    pub(super) fn arrow(&mut self, [from, to]: [[f64; 2]; 2], class: &str) {
        const HEAD: f64 = 7.0;
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let length = (dx * dx + dy * dy).sqrt();
        if length < 2.0 * HEAD {
            return;
        }
        let [ux, uy] = [dx / length, dy / length];
        let neck = [to[0] - HEAD * ux, to[1] - HEAD * uy];
        let [wx, wy] = [-uy * HEAD * 0.5, ux * HEAD * 0.5];
        self.line([from[0], from[1], neck[0], neck[1]], class);
        let [one, other] = [1.0, -1.0].map(|side| [neck[0] + side * wx, neck[1] + side * wy]);
        self.polygon(&[to, one, other], &format!("{class} head"));
    }

    /// Draws text; `anchor` is `start`, `middle` or `end`. Text that would leave the
    /// image is moved inside.
    pub(super) fn text(&mut self, [x, y]: [f64; 2], anchor: &str, class: &str, text: &str) {
        let width = text_width(text);
        let left = match anchor {
            "start" => x,
            "middle" => x - width / 2.0,
            _ => x - width,
        };
        let most = (self.width - width - 1.0).max(0.0);
        let x = x + left.clamp(0.0, most) - left;
        let text = escape(text);
        self.add(format_args!(
            "<text x='{x:.1}' y='{y:.1}' text-anchor='{anchor}' class='{class}'>{text}</text>"
        ));
    }

    /// Draws signs with names, in as many lines as they need; `sign` draws one into
    /// a box of 14 pixels. Returns the height used.
    pub(super) fn legend<T, N: AsRef<str>>(
        &mut self,
        [left, top]: [f64; 2],
        entries: &[(T, N)],
        sign: impl Fn(&mut Self, &T, [f64; 2]),
    ) -> f64 {
        const SIGN: f64 = 20.0;
        const GAP: f64 = 18.0;
        const LINE: f64 = 20.0;
        if entries.is_empty() {
            return 0.0;
        }
        let (mut x, mut y) = (left, top);
        for (what, name) in entries {
            let name = name.as_ref();
            let width = SIGN + text_width(name);
            if x > left && x + width > self.width - 4.0 {
                (x, y) = (left, y + LINE);
            }
            sign(self, what, [x, y]);
            let room = self.width - 4.0 - x - SIGN;
            self.text([x + SIGN, y + 10.5], "start", "t", &shortened(name, room));
            x += width + GAP;
        }
        y + LINE - top
    }

    /// Returns the image, with the meaning of the mark where a row has it.
    pub(super) fn finish(mut self) -> String {
        if self.is_marked {
            let means = "† computed on a CPU in place of its GPU";
            self.text([4.0, self.height + 14.0], "start", "t m", means);
            self.height += 20.0;
        }
        format!(
            "<svg viewBox='0 0 {} {:.0}' {}\n{}</svg>",
            self.width, self.height, self.head, self.body
        )
    }
}

/// Returns a text that is no wider than `room`: its middle gives way to an ellipsis.
pub(super) fn shortened(text: &str, room: f64) -> String {
    if text_width(text) <= room {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let with = |kept: usize| {
        let tail = kept / 2;
        let [head, tail] = [&letters[..kept - tail], &letters[letters.len() - tail..]]
            .map(|part| part.iter().collect::<String>());
        format!("{}…{}", head.trim_end(), tail.trim_start())
    };
    let fits = |short: &String| text_width(short) <= room;
    let mut shorter = (0..letters.len()).rev().map(with);
    shorter.find(fits).unwrap_or_else(|| "…".to_owned())
}

/// Returns the commands of a path through points.
pub(super) fn through(points: &[[f64; 2]]) -> String {
    let mut d = String::new();
    for (i, [x, y]) in points.iter().enumerate() {
        let command = if i == 0 { 'M' } else { 'L' };
        let _ = write!(d, "{command}{x:.1} {y:.1}");
    }
    d
}

fn attributes(data: &[(&str, f64)]) -> String {
    let attribute = |(name, value): &(&str, f64)| format!(" data-{name}='{value}'");
    data.iter().map(attribute).collect()
}

/// Escapes text for an element or an attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{holds, lacks};

    const UNNAMED: [&str; 3] = ["c", "", ""];

    #[test]
    fn markup_in_names_stays_text() {
        let mut svg = Svg::new(Size::Wide, ["c", "a'b", "<b>"]);
        svg.open("<i>", "'");
        let script = "<script>alert('&\u{1b}')</script>";
        svg.text([0.0, 0.0], "start", "t", script);
        svg.close();
        let text = svg.finish();
        let escaped = [
            "&lt;script&gt;alert(&#39;&amp;[U+001B]",
            "<title id='c-title'>a&#39;b</title>",
            "data-name='&lt;i&gt;' data-system='&#39;'",
        ];
        holds(&text, &escaped);
        lacks(&text, &["<script>"]);
    }

    #[test]
    fn text_gives_way_to_its_room() {
        assert_eq!(shortened("SPIRT", 100.0), "SPIRT");
        let short = shortened("LambdaML ScatterReduce", 80.0);
        assert!(short.contains('…') && text_width(&short) <= 80.0, "{short}");
        assert_eq!(shortened("SPIRT", 0.0), "…");
        // Names of a sweep begin alike: what tells them apart is at their ends.
        let names = [4, 12, 24].map(|w| format!("median-in-store-model-mobilenet-workers-{w}"));
        let short = names.map(|name| shortened(&name, 180.0));
        assert!(short[0] != short[1] && short[1] != short[2], "{short:?}");
        let begin_alike = short.iter().all(|name| name.starts_with("median"));
        assert!(begin_alike, "{short:?}");
    }

    #[test]
    fn text_stays_inside_its_image() {
        let mut svg = Svg::new(Size::Narrow, UNNAMED);
        svg.text([348.0, 10.0], "middle", "t", "10,000 s");
        let moved = 350.0 - 1.0 - text_width("10,000 s") / 2.0;
        assert!(svg.finish().contains(&format!("x='{moved:.1}'")));
    }

    #[test]
    fn an_arrow_between_near_points_is_left_out() {
        let mut svg = Svg::new(Size::Wide, UNNAMED);
        svg.arrow([[0.0, 0.0], [3.0, 0.0]], "arrow");
        svg.arrow([[0.0, 0.0], [30.0, 0.0]], "arrow");
        assert_eq!(svg.finish().matches("<path").count(), 1);
    }
}
