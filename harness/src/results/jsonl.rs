//! Files of one JSON value per line, to which whole rows are added.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ResultsError;

/// Appends `rows` and waits until they are on the disk.
pub(super) fn append<T: Serialize>(
    path: &Path,
    rows: impl IntoIterator<Item = T>,
) -> Result<(), ResultsError> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(ResultsError::io("open", path))?;
    let mut file = BufWriter::new(file);
    for row in rows {
        match serde_json::to_writer(&mut file, &row) {
            Err(error) if error.is_io() => {
                return Err(ResultsError::io("append to", path)(error.into()));
            }
            written => written.map_err(|error| ResultsError::Encode {
                path: path.to_path_buf(),
                reason: error.to_string(),
            })?,
        }
        file.write_all(b"\n")
            .map_err(ResultsError::io("append to", path))?;
    }
    let file = file
        .into_inner()
        .map_err(|error| ResultsError::io("append to", path)(error.into_error()))?;
    file.sync_data().map_err(ResultsError::io("flush", path))
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
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((Vec::new(), false));
        }
        Err(error) => return Err(ResultsError::io("open", path)(error)),
    };
    let (mut rows, mut line) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        file.read_until(b'\n', &mut line)
            .map_err(ResultsError::io("read", path))?;
        match line.split_last() {
            None => break,
            Some((b'\n', [])) => {}
            Some((b'\n', row)) => match serde_json::from_slice(row) {
                Ok(row) => rows.push((number, row)),
                Err(error) => {
                    return Err(ResultsError::Damaged {
                        place: place(path, number),
                        reason: in_one_line(&error),
                    });
                }
            },
            Some(_) => return Ok((rows, true)),
        }
    }
    Ok((rows, false))
}

/// Rows with the numbers of their lines, and whether a last line was cut off.
pub(super) type Numbered<T> = (Vec<(usize, T)>, bool);

/// Returns a line of a file, as errors name it.
pub(super) fn place(path: &Path, line: usize) -> String {
    format!("{}, line {line}", path.display())
}

/// Returns an error inside one line: the parser counts lines of what it was
/// given, and that is always the first.
fn in_one_line(error: &serde_json::Error) -> String {
    error
        .to_string()
        .replace(" at line 1 column ", " at column ")
}

/// Writes `bytes` to `path` so that a reader sees all of them or none.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), ResultsError> {
    replace_with(path, |file| {
        file.write_all(bytes)
            .map_err(ResultsError::io("write", path))
    })
}

/// Writes what `fill` puts into a file to `path`, so that a reader sees all of
/// it or none: into a temporary file in the same directory, which is synced and
/// renamed. The temporary file is deleted where that fails.
pub(super) fn replace_with(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), ResultsError>,
) -> Result<(), ResultsError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(".partial");
    readable(&mut builder);
    let mut temporary = builder
        .tempfile_in(directory)
        .map_err(ResultsError::io("create a file beside", path))?;
    fill(temporary.as_file_mut())?;
    temporary
        .as_file()
        .sync_all()
        .map_err(ResultsError::io("flush", path))?;
    let renamed = temporary.persist(path);
    renamed.map_err(|error| ResultsError::io("rename to", path)(error.error))?;
    Ok(())
}

/// Gives the file the permissions of any other, where `tempfile` would let only
/// its owner read it.
#[cfg(unix)]
fn readable(builder: &mut tempfile::Builder<'_, '_>) {
    use std::os::unix::fs::PermissionsExt;
    builder.permissions(std::fs::Permissions::from_mode(0o666));
}

#[cfg(not(unix))]
fn readable(_: &mut tempfile::Builder<'_, '_>) {}

/// Replaces the file at `path` by exactly these rows.
pub(super) fn rewrite<T: Serialize>(path: &Path, rows: &[T]) -> Result<(), ResultsError> {
    replace(path, b"")?;
    if rows.is_empty() {
        Ok(())
    } else {
        append(path, rows)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_line_cut_off_is_left_out_and_reported() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        assert_eq!(read::<u32>(&path).unwrap(), (vec![], false));
        append(&path, [1, 2]).unwrap();
        append(&path, [3]).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), (vec![1, 2, 3], false));
        let mut text = std::fs::read(&path).unwrap();
        text.extend(b"45");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read::<u32>(&path).unwrap(), (vec![1, 2, 3], true));
        std::fs::write(&path, b"1\nx\n3\n").unwrap();
        let error = read::<u32>(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 2") && !error.contains("line 1"),
            "{error}"
        );
    }
}
