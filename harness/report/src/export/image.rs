//! A chart that stands alone: with its name space, a background, and the style that its shapes
//! have on the page, in the colours of the light scheme. The style stands in attributes of each
//! shape: programs that read no rules of CSS, or not all of them, draw it alike.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::STYLE;

/// Where the rules for charts begin and end in the style.
const CHARTS: [&str; 2] = ["/* Charts,", "/* End of charts. */"];

/// Attributes of an image that stands alone.
const ROOT: &str = "xmlns='http://www.w3.org/2000/svg' \
                    font-family='Helvetica, Arial, \"DejaVu Sans\", sans-serif'";

/// Properties that are attributes of SVG.
const ATTRIBUTES: [&str; 12] = [
    "fill",
    "fill-opacity",
    "font-size",
    "font-style",
    "font-weight",
    "opacity",
    "stroke",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "stroke-opacity",
    "stroke-width",
];

/// A rule of the style for one kind of shape.
struct Rule {
    /// Name of the element; empty for any.
    element: &'static str,
    classes: Vec<&'static str>,
    /// Whether its selector names `svg`.
    is_in_svg: bool,
    /// Whether it holds in simulated charts alone.
    is_of_simulated: bool,
    properties: Vec<(&'static str, &'static str)>,
}

impl Rule {
    fn is_of(&self, element: &str, classes: &[&str], is_simulated: bool) -> bool {
        (self.element.is_empty() || self.element == element)
            && self.classes.iter().all(|class| classes.contains(class))
            && (is_simulated || !self.is_of_simulated)
    }

    /// Returns the specificity of its selector.
    fn weight(&self) -> (usize, usize) {
        let elements = usize::from(self.is_in_svg) + usize::from(!self.element.is_empty());
        let classes = self.classes.len() + usize::from(self.is_of_simulated);
        (classes, elements)
    }
}

/// Returns a chart of a page as a file of its own.
pub(super) fn alone(svg: &str, is_simulated: bool, citation: &str) -> String {
    let head = svg.replacen("<svg ", &format!("<svg {ROOT} "), 1);
    let Some((open, body)) = head.split_once(">\n") else {
        return head;
    };
    let [width, height] = size(open);
    let (open, _) = without_class(open);
    let citation = citation.replace("--", "- -");
    let mut text = format!(
        "<!-- {citation} -->\n{open} width='{width}' height='{height}'>\n\
         <rect width='100%' height='100%' fill='#ffffff'/>\n"
    );
    let rules = rules();
    // What is between two `<` is a tag and the text behind it: both are escaped.
    let mut parts = body.split('<');
    text.push_str(parts.next().unwrap_or_default());
    text.extend(parts.map(|part| styled(part, &rules, is_simulated)));
    text.push('\n');
    text
}

/// Returns a tag, and the text behind it, with the attributes of its classes in the place of
/// these. A text with a rim becomes two: the rim, and the text over it.
fn styled(part: &str, rules: &[Rule], is_simulated: bool) -> String {
    let (plain, classes) = without_class(part);
    let classes: Vec<&str> = classes.split_whitespace().collect();
    let element = part.split([' ', '>', '/']).next().unwrap_or_default();
    let is_of = |rule: &&Rule| rule.is_of(element, &classes, is_simulated);
    let mut fitting: Vec<&Rule> = rules.iter().filter(is_of).collect();
    fitting.sort_by_key(|rule| rule.weight());
    let properties = fitting.iter().flat_map(|rule| &rule.properties);
    let properties: BTreeMap<&str, &str> = properties.copied().collect();
    let colour = properties.get("--s").copied().unwrap_or_default();
    let with = |is_written: fn(&str) -> bool, fill: Option<&str>| {
        let mut tag = format!("<{element}");
        for name in ATTRIBUTES.iter().filter(|name| is_written(name)) {
            let own = properties.get(name).copied();
            if let Some(value) = fill.filter(|_| *name == "fill").or(own) {
                let value = resolved(&value.replace("var(--s)", colour));
                // Writing to a string cannot fail.
                let _ = write!(tag, " {name}='{}'", value.trim_end_matches("px"));
            }
        }
        tag + &plain[element.len()..]
    };
    let rim = properties.get("stroke").copied();
    let rim = rim.filter(|rim| element == "text" && *rim != "none");
    match rim {
        None => with(|_| true, None),
        Some(rim) => {
            let below = with(|_| true, Some(rim));
            let above = with(|name| !name.starts_with("stroke"), None);
            format!("{below}</text>\n{above}")
        }
    }
}

/// Returns a tag without its attribute `class`, and the value of that.
fn without_class(tag: &str) -> (String, &str) {
    let found = tag.split_once(" class='").and_then(|(before, rest)| {
        let (classes, after) = rest.split_once('\'')?;
        Some((format!("{before}{after}"), classes))
    });
    found.unwrap_or_else(|| (tag.to_owned(), ""))
}

/// Returns the width and the height of the view box.
fn size(open: &str) -> [&str; 2] {
    let inside = open.split_once("viewBox='").map_or("", |(_, rest)| rest);
    let inside = inside.split('\'').next().unwrap_or_default();
    let mut parts = inside.split(' ').skip(2);
    [parts.next().unwrap_or("860"), parts.next().unwrap_or("400")]
}

/// Returns the style's rules for the shapes of charts.
fn rules() -> Vec<Rule> {
    let (_, rest) = STYLE.split_once(CHARTS[0]).unwrap_or(("", STYLE));
    let (charts, _) = rest.split_once(CHARTS[1]).unwrap_or((rest, ""));
    let (_, charts) = charts.split_once("*/").unwrap_or(("", charts));
    let mut rules = Vec::new();
    for rule in charts.split('}') {
        // A comment may stand before it.
        let rule = rule.rsplit("*/").next().unwrap_or_default();
        let Some((selectors, body)) = rule.split_once('{') else {
            continue;
        };
        let properties = body.split(';').filter_map(|one| one.split_once(':'));
        let properties = properties.map(|(name, value)| (name.trim(), value.trim()));
        let properties: Vec<_> = properties.collect();
        for selector in selectors.split(',') {
            let mut parts = selector.split_whitespace().peekable();
            let is_of_simulated = parts.next_if_eq(&".simulated").is_some();
            let is_in_svg = parts.next_if_eq(&"svg").is_some();
            // A shape that is pointed at is none of an image.
            let (Some(shape), None) = (parts.next(), parts.next()) else {
                continue;
            };
            let mut names = shape.split('.');
            let element = names.next().unwrap_or_default();
            if !shape.contains(':') {
                rules.push(Rule {
                    element,
                    classes: names.collect(),
                    is_in_svg,
                    is_of_simulated,
                    properties: properties.clone(),
                });
            }
        }
    }
    rules
}

/// Replaces every variable by its value in the light scheme, which comes first.
fn resolved(body: &str) -> String {
    let mut text = body.to_owned();
    while let Some((before, rest)) = text.split_once("var(--") {
        let (name, after) = rest.split_once(')').unwrap_or((rest, ""));
        let declared = format!("--{name}:");
        let declared = STYLE.split_once(&declared);
        let value = declared.and_then(|(_, rest)| rest.split(';').next());
        let value = value.unwrap_or("#000000").trim();
        text = format!("{before}{value}{after}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{holds, lacks};

    #[test]
    fn an_image_alone_needs_no_page_and_no_style() {
        let svg = "<svg viewBox='0 0 860 300' class='chart for-wide' role='img'>\n\
                   <path d='M0 0' class='line s2'/>\n<rect x='1' class='bar c1'><title>a</title></rect>\n\
                   <text x='1' y='2' class='t m'>a &gt; b</text>\n</svg>";
        let text = alone(svg, true, "epochcost 1: run--1");
        let words = [
            "xmlns='http://www.w3.org/2000/svg'",
            "width='860' height='300'",
            "<path fill='none' stroke='#e69f00' stroke-dasharray='6 4' stroke-linejoin='round' stroke-width='2' d='M0 0'/>",
            "<rect fill='#0072b2' fill-opacity='.4' stroke='#1c1f23' stroke-dasharray='3 2' stroke-opacity='.55' stroke-width='1.3' x='1'>",
            "<text fill='#ffffff' font-size='12' stroke='#ffffff' stroke-linejoin='round' stroke-width='3' x='1' y='2'>a &gt; b</text>\n<text fill='#5a616b' font-size='12' x='1' y='2'>a &gt; b</text>",
        ];
        holds(&text, &words);
        let foreign = ["var(", "--s", "paint-order", "<style", "class=", "run--1"];
        lacks(&text, &foreign);
    }

    /// Renderers differ in what they read of CSS; a rule that this file does not know would be
    /// lost without a word.
    #[test]
    fn every_property_of_charts_is_an_attribute_or_is_left_out_on_purpose() {
        let left_out = ["--s", "paint-order", "outline", "font-variant-numeric"];
        for rule in rules() {
            for (name, value) in rule.properties {
                let is_known = ATTRIBUTES.contains(&name) || left_out.contains(&name);
                assert!(is_known, "{name}");
                assert!(!value.contains("--s)") || value == "var(--s)", "{value}");
            }
        }
    }
}
