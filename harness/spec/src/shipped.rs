//! Files that this program brings along: experiments with their published tables and
//! validations, and the profiles, places and prices that users begin their own from.
//!
//! A path that begins with [`ROOT`] names one of them. What reads experiments, and the files
//! beside experiments, reads through this module, so that both kinds of path work.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Start of the path of a file that this program brings along.
pub const ROOT: &str = "shipped:";
/// Directory of experiments, on disk and among the shipped files.
const EXPERIMENTS: &str = "experiments";
/// Extension of experiment files.
const EXTENSION: &str = ".yaml";

/// Names and contents, in the order of names within a directory.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Returns name and content of every file.
pub fn files() -> &'static [(&'static str, &'static str)] {
    FILES
}

/// Returns the name of a shipped file or directory, `..` resolved; `None` for a path on disk.
fn name(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.to_str()?.strip_prefix(ROOT)?.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns whether a path names a shipped file or directory.
pub fn is_shipped(path: &Path) -> bool {
    name(path).is_some()
}

/// Returns the content of a shipped file.
fn content(name: &str) -> Option<&'static str> {
    let file = FILES.iter().find(|(known, _)| *known == name)?;
    Some(file.1)
}

/// Most bytes of a file that a user names.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a file.
///
/// # Errors
/// When it cannot be read or has more than 64 MiB; a shipped file when there is none of that name.
pub fn read(path: &Path) -> io::Result<Cow<'static, [u8]>> {
    if let Some(name) = name(path) {
        let text = content(&name).ok_or(io::ErrorKind::NotFound)?;
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    if file.take(MOST_BYTES + 1).read_to_end(&mut bytes)? as u64 > MOST_BYTES {
        let kind = io::ErrorKind::FileTooLarge;
        return Err(io::Error::new(kind, "more than 64 MiB"));
    }
    Ok(Cow::Owned(bytes))
}

/// Reads a text file.
///
/// # Errors
/// As [`read`], and when it is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?.into_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Returns whether there is a file.
pub fn is_file(path: &Path) -> bool {
    match name(path) {
        None => path.is_file(),
        Some(name) => content(&name).is_some(),
    }
}

/// Returns whether there is a directory.
pub fn is_directory(path: &Path) -> bool {
    match name(path) {
        None => path.is_dir(),
        Some(name) => below(&name).next().is_some(),
    }
}

/// Returns the shipped files below a shipped directory, with their paths.
pub fn paths_below(directory: &Path) -> Vec<PathBuf> {
    let Some(directory) = name(directory) else {
        return Vec::new();
    };
    let below = below(&directory).map(|(file, _)| PathBuf::from(format!("{ROOT}{file}")));
    below.collect()
}

/// Returns name and content of every shipped file below a shipped directory.
pub(crate) fn below(directory: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let start = format!("{}/", directory.trim_end_matches('/'));
    FILES
        .iter()
        .copied()
        .filter(move |(name, _)| name.starts_with(&start))
}

/// Returns the directory of experiments: `experiments` in the current directory, or else the
/// shipped one.
pub fn experiments() -> PathBuf {
    let here = Some(PathBuf::from(EXPERIMENTS)).filter(|here| here.is_dir());
    here.unwrap_or_else(shipped_experiments)
}

/// Returns the directory of the shipped experiments.
pub fn shipped_experiments() -> PathBuf {
    PathBuf::from(format!("{ROOT}{EXPERIMENTS}"))
}

/// Returns the file of an experiment that a user named: the file of that path, if there is
/// one; else the experiment of that name (`smoke`, `cost-performance/table2`) in the directory
/// `experiments`; else the shipped one; else the path as it is.
pub fn experiment(named: &Path) -> PathBuf {
    let mut parts = named.components();
    let is_plain = parts.all(|part| matches!(part, Component::Normal(_)));
    let is_there = named.exists() && !named.is_dir();
    if is_there || !is_plain {
        return named.to_owned();
    }
    let found = id(named).and_then(|id| {
        let file = format!("{EXPERIMENTS}/{id}{EXTENSION}");
        let mut candidates = ["", ROOT]
            .map(|root| PathBuf::from(format!("{root}{file}")))
            .into_iter();
        candidates.find(|candidate| is_file(candidate))
    });
    found.unwrap_or_else(|| named.to_owned())
}

/// Returns the directory of experiments that a user named: that of its path, if there is one;
/// else the shipped one of that name (`experiments`, `cost-performance`).
pub fn directory(named: &Path) -> Option<PathBuf> {
    if named.is_dir() {
        return Some(named.to_owned());
    }
    let shipped = if named == Path::new(EXPERIMENTS) {
        shipped_experiments()
    } else {
        shipped_experiments().join(id(named)?)
    };
    is_directory(&shipped).then_some(shipped)
}

/// Returns the name of an experiment: its path below `experiments`, without extension.
pub fn id(named: &Path) -> Option<&str> {
    let name = named.to_str()?;
    let name = name.strip_prefix(ROOT).unwrap_or(name);
    let name = name.strip_prefix("experiments/").unwrap_or(name);
    Some(name.strip_suffix(EXTENSION).unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shipped_file_is_the_one_in_the_source() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (name, content) in files() {
            let is_above = name.starts_with("experiments/");
            let above = if is_above { "../.." } else { ".." };
            let on_disk = std::fs::read_to_string(source.join(above).join(name)).unwrap();
            assert_eq!(*content, on_disk, "{name}");
            let path = PathBuf::from(format!("{ROOT}{name}"));
            assert_eq!(read_to_string(&path).unwrap(), on_disk);
            assert!(is_file(&path), "{name}");
            assert!(is_directory(path.parent().unwrap()), "{name}");
        }
        assert!(files().len() > 90, "{}", files().len());
    }

    #[test]
    fn names_are_paths_below_the_directory() {
        let shipped = PathBuf::from("shipped:experiments/smoke.yaml");
        // Tests of this crate run in its directory, which has no experiments.
        let names = "smoke smoke.yaml experiments/smoke.yaml shipped:experiments/smoke.yaml";
        for named in names.split(' ') {
            assert_eq!(experiment(Path::new(named)), shipped, "{named}");
        }
        let table = experiment(Path::new("cost-performance/table2"));
        let of_paper = "shipped:experiments/cost-performance/table2.yaml";
        assert_eq!(table, Path::new(of_paper));
        for missing in "smok ./smoke /smoke.yaml cost-performance Cargo.toml".split(' ') {
            assert_eq!(experiment(Path::new(missing)), Path::new(missing));
        }
    }

    #[test]
    fn directories_are_told_from_files_and_from_nothing() {
        let at = |name: &str| PathBuf::from(format!("{ROOT}{name}"));
        assert!(is_directory(&at("experiments")) && !is_file(&at("experiments")));
        assert!(!is_directory(&at("experiment")) && !is_directory(&at("experiments/smoke.yaml")));
        assert!(read(&at("experiments/none.yaml")).is_err());
        let around = at("experiments/validation/../smoke.yaml");
        let plain = at("experiments/smoke.yaml");
        assert_eq!(read(&around).unwrap(), read(&plain).unwrap());
        let validation = at("experiments/validation");
        let below = paths_below(&validation);
        assert!(below.contains(&validation.join("data/exchanges.csv")));
        assert!(below.iter().all(|path| path.starts_with(&validation)));
    }
}
