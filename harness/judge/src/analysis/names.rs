//! Names of rows in reports, and the marks behind names and figures.

use std::collections::BTreeSet;

use epochcost_spec::format;

use super::summary::RowSummary;
use super::titles::{model_title, system_title};

/// Mark behind the name of a row that stands for a GPU and was computed on a CPU.
pub const ON_CPU: &str = " †";

/// Mark behind dollars that hold the minimum charge of an instance.
pub const MINIMUM: &str = " ‡";

/// Marks, with their meanings.
pub const MARKS: [(&str, &str); 2] = [
    (
        ON_CPU,
        "computed on a CPU in place of its GPU: seconds and dollars are not a GPU's",
    ),
    (MINIMUM, "holds the minimum charge of an instance, 60 s"),
];

/// Returns the meanings of marks in these texts, a sentence each.
pub fn legend<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> Vec<String> {
    let is_used = |mark: &str| texts.clone().any(|text| text.contains(mark));
    let used = MARKS.into_iter().filter(|(mark, _)| is_used(mark));
    used.map(|(mark, means)| format!("{} {means}.", mark.trim_start()))
        .collect()
}

/// What distinguishes a row from others.
pub struct Named<'a> {
    /// The row's id.
    pub id: &'a str,
    /// Its system, as papers write it.
    pub system: String,
    /// Its model's id.
    pub model: &'a str,
    /// Its fidelity, with its precision where that is not `fp32`.
    pub described: String,
    /// Number of workers.
    pub workers: usize,
    /// Samples of a batch.
    pub batch_size: usize,
    /// Memory size of its functions, MB.
    pub memory_mb: Option<u32>,
}

/// Returns a name for each row of a report, with marks.
pub fn names(rows: &[RowSummary]) -> Vec<String> {
    let named = rows.iter().map(|row| Named {
        id: &row.id,
        system: system_title(&row.system),
        model: &row.model,
        described: row.described(),
        workers: row.workers,
        batch_size: row.batch_size,
        memory_mb: row.memory_mb,
    });
    let named: Vec<Named<'_>> = named.collect();
    let mut names = distinguished(&named);
    let on_cpu = (names.iter_mut().zip(rows)).filter(|(_, row)| row.cpu_for_gpu);
    on_cpu.for_each(|(name, _)| name.push_str(ON_CPU));
    names
}

/// Returns a name for each row: the system's, and what else distinguishes rows.
pub fn distinguished(rows: &[Named<'_>]) -> Vec<String> {
    let parts: [fn(&Named<'_>) -> String; 5] = [
        |row| model_title(row.model),
        |row| row.described.clone(),
        |row| format!("W={}", row.workers),
        |row| format!("b={}", row.batch_size),
        |row| (row.memory_mb).map_or(String::new(), |mb| format::megabytes(mb.into())),
    ];
    let mut names: Vec<String> = rows.iter().map(|row| row.system.clone()).collect();
    for part in parts {
        if unique(&names) {
            return names;
        }
        let values: Vec<String> = rows.iter().map(part).collect();
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let valued = (names.iter_mut().zip(values)).filter(|(_, value)| !value.is_empty());
        valued.for_each(|(name, value)| name.push_str(&format!(" · {value}")));
    }
    if !unique(&names) {
        names = rows.iter().map(|row| row.id.to_owned()).collect();
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
