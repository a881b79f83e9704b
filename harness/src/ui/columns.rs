//! Columns of text.

/// Returns rows under a heading, each column as wide as its widest cell;
/// columns whose cells are all numbers lean to the right.
pub fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([heading[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let numeric = |column: usize| {
        let number = |row: &[String; N]| {
            row[column].starts_with(|c: char| c.is_ascii_digit()) || row[column] == "-"
        };
        !rows.is_empty() && rows.iter().all(number)
    };
    // Width and alignment of each column.
    let shape: [(usize, bool); N] = std::array::from_fn(|column| (width(column), numeric(column)));
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(shape).map(|(cell, (width, right))| {
            if right {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let body = rows
        .iter()
        .map(|row| line(std::array::from_fn(|column| row[column].as_str())));
    std::iter::once(line(heading))
        .chain(body)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lean_right_and_text_left() {
        let rows = [
            ["a".to_owned(), "1".to_owned()],
            ["bcd".to_owned(), "20".to_owned()],
        ];
        assert_eq!(table(["name", "n"], &rows), "name   n\na      1\nbcd   20");
    }
}
