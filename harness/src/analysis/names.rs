//! Names of rows in reports.

use std::collections::BTreeSet;

use epochcost_systems::find;

use super::summary::RowSummary;

/// Returns a system as papers write it; its id where it is not known.
pub(crate) fn system_title(system: &str) -> String {
    find(system).map_or_else(|| system.to_owned(), |known| known.title().to_owned())
}

/// Returns a name for each row: the system's, and what else distinguishes
/// rows.
pub(crate) fn names(rows: &[RowSummary]) -> Vec<String> {
    let differs = |value: fn(&RowSummary) -> String| {
        rows.iter()
            .any(|row| rows.first().is_some_and(|first| value(first) != value(row)))
    };
    let parts: [fn(&RowSummary) -> String; 5] = [
        |row| row.model.clone(),
        RowSummary::described,
        |row| format!("W={}", row.workers),
        |row| format!("b={}", row.batch_size),
        |row| row.memory_mb.map_or(String::new(), |mb| format!("{mb} MB")),
    ];
    let mut names: Vec<String> = rows.iter().map(|row| system_title(&row.system)).collect();
    for part in parts {
        if unique(&names) {
            return names;
        }
        if differs(part) {
            for (name, part) in names.iter_mut().zip(rows.iter().map(part)) {
                if !part.is_empty() {
                    name.push_str(" · ");
                    name.push_str(&part);
                }
            }
        }
    }
    if unique(&names) {
        names
    } else {
        rows.iter().map(|row| row.id.clone()).collect()
    }
}

fn unique(names: &[String]) -> bool {
    names.iter().collect::<BTreeSet<_>>().len() == names.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_or_not() {
        let named = |names: [&str; 2]| unique(&names.map(str::to_owned));
        assert!(named(["SPIRT", "MLLess"]) && !named(["SPIRT", "SPIRT"]));
    }
}
