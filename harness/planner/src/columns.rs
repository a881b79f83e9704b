//! Tables whose columns are said once: each heading beside what its cells say.

use epochcost_report::{Cell, Table};
use epochcost_spec::ui;

/// A column of items: its heading, and what a cell says of an item.
pub(crate) type Column<'c, T, C> = (&'c str, &'c dyn Fn(&T) -> C);

/// Returns items as a table for people.
pub(crate) fn table<T, const N: usize>(items: &[T], columns: [Column<'_, T, String>; N]) -> String {
    let row = |item: &T| columns.map(|(_, cell)| cell(item));
    let rows: Vec<[String; N]> = items.iter().map(row).collect();
    ui::table(columns.map(|(heading, _)| heading), &rows)
}

/// Returns items as a table of a page; headings end as those of [`Table::new`].
pub(crate) fn page_table<T, const N: usize>(
    caption: impl Into<String>,
    items: &[T],
    columns: [Column<'_, T, Cell>; N],
) -> Table {
    let mut table = Table::new(caption, &columns.map(|(heading, _)| heading));
    for item in items {
        table.row(columns.map(|(_, cell)| cell(item)).into());
    }
    table
}
