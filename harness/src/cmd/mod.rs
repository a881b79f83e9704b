//! The verbs, one file each: options, one call, and what is printed.

pub mod audit;
pub mod aws;
pub mod check;
pub mod compare;
pub mod dev;
pub mod doctor;
mod fetch;
mod findings;
pub mod list;
pub mod plan;
pub mod profile;
pub mod report;
pub mod reproduce;
pub mod run;
mod selection;
mod spending;

use std::path::Path;

use epochcost_planner::error::Error;
use epochcost_spec::exit::Exit;
use epochcost_spec::ui::Output;

pub use fetch::Fetch;
pub use selection::Selection;
pub use spending::Spending;

/// Returns a text, and no more of it than there is room.
fn cut(text: &str, room: Option<usize>) -> String {
    match room {
        Some(room) if text.chars().count() > room => {
            let cut: String = text.chars().take(room.saturating_sub(1)).collect();
            format!("{}…", cut.trim_end())
        }
        _ => text.to_owned(),
    }
}

/// Returns keys in their order, each once with all of its values.
fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Writes a file, and says so.
fn write_file(path: &Path, text: &str, output: Output) -> Result<(), Error> {
    std::fs::write(path, text).map_err(Error::io(format!("write {}", path.display())))?;
    output.message(format_args!("wrote {}", path.display()));
    Ok(())
}

/// Returns how a verb ends that found what it was to find, or did not.
fn done_or_failed(is_done: bool) -> Exit {
    if is_done { Exit::Done } else { Exit::Failed }
}
