//! Messages on a terminal.

use console::{Style, measure_text_width};

/// First words of a line, and their style.
fn styles() -> [(&'static str, Style); 4] {
    let bold = || Style::new().force_styling(true).bold();
    [
        ("error:", bold().red()),
        ("warning:", bold().yellow()),
        ("note:", bold().cyan()),
        ("  = help:", bold().cyan()),
    ]
}

/// Returns a message for a terminal of that many columns: lines end at words, and what a line
/// is stands in colour.
pub(super) fn message(text: &str, columns: usize, is_coloured: bool) -> String {
    let lines = text.split('\n').map(|line| {
        let folded = folded(line, columns);
        let mut styles = styles().into_iter();
        let style = styles.find(|(word, _)| line.starts_with(word));
        match style.filter(|_| is_coloured) {
            Some((word, style)) => folded.replacen(word, &style.apply_to(word).to_string(), 1),
            None => folded,
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Breaks a line at words. An excerpt of a file, with its number and a bar, stays as it is.
fn folded(line: &str, columns: usize) -> String {
    let gutter = line.trim_start();
    let gutter = gutter.trim_start_matches(|c: char| c.is_ascii_digit());
    if measure_text_width(line) <= columns || gutter.trim_start().starts_with('|') {
        return line.to_owned();
    }
    let is_help = line.starts_with("  = help: ");
    let indent = " ".repeat(if is_help { 10 } else { 2 });
    let words = line.trim_start();
    let mut lines = vec![line[..line.len() - words.len()].to_owned()];
    for word in words.split(' ') {
        let Some(last) = lines.last_mut() else { break };
        if last.trim().is_empty() {
            last.push_str(word);
        } else if measure_text_width(last) + 1 + measure_text_width(word) <= columns {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_words_and_excerpts_stay() {
        let text = "error: a.yaml:3:1: something is wrong here\n 3 |   workers: many of them, too many\n   |   ^\n  = help: say how many there are";
        assert_eq!(
            message(text, 24, false),
            "error: a.yaml:3:1:\n  something is wrong\n  here\n 3 |   workers: many of them, too many\n   |   ^\n  = help: say how many\n          there are"
        );
        assert_eq!(message(text, 200, false), text);
    }

    #[test]
    fn what_a_line_is_stands_in_colour() {
        let coloured = "\u{1b}[33m\u{1b}[1mwarning:\u{1b}[0m the error: here";
        assert_eq!(message("warning: the error: here", 80, true), coloured);
        assert_eq!(message("results go to x", 80, true), "results go to x");
    }
}
