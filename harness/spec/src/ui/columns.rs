//! Columns of text.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Columns of the terminal that tables may take; 0 where they may take any number.
static WIDTH: AtomicUsize = AtomicUsize::new(0);

/// Space between two columns.
const GAP: usize = 2;

/// A column of text is not made narrower than this.
const NARROWEST: usize = 16;

/// Says how many columns of the terminal tables and sentences may take; none for any number.
pub fn fit_to(width: Option<usize>) {
    WIDTH.store(width.unwrap_or(0), Ordering::Relaxed);
}

/// Returns how many columns of the terminal there are; none where there is no terminal.
pub fn columns() -> Option<usize> {
    Some(WIDTH.load(Ordering::Relaxed)).filter(|width| *width > 0)
}

/// Returns rows under a heading, each column as wide as its widest cell; columns whose cells
/// are all numbers lean to the right.
///
/// On a terminal that is too narrow, columns of text are wrapped; if that is not enough, the
/// table goes on below itself, with its first column again. A word is broken only where it alone
/// is too wide.
pub fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    fitted(heading, rows, columns())
}

/// Returns a [`table`] with a row for each item.
pub fn table_of<T, const N: usize>(
    heading: [&str; N],
    items: &[T],
    row: impl Fn(&T) -> [String; N],
) -> String {
    table(heading, &items.iter().map(row).collect::<Vec<_>>())
}

/// A column with its cells.
struct Column<'a> {
    /// The heading, then a cell for each row.
    cells: Vec<&'a str>,
    width: usize,
    is_numeric: bool,
}

impl Column<'_> {
    fn widest_word(&self) -> usize {
        let words = self.cells.iter().flat_map(|cell| cell.split(' '));
        words.map(width_of).max().unwrap_or(0)
    }

    /// Returns the width below which a word would be broken.
    fn least(&self) -> usize {
        self.widest_word().max(NARROWEST)
    }
}

fn width_of(text: &str) -> usize {
    text.chars().count()
}

fn fitted<const N: usize>(
    heading: [&str; N],
    rows: &[[String; N]],
    width: Option<usize>,
) -> String {
    let mut all: Vec<Column<'_>> = (0..N).map(|place| column(&heading, rows, place)).collect();
    let Some(width) = width else {
        return lines(&all);
    };
    narrow(&mut all, width, |column| column.least());
    let blocks = blocks(&all, width).into_iter().map(|places| {
        // Columns have the room of their own block.
        let own = places.into_iter();
        let mut own: Vec<Column<'_>> = own.map(|place| column(&heading, rows, place)).collect();
        narrow(&mut own, width, |column| column.least());
        narrow(&mut own, width, |_| NARROWEST);
        lines(&own)
    });
    blocks.collect::<Vec<_>>().join("\n\n")
}

fn column<'a, const N: usize>(
    heading: &[&'a str; N],
    rows: &'a [[String; N]],
    place: usize,
) -> Column<'a> {
    let is_number = |row: &[String; N]| {
        row[place].starts_with(|c: char| c.is_ascii_digit()) || row[place] == "-"
    };
    let cells = rows.iter().map(|row| row[place].as_str());
    let cells: Vec<&str> = std::iter::once(heading[place]).chain(cells).collect();
    Column {
        width: cells.iter().map(|cell| width_of(cell)).max().unwrap_or(0),
        cells,
        is_numeric: !rows.is_empty() && rows.iter().all(is_number),
    }
}

/// Returns the width of a table with columns of these widths.
fn total(widths: impl Iterator<Item = usize>) -> usize {
    widths
        .map(|width| width + GAP)
        .sum::<usize>()
        .saturating_sub(GAP)
}

/// Narrows columns of text, the widest first, until the table fits or none is wider than its
/// least width.
fn narrow(all: &mut [Column<'_>], width: usize, least: impl Fn(&Column<'_>) -> usize) {
    loop {
        let excess = total(all.iter().map(|column| column.width)).saturating_sub(width);
        let texts = all.iter_mut().filter(|column| !column.is_numeric);
        let wide = texts.filter(|column| column.width > least(column));
        let Some(widest) = wide
            .max_by_key(|column| column.width)
            .filter(|_| excess > 0)
        else {
            return;
        };
        // Not below the next widest at once: both give in then.
        widest.width -= excess.min(widest.width - least(widest)).min(8);
    }
}

/// Returns the places of the columns in tables that fit, each with the first column.
fn blocks(all: &[Column<'_>], width: usize) -> Vec<Vec<usize>> {
    let Some((first, rest)) = all.split_first() else {
        return Vec::new();
    };
    // A mark before the names is none.
    let keys = 1 + usize::from(first.width <= 1 && !rest.is_empty());
    let keys: Vec<usize> = (0..keys).collect();
    let taken = |block: &[usize]| total(block.iter().map(|place| all[*place].width));
    let mut blocks = vec![keys.clone()];
    for (place, column) in all.iter().enumerate().skip(keys.len()) {
        let is_full = blocks.last().is_some_and(|block| {
            block.len() > keys.len() && taken(block) + GAP + column.width > width
        });
        if is_full {
            blocks.push(keys.clone());
        }
        if let Some(block) = blocks.last_mut() {
            block.push(place);
        }
    }
    blocks
}

/// Returns a table as lines.
fn lines(columns: &[Column<'_>]) -> String {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let mut lines = Vec::new();
    for row in 0..rows {
        let cells: Vec<Vec<String>> = (columns.iter())
            .map(|column| wrapped(column.cells[row], column.width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let parts = cells.iter().zip(columns).map(|(cell, column)| {
                let text = cell.get(line).map_or("", String::as_str);
                let width = column.width;
                if column.is_numeric {
                    format!("{text:>width$}")
                } else {
                    format!("{text:<width$}")
                }
            });
            let gap = " ".repeat(GAP);
            lines.push(parts.collect::<Vec<_>>().join(&gap).trim_end().to_owned());
        }
    }
    lines.join("\n")
}

/// Characters behind which a word is broken, if it has one.
const BREAKS: [char; 3] = ['/', '-', '_'];

/// Returns a word in parts of a width.
fn broken(word: &str, width: usize) -> Vec<String> {
    let mut rest: Vec<char> = word.chars().collect();
    let mut parts = Vec::new();
    while rest.len() > width.max(1) {
        let end = width.max(1);
        let found = rest[..end].iter().rposition(|c| BREAKS.contains(c));
        let after = rest.split_off(found.map_or(end, |at| at + 1));
        parts.push(rest.into_iter().collect());
        rest = after;
    }
    parts.push(rest.into_iter().collect());
    parts
}

/// Returns a cell in lines of a width; a word is broken only if it is wider.
fn wrapped(cell: &str, width: usize) -> Vec<String> {
    if width_of(cell) <= width {
        return vec![cell.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in cell.split(' ') {
        for (place, part) in broken(word, width).into_iter().enumerate() {
            let Some(line) = lines.last_mut() else { break };
            if line.is_empty() {
                line.push_str(&part);
            } else if place == 0 && width_of(line) + 1 + width_of(&part) <= width {
                line.push(' ');
                line.push_str(&part);
            } else {
                lines.push(part);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_narrow_terminal_wraps_texts_and_then_goes_on_below() {
        let fitted = |heading, row: [&str; 3], width| {
            fitted(heading, &[row.map(str::to_owned)], Some(width))
        };
        let row = ["one", "a long text of many words", "1"];
        let wrapped = "row  text                n\none  a long text of      1\n     many words";
        assert_eq!(fitted(["row", "text", "n"], row, 26), wrapped);
        let row = ["one", "123456", "654321"];
        let below = "row       a\none  123456\n\nrow       b\none  654321";
        assert_eq!(fitted(["row", "a", "b"], row, 12), below);
    }

    /// Names of experiments and addresses once were wider than the terminal.
    #[test]
    fn a_word_is_broken_only_where_it_alone_is_too_wide() {
        let name = "cost-performance/figure2-without-allreduce";
        let rows = |text: &str| [[name, "1", text].map(str::to_owned)];
        let gap = |width: usize| " ".repeat(width);
        let lines = [
            format!("file{}rows", gap(32)),
            format!("cost-performance/figure2-without-{}1", gap(6)),
            "allreduce\n".to_owned(),
            format!("file{}from", gap(18)),
            format!("cost-performance/{}https://", gap(5)),
            format!("figure2-without-{}example.org/a/", gap(6)),
            format!("allreduce{}long/address", gap(13)),
        ];
        let address = rows("https://example.org/a/long/address");
        let shown = fitted(["file", "rows", "from"], &address, Some(40));
        assert_eq!(shown, lines.join("\n"));
        // Where each word has room, none is broken.
        let lines = [
            format!("file{}rows  about", gap(40)),
            format!("{name}     1  a long text of many"),
            format!("{}words", gap(50)),
        ];
        let words = rows("a long text of many words");
        let shown = fitted(["file", "rows", "about"], &words, Some(70));
        assert_eq!(shown, lines.join("\n"));
    }

    proptest! {
        /// A table that fits no terminal loses no word, and is no wider than the terminal
        /// where every cell alone has room beside the name of its row.
        #[test]
        fn no_word_is_lost_and_no_line_too_wide(
            rows in prop::collection::vec(
                prop::array::uniform5("[a-z]{1,9}( [a-z]{1,9}){0,5}|[0-9]{1,9}"), 1..6),
            width in 40_usize..120,
        ) {
            let heading = ["name", "b", "c", "d", "e"];
            let text = fitted(heading, &rows, Some(width));
            let widest = text.lines().map(width_of).max().unwrap_or(0);
            prop_assert!(widest <= width, "{widest} of {width}:\n{text}");
            let all: Vec<&str> = text.split_whitespace().collect();
            for word in rows.iter().flatten().flat_map(|cell| cell.split(' ')) {
                prop_assert!(all.contains(&word), "{word} is lost:\n{text}");
            }
            // A wide enough terminal changes nothing.
            prop_assert_eq!(fitted(heading, &rows, Some(10_000)), fitted(heading, &rows, None));
        }
    }
}
