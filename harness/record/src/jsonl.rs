//! Files of one JSON value per line, to which whole rows are added.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use epochcost_datasets::flush;
use epochcost_spec::hash::Hash;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ResultsError;
use super::seal::{UNSEALED, open_line, seal_line};
use super::whole::{replace, sync_directory};

/// Appends `rows`, each with its checksum, and waits until they are on the disk; returns the
/// SHA-256 of the lines.
pub(super) fn append<T: Serialize>(
    path: &Path,
    rows: impl IntoIterator<Item = T>,
) -> Result<String, ResultsError> {
    let mut hash = Hash::default();
    let is_new = !path.exists();
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(ResultsError::io("open", path))?;
    let mut file = BufWriter::new(file);
    for row in rows {
        let mut line = serde_json::to_vec(&row).map_err(ResultsError::encode(path))?;
        seal_line(&mut line);
        line.push(b'\n');
        hash.add(&line);
        file.write_all(&line)
            .map_err(ResultsError::io("append to", path))?;
    }
    let file = file
        .into_inner()
        .map_err(|error| ResultsError::io("append to", path)(error.into_error()))?;
    flush(&file).map_err(ResultsError::io("flush", path))?;
    if is_new {
        sync_directory(path.parent().unwrap_or(Path::new(".")))?;
    }
    Ok(hash.hex())
}

/// Returns the SHA-256 of the lines of each key.
pub(super) fn hashes<T: DeserializeOwned, K: Ord>(
    path: &Path,
    key: impl Fn(T) -> K,
) -> Result<BTreeMap<K, String>, ResultsError> {
    let mut hashes: BTreeMap<K, Hash> = BTreeMap::new();
    each_line(path, |number, line| {
        let hash = hashes.entry(key(parse(path, number, line)?)).or_default();
        hash.add(line);
        hash.add(b"\n");
        Ok(())
    })?;
    let hashes = hashes.into_iter();
    Ok(hashes.map(|(key, hash)| (key, hash.hex())).collect())
}

/// Reads every row; an absent file has none.
///
/// A last line without its line end was cut off while it was written: it is
/// left out, and the second value reports it.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<(Vec<T>, bool), ResultsError> {
    let (rows, is_cut) = read_numbered(path)?;
    Ok((rows.into_iter().map(|(_, row)| row).collect(), is_cut))
}

/// Reads every row with the number of its line.
pub(super) fn read_numbered<T: DeserializeOwned>(path: &Path) -> Result<Numbered<T>, ResultsError> {
    let mut rows = Vec::new();
    let is_cut = each_line(path, |number, line| {
        rows.push((number, parse(path, number, line)?));
        Ok(())
    })?;
    Ok((rows, is_cut))
}

/// Drops the rows that `keep` refuses and a last line that was cut off: the file is replaced
/// by a whole new one that holds the other lines as they are. A file without such lines is
/// left alone.
pub(super) fn retain<T: DeserializeOwned>(
    path: &Path,
    keep: impl Fn(&T) -> bool,
) -> Result<(), ResultsError> {
    let (mut kept, mut drops) = (Vec::new(), false);
    let is_cut = each_line(path, |number, line| {
        if keep(&parse(path, number, line)?) {
            kept.extend_from_slice(line);
            kept.push(b'\n');
        } else {
            drops = true;
        }
        Ok(())
    })?;
    if drops || is_cut {
        replace(path, &kept)?;
    }
    Ok(())
}

/// Rows with the numbers of their lines, and whether a last line was cut off.
pub(super) type Numbered<T> = (Vec<(usize, T)>, bool);

/// Passes every whole line that is not empty, without its line end, and its number to `each`.
/// Returns whether a last line was cut off. An absent file has no lines.
fn each_line(
    path: &Path,
    mut each: impl FnMut(usize, &[u8]) -> Result<(), ResultsError>,
) -> Result<bool, ResultsError> {
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(ResultsError::io("open", path)(error)),
    };
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        file.read_until(b'\n', &mut line)
            .map_err(ResultsError::io("read", path))?;
        match line.split_last() {
            None => break,
            Some((b'\n', [])) => {}
            Some((b'\n', row)) => each(number, row)?,
            Some(_) => return Ok(true),
        }
    }
    Ok(false)
}

fn parse<T: DeserializeOwned>(path: &Path, number: usize, line: &[u8]) -> Result<T, ResultsError> {
    let damaged = |reason| ResultsError::Damaged {
        place: place(path, number),
        reason,
    };
    let (row, is_sealed) = open_line(line).map_err(damaged)?;
    // What does not parse is reported as that: its reason says more.
    let parsed = serde_json::from_slice(&row).map_err(|error| damaged(in_one_line(&error)))?;
    if !is_sealed {
        return Err(damaged(UNSEALED.to_owned()));
    }
    Ok(parsed)
}

/// Returns a line of a file, as errors name it.
pub(super) fn place(path: &Path, line: usize) -> String {
    format!("{}, line {line}", path.display())
}

/// Returns an error inside one line: the parser counts lines of what it was
/// given, and that is always the first.
fn in_one_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.replace(" at line 1 column ", " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u32) -> serde_json::Value {
        serde_json::json!({ "a": number })
    }

    /// Returns a file with these rows.
    fn file(directory: &Path, numbers: &[u32]) -> std::path::PathBuf {
        let path = directory.join("rows.jsonl");
        append(&path, numbers.iter().copied().map(row)).unwrap();
        path
    }

    type Rows = Vec<serde_json::Value>;

    #[test]
    fn a_line_cut_off_is_left_out_and_reported() {
        let directory = tempfile::tempdir().unwrap();
        let absent = directory.path().join("absent.jsonl");
        assert_eq!(read(&absent).unwrap(), (Rows::new(), false));
        let path = file(directory.path(), &[1, 2]);
        append(&path, [row(3)]).unwrap();
        let all: Rows = [1, 2, 3].map(row).into();
        assert_eq!(read(&path).unwrap(), (all.clone(), false));
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, whole.clone() + "{\"a\":4").unwrap();
        assert_eq!(read(&path).unwrap(), (all, true));
        let second = whole.lines().nth(1).unwrap();
        std::fs::write(&path, whole.replace(second, "x")).unwrap();
        let error = read::<serde_json::Value>(&path).unwrap_err().to_string();
        let names_second = error.contains("line 2") && !error.contains("line 1");
        assert!(names_second, "{error}");
    }

    #[test]
    fn lines_are_dropped_by_one_rename_and_only_if_there_are_any() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), &[1, 2, 3]);
        let whole = std::fs::read_to_string(&path).unwrap();
        let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
        let before = inode();
        retain(&path, |_: &serde_json::Value| true).unwrap();
        assert_eq!(inode(), before, "nothing was cut");
        // The name of the old file holds its content until the new one is whole.
        let old = File::open(&path).unwrap();
        retain(&path, |other: &serde_json::Value| *other != row(2)).unwrap();
        assert_ne!(inode(), before);
        assert_eq!(std::io::read_to_string(old).unwrap(), whole);
        let kept: Rows = vec![row(1), row(3)];
        assert_eq!(read(&path).unwrap(), (kept.clone(), false));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text + "{").unwrap();
        retain(&path, |_: &serde_json::Value| true).unwrap();
        assert_eq!(read(&path).unwrap(), (kept, false));
    }

    #[test]
    fn a_row_is_refused_without_its_checksum() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("plain.jsonl");
        std::fs::write(&plain, b"{\"a\":1}\n").unwrap();
        let error = read::<serde_json::Value>(&plain).unwrap_err();
        assert!(error.to_string().contains("plain.jsonl, line 1"), "{error}");
    }
}
