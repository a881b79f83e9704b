//! Names of rows in reports, and the marks behind names and figures.

use std::collections::BTreeSet;

use epochcost_systems::find;

use super::summary::RowSummary;

/// Mark behind the name of a row that stands for a GPU and was computed on a CPU.
pub(crate) const ON_CPU: &str = " †";

/// Mark behind dollars that hold the minimum charge of an instance.
pub(crate) const MINIMUM: &str = " ‡";

/// Marks, with their meanings.
pub(crate) const MARKS: [(&str, &str); 2] = [
    (
        ON_CPU,
        "computed on a CPU in place of its GPU: seconds and dollars are not a GPU's",
    ),
    (MINIMUM, "holds the minimum charge of an instance, 60 s"),
];

/// Returns the meanings of marks in these texts, a sentence each.
pub(crate) fn legend<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> Vec<String> {
    let is_used = |mark: &str| texts.clone().any(|text| text.contains(mark));
    let used = MARKS.into_iter().filter(|(mark, _)| is_used(mark));
    used.map(|(mark, means)| format!("{} {means}.", mark.trim_start()))
        .collect()
}

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
            return marked(names, rows);
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
    if !unique(&names) {
        names = rows.iter().map(|row| row.id.clone()).collect();
    }
    marked(names, rows)
}

/// Marks the names of rows that were computed on a CPU in place of a GPU.
fn marked(mut names: Vec<String>, rows: &[RowSummary]) -> Vec<String> {
    for (name, _) in (names.iter_mut().zip(rows)).filter(|(_, row)| row.cpu_for_gpu) {
        name.push_str(ON_CPU);
    }
    names
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
