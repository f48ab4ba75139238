//! Tables for people: columns with space between them. In a pipe or a file each row is one line, however long; on a terminal a table is no wider
//! than that, and what does not fit goes on in the next line of its cell.

use super::output;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, presets};

/// A table with these names of its columns. The first column is a name that is copied into the next command, so it is not broken.
pub(super) fn new(head: impl Into<Row>) -> Table {
    let mut table = of_width(head, output::terminal_width());
    table.load_style(presets::NOTHING);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if let Some(name) = table.column_mut(0) {
        name.set_constraint(ColumnConstraint::ContentWidth);
    }
    table
}

/// Its lines, without the space at their ends.
pub(super) fn text(table: &Table) -> String {
    table.trim_fmt()
}

/// A table with lines between its columns, for cells with sentences in them, of this width, if there is one.
pub(super) fn of_width(head: impl Into<Row>, width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(head);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table
}
