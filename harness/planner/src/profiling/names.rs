//! How a machine, a date and a list are written in profiles and their names.

use std::fmt::Display;
use std::path::Path;

use epochcost_record::Machine;

/// A machine in a few words.
pub(super) fn machine(machine: &Machine) -> String {
    let cpu = machine.cpu.as_deref().unwrap_or("unknown CPU");
    let cores = match machine.cores {
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    };
    let memory = machine.memory_bytes.map_or(String::new(), |bytes| {
        format!(", {:.0} GB", bytes as f64 / 1e9)
    });
    format!("{cpu}, {cores}{memory}")
}

/// The name of the profile in a file.
pub(super) fn stem(file: &Path) -> String {
    let stem = file.file_stem();
    stem.map_or("profile".into(), |stem| stem.to_string_lossy().into_owned())
}

/// Numbers in a row.
pub(super) fn listed(numbers: &[impl Display]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(", ")
}

/// Today's date in UTC, `YYYY-MM-DD`.
pub(super) fn today() -> String {
    jiff::Timestamp::now().strftime("%F").to_string()
}
