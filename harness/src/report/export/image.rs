//! A chart that stands alone: with its name space, a background, and the rules of the
//! page's style that it needs, in the colours of the light scheme. Programs that know
//! no variables of CSS read it, too.

use crate::report::STYLE;

/// Where the rules for charts begin and end in the style.
const CHARTS: [&str; 2] = ["/* Charts,", "/* End of charts. */"];

/// Colours of series, as in the style.
const SERIES: usize = crate::report::chart::COLOURS;

/// Returns a chart of a page as a file of its own.
pub(super) fn alone(svg: &str, is_simulated: bool, citation: &str) -> String {
    let class = if is_simulated {
        "class='simulated "
    } else {
        "class='"
    };
    let head = svg.replacen(
        "<svg ",
        "<svg xmlns='http://www.w3.org/2000/svg' font-family='Helvetica, Arial, \"DejaVu Sans\", sans-serif' ",
        1,
    );
    let head = head.replacen("class='", class, 1);
    let Some((open, body)) = head.split_once(">\n") else {
        return head;
    };
    let [width, height] = size(open);
    let citation = citation.replace("--", "- -");
    format!(
        "<!-- {citation} -->\n{open} width='{width}' height='{height}'>\n<style>{}</style>\n\
         <rect width='100%' height='100%' fill='#ffffff'/>\n{body}\n",
        rules()
    )
}

/// Returns the width and the height of a chart, whole pixels.
pub(super) fn pixels(svg: &str) -> [u32; 2] {
    size(svg).map(|text| text.parse::<f64>().unwrap_or(0.0).ceil() as u32)
}

/// Returns the width and the height of the view box.
fn size(open: &str) -> [&str; 2] {
    let inside = open.split_once("viewBox='").map_or("", |(_, rest)| rest);
    let mut parts = inside
        .split('\'')
        .next()
        .unwrap_or_default()
        .split(' ')
        .skip(2);
    [parts.next().unwrap_or("860"), parts.next().unwrap_or("400")]
}

/// Returns the style's rules for charts without variables.
fn rules() -> String {
    let (_, rest) = STYLE.split_once(CHARTS[0]).unwrap_or(("", STYLE));
    let (charts, _) = rest.split_once(CHARTS[1]).unwrap_or((rest, ""));
    let (_, charts) = charts.split_once("*/").unwrap_or(("", charts));
    let mut text = String::new();
    for rule in charts.split_inclusive('}') {
        let rule = without_comment(rule.trim());
        let Some((selector, body)) = rule.split_once('{') else {
            continue;
        };
        let selector = selector.trim();
        // What a variable is set to is resolved below.
        if body.contains("--s:") && !body.contains("fill") {
            continue;
        }
        if body.contains("var(--s)") {
            for series in 1..=SERIES {
                let colour = format!("var(--c{series})");
                let body = resolved(&body.replace("var(--s)", &colour));
                text.push_str(&format!("{selector}.s{series} {{{body}\n"));
            }
            for plain in ["example", "plain"] {
                let body = resolved(&body.replace("var(--s)", "var(--muted)"));
                text.push_str(&format!("{selector}.{plain} {{{body}\n"));
            }
        } else {
            text.push_str(&format!("{selector} {{{}\n", resolved(body)));
        }
    }
    text
}

fn without_comment(rule: &str) -> &str {
    match rule.rsplit_once("*/") {
        Some((_, rule)) => rule.trim(),
        None => rule,
    }
}

/// Replaces every variable by its value in the light scheme, which comes first.
fn resolved(body: &str) -> String {
    let mut text = body.to_owned();
    while let Some((before, rest)) = text.split_once("var(--") {
        let (name, after) = rest.split_once(')').unwrap_or((rest, ""));
        let declared = format!("--{name}:");
        let value = STYLE
            .split_once(&declared)
            .and_then(|(_, rest)| rest.split(';').next())
            .unwrap_or("#000000")
            .trim();
        text = format!("{before}{value}{after}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_alone_needs_no_page() {
        let svg = "<svg viewBox='0 0 860 300' class='chart for-wide' role='img'>\n<path d='M0 0' class='line s2'/>\n</svg>";
        let text = alone(svg, true, "epochcost 1: run--1");
        assert!(
            text.contains("xmlns='http://www.w3.org/2000/svg'"),
            "{text}"
        );
        assert!(text.contains("class='simulated chart for-wide'"));
        assert!(text.contains("width='860' height='300'"));
        assert!(!text.contains("var(") && !text.contains("run--1"), "{text}");
        assert!(text.contains("svg .line.s2 {"), "{text}");
        assert!(text.contains("#e69f00"), "{text}");
        assert!(!text.contains("display: none"), "{text}");
    }
}
